//! Which tables are mirrored, and which block a session sees.
use std::collections::BTreeMap;

use pgrx::pg_sys::Oid;

use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;
use crate::pg::base::spi;
use crate::pg::translate::analysed::{translate_text, Translated};
use crate::pg::translate::parameters::Parameters;
use crate::pg::translate::reader::Asker;

const MIRRORED: &str = "SELECT relation::bigint, table_id FROM chainify_ledger.mirrored()";
/// The role that reads every row of every ledger table, at any block.
pub const READER: &str = "chainify_reader";
const LAST_BLOCK: &str = "SELECT coalesce(max(number), 0) FROM chainify_ledger.block";

/// Mirrored tables by relation.
pub fn mirrored() -> BTreeMap<u32, i32> {
    let mut found = BTreeMap::new();
    as_owner(|| {
        spi::query(MIRRORED, &[], |row| {
            let relation: i64 = row.must(1);
            found.insert(relation as u32, row.must(2));
        });
    });
    found
}

/// The last block that the statement's snapshot sees; 0: there is none.
pub fn last_block() -> i64 {
    let mut last = 0;
    as_owner(|| {
        spi::query(LAST_BLOCK, &[], |row| last = row.must(1));
    });
    last
}

/// A query in the worker's dialect, as the current role may ask it. Errors: see
/// [`translate_text`].
pub fn translated(sql: &str, parameters: &Parameters) -> Result<Translated, PgError> {
    let mirrored = mirrored();
    let number = |relation: Oid| mirrored.get(&relation.to_u32()).copied();
    let role = Role::current();
    let reads_all = role.is_member_of(READER);
    let asker = Asker { role, reads_all };
    // Functions of constants run here. In PostgreSQL's restricted context they take no other role.
    role.run(|| translate_text(sql, parameters, &number, asker))
}

/// The ledger's own tables are nobody else's to read.
fn as_owner(f: impl FnOnce()) {
    Role::bootstrap().run(|| spi::connected(f));
}
