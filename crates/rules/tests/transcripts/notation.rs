//! Statements as transcripts write them: one level, a part of it in each line.
//!
//! ```text
//! select
//!   from account(id, owner) key=id
//!   where entry.account = account.id
//!   output account.owner:under=de-x-icu
//!   aggregate array_agg(account.id) order=account.id
//!   window partition=account.owner order=account.id: row_number
//!   call random[volatile] in-list
//!   in exists
//!     select
//! ```
//! * `from`: a source, its columns and keys; also `one-row`, `ordered`, `needs=entry.account`.
//! * `where`: a condition that all rows meet. A value that is no column is known.
//! * `output`: terms. `sort`, `group` and `distinct-on` have terms too.
//! * `in`: a level within, indented.
//!
//! A term that is no column is an expression. After it: `:constant`, `:volatile`, `:loose` (equal
//! values may be different bytes), `:under=COLLATION` (its order is the machine's). A function has
//! its facts in brackets, and is built in unless its name has a schema.

use std::rc::Rc;

use chainify_rules::level::*;

/// The first level of the lines.
pub fn level(lines: &[&str]) -> Level {
    let (first, rest) = lines.split_first().expect("a statement");
    Reader::new(first.trim()).read(rest)
}

pub fn function(described: &str) -> Function {
    let (name, facts) = match described.split_once('[') {
        Some((name, facts)) => (name, facts.strip_suffix(']').expect("a bracket")),
        None => (described, ""),
    };
    let facts: Vec<&str> = facts.split(' ').filter(|f| !f.is_empty()).collect();
    let known = [
        "volatile",
        "stable",
        "sql",
        "c",
        "aggregate",
        "float",
        "bounded",
        "xid",
        "internal",
        "pattern",
        "merged",
        "sequence",
        "newer",
    ];
    let is_known = |f: &&str| known.contains(f) || f.starts_with("extension=");
    assert!(facts.iter().all(is_known), "a fact of {described} is not one of {known:?}");
    let has = |fact: &str| facts.contains(&fact);
    let on_sequence = has("sequence");
    Function {
        name: name.to_owned(),
        built_in: !name.contains('.') && !on_sequence,
        language: if has("sql") { Language::Checked } else { Language::Other },
        volatile: has("volatile"),
        immutable: !has("volatile") && !has("stable"),
        aggregate: has("aggregate"),
        extension: facts.iter().find_map(|f| f.strip_prefix("extension=")).map(str::to_owned),
        takes_float: has("float"),
        takes_bounded: has("bounded"),
        takes_xid: has("xid"),
        takes_internal: has("internal"),
        newer: has("newer"),
        takes_pattern: has("pattern"),
        may_be_merged: has("merged"),
        on_sequence,
    }
}

struct Reader {
    level: Level,
    /// Names of the sources and of their columns.
    names: Vec<(String, Vec<String>)>,
    terms: Vec<String>,
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The words of a line; what stands in brackets or parentheses is one word.
fn words(line: &str) -> Vec<String> {
    let (mut out, mut depth) = (vec![String::new()], 0);
    for c in line.chars() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ' ' if depth == 0 => {
                out.push(String::new());
                continue;
            }
            _ => {}
        }
        out.last_mut().unwrap().push(c);
    }
    out.retain(|w| !w.is_empty());
    out
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|t| !t.is_empty())
}

/// The value of `name=` among the words.
fn value<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('='))
}

impl Reader {
    fn new(command: &str) -> Self {
        let command = match command {
            "select" => Command::Select,
            "insert" => Command::Insert,
            "update" => Command::Update,
            "delete" => Command::Delete,
            "merge" => Command::Merge,
            other => panic!("no command {other}"),
        };
        Reader { level: Level::new(command), names: Vec::new(), terms: Vec::new() }
    }

    fn read(mut self, lines: &[&str]) -> Level {
        let mut at = 0;
        while at < lines.len() {
            let depth = indentation(lines[at]);
            let within = lines[at + 1..].iter().take_while(|l| indentation(l) > depth).count();
            let inner = &lines[at + 1..at + 1 + within];
            let all = words(lines[at].trim());
            let (name, rest) = all.split_first().unwrap();
            match inner.is_empty() {
                false => self.level.inner.push((place(name, rest), level(inner))),
                true => self.part(name, rest),
            }
            at += 1 + within;
        }
        self.level
    }

