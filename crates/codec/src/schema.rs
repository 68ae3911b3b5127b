//! Schema text 2: the definition of a table in words that no database engine owns
//! (spec/engines.md, "Schema text 2").

use crate::{decode_value, hex, length_prefix, sha256, Hash, Tag, Value};

mod check;
pub use check::{Check, Operand, Operator};

/// A table to be described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// `schema.name`, unquoted.
    pub name: String,
    /// By ordinal, ascending.
    pub columns: Vec<Column>,
    /// In the order of the key.
    pub primary_key: Vec<String>,
    /// Other unique keys, in any order.
    pub unique: Vec<Vec<String>>,
    /// In any order.
    pub foreign_keys: Vec<ForeignKey>,
    /// In any order, but for those that belong to types.
    pub checks: Vec<Check>,
}

/// A column with its logical type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The ordinal belongs to this column for good (X9).
    pub ordinal: u16,
    /// Unquoted.
    pub name: String,
    /// `integer`, `numeric(10,2)`, `varchar(20)` …
    pub logical: String,
    /// Whether it refuses NULL.
    pub not_null: bool,
    /// The encoded value.
    pub default: Option<Vec<u8>>,
}

/// A foreign key. It refuses other values of the columns that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Columns of the table.
    pub columns: Vec<String>,
    /// The other one, `schema.name`.
    pub table: String,
    /// Columns of the referenced table.
    pub refers: Vec<String>,
    /// Its action when a row that it refers to is deleted.
    pub on_delete: OnDelete,
}

/// The action of a foreign key on the rows that refer to a deleted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// It refuses the deletion.
    #[default]
    Refuse,
    /// It deletes them.
    Cascade,
    /// It sets its columns to NULL.
    SetNull,
}

impl OnDelete {
    /// The end of the line in a schema text.
    pub fn words(self) -> &'static str {
        match self {
            OnDelete::Refuse => "",
            OnDelete::Cascade => " on delete cascade",
            OnDelete::SetNull => " on delete set null",
        }
    }
}

/// Why the words cannot describe a table: the part that is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undescribed(pub String);

type Result<T = ()> = std::result::Result<T, Undescribed>;

fn undescribed<T>(part: String) -> Result<T> {
    Err(Undescribed(part))
}

const NAME_BYTES_MAX: usize = 63;
const PRECISION_MAX: u32 = 65;
const SCALE_MAX: u32 = 38;
/// Characters of a varchar.
const LENGTH_MAX: u32 = 16_383;
/// The largest key: an entry of PostgreSQL's index has at most 2,704 bytes.
const KEY_BYTES_MAX: u32 = 2_600;
const CHECKS_MAX: usize = 64;
/// The largest line of a check.
const LINE_BYTES_MAX: usize = 8_192;
const DEPTH_MAX: usize = 16;

/// `H("chainify/schema/2" ‖ lp(schema text 2))`
pub fn schema_hash_2(text: &str) -> Hash {
    sha256(&[b"chainify/schema/2", &length_prefix(text.as_bytes()), text.as_bytes()])
}

/// The schema text 2 of a table. Cost: its columns times the columns of its keys.
pub fn schema_text_2(table: &Table) -> Result<String> {
    check_table(table)?;
    let list = |names: &[String]| format!("({})", names.join(", "));
    let mut lines = vec![format!("primary key {}", list(&table.primary_key))];
    lines.extend(table.columns.iter().map(column_line));
    lines.extend(table.unique.iter().map(|key| format!("unique {}", list(key))));
    lines.extend(table.foreign_keys.iter().map(|key| {
        let ForeignKey { columns, table, refers, on_delete } = key;
        format!("foreign key {} references {table} {}{}", list(columns), list(refers), on_delete.words())
    }));
    for check in &table.checks {
        lines.push(check_line(table, check)?);
    }
    lines.sort_unstable();
    lines.dedup();
    Ok(lines.join("\n"))
}

/// The line of a check. Cost: its words times its depth.
fn check_line(table: &Table, check: &Check) -> Result<String> {
    let check = check.clone().settled();
    examine(&check, table, 0)?;
    let line = format!("check {}", check.words());
    match line.len() {
        0..=LINE_BYTES_MAX => Ok(line),
        bytes => undescribed(format!("a check of {bytes} bytes in the schema text, at most {LINE_BYTES_MAX}")),
    }
}

