//! Checks a ledger block as a database keeps it against what its header commits to.
//!
//! Nothing stored is trusted: ids are computed from the transactions' bytes, the effects root from
//! the rows in the history, the hash from the header's fields. Each defect is one finding that
//! names what differs and how.

use chainify_codec::{effects_root, hex, Change, Op};

use crate::{tx_root, Hash, LedgerBlock, Outcomes, Transaction, WireError};

/// A block's row, as stored: fields may have any length and value.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    /// Number of the block.
    pub number: i64,
    /// Height of its order block.
    pub order_height: i64,
    /// Microseconds since the Unix epoch.
    pub block_time: i64,
    /// See [`LedgerBlock`], as the fields below.
    pub tx_root: Vec<u8>,
    /// How many transactions it has.
    pub tx_count: i32,
    /// Bitmap.
    pub outcomes: Vec<u8>,
    /// Root over the changes.
    pub effects_root: Vec<u8>,
    /// How many changes it has.
    pub effects_count: i32,
    /// Root over the tables' states.
    pub state_root: Vec<u8>,
    /// LedgerBlockHash of the block before.
    pub previous_hash: Vec<u8>,
    /// LedgerBlockHash.
    pub hash: Vec<u8>,
}

impl StoredBlock {
    /// The header these fields make. Errors name the field.
    pub fn header(&self, chain_id: &str) -> Result<LedgerBlock, WireError> {
        let header = LedgerBlock {
            chain_id: chain_id.to_owned(),
            number: unsigned("number", self.number)?,
            order_height: unsigned("order_height", self.order_height)?,
            block_time: self.block_time,
            tx_root: digest("tx_root", &self.tx_root)?,
            outcomes: Outcomes::from_bytes(unsigned("tx_count", self.tx_count)?, &self.outcomes)?,
            effects_root: digest("effects_root", &self.effects_root)?,
            effects_count: unsigned("effects_count", self.effects_count)?,
            state_root: digest("state_root", &self.state_root)?,
            previous: digest("previous_hash", &self.previous_hash)?,
        };
        header.check()?;
        Ok(header)
    }
}

fn unsigned<S: TryInto<U> + Copy + std::fmt::Display, U>(field: &str, value: S) -> Result<U, WireError> {
    value.try_into().map_err(|_| WireError::new(field, format!("is {value}")))
}

fn digest(field: &str, bytes: &[u8]) -> Result<Hash, WireError> {
    bytes.try_into().map_err(|_| WireError::new(field, format!("has {} bytes, want 32", bytes.len())))
}

/// A transaction's row, as stored.
#[derive(Clone, Debug)]
pub struct StoredTransaction {
    /// Index in the block.
    pub index: i32,
    /// The id kept beside the bytes.
    pub id: Vec<u8>,
    /// Bytes of the `ChainedTx`.
    pub body: Vec<u8>,
    /// The outcome kept beside the bytes.
    pub succeeded: bool,
}

/// A row of a history table, as stored, with its encodings computed from the row itself.
#[derive(Clone, Debug)]
pub struct StoredChange<'a> {
    /// `schema.name`, unquoted.
    pub table: &'a str,
    /// Row encoding of the primary key's columns.
    pub pk: Vec<u8>,
    /// The serial kept.
    pub serial: i32,
    /// The index of the transaction kept.
    pub tx: i32,
    /// The operation kept, one ASCII letter.
    pub op: u8,
    /// The row hash kept.
    pub kept_hash: Vec<u8>,
    /// The row hash computed.
    pub row_hash: Hash,
}

/// One defect of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The fault, in a few fixed words.
    pub what: &'static str,
    /// Where and how.
    pub detail: String,
}

impl Finding {
    /// A finding of kind `what`.
    pub fn new(what: &'static str, detail: impl Into<String>) -> Self {
        Self { what, detail: detail.into() }
    }
}

