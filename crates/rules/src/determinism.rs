//! Refuses statements that could have different effects in different organisations
//! (docs/user/statements.md).
use crate::aggregates::{by_order, ByOrder};
use crate::changes;
use crate::finding::{Finding, ADD_KEY};
pub use crate::functions::Database;
use crate::functions::{self, Verdict};
use crate::level::{
    local_collations, Aggregate, Command, Construct, Distinct, Function, Level, Place, SetOperation, Term, Window,
};

/// The first finding for which levels of one statement are refused, of those that `counts` counts.
pub fn refused(
    levels: &[Level],
    in_function: bool,
    database: &dyn Database,
    counts: fn(&Finding) -> bool,
) -> Option<Finding> {
    let mut findings = levels.iter().flat_map(|level| check(level, in_function, database));
    findings.find(|finding| counts(finding) && finding.refused_under(database.policy()))
}

/// Everything in the statement that is refused; `in_function`: its caller takes the rows one by
/// one.
pub fn check(level: &Level, in_function: bool, database: &dyn Database) -> Vec<Finding> {
    let mut found = Vec::new();
    check_level(level, &mut found, None, database);
    if in_function && level.command == Command::Select {
        if !level.total_order(&level.sort) {
            found.push(Finding::by_order(
                "a query without a total order inside a function",
                "The function takes its rows in the order in which they are stored, which differs between organisations.",
                "Add ORDER BY over the primary key, restrict the query to one row, or aggregate.",
            ));
        }
        order_of_machine(level, &mut found);
    }
    changes::twice(level, &mut found);
    let mut unique = Vec::new();
    for finding in found {
        if !unique.contains(&finding) {
            unique.push(finding);
        }
    }
    unique
}

fn check_level(level: &Level, found: &mut Vec<Finding>, place: Option<Place>, database: &dyn Database) {
    for call in &level.calls {
        found.extend(functions::finding(&call.function));
        found.extend(functions::by_collation(&call.function, call.local_collation.as_deref(), database));
    }
    found.extend(level.constructs.iter().map(|c| construct(c).silent()));
    draws(level, found);
    merges(level, place, found);
    limit(level, place, found);
    if let Distinct::On(_) = level.distinct {
        ordered(level, level.total_order_before_distinct(&level.sort), "DISTINCT ON", found);
    }
    if place == Some(Place::Array) {
        ordered(level, level.total_order(&level.sort), "ARRAY(SELECT ...)", found);
    }
    for aggregate in &level.aggregates {
        check_aggregate(level, aggregate, found, database);
    }
    for w in &level.windows {
        window(level, w, found, database);
    }
    changes::of_level(level, found);
    for (place, inner) in &level.inner {
        check_level(inner, found, Some(*place), database);
    }
}

fn limit(level: &Level, place: Option<Place>, found: &mut Vec<Finding>) {
    let Some(limit) = level.limit else {
        return;
    };
    let only_whether = place == Some(Place::Exists) && !limit.offset;
    let by_peers = limit.with_ties && !limit.offset;
    if only_whether {
        return;
    }
    if !by_peers {
        ordered(level, level.total_order(&level.sort), "LIMIT", found);
    } else {
        collations(&level.sort, found);
    }
}

/// A clause that keeps one of several rows or values that compare as equal.
fn merges(level: &Level, place: Option<Place>, found: &mut Vec<Finding>) {
    let merged = |terms: &[Term]| loose(terms) && !level.rows_told_apart(terms);
    if merged(&level.group) || level.grouping_sets && loose(&level.group) {
        found.push(kept("GROUP BY of"));
    }
    if place == Some(Place::Exists) || level.one_row() {
        return;
    }
    if matches!(level.distinct, Distinct::All) && merged(&level.outputs) {
        found.push(kept("DISTINCT of"));
    }
    if level.set_operation == Some(SetOperation::Set) && loose(&level.outputs) {
        found.push(kept("UNION, INTERSECT or EXCEPT of"));
    }
}

fn loose(terms: &[Term]) -> bool {
    terms.iter().any(|t| !t.identical && !t.constant)
}

fn kept(clause: &str) -> Finding {
    Finding::by_order(
        format!("{clause} values that are equal and may differ"),
        "Of values such as 1.0 and 1.00, or 24 hours and one day, it keeps the one that is stored first, which differs between organisations.",
        "Cast them to a type that shows equal values in one way only, such as numeric(12, 2), or take the first row of an ORDER BY that ends with the primary key.",
    )
}

/// A clause that picks rows by their order.
fn ordered(level: &Level, total: bool, clause: &str, found: &mut Vec<Finding>) {
    if !total {
        found.push(Finding::by_order(
            format!("{clause} without a total order"),
            "Rows that ORDER BY does not tell apart come in the order in which they are stored, which differs between organisations.",
            ADD_KEY,
        ));
    }
    order_of_machine(level, found);
}

