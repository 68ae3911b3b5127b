//! The differences from the certified state, and the records of it that `chainify.deviations`
//! shows.

use pgrx::prelude::*;

use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::recovery::cured::Cured;
use crate::recovery::scrub;

crate::pg::sql_function!(
    chainify_record_deviation,
    pg_finfo_chainify_record_deviation,
    record_deviation
);

/// Opens a record of the deviation, or takes over that of the scrubber; `record_deviation` closes
/// it when the block has been executed again. With no block waiting for the repair, `deviating`
/// being the position, it is closed at once.
pub fn record(
    cured: &[Cured],
    number: i64,
    deviating: i64,
    found: Option<Vec<u8>>,
    cured_by: &str,
) {
    let mut tables: Vec<_> = cured.iter().map(|cured| cured.table.as_str()).collect();
    tables.dedup();
    let since = spi::connect(|client| scrub::since(client, &tables));
    spi::connected(|| {
        let mut id = None;
        let total: i64 = cured.iter().map(Cured::rows).sum();
        if !cured.is_empty() {
            let sql = "WITH known AS (
                    UPDATE chainify_ledger.deviation SET block = $1, found_hash = $2, rows_total = $4
                    WHERE id = (SELECT id FROM chainify_ledger.deviation WHERE cured_by IS NULL AND found_by = 'scrubber' ORDER BY id LIMIT 1)
                    RETURNING id),
                forgotten AS (DELETE FROM chainify_ledger.deviation_row r USING known k WHERE r.deviation = k.id),
                new AS (
                    INSERT INTO chainify_ledger.deviation (block, found_hash, since_block, rows_total, found_by)
                    SELECT $1, $2, $3, $4, CASE WHEN $5 THEN 'scrubber' ELSE 'block' END WHERE NOT EXISTS (SELECT FROM known) RETURNING id)
                SELECT id FROM known UNION ALL SELECT id FROM new";
            let arguments = [
                cell(deviating),
                cell::<Vec<u8>>(found),
                cell::<i64>(since),
                cell(total),
                cell(deviating == number),
            ];
            spi::query(sql, &arguments, |row| id = row.get::<i64>(1));
        }
        add_rows(id, cured);
        if deviating == number {
            let sql = "UPDATE chainify_ledger.deviation SET cured_by = $1, took = clock_timestamp() - started_at
                WHERE cured_by IS NULL AND found_by = 'scrubber'";
            spi::query(sql, &[cell(cured_by)], |_| ());
        }
    });
}

/// Which rows of a record of the scrubber a step has cured that puts but one kind of thing right.
#[derive(Clone, Copy)]
pub enum Kind {
    Indexes,
    Definitions,
}

impl Kind {
    /// A condition on `r`.
    fn rows(self) -> &'static str {
        match self {
            Kind::Indexes => "r.key ? 'index'",
            // Triggers and tables have no key; the state root is of rows.
            Kind::Definitions => "(r.key ? 'object' OR r.key IS NULL AND 'string' IN (jsonb_typeof(r.expected), jsonb_typeof(r.found))
                AND r.found::text NOT LIKE '\"the running states%')",
        }
    }
}

/// The same of a step that puts but one kind of thing right: a record of the scrubber that says
/// more stays open.
pub fn record_part(
    cured: &[Cured],
    kind: Kind,
    number: i64,
    deviating: i64,
    found: Option<Vec<u8>>,
    cured_by: &str,
) {
    if cured.is_empty() {
        return;
    }
    if deviating == number && more_is_open(kind) {
        return add_cured(cured, number, cured_by);
    }
    record(cured, number, deviating, found, cured_by);
}

/// Takes what is cured out of the scrubber's open record; whether that has more.
fn more_is_open(kind: Kind) -> bool {
    let sql = format!(
        "WITH open AS (SELECT d.id, d.rows_total FROM chainify_ledger.deviation d WHERE d.cured_by IS NULL AND d.found_by = 'scrubber'),
        gone AS (DELETE FROM chainify_ledger.deviation_row r USING open o WHERE r.deviation = o.id AND {} RETURNING r.deviation),
        fewer AS (UPDATE chainify_ledger.deviation d SET rows_total = d.rows_total - g.n
            FROM (SELECT deviation, count(*) AS n FROM gone GROUP BY 1) g WHERE d.id = g.deviation)
        SELECT EXISTS (SELECT FROM open o WHERE o.rows_total > (SELECT count(*) FROM gone g WHERE g.deviation = o.id))",
        kind.rows()
    );
    let mut more = false;
    spi::connected(|| spi::query(&sql, &[], |row| more = row.must(1)));
    more
}

/// Records what went before a block ran.
pub fn add_dropped(cured: &[Cured], number: i64) {
    if !cured.is_empty() {
        add_cured(cured, number, "definitions");
    }
}

/// A record of its own, closed.
fn add_cured(cured: &[Cured], number: i64, cured_by: &str) {
    spi::connected(|| {
        let mut id = None;
        let total: i64 = cured.iter().map(Cured::rows).sum();
        let sql =
            "INSERT INTO chainify_ledger.deviation (block, rows_total, found_by, cured_by, took)
            VALUES ($1, $2, 'scrubber', $3, interval '0') RETURNING id";
        spi::query(sql, &[cell(number), cell(total), cell(cured_by)], |row| {
            id = row.get::<i64>(1)
        });
        add_rows(id, cured);
    });
}

fn add_rows(id: Option<i64>, cured: &[Cured]) {
    let sql = "INSERT INTO chainify_ledger.deviation_row (deviation, tbl, key, expected, found) VALUES ($1, $2, $3, $4, $5)";
    for cured in cured {
        let [table, key, expected, found] = cured.cells();
        spi::query(sql, &[cell::<i64>(id), table, key, expected, found], |_| ());
    }
}

/// `chainify_node.record_deviation`: closes the open record of the block, or adds one without rows.
/// Cured by *full*: the blocks up to this one have been executed again.
fn record_deviation(call: &mut Call) -> Answer {
    let block: i64 = call.required(0, "deviating_block");
    let (expected, found): (Option<Vec<u8>>, Option<Vec<u8>>) = (call.arg(1), call.arg(2));
    let cured_by: String = call.required(3, "cured_by");
    let took: Option<Interval> = call.arg(4);
    let over = cured_by == "full";
    let sql = "WITH open AS (
            UPDATE chainify_ledger.deviation
            SET expected_hash = $2, found_hash = coalesce($3, found_hash),
                took = CASE WHEN $4 = 'full' THEN clock_timestamp() - started_at ELSE $5 END,
                -- A retry that put rows right (recovery/repair_by_key.rs) is a repair.
                cured_by = CASE WHEN $4 = 'retry' AND found_by = 'block' THEN 'repair' ELSE $4 END
            WHERE block = $1 AND cured_by IS NULL RETURNING id)
        INSERT INTO chainify_ledger.deviation (block, expected_hash, found_hash, cured_by, took, found_by)
        SELECT $1, $2, $3, $4, $5, 'block' WHERE NOT EXISTS (SELECT FROM open)";
    let arguments = [
        cell(block),
        cell::<Vec<u8>>(expected),
        cell::<Vec<u8>>(found),
        cell(cured_by),
        cell::<Interval>(took),
    ];
    spi::connected(|| {
        spi::query(sql, &arguments, |_| ());
        if over {
            spi::query("DELETE FROM chainify_ledger.started_over", &[], |_| ());
        }
    });
    call.void()
}
