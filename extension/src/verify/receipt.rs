//! Makes receipts and digests (spec/receipt.md): facts of a certified block, with all data that a
//! reader outside needs to check them.
//!
//! A receipt is made of the data themselves, which are read and checked again. When a check fails
//! no receipt is given, so every receipt verifies.

use chainify_codec::{Change, Op};
use chainify_ledger::audit::{check_block, StoredBlock, StoredChange, StoredTransaction};
use chainify_ledger::certificate::Certificate;
use chainify_ledger::receipt::{
    change_path, to_json, transaction_path, ChangeProof, TransactionProof,
};
use chainify_ledger::{Hash, LedgerBlock};
use pgrx::pg_sys;
use pgrx::JsonB;

use crate::block::half_committed;
use crate::ledger::dropped;
use crate::ledger::history;
use crate::ledger::history::{History, Kept};
use crate::ledger::row_bytes;
use crate::ledger::stored_blocks;
use crate::pg::base::cursor::{Cursor, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::pg::base::variadic::variadic_from;
use crate::verify::certificates;
use crate::verify::certificates::Authority;
use crate::verify::ledger;
use crate::verify::row_history;
use crate::verify::row_history::LastChange;

crate::pg::sql_function!(
    chainify_receipt_of_transaction,
    pg_finfo_chainify_receipt_of_transaction,
    of_transaction
);
crate::pg::sql_function!(
    chainify_receipt_of_row,
    pg_finfo_chainify_receipt_of_row,
    of_row
);
crate::pg::sql_function!(chainify_digest_of, pg_finfo_chainify_digest_of, digest);

/// Bytes of a receipt's text: what verifiers read (spec/receipt.md).
const BYTES_MAX: usize = 64 << 20;

/// `chainify.receipt(id)`. Raises 02000 when there is no such transaction. Cost: reads its block,
/// history included.
fn of_transaction(call: &mut Call) -> Answer {
    let id: Vec<u8> = call.required(0, "transaction");
    row_bytes::forget();
    let receipt = spi::connect(|client| {
        half_committed::refuse(client, Sees::Statement);
        let sql = "SELECT block, index FROM chainify_ledger.transaction WHERE id = $1 ORDER BY block LIMIT 1";
        let mut found = Cursor::open(client, Sees::Statement, sql, &[id.into()]);
        let place = found
            .next_row()
            .and_then(|row| row.bigint(1).zip(row.int(2)));
        let Some((block, index)) = place else {
            let missing = PgError::new(
                b"02000",
                "there is no transaction with this id in the ledger",
            );
            beyond(client, missing).raise()
        };
        drop(found);
        let tables = readable(client);
        Certified::read(client, &tables, block).receipt(index, None)
    });
    call.value(bounded(receipt))
}

/// `chainify.receipt(ledger_table, VARIADIC key)`: of the row's last change. Cost: a look-up in the
/// history, then as above.
fn of_row(call: &mut Call) -> Answer {
    let relation: pg_sys::Oid = call.required(0, "ledger_table");
    let key = variadic_from(call, 1);
    row_bytes::forget();
    let receipt = spi::connect(|client| {
        half_committed::refuse(client, Sees::Statement);
        let Some(change) = row_history::last_change(client, relation, &key) else {
            let missing = PgError::new(b"02000", "no block changed a row with this key")
                .detail("A row that was there when its table was put on the ledger has no receipt until it is changed.");
            beyond(client, missing).raise()
        };
        let tables = readable(client);
        let block = Certified::read(client, &tables, change.block);
        block.receipt_of_change(&change)
    });
    call.value(bounded(receipt))
}

/// `chainify.digest(block)`: the block alone; without an argument the last one that is certified.
fn digest(call: &mut Call) -> Answer {
    let asked: Option<i64> = call.arg(0);
    let digest = spi::connect(|client| {
        half_committed::refuse(client, Sees::Statement);
        let number = asked.unwrap_or_else(|| last_certified(client));
        let (_, header, certificate) = certified(client, number);
        to_json(&header, &certificate, None, None)
    });
    call.value(bounded(digest))
}

/// Where blocks were dropped, what is not found may be in the archive.
fn beyond(client: &SpiClient<'_>, missing: PgError) -> PgError {
    let gone = dropped::read(client, Sees::Statement);
    if gone.block == 0 {
        return missing;
    }
    missing
        .detail(gone.says())
        .hint("Ask the archive: chainify archive receipt.")
}

fn bounded(receipt: serde_json::Value) -> JsonB {
    let bytes = receipt.to_string().len();
    if bytes > BYTES_MAX {
        let message = format!("the receipt would have {bytes} bytes, at most {BYTES_MAX}");
        PgError::new(b"54000", message).raise();
    }
    JsonB(receipt)
}

fn last_certified(client: &SpiClient<'_>) -> i64 {
    let sql = "SELECT max(number) FROM chainify_ledger.certificate";
    let mut rows = Cursor::open(client, Sees::Statement, sql, &[]);
    let last = rows.next_row().and_then(|row| row.bigint(1));
    last.unwrap_or_else(|| PgError::new(b"55000", "no block is certified yet").raise())
}

/// Every history; one that cannot be read may be what the block's effects root misses, which is
/// then found there.
fn readable(client: &SpiClient<'_>) -> Vec<History> {
    history::readable(client, &mut |_, _| ())
}

fn not_borne_out(number: i64, what: &str, detail: String) -> ! {
    PgError::new(
        b"CH002",
        format!("block {number} is not what was certified"),
    )
    .detail(format!("{what}: {detail}."))
    .hint("chainify.verify_ledger() names everything that does not fit its block.")
    .raise()
}

/// Block `number` with its header and certificate, which are shown to fit each other.
fn certified(client: &SpiClient<'_>, number: i64) -> (StoredBlock, LedgerBlock, Certificate) {
    let Some(block) = stored_blocks::block(client, Sees::Statement, number) else {
        PgError::new(b"02000", format!("there is no block {number}")).raise()
    };
    dropped::read(client, Sees::Statement).refuse(number);
    let Some(stored) = certificates::of_block(client, Sees::Statement, number) else {
        PgError::new(b"55000", format!("block {number} is not certified yet"))
            .detail("Its certificate comes with the next block of the order.")
            .hint("Try again in a moment.")
            .raise()
    };
    let mut authority = Authority::read(client);
    let header = block
        .header(&authority.chain_id)
        .unwrap_or_else(|error| not_borne_out(number, "header field", error.to_string()));
    if header.hash()[..] != block.hash[..] {
        not_borne_out(
            number,
            "block hash",
            "it is not that of the header kept".into(),
        );
    }
    let certificate = certificates::decode(stored)
        .unwrap_or_else(|error| not_borne_out(number, "certificate", error));
    if let Some(finding) = authority
        .check(number, &block.hash, &certificate)
        .into_iter()
        .next()
    {
        not_borne_out(number, "certificate", finding);
    }
    (block, header, certificate)
}

/// A block with everything in it, shown to be what its certificate says.
struct Certified<'t> {
    header: LedgerBlock,
    certificate: Certificate,
    transactions: Vec<StoredTransaction>,
    changes: Vec<StoredChange<'t>>,
    kept: Vec<Kept>,
}

