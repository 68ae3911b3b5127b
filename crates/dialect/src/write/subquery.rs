//! Subqueries in expressions.
use super::level::exported;
use super::value::Value;
use super::{Writer, Written};
use crate::query::{Expr, Query};
use crate::types::Type;
use crate::{Kind, Refusal};

impl Writer {
    pub(super) fn exists(&mut self, query: &Query) -> Result<Value, Refusal> {
        // The columns and their order tell nothing of whether there is a row.
        let some = query.offset.is_none() && query.limit != Some(0);
        let sql = match is_plain(query) && some {
            true => format!("SELECT 1 {}", self.plain(query)?.0),
            // An aggregate without a group has a row of no rows, and the worker's join none.
            false if is_in_place(query) && (!query.group.is_empty() || !is_aggregated(query)) => {
                self.query_in_place(query)?.sql
            }
            false => self.query(query)?.sql,
        };
        Ok(Value { not_null: true, ..Value::new(format!("EXISTS ({sql})"), Type::Bool) })
    }

    /// `test` for some row of the query, where NULL counts as FALSE.
    pub(super) fn is_in(&mut self, test: &Expr, query: &Query) -> Result<String, Refusal> {
        Ok(format!("EXISTS ({})", self.rows_that_pass(test, query, false)?))
    }

    /// The negation, where NULL counts as FALSE: no row passes, and none could.
    pub(super) fn is_not_in(&mut self, test: &Expr, query: &Query) -> Result<String, Refusal> {
        Ok(format!("NOT EXISTS ({})", self.rows_that_pass(test, query, true)?))
    }

    /// The rows of a query for which an equality holds; `or_null`: or might hold.
    fn rows_that_pass(&mut self, test: &Expr, query: &Query, or_null: bool) -> Result<String, Refusal> {
        let of_this_form = || Refusal::new(Kind::Subquery, "IN of this form");
        let (rows, column) = match is_plain(query) && query.limit.is_none() && query.offset.is_none() {
            true => {
                let (rows, column) = self.plain(query)?;
                (rows, column.ok_or_else(of_this_form)?)
            }
            false => {
                let written = self.query(query)?;
                let alias = self.alias('s');
                let column = written.columns.into_iter().next().ok_or_else(of_this_form)?;
                let column = Value { sql: format!("{alias}.{}", column.sql), ..column };
                (format!("FROM ({}) AS {alias} WHERE TRUE", written.sql), column)
            }
        };
        let outside = self.level().row_of_subquery.replace(column);
        let passes = self.test_of_row(test);
        self.level().row_of_subquery = outside;
        let (passes, operands) = passes?;
        let nulls = operands.iter().filter(|o| !o.not_null);
        let nulls: Vec<_> = nulls.map(|o| format!("{} IS NULL", o.sql)).collect();
        let condition = match or_null && !nulls.is_empty() {
            true => format!("({passes} OR {})", nulls.join(" OR ")),
            false => passes,
        };
        Ok(format!("SELECT 1 {rows} AND {condition}"))
    }

    /// A plain query's rows as `FROM … WHERE …`, and its first column. The worker knows conditions
    /// on the queries around only there, and not inside of a derived table.
    fn plain(&mut self, query: &Query) -> Result<(String, Option<Value>), Refusal> {
        self.within_level(query, true, |writer| {
            let (from, condition) = writer.sources_and_condition(query)?;
            let target = query.targets.iter().find(|target| !target.junk);
            let column = target.map(|target| writer.value(&target.expr)).transpose()?;
            let condition = condition.unwrap_or_else(|| "TRUE".into());
            Ok((format!("FROM {from} WHERE {condition}"), column.map(exported)))
        })
    }

    /// The test as SQL, and its two operands.
    fn test_of_row(&mut self, test: &Expr) -> Result<(String, Vec<Value>), Refusal> {
        let Expr::Call { args, .. } = test else {
            return Err(Refusal::new(Kind::Subquery, "IN of this form"));
        };
        let mut operands = Vec::new();
        for arg in args {
            operands.push(self.value(arg)?);
        }
        Ok((self.value(test)?.sql, operands))
    }

    /// A query of one column in place of a value.
    pub(super) fn scalar(&mut self, query: &Query) -> Result<Value, Refusal> {
        let one_row = query.aggregates
            && query.group.is_empty()
            && query.having.is_none()
            && query.set.is_none()
            && query.limit.is_none()
            && query.offset.is_none();
        let plain = is_plain(query) && query.limit.is_none() && query.offset.is_none();
        if plain {
            let (rows, column) = self.plain(query)?;
            let column = column.ok_or_else(|| Refusal::new(Kind::Subquery, "a subquery without a column"))?;
            let sql = format!("(SELECT pg_single({}) AS o1 {rows})", column.sql);
            return Ok(Value { sql, not_null: false, constant: None, ..column });
        }
        if one_row && (query.distinct || !query.order.is_empty()) {
            return self.scalar(&the_row_alone(query));
        }
        let Written { sql, columns, .. } = match one_row && is_in_place(query) {
            true => self.query_in_place(query)?,
            false => self.query(query)?,
        };
        let Some(column) = columns.into_iter().next() else {
            return Err(Refusal::new(Kind::Subquery, "a subquery without a column"));
        };
        let sql = match one_row {
            true => format!("({sql})"),
            false => {
                let alias = self.alias('s');
                format!("(SELECT pg_single({alias}.o1) AS o1 FROM ({sql}) AS {alias})")
            }
        };
        Ok(Value { sql, not_null: false, ..column })
    }
}

fn is_aggregated(query: &Query) -> bool {
    query.aggregates || query.having.is_some()
}

/// Whether a query is written as one SELECT, whose conditions the worker can make those of a join.
fn is_in_place(query: &Query) -> bool {
    query.with.is_empty()
        && query.windows.is_empty()
        && query.set.is_none()
        && query.limit.is_none()
        && query.offset.is_none()
        && query.order.is_empty()
        && !query.targets.iter().any(|target| target.junk)
}

/// A query of one row, without the clauses that change nothing of one row.
fn the_row_alone(query: &Query) -> Query {
    let mut query = query.clone();
    (query.distinct, query.order) = (false, Vec::new());
    if query.windows.is_empty() {
        query.targets.retain(|target| !target.junk);
    }
    query
}

/// Whether a query is rows of tables under a condition, and nothing is made of them together.
fn is_plain(query: &Query) -> bool {
    !query.from.is_empty()
        && query.with.is_empty()
        && query.windows.is_empty()
        && query.group.is_empty()
        && query.having.is_none()
        && query.set.is_none()
        && !query.aggregates
        && !query.distinct
}
