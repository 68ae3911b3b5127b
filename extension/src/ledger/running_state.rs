//! The running state of each table, which every block changes, and the state root over all of them.
use std::cell::RefCell;
use std::collections::HashMap;

use chainify_codec::{Hash, Lanes, DEFINITIONS, PROCEDURES};
use chainify_ledger::parts::Net;
use chainify_ledger::seal;
use chainify_ledger::seal::TableState;

use crate::ledger::own_tables::OwnTable;
use crate::ledger::procedures;
use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;

/// The states of the attached tables, from `table_state`.
pub fn states() -> Vec<TableState> {
    let mut attached = HashMap::new();
    OwnTable::read("ledger_table").rows(|row| {
        if row.get::<i64>("detached_at").is_none() {
            let table: (String, Vec<u8>) = (row.must("name"), row.must("schema_hash"));
            attached.insert(row.must::<i32>("id"), table);
        }
    });
    let mut states = Vec::with_capacity(attached.len());
    OwnTable::read("table_state").rows(|row| {
        let table_id = row.must("table_id");
        let Some((name, schema)) = attached.remove(&table_id) else {
            return;
        };
        let lanes: Vec<u8> = row.must("lanes");
        let (Ok(schema), Some(lanes)) = (Hash::try_from(schema), Lanes::from_bytes(&lanes)) else {
            PgError::new(
                b"XX001",
                format!("running state of ledger table \"{name}\" is malformed"),
            )
            .raise()
        };
        states.push(TableState {
            table_id,
            name,
            schema,
            rows: row.must("row_count"),
            lanes,
        });
    });
    states
}

/// Adds what a block changed, and writes it; a table detached in this block is not there any more.
pub fn change_states(states: &mut [TableState], nets: &[Net]) {
    let changed = seal::add(states, nets)
        .unwrap_or_else(|_| PgError::new(b"XX001", "lanes of a part are malformed").raise());
    let changed: HashMap<i32, &TableState> = changed
        .into_iter()
        .map(|at| (states[at].table_id, &states[at]))
        .collect();
    if changed.is_empty() {
        return;
    }
    OwnTable::change("table_state").change_rows(|row| match changed.get(&row.must("table_id")) {
        Some(state) => vec![
            ("row_count", cell(state.rows)),
            ("lanes", cell(&state.lanes.to_bytes()[..])),
        ],
        None => Vec::new(),
    });
}

/// The state root over what `table_state` holds now.
pub fn current_state_root() -> Hash {
    root_of(&states())
}

thread_local! {
    /// The states that this session hashed last. States are compared whole: this saves time alone.
    static KNOWN: RefCell<seal::KnownStates> = RefCell::default();
}

/// The state root over these tables.
pub fn root_of(states: &[TableState]) -> Hash {
    let definitions = definitions().map(|hash| (DEFINITIONS, hash));
    let procedures = procedures::live_state().map(|hash| (PROCEDURES, hash));
    let beside = definitions.into_iter().chain(procedures);
    KNOWN.with_borrow_mut(|known| known.root(states, beside))
}

/// The hash of the definitions; None before the first DEPLOY of statements.
fn definitions() -> Option<Hash> {
    let mut found = None;
    OwnTable::read("definitions").rows(|row| {
        let Ok(hash) = Hash::try_from(row.must::<Vec<u8>>("hash")) else {
            PgError::new(b"XX001", "hash of the definitions is malformed").raise()
        };
        found = Some(hash);
    });
    found
}
