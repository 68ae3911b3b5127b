//! The rehearsal of a transaction (spec/agreement.md): runs it and undoes it, to find which
//! organisations have to agree, and whether this one agrees by its own private checks.
use chainify_ledger::messages::Kind;
use chainify_ledger::Transaction;
use chainify_sqltext::{command, Command};
use pgrx::pg_sys::Oid;

use crate::agreement::agreement_policies;
use crate::agreement::agreement_policies::Policies;
use crate::agreement::agreements;
use crate::agreement::agreements::Image;
use crate::pg::base::backend::{within, Phase};
use crate::pg::base::error::{attempt, OrRaise, PgError};
use crate::pg::base::function::{cell, row_cell, Answer, Call, Cell};
use crate::pg::base::memory_limit::explained;
use crate::pg::base::relation::{Scratch, Stored};
use crate::pg::base::role::Role;
use crate::pg::base::spi::{as_caller, connected, query, Row};
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::run::step::{enter, Step};
use crate::pg::shared::conflict_memory::waiting;
use crate::rules::agreed_settings;
use crate::rules::agreed_settings::Deploys;
use crate::rules::agreeing::{gateways, Agreeing};
use crate::running::effects;
use crate::running::recorded::Effects;
use crate::transaction::run;

crate::pg::sql_function!(chainify_rehearse, pg_finfo_chainify_rehearse, rehearse);
crate::pg::sql_function!(
    chainify_set_agreement_check,
    pg_finfo_chainify_set_agreement_check,
    set_agreement_check
);
crate::pg::sql_function!(
    chainify_approve_deploy,
    pg_finfo_chainify_approve_deploy,
    approve_deploy
);

/// Rows that are checked for one transaction.
const CHECKS_MAX: usize = 10_000;
/// Characters of a reason.
const REASON_MAX: usize = 500;

/// The result of a rehearsal.
#[derive(Default)]
struct Shown {
    /// The organisations that have to agree as well, or can.
    wanted: Vec<String>,
    /// Why this organisation does not agree.
    refusal: Option<String>,
}

/// `chainify_node.rehearse(transaction)`: contract in spec/sql-api.md.
fn rehearse(call: &mut Call) -> Answer {
    let body: Vec<u8> = call.required(0, "transaction");
    let now: i64 = call.required(1, "block_time");
    let malformed = |error| PgError::new(b"22023", format!("{error}"));
    let transaction = Transaction::decode(&body).map_err(malformed).or_raise();
    let result = enter(Step::Ledger, || waiting(|| show(&transaction, now)));
    let (shown, error) = match result {
        Ok(shown) => (shown, None),
        Err(error) => (Shown::default(), Some(error)),
    };
    call.record(&[
        cell(shown.wanted),
        cell::<String>(shown.refusal),
        cell::<String>(error.as_ref().map(|e| e.sqlstate.as_str().to_owned())),
        cell::<String>(error.map(|e| e.message)),
    ])
}

fn show(transaction: &Transaction, now: i64) -> Result<Shown, PgError> {
    let (chain_id, own, block) = whose();
    let agreeing = Agreeing::of(transaction, &chain_id, block);
    if transaction.kind() == Kind::Deploy {
        return Ok(deploy(transaction, &own, block, &agreeing));
    }
    if transaction.kind() == Kind::Plan {
        let refusal = "approvals of planned transactions are transactions of their own";
        return Ok(Shown {
            refusal: (!is_client(transaction, &own)).then(|| refusal.to_owned()),
            ..Shown::default()
        });
    }
    let policies = agreement_policies::known();
    effects::start_rehearsal();
    let rehearsed = || {
        let shown = run::rehearse(transaction, || Shown {
            wanted: wanted(&policies, &agreeing),
            refusal: checked(&policies, &own, is_client(transaction, &own)),
        });
        shown.map_err(explained)
    };
    enter(Step::Rehearsal { time: now }, rehearsed)
}

/// The chain id, this organisation's name, and the number of the next block.
fn whose() -> (String, String, i64) {
    let mut found = None;
    let sql = "SELECT chain_id, organisation, (SELECT coalesce(max(number), 0) + 1 FROM chainify_ledger.block) FROM chainify_ledger.chain";
    query(sql, &[], |row| {
        found = Some((row.must(1), row.must(2), row.must(3)))
    });
    found.unwrap_or_else(|| PgError::new(b"55000", "this database belongs to no chain yet").raise())
}

fn is_client(transaction: &Transaction, organisation: &str) -> bool {
    let client = transaction.proposal.client.as_ref();
    client.is_some_and(|client| client.organisation == organisation)
}

/// Whether a DEPLOY of this text may take the agreement of others.
fn may_need_others(sql: &str) -> bool {
    let majority = matches!(
        command(sql),
        Some(Ok(Command::SetRoleOrganisations(..)
            | Command::DropRoleOrganisations(_)
            | Command::SetDeploys(_)))
    );
    majority
        || agreed_settings::deploys() == Deploys::Agreed
        || !agreement_policies::known().is_empty()
}

