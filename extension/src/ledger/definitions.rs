//! Definitions under the ledger (spec/formats.md) as verification and repair read them.

use crate::pg::base::spi::SpiClient;
use chainify_codec::{Hash, DEFINITIONS, PROCEDURES};

use crate::pg::base::catalog::relation_named;
use crate::pg::base::cursor::{Cursor, Sees};

/// An object that is not as the ledger has it; both sides as definition text, `None` when there is
/// none.
#[derive(PartialEq, Eq)]
pub struct Defect {
    pub object: String,
    pub expected: Option<String>,
    pub found: Option<String>,
}

/// The entry of the state root beside tables, as it was agreed: of definitions, or of procedures in
/// a ledger of several engines.
pub fn entry(client: &SpiClient<'_>, sees: Sees) -> Option<(&'static str, Hash)> {
    let of = |name: &'static str| {
        let sql = format!("SELECT hash FROM chainify_ledger.{name}");
        let mut rows = Cursor::open(client, sees, &sql, &[]);
        // A hash that is none gives a root that no organisation has.
        let hash = rows.next_row().and_then(|row| row.bytes(1))?;
        Some((name, hash.try_into().unwrap_or_default()))
    };
    // There are no procedures before the extension's UPDATE.
    let procedures = || relation_named("chainify_ledger", PROCEDURES).and_then(|_| of(PROCEDURES));
    of(DEFINITIONS).or_else(procedures)
}

/// An object that was changed without the ledger. Cost: one definition text per object under the
/// ledger.
pub fn defects(client: &SpiClient<'_>, sees: Sees) -> Vec<Defect> {
    let sql = "SELECT object, expected, found FROM chainify_ledger.definition_defects()";
    let mut rows = Cursor::open(client, sees, sql, &[]);
    let mut defects = Vec::new();
    while let Some(row) = rows.next_row() {
        defects.push(Defect {
            object: row.text(1).unwrap_or_default(),
            expected: row.text(2),
            found: row.text(3),
        });
    }
    defects
}

/// Whether the texts kept hash to what is in the state root.
pub fn are_kept_as_hashed(client: &SpiClient<'_>) -> bool {
    let sql = "SELECT coalesce((SELECT hash FROM chainify_ledger.definitions) = chainify_ledger.hash_of_definitions(),
        NOT EXISTS (SELECT FROM chainify_ledger.definition))";
    Cursor::open(client, Sees::Latest, sql, &[])
        .next_row()
        .and_then(|row| row.boolean(1))
        .unwrap_or_default()
}
