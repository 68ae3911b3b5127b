//! The organisations that agree to a transaction, and whether they are enough to change rules that
//! bind all.
use std::collections::{BTreeMap, BTreeSet};

use chainify_ledger::agreement::agrees;
use chainify_ledger::Transaction;

use crate::pg::base::error::PgError;
use crate::pg::base::function::cell;
use crate::pg::base::spi::query;

/// The organisations that take part at a block, with the public keys of their gateways. Not by a
/// function of SQL, which would be planned anew for each transaction.
pub fn gateways(block: i64) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let sql = "SELECT o.name, o.gateway_key FROM chainify_ledger.organisation o
        WHERE NOT o.ordering_only AND o.from_block <= $1 AND (o.until_block IS NULL OR $1 < o.until_block)";
    query(sql, &[cell(block)], |row| {
        found.insert(row.must(1), row.must(2));
    });
    found
}

/// The organisations that agree to a transaction.
pub struct Agreeing(BTreeSet<String>);

impl Agreeing {
    /// The organisation that submitted it, and those that signed. Of several agreements of one
    /// organisation the first counts. Cost: one verification for each organisation that takes part
    /// and signed.
    pub fn of(transaction: &Transaction, chain_id: &str, block: i64) -> Self {
        let keys = gateways(block);
        let mut first = BTreeMap::new();
        for agreement in &transaction.agreements {
            first.entry(&agreement.organisation).or_insert(agreement);
        }
        let signed = first.into_values().filter(|agreement| {
            keys.get(&agreement.organisation)
                .is_some_and(|key| agrees(agreement, key, chain_id, &transaction.id))
        });
        let mut all: BTreeSet<String> = signed
            .map(|agreement| agreement.organisation.clone())
            .collect();
        all.extend(
            transaction
                .proposal
                .client
                .iter()
                .map(|client| client.organisation.clone()),
        );
        Self(all)
    }

    /// These organisations.
    pub fn of_names(names: BTreeSet<String>) -> Self {
        Self(names)
    }

    pub fn includes(&self, organisation: &str) -> bool {
        self.0.contains(organisation)
    }
}

/// Raises CH009 unless more than two thirds of the organisations agree, as for the rules of the
/// order. `subject` says why they have to.
pub fn check_majority(subject: &str, block: i64, agreeing: &Agreeing) {
    let all = gateways(block);
    let agree = all.keys().filter(|name| agreeing.includes(name)).count();
    let want = 2 * all.len() / 3 + 1;
    if agree < want {
        PgError::new(
            b"CH009",
            format!("{subject}: {agree} organisations agree to this change, {want} have to"),
        )
        .raise();
    }
}
