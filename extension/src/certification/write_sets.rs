//! Applies the write sets of EFFECTS transactions (spec/transactions.md). Their changes were made
//! in the client's own database, and are made here as the client's role, by key.
//!
//! Invariant W2: an EFFECTS transaction succeeds only when it made here the changes that it names.
//! They are of the same rows, in the same order, and each row was as the transaction saw it.
//!
//! Source: the validation phase of Hyperledger Fabric, by row hashes in the place of version
//! numbers (Sharma, Schuhknecht, Agrawal, Dittrich, SIGMOD 2019, section 2).
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use chainify_codec::{decode_row, Op};
use chainify_ledger::write_set::{Action, Change, Isolation, SeenRow, WriteSet};
use pgrx::pg_sys::Oid;

use crate::certification::serializable;
use crate::certification::written_table::{Shape, WrittenTable};
use crate::ledger::outcome::Outcome;
use crate::ledger::row_bytes;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, PgError, SqlState};
use crate::pg::base::function::Cell;
use crate::pg::base::role::Role;
use crate::pg::run::row_changes::{together, RowStatement};
use crate::pg::run::step::{enter, Step};
use crate::running::conflict::{self, CONFLICT};
use crate::running::effects;
use crate::running::recorded::{Effects, Recorded};
use crate::sequences;

/// Statements kept in a session; above it all are forgotten.
const KEPT_MAX: usize = 2_048;

#[derive(Default)]
struct Kept {
    /// Definitions and rights may have changed since: see [`catalog::generation`].
    generation: u64,
    tables: HashMap<String, Rc<WrittenTable>>,
    /// By role, because rights on schemas are checked when a statement is analysed.
    statements: HashMap<(Role, Oid, Shape), Rc<RowStatement>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// Forgets what may be no longer so.
fn refresh() {
    let generation = catalog::generation();
    KEPT.with_borrow_mut(|kept| {
        if kept.generation != generation {
            *kept = Kept {
                generation,
                ..Kept::default()
            };
            row_bytes::forget();
        }
    });
}

/// Makes the changes of a write set as `role`, as changes of transaction `index`. Returns how many
/// rows changed. Needs a subtransaction that is undone after an Err.
pub fn apply(role: Role, write_set: &[u8], index: u32) -> Outcome {
    let set =
        WriteSet::decode(write_set).map_err(|error| PgError::new(b"22023", error.to_string()))?;
    let tables = set.tables.iter().map(|name| table(name));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    if set.isolation == Isolation::Serializable {
        serializable::check(role, &set, &tables)?;
    }
    let applying = Applying {
        role,
        index,
        tables,
    };
    for row in &set.seen {
        applying.check_seen(row)?;
    }
    let before = effects::with(|e| e.changes.len());
    let made = applying.as_client(|| {
        together(|| {
            let mut changes = set.changes.iter();
            changes.try_for_each(|change| applying.change(change))
        })
    });
    made.map_err(of_others)?;
    effects::with(|e| applying.compare(&set.changes, e, before))?;
    attempt(|| applying.follow_sequences(&set.changes))?;
    Ok(set.changes.len() as u64)
}

/// The ledger table of this name. Needs a subtransaction that is undone after an Err.
pub fn table(name: &str) -> Result<Rc<WrittenTable>, PgError> {
    refresh();
    if let Some(known) = KEPT.with_borrow(|kept| kept.tables.get(name).cloned()) {
        return Ok(known);
    }
    let leaf = attempt(|| tables::named(name).and_then(tables::leaf))?;
    let Some(leaf) = leaf.filter(|_| !name.starts_with("chainify_ledger.")) else {
        return Err(PgError::new(
            b"42P01",
            format!("table \"{name}\" is not on the ledger"),
        ));
    };
    let table = attempt(|| enter(Step::Look, || WrittenTable::of(&leaf)))?;
    let table = Rc::new(table);
    KEPT.with_borrow_mut(|kept| kept.tables.insert(name.to_owned(), table.clone()));
    Ok(table)
}

struct Applying {
    role: Role,
    index: u32,
    tables: Vec<Rc<WrittenTable>>,
}

impl Applying {
    fn as_client<T>(&self, f: impl FnOnce() -> Result<T, PgError>) -> Result<T, PgError> {
        let (role, tx) = (self.role, self.index);
        enter(Step::Changes { role, tx }, f)
    }

    fn table(&self, number: u16) -> &WrittenTable {
        &self.tables[usize::from(number)] // checked when decoded
    }

    fn run(&self, table: &WrittenTable, shape: Shape, values: &[Cell]) -> Outcome {
        let place = (self.role, table.relation, shape);
        let known = KEPT.with_borrow(|kept| kept.statements.get(&place).cloned());
        let statement = match known {
            Some(known) => known,
            None => {
                let (sql, types) = table.statement(&place.2);
                let statement = Rc::new(RowStatement::prepare(&sql, &types)?);
                KEPT.with_borrow_mut(|kept| {
                    // One write set may have as many shapes as changes.
                    if kept.statements.len() >= KEPT_MAX {
                        kept.statements.clear();
                    }
                    kept.statements.insert(place, statement.clone())
                });
                statement
            }
        };
        statement.run(values)
    }

