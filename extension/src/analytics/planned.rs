//! Which of a session's SELECTs the worker answers by itself (`chainify.analytics`).
use super::ask::{query, At};
use super::mirrored::{last_block, mirrored};
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::error::PgError;
use crate::pg::base::settings;
use crate::pg::base::settings::Analytics as Setting;
use crate::pg::base::text_rows::Sink;
use crate::pg::base::version;
use crate::pg::session_transaction::{isolation, Isolation};
use crate::pg::translate::worker::Analytics;
use crate::session::plain_sql;

/// The answers for the planner's hook and the scan.
pub const ANALYTICS: Analytics = Analytics {
    wanted,
    least_cost,
    mirrored,
    last_block,
    ask,
};

/// An ordinary session that has not changed ledger tables, which the worker would not see. The
/// reads of a SERIALIZABLE transaction are its own. Objects of an earlier version know no worker.
fn wanted() -> bool {
    settings::analytics() != Setting::Off
        && phase() == Phase::Outside
        && !plain_sql::has_changes()
        && isolation() != Isolation::Serializable
        && version::check().is_ok()
}

fn least_cost() -> f64 {
    match settings::analytics() {
        Setting::Auto => settings::analytics_cost(),
        _ => 0.0,
    }
}

/// A cursor sees the block that it began at, and a transaction of one snapshot the block of that;
/// another sees the newest.
fn ask(sql: &str, of_cursor: Option<i64>, sink: Sink) -> Result<Option<i64>, PgError> {
    let at = match (of_cursor, isolation()) {
        (Some(block), _) => At::Block(block),
        (None, Isolation::ReadCommitted) => At::Newest(last_block()),
        _ => At::Block(last_block()),
    };
    query(at, sql, |row| sink(row))
}
