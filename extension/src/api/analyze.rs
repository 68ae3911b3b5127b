//! `chainify.analyze` and `chainify.uuid`.
use std::cell::Cell;

use chainify_codec::{transaction_uuid, Hash};

use super::declared::Declarations;
use super::determinism::{check, Finding};
use super::policy::{self, Determinism};
use super::session::{self, Mode};
use crate::pg::access::show::{show, Shown};
use crate::pg::block_settings::pinned;
use crate::pg::error::{OrRaise, PgError};
use crate::pg::function::{cell, Answer, Call};
use crate::pg::inspect::{inspect, Inspected};

crate::sql_function!(chainify_analyze, pg_finfo_chainify_analyze, analyze);
crate::sql_function!(chainify_uuid, pg_finfo_chainify_uuid, uuid);

thread_local! {
    /// The transaction being run, and how many UUIDs it took.
    static DRAWN: Cell<(Hash, u64)> = const { Cell::new(([0; 32], 0)) };
}

/// Starts the UUIDs of the transaction `id`.
pub fn seed_uuid(id: &Hash) {
    DRAWN.set((*id, 0));
}

/// `chainify.uuid`: the next UUID of the transaction; 55000 outside of a block.
fn uuid(call: &mut Call) -> Answer {
    if !matches!(session::mode(), Mode::Client { .. }) {
        PgError::new(
            b"55000",
            "chainify.uuid() can be called in a ledger transaction only",
        )
        .detail("Its result follows from the transaction's id.")
        .hint("Outside of the ledger use gen_random_uuid().")
        .raise();
    }
    let (id, counter) = DRAWN.get();
    DRAWN.set((id, counter + 1));
    call.value(pgrx::Uuid::from_bytes(transaction_uuid(&id, counter)))
}

/// `chainify.analyze`: one row per finding, or one that says "deterministic", for each statement, under the settings of a block.
fn analyze(call: &mut Call) -> Answer {
    let sql: String = call.required(0, "sql");
    let statements = pinned(|| inspect(&sql, true)).or_raise();
    let declarations = Declarations::read_for_all();
    call.rows(|row| {
        for (number, statement) in (1i32..).zip(&statements) {
            let normalised = normalise(&statement.text);
            let access = access_set(statement, &declarations);
            for (verdict, finding) in verdicts(statement) {
                let part =
                    |field: fn(&Finding) -> &String| finding.as_ref().map(|f| field(f).clone());
                row(&[
                    cell(number),
                    cell(verdict.to_owned()),
                    cell::<String>(part(|f| &f.construct)),
                    cell::<String>(part(|f| &f.reason)),
                    cell::<String>(part(|f| &f.rewrite)),
                    cell(normalised.clone()),
                    cell::<String>(access.clone()),
                ]);
            }
        }
    })
}

/// What a statement may read and write, a line each as in `chainify.access`.
fn access_set(statement: &Inspected, declarations: &Declarations) -> Option<String> {
    let found = statement.found.as_ref().ok()?;
    let template = found.template.as_ref()?;
    let declared = found.called.iter().flat_map(|c| declarations.shown(c));
    let declared = declared.map(|(relation, place)| format!("declared {relation}: {place}"));
    let line = |s: Shown| match s.target.as_str() {
        "" => format!("{}: {}", s.access, s.place),
        "rows" => format!("{} {}: {}", s.access, s.relation, s.place),
        key => format!("{} {} {key}: {}", s.access, s.relation, s.place),
    };
    let lines = declared.chain(show(template).into_iter().map(line));
    let lines: Vec<_> = lines.collect();
    Some(lines.join("\n"))
}

fn verdicts(statement: &Inspected) -> Vec<(&'static str, Option<Finding>)> {
    match &statement.found {
        Err(refused) => {
            let rewrite = refused.hint.clone().unwrap_or_default();
            vec![(
                "not allowed",
                Some(Finding::new(
                    refused.message.clone(),
                    "It is no statement of a ledger transaction.",
                    &rewrite,
                )),
            )]
        }
        Ok(found) => {
            let findings: Vec<_> = found.levels.iter().flat_map(|l| check(l, false)).collect();
            if findings.is_empty() {
                return vec![("deterministic", None)];
            }
            let detect = policy::determinism() == Determinism::Detect;
            let verdict = |f: &Finding| match detect && f.by_order {
                true => "may differ",
                false => "refused",
            };
            findings
                .into_iter()
                .map(|f| (verdict(&f), Some(f)))
                .collect()
        }
    }
}

