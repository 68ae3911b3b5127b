//! What a worker of each database does beside the blocks: folds history into the base of the checkpoints, and has the
//! scrubber read every table from time to time. Started when the node connects, it ends when the node is gone.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::{settings, spi};
use crate::pg::shared::{conflict_memory, maintainer};
use crate::recovery::scrub;

crate::sql_function!(chainify_maintain, pg_finfo_chainify_maintain, maintain);

/// How often it looks for work.
const LOOK: Duration = Duration::from_secs(1);
/// How often a new worker looks whether another one has ended; that looks for its node once a second, between its work.
const LOOKS_FOR_LOCK: u32 = 5;
/// How long it leaves alone what failed, and what gave way to a block.
const AFTER_FAILURE: Duration = Duration::from_secs(60);
const AFTER_GIVING_WAY: Duration = Duration::from_secs(5);
/// Changes folded, or read again, in one transaction.
const CHANGES_MAX: i64 = 10_000;
/// The node's advisory lock of the database is (SPACE, NODE), the worker's (SPACE, WORKER): spec/sql-api.md.
const SPACE: i32 = 0x6368_6679;
const NODE: i32 = 1;
const WORKER: i32 = 2;

/// Sets what workers run; once, in the postmaster.
pub fn install() {
    maintainer::install(run);
}

/// `chainify_ledger.maintain()`: starts this database's worker, which ends after some seconds when there is one.
fn maintain(call: &mut Call) -> Answer {
    call.value(maintainer::start())
}

fn run() {
    if !becomes_the_only_one() {
        return;
    }
    conflict_memory::maintains();
    let (mut fold_after, mut scrub_after, mut audit_after) = (None, None, None);
    while node_is_there() {
        work(&mut fold_after, "folding history", fold);
        work(&mut audit_after, "reading the past", audit);
        work(&mut scrub_after, "scrubbing", scrub_next);
        maintainer::wait(LOOK);
    }
}

/// Whether no other worker has this database, now or as soon as one that saw the last node go has ended: a node that comes back
/// at once must not be left without.
fn becomes_the_only_one() -> bool {
    let lock = "SELECT pg_catalog.pg_try_advisory_lock($1, $2)";
    for _ in 0..LOOKS_FOR_LOCK {
        if said(c"starting", lock, WORKER) {
            return true;
        }
        maintainer::wait(LOOK);
    }
    false
}

/// What came of a piece of work.
enum Done {
    /// There may be more at once.
    Some,
    /// There is no more for now.
    All,
    /// A block was in the way.
    GaveWay,
}

/// Does one kind of work unless it failed, or gave way, a moment ago.
fn work(after: &mut Option<Instant>, what: &str, f: fn() -> Result<Done, PgError>) {
    if after.is_some_and(|after| Instant::now() < after) {
        return;
    }
    *after = None;
    loop {
        let pause = match f() {
            Ok(Done::Some) => {
                maintainer::wait(Duration::ZERO);
                continue;
            }
            Ok(Done::All) => return,
            Ok(Done::GaveWay) => AFTER_GIVING_WAY,
            Err(error) if matches!(error.sqlstate.as_str(), "57014" | "CH007") => {
                pgrx::log!("{what}: {}", error.message);
                AFTER_GIVING_WAY
            }
            Err(error) => {
                maintainer::warn(what, &error);
                AFTER_FAILURE
            }
        };
        *after = Some(Instant::now() + pause);
        return;
    }
}

/// What a query over a lock says; false when it fails.
fn said(activity: &'static CStr, sql: &str, lock: i32) -> bool {
    let mut said = false;
    let asked = maintainer::transaction(activity, || {
        spi::connected(|| {
            spi::query(sql, &[cell(SPACE), cell(lock)], |row| said = row.must(1));
        })
    });
    if let Err(error) = &asked {
        maintainer::warn("looking for the node", error);
    }
    said
}

/// Whether a node holds its lock on this database, and the extension is still there.
fn node_is_there() -> bool {
    let sql = "SELECT to_regclass('chainify_ledger.chain') IS NOT NULL AND EXISTS (
        SELECT FROM pg_catalog.pg_locks l
        WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 2
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))";
    said(c"looking for the node", sql, NODE)
}

fn fold() -> Result<Done, PgError> {
    let mut more = Done::All;
    let folded = maintainer::transaction(c"folding history", || {
        let sql = "SELECT block FROM chainify_node.fold_history($1)";
        spi::connected(|| {
            spi::query(sql, &[cell(CHANGES_MAX)], |row| {
                if row.get::<i64>(1).is_some() {
                    more = Done::Some;
                }
            })
        });
    });
    if let Err(error) = &folded {
        if error.sqlstate.as_str() == "CH002" {
            let detail = error.detail.clone().unwrap_or_default();
            maintainer::transaction(c"recording a deviation", || {
                scrub::record_history(&format!("{}. {detail}", error.message))
            })?;
        }
    }
    folded.map(|()| more)
}

/// Reads some of the blocks that no checkpoint needs any more, at the scrubber's rate.
fn audit() -> Result<Done, PgError> {
    let Some(rate) = settings::scrub_rate() else {
        return Ok(Done::All);
    };
    let (mut block, mut findings) = (None, 0);
    maintainer::transaction(c"reading the past", || {
        let sql = "SELECT block, findings FROM chainify_node.audit($1)";
        spi::connected(|| {
            spi::query(sql, &[cell(CHANGES_MAX)], |row| {
                block = row.get::<i64>(1);
                findings = row.must::<i64>(2);
            })
        });
    })?;
    if findings > 0 {
        pgrx::warning!(
            "{findings} blocks are not kept as agreed; another organisation has to tell them"
        );
    }
    if block.is_some() {
        maintainer::wait(Duration::from_secs_f64(CHANGES_MAX as f64 / rate as f64));
    }
    Ok(block.map_or(Done::All, |_| Done::Some))
}

/// Scrubs the table that was not read for longest, when its turn has come.
fn scrub_next() -> Result<Done, PgError> {
    let Some(rate) = settings::scrub_rate() else {
        return Ok(Done::All);
    };
    let interval_s = settings::scrub_interval().as_secs_f64();
    let next = "SELECT l.relation FROM chainify_ledger.ledger_table l
        LEFT JOIN chainify_ledger.scrubbed s ON s.table_id = l.id
        WHERE l.detached_at IS NULL AND (s.at + make_interval(secs => $1) < clock_timestamp()) IS NOT FALSE
        ORDER BY s.at NULLS FIRST, l.id LIMIT 1";
    let mut table = None;
    maintainer::transaction(c"scrubbing", || {
        spi::connected(|| {
            spi::query(next, &[cell(interval_s)], |row| {
                table = row.get::<pgrx::pg_sys::Oid>(1)
            })
        });
    })?;
    let Some(table) = table else {
        return Ok(Done::All);
    };
    let mut found = None;
    maintainer::transaction(c"scrubbing", || {
        let sql = "SELECT findings FROM chainify_node.scrub($1::oid::regclass, $2)";
        spi::connected(|| {
            spi::query(sql, &[cell(table), cell(rate)], |row| {
                found = row.get::<i64>(1)
            });
        });
    })?;
    let Some(found) = found else {
        return Ok(Done::GaveWay);
    };
    if found > 0 {
        pgrx::warning!("scrubbing found {found} deviations; chainify.deviations has them");
    }
    Ok(Done::Some)
}
