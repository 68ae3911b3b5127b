//! The scrubber: reads a ledger table and its base under one snapshot (R4), slowly, and compares
//! them with the certified state. So it finds tampering in places that no block touches: changed,
//! missing and added rows, dropped triggers, a changed definition.
//!
//! It records its findings as an open deviation; `chainify_node.position` tells the node, which
//! repairs.

use std::time::Instant;

use chainify_codec::{LaneHasher, State};
use chainify_worker::scrubbing::{pause_of_repair, Pace};
use pgrx::{pg_sys, JsonB};

use crate::block::half_committed;
use crate::ledger::checkpoints;
use crate::ledger::ledger_tables;
use crate::ledger::ledger_tables::LedgerTable;
use crate::ledger::stored_blocks;
use crate::ledger::{damaged_rows, definitions, definitions_lock, row_bytes};
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::encode::RowEncoder;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::latch;
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::relation::Relation;
use crate::pg::base::slices::{Slice, Slices};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::recovery::earlier_blocks;
use crate::verify::finding::Finding;
use crate::verify::table;
use crate::verify::{indexes, ledger};

crate::pg::sql_function!(chainify_scrub, pg_finfo_chainify_scrub, scrub);

/// Findings recorded of one pass; of more only the number.
const FINDINGS_RECORDED_MAX: usize = 1_000;

/// One pass over a table.
struct Pass {
    since: Instant,
    pace: Pace,
}

impl Pass {
    /// Waits until the rows so far took as long as they should.
    fn keep_pace(&self) {
        latch::pause(self.pace.ahead(self.since.elapsed()));
    }

    /// One entry of an index more.
    fn entry(&mut self) {
        if self.pace.read_entry() {
            self.keep_pace();
        }
    }
}

/// `chainify_node.scrub(ledger_table, rows_per_second)`; contract in spec/sql-api.md. Cost: one
/// read of the table and one of its base, a BLAKE3 expansion per row; much more when they deviate.
fn scrub(call: &mut Call) -> Answer {
    let relation: pg_sys::Oid = call.required(0, "ledger_table");
    let mut pass = Pass {
        since: Instant::now(),
        pace: Pace::new(call.arg(1)),
    };
    row_bytes::forget();
    let (number, findings) = spi::connect(|client| {
        let tables = ledger_tables::all(client, Sees::Statement);
        let Some(table) = tables.iter().find(|table| table.relation == relation) else {
            PgError::new(b"42P01", "table is not on the ledger").raise()
        };
        let number = stored_blocks::last_block(client, Sees::Statement).unwrap_or_default();
        // Parts of a block that are committed before the block itself are no deviation.
        if half_committed::number(client, Sees::Statement).is_some() {
            return (number, None);
        }
        let Some(mut findings) = definition(table.id) else {
            return (number, None);
        };
        let readable = table.unreadable().is_none();
        if readable && !contents(client, &tables, table, number, &mut pass, &mut findings) {
            return (number, None);
        }
        // This holds no lock now that a block or a repair may need, so it may wait for them (R11).
        own_lock::share(OwnLock::Definitions);
        if !is_attached(client, table) {
            return (number, None);
        }
        record(client, table, number, &pass, &findings);
        (number, Some(findings.len() as i64))
    });
    call.record(&[
        cell(number),
        cell(pass.pace.rows() as i64),
        cell::<i64>(findings),
    ])
}

/// Whether this version of the table is still what the ledger has.
fn is_attached(client: &SpiClient<'_>, table: &LedgerTable) -> bool {
    let sql = "SELECT FROM chainify_ledger.ledger_table WHERE id = $1 AND detached_at IS NULL";
    Cursor::open(client, Sees::Latest, sql, &[table.id.into()])
        .next_row()
        .is_some()
}

/// The faults of triggers and definition; None as for [`definitions_lock::seen_twice`].
fn definition(id: i32) -> Option<Vec<Finding>> {
    definitions_lock::seen_twice(|client| {
        let mut findings = table::definition_findings(client, id);
        let defects = definitions::defects(client, Sees::Latest);
        findings.extend(defects.into_iter().map(of_definition));
        findings
    })
}

