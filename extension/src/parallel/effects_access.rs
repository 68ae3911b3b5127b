//! The access set of EFFECTS transactions (spec/scheduling.md, "What a write set contributes").
//! Each change counts as a statement on a row by its key, and each row of the read set as a read.
//!
//! Invariant S11: the access set covers every row that certification looks at by its key. It does
//! so for every role, and also when the transaction fails.
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use chainify_codec::{decode_row, decode_value, Value};
use chainify_ledger::sequence::Sequence;
use chainify_ledger::write_set::{Action, WriteSet};
use chainify_sched::{AccessSet, Place, Target};
use pgrx::pg_sys::Oid;

use crate::certification::effects_order::within;
use crate::certification::write_sets;
use crate::certification::written_table::{Shape, WrittenTable, NULL};
use crate::ledger::outcome::is_of_the_machine;
use crate::pg::base::catalog::generation;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::run::statement::Prepared;
use crate::sequences;

/// Statements kept in a session; above it all are forgotten.
const KEPT_MAX: usize = 1_024;

/// The statements that one row of a write set counts as: as a role that sees all rows, and as the
/// client's role where policies make a difference.
type Statements = Rc<[Rc<Prepared>]>;

#[derive(Default)]
struct Kept {
    generation: u64,
    statements: HashMap<(Option<Role>, Oid, Shape), Statements>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The facts that a block's write sets have in common.
#[derive(Default)]
pub struct Known {
    /// By name; None: not on the ledger.
    tables: HashMap<String, Option<Rc<WrittenTable>>>,
    /// Where sequences stand before the block.
    sequences: HashMap<Oid, Option<Sequence>>,
}

/// The access beside that of the rows.
pub struct Beside {
    /// Changes of rows, which most of its time goes to.
    pub changes: u64,
    /// Sequences of columns of new rows, and whether a value is ahead so that they follow.
    sequences: Vec<(Oid, bool)>,
}

impl Beside {
    /// Adds the sequences. One that no value is ahead of stays, unless another transaction moves
    /// it.
    pub fn add_to(&self, set: &mut AccessSet) {
        for (sequence, ahead) in &self.sequences {
            let target = Target::Rows(sequence.to_u32());
            match ahead {
                true => set.write(target, Place::whole()),
                false => set.read(target, Place::whole()),
            }
        }
    }
}

/// Takes a statement and its values, None for NULL.
type Add<'a> = dyn FnMut(&Rc<Prepared>, &[Option<&Value>]) -> Result<(), PgError> + 'a;

/// The access of a transaction's write set: calls `add` with each statement and its values. None:
/// it fails before it reads anything, and takes part in no turn. Err: it is everything.
///
/// `role`: the client's; None when there is no such role, and the transaction fails in its turn.
/// Cost: decodes the write set and its rows; a statement is analysed once in a session.
pub fn of_write_set(
    known: &mut Known,
    role: Option<Role>,
    write_set: &[u8],
    add: &mut Add,
) -> Result<Option<Beside>, PgError> {
    let Ok(set) = WriteSet::decode(write_set) else {
        return Ok(None);
    };
    let tables = set.tables.iter().map(|name| known.table(name));
    let Some(tables) = tables.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    if !set.reads.is_empty() {
        // Its comparisons are counted over the whole block.
        return Err(PgError::new(b"0A000", "reads are not bounded"));
    }
    let mut beside = Beside {
        changes: set.changes.len() as u64,
        sequences: Vec::new(),
    };
    let mut row = |table: u16, shape: Shape, given: &Columns, key: &Columns| {
        let table = &tables[usize::from(table)]; // checked when decoded
        let values = values(table, &shape, given, key)?;
        let statements = statements(role, table, shape)?;
        statements.iter().try_for_each(|s| add(s, &values))
    };
    for change in &set.changes {
        let table = &tables[usize::from(change.table)];
        match &change.action {
            Action::Insert { row: inserted } => {
                row(change.table, Shape::Insert, &decoded(inserted)?, &[])?;
                let drawn = table.drawn(inserted).into_iter();
                beside.sequences.extend(drawn.map(|d| known.is_ahead(d)));
            }
            Action::Update { key, cells, .. } => {
                let shape = table.update(cells).ok_or_else(unreadable)?;
                row(change.table, shape, &decoded_cells(cells)?, &decoded(key)?)?;
            }
            Action::Delete { key, .. } => row(change.table, Shape::Delete, &[], &decoded(key)?)?,
        }
    }
    for seen in &set.seen {
        row(seen.table, Shape::Row, &[], &decoded(&seen.key)?)?;
    }
    Ok(Some(beside))
}

/// Columns by ordinal, without those that are NULL.
type Columns = [(u16, Value)];

fn decoded(row: &[u8]) -> Result<Vec<(u16, Value)>, PgError> {
    decode_row(row).map_err(|_| unreadable())
}

fn decoded_cells(cells: &[(u16, Vec<u8>)]) -> Result<Vec<(u16, Value)>, PgError> {
    let values = cells.iter().filter(|(_, value)| value[..] != NULL);
    let decoded = |(ordinal, value): &(u16, Vec<u8>)| {
        let value = decode_value(value).map_err(|_| unreadable())?;
        Ok((*ordinal, value))
    };
    values.map(decoded).collect()
}

/// It fails before it makes the change, but may have read rows by then.
fn unreadable() -> PgError {
    PgError::new(b"22023", "a row of the write set does not fit its table")
}

/// The values of a shape's parameters, None for NULL.
fn values<'v>(
    table: &WrittenTable,
    shape: &Shape,
    given: &'v Columns,
    key: &'v Columns,
) -> Result<Vec<Option<&'v Value>>, PgError> {
    let fits_key = *shape == Shape::Insert
        || key
            .iter()
            .map(|(ordinal, _)| *ordinal)
            .eq(table.key_ordinals());
    if !fits_key || !given.iter().all(|(ordinal, _)| table.has_column(*ordinal)) {
        return Err(unreadable());
    }
    let value = |ordinal: u16| {
        let at = given.binary_search_by_key(&ordinal, |(ordinal, _)| *ordinal);
        at.ok().map(|at| &given[at].1)
    };
    let mut values: Vec<_> = table.given(shape).map(value).collect();
    values.extend(key.iter().map(|(_, value)| Some(value)));
    Ok(values)
}

