//! Certifies the reads of a SERIALIZABLE transaction: whether a row that it read changed since its
//! snapshot.
//!
//! Invariant W3: a SERIALIZABLE EFFECTS transaction succeeds only when every read of it would find
//! the same rows now. Rows that it found are compared by hash (W2). A row that comes to lie in a
//! read is a row after some change. The changes are those of the blocks since the snapshot, from
//! the history, and those of the block so far.
//!
//! Source: precision locking (Jordan, Banerjee, Batman, SIGMOD 1981), as in AnKer (Sharma,
//! Schuhknecht, Dittrich, SIGMOD 2018).
use std::rc::Rc;

use chainify_ledger::write_set::{Read, WriteSet};

use crate::certification::recent_changes;
use crate::certification::written_table::WrittenTable;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::role::Role;
use crate::pg::base::spi::{connected, query};
use crate::pg::run::step::{enter, Step};
use crate::running::conflict::conflict;
use crate::running::effects;

/// Blocks between the snapshot of a transaction and the one that it is in.
pub const BLOCKS_MAX: i64 = 1_000;
/// Rows that a transaction is compared with, counted for each of its reads.
const COMPARISONS_MAX: usize = 1 << 18;

/// Fails when a read of the transaction may find other rows by now. `tables` are those of the write
/// set. Needs a subtransaction that is undone after an Err. Cost: some 50 ns for each comparison.
pub fn check(role: Role, set: &WriteSet, tables: &[Rc<WrittenTable>]) -> Result<(), PgError> {
    let last = last_block()?;
    let snapshot = i64::try_from(set.snapshot).unwrap_or(i64::MAX);
    if snapshot > last {
        return Err(PgError::new(
            b"22023",
            format!("the transaction saw block {snapshot}, and the last one is {last}"),
        ));
    }
    if last - snapshot > BLOCKS_MAX {
        return Err(conflict(format!(
            "the transaction began at block {snapshot}, and the last one is {last}: at most {BLOCKS_MAX} may lie between"
        )));
    }
    let mut left = COMPARISONS_MAX;
    for read in &set.reads {
        let table = &tables[usize::from(read.table)]; // checked when decoded
        check_rights(role, table, read)?;
        if table.since > snapshot {
            return Err(conflict(format!(
                "table \"{}\" has another definition since the transaction began",
                table.name
            )));
        }
        let found = recent_changes::since(table, snapshot, last, |changes| {
            changed(read, changes.map(|change| &change.row[..]), &mut left)
        })?;
        if found? || changed_in_block(read, table, &mut left)? {
            return Err(conflict(format!(
                "rows of table \"{}\" that the transaction read have changed",
                table.name
            )));
        }
    }
    Ok(())
}

fn last_block() -> Result<i64, PgError> {
    let mut last = 0;
    let sql = "SELECT coalesce(max(number), 0) FROM chainify_ledger.block";
    let read = || connected(|| query(sql, &[], |row| last = row.must(1)));
    attempt(|| enter(Step::Look, read))?;
    Ok(last)
}

/// Bounds could be made up to learn of rows that the role does not see.
fn check_rights(role: Role, table: &WrittenTable, read: &Read) -> Result<(), PgError> {
    if read.bounds.is_empty() || table.may_bound(role, &read.bounds)? {
        return Ok(());
    }
    Err(PgError::new(
        b"42501",
        format!(
            "permission denied for bounds of reads of table \"{}\"",
            table.name
        ),
    ))
}

/// Whether one of the rows lies in the read. Err: there are too many to compare.
fn changed<'r>(
    read: &Read,
    mut rows: impl Iterator<Item = &'r [u8]>,
    left: &mut usize,
) -> Result<bool, PgError> {
    let mut exhausted = false;
    let found = rows.any(|row| {
        exhausted = *left == 0;
        *left = left.saturating_sub(1);
        exhausted || read.covers(row)
    });
    match exhausted {
        true => Err(conflict(
            "too many rows have changed since the transaction began",
        )),
        false => Ok(found),
    }
}

fn changed_in_block(read: &Read, table: &WrittenTable, left: &mut usize) -> Result<bool, PgError> {
    effects::with(|effects| {
        let of_table = effects
            .changes
            .iter()
            .filter(|change| effects.leaves[change.leaf as usize].table.id == table.id);
        let rows = of_table.filter_map(|change| change.after.or(change.before));
        changed(read, rows.map(|row| effects.bytes(row)), left)
    })
}