impl<'t> Certified<'t> {
    fn read(client: &SpiClient<'_>, tables: &'t [History], number: i64) -> Self {
        let (block, header, certificate) = certified(client, number);
        let transactions = stored_blocks::transactions(client, Sees::Statement, number);
        let kept = history::of_block(client, tables, number);
        let changes = ledger::stored_changes(tables, &kept);
        let findings = check_block(&header.chain_id, &block, None, &transactions, &changes);
        if let Some(finding) = findings.into_iter().next() {
            not_borne_out(number, finding.what, finding.detail);
        }
        Certified {
            header,
            certificate,
            transactions,
            changes,
            kept,
        }
    }

    fn receipt(&self, index: i32, change: Option<&ChangeProof>) -> serde_json::Value {
        let number = self.header.number as i64;
        let hash = |t: &StoredTransaction| Hash::try_from(&t.id[..]).ok();
        let ids: Option<Vec<Hash>> = self.transactions.iter().map(hash).collect();
        let proof = ids.zip(u32::try_from(index).ok()).and_then(|(ids, index)| {
            Some(TransactionProof {
                index,
                id: *ids.get(index as usize)?,
                body: self.transactions[index as usize].body.clone(),
                path: transaction_path(&ids, index)?,
            })
        });
        let Some(proof) = proof else {
            not_borne_out(
                number,
                "transaction index",
                format!("it has no transaction {index}"),
            )
        };
        to_json(&self.header, &self.certificate, Some(&proof), change)
    }

    fn receipt_of_change(&self, wanted: &LastChange) -> serde_json::Value {
        let at = self.changes.iter().position(|change| {
            (change.table, &change.pk, change.serial)
                == (wanted.table.as_str(), &wanted.key, wanted.serial)
        });
        let Some((at, proof)) = at.and_then(|at| Some((at, self.prove(at)?))) else {
            let detail = format!("the change of {} found is none of it", wanted.table);
            not_borne_out(self.header.number as i64, "history", detail)
        };
        self.receipt(self.changes[at].tx, Some(&proof))
    }

    fn prove(&self, wanted: usize) -> Option<ChangeProof> {
        let change = |stored: &'_ StoredChange<'t>| -> Option<(u32, Op)> {
            Some((u32::try_from(stored.tx).ok()?, Op::from_byte(stored.op)?))
        };
        let mut changes = Vec::with_capacity(self.changes.len());
        for stored in &self.changes {
            let (tx, op) = change(stored)?;
            changes.push(Change {
                table: stored.table,
                pk: &stored.pk,
                tx,
                op,
                row_hash: stored.row_hash,
                serial: 0,
            });
        }
        let (leaf, path) = change_path(&mut changes, wanted)?;
        let change = &changes[wanted];
        Some(ChangeProof {
            table: change.table.to_owned(),
            key: change.pk.to_vec(),
            row: self.kept[wanted].row.clone(),
            serial: change.serial,
            op: change.op,
            leaf,
            path,
        })
    }
}
