//! The running state of each table, which every block changes, and the state root over all of them.
use std::collections::BTreeMap;

use chainify_codec::{state_root, table_state, Hash, Lanes, DEFINITIONS};
use chainify_ledger::parts::Net;

use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi::query;

/// The sum over all parts, by table.
fn sum(nets: &[Net]) -> BTreeMap<i32, (Lanes, i64)> {
    let mut sums: BTreeMap<i32, (Lanes, i64)> = BTreeMap::new();
    for net in nets {
        let Some(lanes) = Lanes::from_bytes(&net.lanes) else {
            PgError::new(b"XX001", "lanes of a part are malformed").raise()
        };
        let (sum, rows) = sums.entry(net.table_id).or_default();
        sum.merge(&lanes);
        *rows += net.rows;
    }
    sums
}

/// The running state of an attached table.
pub struct State {
    table_id: i32,
    name: String,
    schema: Hash,
    rows: i64,
    lanes: Lanes,
}

/// What `table_state` holds of the attached tables.
pub fn states() -> Vec<State> {
    let mut states = Vec::new();
    query(
        "SELECT t.id, t.name, t.schema_hash, s.row_count, s.lanes FROM chainify_ledger.ledger_table t
         JOIN chainify_ledger.table_state s ON s.table_id = t.id WHERE t.detached_at IS NULL",
        &[],
        |row| {
            let name: String = row.must(2);
            let (Ok(schema), Some(lanes)) = (
                Hash::try_from(row.must::<Vec<u8>>(3)),
                Lanes::from_bytes(&row.must::<Vec<u8>>(5)),
            ) else {
                PgError::new(
                    b"XX001",
                    format!("running state of ledger table \"{name}\" is malformed"),
                )
                .raise()
            };
            states.push(State {
                table_id: row.must(1),
                name,
                schema,
                rows: row.must(4),
                lanes,
            });
        },
    );
    states
}

/// Adds what a block changed, and writes it; a table detached in this block is not there any more.
pub fn change_states(states: &mut [State], nets: &[Net]) {
    let nets = sum(nets);
    let (mut ids, mut rows, mut lanes) = (Vec::new(), Vec::new(), Vec::new());
    for state in states {
        if let Some((net, more)) = nets.get(&state.table_id) {
            state.lanes.merge(net);
            state.rows += more;
            ids.push(state.table_id);
            rows.push(state.rows);
            lanes.push(state.lanes.to_bytes().to_vec());
        }
    }
    if ids.is_empty() {
        return;
    }
    let sql = "UPDATE chainify_ledger.table_state s SET row_count = u.row_count, lanes = u.lanes
        FROM unnest($1, $2, $3) u (table_id, row_count, lanes) WHERE s.table_id = u.table_id";
    query(sql, &[cell(ids), cell(rows), cell(lanes)], |_| ());
}

/// The state root over what `table_state` holds now.
pub fn current_state_root() -> Hash {
    root_of(&states())
}

pub fn root_of(states: &[State]) -> Hash {
    let hash = |s: &State| table_state(&s.name, &s.schema, s.rows as u64, &s.lanes);
    let mut roots: Vec<(&str, Hash)> = states.iter().map(|s| (s.name.as_str(), hash(s))).collect();
    roots.extend(definitions().map(|hash| (DEFINITIONS, hash)));
    state_root(roots)
}

/// The hash of the definitions; None before the first DEPLOY of statements.
fn definitions() -> Option<Hash> {
    let mut found = None;
    query("SELECT hash FROM chainify_ledger.definitions", &[], |row| {
        let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>(1)) else {
            PgError::new(b"XX001", "hash of the definitions is malformed").raise()
        };
        found = Some(hash);
    });
    found
}
