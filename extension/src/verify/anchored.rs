//! `chainify.verify(digest)`: whether this ledger still has the block that a digest names.
//!
//! sql/52_attest.sql verifies the ledger itself. This file shows that its chain of headers goes
//! through the digest's block.

use chainify_codec::hex;
use chainify_ledger::audit::{Finding, StoredBlock};
use chainify_ledger::digest::Digest;
use pgrx::JsonB;

use crate::block::half_committed;
use crate::ledger::stored_blocks;
use crate::pg::base::cursor::Sees;
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;
use crate::verify::certificates::Authority;

crate::pg::sql_function!(
    chainify_digest_findings,
    pg_finfo_chainify_digest_findings,
    digest_findings
);

/// `chainify_ledger.digest_findings(digest)`: one row per field that the block kept here has
/// otherwise. Cost: reads one block's row.
fn digest_findings(call: &mut Call) -> Answer {
    let JsonB(digest) = call.required(0, "digest");
    let digest = Digest::read(&digest).unwrap_or_else(|why| {
        PgError::new(b"22023", "digest is malformed")
            .detail(format!("{why}."))
            .raise()
    });
    call.rows(|row| {
        spi::connect(|client| {
            half_committed::refuse(client, Sees::Statement);
            for finding in compare(&digest, client) {
                row(&[
                    cell(digest.block.number),
                    cell(finding.what.to_owned()),
                    cell(finding.detail),
                ]);
            }
        })
    })
}

/// The differences of the chain and the block kept here from the digest.
fn compare(digest: &Digest, client: &SpiClient<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |detail: String| findings.push(Finding::new("digest", detail));
    let mut authority = Authority::read(client);
    let number = digest.block.number;
    if digest.chain_id != authority.chain_id {
        found(format!(
            "chain_id: it is of chain {}, this database is of {}",
            digest.chain_id, authority.chain_id
        ));
    }
    match digest.block.header(&digest.chain_id) {
        Err(error) => found(format!("block.{error}")),
        Ok(header) if header.hash()[..] != digest.block.hash[..] => {
            found("hash: it is not that of the digest's own block".into());
        }
        Ok(_) => {}
    }
    match stored_blocks::block(client, Sees::Statement, number) {
        Some(kept) => differences(&digest.block, &kept)
            .into_iter()
            .for_each(&mut found),
        None => {
            let last = stored_blocks::last_block(client, Sees::Statement).unwrap_or_default();
            found(format!(
                "block.number: there is no block {number} here, the last one is {last}"
            ));
        }
    }
    match digest.certificate() {
        Err(error) => found(format!("certificate: {error}")),
        Ok(certificate) => authority
            .check(number, &digest.block.hash, &certificate)
            .into_iter()
            .for_each(|finding| found(format!("certificate: {finding}"))),
    }
    findings
}

/// The differences of the block kept here from the digest, field by field.
fn differences(digest: &StoredBlock, kept: &StoredBlock) -> Vec<String> {
    let shown = |block: &StoredBlock| {
        [
            ("block.order_height", block.order_height.to_string()),
            ("block.block_time", block.block_time.to_string()),
            ("block.tx_root", hex(&block.tx_root)),
            ("block.tx_count", block.tx_count.to_string()),
            ("block.outcomes", hex(&block.outcomes)),
            ("block.effects_root", hex(&block.effects_root)),
            ("block.effects_count", block.effects_count.to_string()),
            ("block.state_root", hex(&block.state_root)),
            ("block.previous", hex(&block.previous_hash)),
            ("hash", hex(&block.hash)),
        ]
    };
    let pairs = shown(digest).into_iter().zip(shown(kept));
    let different = pairs.filter(|((_, digest), (_, kept))| digest != kept);
    different
        .map(|((field, digest), (_, kept))| {
            format!("{field}: the digest has {digest}, the block kept here has {kept}")
        })
        .collect()
}
