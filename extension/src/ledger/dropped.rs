//! The blocks whose transactions, certificates and history this database dropped, because the
//! archive has them. Their headers stay.

use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::spi::SpiClient;

/// How far this database dropped rows.
pub struct Dropped {
    /// The last block that was; 0: none.
    pub block: i64,
    /// Where the archive is, as the node told.
    pub place: String,
}

/// Reads what was dropped.
pub fn read(client: &SpiClient<'_>, sees: Sees) -> Dropped {
    let sql = "SELECT dropped, place FROM chainify_ledger.archived";
    let mut rows = Cursor::open(client, sees, sql, &[]);
    let found = rows.next_row();
    Dropped {
        block: found.as_ref().and_then(|row| row.bigint(1)).unwrap_or(0),
        place: found.and_then(|row| row.text(2)).unwrap_or_default(),
    }
}

impl Dropped {
    /// Raises 55000 when what is asked of this block is in the archive alone.
    pub fn refuse(&self, number: i64) {
        if number <= self.block {
            let message = format!("block {number} is in the archive");
            PgError::new(b"55000", message)
                .detail(self.says())
                .hint("Ask the archive: chainify archive fetch, or chainify archive receipt.")
                .raise();
        }
    }

    /// A sentence about the rows that the database keeps no more.
    pub fn says(&self) -> String {
        let Dropped { block, place } = self;
        format!("Transactions, certificates and history up to block {block} are in the archive {place} alone.")
    }
}
