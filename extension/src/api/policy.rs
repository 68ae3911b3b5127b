//! Settings that all organisations have the same, because a DEPLOY transaction sets them: rows of `chainify_ledger.setting`, a ledger table of
//! the ledger's own, and so part of the state root.
use std::cell::Cell;

use super::deploy::At;
use super::session::{self, Mode};
use super::tables;
use super::transaction::Outcome;
use crate::pg::catalog;
use crate::pg::error::{attempt, PgError};
use crate::pg::function::cell;
use crate::pg::relation::{Lock, Relation};
use crate::pg::spi::query;

/// What happens to a statement whose effects follow from the order of rows, which is not the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Determinism {
    /// It is refused.
    Strict,
    /// It runs; where effects differ, the organisations do not agree on them.
    Detect,
}

impl Determinism {
    fn parse(value: &str) -> Option<Self> {
        match value {
            "strict" => Some(Determinism::Strict),
            "detect" => Some(Determinism::Detect),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Determinism::Strict => "strict",
            Determinism::Detect => "detect",
        }
    }
}

/// The key of its row.
const DETERMINISM: &str = "determinism";

thread_local! {
    /// As of a generation of the catalog.
    static KNOWN: Cell<Option<(u64, Determinism)>> = const { Cell::new(None) };
}

/// The policy in force at this place of the order.
pub fn determinism() -> Determinism {
    let generation = catalog::generation();
    if let Some((_, known)) = KNOWN.get().filter(|(of, _)| *of == generation) {
        return known;
    }
    let mut found = Determinism::Strict;
    if let Some(settings) = catalog::relation_named("chainify_ledger", "setting") {
        Relation::open(settings, Lock::AccessShare).scan(|row| {
            if row.get::<String>(1).as_deref() == Some(DETERMINISM) {
                let value = row.get::<String>(2).unwrap_or_default();
                found = Determinism::parse(&value).unwrap_or(Determinism::Strict);
            }
        });
    }
    KNOWN.set(Some((generation, found)));
    found
}

/// Runs `SET DETERMINISM value`.
pub fn set_determinism(value: &str, at: At) -> Outcome {
    match Determinism::parse(&value.to_ascii_lowercase()) {
        Some(policy) => attempt(|| change(policy, at)).map(|()| 1),
        None => Err(
            PgError::new(b"22023", format!("\"{value}\" is no policy of determinism"))
                .hint("Write SET DETERMINISM strict or SET DETERMINISM detect."),
        ),
    }
}

fn change(policy: Determinism, at: At) {
    let row = [cell(DETERMINISM.to_owned()), cell(policy.name().to_owned())];
    query(
        "SELECT chainify_ledger.attach_own('setting', $1, $2)",
        &[cell(at.block), cell(at.tx as i32)],
        |_| (),
    );
    session::with(Mode::Client { tx: at.tx }, || {
        let sql = "INSERT INTO chainify_ledger.setting VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        query(sql, &row, |_| ())
    });
    tables::announce_change();
}
