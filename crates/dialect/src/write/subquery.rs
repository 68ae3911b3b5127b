//! Subqueries in expressions.
use super::value::Value;
use super::{Writer, Written};
use crate::query::{Expr, Query};
use crate::types::Type;
use crate::Refusal;

impl Writer {
    pub(super) fn exists(&mut self, query: &Query) -> Result<Value, Refusal> {
        let written = self.query(query)?;
        Ok(Value { not_null: true, ..Value::new(format!("EXISTS ({})", written.sql), Type::Bool) })
    }

    /// `test` for some row of the query, where NULL counts as FALSE.
    pub(super) fn is_in(&mut self, test: &Expr, query: &Query) -> Result<String, Refusal> {
        let (_, sql) = self.rows_that_pass(test, query, false)?;
        Ok(format!("EXISTS ({sql})"))
    }

    /// The negation, where NULL counts as FALSE: no row passes, and none could.
    pub(super) fn is_not_in(&mut self, test: &Expr, query: &Query) -> Result<String, Refusal> {
        let (_, sql) = self.rows_that_pass(test, query, true)?;
        Ok(format!("NOT EXISTS ({sql})"))
    }

    /// The rows of a query for which an equality holds; `or_null`: or might hold.
    fn rows_that_pass(&mut self, test: &Expr, query: &Query, or_null: bool) -> Result<(String, String), Refusal> {
        let written = self.query(query)?;
        let alias = self.alias('s');
        let Some(column) = written.columns.first().cloned() else {
            return Err(Refusal::new("IN of this form"));
        };
        let column = Value { sql: format!("{alias}.{}", column.sql), ..column };
        let outside = self.level().row_of_subquery.replace(column.clone());
        let passes = self.test_of_row(test);
        self.level().row_of_subquery = outside;
        let (passes, operands) = passes?;
        let nulls = operands.iter().filter(|o| !o.not_null);
        let nulls: Vec<_> = nulls.map(|o| format!("{} IS NULL", o.sql)).collect();
        let condition = match or_null && !nulls.is_empty() {
            true => format!("({passes} OR {})", nulls.join(" OR ")),
            false => passes,
        };
        let sql = format!("SELECT 1 AS o1 FROM ({}) AS {alias} WHERE {condition}", written.sql);
        Ok((alias, sql))
    }

    /// The test as SQL, and its two operands.
    fn test_of_row(&mut self, test: &Expr) -> Result<(String, Vec<Value>), Refusal> {
        let Expr::Call { args, .. } = test else {
            return Err(Refusal::new("IN of this form"));
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
        let Written { sql, columns } = self.query(query)?;
        let Some(column) = columns.into_iter().next() else {
            return Err(Refusal::new("a subquery without a column"));
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
