//! One level of a query: WITH, FROM, WHERE, GROUP BY, the columns, ORDER BY and LIMIT.
use std::collections::BTreeMap;

use super::value::{Form, Value};
use super::{check_key, Level, Named, WithNamed, Writer, Written};
use crate::query::{From, Join, Order, Query, Set, Source};
use crate::types::Type;
use crate::{Kind, Refusal};

impl Writer {
    pub(super) fn query(&mut self, query: &Query) -> Result<Written, Refusal> {
        self.within_level(query, false, |writer| writer.level_of(query))
    }

    /// A query that stands in an expression as it is.
    pub(super) fn query_in_place(&mut self, query: &Query) -> Result<Written, Refusal> {
        self.within_level(query, true, |writer| writer.level_of(query))
    }

    /// Writes something of a query at its own level.
    pub(super) fn within_level<T>(
        &mut self,
        query: &Query,
        in_place: bool,
        write: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.deeper(|writer| {
            let outer_join = query.from.iter().any(has_outer_join);
            writer.levels.push(Level { outer_join, in_place, ..Level::default() });
            let written = write(writer);
            writer.levels.pop();
            written
        })
    }

    fn level_of(&mut self, query: &Query) -> Result<Written, Refusal> {
        let mut with = Vec::new();
        for named in &query.with {
            let before = self.cuts;
            let written = self.query(&named.query)?;
            let cuts = self.cuts > before;
            if cuts && named.several_uses {
                // The worker evaluates it for each use, PostgreSQL once.
                let what = "LIMIT, OFFSET or a window function in a WITH query that is used twice";
                return Err(Refusal::new(Kind::WithTwice, what));
            }
            let alias = self.alias('w');
            with.push(format!("{alias} AS ({})", written.sql));
            let (columns, sorted) = (columns(&written), written.sorted);
            self.level().with.push(WithNamed { name: named.name.clone(), alias, columns, sorted, cuts });
        }
        let inner = match &query.set {
            Some(set) => self.set_operations(query, set)?,
            None => self.select(query)?,
        };
        let mut written = self.ordered(query, inner)?;
        if !with.is_empty() {
            written.sql = format!("WITH {} {}", with.join(", "), written.sql);
        }
        self.check_size(&written.sql)?;
        Ok(written)
    }

    /// SELECT without ORDER BY and LIMIT; junk columns are in.
    fn select(&mut self, query: &Query) -> Result<Written, Refusal> {
        let (from, condition) = self.sources_and_condition(query)?;
        let sorted = self.level().sorted;
        if sorted && query.windows.iter().any(|window| window.order.is_empty()) {
            return Err(Refusal::new(Kind::SortedSubquery, "a window without ORDER BY over a sorted subquery"));
        }
        self.cuts += query.windows.len();
        for window in &query.windows {
            let text = self.window(query, window)?;
            self.level().windows.push(text);
        }
        let (mut columns, mut constant) = (Vec::new(), Vec::new());
        for target in &query.targets {
            let value = self.value(&target.expr)?;
            if query.distinct && !target.junk {
                check_key(&value, "DISTINCT")?;
            }
            constant.push(value.constant.is_some());
            columns.push(exported(value));
        }
        let mut group = Vec::new();
        for at in &query.group {
            let key = columns.get(*at).ok_or_else(|| Refusal::new(Kind::Form, "GROUP BY of this form"))?;
            check_key(key, "GROUP BY")?;
            // A constant divides no group.
            if constant.get(*at) != Some(&true) {
                group.push(key.sql.clone());
            }
        }
        let mut having = Vec::new();
        if let Some(condition) = &query.having {
            having.push(self.condition(condition)?);
        }
        if group.is_empty() && !query.group.is_empty() {
            // One group, and none of no rows.
            having.push("(count(*) > 0)".to_owned());
        } else if group.is_empty() && (query.aggregates || query.having.is_some()) && !self.level().aggregates {
            // One row, though its aggregates were computed away.
            if self.level().correlated {
                return Err(Refusal::new(Kind::Correlated, "a subquery whose aggregates are constant"));
            }
            having.push("(count(*) >= 0)".to_owned());
        }

        let shown = columns.iter().zip(1..);
        let shown: Vec<_> = shown.map(|(c, n)| format!("{} AS o{n}", c.sql)).collect();
        // Columns that are only sorted or grouped by take no part in DISTINCT.
        let apart = query.distinct && query.targets.iter().any(|target| target.junk);
        let distinct = match query.distinct && !apart {
            true => "DISTINCT ",
            false => "",
        };
        let mut sql = match shown.is_empty() {
            true => "SELECT 1 AS o1".to_owned(),
            false => format!("SELECT {distinct}{}", shown.join(", ")),
        };
        if !from.is_empty() {
            sql += &format!(" FROM {from}");
        }
        if let Some(condition) = condition {
            sql += &format!(" WHERE {condition}");
        }
        if !group.is_empty() {
            sql += &format!(" GROUP BY {}", group.join(", "));
        }
        if !having.is_empty() {
            sql += &format!(" HAVING {}", having.join(" AND "));
        }
        if apart {
            let alias = self.alias('s');
            let shown = query.targets.iter().zip(1..).filter(|(t, _)| !t.junk);
            let shown: Vec<_> = shown.map(|(_, n)| format!("{alias}.o{n} AS o{n}")).collect();
            let list = shown.join(", ");
            sql = format!("SELECT DISTINCT {list} FROM ({sql}) AS {alias}");
        }
        Ok(Written { sql, columns: renumbered(columns), sorted })
    }