/// The result for a DEPLOY transaction, which is not run. All other organisations are asked, and
/// agree to texts that their admins approved. Nobody is asked where the text cannot need agreement.
fn deploy(transaction: &Transaction, own: &str, block: i64, agreeing: &Agreeing) -> Shown {
    if !may_need_others(&transaction.proposal.sql) {
        return Shown::default();
    }
    let mut approved = is_client(transaction, own);
    let sql = "SELECT true FROM chainify_ledger.approved WHERE statements = $1";
    query(sql, &[cell(transaction.proposal.sql.clone())], |_| {
        approved = true
    });
    let others = gateways(block)
        .into_keys()
        .filter(|name| !agreeing.includes(name));
    Shown {
        wanted: others.collect(),
        refusal: (!approved).then(|| "no admin approved these statements".to_owned()),
    }
}

fn wanted(policies: &Policies, agreeing: &Agreeing) -> Vec<String> {
    let images = effects::with(|effects| agreements::images(effects, 0, policies));
    let needs = images.iter().filter_map(|image| image.need(agreeing));
    let mut names: Vec<String> = needs
        .flat_map(|need| {
            need.organisations()
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// A change that this organisation's check is asked about.
struct Asked {
    table: String,
    key: String,
    call: [Cell; 3],
}

/// The reason why this organisation does not agree to the changes of the transaction; None: it
/// agrees, or no policy asks it. The client's own organisation agrees by submitting, so it has no
/// check.
fn checked(policies: &Policies, own: &str, submits: bool) -> Option<String> {
    let asked = effects::with(|effects| asked(effects, policies, own));
    if asked.is_empty() && !submits {
        return Some(format!("it changes no row that \"{own}\" has to agree to"));
    }
    if asked.len() > CHECKS_MAX {
        return Some(format!("more than {CHECKS_MAX} rows are changed"));
    }
    asked.into_iter().find_map(|change| {
        let Some((call, owner)) = check_of(&change.table) else {
            let none = || format!("no agreement check is set for table \"{}\"", change.table);
            return (!submits).then(none);
        };
        let reason = ask(&call, &owner, &change.call)?;
        let mut reason = format!("{reason} (table \"{}\", key {})", change.table, change.key);
        if let Some((end, _)) = reason.char_indices().nth(REASON_MAX) {
            reason.truncate(end);
        }
        Some(reason)
    })
}

fn asked(effects: &Effects, policies: &Policies, own: &str) -> Vec<Asked> {
    let mut found = Vec::new();
    for (at, change) in effects.changes.iter().enumerate() {
        let leaf = &effects.leaves[change.leaf as usize];
        let Some(policy) = policies.get(&leaf.table.name) else {
            continue;
        };
        let pk = effects.bytes(change.pk);
        let rows = [change.before, change.after].into_iter().flatten();
        let images: Vec<Image> = rows
            .map(|row| Image::of(&leaf.table, policy, pk, effects.bytes(row)))
            .collect();
        if !images.iter().any(|image| image.names(own)) || found.len() > CHECKS_MAX {
            continue;
        }
        let value = |stored: Option<Stored>| {
            let mut scratch = Scratch::default();
            let row = stored.map(|stored| effects.images.get(stored, &leaf.shape, &mut scratch));
            row_cell(row.as_deref(), &leaf.shape)
        };
        let old = match change.after {
            None => Some(change.image),
            Some(_) => effects.before(at),
        };
        let new = change.after.is_some().then_some(change.image);
        let operation = (change.op as u8 as char).to_string();
        found.push(Asked {
            table: leaf.table.name.clone(),
            key: images[0].key(),
            call: [cell(operation), value(old), value(new)],
        });
    }
    found
}

/// For a table, the call of its check and the role that runs it. Rows of partitions count as rows
/// of the table. All names are qualified, because the call runs under the search_path of a block.
const CHECK: &str = "
    SELECT format('SELECT %1$I.%2$I($1, $2::%3$I.%4$I, $3::%3$I.%4$I)', fn.nspname, p.proname, tn.nspname, c.relname),
        pg_get_userbyid(p.proowner)::text
    FROM chainify_ledger.agreement_check k
    JOIN pg_proc p ON p.oid = k.function JOIN pg_namespace fn ON fn.oid = p.pronamespace
    JOIN chainify_ledger.ledger_table t ON t.name = k.name AND t.detached_at IS NULL
    JOIN pg_class c ON c.oid = t.relation JOIN pg_namespace tn ON tn.oid = c.relnamespace
    WHERE k.name = $1";

fn check_of(table: &str) -> Option<(String, String)> {
    let mut found = None;
    query(CHECK, &[cell(table.to_owned())], |row| {
        found = Some((row.must(1), row.must(2)))
    });
    found
}

/// Calls a check, as its owner and without the right to write. The reason why not; None: yes.
fn ask(call: &str, owner: &str, arguments: &[Cell; 3]) -> Option<String> {
    let Some(owner) = Role::find(owner) else {
        return Some("the owner of the agreement check is gone".to_owned());
    };
    let answer = subtransaction(|| {
        attempt(|| {
            query(
                "SELECT set_config('transaction_read_only', 'on', true)",
                &[],
                |_| (),
            )
        })?;
        let mut reason = None;
        owner.run(|| {
            within(Phase::Outside, || {
                attempt(|| as_caller(call, arguments, |row| reason = said(row)))
            })
        })?;
        Ok(reason)
    });
    answer.unwrap_or_else(|error| Some(error.message))
}

/// The reason for a refusal. A check returns true or an empty text to agree.
fn said(row: &Row) -> Option<String> {
    match row.is::<bool>(1) {
        true if row.get::<bool>(1) == Some(true) => None,
        true => Some("the agreement check says no".to_owned()),
        false => row.get::<String>(1).filter(|reason| !reason.is_empty()),
    }
}

fn check_admin() -> Role {
    let role = Role::current();
    if !role.is_member_of("chainify_admin") {
        PgError::new(
            b"42501",
            format!("role \"{}\" is not a member of chainify_admin", role.name()),
        )
        .raise();
    }
    role
}

/// Table and function as the caller's search_path finds them, and the caller's rights: the table's
/// name, the signature that the function must have, and the function where there is one. Raises
/// 42P01 when there is no such table.
fn find_check(table: &str, function: Option<&str>) -> (String, String, Option<Oid>) {
    let (mut relation, mut names, mut oid) = (None, None, None);
    let sql = "SELECT $1::pg_catalog.regclass::pg_catalog.oid";
    as_caller(sql, &[cell(table)], |row| relation = row.get::<Oid>(1));
    let sql =
        "SELECT n.nspname || '.' || c.relname, format('%1$I.%2$I, %1$I.%2$I', n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
    query(sql, &[cell::<Oid>(relation)], |row| {
        names = Some((row.must::<String>(1), row.must::<String>(2)))
    });
    let Some((name, rows)) = names else {
        PgError::new(b"42P01", "table does not exist").raise()
    };
    let signature = format!("{}(text, {rows})", function.unwrap_or_default());
    if let Some(function) = function {
        let signature = format!("{function}(pg_catalog.text, {rows})");
        let sql = "SELECT pg_catalog.to_regprocedure($1)::pg_catalog.oid";
        as_caller(sql, &[cell(signature)], |row| oid = row.get::<Oid>(1));
    }
    (name, signature, oid)
}

/// `chainify.set_agreement_check(table, function)`: of this database alone.
fn set_agreement_check(call: &mut Call) -> Answer {
    let table: String = call.required(0, "table");
    let function: Option<String> = call.arg(1);
    let role = check_admin();
    connected(|| {
        let (name, signature, oid) = find_check(&table, function.as_deref());
        let mut found = None;
        let sql = "SELECT pg_get_userbyid(proowner)::text, format_type(prorettype, NULL) FROM pg_proc WHERE oid = $1";
        query(sql, &[cell::<Oid>(oid)], |row| {
            found = Some((row.must::<String>(1), row.must::<String>(2)))
        });
        if function.is_some() {
            let Some((owner, result)) = found else {
                PgError::new(b"42883", format!("function {signature} does not exist")).raise()
            };
            if !role.is_member_of(&owner) {
                PgError::new(
                    b"42501",
                    format!(
                        "role \"{}\" is no member of \"{owner}\", as whom the check would run",
                        role.name()
                    ),
                )
                .raise();
            }
            if result != "boolean" && result != "text" {
                PgError::new(
                    b"42P13",
                    format!("agreement check returns {result}, want boolean or text"),
                )
                .raise();
            }
        }
        Role::bootstrap().run(|| {
            query(
                "DELETE FROM chainify_ledger.agreement_check WHERE name = $1",
                &[cell(name.clone())],
                |_| (),
            );
            if let Some(oid) = oid {
                query(
                    "INSERT INTO chainify_ledger.agreement_check VALUES ($1, $2)",
                    &[cell(name), cell(oid)],
                    |_| (),
                );
            }
        });
    });
    call.void()
}

/// `chainify.approve_deploy(statements, approve)`: of this database alone.
fn approve_deploy(call: &mut Call) -> Answer {
    let statements: String = call.required(0, "statements");
    let approve: bool = call.required(1, "approve");
    let role = check_admin().name();
    connected(|| {
        Role::bootstrap().run(|| {
            query(
                "DELETE FROM chainify_ledger.approved WHERE statements = $1",
                &[cell(statements.clone())],
                |_| (),
            );
            if approve {
                query(
                    "INSERT INTO chainify_ledger.approved VALUES ($1, $2)",
                    &[cell(statements), cell(role)],
                    |_| (),
                );
            }
        })
    });
    call.void()
}
