//! DEPLOY transactions that succeeded, with the proofs of their places in their blocks. They stay
//! when the rest of a block is dropped.
use chainify_codec::Hash;
use chainify_ledger::foundation::Deploy;

use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::cell;
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

/// Keeps one; what was kept of its place before makes way.
pub fn keep(deploy: &Deploy) {
    let sql =
        "INSERT INTO chainify_ledger.deployed (block, index, body, path) VALUES ($1, $2, $3, $4)
        ON CONFLICT (block, index) DO UPDATE SET body = excluded.body, path = excluded.path";
    let arguments = [
        cell(deploy.block as i64),
        cell(deploy.index as i32),
        cell(deploy.body.to_vec()),
        cell(deploy.path.concat()),
    ];
    spi::connected(|| spi::query(sql, &arguments, |_| ()));
}

/// Those of blocks up to `number`, in their order. A text that was changed behind the ledger's
/// back has a path that proves nothing.
pub fn each(client: &SpiClient<'_>, sees: Sees, number: i64, f: &mut dyn FnMut(Deploy)) {
    let sql = "SELECT block, index, body, path FROM chainify_ledger.deployed
        WHERE block <= $1 ORDER BY block, index";
    let mut rows = Cursor::open(client, sees, sql, &[number.into()]);
    while let Some(row) = rows.next_row() {
        let path = row.bytes(4).unwrap_or_default();
        f(Deploy {
            block: row.bigint(1).unwrap_or_default() as u64,
            index: row.int(2).unwrap_or_default() as u32,
            path: path
                .chunks_exact(size_of::<Hash>())
                .filter_map(|hash| hash.try_into().ok())
                .collect(),
            body: &row.bytes(3).unwrap_or_default(),
        });
    }
}