    /// The text behind FROM, empty without sources, and the one behind WHERE.
    pub(super) fn sources_and_condition(&mut self, query: &Query) -> Result<(String, Option<String>), Refusal> {
        for _ in &query.sources {
            self.level().sources.push(None);
        }
        let mut from = Vec::new();
        for part in &query.from {
            from.push(self.from(query, part)?);
        }
        let condition = query.condition.as_ref();
        let condition = condition.map(|c| self.condition(c)).transpose()?;
        Ok((from.join(" CROSS JOIN "), condition))
    }

    fn from(&mut self, query: &Query, from: &From) -> Result<String, Refusal> {
        self.deeper(|writer| match from {
            From::Source(at) => writer.source(query, *at),
            From::Join { kind, left, right, on } => {
                let left = writer.from(query, left)?;
                let right = writer.from(query, right)?;
                let on = on.as_ref().map(|on| writer.condition(on)).transpose()?;
                let kind = match kind {
                    Join::Inner if on.is_none() => "CROSS",
                    Join::Inner => "INNER",
                    Join::Left => "LEFT",
                    Join::Right => "RIGHT",
                    Join::Full => "FULL",
                };
                let on = on.or_else(|| (kind != "CROSS").then(|| "TRUE".to_owned()));
                let on = on.map(|on| format!(" ON {on}")).unwrap_or_default();
                Ok(format!("({left} {kind} JOIN {right}{on})"))
            }
        })
    }

    fn source(&mut self, query: &Query, at: usize) -> Result<String, Refusal> {
        let source = query.sources.get(at).ok_or_else(|| Refusal::new(Kind::Form, "FROM of this form"))?;
        let (sql, columns) = match source {
            Source::Table { id, columns } => {
                let column = |(number, column): (&usize, &crate::query::TableColumn)| {
                    let name = format!("c_{number}");
                    (*number, Value::column(name, column.typed, column.not_null))
                };
                (format!("t_{id}"), columns.iter().map(column).collect())
            }
            Source::Subquery(query) => {
                let written = self.query(query)?;
                self.level().sorted |= written.sorted;
                let columns = columns(&written);
                (format!("({})", written.sql), columns)
            }
            Source::With { name, up } => self.with_named(name, *up)?,
            Source::Join => return Err(Refusal::new(Kind::Form, "FROM of this form")),
        };
        let alias = self.alias('s');
        let sql = format!("{sql} AS {alias}");
        if let Some(place) = self.level().sources.get_mut(at) {
            *place = Some(Named { alias, columns });
        }
        Ok(sql)
    }