/// A function, policy or other object under the ledger that was changed without it.
pub fn of_definition(defect: definitions::Defect) -> Finding {
    let text = |text: Option<String>| text.map(|text| JsonB(serde_json::json!(text)));
    Finding {
        what: "definition",
        key: Some(JsonB(serde_json::json!({ "object": defect.object }))),
        expected: text(defect.expected),
        found: text(defect.found),
    }
}

/// Compares rows and base; false when the table was rewritten meanwhile and nothing can be said.
fn contents(
    client: &SpiClient<'_>,
    tables: &[LedgerTable],
    table: &LedgerTable,
    number: i64,
    pass: &mut Pass,
    findings: &mut Vec<Finding>,
) -> bool {
    // No lock of a partition is left, since the pass is long, and the table may be wanted after it.
    let leaves = definitions_lock::unlocked(|client| table.leaves(client, Sees::Statement));
    let Some(live) = read(table, &leaves, pass) else {
        return false;
    };
    let known = findings.len();
    let certified = table::check_states(client, tables, table, &live, number, &mut |finding| {
        findings.push(finding)
    });
    if findings.len() > known && !certified {
        let readable = definitions_lock::unlocked(|client| {
            table::check_rows(client, table, number, false, &mut |finding| {
                findings.push(finding)
            })
        });
        if !readable {
            return true;
        }
    }
    let broken = definitions_lock::unlocked(|client| {
        let relations = indexes::read_by_index(client, Sees::Statement, table);
        indexes::defects(client, Sees::Statement, &relations, &mut || pass.entry())
    });
    findings.extend(broken.into_iter().map(indexes::Defect::finding));
    base(client, table, pass, findings)
}

/// Compares the base with its checkpoint, when it is at one; false as for [`contents`].
fn base(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    pass: &mut Pass,
    findings: &mut Vec<Finding>,
) -> bool {
    let kept = checkpoints::of_table(client, Sees::Statement, table);
    let Some(kept) = kept.iter().find(|kept| kept.block == table.base_block) else {
        return true;
    };
    let Some(state) = read(table, &[table.base], pass) else {
        return false;
    };
    findings.extend(table::checkpoint_finding(table, kept, &state));
    true
}

/// The state of these relations' rows together, without those that cannot be read; `None` when one
/// was rewritten meanwhile.
fn read(table: &LedgerTable, relations: &[pg_sys::Oid], pass: &mut Pass) -> Option<State> {
    let columns = row_bytes::columns(table.id);
    let hasher = LaneHasher::new(&table.name);
    let mut state = State::default();
    let mut bytes = Vec::new();
    for relation in relations {
        let encoder = |relation: &Relation| RowEncoder::new(relation, &columns);
        let (mut slices, encoder) = Slices::of(*relation, encoder)?;
        let encoder = encoder.ok()?; // a block changed the columns meanwhile
        loop {
            let before = state.row_count;
            let slice = slices.read(&mut |row| {
                bytes.clear();
                if damaged_rows::row(&encoder, row, &mut bytes).is_ok() {
                    state.add(&hasher, &bytes);
                }
            });
            pass.pace.read(state.row_count - before);
            match slice {
                Slice::Read => pass.keep_pace(),
                Slice::End => break,
                Slice::Replaced => return None,
            }
        }
    }
    Some(state)
}

/// Notes the pass over the table, and its findings unless a deviation is open: then recovery is on
/// its way.
fn record(
    client: &SpiClient<'_>,
    table: &LedgerTable,
    number: i64,
    pass: &Pass,
    findings: &[Finding],
) {
    let clean_block = findings.is_empty().then_some(number);
    let sql = "INSERT INTO chainify_ledger.scrubbed AS s (table_id, block, rows, findings, clean_block, clean_at, at, took)
        VALUES ($1, $2, $3, $4, $5, CASE WHEN $4 = 0 THEN clock_timestamp() END, clock_timestamp(), make_interval(secs => $6))
        ON CONFLICT (table_id) DO UPDATE SET block = excluded.block, rows = excluded.rows, findings = excluded.findings,
            clean_block = coalesce(excluded.clean_block, s.clean_block), clean_at = coalesce(excluded.clean_at, s.clean_at), at = excluded.at, took = excluded.took";
    spi::connected(|| {
        let arguments = [
            cell(table.id),
            cell(number),
            cell(pass.pace.rows() as i64),
            cell(findings.len() as i64),
            cell::<i64>(clean_block),
            cell(pass.since.elapsed().as_secs_f64()),
        ];
        spi::query(sql, &arguments, |_| ());
    });
    let since = since(client, &[table.name.as_str()]);
    let row = |finding: &Finding| Row {
        table: table.name.clone(),
        key: copy(&finding.key),
        expected: copy(&finding.expected),
        found: copy(&finding.found),
    };
    let total = findings.len() as i64;
    if total > 0 {
        let rows: Vec<_> = findings
            .iter()
            .take(FINDINGS_RECORDED_MAX)
            .map(row)
            .collect();
        open(number, since, &rows, total);
    }
}

