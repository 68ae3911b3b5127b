//! `chainify.verify(digest)`: whether the ledger kept here still has the block that a digest, kept elsewhere, is of.
//!
//! The ledger itself is verified beside it (sql/52_attest.sql): what is said here is that it leads through the digest's block.

use chainify_ledger::audit::{Finding, StoredBlock};
use chainify_ledger::certificate::Certificate;
use chainify_ledger::receipt::VERSION;
use chainify_ledger::Hash;
use pgrx::prelude::*;
use pgrx::spi::SpiClient;
use pgrx::JsonB;
use serde_json::Value;

use crate::api::certificates::{self, Authority};
use crate::api::{half, verify, verify_table};
use crate::pg::cursor::Sees;
use crate::pg::error::PgError;
use crate::pg::function::{cell, Answer, Call};

crate::sql_function!(
    chainify_digest_findings,
    pg_finfo_chainify_digest_findings,
    digest_findings
);

/// `chainify_ledger.digest_findings(digest)`: one row per field that the block kept here has otherwise. Cost: reads one block's row.
fn digest_findings(call: &mut Call) -> Answer {
    let JsonB(digest) = call.required(0, "digest");
    let digest = Digest::read(&digest).unwrap_or_else(|why| {
        PgError::new(b"22023", "digest is malformed")
            .detail(format!("{why}."))
            .raise()
    });
    call.rows(|row| {
        Spi::connect(|client| {
            half::refuse(client, Sees::Statement);
            for finding in digest.compare(client) {
                row(&[
                    cell(digest.block.number),
                    cell(finding.what.to_owned()),
                    cell(finding.detail),
                ]);
            }
        })
    })
}

struct Digest {
    chain_id: String,
    block: StoredBlock,
    effect_round: u32,
    votes: Value,
}

impl Digest {
    /// Errors name the field.
    fn read(digest: &Value) -> Result<Self, String> {
        let version = integer::<u64>(digest, "chainify_receipt")?;
        if version != VERSION {
            return Err(format!("chainify_receipt is {version}, want {VERSION}"));
        }
        let block = member(digest, "block")?;
        let certificate = member(digest, "certificate")?;
        Ok(Digest {
            chain_id: text(digest, "chain_id")?.to_owned(),
            effect_round: integer(certificate, "effect_round")?,
            votes: member(certificate, "votes")?.clone(),
            block: StoredBlock {
                number: integer(block, "number")?,
                order_height: integer(block, "order_height")?,
                block_time: integer(block, "block_time")?,
                tx_root: bytes(block, "tx_root")?,
                tx_count: integer(block, "tx_count")?,
                outcomes: bytes(block, "outcomes")?,
                effects_root: bytes(block, "effects_root")?,
                effects_count: integer(block, "effects_count")?,
                state_root: bytes(block, "state_root")?,
                previous_hash: bytes(block, "previous")?,
                hash: bytes(digest, "hash")?,
            },
        })
    }

    fn compare(&self, client: &SpiClient<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut found = |detail: String| findings.push(Finding::new("digest", detail));
        let mut authority = Authority::read(client);
        let number = self.block.number;
        if self.chain_id != authority.chain_id {
            found(format!(
                "chain_id: it is of chain {}, this database is of {}",
                self.chain_id, authority.chain_id
            ));
        }
        match self.block.header(&self.chain_id) {
            Err(error) => found(format!("block.{error}")),
            Ok(header) if header.hash()[..] != self.block.hash[..] => {
                found("hash: it is not that of the digest's own block".into());
            }
            Ok(_) => {}
        }
        match verify::block(client, Sees::Statement, number) {
            Some(kept) => differences(&self.block, &kept)
                .into_iter()
                .for_each(&mut found),
            None => {
                let last = verify_table::last_block(client, Sees::Statement).unwrap_or_default();
                found(format!(
                    "block.number: there is no block {number} here, the last one is {last}"
                ));
            }
        }
        match self.certificate() {
            Err(error) => found(format!("certificate: {error}")),
            Ok(certificate) => authority
                .check(number, &self.block.hash, &certificate)
                .into_iter()
                .for_each(|finding| found(format!("certificate: {finding}"))),
        }
        findings
    }

    fn certificate(&self) -> Result<Certificate, String> {
        Ok(Certificate {
            number: self.block.number as u64,
            effect_round: self.effect_round,
            hash: Hash::try_from(&self.block.hash[..]).map_err(|_| "hash is malformed")?,
            votes: certificates::read_votes(&self.votes)?,
        })
    }
}

/// What the block kept has otherwise than the digest, field by field.
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

fn member<'v>(of: &'v Value, field: &str) -> Result<&'v Value, String> {
    of.get(field).ok_or_else(|| format!("{field} is missing"))
}

fn text<'v>(of: &'v Value, field: &str) -> Result<&'v str, String> {
    let text = member(of, field)?.as_str();
    text.ok_or_else(|| format!("{field} is no text"))
}

fn integer<T: std::str::FromStr>(of: &Value, field: &str) -> Result<T, String> {
    let number = member(of, field)?;
    let number = number.is_number().then(|| number.to_string().parse().ok());
    number
        .flatten()
        .ok_or_else(|| format!("{field} is no such number"))
}

fn bytes(of: &Value, field: &str) -> Result<Vec<u8>, String> {
    certificates::from_hex(text(of, field)?).ok_or_else(|| format!("{field} is not hexadecimal"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
