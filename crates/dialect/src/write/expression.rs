//! Expressions other than calls.
use super::call::check_order;
use super::numeric::unify;
use super::value::{Form, Value};
use super::Writer;
use crate::query::{Expr, Typed};
use crate::types::Type;
use crate::{Kind, Refusal};

impl Writer {
    /// An expression of which NULL counts as FALSE.
    pub(super) fn condition(&mut self, expr: &Expr) -> Result<String, Refusal> {
        self.deeper(|writer| match expr {
            Expr::And(parts) => writer.joined(parts, " AND ", Self::condition),
            Expr::Or(parts) => writer.joined(parts, " OR ", Self::condition),
            Expr::In(test, query) => writer.is_in(test, query),
            Expr::Not(inner) => match &**inner {
                Expr::In(test, query) => writer.is_not_in(test, query),
                _ => Ok(writer.value(expr)?.sql),
            },
            _ => Ok(writer.value(expr)?.sql),
        })
    }

    fn joined(
        &mut self,
        parts: &[Expr],
        by: &str,
        write: impl Fn(&mut Self, &Expr) -> Result<String, Refusal>,
    ) -> Result<String, Refusal> {
        let mut written = Vec::new();
        for part in parts {
            written.push(write(self, part)?);
        }
        Ok(format!("({})", written.join(by)))
    }

    pub(super) fn value(&mut self, expr: &Expr) -> Result<Value, Refusal> {
        let value = self.deeper(|writer| writer.value_of(expr))?;
        self.check_size(&value.sql)?;
        Ok(value)
    }

    fn value_of(&mut self, expr: &Expr) -> Result<Value, Refusal> {
        let of_values = |writer: &mut Self, e: &Expr| Ok(writer.value(e)?.sql);
        let bool = |sql: String| Value::new(sql, Type::Bool);
        Ok(match expr {
            Expr::Column { up, source, number, name } => self.column(*up, *source, *number, name)?,
            Expr::Constant { typed, text } => self.repeated(*typed, text.as_deref())?,
            Expr::Call { function, shown, args, typed, order, letters, at } => {
                let written = self.call(*function, shown, args, *typed, order.as_deref(), *letters);
                written.map_err(|refusal| refusal.at(*at))?
            }
            Expr::ToText(inner) => to_text(&self.value(inner)?)?,
            Expr::And(parts) => bool(self.joined(parts, " AND ", of_values)?),
            Expr::Or(parts) => bool(self.joined(parts, " OR ", of_values)?),
            Expr::Not(inner) => bool(format!("(NOT {})", self.value(inner)?.sql)),
            Expr::IsNull(inner, is) => {
                let not = if *is { "" } else { "NOT " };
                let value = bool(format!("({} IS {not}NULL)", self.value(inner)?.sql));
                Value { not_null: true, ..value }
            }
            Expr::IsTrue(inner, test) => {
                let value = bool(format!("({} IS {test})", self.value(inner)?.sql));
                Value { not_null: true, ..value }
            }
            Expr::Case { when, otherwise, typed } => self.case(when, otherwise.as_deref(), *typed)?,
            Expr::Coalesce(parts, typed) => self.coalesce(parts, *typed)?,
            Expr::Extreme(greatest, parts, order) => self.extreme(*greatest, parts, order.as_deref())?,
            Expr::NullIf(equality) => self.null_if(equality)?,
            Expr::Distinct(equality) => self.is_distinct(equality)?,
            Expr::List { elements, any } => self.list(elements, *any)?,
            Expr::Aggregate { at, function, .. } => {
                let written = self.aggregate(expr, *function);
                written.map_err(|refusal| refusal.at(*at))?
            }
            Expr::Exists(query) => self.exists(query)?,
            Expr::In(..) => return Err(Refusal::new(Kind::InOutside, "IN (SELECT …) outside of a condition")),
            Expr::RowOfSubquery => {
                self.level().row_of_subquery.clone().ok_or_else(|| Refusal::new(Kind::Subquery, "IN of this form"))?
            }
            Expr::Scalar(query) => self.scalar(query)?,
        })
    }

