//! What the transactions of a block may read and write (spec/scheduling.md), and how people see it.
use std::cell::Cell as Flag;

use chainify_ledger::messages::{Kind, Proposal};
use chainify_ledger::Transaction;
use chainify_sched::explain::Explained;
use chainify_sched::{focus, graph, AccessSet};

use super::plans;
use super::transaction::{client_role, is_of_the_machine};
use crate::pg::access::show;
use crate::pg::block_settings::pinned;
use crate::pg::error::{OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call};
use crate::pg::inspect::inspect;
use crate::pg::role::Role;
use crate::pg::spi::{connected, query};
use crate::pg::subtransaction::subtransaction;

crate::sql_function!(chainify_access, pg_finfo_chainify_access, access);
crate::sql_function!(
    chainify_explain_block,
    pg_finfo_chainify_explain_block,
    explain_block
);

/// Bytes of the longest explanation.
const EXPLANATION_BYTES_MAX: usize = 1 << 20;

/// The access sets of a block's transactions, in order; to be called before the first of them runs, under the settings
/// of a block. Raises for failures of the machine only (X4): what cannot be analysed is everything, and fails when it runs.
///
/// Runs no function of a client and locks no row. Cost: for a statement whose plan is kept that of reading its values, for
/// the others that of analysing them, which running them then saves.
pub fn of_block(transactions: &[Transaction]) -> Vec<AccessSet> {
    let mut deployed = false;
    let set = |transaction: &Transaction| {
        // What a DEPLOY changes, those behind it are not analysed with yet.
        deployed |= transaction.kind() != Kind::Sql;
        if deployed {
            return AccessSet::everything();
        }
        of_transaction(&transaction.proposal)
    };
    let mut sets: Vec<AccessSet> = transactions.iter().map(set).collect();
    focus(&mut sets);
    sets
}

/// The access set of one SQL transaction. Everything for what fails to analyse.
pub fn of_transaction(proposal: &Proposal) -> AccessSet {
    let name = proposal.client.as_ref().map_or("", |c| c.role.as_str());
    let Ok(role) = client_role(name, "chainify_client") else {
        return AccessSet::new(); // refused before it reads anything but roles, which no transaction changes
    };
    if let Some(set) = plans::kept_access(role, proposal) {
        return set;
    }
    match attempt(role, proposal) {
        Err(error) if is_of_the_machine(error.sqlstate) => error.raise(),
        set => set.unwrap_or_else(|_| AccessSet::everything()),
    }
}

fn attempt(role: Role, proposal: &Proposal) -> Result<AccessSet, PgError> {
    let as_written = Flag::new(false);
    let once = || subtransaction(|| role.run(|| plans::access(role, proposal, &as_written)));
    match once() {
        Err(_) if as_written.get() => once(),
        set => set,
    }
}

/// `chainify.access(sql)`: what each statement may read and write.
fn access(call: &mut Call) -> Answer {
    let sql: String = call.required(0, "sql");
    let statements = pinned(|| inspect(&sql, true)).or_raise();
    call.rows(|row| {
        for (number, statement) in (1i32..).zip(&statements) {
            let Ok(Some(template)) = statement
                .found
                .as_ref()
                .map(|found| found.template.as_ref())
            else {
                continue; // chainify.analyze says why
            };
            for shown in show::show(template) {
                row(&[
                    cell(number),
                    cell(shown.access.to_owned()),
                    cell(shown.relation),
                    cell(shown.target),
                    cell(shown.place),
                ]);
            }
        }
    })
}

/// `chainify.explain_block(block, format)`: the graph of a block's transactions as they would be analysed now.
fn explain_block(call: &mut Call) -> Answer {
    let (block, format): (i64, String) = (call.required(0, "block"), call.required(1, "format"));
    let transactions = connected(|| stored(block));
    if transactions.is_empty() {
        PgError::new(b"02000", format!("there is no block {block}")).raise();
    }
    let sets = pinned(|| connected(|| of_block(&transactions)));
    let graph = graph::build(&sets);
    let explained = Explained {
        graph: &graph,
        sets: &sets,
        relation_name: &show::relation_name,
    };
    let mut text = match format.as_str() {
        "text" => explained.text(),
        "dot" => explained.dot(),
        _ => PgError::new(b"22023", format!("unknown format \"{format}\""))
            .hint("Formats are text and dot.")
            .raise(),
    };
    if text.len() > EXPLANATION_BYTES_MAX {
        let end = (0..=EXPLANATION_BYTES_MAX).rfind(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str("\n… cut off\n");
    }
    call.value(text)
}

/// The transactions of a committed block, in order.
fn stored(block: i64) -> Vec<Transaction> {
    let mut transactions = Vec::new();
    query(
        "SELECT body FROM chainify_ledger.transaction WHERE block = $1 ORDER BY index",
        &[cell(block)],
        |row| {
            let body: Vec<u8> = row.must(1);
            transactions.push(Transaction::decode(&body));
        },
    );
    let malformed = |e| PgError::new(b"XX001", format!("transaction of block {block}: {e}"));
    let decoded = transactions.into_iter().map(|t| t.map_err(malformed));
    decoded.collect::<Result<_, _>>().or_raise()
}
