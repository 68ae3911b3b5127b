//! Copies the DEPLOY transactions of a ledger of 0.1 out of its blocks, where alone that version
//! kept them (extension/upgrade/0.1.0.sql).
use chainify_codec::Hash;
use chainify_ledger::foundation::Deploy;
use chainify_ledger::messages::Kind;
use chainify_ledger::receipt::transaction_path;
use chainify_ledger::Transaction;

use crate::ledger::{deployed, stored_blocks};
use crate::pg::base::backend::unrecorded;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

crate::pg::sql_function!(
    chainify_keep_deployed,
    pg_finfo_chainify_keep_deployed,
    keep_deployed
);

/// `chainify_ledger.keep_deployed()`, which exists within an update alone. Keeps each that
/// succeeded and is in its block. Returns how many these are. Cost: reads all transactions.
fn keep_deployed(call: &mut Call) -> Answer {
    let kept: i64 = unrecorded(|| {
        spi::connect(|client| {
            let blocks = blocks_with_deploys(client);
            blocks.into_iter().map(|number| keep(client, number)).sum()
        })
    });
    call.value(kept)
}

fn blocks_with_deploys(client: &SpiClient<'_>) -> Vec<i64> {
    let sql = "SELECT block, body FROM chainify_ledger.transaction WHERE succeeded ORDER BY block";
    let mut rows = Cursor::open(client, Sees::Latest, sql, &[]);
    let mut blocks = Vec::new();
    while let Some(row) = rows.next_row() {
        let (Some(block), Some(body)) = (row.bigint(1), row.bytes(2)) else {
            continue;
        };
        if is_deploy(&body) && blocks.last() != Some(&block) {
            blocks.push(block);
        }
    }
    blocks
}

fn is_deploy(body: &[u8]) -> bool {
    Transaction::decode(body).is_ok_and(|transaction| transaction.kind() == Kind::Deploy)
}

/// Keeps those of one block. A text that was changed behind the ledger's back is in no block.
fn keep(client: &SpiClient<'_>, number: i64) -> i64 {
    let chain_id = stored_blocks::chain_id(client, Sees::Latest);
    let header = stored_blocks::block(client, Sees::Latest, number);
    let Some(header) = header.and_then(|kept| kept.header(&chain_id).ok()) else {
        return 0;
    };
    let transactions = stored_blocks::transactions(client, Sees::Latest, number);
    let ids = transactions.iter().map(|stored| stored.id.as_slice());
    let Ok(ids) = ids.map(Hash::try_from).collect::<Result<Vec<_>, _>>() else {
        return 0;
    };
    let mut kept = 0;
    for (stored, index) in transactions.iter().zip(0..) {
        let Ok(transaction) = Transaction::decode(&stored.body) else {
            continue;
        };
        let deploy = Deploy {
            block: number as u64,
            index,
            path: transaction_path(&ids, index).unwrap_or_default(),
            body: &stored.body,
        };
        if transaction.kind() == Kind::Deploy && deploy.is_in(&header, &transaction.id) {
            deployed::keep(&deploy);
            kept += 1;
        }
    }
    kept
}
