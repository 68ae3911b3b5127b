//! The transactions of a block as `chainify_node.execute_block` takes them:
//! `u32 count ‖ per transaction lp(ChainedTx)`.

use crate::read::Reader;
use crate::{length_prefix, WireError};

/// The `ChainedTx` bytes of each transaction, in block order, borrowed from `buffer`. Checks the
/// framing only.
pub fn split(buffer: &[u8]) -> Result<Vec<&[u8]>, WireError> {
    let mut reader = Reader::new(buffer);
    let count = reader.u32("count")? as usize;
    if count > reader.remaining() / 4 {
        return Err(WireError::new("count", format!("{count} transactions in {} bytes", buffer.len())));
    }
    let transactions = (0..count).map(|i| reader.prefixed("transaction").map_err(|e| indexed(e, i)));
    let transactions = transactions.collect::<Result<_, _>>()?;
    reader.end("transactions")?;
    Ok(transactions)
}

fn indexed(error: WireError, index: usize) -> WireError {
    WireError { field: format!("transactions[{index}]"), ..error }
}

/// The buffer that [`split`] takes apart.
pub fn join<T: AsRef<[u8]>>(transactions: &[T]) -> Vec<u8> {
    let count = u32::try_from(transactions.len()).expect("a block's transactions are counted by a u32");
    let mut buffer = count.to_be_bytes().to_vec();
    for transaction in transactions.iter().map(AsRef::as_ref) {
        buffer.extend_from_slice(&length_prefix(transaction));
        buffer.extend_from_slice(transaction);
    }
    buffer
}
