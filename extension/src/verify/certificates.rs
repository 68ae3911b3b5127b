//! Effect certificates as the database keeps them: `chainify_node.store_certificate`, and reading
//! them back.

use chainify_ledger::certificate::{check, Certificate, Expected, Validator};
use chainify_ledger::digest::read_votes;
use pgrx::JsonB;
use serde_json::Value;

use crate::ledger::stored_blocks;
use crate::pg::base::cursor::{Cursor, Row, Sees};
use crate::pg::base::error::PgError;
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi;
use crate::pg::base::spi::SpiClient;

crate::pg::sql_function!(
    chainify_store_certificate,
    pg_finfo_chainify_store_certificate,
    store_certificate
);

/// `chainify_node.store_certificate`: keeps the certificate of a committed block; the first one
/// stays. Raises 22000 when the hash is not the block's, 22023 when votes are malformed.
fn store_certificate(call: &mut Call) -> Answer {
    let number: i64 = call.required(0, "number");
    let effect_round: i32 = call.required(1, "effect_round");
    let hash: Vec<u8> = call.required(2, "hash");
    let votes: JsonB = call.required(3, "votes");
    if let Err(why) = read_votes(&votes.0) {
        PgError::new(b"22023", format!("certificate of block {number}: {why}")).raise();
    }
    spi::connected(|| {
        let mut kept: Option<Vec<u8>> = None;
        spi::query(
            "SELECT hash FROM chainify_ledger.block WHERE number = $1",
            &[cell(number)],
            |row| kept = row.get(1),
        );
        match kept {
            None => PgError::new(b"55000", format!("block {number} is not committed here")).raise(),
            Some(kept) if kept != hash => PgError::new(
                b"22000",
                format!("certificate is not for the hash of block {number}"),
            )
            .raise(),
            Some(_) => {}
        }
        let sql = "INSERT INTO chainify_ledger.certificate (number, effect_round, hash, votes) VALUES ($1, $2, $3, $4)
            ON CONFLICT (number) DO NOTHING";
        spi::query(
            sql,
            &[cell(number), cell(effect_round), cell(hash), cell(votes)],
            |_| (),
        );
    });
    call.void()
}

/// A row of `chainify_ledger.certificate`.
pub struct Stored {
    number: i64,
    effect_round: i32,
    hash: Vec<u8>,
    votes: Value,
}

/// The certificates of blocks `$1` to `$2`.
pub const STORED: &str = "
    SELECT number, effect_round, hash, votes FROM chainify_ledger.certificate WHERE number BETWEEN $1 AND $2 ORDER BY number";

pub fn stored(row: &Row<'_>) -> Stored {
    Stored {
        number: row.bigint(1).unwrap_or_default(),
        effect_round: row.int(2).unwrap_or_default(),
        hash: row.bytes(3).unwrap_or_default(),
        votes: row.json(4).map(|votes| votes.0).unwrap_or_default(),
    }
}

/// Reads a stored certificate. Errors say what is malformed.
pub fn decode(stored: Stored) -> Result<Certificate, String> {
    let wrong = |field: &str| format!("{field} is malformed");
    Ok(Certificate {
        number: u64::try_from(stored.number).map_err(|_| wrong("number"))?,
        effect_round: u32::try_from(stored.effect_round).map_err(|_| wrong("effect_round"))?,
        hash: stored.hash.try_into().map_err(|_| wrong("hash"))?,
        votes: read_votes(&stored.votes)?,
    })
}

/// The certificate of block `number`, if there is one.
pub fn of_block(client: &SpiClient<'_>, sees: Sees, number: i64) -> Option<Stored> {
    let arguments = [number.into(), number.into()];
    let mut rows = Cursor::open(client, sees, STORED, &arguments);
    rows.next_row().map(|row| stored(&row))
}

/// The facts that certificates of this chain have to fit.
pub struct Authority {
    pub chain_id: String,
    validators: Validators,
    consents: Consents,
}

impl Authority {
    pub fn read(client: &SpiClient<'_>) -> Self {
        let mut validators = Validators::read(client);
        let consents = Consents::read(client, &mut validators);
        Authority {
            chain_id: stored_blocks::chain_id(client, Sees::Statement),
            validators,
            consents,
        }
    }

    /// Everything wrong with the certificate kept of block `number`, which has `hash`. Cost: a
    /// signature verification per vote.
    pub fn findings(&mut self, number: i64, hash: &[u8], stored: Stored) -> Vec<String> {
        match decode(stored) {
            Ok(certificate) => self.check(number, hash, &certificate),
            Err(error) => vec![error],
        }
    }

