//! The writer: one level of a query after the other.
mod aggregate;
mod call;
mod constant;
mod expression;
mod level;
mod numeric;
mod subquery;
mod value;

use std::collections::BTreeMap;

use crate::query::Query;
use crate::types::Type;
use crate::{Kind, Refusal};
use value::Value;

/// Bytes of a written query.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Levels of expressions and queries.
pub const DEPTH_MAX: usize = 100;

/// The session's settings that a query's meaning depends on.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// TimeZone is UTC.
    pub utc: bool,
    /// Called at each level; it unwinds when the caller's stack is nearly used up.
    pub deeper: fn(),
}

/// A column of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Place in the targets of the query, from 0.
    pub target: usize,
}

/// A query in the worker's dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Its text.
    pub sql: String,
    /// Its columns.
    pub outputs: Vec<Output>,
    /// It means the same only while TimeZone is UTC.
    pub needs_utc: bool,
}

/// Writes a query. Cost: linear in the query, but for numbers of several scales in CASE, whose
/// conditions are written twice; the text is bounded by [`TEXT_BYTES_MAX`].
pub fn translate(query: &Query, settings: Settings) -> Result<Translation, Refusal> {
    let mut writer =
        Writer { settings, aliases: 0, depth: 0, levels: Vec::new(), used_utc: false, cuts: 0, text_bytes: 0 };
    let written = writer.query(query)?;
    writer.check_size(&written.sql)?;
    if query.targets.iter().all(|target| target.junk) {
        return Err(Refusal::new(Kind::Clause, "a query without columns"));
    }
    let targets = query.targets.iter().enumerate();
    let shown = targets.filter(|(_, target)| !target.junk);
    let outputs = shown.map(|(at, target)| Output { name: target.name.clone(), target: at });
    Ok(Translation { sql: written.sql, outputs: outputs.collect(), needs_utc: writer.used_utc })
}

/// A written query with what is known of its columns `o1`, `o2` …
#[derive(Clone, Debug)]
struct Written {
    sql: String,
    columns: Vec<Value>,
    /// Its rows come in an order that PostgreSQL would keep.
    sorted: bool,
}

/// A source of a level.
#[derive(Clone, Debug)]
struct Named {
    alias: String,
    /// By attnum, or place from 1; `sql` is the name behind the alias.
    columns: BTreeMap<usize, Value>,
}

/// A WITH query of a level.
struct WithNamed {
    name: String,
    alias: String,
    columns: BTreeMap<usize, Value>,
    sorted: bool,
    /// It takes some of the rows, or numbers them: another evaluation may take others.
    cuts: bool,
}

#[derive(Default)]
struct Level {
    sources: Vec<Option<Named>>,
    with: Vec<WithNamed>,
    /// The text of each window.
    windows: Vec<String>,
    /// The subquery that an IN looks into.
    row_of_subquery: Option<Value>,
    /// Columns may be NULL that are declared NOT NULL: there is an outer join.
    outer_join: bool,
    /// It stands in an expression as it is, not in a derived table: the worker finds columns of the
    /// queries around.
    in_place: bool,
    /// It has columns of the queries around.
    correlated: bool,
    /// An aggregate was written.
    aggregates: bool,
    /// A source has its rows in an order.
    sorted: bool,
}

struct Writer {
    settings: Settings,
    aliases: usize,
    depth: usize,
    levels: Vec<Level>,
    used_utc: bool,
    /// Clauses so far that take some of the rows, or number them.
    cuts: usize,
    /// Bytes of long text constants so far.
    text_bytes: usize,
}

impl Writer {
    fn alias(&mut self, letter: char) -> String {
        self.aliases += 1;
        format!("{letter}{}", self.aliases)
    }

    fn check_size(&self, sql: &str) -> Result<(), Refusal> {
        match sql.len() > TEXT_BYTES_MAX {
            true => Err(Refusal::new(Kind::Size, format!("a query that takes more than {TEXT_BYTES_MAX} bytes"))),
            false => Ok(()),
        }
    }

    /// Runs `f` one level deeper.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        if self.depth == DEPTH_MAX {
            let message = format!("a query that is nested more than {DEPTH_MAX} deep");
            return Err(Refusal::new(Kind::Size, message));
        }
        (self.settings.deeper)();
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("a query is being written")
    }
}

/// Whether values of a column can be told apart by the worker's equality: for GROUP BY, DISTINCT
/// and set operations. Err says why not.
fn check_key(value: &Value, what: &str) -> Result<(), Refusal> {
    let why = match value.of {
        of if of.is_float() => "of a float",
        Type::Bpchar if value.width.is_none() => "of char without a length",
        Type::Numeric if !matches!(value.form, value::Form::Decimal(_)) && !value.is_null() => {
            "of numbers with different digits behind the point"
        }
        _ => return Ok(()),
    };
    Err(Refusal::new(Kind::Key, format!("{what} {why}")))
}
