//! CHECK constraints in schema text 2 (spec/engines.md, "Checks").

use super::{arguments, column_of, logical_tag, undescribed, Column, OnDelete, Result, Table};
use crate::{decode_value, hex, Tag, Value};

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

const LINE_BYTES_MAX: usize = 8_192;
const DEPTH_MAX: usize = 16;

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
    fn settled(self) -> Self {
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

    fn words(&self) -> String {
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

    /// Refuses tests whose outcome could differ between engines.
    fn examine(&self, table: &Table, depth: usize) -> Result {
        match self {
            _ if depth > DEPTH_MAX => undescribed(format!("a check of more than {DEPTH_MAX} levels")),
            Check::Null { column, .. } => tested(table, column).map(|_| ()),
            Check::Compare { column, operator, with } => compare(tested(table, column)?, *operator, with, table),
            Check::All(parts) | Check::Any(parts) if parts.is_empty() => undescribed("a check without a test".into()),
            Check::All(parts) | Check::Any(parts) => parts.iter().try_for_each(|part| part.examine(table, depth + 1)),
        }
    }
}

/// The line of a check. Cost: its words times its depth.
pub(super) fn line(table: &Table, check: &Check) -> Result<String> {
    let check = check.clone().settled();
    check.examine(table, 0)?;
    let line = format!("check {}", check.words());
    match line.len() {
        0..=LINE_BYTES_MAX => Ok(line),
        bytes => undescribed(format!("a check of {bytes} bytes in the schema text, at most {LINE_BYTES_MAX}")),
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

fn tested<'t>(table: &'t Table, name: &str) -> Result<&'t Column> {
    // MariaDB takes no check of a column that a foreign key changes.
    let set_null = table.foreign_keys.iter().filter(|key| key.on_delete == OnDelete::SetNull);
    if set_null.flat_map(|key| &key.columns).any(|column| column == name) {
        return undescribed(format!("a check of column {name}, which a foreign key sets NULL"));
    }
    match column_of(table, name) {
        Some(column) => Ok(column),
        None => undescribed(format!("a check of column {name}, which is not there")),
    }
}

fn compare(column: &Column, operator: Operator, with: &Operand, table: &Table) -> Result {
    let Column { name, logical, .. } = column;
    let tag = logical_tag(logical);
    if tag == Some(Tag::Json) || tag == Some(Tag::Uuid) && !matches!(operator, Equal | Differs) {
        return undescribed(format!("a check that compares column {name} of type {logical} by {}", operator.sign()));
    }
    let comparable = match with {
        Operand::Column(other) => logical_tag(&tested(table, other)?.logical) == tag,
        Operand::Value(value) => {
            value.first().copied() == tag.map(|tag| tag as u8)
                && decode_value(value).is_ok_and(|value| is_comparable(logical, &value))
        }
    };
    match comparable {
        true => Ok(()),
        false => undescribed(format!("a check that compares column {name} of type {logical} with another type, or a value that engines do not share")),
    }
}

/// Days and microseconds from 0001-01-01 to before 10000-01-01.
const DAYS: std::ops::Range<i64> = -719_162..2_932_897;
const DAY_MICROS: i64 = 86_400_000_000;

/// Whether every engine compares a column with all of a value.
fn is_comparable(logical: &str, value: &Value) -> bool {
    match value {
        Value::Numeric(text) => compares_digits(logical, text),
        Value::Float(value) => value.is_finite(),
        // MariaDB's catalogue shows other characters as question marks.
        Value::Text(text) => !text.chars().any(|char| matches!(char, '\0' | '?' | '\u{10000}'..)),
        Value::Date(days) => DAYS.contains(days),
        Value::Timestamp(micros) | Value::TimestampTz(micros) => DAYS.contains(&micros.div_euclid(DAY_MICROS)),
        _ => true,
    }
}

/// MariaDB computes with so many words of so many digits, each on one side of the point, and drops
/// digits behind. A number beyond the column is decided by the digits before the point.
const DECIMAL_WORDS: usize = 9;
const WORD_DIGITS: usize = 9;

fn compares_digits(logical: &str, text: &str) -> bool {
    if text.contains(['N', 'I']) {
        return false; // NaN and infinity
    }
    let text = text.trim_start_matches('-');
    let (integer, fraction) = text.split_once('.').unwrap_or((text, ""));
    let integer = integer.trim_start_matches('0').len();
    let held = integer.max(1).div_ceil(WORD_DIGITS) + fraction.len().div_ceil(WORD_DIGITS) <= DECIMAL_WORDS;
    let before = match arguments(logical, "numeric")[..] {
        [precision, scale] => (precision - scale) as usize,
        _ => 0,
    };
    integer > before || held
}
