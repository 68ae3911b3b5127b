//! The predicates of a SERIALIZABLE transaction in its write set, with the rows that they found.
//!
//! A predicate finds changed rows that match now. The hashes of the found rows reveal those that
//! match no more. So it is enough to compare a predicate with the row after a change.
use chainify_ledger::captured::{Found, Reads};
use chainify_ledger::write_set::Bound;

use crate::certification::write_sets;
use crate::certification::written_table::WrittenTable;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;

/// Rows that the reads of a transaction may find; the tables of the reads beyond count as read
/// whole.
const FOUND_MAX: usize = 1_000;

/// The predicates and the rows found, as the role sees them. Needs a subtransaction that is undone
/// after an Err. Cost: a query for each read.
pub fn with_rows(role: Role, noted: &Reads) -> Result<(Reads, Vec<Found>), PgError> {
    let (mut reads, mut found) = (Reads::default(), Vec::new());
    for (name, of_table) in noted.tables() {
        let table = write_sets::table(name)?;
        let mut rows = Vec::new();
        let mut kept = Vec::new();
        let mut whole = false;
        for bounds in of_table {
            let left = FOUND_MAX.saturating_sub(found.len() + rows.len());
            match find(&table, role, bounds, left)? {
                Rows::Whole => whole = true,
                Rows::At(row) => rows.push(row),
                Rows::Within(of_read) => {
                    rows.extend(of_read);
                    kept.push(bounds.clone());
                }
            }
        }
        match whole {
            true => reads.add(name, Vec::new()),
            false => {
                kept.into_iter().for_each(|bounds| reads.add(name, bounds));
                found.extend(rows);
            }
        }
    }
    Ok((reads, found))
}

/// The rows that a read found.
enum Rows {
    /// The whole table counts.
    Whole,
    /// The one row that it can find, which may be missing.
    At(Found),
    Within(Vec<Found>),
}

fn find(table: &WrittenTable, role: Role, bounds: &[Bound], left: usize) -> Result<Rows, PgError> {
    if bounds.is_empty() || left == 0 || !table.may_bound(role, bounds)? {
        return Ok(Rows::Whole);
    }
    let found = |(key, hash)| Found {
        table: table.name.clone(),
        key,
        hash,
    };
    if let Some(key) = table.key_at(bounds) {
        let hash = table.hash_now(&key)?;
        return Ok(Rows::At(found((key, hash))));
    }
    Ok(match table.rows_within(bounds, left)? {
        Some(rows) => Rows::Within(
            rows.into_iter()
                .map(|(key, hash)| found((key, Some(hash))))
                .collect(),
        ),
        None => Rows::Whole,
    })
}