    fn part(&mut self, name: &str, rest: &[String]) {
        let has = |word: &str| rest.iter().any(|w| w == word);
        match name {
            "from" => self.source(&rest[0], &rest[1..]),
            "where" => self.condition(&rest[0], &rest[2]),
            "target" => self.level.target = Some(self.number(&rest[0])),
            "changes" => self.level.change = Some(change(&rest[0], &rest[1..])),
            "output" => self.level.outputs = self.terms(rest),
            "sort" => self.level.sort = self.terms(rest),
            "group" => self.level.group = self.terms(rest),
            "grouping-sets" => self.level.grouping_sets = true,
            "set-returning" => self.level.multiplies = true,
            "on-conflict-do-nothing" => self.level.ignores_conflicts = true,
            "returning" => self.level.returning = true,
            "union" => self.level.set_operation = Some(SetOperation::Set),
            "union-all" => self.level.set_operation = Some(SetOperation::Multiset),
            "distinct" => self.level.distinct = Distinct::All,
            "distinct-on" => self.level.distinct = Distinct::On(self.terms(rest)),
            "limit" => self.level.limit = Some(Limit { offset: has("offset"), with_ties: has("with-ties") }),
            "call" => self.level.calls.push(call(rest)),
            "aggregate" => self.aggregate(&rest[0], &rest[1..]),
            "window" => self.window(rest),
            "has" => self.level.constructs.push(construct(&rest[0], rest[1..].join(" "))),
            other => panic!("no part {other}"),
        }
    }

    fn source(&mut self, described: &str, rest: &[String]) {
        let (name, columns) = described.strip_suffix(')').unwrap().split_once('(').unwrap();
        self.names.push((name.to_owned(), list(columns).map(str::to_owned).collect()));
        let keys = rest.iter().filter_map(|w| w.strip_prefix("key="));
        let column = |c: &str| self.column(&format!("{name}.{c}")).expect("a column").number;
        let keys = keys.map(|key| list(key).map(column).collect()).collect();
        let needs = list(value(rest, "needs").unwrap_or_default()).filter_map(|c| self.column(c)).collect();
        let has = |word: &str| rest.iter().any(|w| w == word);
        let number = self.number(name);
        self.level.sources.push(Source { number, needs, one_row: has("one-row"), keys, ordered: has("ordered") });
    }

    fn number(&self, name: &str) -> u32 {
        let at = self.names.iter().position(|(n, _)| n == name);
        1 + at.unwrap_or_else(|| panic!("no source {name}")) as u32
    }

    fn column(&self, name: &str) -> Option<Column> {
        let (source, column) = name.split_once('.')?;
        let (_, columns) = self.names.iter().find(|(n, _)| n == source)?;
        let at = columns.iter().position(|c| c == column).unwrap_or_else(|| panic!("no column {name}"));
        Some(Column { source: self.number(source), number: 1 + at as i16 })
    }

    fn condition(&mut self, left: &str, right: &str) {
        let (left, right) = (self.column(left), self.column(right));
        for (gives, needs) in [(left, right), (right, left)] {
            if let Some(gives) = gives {
                self.level.implications.push(Implication { needs: needs.into_iter().collect(), gives });
            }
        }
    }

    fn term(&mut self, described: &str) -> Term {
        let mut parts = described.split(':');
        let text = parts.next().unwrap();
        let facts: Vec<&str> = parts.collect();
        let known = |f: &&str| matches!(*f, "constant" | "volatile" | "loose") || f.starts_with("under=");
        assert!(facts.iter().all(known), "a fact of {described}");
        let seen = self.terms.iter().position(|t| t == text);
        let id = seen.unwrap_or_else(|| {
            self.terms.push(text.to_owned());
            self.terms.len() - 1
        });
        Term {
            id,
            column: self.column(text),
            constant: facts.contains(&"constant"),
            volatile: facts.contains(&"volatile"),
            identical: !facts.contains(&"loose"),
            local_collation: facts.iter().find_map(|f| f.strip_prefix("under=")).map(str::to_owned),
        }
    }

