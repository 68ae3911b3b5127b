//! The predicates of a SERIALIZABLE transaction of plain SQL on ledger tables, as bounds of
//! columns. Every organisation compares them with the rows that other transactions changed
//! meanwhile.
use std::ops::Bound as Side;

use chainify_codec::value;
use chainify_ledger::write_set::{Bound, End, BOUNDS_MAX};
use chainify_sched::ranges::Range;
use chainify_sched::value::{Class, Value};
use pgrx::pg_sys::Oid;

use crate::ledger::tables;
use crate::pg::base::backend::{phase, Phase};
use crate::pg::base::encode::{days, micros};
use crate::pg::base::settings::{self, Writes};
use crate::pg::planner::session_reads::{Reads, RowsRead};
use crate::pg::session_transaction::{isolation, Isolation};
use crate::session::plain_sql;

/// Reads that one read with lists of values may become; with more, the longest lists bound nothing.
const ALTERNATIVES_MAX: usize = 16;

/// The answers for the hooks.
pub const READS: Reads = Reads {
    wanted,
    with_bounds,
    read,
};

/// Also while the session's changes are refused: it may set `chainify.writes` after a read.
fn wanted() -> bool {
    matches!(phase(), Phase::Outside | Phase::Plain)
        && isolation() == Isolation::Serializable
        && settings::guard()
}

fn with_bounds() -> bool {
    wanted() && settings::writes() != Writes::Refuse
}

/// COPY reads a table.
pub fn copied(relation: Oid) {
    if wanted() {
        read(RowsRead::all(relation));
    }
}

/// Notes a read of a ledger table. Those of the ledger's own tables are no business of the
/// application's.
fn read(rows: RowsRead) {
    let Some(table) = tables::owner(rows.relation) else {
        return;
    };
    if table.name.starts_with("chainify_ledger.") {
        return;
    }
    for bounds in bounds(&rows) {
        plain_sql::read(&table.name, bounds);
    }
}

/// The bounds of each read that the rows are in; one without any for the whole table.
fn bounds(rows: &RowsRead) -> Vec<Vec<Bound>> {
    let Some(leaf) = tables::leaf(rows.relation).filter(|_| !rows.columns.is_empty()) else {
        return vec![Vec::new()];
    };
    let ordinals = leaf.table.columns.iter().map(|column| column.ordinal);
    let number = |ordinal| leaf.encoder.number_of(ordinal);
    let known =
        ordinals.filter_map(|ordinal| Some((ordinal, rows.columns.get(&number(ordinal)?)?)));
    let mut all = vec![Vec::new()];
    for (ordinal, (class, range)) in known.take(BOUNDS_MAX) {
        let ends = ends(*class, range);
        if !ends.is_empty() && all.len() * ends.len() <= ALTERNATIVES_MAX {
            let with = |bounds: &Vec<Bound>, (lower, upper): &(End, End)| {
                let bound = Bound {
                    ordinal,
                    lower: lower.clone(),
                    upper: upper.clone(),
                };
                [bounds.clone(), vec![bound]].concat()
            };
            all = all
                .iter()
                .flat_map(|bounds| ends.iter().map(|ends| with(bounds, ends)))
                .collect();
        }
    }
    all.iter_mut().for_each(|bounds| bounds.sort());
    all
}

/// The ends of each interval of the values; none: they bound nothing.
fn ends(class: Class, range: &Range) -> Vec<(End, End)> {
    let ends = match range {
        Range::OneOf(values) => values
            .iter()
            .map(|value| encoded(class, value).map(|v| (End::Closed(v.clone()), End::Closed(v))))
            .collect(),
        Range::Between(lower, upper) => {
            let ends = end(class, lower).zip(end(class, upper));
            ends.filter(|ends| *ends != (End::None, End::None))
                .map(|ends| vec![ends])
        }
        Range::Nothing | Range::Anything => None,
    };
    ends.unwrap_or_default()
}

fn end(class: Class, side: &Side<Value>) -> Option<End> {
    Some(match side {
        Side::Included(value) => End::Closed(encoded(class, value)?),
        Side::Excluded(value) => End::Open(encoded(class, value)?),
        Side::Unbounded => End::None,
    })
}

/// The canonical value; None for one that has none here.
fn encoded(class: Class, value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match (class, value) {
        (Class::Bool, Value::Bool(v)) => value::bool(&mut out, *v),
        (Class::Integer, Value::Integer(v)) => value::int(&mut out, *v),
        (Class::Decimal, Value::Integer(v)) => value::numeric(&mut out, &v.to_string()).ok()?,
        (Class::Decimal, Value::Decimal(v)) => value::numeric(&mut out, v).ok()?,
        (Class::Text, Value::Text(v)) => value::text(&mut out, std::str::from_utf8(v).ok()?),
        (Class::Padded, Value::Text(v)) => value::char(&mut out, std::str::from_utf8(v).ok()?),
        (Class::Bytes, Value::Bytes(v)) => value::bytea(&mut out, v),
        (Class::Uuid, Value::Uuid(v)) => value::uuid(&mut out, v),
        (Class::Date, Value::Date(v)) => value::date(&mut out, days(*v)),
        (Class::Timestamp, Value::Timestamp(v)) => value::timestamp(&mut out, micros(*v).ok()?),
        (Class::Instant, Value::Instant(v)) => value::timestamptz(&mut out, micros(*v).ok()?),
        _ => return None,
    }
    Some(out)
}
