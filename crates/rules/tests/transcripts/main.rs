//! Runs the transcripts in `testdata/`. `UPDATE_TRANSCRIPTS=1 cargo test -p chainify-rules`
//! rewrites what they expect; a person reads the difference.
//!
//! A file is a list of commands, separated by empty lines; `#` begins a comment.
//!
//! ```text
//! check
//! select
//!   from account(id, owner) key=id
//!   output account.owner
//!   limit
//! ----
//! refused: LIMIT without a total order
//!   (the reason)
//!   -> (what to write instead)
//! ```
//! * `check` judges a statement, which `notation.rs` describes. `in-function`: its rows are taken
//!   one by one. `detect`: effects of the order of rows are left to detection. `database=NAME`: the
//!   database's collation, when it is one of the machine.
//! * `functions` tells what a transaction may do with each; `executed`: what may run below an
//!   aggregate or a constraint.
//! * `named` judges a name in a text, by its overloads.
//! * `deploy` judges the statements of one DEPLOY transaction.
//! * `objects` and `parts` list what the ledger follows.

#![expect(clippy::unwrap_used, reason = "a test through and through")]

mod deploy;
mod notation;

use std::fmt::Write;
use std::path::Path;
use std::rc::Rc;

use chainify_rules::determinism::check;
use chainify_rules::finding::Finding;
use chainify_rules::functions::{by_collation, execution_finding, finding, named, verdict, Database, Verdict};
use chainify_rules::refusal::Refusal;
use chainify_rules::settings::Determinism;

#[derive(Default)]
struct Asked {
    collation: Option<String>,
    policy: Determinism,
    in_function: bool,
    executed: bool,
}

impl Asked {
    fn read(options: &[&str]) -> Self {
        let mut asked = Asked::default();
        for option in options {
            match option.split_once('=') {
                Some(("database", name)) => asked.collation = Some(name.to_owned()),
                None if *option == "in-function" => asked.in_function = true,
                None if *option == "detect" => asked.policy = Determinism::Detect,
                None if *option == "executed" => asked.executed = true,
                _ => panic!("no option {option}"),
            }
        }
        asked
    }
}

impl Database for Asked {
    fn local_collation(&self) -> Option<String> {
        self.collation.clone()
    }

    fn policy(&self) -> Determinism {
        self.policy
    }
}

fn command(command: &str, input: &[&str]) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let (name, options) = words.split_first().unwrap();
    let asked = Asked::read(options);
    match *name {
        "check" => shown_findings(&check(&notation::level(input), asked.in_function, &asked), asked.policy),
        "functions" => input.iter().map(|line| function(line, &asked)).collect(),
        "named" => {
            let overloads: Vec<_> = input.iter().map(|line| Rc::new(notation::function(line.trim()))).collect();
            shown_findings(named(&overloads).as_slice(), asked.policy)
        }
        "deploy" => shown_refusal(deploy::refusal(input)),
        "objects" => deploy::objects(),
        "parts" => deploy::parts(),
        other => panic!("no command {other}"),
    }
}

fn shown_findings(findings: &[Finding], policy: Determinism) -> String {
    let mut out = String::new();
    for f in findings {
        let verdict = if f.refused_under(policy) { "refused" } else { "may differ" };
        let collation = if f.by_collation { " (a collation)" } else { "" };
        writeln!(out, "{verdict}{collation}: {}\n  {}\n  -> {}", f.construct, f.reason, f.rewrite).unwrap();
    }
    if findings.is_empty() {
        out.push_str("fine\n");
    }
    out
}

fn shown_refusal(refusal: Option<Refusal>) -> String {
    let Some(refusal) = refusal else { return "allowed\n".into() };
    let mut out = format!("{}: {}\n", std::str::from_utf8(refusal.sqlstate).unwrap(), refusal.message);
    refusal.detail.iter().for_each(|d| writeln!(out, "  {d}").unwrap());
    refusal.hint.iter().for_each(|h| writeln!(out, "  -> {h}").unwrap());
    out
}

fn function(line: &str, asked: &Asked) -> String {
    let (described, under) = match line.split_once(" under=") {
        Some((described, under)) => (described, Some(under.trim())),
        None => (line, None),
    };
    let f = notation::function(described.trim());
    let of_function = if asked.executed { execution_finding(&f) } else { finding(&f) };
    let findings: Vec<Finding> = of_function.into_iter().chain(by_collation(&f, under, asked)).collect();
    let verdict = match verdict(&f) {
        _ if !findings.is_empty() => return shown_findings(&findings, asked.policy),
        Verdict::Allowed => "allowed",
        Verdict::Draws => "draws a value per call",
        Verdict::Runs => "runs: its statements are checked",
        Verdict::Refused => "let through",
    };
    format!("{}: {verdict}\n", f.name)
}

/// The file as it should be.
fn replay(text: &str) -> String {
    let sections = text.split("\n\n").map(|section| {
        let asked = section.trim_end().split("\n----").next().unwrap_or_default().trim_start_matches('\n');
        let lines: Vec<&str> = asked
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim_end())
            .filter(|line| !line.is_empty())
            .collect();
        let Some((first, input)) = lines.split_first() else { return asked.to_string() };
        format!("{asked}\n----\n{}", command(first, input).trim_end())
    });
    sections.collect::<Vec<_>>().join("\n\n") + "\n"
}

#[test]
fn transcripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut wrong = String::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        println!("{}", path.display());
        let found = replay(&text);
        if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
            std::fs::write(&path, found).unwrap();
        } else if found != text {
            write!(wrong, "{}:\n{found}\n", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "found (UPDATE_TRANSCRIPTS=1 rewrites the files):\n{wrong}");
}