fn order_of_machine(level: &Level, found: &mut Vec<Finding>) {
    if !level.one_row() {
        collations(&level.sort, found);
    }
}

fn collations(order: &[Term], found: &mut Vec<Finding>) {
    found.extend(local_collations(order).map(|name| functions::order_by(name)));
}

const ROUNDING_REASON: &str =
    "Floating-point sums are rounded at each step, so they depend on the order of the rows, which differs between organisations.";

/// The finding on sums that are not exact; `function` works on them.
fn inexact(function: &Function) -> Option<Finding> {
    let name = &function.name;
    match by_order(function) {
        ByOrder::Rounds => Some(Finding::by_order(
            format!("{name}() of floating-point values"),
            ROUNDING_REASON,
            "Cast the values to numeric.",
        )),
        ByOrder::Overflows => Some(Finding::by_order(
            format!("{name}() of intervals or money"),
            "On its way a sum may leave the range of its type, and fail, in one order of the rows and not in another; the order differs between organisations.",
            "Take numbers, such as sum(extract(epoch FROM x)) or sum(x::numeric), or add ORDER BY over the primary key inside the call.",
        )),
        _ => None,
    }
}

fn check_aggregate(level: &Level, aggregate: &Aggregate, found: &mut Vec<Finding>, database: &dyn Database) {
    let function = &aggregate.function;
    found.extend(functions::finding(function));
    found.extend(functions::by_collation(function, aggregate.local_collation.as_deref(), database));
    collations(&aggregate.order, found);
    let by = by_order(function);
    let merged = by == ByOrder::Picks || aggregate.distinct && !(function.built_in && function.name == "count");
    if merged && loose(&aggregate.arguments) && !order_fixed(level, aggregate) {
        found.push(kept(&format!("{}() of", function.name)));
        return;
    }
    let inexact = inexact(function);
    if inexact.is_none() && by != ByOrder::Keeps {
        return;
    }
    if aggregate.distinct {
        collations(&aggregate.arguments, found); // they are sorted to tell them apart
    }
    if !order_fixed(level, aggregate) {
        found.push(inexact.unwrap_or_else(|| {
            Finding::by_order(
                format!("{}() without a total order", function.name),
                "It takes the rows in the order in which they are stored, which differs between organisations.",
                "Add ORDER BY over the primary key, or over the aggregated values, inside the call.",
            )
        }));
    }
}

fn order_fixed(level: &Level, aggregate: &Aggregate) -> bool {
    let sorted = |term: &Term| aggregate.distinct || aggregate.order.iter().any(|o| o.id == term.id);
    let rounds = by_order(&aggregate.function) == ByOrder::Rounds;
    let covered = aggregate.arguments.iter().all(|t| t.constant || ((t.identical || rounds) && sorted(t)));
    let by: Vec<Term> = level.group.iter().chain(&aggregate.order).cloned().collect();
    (covered && !aggregate.arguments.is_empty())
        || (!level.grouping_sets && level.rows_told_apart(&by))
        || (level.group.is_empty() && level.sources_ordered())
}

fn window(level: &Level, window: &Window, found: &mut Vec<Finding>, database: &dyn Database) {
    let by: Vec<Term> = window.partition.iter().chain(&window.order).cloned().collect();
    let total = if level.group.is_empty() && level.aggregates.is_empty() {
        level.rows_told_apart(&by) || level.keeps_order()
    } else {
        !level.grouping_sets && level.group.iter().all(|g| by.iter().any(|t| t.id == g.id))
    };
    for call in &window.functions {
        collations(&window.order, found);
        let function = &call.function;
        found.extend(functions::finding(function));
        found.extend(functions::by_collation(function, call.local_collation.as_deref(), database));
        let by = by_order(function);
        let takes_rows = match by {
            ByOrder::Position | ByOrder::Keeps => true,
            ByOrder::Peers => false,
            _ => window.counts_rows,
        };
        if total {
            continue;
        }
        if takes_rows {
            found.push(Finding::by_order(
                format!("{}() over a window without a total order", function.name),
                "Rows that its ORDER BY does not tell apart come in the order in which they are stored, which differs between organisations.",
                "Add the primary key to the ORDER BY of the window.",
            ));
        } else if by == ByOrder::Picks && call.loose {
            found.push(kept(&format!("{}() of", function.name)));
        } else {
            found.extend(inexact(function));
        }
    }
}

