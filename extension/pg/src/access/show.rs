//! Templates and relations as text, for people.
use std::ffi::CStr;

use chainify_sched::template::{Access, KeyLimits, Limit, Operand, Template};
use chainify_sched::value::Value;
use chainify_sched::{KeyId, Target};
use pgrx::pg_sys;

use crate::access::relation::{facts, Key};
use crate::base::catalog::{display_name, schema_name, schema_of};

/// One access of a template.
pub struct Shown {
    /// `read` or `write`; `everything`.
    pub access: &'static str,
    /// With its schema; empty for everything.
    pub relation: String,
    /// `rows`, or `key (a, b)`.
    pub target: String,
    /// `all`, or conditions; why it is everything.
    pub place: String,
}

/// Shows a template, a row for each access. Relations it names must exist.
pub fn show(template: &Template) -> Vec<Shown> {
    if let Some(reason) = template.everything() {
        return vec![Shown {
            access: "everything",
            relation: String::new(),
            target: String::new(),
            place: reason.to_owned(),
        }];
    }
    template.accesses().iter().map(access).collect()
}

/// Name of a relation with its schema.
pub fn relation_name(relation: u32) -> String {
    let oid = pg_sys::Oid::from(relation);
    match schema_name(schema_of(oid)) {
        Some(schema) => format!("{schema}.{}", display_name(oid)),
        None => display_name(oid),
    }
}

/// Columns of a key as `(a, b)`; its number when there is none any more.
pub(crate) fn key_name(relation: u32, key: KeyId) -> String {
    let facts = facts(relation.into());
    match facts.keys.get(usize::from(key)) {
        Some(key) => format!("({})", names(relation, key).join(", ")),
        None => key.to_string(),
    }
}

fn names(relation: u32, key: &Key) -> Vec<String> {
    let name = |column: &(i16, _)| match column.0 {
        0 => String::from("expression"),
        // SAFETY: a catalog look-up; null for a column that is gone, else a fresh C string.
        number => unsafe {
            let name = pg_sys::get_attname(relation.into(), number, true);
            if name.is_null() {
                return number.to_string();
            }
            CStr::from_ptr(name).to_string_lossy().into_owned()
        },
    };
    key.columns.iter().map(name).collect()
}

fn access(access: &Access) -> Shown {
    let relation = access.target.relation();
    let places: Vec<String> = access
        .limits
        .iter()
        .map(|limits| conditions(relation, limits))
        .collect();
    Shown {
        access: if access.write { "write" } else { "read" },
        relation: relation_name(relation),
        target: match access.target {
            Target::Rows(_) => String::from("rows"),
            Target::Keys(_, key) => format!("key {}", key_name(relation, key)),
        },
        place: if places.is_empty() {
            String::from("all")
        } else {
            places.join("; ")
        },
    }
}

fn conditions(relation: u32, limits: &KeyLimits) -> String {
    let facts = facts(relation.into());
    let names = facts
        .keys
        .get(usize::from(limits.key))
        .map_or(Vec::new(), |key| names(relation, key));
    let columns = names.iter().zip(&limits.columns);
    let all = columns
        .flat_map(|(name, (_, limits))| limits.iter().map(move |limit| condition(name, limit)));
    all.collect::<Vec<_>>().join(" and ")
}

fn condition(name: &str, limit: &Limit) -> String {
    let list = |operands: &[Operand]| match operands {
        [one] => operand(one),
        several => format!(
            "any({})",
            several.iter().map(operand).collect::<Vec<_>>().join(", ")
        ),
    };
    match limit {
        Limit::Equal(operands) => format!("{name} = {}", list(operands)),
        Limit::Is(operands) => format!("{name} is {}", list(operands)),
        Limit::Element(array, false) => format!("{name} = any({})", operand(array)),
        Limit::Element(array, true) => format!("{name} is any({}) or NULL", operand(array)),
        Limit::Lower(value, true) => format!("{name} >= {}", operand(value)),
        Limit::Lower(value, false) => format!("{name} > {}", operand(value)),
        Limit::Upper(value, true) => format!("{name} <= {}", operand(value)),
        Limit::Upper(value, false) => format!("{name} < {}", operand(value)),
    }
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Given(number) => format!("${}", number + 1),
        Operand::Fitted(inner, _) => self::operand(inner),
        Operand::At(array, number) => {
            format!("{}[{}]", self::operand(array), self::operand(number))
        }
        Operand::Constant(value) => constant(value),
    }
}

fn constant(value: &Value) -> String {
    match value {
        Value::Null => String::from("NULL"),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Decimal(value) => value.clone(),
        Value::Text(value) => format!("'{}'", String::from_utf8_lossy(value)),
        Value::Array(values) | Value::Elements(values) => {
            values.iter().map(constant).collect::<Vec<_>>().join(", ")
        }
        _ => String::from("a constant"),
    }
}
