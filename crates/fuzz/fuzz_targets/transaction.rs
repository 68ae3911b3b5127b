//! Transactions as ordered: what decodes encodes to the same bytes (L1), within its bounds.

#![no_main]

use chainify_ledger::messages::{ChainedTx, SignedProposal};
use chainify_ledger::{decode_proposal, tx_id, Transaction, AGREEMENTS_MAX, PARAMETERS_MAX};
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(proposal) = decode_proposal(bytes) {
        assert_eq!(proposal.encode_to_vec(), bytes);
    }
    let Ok(transaction) = Transaction::decode(bytes) else { return };
    let Transaction { id, proposal, signature, agreements } = transaction;
    assert!(proposal.parameters.len() <= PARAMETERS_MAX && agreements.len() <= AGREEMENTS_MAX);
    let signs = proposal.client.as_ref().is_some_and(|client| client.key.len() == 32);
    assert!(matches!((signs, signature.len()), (false, 0) | (true, 64 | 72..)));
    let proposal = proposal.encode_to_vec();
    assert_eq!(id, tx_id(&proposal));
    let chained = ChainedTx { proposal: Some(SignedProposal { proposal, signature }), agreements };
    assert_eq!(chained.encode_to_vec(), bytes);
});
