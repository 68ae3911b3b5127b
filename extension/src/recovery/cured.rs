//! A record of one repaired object or row.
use pgrx::JsonB;
use serde_json::{json, Value};

use crate::ledger::ledger_tables::LedgerTable;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{cell, Cell};
use crate::pg::base::spi::SpiClient;
use crate::verify::finding::Finding;

/// Rows recorded and returned of one table; more are put right all the same, and one further row
/// says how many.
const ROWS_RECORDED_MAX: i64 = 10_000;

/// One thing that was put right.
pub struct Cured {
    pub table: String,
    key: Option<JsonB>,
    expected: Option<JsonB>,
    found: Option<JsonB>,
    /// How many it stands for.
    rows: i64,
}

impl Cured {
    /// How many it stands for.
    pub fn rows(&self) -> i64 {
        self.rows
    }

    pub fn of_table(table: &LedgerTable, expected: Value, found: Value) -> Self {
        Cured {
            table: table.name.clone(),
            key: None,
            expected: Some(JsonB(expected)),
            found: Some(JsonB(found)),
            rows: 1,
        }
    }

    /// The findings of verification that are put right now.
    pub fn of_finding(table: &str, finding: Finding) -> Self {
        Cured {
            table: table.to_owned(),
            key: finding.key,
            expected: finding.expected,
            found: finding.found,
            rows: 1,
        }
    }

    /// Reads the rows of a query as [`LedgerTable::differences`] gives them.
    pub fn read(client: &SpiClient<'_>, table: &LedgerTable, differences: &str) -> Vec<Self> {
        let sql = format!(
            "SELECT key, expected, found, count(*) OVER () FROM ({differences}) d ORDER BY k, place LIMIT {ROWS_RECORDED_MAX}"
        );
        let (mut cured, mut total) = (Vec::new(), 0);
        let mut rows = Cursor::open(client, Sees::Latest, &sql, &[]);
        while let Some(row) = rows.next_row() {
            total = row.bigint(4).unwrap_or_default();
            cured.push(Cured {
                table: table.name.clone(),
                key: row.json(1),
                expected: row.json(2),
                found: row.json(3),
                rows: 1,
            });
        }
        if total > ROWS_RECORDED_MAX {
            let rest = json!({ "rows_not_recorded": total - ROWS_RECORDED_MAX });
            let mut rest = Cured::of_table(table, Value::Null, rest);
            rest.rows = total - ROWS_RECORDED_MAX;
            cured.push(rest);
        }
        cured
    }

    pub fn cells(&self) -> [Cell; 4] {
        let json =
            |value: &Option<JsonB>| cell::<JsonB>(value.as_ref().map(|json| JsonB(json.0.clone())));
        [
            cell(self.table.clone()),
            json(&self.key),
            json(&self.expected),
            json(&self.found),
        ]
    }
}