    /// Fails unless a row is as the transaction saw it, and as its role may see it.
    fn check_seen(&self, seen: &SeenRow) -> Result<(), PgError> {
        let table = self.table(seen.table);
        let find = || {
            let rows = self.run(table, Shape::Find, &table.key(&seen.key)?)?;
            Ok(rows > 0)
        };
        let visible = self.as_client(|| together(find))?;
        if visible != seen.hash.is_some() {
            return Err(conflict(table, &seen.key));
        }
        match seen.hash {
            Some(hash) if table.hash_now(&seen.key)? != Some(hash) => {
                Err(conflict(table, &seen.key))
            }
            _ => Ok(()),
        }
    }

    fn change(&self, change: &Change) -> Result<(), PgError> {
        let table = self.table(change.table);
        let rows = match &change.action {
            Action::Insert { row } => self.run(table, Shape::Insert, &table.row(row)?)?,
            Action::Update { key, cells, .. } => {
                let (ordinals, mut values) = table.cells(cells)?;
                values.extend(table.key(key)?);
                self.run(table, Shape::Update(ordinals), &values)?
            }
            Action::Delete { key, .. } => self.run(table, Shape::Delete, &table.key(key)?)?,
        };
        match rows {
            1 => Ok(()),
            _ => Err(conflict(table, row_of(&change.action))),
        }
    }

    /// The ledger's sequences follow the values that were drawn from them.
    fn follow_sequences(&self, changes: &[Change]) {
        for change in changes {
            if let Action::Insert { row } = &change.action {
                let drawn = self.table(change.table).drawn(row);
                drawn
                    .into_iter()
                    .for_each(|(sequence, value)| sequences::drawn_elsewhere(sequence, value));
            }
        }
    }

    /// Fails unless the changes recorded from `first` on are those of the write set.
    fn compare(&self, changes: &[Change], effects: &Effects, first: usize) -> Result<(), PgError> {
        let made = effects.changes.get(first..).unwrap_or_default();
        for (change, made) in changes.iter().zip(made) {
            let table = self.table(change.table);
            if !is_same(table, &change.action, effects, made) {
                return Err(unseen(effects, made));
            }
        }
        // Actions of foreign keys change rows that the transaction did not see.
        if let Some(more) = made.get(changes.len()) {
            return Err(unseen(effects, more));
        }
        match changes.get(made.len()) {
            Some(missing) => Err(conflict(self.table(missing.table), row_of(&missing.action))),
            None => Ok(()),
        }
    }
}

/// The row of an insert, or the key.
fn row_of(action: &Action) -> &[u8] {
    match action {
        Action::Insert { row } => row,
        Action::Update { key, .. } | Action::Delete { key, .. } => key,
    }
}

/// Whether a change was made to the row that the transaction saw.
fn is_same(table: &WrittenTable, action: &Action, effects: &Effects, made: &Recorded) -> bool {
    let leaf = &effects.leaves[made.leaf as usize];
    if leaf.table.name != table.name {
        return false;
    }
    let before = made
        .before
        .map(|row| leaf.table.rows.hash(effects.bytes(row)));
    let of_key = |key: &[u8]| effects.bytes(made.pk) == key;
    match action {
        Action::Insert { .. } => made.op == Op::Insert,
        Action::Update {
            before: saw, key, ..
        } => made.op == Op::Update && before == Some(*saw) && of_key(key),
        Action::Delete { before: saw, key } => {
            made.op == Op::Delete && before == Some(*saw) && of_key(key)
        }
    }
}

/// The client's own database told what the transaction itself violates. A key or a missing parent
/// that it did not see there comes from another transaction, and the next attempt sees it.
fn of_others(error: PgError) -> PgError {
    match error.sqlstate.as_str() {
        "23503" | "23505" => PgError {
            sqlstate: SqlState::new(CONFLICT),
            ..error
        },
        _ => error,
    }
}

/// The row is not as the transaction saw it; `key` may be the whole row.
fn conflict(table: &WrittenTable, key: &[u8]) -> PgError {
    conflict_of(&table.name, &table.key_text(key))
}

fn conflict_of(table: &str, key: &str) -> PgError {
    conflict::conflict(format!(
        "row ({key}) of table \"{table}\" is not as the transaction saw it"
    ))
}

/// A row changed that the transaction did not see.
fn unseen(effects: &Effects, made: &Recorded) -> PgError {
    let leaf = &effects.leaves[made.leaf as usize];
    let values = decode_row(effects.bytes(made.pk)).unwrap_or_default();
    let values: Vec<String> = values.iter().map(|(_, value)| value.to_text()).collect();
    conflict_of(&leaf.table.name, &values.join(", "))
}