/// Makes this the next table to be read: other rows may have changed behind the ledger where one
/// did.
pub fn soon(table: &LedgerTable) {
    let sql = "UPDATE chainify_ledger.scrubbed SET at = '-infinity' WHERE table_id = $1";
    spi::connected(|| spi::query(sql, &[cell(table.id)], |_| ()));
}

/// The record of one row that differed.
struct Row {
    table: String,
    key: Option<JsonB>,
    expected: Option<JsonB>,
    found: Option<JsonB>,
}

fn copy(json: &Option<JsonB>) -> Option<JsonB> {
    json.as_ref().map(|json| JsonB(json.0.clone()))
}

/// The last block at whose end the scrubber saw all of these tables well.
pub fn since(client: &SpiClient<'_>, tables: &[&str]) -> Option<i64> {
    let sql = "SELECT s.clean_block FROM chainify_ledger.ledger_table l
        LEFT JOIN chainify_ledger.scrubbed s ON s.table_id = l.id
        WHERE l.detached_at IS NULL AND l.name = $1";
    let clean = |table: &&str| {
        Cursor::open(client, Sees::Latest, sql, &[(*table).into()])
            .next_row()
            .and_then(|row| row.bigint(1))
    };
    // None is less than any block.
    tables.iter().map(clean).min().flatten()
}

/// Two facts about earlier findings of these rows. The first is how often each was found at least,
/// every time after a repair and with no clean pass over the table since. The second is whether all
/// of them are on record and wait for their time. A day later they count as new.
const FOUND_BEFORE: &str = "
    SELECT coalesce(min(k.again), 0), coalesce(bool_and(k.waits), false)
    FROM (
        SELECT coalesce(max(d.again + 1), 0) AS again, coalesce(bool_or(d.id IS NOT NULL AND d.cured_by IS NULL), false) AS waits
        FROM unnest($1::text[], $2::jsonb[]) WITH ORDINALITY u (tbl, key, place)
        LEFT JOIN (chainify_ledger.deviation_row r JOIN chainify_ledger.deviation d
                   ON d.id = r.deviation AND d.found_by = 'scrubber' AND d.cured_by IS DISTINCT FROM 'history'
                      AND d.started_at > clock_timestamp() - interval '1 day')
            ON r.tbl = u.tbl AND r.key IS NOT DISTINCT FROM u.key AND NOT EXISTS (
                SELECT FROM chainify_ledger.ledger_table l JOIN chainify_ledger.scrubbed s ON s.table_id = l.id
                WHERE l.name = r.tbl AND l.detached_at IS NULL AND s.clean_at > d.started_at + d.took)
        GROUP BY u.place) k";

