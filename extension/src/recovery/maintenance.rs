//! The maintenance worker of a database. `chainify_worker::maintenance` decides its next step; this
//! file carries it out.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use chainify_worker::maintenance::{self, Audited, Level, Settings};
use chainify_worker::prepared::Known;
use chainify_worker::scrubbing::TableRead;
use chainify_worker::summaries::{BlockIndex, Due, Ranges};
use chainify_worker::Failure;

use crate::ledger::failure;
use crate::pg::base::function::{cell, Answer, Call, Cell};
use crate::pg::base::spi::Row;
use crate::pg::base::{prepared, settings, spi};
use crate::pg::shared::{conflict_memory, maintainer};
use crate::recovery::earlier_blocks::micros;
use crate::recovery::scrub;

crate::pg::sql_function!(chainify_maintain, pg_finfo_chainify_maintain, maintain);

/// The node's advisory lock of the database is (SPACE, NODE), the worker's (SPACE, WORKER):
/// spec/sql-api.md.
const SPACE: i32 = 0x6368_6679;
const NODE: i32 = 1;
const WORKER: i32 = 2;

/// `chainify_ledger.maintain()`: starts this database's worker, which ends after some seconds when
/// there is one.
fn maintain(call: &mut Call) -> Answer {
    call.value(maintainer::start())
}

/// Runs in the maintenance worker until it has to stop.
pub fn run() {
    maintenance::run(&mut Database {
        start: Instant::now(),
    });
}

/// The database of this process.
struct Database {
    start: Instant,
}

impl maintenance::Host for Database {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait(&mut self, time: Duration) {
        maintainer::wait(time);
    }

    fn say(&mut self, level: Level, text: &str) {
        match level {
            Level::Log => pgrx::log!("{text}"),
            Level::Warning => pgrx::warning!("{text}"),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            scrub_rate: settings::scrub_rate(),
            scrub_interval: settings::scrub_interval(),
        }
    }

    fn takes_turn(&mut self) -> Result<bool, Failure> {
        let sql = "SELECT pg_catalog.pg_try_advisory_lock($1, $2)";
        one(c"starting", sql, &[cell(SPACE), cell(WORKER)], |row| {
            row.must(1)
        })
    }

    fn has_turn(&mut self) {
        conflict_memory::maintains();
    }

