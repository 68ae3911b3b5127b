//! `chainify.analyze`.
use std::collections::BTreeMap;

use chainify_sched::template::{Access, Template};
use chainify_sqltext::normalised;
use pgrx::pg_sys::Oid;

use crate::parallel::declared_access::Declarations;
use crate::pg::access::show::{show, Shown};
use crate::pg::base::catalog;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::ddl::inspect::{inspect, Inspected};
use crate::pg::hooks;
use crate::pg::planner::block_settings::pinned;
use crate::rules::agreed_settings;
use crate::rules::determinism::{check, Finding};
use crate::rules::relations;
use crate::sequences;

crate::pg::sql_function!(chainify_analyze, pg_finfo_chainify_analyze, analyze);

/// `chainify.analyze`: one row per finding, or one that says "deterministic", for each statement,
/// under the settings of a block.
fn analyze(call: &mut Call) -> Answer {
    let sql: String = call.required(0, "sql");
    let statements = pinned(|| inspect(&sql, true)).or_raise();
    let declarations = Declarations::read_for_all();
    call.rows(|row| {
        for (number, statement) in (1i32..).zip(&statements) {
            let text = normalised(&statement.text);
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
                    cell(text.clone()),
                    cell::<String>(access.clone()),
                ]);
            }
        }
    })
}

/// The access of a statement, a line each as in `chainify.access`.
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
            let policy = agreed_settings::determinism();
            let verdict = |f: &Finding| match f.refused_under(policy) {
                true => "refused",
                false => "may differ",
            };
            let findings = found.levels.iter().flat_map(|l| check(l, false));
            let findings = findings.map(|f| (verdict(&f), Some(f)));
            let off = off_ledger(found.template.iter().flat_map(Template::accesses));
            let off = off.into_iter().map(|f| ("not allowed", Some(f)));
            let all: Vec<_> = findings.chain(off).collect();
            match all.is_empty() {
                true => vec![("deterministic", None)],
                false => all,
            }
        }
    }
}

/// The relations outside of the ledger that a statement uses, as far as its access set tells: each
/// relation once.
fn off_ledger<'a>(accesses: impl Iterator<Item = &'a Access>) -> Vec<Finding> {
    let mut written: BTreeMap<u32, bool> = BTreeMap::new();
    for access in accesses {
        *written.entry(access.target.relation()).or_default() |= access.write;
    }
    let refusals = written.into_iter().filter_map(|(relation, write)| {
        let relation = Oid::from(relation);
        match (catalog::is_sequence(relation), write) {
            (true, _) => sequences::refusal(relation),
            (false, true) => relations::refusal(relation, hooks::Access::Write),
            (false, false) => relations::refusal(relation, hooks::Access::Read),
        }
    });
    let finding = |e: PgError| {
        Finding::new(
            e.message,
            &e.detail.unwrap_or_default(),
            &e.hint.unwrap_or_default(),
        )
    };
    refusals.map(finding).collect()
}
