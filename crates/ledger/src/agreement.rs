//! Organisations' agreements to a transaction (`spec/agreement.md`).

use crate::certificate::verify_signature;
use crate::messages::Agreement;
use crate::{length_prefix, Hash};

/// The bytes that an organisation signs:
/// `"chainify/agreement/1" ‖ lp(chain_id) ‖ lp(organisation) ‖ transaction id ‖ u8 yes`.
pub fn sign_bytes(chain_id: &str, organisation: &str, id: &Hash, yes: bool) -> Vec<u8> {
    let mut message = b"chainify/agreement/1".to_vec();
    for name in [chain_id, organisation] {
        message.extend_from_slice(&length_prefix(name.as_bytes()));
        message.extend_from_slice(name.as_bytes());
    }
    message.extend_from_slice(id);
    message.push(u8::from(yes));
    message
}

/// Whether `agreement` says yes to the transaction `id`, signed with the key of its organisation,
/// by the rule of votes. Cost: one signature verification.
pub fn agrees(agreement: &Agreement, public_key: &[u8], chain_id: &str, id: &Hash) -> bool {
    let message = sign_bytes(chain_id, &agreement.organisation, id, true);
    agreement.yes && agreement.proposal_hash == id && verify_signature(public_key, &message, &agreement.signature)
}
