//! Readers that need exactly one block.

use crate::block::half_committed;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::own_lock;
use crate::pg::base::own_lock::OwnLock;
use crate::pg::base::spi;

crate::pg::sql_function!(
    chainify_read_block,
    pg_finfo_chainify_read_block,
    read_block
);

/// `chainify.read_block()`: the last block, which stays the last one that this transaction sees.
/// Contract in spec/sql-api.md.
///
/// A block is committed with the lock held alone, so what a later statement sees is not of another
/// block. A snapshot taken before this call may have been taken while a block was being committed:
/// then it shows a part without its block, and is refused.
fn read_block(call: &mut Call) -> Answer {
    own_lock::share(OwnLock::Block);
    let number = spi::connect(|client| {
        half_committed::refuse(client, Sees::Latest);
        let sql = "SELECT coalesce(max(number), 0) FROM chainify_ledger.block";
        let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
        rows.next_row().and_then(|row| row.bigint(1))
    });
    call.value::<i64>(number)
}