impl Known {
    fn table(&mut self, name: &str) -> Option<Rc<WrittenTable>> {
        if let Some(known) = self.tables.get(name) {
            return known.clone();
        }
        let found = within(|| write_sets::table(name));
        self.tables.insert(name.to_owned(), found.clone());
        found
    }

    /// Whether a value is ahead of a sequence. Of one whose place is not known, each is.
    fn is_ahead(&mut self, (sequence, value): (Oid, i64)) -> (Oid, bool) {
        let stands = self.sequences.entry(sequence);
        let stands = stands.or_insert_with(|| sequences::stands_at(sequence));
        (
            sequence,
            stands.is_none_or(|stands| stands.is_led_by(value)),
        )
    }
}

/// The statements for a shape of change, kept.
fn statements(
    role: Option<Role>,
    table: &WrittenTable,
    shape: Shape,
) -> Result<Statements, PgError> {
    let place = (role, table.relation, shape);
    let kept = KEPT.with_borrow_mut(|kept| {
        if kept.generation != generation() {
            *kept = Kept {
                generation: generation(),
                ..Kept::default()
            };
        }
        kept.statements.get(&place).cloned()
    });
    if let Some(kept) = kept {
        return Ok(kept);
    }
    let made = prepared(role, table, &place.2)?;
    KEPT.with_borrow_mut(|kept| {
        if kept.statements.len() >= KEPT_MAX {
            kept.statements.clear();
        }
        kept.statements.insert(place, made.clone());
    });
    Ok(made)
}

fn prepared(
    role: Option<Role>,
    table: &WrittenTable,
    shape: &Shape,
) -> Result<Statements, PgError> {
    let (sql, types) = table.statement(shape);
    let analysed = |role: Role| {
        subtransaction(|| {
            role.run(|| {
                let prepared = Prepared::with_types(&sql, &types)?;
                prepared.template()?;
                Ok(Rc::new(prepared))
            })
        })
    };
    let of_all = analysed(Role::bootstrap())?;
    let own = match role.map(analysed) {
        Some(Err(error)) if is_of_the_machine(&error) => return Err(error),
        Some(Ok(own)) if own.template()? != of_all.template()? => Some(own),
        // The same, or what cannot be analysed here fails in the block before it reads anything.
        _ => None,
    };
    Ok([of_all].into_iter().chain(own).collect())
}
