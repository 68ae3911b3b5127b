//! SQL functions that show people the access sets of a block's transactions (spec/scheduling.md).
use chainify_ledger::Transaction;
use chainify_sched::explain::Explained;
use chainify_sched::graph;

use crate::certification::effects_explained;
use crate::certification::effects_explained::Stored;
use crate::parallel::block_access::of_block;
use crate::parallel::declared_access::Declarations;
use crate::pg::access::show;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::spi::{connected, query};
use crate::pg::ddl::inspect::{inspect, Found};
use crate::pg::planner::block_settings::pinned;

crate::pg::sql_function!(chainify_access, pg_finfo_chainify_access, access);
crate::pg::sql_function!(
    chainify_explain_block,
    pg_finfo_chainify_explain_block,
    explain_block
);

/// Bytes of the longest explanation.
const EXPLANATION_BYTES_MAX: usize = 1 << 20;

/// `chainify.access(sql)`: what each statement may read and write.
fn access(call: &mut Call) -> Answer {
    let sql: String = call.required(0, "sql");
    let statements = pinned(|| inspect(&sql, true)).or_raise();
    let declarations = Declarations::read_for_all();
    call.rows(|row| {
        for (number, statement) in (1i32..).zip(&statements) {
            let Ok(Found {
                template: Some(template),
                called,
                ..
            }) = &statement.found
            else {
                continue; // chainify.analyze says why
            };
            for (relation, place) in called.iter().flat_map(|c| declarations.shown(c)) {
                row(&[
                    cell(number),
                    cell("declared".to_owned()),
                    cell(relation),
                    cell("rows".to_owned()),
                    cell(place),
                ]);
            }
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

/// `chainify.explain_block(block, format)`: the graph of a block's transactions as they would be
/// analysed now, and the turns that its EFFECTS transactions had.
fn explain_block(call: &mut Call) -> Answer {
    let (block, format): (i64, String) = (call.required(0, "block"), call.required(1, "format"));
    let stored = connected(|| stored(block));
    if stored.is_empty() {
        PgError::new(b"02000", format!("there is no block {block}")).raise();
    }
    let turns = pinned(|| effects_explained::turns(&stored));
    let transactions: Vec<Transaction> = stored.into_iter().map(|s| s.transaction).collect();
    let sets = pinned(|| connected(|| of_block(&transactions))).sets;
    let graph = graph::build(&sets);
    let explained = Explained {
        graph: &graph,
        sets: &sets,
        relation_name: &show::relation_name,
        turns: &turns,
    };
    let text = match format.as_str() {
        "text" => explained.text(EXPLANATION_BYTES_MAX),
        "dot" => explained.dot(EXPLANATION_BYTES_MAX),
        _ => PgError::new(b"22023", format!("unknown format \"{format}\""))
            .hint("Formats are text and dot.")
            .raise(),
    };
    call.value(text)
}

/// The transactions of a committed block, in order.
fn stored(block: i64) -> Vec<Stored> {
    let mut found = Vec::new();
    query(
        "SELECT body, sqlstate, message FROM chainify_ledger.transaction WHERE block = $1 ORDER BY index",
        &[cell(block)],
        |row| {
            let body: Vec<u8> = row.must(1);
            let failure = row.get(2).zip(row.get(3));
            let stored = |transaction| Stored {
                transaction,
                failure,
            };
            found.push(Transaction::decode(&body).map(stored));
        },
    );
    let malformed = |e| PgError::new(b"XX001", format!("transaction of block {block}: {e}"));
    let decoded = found.into_iter().map(|t| t.map_err(malformed));
    decoded.collect::<Result<_, _>>().or_raise()
}