    fn with_named(&mut self, name: &str, up: usize) -> Result<(String, BTreeMap<usize, Value>), Refusal> {
        let level = self.levels.iter().rev().nth(up);
        let found = level.and_then(|level| level.with.iter().rev().find(|w| w.name == name));
        let found = found.ok_or_else(|| Refusal::new(Kind::Form, format!("the WITH query \"{name}\"")))?;
        let (named, sorted, cuts) = ((found.alias.clone(), found.columns.clone()), found.sorted, found.cuts);
        self.cuts += usize::from(cuts);
        self.level().sorted |= sorted;
        Ok(named)
    }

    fn set_operations(&mut self, query: &Query, set: &Set) -> Result<Written, Refusal> {
        self.deeper(|writer| match set {
            Set::Leaf(at) => match query.sources.get(*at) {
                Some(Source::Subquery(leaf)) => writer.query(leaf),
                _ => Err(Refusal::new(Kind::Form, "set operations of this form")),
            },
            Set::Operation { kind, all, left, right } => {
                if *all && *kind != "UNION" {
                    return Err(Refusal::new(Kind::SetOperation, format!("{kind} ALL")));
                }
                let left = writer.set_operations(query, left)?;
                let right = writer.set_operations(query, right)?;
                let (left, right) = writer.alike(left, right)?;
                let pairs = left.columns.iter().zip(&right.columns);
                let columns: Vec<_> = pairs.map(|(l, r)| either(l, r)).collect();
                if !*all {
                    for column in &columns {
                        check_key(column, kind)?;
                    }
                }
                let all = if *all { " ALL" } else { "" };
                let sql = format!("({}) {kind}{all} ({})", left.sql, right.sql);
                let sorted = left.sorted || right.sorted;
                Ok(Written { sql, columns: renumbered(columns), sorted })
            }
        })
    }

    /// Both sides with the same form of each column.
    fn alike(&mut self, left: Written, right: Written) -> Result<(Written, Written), Refusal> {
        if left.columns.len() != right.columns.len() {
            return Err(Refusal::new(Kind::Form, "set operations of this form"));
        }
        let pairs = left.columns.iter().zip(&right.columns);
        let exact: Vec<bool> = pairs.map(|(l, r)| l.of == Type::Numeric && l.form != r.form).collect();
        if !exact.contains(&true) {
            return Ok((left, right));
        }
        Ok((self.as_exact(left, &exact), self.as_exact(right, &exact)))
    }

    /// A query around another, with some columns as exact text.
    fn as_exact(&mut self, written: Written, exact: &[bool]) -> Written {
        let alias = self.alias('s');
        let mut columns = Vec::new();
        for (column, exact) in written.columns.iter().zip(exact) {
            let column = Value { sql: format!("{alias}.{}", column.sql), ..column.clone() };
            columns.push(match exact {
                true => Value::exact(column.to_exact()),
                false => column,
            });
        }
        let shown = columns.iter().zip(1..);
        let shown: Vec<_> = shown.map(|(c, n)| format!("{} AS o{n}", c.sql)).collect();
        Written {
            sql: format!("SELECT {} FROM ({}) AS {alias}", shown.join(", "), written.sql),
            columns: renumbered(columns),
            sorted: written.sorted,
        }
    }

