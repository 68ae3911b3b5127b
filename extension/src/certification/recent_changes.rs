//! The rows that the last blocks changed, from the history. The predicates of SERIALIZABLE
//! transactions are compared with them.
//!
//! They are kept for the session, since blocks follow each other. Their bounds are counts that are
//! the same in every organisation.
use std::cell::RefCell;
use std::collections::HashMap;

use crate::certification::written_table::WrittenTable;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::spi;
use crate::pg::run::step::{enter, Step};
use crate::running::conflict::conflict;

/// Changes of one table since a snapshot, and bytes of their rows.
const CHANGES_MAX: usize = 65_536;
const BYTES_MAX: usize = 1 << 26;

/// A row after a change, or before a delete.
pub struct Changed {
    pub block: i64,
    pub row: Vec<u8>,
}

/// The changes of the blocks after `after`, up to `until`.
struct Kept {
    after: i64,
    until: i64,
    changes: Vec<Changed>,
    bytes: usize,
}

thread_local! {
    static KEPT: RefCell<HashMap<i32, Kept>> = RefCell::default();
}

/// Forgets all: a repair may have put history right.
pub fn forget() {
    KEPT.take();
}

/// Calls `f` with the changes of a table in the blocks after `snapshot` up to `last`, the last one
/// stored. Err: there are too many. Needs a subtransaction that is undone after an Err. Cost: reads
/// the history of the blocks that were not read before.
pub fn since<T>(
    table: &WrittenTable,
    snapshot: i64,
    last: i64,
    f: impl FnOnce(&mut dyn Iterator<Item = &Changed>) -> T,
) -> Result<T, PgError> {
    let kept = KEPT.with_borrow_mut(|kept| kept.remove(&table.id));
    let kept = kept.filter(|kept| kept.after <= snapshot && kept.until <= last);
    let kept = match kept.map(|kept| followed(table, kept, last)).transpose()? {
        Some(Some(kept)) => Some(kept),
        _ => {
            let nothing = Kept {
                after: snapshot,
                until: snapshot,
                changes: Vec::new(),
                bytes: 0,
            };
            followed(table, nothing, last)?
        }
    };
    let Some(kept) = kept else {
        return Err(too_many(table));
    };
    let result = f(&mut kept.changes.iter().filter(|change| change.block > snapshot));
    KEPT.with_borrow_mut(|all| {
        if all.values().map(|kept| kept.bytes).sum::<usize>() > BYTES_MAX {
            all.clear();
        }
        all.insert(table.id, kept)
    });
    Ok(result)
}

/// With the changes of the blocks up to `last`; None: these are too many.
fn followed(table: &WrittenTable, mut kept: Kept, last: i64) -> Result<Option<Kept>, PgError> {
    if kept.until == last {
        return Ok(Some(kept));
    }
    let sql = format!(
        "SELECT h._block, chainify_ledger.encoded_row({}, h.*) FROM {} h WHERE h._block > $1 AND h._block <= $2",
        table.id, table.history
    );
    let mut fits = true;
    let read = || {
        spi::connect(|client| {
            let arguments = [kept.until.into(), last.into()];
            let mut rows = Cursor::open(client, Sees::Latest, &sql, &arguments);
            while let Some(row) = rows.next_row().filter(|_| fits) {
                let (block, row) = (row.bigint(1), row.bytes(2));
                let (block, row) = (block.unwrap_or_default(), row.unwrap_or_default());
                kept.bytes += row.len();
                kept.changes.push(Changed { block, row });
                fits = kept.changes.len() <= CHANGES_MAX && kept.bytes <= BYTES_MAX;
            }
        })
    };
    attempt(|| enter(Step::Look, read))?;
    kept.until = last;
    Ok(fits.then_some(kept))
}

fn too_many(table: &WrittenTable) -> PgError {
    conflict(format!(
        "table \"{}\" has changed too often since the transaction began",
        table.name
    ))
}