    fn column(&mut self, up: usize, source: usize, number: usize, name: &str) -> Result<Value, Refusal> {
        let level = self.levels.iter().rev().nth(up);
        let named = level.and_then(|level| level.sources.get(source)?.as_ref());
        let found = named.and_then(|named| Some((&named.alias, named.columns.get(&number)?)));
        let Some((alias, column)) = found else {
            return Err(Refusal::new(Kind::Form, format!("the column \"{name}\"")));
        };
        let value = Value {
            sql: format!("{alias}.{}", column.sql),
            not_null: column.not_null && level.is_some_and(|level| !level.outer_join),
            ..column.clone()
        };
        for inside in self.levels.iter_mut().rev().take(up) {
            if !inside.in_place {
                let what = format!("the column \"{name}\" of a query around a subquery of this form");
                return Err(Refusal::new(Kind::Correlated, what));
            }
            inside.correlated = true;
        }
        Ok(value)
    }

    fn case(&mut self, when: &[(Expr, Expr)], otherwise: Option<&Expr>, typed: Typed) -> Result<Value, Refusal> {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for (condition, value) in when {
            conditions.push(self.condition(condition)?);
            values.push(self.value(value)?);
        }
        let default = match otherwise {
            Some(value) => self.value(value)?,
            None => self.constant(typed, None)?,
        };
        let of_parts = |parts: &[String], default: &str| {
            let parts = conditions.iter().zip(parts);
            let parts: Vec<_> = parts.map(|(c, v)| format!("WHEN {c} THEN {v}")).collect();
            format!("(CASE {} ELSE {default} END)", parts.join(" "))
        };
        values.push(default);
        Ok(guarded(&values, typed.of, |parts| {
            let (default, parts) = parts.split_last().expect("there is a default");
            of_parts(parts, default)
        }))
    }

    fn coalesce(&mut self, parts: &[Expr], typed: Typed) -> Result<Value, Refusal> {
        let mut values = Vec::new();
        for part in parts {
            values.push(self.value(part)?);
        }
        let tests: Vec<_> = values.iter().map(|v| v.sql.clone()).collect();
        let not_null = values.iter().any(|v| v.not_null);
        let unified = unify(&values, typed.of, |parts| {
            // The digits of the value that is taken; the values themselves the same way.
            let parts: Vec<_> = tests.iter().zip(parts).collect();
            match parts.iter().all(|(test, part)| test == part) {
                true => format!("coalesce({})", tests.join(", ")),
                false => {
                    let (last, before) = parts.split_last().expect("COALESCE has arguments");
                    let when = before.iter();
                    let when: Vec<_> =
                        when.map(|(test, part)| format!("WHEN {test} IS NOT NULL THEN {part}")).collect();
                    format!("(CASE {} ELSE {} END)", when.join(" "), last.1)
                }
            }
        });
        Ok(Value { not_null, ..unified })
    }

    fn extreme(&mut self, greatest: bool, parts: &[Expr], order: Option<&str>) -> Result<Value, Refusal> {
        let mut values = Vec::new();
        for part in parts {
            let value = self.value(part)?;
            check_order(&value, order)?;
            values.push(value);
        }
        let name = if greatest { "greatest" } else { "least" };
        let first = values.first().cloned();
        let first = first.ok_or_else(|| Refusal::new(Kind::Extreme, name.to_uppercase()))?;
        let alike = values.iter().all(|v| v.form == first.form);
        let plain = !first.of.is_float() && first.of != Type::Bpchar;
        if !alike || !plain || !matches!(first.form, Form::Decimal(_)) {
            let what = format!("{} of these types", name.to_uppercase());
            return Err(Refusal::new(Kind::Extreme, what));
        }
        let list: Vec<_> = values.iter().map(|v| v.sql.clone()).collect();
        Ok(Value {
            sql: format!("{name}({})", list.join(", ")),
            not_null: values.iter().any(|v| v.not_null),
            constant: None,
            before: None,
            ..first
        })
    }

