//! Procedures on a ledger of several engines (spec/engines.md), and PostgreSQL's words for them.
use std::cell::RefCell;
use std::collections::HashMap;

use chainify_codec::{procedures_state, Hash, Procedure};
use chainify_sqltext::Procedure as Command;
use pgrx::pg_sys::Oid;

use crate::ledger::own_tables::OwnTable;
use crate::pg::base::catalog;
use crate::pg::base::catalog::relation_named;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi::query;

crate::pg::sql_function!(
    chainify_procedures_hash,
    pg_finfo_chainify_procedures_hash,
    procedures_hash
);

/// The digest of a procedure that is not there.
const GONE: Hash = [0; 32];

thread_local! {
    /// PostgreSQL's digests by the names of procedures, as of a generation of the catalog.
    static DIGESTS: RefCell<(u64, HashMap<String, Hash>)> = RefCell::default();
}

/// An attached procedure, with the digests that organisations agreed to.
fn attached() -> Vec<Procedure> {
    let mut procedures = Vec::new();
    OwnTable::read("procedure").rows(|row| {
        if row.get::<i64>("detached_at").is_none() {
            procedures.push(procedure(
                row.must("name"),
                row.must("signature"),
                row.get("mariadb"),
                row.get("postgresql"),
            ));
        }
    });
    procedures
}

fn procedure(
    name: String,
    signature: String,
    mariadb: Option<Vec<u8>>,
    postgresql: Option<Vec<u8>>,
) -> Procedure {
    let digest = |engine, digest: Option<Vec<u8>>| {
        let hash = Hash::try_from(digest?).map_err(|_| malformed(&name));
        Some((engine, hash.or_raise()))
    };
    let digests = [digest("mariadb", mariadb), digest(POSTGRESQL, postgresql)];
    let digests = digests.into_iter().flatten().collect();
    Procedure {
        name,
        signature,
        digests,
    }
}

const POSTGRESQL: &str = "postgresql";

fn malformed(name: &str) -> PgError {
    PgError::new(
        b"XX001",
        format!("digest of procedure \"{name}\" is malformed"),
    )
}

/// The state of the procedures, each by PostgreSQL's words of now; None: none was ever attached.
/// Cost: those words of each, where definitions changed since the last call.
pub fn live_state() -> Option<Hash> {
    relation_named("chainify_ledger", "procedures")?; // there is none before the extension's UPDATE
    if !OwnTable::read("procedures").has_rows() {
        return None;
    }
    let mut procedures = attached();
    for procedure in &mut procedures {
        let name = &procedure.name;
        let own = procedure.digests.iter_mut();
        for (_, digest) in own.filter(|(engine, _)| *engine == POSTGRESQL) {
            *digest = live_digest(name);
        }
    }
    Some(procedures_state(procedures))
}

fn live_digest(name: &str) -> Hash {
    let generation = catalog::generation();
    let known = DIGESTS.with_borrow_mut(|(of, known)| {
        if *of != generation {
            (*of, *known) = (generation, HashMap::new());
        }
        known.get(name).copied()
    });
    known.unwrap_or_else(|| {
        let mut digest = GONE;
        let sql = "SELECT chainify_ledger.procedure_digest($1)";
        query(sql, &[cell(name.to_owned())], |row| {
            let words = row.get::<Vec<u8>>(1);
            digest = words.and_then(|d| d.try_into().ok()).unwrap_or(GONE);
        });
        DIGESTS.with_borrow_mut(|(_, known)| known.insert(name.to_owned(), digest));
        digest
    })
}

/// Puts a procedure on the ledger. Raises CH005 for one that cannot be there.
pub fn attach(procedure: Command, block: i64, tx: u32) {
    let args = [
        cell(procedure.name),
        cell(procedure.types),
        cell::<Vec<u8>>(procedure.mariadb.map(|digest| digest.to_vec())),
        cell::<Vec<u8>>(procedure.postgresql.map(|digest| digest.to_vec())),
        cell(block),
        cell(tx as i32),
    ];
    let sql = "SELECT chainify_ledger.attach_procedure($1, $2, $3, $4, $5, $6)";
    query(sql, &args, |_| ());
}

/// Takes one off the ledger. Raises 42883 for one that is not there.
pub fn detach(name: String, block: i64, tx: u32) {
    let sql = "SELECT chainify_ledger.detach_procedure($1, $2, $3)";
    query(sql, &[cell(name), cell(block), cell(tx as i32)], |_| ());
}

/// The name of the attached procedure that a function is, or stands beside after this command.
pub fn named_as(function: Oid) -> Option<String> {
    relation_named("chainify_ledger", "procedures")?;
    let names = catalog::names_of_function(function);
    attached()
        .into_iter()
        .map(|procedure| procedure.name)
        .find(|attached| {
            names
                .iter()
                .any(|(schema, name)| *attached == format!("{schema}.{name}"))
        })
}

/// `procedures_hash()`: of the attached ones, as they were agreed.
fn procedures_hash(call: &mut Call) -> Answer {
    call.value(&procedures_state(attached())[..])
}