    /// ORDER BY, LIMIT and OFFSET around a level, and only the columns of its result.
    fn ordered(&mut self, query: &Query, inner: Written) -> Result<Written, Refusal> {
        let junk = query.targets.iter().any(|target| target.junk);
        let limited = query.limit.is_some() || query.offset.is_some();
        if query.order.is_empty() && !limited && !junk {
            return Ok(inner);
        }
        if limited && query.order.is_empty() && inner.sorted {
            return Err(Refusal::new(Kind::SortedSubquery, "LIMIT or OFFSET without ORDER BY over a sorted subquery"));
        }
        self.cuts += usize::from(limited);
        let alias = self.alias('s');
        let shown = |at: &usize| query.targets.get(*at).is_none_or(|t| !t.junk);
        let outputs: Vec<usize> = (0..inner.columns.len()).filter(shown).collect();
        let list = outputs.iter().zip(1..);
        let mut list: Vec<_> = list.map(|(at, n)| format!("{alias}.o{} AS o{n}", at + 1)).collect();
        if list.is_empty() {
            list.push("1 AS o1".to_owned());
        }
        let mut sql = format!("SELECT {} FROM ({}) AS {alias}", list.join(", "), inner.sql);
        let mut keys = Vec::new();
        for order in &query.order {
            let column =
                inner.columns.get(order.target).ok_or_else(|| Refusal::new(Kind::Form, "ORDER BY of this form"))?;
            let column = Value { sql: format!("{alias}.{}", column.sql), ..column.clone() };
            keys.push(sorted(&column, order)?);
        }
        if !keys.is_empty() {
            sql += &format!(" ORDER BY {}", keys.join(", "));
        }
        if let Some(limit) = query.limit {
            sql += &format!(" LIMIT {limit}");
        }
        if let Some(offset) = query.offset {
            sql += &format!(" OFFSET {offset}");
        }
        let columns = outputs.iter().map(|at| inner.columns[*at].clone());
        let sorted = inner.sorted || !query.order.is_empty();
        Ok(Written { sql, columns: renumbered(columns.collect()), sorted })
    }
}

/// An element of ORDER BY.
pub(super) fn sorted(value: &Value, order: &Order) -> Result<String, Refusal> {
    let key = order_key(value, order.collation.as_deref())?;
    let direction = if order.descending { "DESC" } else { "ASC" };
    let nulls = if order.nulls_first { "FIRST" } else { "LAST" };
    Ok(format!("{key} {direction} NULLS {nulls}"))
}

/// An expression that the worker orders as PostgreSQL orders the value.
pub(super) fn order_key(value: &Value, collation: Option<&str>) -> Result<String, Refusal> {
    if let (Type::Text | Type::Bpchar, Some(collation)) = (value.of, collation) {
        return Err(order_of_text(collation));
    }
    Ok(match (value.of, &value.form) {
        (of, _) if of.is_float() => format!("pg_float_order({})", value.sql),
        (Type::Bpchar, _) => format!("pg_bpchar_key({})", value.sql),
        (Type::Numeric, Form::Exact) => format!("pg_num_key({})", value.sql),
        _ => value.sql.clone(),
    })
}

pub(super) fn order_of_text(collation: &str) -> Refusal {
    Refusal::new(Kind::TextOrder, format!("the order of texts by collation \"{collation}\""))
}

/// A value that leaves its query: as one column.
pub(super) fn exported(value: Value) -> Value {
    match value.form {
        Form::Mixed(..) => Value { not_null: value.not_null, ..Value::exact(value.to_exact()) },
        _ => Value { constant: None, ..value },
    }
}

/// The columns of a result, as others name them.
fn renumbered(columns: Vec<Value>) -> Vec<Value> {
    let named = columns.into_iter().zip(1..);
    named.map(|(column, n)| Value { sql: format!("o{n}"), ..column }).collect()
}

fn columns(written: &Written) -> BTreeMap<usize, Value> {
    (1..).zip(written.columns.iter().cloned()).collect()
}

/// The facts that hold of a column of both sides.
fn either(left: &Value, right: &Value) -> Value {
    Value {
        width: left.width.filter(|_| left.width == right.width),
        not_null: left.not_null && right.not_null,
        ..left.clone()
    }
}

fn has_outer_join(from: &From) -> bool {
    match from {
        From::Source(_) => false,
        From::Join { kind, left, right, .. } => *kind != Join::Inner || has_outer_join(left) || has_outer_join(right),
    }
}