/// Records findings, unless a repair of them is on its way, or has not ended them and waits. That
/// repair comes again after a pause.
fn open(number: i64, since: Option<i64>, rows: &[Row], total: i64) {
    spi::connected(|| {
        let (mut again, mut on_record) = (0, false);
        // That a table's state is another says no more than which rows are.
        let any = rows.iter().any(|row| row.key.is_some());
        let telling = || rows.iter().filter(|row| row.key.is_some() == any);
        let tables: Vec<_> = telling().map(|row| row.table.clone()).collect();
        let keys: Vec<_> = telling().map(|row| copy(&row.key)).collect();
        spi::query(FOUND_BEFORE, &[cell(tables), cell(keys)], |row| {
            (again, on_record) = (row.must::<i32>(1), row.must::<bool>(2))
        });
        if on_record {
            return;
        }
        let mut id = None;
        let sql = "INSERT INTO chainify_ledger.deviation (block, since_block, found_by, rows_total, again, due)
            SELECT $1, $2, 'scrubber', $3, $4,
                clock_timestamp() + make_interval(secs => $5)
            WHERE NOT EXISTS (SELECT FROM chainify_ledger.deviation WHERE cured_by IS NULL AND (due <= clock_timestamp()) IS NOT FALSE)
            RETURNING id";
        let arguments = [
            cell(number),
            cell::<i64>(since),
            cell(total),
            cell::<i32>(again),
            cell::<f64>(pause_of_repair(again).map(|pause| pause.as_secs_f64())),
        ];
        spi::query(sql, &arguments, |row| id = row.get::<i64>(1));
        let Some(id) = id else {
            return;
        };
        if again > 0 {
            pgrx::warning!(
                "the same was found again after its repair ({again} times in a row, table {}); repairs wait longer each time",
                rows[0].table
            );
        }
        let sql = "INSERT INTO chainify_ledger.deviation_row (deviation, tbl, key, expected, found) VALUES ($1, $2, $3, $4, $5)";
        for row in rows {
            let arguments = [
                cell(id),
                cell(row.table.clone()),
                cell::<JsonB>(copy(&row.key)),
                cell::<JsonB>(copy(&row.expected)),
                cell::<JsonB>(copy(&row.found)),
            ];
            spi::query(sql, &arguments, |_| ());
        }
    });
}

/// Whether folding found history that does not fit its blocks, no repair came since, and blocks
/// after the newest base still have such: an operator may have put it back. Cost: where folding
/// found some, reads those blocks with their history.
pub fn history_is_false(client: &SpiClient<'_>) -> bool {
    let sql = "SELECT FROM chainify_ledger.deviation d JOIN chainify_ledger.deviation_row r ON r.deviation = d.id
        WHERE d.cured_by IS NULL AND r.tbl = 'chainify_history'";
    let noted = Cursor::open(client, Sees::Latest, sql, &[])
        .next_row()
        .is_some();
    let ranges = HistoryAfterBases::read(client);
    noted && ranges.is_false(client, ranges.newest, ranges.last)
}

/// The blocks that folding reads: after the oldest base, that of no table having been brought to
/// the newest, and after the newest.
struct HistoryAfterBases {
    oldest: i64,
    newest: i64,
    last: i64,
}

impl HistoryAfterBases {
    fn read(client: &SpiClient<'_>) -> Self {
        let sql = "SELECT min(base_block), max(base_block) FROM chainify_ledger.ledger_table WHERE detached_at IS NULL";
        let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
        let bases = rows.next_row().map(|row| (row.bigint(1), row.bigint(2)));
        let (oldest, newest) = bases.unwrap_or_default();
        HistoryAfterBases {
            oldest: oldest.unwrap_or_default(),
            newest: newest.unwrap_or_default(),
            last: stored_blocks::last_block(client, Sees::Latest).unwrap_or_default(),
        }
    }

    fn is_false(&self, client: &SpiClient<'_>, after: i64, to: i64) -> bool {
        after < to && ledger::first_finding(client, Sees::Latest, after + 1, to).is_some()
    }
}

/// Records that folding did not get further. Where nothing but history that the newest base has
/// left behind is false, the tables can be told all the same. Recovery brings the base of a table
/// forward past such history, and the scrubber of the past sees that it is told anew.
pub fn record_history(what: &str) {
    own_lock::share(OwnLock::Definitions);
    spi::connect(|client| {
        let ranges = HistoryAfterBases::read(client);
        if ranges.is_false(client, ranges.oldest, ranges.newest)
            && !ranges.is_false(client, ranges.newest, ranges.last)
        {
            return earlier_blocks::read_again_after(ranges.oldest);
        }
        let row = Row {
            table: "chainify_history".into(),
            key: None,
            expected: None,
            found: Some(JsonB(serde_json::json!(what))),
        };
        open(ranges.last, None, &[row], 1);
    });
}
