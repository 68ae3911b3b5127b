//! Written expressions.
use crate::query::Typed;
use crate::types::{width, Type, DIGITS_MAX};

/// How the worker holds a number of type numeric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Every value has this many digits behind the point.
    Decimal(u8),
    /// The same, but of these digits a value shows as many as the second expression says.
    Mixed(u8, String),
    /// PostgreSQL's own text of the number.
    Exact,
}

/// A written expression.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub sql: String,
    pub of: Type,
    /// Of numeric alone.
    pub form: Form,
    /// Of char(n): n, when every value is padded to it.
    pub width: Option<usize>,
    /// It is never NULL.
    pub not_null: bool,
    /// The text of a constant; `Some(None)` is NULL.
    pub constant: Option<Option<String>>,
    /// Of a number: digits before the point that it has at most; None: not known.
    pub before: Option<u8>,
}

impl Value {
    pub fn new(sql: impl Into<String>, of: Type) -> Value {
        Value {
            sql: sql.into(),
            of,
            form: Form::Decimal(0),
            width: None,
            not_null: false,
            constant: None,
            before: None,
        }
    }

    pub fn decimal(sql: impl Into<String>, scale: u8) -> Value {
        Value { form: Form::Decimal(scale), ..Value::new(sql, Type::Numeric) }
    }

    pub fn exact(sql: impl Into<String>) -> Value {
        Value { form: Form::Exact, ..Value::new(sql, Type::Numeric) }
    }

    /// A column of a table.
    pub fn column(sql: String, typed: Typed, not_null: bool) -> Value {
        let numeric = crate::types::numeric_modifier(typed.typmod);
        Value {
            form: Form::Decimal(numeric.map_or(0, |(_, scale)| scale)),
            before: numeric.map(|(precision, scale)| precision.saturating_sub(scale)),
            width: width(typed.typmod).filter(|_| typed.of == Type::Bpchar),
            not_null,
            ..Value::new(sql, typed.of)
        }
    }

    pub fn is_null(&self) -> bool {
        self.constant == Some(None)
    }

    /// The number as PostgreSQL's text.
    pub fn to_exact(&self) -> String {
        match (&self.constant, &self.form) {
            (Some(Some(text)), _) => quoted(text),
            (Some(None), _) => "CAST(NULL AS VARCHAR)".to_owned(),
            (None, Form::Decimal(_)) => format!("pg_num({})", self.sql),
            (None, Form::Mixed(_, digits)) => {
                format!("pg_num({}, CAST({digits} AS INT))", self.sql)
            }
            (None, Form::Exact) => self.sql.clone(),
        }
    }

    /// The same value with at least so many digits.
    pub fn to_scale(&self, scale: u8) -> String {
        let written = match &self.constant {
            Some(Some(text)) => quoted(text),
            Some(None) => "NULL".to_owned(),
            None => self.sql.clone(),
        };
        match self.form {
            Form::Decimal(of) | Form::Mixed(of, _) if of == scale && !self.is_null() => self.sql.clone(),
            _ => format!("CAST({written} AS DECIMAL(38,{scale}))"),
        }
    }

    /// Digits behind the point that a value shows, as SQL.
    pub fn digits(&self) -> String {
        match &self.form {
            Form::Decimal(scale) => scale.to_string(),
            Form::Mixed(_, digits) => digits.clone(),
            Form::Exact => "0".to_owned(),
        }
    }

    /// Whether the worker can compare the number with another one, at the scale of the finer one.
    pub fn compares_with(&self, other: &Value) -> bool {
        let scale = self.scale().max(other.scale());
        let fits = |of: &Value| of.before.unwrap_or(DIGITS_MAX.saturating_sub(of.scale())) + scale <= DIGITS_MAX;
        fits(self) && fits(other)
    }

    /// The number of digits that every value has room for.
    pub fn scale(&self) -> u8 {
        match self.form {
            Form::Decimal(scale) | Form::Mixed(scale, _) => scale,
            Form::Exact => 0,
        }
    }
}

/// A text as a literal.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
