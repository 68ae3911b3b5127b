//! Statements that `check` lets through give the same on every machine. Small statements run over
//! the same rows, stored in two orders.
//!
//! The model knows FROM, WHERE, DISTINCT, GROUP BY, ORDER BY, LIMIT, array_agg() and row_number().
//! A value is what it compares by and the digits that it shows: equal values of a *loose* column
//! may show different ones. Not in the model: DISTINCT ON, which passes when ORDER BY has its
//! columns alone, and so may keep any row of each.

#![expect(clippy::unwrap_used, reason = "a test through and through")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use chainify_rules::determinism::check;
use chainify_rules::functions::Database;
use chainify_rules::level::*;
use chainify_rules::settings::Determinism;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

struct Bytes;

impl Database for Bytes {
    fn local_collation(&self) -> Option<String> {
        None
    }

    fn policy(&self) -> Determinism {
        Determinism::Strict
    }
}

/// The number that a value compares by, and its digits.
type Value = (u8, u8);
type Row = Vec<Value>;

const COLUMNS: usize = 2;

#[derive(Clone, Debug)]
struct Table {
    rows: Vec<[Value; COLUMNS]>,
    loose: [bool; COLUMNS],
    keys: Vec<Vec<usize>>,
    ordered: bool,
}

/// Left and right of an equality; columns are numbered through all tables.
#[derive(Clone, Debug)]
enum Condition {
    Columns(usize, usize),
    Known(usize, u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Plain,
    Distinct,
    Grouped,
}

#[derive(Clone, Debug)]
struct Statement {
    tables: Vec<Table>,
    conditions: Vec<Condition>,
    form: Form,
    outputs: Vec<usize>,
    sort: Vec<usize>,
    limit: Option<(usize, bool, bool)>,
    in_function: bool,
}

fn table() -> impl Strategy<Value = Table> {
    let value = || (0u8..3, 0u8..2);
    let rows = vec([value(), value()], 0..6);
    let keys = prop_oneof![
        Just(vec![]),
        Just(vec![vec![0]]),
        Just(vec![vec![1]]),
        Just(vec![vec![0, 1]]),
        Just(vec![vec![0], vec![1]]),
    ];
    (rows, any::<[bool; COLUMNS]>(), keys, prop::bool::weighted(0.3)).prop_map(|(mut rows, loose, keys, ordered)| {
        for row in &mut rows {
            (0..COLUMNS).filter(|c| !loose[*c]).for_each(|c| row[c].1 = 0);
        }
        for key in &keys {
            let mut seen = BTreeSet::new();
            rows.retain(|row| seen.insert(key.iter().map(|c| row[*c].0).collect::<Vec<_>>()));
        }
        Table { rows, loose, keys, ordered }
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    vec(table(), 1..3).prop_flat_map(|tables| {
        let column = 0..tables.len() * COLUMNS;
        let condition = prop_oneof![
            (column.clone(), column.clone()).prop_map(|(a, b)| Condition::Columns(a, b)),
            (column.clone(), 0u8..3).prop_map(|(c, v)| Condition::Known(c, v)),
        ];
        let form = prop_oneof![3 => Just(Form::Plain), 1 => Just(Form::Distinct), 1 => Just(Form::Grouped)];
        let columns = || vec(column.clone(), 1..4);
        let limit = prop::option::of((0usize..3, any::<bool>(), any::<bool>()));
        (Just(tables), vec(condition, 0..3), form, columns(), vec(column.clone(), 0..3), limit, any::<bool>()).prop_map(
            |(tables, conditions, form, outputs, mut sort, limit, in_function)| {
                if form != Form::Plain {
                    sort.retain(|c| outputs.contains(c)); // as SQL demands
                }
                let limit = limit.map(|(n, offset, ties)| (n, offset, ties && !sort.is_empty()));
                Statement { tables, conditions, form, outputs, sort, limit, in_function }
            },
        )
    })
}

impl Statement {
    fn place(column: usize) -> Column {
        Column { source: 1 + (column / COLUMNS) as u32, number: 1 + (column % COLUMNS) as i16 }
    }

    fn loose(&self, column: usize) -> bool {
        self.tables[column / COLUMNS].loose[column % COLUMNS]
    }

    fn terms(&self, columns: &[usize]) -> Vec<Term> {
        let term = |c: &usize| Term {
            id: *c,
            column: Some(Self::place(*c)),
            constant: false,
            volatile: false,
            identical: !self.loose(*c),
            local_collation: None,
        };
        columns.iter().map(term).collect()
    }

    /// As the extension would describe it.
    fn level(&self) -> Level {
        let mut level = Level::new(Command::Select);
        for (number, table) in (1..).zip(&self.tables) {
            let keys = table.keys.iter().map(|key| key.iter().map(|c| 1 + *c as i16).collect()).collect();
            level.sources.push(Source { number, needs: vec![], one_row: false, keys, ordered: table.ordered });
        }
        let mut implied = |needs: Vec<usize>, gives| {
            let needs = needs.into_iter().map(Self::place).collect();
            level.implications.push(Implication { needs, gives: Self::place(gives) });
        };
        for condition in &self.conditions {
            match *condition {
                Condition::Columns(a, b) => {
                    implied(vec![a], b);
                    implied(vec![b], a);
                }
                Condition::Known(c, _) => implied(vec![], c),
            }
        }
        level.outputs = self.terms(&self.outputs);
        level.sort = self.terms(&self.sort);
        match self.form {
            Form::Plain => {}
            Form::Distinct => level.distinct = Distinct::All,
            Form::Grouped => level.group = self.terms(&self.outputs),
        }
        level.limit = self.limit.map(|(_, offset, with_ties)| Limit { offset, with_ties });
        level
    }

    /// The rows that meet the conditions, in the order in which one machine stores them.
    fn joined(&self, mut machine: u64) -> Vec<Row> {
        let mut rows: Vec<Row> = vec![vec![]];
        for table in &self.tables {
            let extended = |row: &Row| {
                table.rows.iter().map(move |r| row.iter().chain(r).copied().collect::<Row>()).collect::<Vec<_>>()
            };
            rows = rows.iter().flat_map(extended).collect();
        }
        rows.retain(|row| {
            self.conditions.iter().all(|c| match *c {
                Condition::Columns(a, b) => row[a].0 == row[b].0,
                Condition::Known(c, v) => row[c].0 == v,
            })
        });
        let keeps = matches!(&self.tables[..], [only] if only.ordered);
        if !keeps {
            for i in (1..rows.len()).rev() {
                machine = machine.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                rows.swap(i, (machine >> 33) as usize % (i + 1));
            }
        }
        rows
    }

    fn run(&self, machine: u64) -> Vec<Row> {
        let mut rows = self.joined(machine);
        if self.form != Form::Plain {
            // Hashed: the result comes in any order, which that of the rows stands for.
            let mut seen = BTreeSet::new();
            rows.retain(|row| seen.insert(self.outputs.iter().map(|c| row[*c].0).collect::<Vec<_>>()));
        }
        let by = |row: &Row| self.sort.iter().map(|c| row[*c].0).collect::<Vec<_>>();
        rows.sort_by_key(by);
        if let Some((count, offset, ties)) = self.limit {
            rows.drain(..rows.len().min(usize::from(offset)));
            let mut end = rows.len().min(count);
            while ties && end > 0 && end < rows.len() && by(&rows[end]) == by(&rows[end - 1]) {
                end += 1;
            }
            rows.truncate(end);
        }
        rows.iter().map(|row| self.outputs.iter().map(|c| row[*c]).collect()).collect()
    }
}

/// Runs a property, and expects that this many cases said something.
fn property<S: Strategy>(cases: u32, telling_min: u32, of: S, judge: impl Fn(S::Value) -> Result<bool, TestCaseError>) {
    let telling = Cell::new(0);
    let mut runner = TestRunner::new(chainify_seeded::config(cases));
    let result = runner.run(&of, |value| {
        telling.set(telling.get() + u32::from(judge(value)?));
        Ok(())
    });
    result.unwrap();
    assert!(telling.get() >= telling_min, "{} of {cases} cases said something", telling.get());
}

/// LIMIT, DISTINCT, GROUP BY, and a function that takes rows one by one.
#[test]
fn what_passes_gives_the_same_rows_in_every_order_of_storage() {
    property(12000, 150, (statement(), any::<u64>(), any::<u64>()), |(statement, one, other)| {
        if !check(&statement.level(), statement.in_function, &Bytes).is_empty() {
            return Ok(false);
        }
        let (mut one, mut other) = (statement.run(one), statement.run(other));
        if !statement.in_function {
            // The client's order is its own affair.
            one.sort();
            other.sort();
        }
        prop_assert_eq!(&one, &other);
        Ok(one.len() > 1 && (statement.limit.is_some() || statement.in_function))
    });
}

/// `min(argument)`, of all rows or of groups.
#[test]
fn the_least_value_that_passes_is_the_same_in_every_order_of_storage() {
    property(6000, 300, (statement(), 0..COLUMNS, any::<bool>(), any::<u64>(), any::<u64>()), |drawn| {
        let (statement, argument, grouped, one, other) = drawn;
        let statement = Statement { form: Form::Plain, limit: None, sort: vec![], ..statement };
        let group = if grouped { statement.outputs.clone() } else { vec![] };
        let mut level = statement.level();
        level.outputs.clear();
        level.group = statement.terms(&group);
        level.aggregates.push(Aggregate {
            function: built_in("min"),
            arguments: statement.terms(&[argument]),
            order: vec![],
            distinct: false,
            local_collation: None,
        });
        if !check(&level, false, &Bytes).is_empty() {
            return Ok(false);
        }
        let run = |machine| {
            let mut least: BTreeMap<Row, Value> = BTreeMap::new();
            let rows = statement.joined(machine);
            for row in &rows {
                let same = |other: &&Row| group.iter().all(|c| other[*c].0 == row[*c].0);
                let first = rows.iter().find(same).unwrap_or(row);
                let of = least.entry(group.iter().map(|c| first[*c]).collect()).or_insert(row[argument]);
                if row[argument].0 < of.0 {
                    *of = row[argument];
                }
            }
            least
        };
        let (one, other) = (run(one), run(other));
        prop_assert_eq!(&one, &other);
        Ok(!one.is_empty())
    });
}

#[test]
fn keys_tell_rows_of_the_result_apart() {
    property(4000, 300, statement(), |statement| {
        let statement = Statement { limit: None, ..statement };
        let keys = statement.level().keys();
        let rows = statement.run(0);
        for key in &keys {
            let values = |row: &Row| key.iter().map(|n| row[*n as usize - 1].0).collect::<Vec<_>>();
            let distinct: BTreeSet<_> = rows.iter().map(values).collect();
            prop_assert_eq!(distinct.len(), rows.len(), "key {:?} of {:?}", key, rows);
        }
        Ok(!keys.is_empty() && rows.len() > 1)
    });
}

#[test]
fn a_level_of_one_row_has_one_row() {
    property(8000, 100, statement(), |statement| {
        let statement = Statement { limit: None, ..statement };
        let one_row = statement.level().one_row();
        let rows = statement.run(0);
        prop_assert!(!one_row || rows.len() <= 1, "{:?}", rows);
        Ok(one_row && rows.len() == 1)
    });
}

fn built_in(name: &str) -> Rc<Function> {
    Rc::new(Function {
        name: name.to_owned(),
        built_in: true,
        language: Language::Other,
        volatile: false,
        immutable: true,
        aggregate: true,
        extension: None,
        takes_float: false,
        takes_bounded: false,
        takes_xid: false,
        takes_internal: false,
        newer: false,
        takes_pattern: false,
        may_be_merged: false,
        on_sequence: false,
    })
}

/// `array_agg(DISTINCT argument ORDER BY order)`, of all rows or of groups.
#[test]
fn aggregates_that_pass_take_rows_in_one_order() {
    let column = 0..COLUMNS;
    let aggregate = (column.clone(), vec(column, 0..3), any::<bool>(), any::<bool>());
    property(6000, 300, (statement(), aggregate, any::<u64>(), any::<u64>()), |(statement, aggregate, one, other)| {
        let (argument, mut order, distinct, grouped) = aggregate;
        if distinct {
            order.retain(|c| *c == argument); // as SQL demands
        }
        let statement = Statement { form: Form::Plain, limit: None, sort: vec![], ..statement };
        let group = if grouped { statement.outputs.clone() } else { vec![] };
        let mut level = statement.level();
        level.outputs.clear();
        level.group = statement.terms(&group);
        level.aggregates.push(Aggregate {
            function: built_in("array_agg"),
            arguments: statement.terms(&[argument]),
            order: statement.terms(&order),
            distinct,
            local_collation: None,
        });
        if !check(&level, false, &Bytes).is_empty() {
            return Ok(false);
        }
        let run = |machine| {
            let rows = statement.joined(machine);
            let groups: BTreeSet<Vec<u8>> = rows.iter().map(|row| group.iter().map(|c| row[*c].0).collect()).collect();
            let of = |key: &Vec<u8>| {
                let mut rows: Vec<&Row> =
                    rows.iter().filter(|row| group.iter().map(|c| row[*c].0).eq(key.iter().copied())).collect();
                rows.sort_by_key(|row| order.iter().map(|c| row[*c].0).collect::<Vec<_>>());
                if distinct {
                    rows.sort_by_key(|row| row[argument].0);
                    rows.dedup_by_key(|row| row[argument].0);
                }
                rows.into_iter().map(|row| row[argument]).collect::<Vec<Value>>()
            };
            groups.iter().map(of).collect::<Vec<_>>()
        };
        let (one, other) = (run(one), run(other));
        prop_assert_eq!(&one, &other);
        Ok(one.iter().any(|values| values.len() > 1))
    });
}

/// `row_number() OVER (PARTITION BY … ORDER BY …)`.
#[test]
fn windows_that_pass_number_rows_alike() {
    let column = 0..COLUMNS;
    let window = (vec(column.clone(), 0..2), vec(column, 0..3));
    property(9000, 300, (statement(), window, any::<u64>(), any::<u64>()), |(statement, window, one, other)| {
        let (partition, order) = window;
        let statement = Statement { form: Form::Plain, limit: None, sort: vec![], ..statement };
        let mut level = statement.level();
        level.windows.push(Window {
            partition: statement.terms(&partition),
            order: statement.terms(&order),
            counts_rows: false,
            functions: vec![FunctionCall {
                function: built_in("row_number"),
                in_target: false,
                local_collation: None,
                loose: false,
            }],
        });
        if !check(&level, false, &Bytes).is_empty() {
            return Ok(false);
        }
        let keeps = level.keeps_order();
        let run = |machine| {
            let mut rows = statement.joined(machine);
            let by = |row: &Row, of: &[usize]| of.iter().map(|c| row[*c].0).collect::<Vec<_>>();
            rows.sort_by_key(|row| (by(row, &partition), by(row, &order)));
            let mut numbered: Vec<(Row, usize)> = Vec::new();
            for row in rows {
                let number = match numbered.last() {
                    Some((last, n)) if by(last, &partition) == by(&row, &partition) => n + 1,
                    _ => 1,
                };
                numbered.push((row, number));
            }
            numbered.sort();
            numbered
        };
        let (one, other) = (run(one), run(other));
        prop_assert_eq!(&one, &other);
        Ok(one.len() > 1 && !keeps)
    });
}

/// Wherever a call stands, a function that is refused is found.
#[test]
fn a_refused_function_is_found_at_any_depth() {
    let places = [Place::From, Place::Lateral, Place::With, Place::Exists, Place::Array, Place::Expression];
    let outer = (statement(), prop::sample::select(places.to_vec()));
    property(500, 400, (statement(), vec(outer, 0..5), 0..3), |(innermost, outer, how)| {
        let mut level = innermost.level();
        let function = Rc::new(Function {
            name: "clock_timestamp".into(),
            volatile: true,
            immutable: false,
            ..(*built_in("")).clone()
        });
        let call =
            FunctionCall { function: function.clone(), in_target: how == 0, local_collation: None, loose: false };
        match how {
            0 | 1 => level.calls.push(call),
            _ => level.windows.push(Window {
                partition: vec![],
                order: vec![],
                counts_rows: false,
                functions: vec![call],
            }),
        }
        for (around, place) in outer {
            let mut around = around.level();
            around.inner.push((place, level));
            level = around;
        }
        let findings = check(&level, false, &Bytes);
        prop_assert!(findings.iter().any(|f| f.construct == "clock_timestamp()"), "{:?}", findings);
        for (i, finding) in findings.iter().enumerate() {
            prop_assert!(!findings[..i].contains(finding), "told twice: {:?}", finding);
        }
        Ok(true)
    });
}
