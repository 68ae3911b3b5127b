//! Runs the transcripts in `testdata/`. `UPDATE_TRANSCRIPTS=1 cargo test -p chainify-sched`
//! rewrites what they expect; a person reads the difference.
//!
//! A file is a list of commands, separated by empty lines; `#` begins a comment.
//!
//! ```text
//! block
//! t0 reads=- writes=a
//! ----
//! waits: -
//! ```
//! `block` sets the block by its transactions and says whom each waits for. `explain` and `dot`
//! show it, `explain 100` in so many bytes. `parts workers=2 costs=3,1 part_cost=1` divides it.

#![expect(clippy::unwrap_used, reason = "a test through and through")]

mod notation;

use std::fmt::Write;
use std::path::Path;

use chainify_sched::explain::Explained;
use chainify_sched::{division, graph, AccessSet, Graph, TxIndex};
use notation::Notation;

/// The block that the commands of a file are about.
#[derive(Default)]
struct Session {
    notation: Notation,
    sets: Vec<AccessSet>,
}

impl Session {
    fn command(&mut self, command: &str, input: &[&str]) -> String {
        let (name, arguments) = command.split_once(' ').unwrap_or((command, ""));
        if name == "block" {
            self.sets = input.iter().map(|line| self.notation.transaction(line)).collect();
        } else {
            assert!(input.is_empty(), "{name} takes no lines");
        }
        let graph = graph::build(&self.sets);
        let relation_name = |relation| self.notation.relation_name(relation);
        let explained = Explained { graph: &graph, sets: &self.sets, relation_name: &relation_name, turns: &[] };
        match name {
            "block" => waits(&graph),
            "explain" => explained.text(bytes_max(arguments)),
            "dot" => explained.dot(bytes_max(arguments)),
            "parts" => parts(&graph, arguments),
            other => panic!("no command {other}"),
        }
    }
}

fn names(transactions: &[TxIndex]) -> String {
    transactions.iter().map(|tx| format!(" t{tx}")).collect()
}

fn waits(graph: &Graph) -> String {
    let of = |tx| match names(&graph.waits_for(tx).iter().map(|edge| edge.earlier).collect::<Vec<_>>()) {
        none if none.is_empty() => " -".to_string(),
        some => some,
    };
    let all: Vec<String> = (0..graph.transactions()).map(of).collect();
    format!("waits:{}\n", all.join(","))
}

fn bytes_max(arguments: &str) -> usize {
    match arguments {
        "" => usize::MAX,
        number => number.parse().unwrap(),
    }
}

fn parts(graph: &Graph, arguments: &str) -> String {
    let argument = |name: &str| {
        let value = arguments.split_whitespace().find_map(|of| of.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("parts needs {name}=")).to_string()
    };
    let costs: Vec<u64> =
        argument("costs").split(',').filter(|cost| !cost.is_empty()).map(|cost| cost.parse().unwrap()).collect();
    let division = division::assign(graph, &costs, argument("workers").parse().unwrap());
    let mut out = String::new();
    for (number, (part, load)) in division.parts().iter().zip(division.loads()).enumerate() {
        writeln!(out, "part {number}, load {load}:{}", names(part)).unwrap();
    }
    let worth_it = division::worth_it(&division, argument("part_cost").parse().unwrap());
    writeln!(out, "{}", if worth_it { "worth it" } else { "not worth it" }).unwrap();
    out
}

/// The file as it should be.
fn replay(text: &str) -> String {
    let mut session = Session::default();
    let sections = text.split("\n\n").map(|section| {
        let asked = section.trim().split("\n----").next().unwrap_or_default();
        let lines: Vec<&str> = asked
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim_end())
            .filter(|line| !line.is_empty())
            .collect();
        let Some((command, input)) = lines.split_first() else { return asked.to_string() };
        format!("{asked}\n----\n{}", session.command(command, input).trim_end())
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