/// The text with literals replaced by parameters numbered after its own, for grouping statements that differ in values alone.
fn normalise(sql: &str) -> String {
    let bytes = sql.as_bytes();
    let tokens = tokens(sql);
    let own = tokens
        .iter()
        .filter_map(|(start, end, _)| sql[*start..*end].strip_prefix('$')?.parse::<u32>().ok());
    let mut next = own.max().unwrap_or(0);
    let (mut out, mut at) = (String::with_capacity(bytes.len()), 0);
    for (start, end, literal) in tokens {
        if literal {
            next += 1;
            out.push_str(&sql[at..start]);
            out.push_str(&format!("${next}"));
            at = end;
        }
    }
    out + &sql[at..]
}

/// Words, parameters and literals with their places; the last field tells literals. PostgreSQL has parsed the text already.
fn tokens(sql: &str) -> Vec<(usize, usize, bool)> {
    let b = sql.as_bytes();
    let find = |from: usize, what: &str| {
        sql.get(from..)
            .and_then(|s| s.find(what))
            .map_or(b.len(), |i| from + i + what.len())
    };
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'$' || c >= 0x80;
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < b.len() {
        let start = at;
        match b[at] {
            b'-' if b.get(at + 1) == Some(&b'-') => at = find(at, "\n"),
            b'/' if b.get(at + 1) == Some(&b'*') => at = find(at + 2, "*/"),
            b'"' => at = find(at + 1, "\""),
            b'\'' => {
                at = quoted_end(b, at, false);
                tokens.push((start, at, true));
            }
            b'$' if !b.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                let tag = find(at + 1, "$");
                at = find(tag, &sql[start..tag]);
                tokens.push((start, at, true));
            }
            c if c.is_ascii_digit()
                || (c == b'.' && b.get(at + 1).is_some_and(u8::is_ascii_digit)) =>
            {
                at = number_end(b, at);
                tokens.push((start, at, true));
            }
            c if word(c) => {
                while at < b.len() && word(b[at]) {
                    at += 1;
                }
                let prefix =
                    at == start + 1 && b.get(at) == Some(&b'\'') && b"eEbBxXnN".contains(&c);
                if prefix {
                    at = quoted_end(b, at, matches!(c, b'e' | b'E'));
                }
                tokens.push((start, at, prefix));
            }
            _ => at += 1,
        }
    }
    tokens
}

fn number_end(b: &[u8], mut at: usize) -> usize {
    while at < b.len() {
        let sign = matches!(b[at], b'+' | b'-') && matches!(b[at - 1], b'e' | b'E');
        if !(b[at].is_ascii_digit() || b[at] == b'.' || matches!(b[at], b'e' | b'E') || sign) {
            break;
        }
        at += 1;
    }
    at
}

/// The end of a string whose quote is at `at`; a quote doubled, or after a backslash when `escapes`, is part of it.
fn quoted_end(b: &[u8], mut at: usize, escapes: bool) -> usize {
    at += 1;
    while at < b.len() {
        match b[at] {
            b'\\' if escapes => at += 2,
            b'\'' if b.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    b.len()
}

/// Names of functions that a text calls without a schema or in `pg_catalog`, as far as words followed by a parenthesis are such.
pub fn called_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut before = String::new();
    for (start, end, literal) in tokens(text) {
        let word = text[start..end].to_lowercase();
        let qualified = text[..start].trim_end().ends_with('.');
        let called = text[end..].trim_start().starts_with('(');
        let ours = !qualified || before == "pg_catalog";
        if called && ours && !literal && !names.contains(&word) {
            names.push(word.clone());
        }
        before = word;
    }
    names
}