/// Everything wrong with a block, its transactions and its changes; empty when nothing is.
///
/// `previous` is the LedgerBlockHash kept by the block before; zeros for block 1; `None` when that
/// block is missing. `transactions` ascend by index, `changes` by serial within a key. Cost: a
/// SHA-256 per transaction and two per change.
pub fn check_block(
    chain_id: &str,
    block: &StoredBlock,
    previous: Option<&[u8]>,
    transactions: &[StoredTransaction],
    changes: &[StoredChange<'_>],
) -> Vec<Finding> {
    let mut findings = check_header(chain_id, block, previous);
    check_transactions(block, transactions, &mut findings);
    check_changes(block, changes, &mut findings);
    findings
}

/// Everything wrong with a block's header, for a block of which nothing else is kept.
///
/// `previous` is as for [`check_block`]. Cost: a SHA-256.
pub fn check_header(chain_id: &str, block: &StoredBlock, previous: Option<&[u8]>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match block.header(chain_id) {
        Err(error) => findings.push(Finding::new("header field", error.to_string())),
        Ok(header) if header.hash()[..] != block.hash[..] => {
            let detail =
                format!("the header hashes to {}, the block's hash is {}", hex(&header.hash()), hex(&block.hash));
            findings.push(Finding::new("block hash", detail));
        }
        Ok(_) => {}
    }
    if let Some(previous) = previous.filter(|previous| *previous != block.previous_hash) {
        let detail = format!("it is {}, the block before has {}", hex(&block.previous_hash), hex(previous));
        findings.push(Finding::new("previous hash", detail));
    }
    findings
}

fn check_transactions(block: &StoredBlock, transactions: &[StoredTransaction], findings: &mut Vec<Finding>) {
    if usize::try_from(block.tx_count) != Ok(transactions.len()) {
        let detail = format!("the header counts {}, there are {}", block.tx_count, transactions.len());
        findings.push(Finding::new("transaction count", detail));
    }
    let outcomes = u32::try_from(block.tx_count).ok().and_then(|n| Outcomes::from_bytes(n, &block.outcomes).ok());
    let mut ids = Vec::with_capacity(transactions.len());
    for (place, transaction) in transactions.iter().enumerate() {
        let index = transaction.index;
        if usize::try_from(index) != Ok(place) {
            findings.push(Finding::new("transaction index", format!("{index} follows {} others", place)));
        }
        match Transaction::decode(&transaction.body) {
            Err(error) => findings.push(Finding::new("transaction body", format!("transaction {index}: {error}"))),
            Ok(decoded) => {
                if decoded.id[..] != transaction.id[..] {
                    let detail = format!(
                        "transaction {index}: its bytes have id {}, kept is {}",
                        hex(&decoded.id),
                        hex(&transaction.id)
                    );
                    findings.push(Finding::new("transaction id", detail));
                }
                ids.push(decoded.id);
            }
        }
        let certified = outcomes.as_ref().and_then(|outcomes| outcomes.succeeded(u32::try_from(index).ok()?));
        if let Some(certified) = certified.filter(|certified| *certified != transaction.succeeded) {
            let detail = format!("transaction {index}: kept is {}, the header says {certified}", transaction.succeeded);
            findings.push(Finding::new("outcome", detail));
        }
    }
    if ids.len() == transactions.len() && tx_root(&ids)[..] != block.tx_root[..] {
        let detail = format!("the transactions give {}, the header has {}", hex(&tx_root(&ids)), hex(&block.tx_root));
        findings.push(Finding::new("transaction root", detail));
    }
}

fn check_changes(block: &StoredBlock, stored: &[StoredChange<'_>], findings: &mut Vec<Finding>) {
    if usize::try_from(block.effects_count) != Ok(stored.len()) {
        let detail = format!("the header counts {}, the history has {}", block.effects_count, stored.len());
        findings.push(Finding::new("effects count", detail));
    }
    let mut changes = Vec::with_capacity(stored.len());
    for row in stored {
        if row.kept_hash[..] != row.row_hash[..] {
            let detail = format!("{}: the row has {}, kept is {}", place(row), hex(&row.row_hash), hex(&row.kept_hash));
            findings.push(Finding::new("history hash", detail));
        }
        let (Some(op), Ok(tx)) = (Op::from_byte(row.op), u32::try_from(row.tx)) else {
            findings.push(Finding::new("history row", format!("{}: no such operation or transaction", place(row))));
            continue;
        };
        changes.push(Change { table: row.table, pk: &row.pk, tx, op, row_hash: row.row_hash, serial: 0 });
    }
    let effects = effects_root(&mut changes);
    if changes.len() < stored.len() {
        return; // found already, and the root cannot come out right
    }
    for (row, change) in stored.iter().zip(&changes) {
        if i64::from(row.serial) != i64::from(change.serial) {
            let detail = format!("{}: expected serial {}", place(row), change.serial);
            findings.push(Finding::new("history serial", detail));
        }
    }
    if effects.root[..] != block.effects_root[..] {
        let detail = format!("the history gives {}, the header has {}", hex(&effects.root), hex(&block.effects_root));
        findings.push(Finding::new("effects root", detail));
    }
}

fn place(row: &StoredChange<'_>) -> String {
    format!("{} transaction {} serial {}", row.table, row.tx, row.serial)
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::messages::{ChainedTx, Client, Kind, Proposal, SignedProposal};

    const CHAIN: &str = "chain-a";

    #[derive(Clone)]
    struct Kept {
        block: StoredBlock,
        transactions: Vec<StoredTransaction>,
        changes: Vec<StoredChange<'static>>,
    }

    impl Kept {
        fn findings(&self) -> Vec<&'static str> {
            let found = check_block(CHAIN, &self.block, Some(&[7; 32]), &self.transactions, &self.changes);
            found.into_iter().map(|finding| finding.what).collect()
        }
    }

    fn body(nonce: u64) -> Vec<u8> {
        let client = Client { organisation: "alpha".into(), role: "app".into(), key: vec![] };
        let proposal = Proposal {
            chain_id: CHAIN.into(),
            client: Some(client),
            nonce,
            valid_until_height: 9,
            kind: Kind::Sql as i32,
            sql: "SELECT 1".into(),
            ..Proposal::default()
        };
        let signed = SignedProposal { proposal: proposal.encode_to_vec(), signature: vec![] };
        ChainedTx { proposal: Some(signed), agreements: vec![] }.encode_to_vec()
    }

    fn transaction(index: i32, succeeded: bool) -> StoredTransaction {
        let body = body(index as u64);
        let id = Transaction::decode(&body).expect("valid").id.to_vec();
        StoredTransaction { index, id, body, succeeded }
    }

    fn change(pk: u8, serial: i32, tx: i32, op: u8) -> StoredChange<'static> {
        let row_hash = [pk + serial as u8; 32];
        StoredChange { table: "public.t", pk: vec![pk], serial, tx, op, kept_hash: row_hash.to_vec(), row_hash }
    }

    /// A block with nothing wrong.
    fn kept() -> Kept {
        let transactions = vec![transaction(0, true), transaction(1, false), transaction(2, true)];
        let stored = vec![change(1, 0, 0, b'I'), change(2, 0, 0, b'U'), change(1, 1, 2, b'D')];
        let mut changes: Vec<_> = stored
            .iter()
            .map(|row| Change {
                table: row.table,
                pk: &row.pk,
                tx: row.tx as u32,
                op: Op::from_byte(row.op).expect("an operation"),
                row_hash: row.row_hash,
                serial: 0,
            })
            .collect();
        let ids: Vec<Hash> = transactions.iter().map(|t| t.id.clone().try_into().expect("32 bytes")).collect();
        let mut block = StoredBlock {
            number: 4,
            order_height: 6,
            block_time: 1_000,
            tx_root: tx_root(&ids).to_vec(),
            tx_count: 3,
            outcomes: vec![0b101],
            effects_root: effects_root(&mut changes).root.to_vec(),
            effects_count: 3,
            state_root: vec![9; 32],
            previous_hash: vec![7; 32],
            hash: vec![],
        };
        block.hash = block.header(CHAIN).expect("valid").hash().to_vec();
        Kept { block, transactions, changes: stored }
    }

    fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        bytes
    }

    #[test]
    fn a_block_as_it_was_sealed_has_no_finding() {
        assert_eq!(kept().findings(), Vec::<&str>::new());
    }

    #[test]
    fn every_byte_of_the_header_counts() {
        type Field = fn(&mut StoredBlock) -> &mut Vec<u8>;
        let fields: [(Field, &str); 6] = [
            (|b| &mut b.tx_root, "transaction root"),
            (|b| &mut b.outcomes, "outcome"),
            (|b| &mut b.effects_root, "effects root"),
            (|b| &mut b.state_root, "block hash"),
            (|b| &mut b.previous_hash, "previous hash"),
            (|b| &mut b.hash, "block hash"),
        ];
        for (field, what) in fields {
            for at in 0..field(&mut kept().block).len() {
                let mut kept = kept();
                *field(&mut kept.block) = flipped(field(&mut kept.block), at);
                let findings = kept.findings();
                assert!(findings.contains(&"block hash") && findings.contains(&what), "{what} byte {at}: {findings:?}");
            }
            let mut kept = kept();
            field(&mut kept.block).push(0);
            assert_ne!(kept.findings(), Vec::<&str>::new(), "{what} too long");
        }
    }

    #[test]
    fn every_number_of_the_header_counts() {
        let changes: [(fn(&mut StoredBlock), &str); 6] = [
            (|b| b.number += 1, "block hash"),
            (|b| b.order_height += 1, "block hash"),
            (|b| b.block_time += 1, "block hash"),
            (|b| b.tx_count += 1, "transaction count"),
            (|b| b.effects_count += 1, "effects count"),
            (|b| b.number = -1, "header field"),
        ];
        for (change, what) in changes {
            let mut kept = kept();
            change(&mut kept.block);
            assert!(kept.findings().contains(&what), "{what}: {:?}", kept.findings());
        }
    }

    #[test]
    fn every_byte_of_a_transaction_counts() {
        for at in 0..kept().transactions[1].body.len() {
            let mut kept = kept();
            kept.transactions[1].body = flipped(&kept.transactions[1].body, at);
            assert_ne!(kept.findings(), Vec::<&str>::new(), "byte {at}");
        }
        let mut changed = kept();
        changed.transactions[1].id[3] ^= 1;
        assert_eq!(changed.findings(), ["transaction id"]);
        let mut changed = kept();
        changed.transactions[1].succeeded = true;
        assert_eq!(changed.findings(), ["outcome"]);
        let mut changed = kept();
        changed.transactions.remove(2);
        assert_eq!(changed.findings(), ["transaction count", "transaction root"]);
        let mut changed = kept();
        changed.transactions[2].index = 7;
        assert_eq!(changed.findings(), ["transaction index"]);
    }

    #[test]
    fn every_field_of_a_change_counts() {
        let changes: [(fn(&mut StoredChange<'static>), &[&str]); 8] = [
            (|c| c.row_hash[5] ^= 1, &["history hash", "effects root"]),
            (|c| c.kept_hash[5] ^= 1, &["history hash"]),
            (|c| c.pk[0] = 9, &["history serial", "effects root"]),
            (|c| c.table = "public.u", &["history serial", "effects root"]),
            (|c| c.tx = 1, &["effects root"]),
            (|c| c.tx = -1, &["history row"]),
            (|c| c.op = b'U', &["effects root"]),
            (|c| c.op = b'X', &["history row"]),
        ];
        for (change, what) in changes {
            let mut kept = kept();
            change(&mut kept.changes[2]);
            assert_eq!(kept.findings(), what);
        }
        let mut serial = kept();
        serial.changes[2].serial = 2;
        assert_eq!(serial.findings(), ["history serial"]);
        let mut missing = kept();
        missing.changes.remove(1);
        assert_eq!(missing.findings(), ["effects count", "effects root"]);
    }
}