/// Values drawn anew at each call depend on the number and the order of the calls. Both follow from
/// the statement where a call is made once at most, or once for each row that is returned, in a
/// total order which it does not enter itself.
fn draws(level: &Level, found: &mut Vec<Finding>) {
    let one_row = level.one_row();
    let rows_in_order = !matches!(level.command, Command::Update | Command::Delete)
        && matches!(level.distinct, Distinct::No)
        && !level.sort.iter().chain(&level.group).any(|t| t.volatile)
        && level.ordered();
    let once = level.sources.iter().all(|s| s.one_row);
    for call in &level.calls {
        if !(once || call.in_target && (one_row || rows_in_order)) {
            found.extend(drawn(&call.function));
        }
    }
    let drawing = level.inner.iter().filter(|(_, inner)| draws_within(inner)).count();
    for (place, inner) in &level.inner {
        let fine = match place {
            Place::From => level.sources.len() == 1,
            Place::With => drawing == 1 && !level.calls.iter().any(|c| functions::draws(&c.function)),
            _ => once,
        };
        if !fine {
            let mut calls = Vec::new();
            inner.all_calls(&mut calls);
            found.extend(calls.into_iter().filter_map(drawn));
        }
    }
}

fn draws_within(level: &Level) -> bool {
    let mut calls = Vec::new();
    level.all_calls(&mut calls);
    calls.into_iter().any(functions::draws)
}

fn drawn(function: &Function) -> Option<Finding> {
    let what = match functions::verdict(function) {
        Verdict::Draws => "It is drawn once per row, in the order in which rows are stored, which differs between organisations.",
        Verdict::Runs if function.volatile => "It may have effects, and runs once per row, in the order in which rows are stored, which differs between organisations.",
        _ => return None,
    };
    Some(Finding::by_order(
        format!("{}() for several rows", function.name),
        what,
        if function.built_in || function.on_sequence {
            "Restrict the statement to one row, or compute it in a query with ORDER BY over the primary key."
        } else {
            "Restrict the statement to one row, call it from a query with ORDER BY over the primary key, or declare the function STABLE or IMMUTABLE if it is."
        },
    ))
}

/// The finding of a literal that reads the clock.
pub fn frozen_time(literal: &str) -> Finding {
    Finding::new(
        literal,
        "PostgreSQL reads the clock for it when it parses the statement, and keeps the constant: it would be the time of an earlier block.",
        "Use now(), current_date, current_date + 1 or current_date - 1: in a block these are of the block's time. Write a time zone of a time of day as an offset, such as +03.",
    )
}

/// The finding on a value of a type such as regclass.
pub fn of_type(name: &str) -> Finding {
    Finding::new(
        format!("a value of type {name}"),
        "Object numbers are of one database.",
        match name {
            "regconfig" | "regdictionary" => {
                "Name one of PostgreSQL's own, as a constant, where the function is called."
            }
            _ => "Use the object's name as text.",
        },
    )
}

fn construct(construct: &Construct) -> Finding {
    match construct {
        Construct::SystemColumn(name) => Finding::new(
            format!("system column \"{name}\""),
            "It tells where or by which local transaction a row is stored, not what it holds.",
            "Use the primary key.",
        ),
        Construct::SystemCatalog(name) => Finding::new(
            format!("system catalog \"{name}\""),
            "What it holds (object numbers, settings, statistics) is of one database.",
            "Read it before submitting, and pass the value as a parameter.",
        ),
        Construct::ObjectIdentifier(name) => of_type(name),
        Construct::TableSample => Finding::by_order(
            "TABLESAMPLE",
            "It picks rows by where they are stored, which differs between organisations.",
            "Use a condition on the rows, for example on a hash of the key.",
        ),
        Construct::LockNotWaiting(option) => Finding::new(
            *option,
            "Which rows are locked at the moment differs between organisations.",
            "Leave it out: transactions of a block do not run into each other's locks.",
        ),
        Construct::Sequence => Finding::new("a sequence", functions::SEQUENCE_REASON, functions::SEQUENCE_REWRITE),
        Construct::Cursor => {
            Finding::new("WHERE CURRENT OF", "It names a row by where it is stored.", "Use the primary key.")
        }
        Construct::SessionValue(name) => Finding::new(*name, functions::SESSION_REASON, functions::PASS_PARAMETER),
        Construct::NondeterministicCollation(name) => Finding::new(
            format!("collation \"{name}\""),
            "It takes different texts as equal; which of them remains depends on the order in which rows are stored.",
            "Compare lower(...) of both sides under COLLATE \"C\".",
        )
        .of_collation(),
        Construct::LocalOrder(name) => functions::order_by(name),
        Construct::LocalClasses(what, name) => functions::classes_of_database(what, name),
        Construct::FrozenTime(literal) => frozen_time(literal),
        Construct::Unknown(what) => Finding::new(
            *what,
            "It is newer than the checker, which cannot say what it does.",
            "Write the statement without it.",
        ),
    }
}