    fn node_is_there(&mut self) -> Result<bool, Failure> {
        let sql = "SELECT to_regclass('chainify_ledger.chain') IS NOT NULL AND EXISTS (
            SELECT FROM pg_catalog.pg_locks l
            WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 2
                AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()))";
        let lock = [cell(SPACE), cell(NODE)];
        one(c"looking for the node", sql, &lock, |row| row.must(1))
    }

    fn prepared(&mut self) -> Result<Vec<String>, Failure> {
        let sql = "SELECT p.gid FROM pg_catalog.pg_prepared_xacts p
            WHERE p.database = pg_catalog.current_database() ORDER BY p.prepared, p.gid";
        let mut names = Vec::new();
        let activity = c"looking for prepared local changes";
        transaction(activity, || {
            spi::connected(|| spi::query(sql, &[], |row| names.push(row.must(1))))
        })?;
        Ok(names)
    }

    fn known(&mut self, id: &[u8]) -> Result<Known, Failure> {
        // A transaction of a half-committed block has a row, and may get another outcome.
        let sql = "SELECT
            (SELECT t.succeeded FROM chainify_ledger.transaction t
                WHERE t.id = $1 AND EXISTS (SELECT FROM chainify_ledger.block b WHERE b.number = t.block)),
            coalesce((SELECT b.order_height FROM chainify_ledger.block b ORDER BY b.number DESC LIMIT 1), 0)";
        let activity = c"looking for an outcome";
        let mut known = None;
        transaction(activity, || {
            spi::connected(|| {
                spi::query(sql, &[cell(id.to_vec())], |row| {
                    known = Some(Known {
                        succeeded: row.get(1),
                        height: row.must::<i64>(2).unsigned_abs(),
                    })
                })
            })
        })?;
        Ok(known.unwrap_or(Known {
            succeeded: None,
            height: 0,
        }))
    }

    fn finish(&mut self, name: &str, commits: bool) -> Result<(), Failure> {
        prepared::finish(name, commits).map_err(failure::of_error)
    }

    fn block_indexes(&mut self) -> Result<Vec<BlockIndex>, Failure> {
        let sql = "SELECT i.indexrelid, pg_relation_size(i.indrelid) / current_setting('block_size')::bigint,
                coalesce((SELECT o.option_value::bigint FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'pages_per_range'), 128),
                coalesce((SELECT a.dropped FROM chainify_ledger.archived a), 0)
            FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
            WHERE a.amname = 'brin' AND c.relnamespace::regnamespace::text IN ('chainify_history', 'chainify_ledger')";
        let mut indexes = Vec::new();
        transaction(c"looking for indexes by block", || {
            spi::connected(|| {
                spi::query(sql, &[], |row| {
                    indexes.push(BlockIndex {
                        index: row.must::<pgrx::pg_sys::Oid>(1).to_u32(),
                        pages: row.get(2).unwrap_or(0), // the table was dropped just now
                        pages_per_range: row.must(3),
                        dropped: row.must(4),
                    })
                })
            })
        })?;
        Ok(indexes)
    }

    fn sum_up(&mut self, index: u32, due: Due) -> Result<(), Failure> {
        let index = || cell(pgrx::pg_sys::Oid::from(index));
        let each = |what: &str, Ranges { first, last, step }| {
            let sql = format!("SELECT {what} FROM generate_series($2, $3, $4) page");
            spi::query(
                &sql,
                &[index(), cell(first), cell(last), cell(step)],
                |_| (),
            )
        };
        transaction(c"summing up an index by block", || {
            spi::connected(|| {
                spi::execute("SELECT set_config('lock_timeout', '100ms', true)", &[]);
                match due {
                    Due::All => spi::query(
                        "SELECT brin_summarize_new_values($1::oid::regclass)",
                        &[index()],
                        |_| (),
                    ),
                    Due::Ranges(ranges) => {
                        each("brin_summarize_range($1::oid::regclass, page)", ranges)
                    }
                    Due::Anew(ranges) => each(
                        "brin_desummarize_range($1::oid::regclass, page),
                         brin_summarize_range($1::oid::regclass, page)",
                        ranges,
                    ),
                }
            });
        })
    }

    fn fold(&mut self, changes_max: i64) -> Result<Option<i64>, Failure> {
        let sql = "SELECT block FROM chainify_node.fold_history($1)";
        one(c"folding history", sql, &[cell(changes_max)], |row| {
            row.get(1)
        })
    }

    fn record_history(&mut self, what: &str) -> Result<(), Failure> {
        transaction(c"recording a deviation", || scrub::record_history(what))
    }

    fn audit(&mut self, changes_max: i64) -> Result<Audited, Failure> {
        let sql = "SELECT block, findings FROM chainify_node.audit($1)";
        one(c"reading the past", sql, &[cell(changes_max)], |row| {
            Audited {
                block: row.get(1),
                findings: row.must(2),
            }
        })
    }

    fn tables(&mut self) -> Result<Vec<TableRead>, Failure> {
        // A table that is to be read soon was read at -infinity.
        let sql = "SELECT l.relation, CASE WHEN s.at = '-infinity' THEN 9223372036854775807
                ELSE (extract(epoch FROM n.now - s.at) * 1000000)::bigint END
            FROM (SELECT clock_timestamp() AS now) n CROSS JOIN chainify_ledger.ledger_table l
            LEFT JOIN chainify_ledger.scrubbed s ON s.table_id = l.id
            WHERE l.detached_at IS NULL ORDER BY l.id";
        let mut tables = Vec::new();
        transaction(c"scrubbing", || {
            spi::connected(|| {
                spi::query(sql, &[], |row| {
                    tables.push(TableRead {
                        relation: row.must::<pgrx::pg_sys::Oid>(1).to_u32(),
                        ago: row.get::<i64>(2).map(micros),
                    })
                })
            })
        })?;
        Ok(tables)
    }

    fn scrub(&mut self, relation: u32, rows_per_second: i64) -> Result<Option<i64>, Failure> {
        let sql = "SELECT findings FROM chainify_node.scrub($1::oid::regclass, $2)";
        let table = pgrx::pg_sys::Oid::from(relation);
        let args = [cell(table), cell(rows_per_second)];
        one(c"scrubbing", sql, &args, |row| row.get(1))
    }
}

/// The last row of a query; the default when there is none.
fn one<T: Default>(
    activity: &'static CStr,
    sql: &str,
    args: &[Cell],
    read: impl Fn(&Row) -> T,
) -> Result<T, Failure> {
    let mut found = T::default();
    transaction(activity, || {
        spi::connected(|| spi::query(sql, args, |row| found = read(row)))
    })?;
    Ok(found)
}

fn transaction<T>(activity: &'static CStr, f: impl FnOnce() -> T) -> Result<T, Failure> {
    maintainer::transaction(activity, f).map_err(failure::of_error)
}
