//! Sends a query at a block, or a question about the worker's own state, to the analytics worker.
use std::time::{Duration, Instant};

use super::worker::ask;
use crate::pg::base::error::PgError;
use crate::pg::base::settings;
use crate::pg::base::text_rows::TextRow;

/// How long the worker may take to tell of itself.
const STATUS_WAIT: Duration = Duration::from_secs(2);
/// Longer than any query: there is no limit.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The block that a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// This one.
    Block(i64),
    /// The newest that the worker has, and at least this one.
    Newest(i64),
}

/// Runs a query of the worker's dialect; `row` sees each row. Returns the block whose rows the
/// worker answered with, where it names it. Errors: the worker's, and 08001 and
/// 08006 when it does not answer.
pub fn query(
    at: At,
    sql: &str,
    row: impl FnMut(&TextRow) -> Result<(), PgError>,
) -> Result<Option<i64>, PgError> {
    let block = match at {
        At::Block(block) => block.to_string(),
        At::Newest(block) => format!(">={block}"),
    };
    let statements = [
        format!("SET chainify.block = '{block}'"),
        format!(
            "SET statement_timeout = '{}'",
            settings::statement_timeout_ms()
        ),
        sql.to_owned(),
    ];
    let limit = settings::analytics_timeout().unwrap_or(NO_LIMIT);
    ask(&socket()?, &statements, Instant::now() + limit, row)
}

/// Runs a statement about the worker itself.
pub fn about_itself(
    statement: &str,
    row: impl FnMut(&TextRow) -> Result<(), PgError>,
) -> Result<(), PgError> {
    let deadline = Instant::now() + STATUS_WAIT;
    ask(&socket()?, &[statement.to_owned()], deadline, row).map(drop)
}

/// Path of the worker's socket. Errors: 08001 when none is configured.
fn socket() -> Result<String, PgError> {
    let directory = settings::analytics_socket();
    if directory.is_empty() {
        let error = PgError::new(
            b"08001",
            "no analytics worker is configured for this database",
        );
        return Err(error
            .detail("The setting \"chainify.analytics_socket\" is empty.")
            .hint("Start chainify-analytics, and set it to the directory of the worker's socket, in postgresql.conf or with ALTER SYSTEM, and reload."));
    }
    let port = settings::analytics_port();
    Ok(format!("{directory}/.s.PGSQL.{port}"))
}
