//! Settings that are the same in all organisations, because a DEPLOY transaction sets them: rows of
//! `chainify_ledger.setting`, a ledger table of the ledger's own, and so part of the state root.
use std::rc::Rc;

use chainify_rules::settings::takes_agreement;
pub use chainify_rules::settings::{Deploys, Determinism, Setting};

use crate::ledger::as_of::AsOf;
use crate::ledger::outcome::Outcome;
use crate::ledger::place::At;
use crate::ledger::tables;
use crate::pg::base::catalog;
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::cell;
use crate::pg::base::relation::{Lock, Relation};
use crate::pg::base::spi::query;
use crate::pg::run::step::{enter, Step};
use crate::rules::agreeing::{check_majority, Agreeing};

#[derive(Clone, Copy, Default)]
struct Settings {
    determinism: Determinism,
    deploys: Deploys,
}

thread_local! {
    static KNOWN: AsOf<Settings> = const { AsOf::nothing() };
}

/// The policy of determinism in force at this place of the order.
pub fn determinism() -> Determinism {
    known().determinism
}

/// The agreement that a DEPLOY transaction takes at this place of the order.
pub fn deploys() -> Deploys {
    known().deploys
}

fn known() -> Rc<Settings> {
    KNOWN.with(|known| known.or(read))
}

fn read() -> Settings {
    let mut found = Settings::default();
    if let Some(settings) = catalog::relation_named("chainify_ledger", "setting") {
        Relation::open(settings, Lock::AccessShare).scan(|row| {
            let value = row.get::<String>(2).unwrap_or_default();
            match row.get::<String>(1).as_deref() {
                Some(Determinism::NAME) => {
                    found.determinism = Determinism::parse(&value).unwrap_or_default();
                }
                Some(Deploys::NAME) => {
                    found.deploys = Deploys::parse(&value).unwrap_or_default();
                }
                _ => (),
            }
        });
    }
    found
}

/// Runs `SET DETERMINISM value`.
pub fn set_determinism(value: &str, at: At) -> Outcome {
    set::<Determinism>(value, at)
}

/// Runs `SET DEPLOYS value`.
pub fn set_deploys(value: &str, at: At) -> Outcome {
    set::<Deploys>(value, at)
}

fn set<S: Setting>(word: &str, at: At) -> Outcome {
    let word = S::stored(word)?;
    attempt(|| change(S::NAME, &word, at)).map(|()| 1)
}

fn change(name: &str, value: &str, at: At) {
    let row = [cell(name.to_owned()), cell(value.to_owned())];
    query(
        "SELECT chainify_ledger.attach_own('setting', $1, $2)",
        &[cell(at.block), cell(at.tx as i32)],
        |_| (),
    );
    enter(Step::Rows { tx: at.tx }, || {
        let sql = "INSERT INTO chainify_ledger.setting VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        query(sql, &row, |_| ())
    });
    tables::announce_change();
}

/// The settings before a DEPLOY transaction, for [`Before::check`] when it has run.
pub struct Before(Deploys);

/// To be called before a DEPLOY transaction runs.
pub fn before_deploy() -> Before {
    Before(deploys())
}

impl Before {
    /// Invariant C6: where deploys are *agreed*, and when that is changed, a DEPLOY transaction
    /// takes the agreement of more than two thirds of the organisations. Else it fails with CH009.
    pub fn check(self, block: i64, agreeing: impl FnOnce() -> Agreeing) -> Result<(), PgError> {
        if !takes_agreement(self.0, deploys()) {
            return Ok(());
        }
        attempt(|| {
            check_majority(
                "deploys take the agreement of others here",
                block,
                &agreeing(),
            )
        })
    }
}