    /// The same of a certificate that could be read.
    pub fn check(&mut self, number: i64, hash: &[u8], certificate: &Certificate) -> Vec<String> {
        // A hash that is none is reported with the header; then the certificate is checked for the
        // hash it names.
        let hash = hash.try_into().unwrap_or(certificate.hash);
        let expected = Expected {
            chain_id: &self.chain_id,
            number: number as u64,
            hash,
            validators: self.validators.of(number),
            consent: self.consents.of(number),
        };
        let findings = check(certificate, &expected);
        findings.iter().map(ToString::to_string).collect()
    }
}

/// Whose keys may sign, block by block.
pub struct Validators {
    /// With the first block a key holds for, and the first one it no longer does.
    periods: Vec<(i64, i64, Validator)>,
    /// Those of the block asked for last, and of all until the other one.
    of: Vec<Validator>,
    from: i64,
    until: i64,
}

impl Validators {
    /// Reads what `chainify_node.init` or `set_registry` was told.
    pub fn read(client: &SpiClient<'_>) -> Self {
        let mut periods = Vec::new();
        let sql = "SELECT public_key, organisation, from_block, until_block FROM chainify_ledger.validator ORDER BY address, from_block";
        let mut rows = Cursor::open(client, Sees::Statement, sql, &[]);
        while let Some(row) = rows.next_row() {
            let validator = Validator {
                public_key: row.bytes(1).unwrap_or_default(),
                organisation: row.text(2).unwrap_or_default(),
            };
            let (from, until) = (row.bigint(3), row.bigint(4));
            periods.push((
                from.unwrap_or(i64::MAX),
                until.unwrap_or(i64::MAX),
                validator,
            ));
        }
        Self {
            periods,
            of: Vec::new(),
            from: i64::MAX,
            until: i64::MIN,
        }
    }

    /// Those of a block. Cost: a pass over all when they are not those of the block asked for
    /// before.
    pub fn of(&mut self, block: i64) -> &[Validator] {
        if !(self.from..self.until).contains(&block) {
            let edges = self
                .periods
                .iter()
                .flat_map(|(from, until, _)| [*from, *until]);
            self.from = edges
                .clone()
                .filter(|edge| *edge <= block)
                .max()
                .unwrap_or(i64::MIN);
            self.until = edges.filter(|edge| *edge > block).min().unwrap_or(i64::MAX);
            let holds =
                |(from, until, _): &&(i64, i64, Validator)| (*from..*until).contains(&block);
            self.of = self
                .periods
                .iter()
                .filter(holds)
                .map(|(_, _, validator)| validator.clone())
                .collect();
        }
        &self.of
    }
}

/// How many organisations have to agree about each block: c of the beginning, and its changes.
pub struct Consents {
    first: usize,
    /// From which block on, and c; ascending.
    changes: Vec<(i64, usize)>,
}

impl Consents {
    /// Reads what `chainify_node.init` and `set_registry` were told.
    pub fn read(client: &SpiClient<'_>, validators: &mut Validators) -> Self {
        let sql = "SELECT from_block, consent FROM chainify_ledger.consent ORDER BY from_block";
        let mut rows = Cursor::open(client, Sees::Statement, sql, &[]);
        let mut changes = Vec::new();
        while let Some(row) = rows.next_row() {
            // A negative c, which nobody reaches, instead of one that everybody does.
            let consent = usize::try_from(row.int(2).unwrap_or(-1)).unwrap_or(usize::MAX);
            changes.push((row.bigint(1).unwrap_or_default(), consent));
        }
        let first = consent(client, validators.of(1));
        Self { first, changes }
    }

    /// c of a block.
    pub fn of(&self, block: i64) -> usize {
        let change = self.changes.iter().rev().find(|(from, _)| *from <= block);
        change.map_or(self.first, |(_, consent)| *consent)
    }
}

/// As `chainify_node.init` was told, or by the default of the order's genesis: more than two thirds
/// of the organisations and at least two where there are two.
fn consent(client: &SpiClient<'_>, validators: &[Validator]) -> usize {
    let sql = "SELECT consent FROM chainify_ledger.chain";
    let mut chain = Cursor::open(client, Sees::Statement, sql, &[]);
    let told = chain.next_row().and_then(|row| row.int(1));
    if let Some(told) = told.and_then(|consent| usize::try_from(consent).ok()) {
        return told;
    }
    let mut organisations: Vec<_> = validators.iter().map(|v| &v.organisation).collect();
    organisations.sort();
    organisations.dedup();
    let n = organisations.len();
    (2 * n / 3 + 1).max(2).min(n)
}