    fn terms(&mut self, described: &[String]) -> Vec<Term> {
        described.iter().map(|d| self.term(d)).collect()
    }

    fn listed(&mut self, described: Option<&str>) -> Vec<Term> {
        list(described.unwrap_or_default()).map(|d| self.term(d)).collect()
    }

    fn aggregate(&mut self, described: &str, rest: &[String]) {
        let (name, arguments) = described.strip_suffix(')').unwrap().split_once('(').unwrap();
        let arguments = self.listed(Some(arguments));
        let order = self.listed(value(rest, "order"));
        self.level.aggregates.push(Aggregate {
            function: Rc::new(Function { aggregate: true, ..function(name) }),
            arguments,
            order,
            distinct: rest.iter().any(|w| w == "distinct"),
            local_collation: value(rest, "under").map(str::to_owned),
        });
    }

    fn window(&mut self, rest: &[String]) {
        let at = rest.iter().position(|w| w == ":").expect("a colon before the functions");
        let (of, functions) = (&rest[..at], &rest[at + 1..]);
        let over = |f: &String| {
            let call = call(&f.split(':').map(str::to_owned).collect::<Vec<_>>());
            FunctionCall { function: Rc::new(Function { aggregate: true, ..Function::clone(&call.function) }), ..call }
        };
        let window = Window {
            partition: self.listed(value(of, "partition")),
            order: self.listed(value(of, "order")),
            counts_rows: of.iter().any(|w| w == "rows"),
            functions: functions.iter().map(over).collect(),
        };
        self.level.windows.push(window);
    }
}

fn place(name: &str, rest: &[String]) -> Place {
    assert_eq!(name, "in", "only a level within has lines of its own");
    match rest[0].as_str() {
        "from" => Place::From,
        "lateral" => Place::Lateral,
        "with" => Place::With,
        "exists" => Place::Exists,
        "array" => Place::Array,
        "expression" => Place::Expression,
        other => panic!("no place {other}"),
    }
}

fn change(name: &str, rest: &[String]) -> Change {
    let kind = match rest[0].as_str() {
        "adds" => Kind::Adds,
        "keeps-keys" => Kind::KeepsKeys,
        "any" => Kind::Any,
        other => panic!("no kind of change {other}"),
    };
    let table = name.bytes().map(u32::from).sum();
    Change { table, name: name.to_owned(), kind, moves_keys: rest.iter().any(|w| w == "moves-keys") }
}

fn call(words: &[String]) -> FunctionCall {
    FunctionCall {
        function: Rc::new(function(&words[0])),
        in_target: words.iter().any(|w| w == "in-list"),
        local_collation: value(words, "under").map(str::to_owned),
        loose: words.iter().any(|w| w == "loose"),
    }
}

fn construct(kind: &str, name: String) -> Construct {
    match (kind, name.as_str()) {
        ("system-column", _) => Construct::SystemColumn(name),
        ("system-catalog", _) => Construct::SystemCatalog(name),
        ("object-identifier", _) => Construct::ObjectIdentifier(name),
        ("tablesample", _) => Construct::TableSample,
        ("lock", "SKIP LOCKED") => Construct::LockNotWaiting("SKIP LOCKED"),
        ("lock", "NOWAIT") => Construct::LockNotWaiting("NOWAIT"),
        ("sequence", _) => Construct::Sequence,
        ("current-of", _) => Construct::Cursor,
        ("session-value", "session_user") => Construct::SessionValue("session_user"),
        ("nondeterministic", _) => Construct::NondeterministicCollation(name),
        ("greatest-under", _) => Construct::LocalOrder(name),
        ("local-classes", name) => Construct::LocalClasses("like_regex", name.to_owned()),
        ("unknown", _) => Construct::Unknown("an expression that PostgreSQL 15 does not have"),
        other => panic!("no construct {other:?}"),
    }
}