    fn null_if(&mut self, equality: &Expr) -> Result<Value, Refusal> {
        let Expr::Call { args, .. } = equality else {
            return Err(Refusal::new(Kind::Form, "NULLIF of this form"));
        };
        let first = args.first().ok_or_else(|| Refusal::new(Kind::Form, "NULLIF"))?;
        let (test, first) = (self.value(equality)?.sql, self.value(first)?);
        let null = self.constant(Typed { of: first.of, typmod: -1 }, None)?;
        // NULL = NULL is not true, and then the first is NULL as well.
        Ok(unify(&[null, first], equality_type(args), |parts| {
            format!("(CASE WHEN {test} THEN {} ELSE {} END)", parts[0], parts[1])
        }))
    }

    fn is_distinct(&mut self, equality: &Expr) -> Result<Value, Refusal> {
        let Expr::Call { args, .. } = equality else {
            return Err(Refusal::new(Kind::Form, "IS DISTINCT FROM of this form"));
        };
        let test = self.value(equality)?.sql;
        let [left, right] = args.as_slice() else {
            return Err(Refusal::new(Kind::Form, "IS DISTINCT FROM of this form"));
        };
        let (left, right) = (self.value(left)?.sql, self.value(right)?.sql);
        let sql = format!(
            "(CASE WHEN {left} IS NULL THEN {right} IS NOT NULL WHEN {right} IS NULL THEN TRUE ELSE NOT {test} END)"
        );
        Ok(Value { not_null: true, ..Value::new(sql, Type::Bool) })
    }

    fn list(&mut self, elements: &[Expr], any: bool) -> Result<Value, Refusal> {
        if elements.is_empty() {
            let sql = if any { "FALSE" } else { "TRUE" };
            return Ok(Value::new(sql, Type::Bool));
        }
        let mut written = Vec::new();
        for element in elements {
            written.push(self.value(element)?.sql);
        }
        let left = match elements.first() {
            Some(Expr::Call { args, .. }) => args.first(),
            _ => None,
        };
        let left = left.map(|left| self.value(left)).transpose()?;
        let rights = left.as_ref().and_then(|left| {
            let operator = if any { "=" } else { "<>" };
            let before = format!("({} {operator} ", left.sql);
            let right = |test: &String| Some(test.strip_prefix(&before)?.strip_suffix(')')?.to_owned());
            written.iter().map(right).collect::<Option<Vec<_>>>()
        });
        let sql = match (left, rights) {
            (Some(left), Some(rights)) => {
                let not = if any { "" } else { "NOT " };
                format!("({} {not}IN ({}))", left.sql, rights.join(", "))
            }
            _ => format!("({})", written.join(if any { " OR " } else { " AND " })),
        };
        Ok(Value::new(sql, Type::Bool))
    }
}

/// A CASE of these values, which `write` puts together. The worker makes conditions of a CASE of
/// booleans, and of one that is compared, and evaluates all parts of conditions. So booleans go
/// through it as numbers, and nothing sees that another value comes of a CASE.
pub(super) fn guarded(values: &[Value], of: Type, write: impl Fn(&[String]) -> String) -> Value {
    if of != Type::Bool {
        return unify(values, of, |parts| format!("pg_case({})", write(parts)));
    }
    unify(values, of, |parts| {
        let codes: Vec<_> = parts.iter().map(|part| format!("pg_code({part})")).collect();
        format!("pg_truth({})", write(&codes))
    })
}

fn to_text(value: &Value) -> Result<Value, Refusal> {
    let sql = match value.of {
        Type::Text => value.sql.clone(),
        Type::Numeric => value.to_exact(),
        of if of.is_integer() || of == Type::Uuid => format!("pg_text({})", value.sql),
        _ => return Err(Refusal::new(Kind::Cast, "a cast of this type to text")),
    };
    Ok(Value { not_null: value.not_null, ..Value::new(sql, Type::Text) })
}

fn equality_type(args: &[Expr]) -> Type {
    match args.first() {
        Some(Expr::Constant { typed, .. } | Expr::Call { typed, .. }) => typed.of,
        _ => Type::Numeric,
    }
}