/// Refuses tests whose outcome could differ between engines.
fn examine(check: &Check, table: &Table, depth: usize) -> Result {
    match check {
        _ if depth > DEPTH_MAX => undescribed(format!("a check of more than {DEPTH_MAX} levels")),
        Check::Null { column, .. } => tested(table, column).map(|_| ()),
        Check::Compare { column, operator, with } => compare(tested(table, column)?, *operator, with, table),
        Check::All(parts) | Check::Any(parts) if parts.is_empty() => undescribed("a check without a test".into()),
        Check::All(parts) | Check::Any(parts) => parts.iter().try_for_each(|part| examine(part, table, depth + 1)),
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
    if tag == Some(Tag::Json) || tag == Some(Tag::Uuid) && !matches!(operator, Operator::Equal | Operator::Differs) {
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

fn column_line(column: &Column) -> String {
    let mut line = format!("column {} {} {}", column.ordinal, column.name, column.logical);
    if column.not_null {
        line += " not null";
    }
    if let Some(default) = &column.default {
        line += " default ";
        line += &hex(default);
    }
    line
}

fn check_table(table: &Table) -> Result {
    check_table_name(&table.name)?;
    if table.checks.len() > CHECKS_MAX {
        return undescribed(format!("{} checks, at most {CHECKS_MAX}", table.checks.len()));
    }
    let mut last = 0;
    for column in &table.columns {
        if column.ordinal <= last {
            return undescribed("ordinals of columns that do not ascend".into());
        }
        last = column.ordinal;
        check_column(table, column)?;
    }
    let keys = std::iter::once(&table.primary_key).chain(&table.unique);
    keys.chain(table.foreign_keys.iter().map(|key| &key.columns)).try_for_each(|key| check_key(table, key))?;
    for name in &table.primary_key {
        if column_of(table, name).is_some_and(|column| !column.not_null) {
            return undescribed(format!("column {name} of the primary key, which may be NULL"));
        }
    }
    for key in &table.foreign_keys {
        check_table_name(&key.table)?;
        if key.columns.len() != key.refers.len() || key.table == table.name {
            return undescribed(format!("foreign key ({}) to {}", key.columns.join(", "), key.table));
        }
        let mut columns = key.columns.iter().filter_map(|name| column_of(table, name));
        if key.on_delete == OnDelete::SetNull && columns.any(|column| column.not_null) {
            let columns = key.columns.join(", ");
            return undescribed(format!("foreign key ({columns}), which sets a column NULL that cannot be"));
        }
    }
    Ok(())
}

fn check_column(table: &Table, column: &Column) -> Result {
    let Column { name, logical, .. } = column;
    check_name(name)?;
    if table.columns.iter().filter(|other| other.name == *name).count() > 1 {
        return undescribed(format!("column {name} twice"));
    }
    let Some(tag) = logical_tag(logical) else {
        return undescribed(format!("column {name} of type {logical}"));
    };
    match &column.default {
        Some(default) if default.first() != Some(&(tag as u8)) => {
            undescribed(format!("column {name} with a default of another type"))
        }
        _ => Ok(()),
    }
}

fn column_of<'t>(table: &'t Table, name: &str) -> Option<&'t Column> {
    table.columns.iter().find(|column| column.name == name)
}

/// Columns that an index has: known ones, each once, of types that every engine finds by their
/// whole value.
fn check_key(table: &Table, names: &[String]) -> Result {
    if names.is_empty() {
        return undescribed("a key without columns".into());
    }
    let mut bytes = 0;
    for (at, name) in names.iter().enumerate() {
        let Some(column) = column_of(table, name).filter(|_| !names[..at].contains(name)) else {
            return undescribed(format!("key ({})", names.join(", ")));
        };
        if ["text", "json", "bytea", "double"].contains(&column.logical.as_str()) {
            return undescribed(format!("column {name} of type {} in a key", column.logical));
        }
        bytes += key_bytes(&column.logical);
    }
    match bytes {
        0..=KEY_BYTES_MAX => Ok(()),
        _ => undescribed(format!(
            "key ({}) of up to {bytes} bytes, where {KEY_BYTES_MAX} are possible",
            names.join(", ")
        )),
    }
}

/// The bytes that a value of a type takes in an index at most.
fn key_bytes(logical: &str) -> u32 {
    match (arguments(logical, "varchar")[..].as_ref(), arguments(logical, "numeric")[..].as_ref()) {
        ([length], _) => 4 * length + 8,
        (_, [precision, _]) => precision / 2 + 16,
        _ => 16,
    }
}

/// The tag of a logical type's values; None for a type that engines do not share.
pub fn logical_tag(logical: &str) -> Option<Tag> {
    Some(match logical {
        "boolean" => Tag::Bool,
        "smallint" | "integer" | "bigint" => Tag::Int,
        "double" => Tag::Float,
        "text" => Tag::Text,
        "bytea" => Tag::Bytea,
        "date" => Tag::Date,
        "time" => Tag::Time,
        "timestamp" => Tag::Timestamp,
        "timestamptz" => Tag::TimestampTz,
        "uuid" => Tag::Uuid,
        "json" => Tag::Json,
        _ => match (arguments(logical, "varchar")[..].as_ref(), arguments(logical, "numeric")[..].as_ref()) {
            ([1..=LENGTH_MAX], _) => Tag::Text,
            (_, [precision @ 1..=PRECISION_MAX, scale @ 0..=SCALE_MAX]) if scale <= precision => Tag::Numeric,
            _ => return None,
        },
    })
}

/// The numbers in a type such as `numeric(10,2)`, of which there is one spelling; none: it is
/// another type.
fn arguments(logical: &str, name: &str) -> Vec<u32> {
    let inside = logical.strip_prefix(name).and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
    let number = |part: &str| part.parse().ok().filter(|number: &u32| number.to_string() == part);
    inside.and_then(|inside| inside.split(',').map(number).collect()).unwrap_or_default()
}

fn check_name(name: &str) -> Result {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match first && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) {
        true => Ok(()),
        false => undescribed(format!("name \"{name}\", which is not of lower-case letters, digits and _ alone")),
    }
}

fn check_table_name(table: &str) -> Result {
    match table.split_once('.') {
        Some((schema, name)) => check_name(schema).and_then(|()| check_name(name)),
        None => undescribed(format!("table \"{table}\" without a schema")),
    }
}
