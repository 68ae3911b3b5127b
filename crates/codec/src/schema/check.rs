//! CHECK constraints in schema text 2 (spec/engines.md, "Checks").

use crate::{decode_value, hex, Value};

/// A condition on one row. It holds, or does not, or is NULL, as in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Whether a column is NULL.
    Null {
        /// Unquoted.
        column: String,
        /// False: whether it is not.
        is: bool,
    },
    /// A comparison.
    Compare {
        /// Unquoted, on the left.
        column: String,
        /// Between both.
        operator: Operator,
        /// On the right.
        with: Operand,
    },
    /// All of them, in any order.
    All(Vec<Check>),
    /// One of them, in any order.
    Any(Vec<Check>),
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Encoded, of the column's type.
    Value(Vec<u8>),
    /// Unquoted.
    Column(String),
}

/// An operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<>`
    Differs,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

use Operator::{AtLeast, AtMost, Differs, Equal, Greater, Less};

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 6] = [Equal, Differs, Less, AtMost, Greater, AtLeast];

    /// As it is written.
    pub const fn sign(self) -> &'static str {
        match self {
            Equal => "=",
            Differs => "<>",
            Less => "<",
            AtMost => "<=",
            Greater => ">",
            AtLeast => ">=",
        }
    }

    const fn negated(self) -> Self {
        match self {
            Equal => Differs,
            Differs => Equal,
            Less => AtLeast,
            AtMost => Greater,
            Greater => AtMost,
            AtLeast => Less,
        }
    }

    /// The same with both sides exchanged.
    pub const fn turned(self) -> Self {
        match self {
            Less => Greater,
            AtMost => AtLeast,
            Greater => Less,
            AtLeast => AtMost,
            Equal | Differs => self,
        }
    }
}

impl Check {
    /// Holds where this does not, and is NULL where this is.
    #[must_use]
    pub fn negated(self) -> Self {
        let all = |parts: Vec<Check>| parts.into_iter().map(Check::negated).collect();
        match self {
            Check::Null { column, is } => Check::Null { column, is: !is },
            Check::Compare { column, operator, with } => Check::Compare { column, operator: operator.negated(), with },
            Check::All(parts) => Check::Any(all(parts)),
            Check::Any(parts) => Check::All(all(parts)),
        }
    }

    /// The one form of checks that are written otherwise. No word stands in the same word, parts
    /// are in order and each once, the lesser of two columns is on the left, and a boolean has no
    /// `<>`.
    pub(super) fn settled(self) -> Self {
        let (parts, all) = match self {
            Check::Null { .. } => return self,
            Check::Compare { column, operator, with } => return settled_test(column, operator, with),
            Check::All(parts) => (parts, true),
            Check::Any(parts) => (parts, false),
        };
        let mut flat = Vec::new();
        for part in parts {
            match (part.settled(), all) {
                (Check::All(inner), true) | (Check::Any(inner), false) => flat.extend(inner),
                (other, _) => flat.push(other),
            }
        }
        flat.sort_by_cached_key(Check::words);
        flat.dedup();
        match (flat.len(), all) {
            (1, _) => flat.swap_remove(0),
            (_, true) => Check::All(flat),
            (_, false) => Check::Any(flat),
        }
    }

    pub(super) fn words(&self) -> String {
        let joined = |parts: &[Check], by: &str| {
            let parts: Vec<_> = parts.iter().map(Check::words).collect();
            format!("({})", parts.join(by))
        };
        match self {
            Check::Null { column, is: true } => format!("({column} is null)"),
            Check::Null { column, is: false } => format!("({column} is not null)"),
            Check::Compare { column, operator, with } => {
                let with = match with {
                    Operand::Value(value) => &hex(value),
                    Operand::Column(other) => other,
                };
                format!("({column} {} {with})", operator.sign())
            }
            Check::All(parts) => joined(parts, " and "),
            Check::Any(parts) => joined(parts, " or "),
        }
    }
}

fn settled_test(column: String, operator: Operator, with: Operand) -> Check {
    match (decoded(&with), with) {
        (Some(Value::Bool(value)), _) if operator == Differs => {
            let mut other = Vec::new();
            crate::value::bool(&mut other, !value);
            Check::Compare { column, operator: Equal, with: Operand::Value(other) }
        }
        (_, Operand::Column(lesser)) if lesser < column => {
            Check::Compare { column: lesser, operator: operator.turned(), with: Operand::Column(column) }
        }
        (_, with) => Check::Compare { column, operator, with },
    }
}

fn decoded(operand: &Operand) -> Option<Value> {
    match operand {
        Operand::Value(value) => decode_value(value).ok(),
        Operand::Column(_) => None,
    }
}
