//! An analysed query, as the extension describes it.
use std::collections::BTreeMap;

use crate::types::Type;

/// A type with its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Typed {
    /// The type.
    pub of: Type,
    /// As in pg_attribute; -1 for none.
    pub typmod: i32,
}

/// One level: a SELECT, or set operations over some.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// WITH, in order.
    pub with: Vec<With>,
    /// The range table, in order.
    pub sources: Vec<Source>,
    /// FROM.
    pub from: Vec<From>,
    /// WHERE.
    pub condition: Option<Expr>,
    /// The columns of the result, and expressions that are only sorted or grouped by.
    pub targets: Vec<Target>,
    /// GROUP BY: places in `targets`.
    pub group: Vec<usize>,
    /// HAVING.
    pub having: Option<Expr>,
    /// Whether it has aggregates.
    pub aggregates: bool,
    /// SELECT DISTINCT.
    pub distinct: bool,
    /// ORDER BY.
    pub order: Vec<Order>,
    /// WINDOW.
    pub windows: Vec<Window>,
    /// The tree of set operations, in place of FROM.
    pub set: Option<Set>,
    /// LIMIT.
    pub limit: Option<u64>,
    /// OFFSET.
    pub offset: Option<u64>,
}

/// A WITH query.
#[derive(Clone, Debug)]
pub struct With {
    /// Its name.
    pub name: String,
    /// Its query.
    pub query: Query,
    /// More than one source reads it.
    pub several_uses: bool,
}

/// An entry of the range table.
#[derive(Clone, Debug)]
pub enum Source {
    /// A mirrored table, with the columns that the worker has by their attnum.
    Table {
        /// Number in `chainify_ledger.ledger_table`.
        id: i32,
        /// By attnum.
        columns: BTreeMap<usize, TableColumn>,
    },
    /// A query in FROM, or one side of set operations.
    Subquery(Box<Query>),
    /// A WITH query, so many levels above.
    With {
        /// Its name.
        name: String,
        /// Levels up.
        up: usize,
    },
    /// A join; its columns are resolved.
    Join,
}

/// A column of a mirrored table.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    /// Its type.
    pub typed: Typed,
    /// Whether it is declared NOT NULL.
    pub not_null: bool,
}

/// A part of FROM.
#[derive(Clone, Debug)]
pub enum From {
    /// An entry of `sources`.
    Source(usize),
    /// A join of two.
    Join {
        /// Its kind.
        kind: Join,
        /// Left side.
        left: Box<From>,
        /// Right side.
        right: Box<From>,
        /// ON; None: every pair.
        on: Option<Expr>,
    },
}

/// The kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Join {
    Inner,
    Left,
    Right,
    Full,
}

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its value.
    pub expr: Expr,
    /// Its name.
    pub name: String,
    /// Not part of the result.
    pub junk: bool,
}

/// An element of ORDER BY.
#[derive(Clone, Debug)]
pub struct Order {
    /// Place in `targets`.
    pub target: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
    /// As [`Expr::Call::order`].
    pub collation: Option<String>,
}

/// A window.
#[derive(Clone, Debug)]
pub struct Window {
    /// PARTITION BY: places in `targets`.
    pub partition: Vec<usize>,
    /// ORDER BY.
    pub order: Vec<Order>,
    /// The frame as SQL; empty: PostgreSQL's default.
    pub frame: &'static str,
}

/// Set operations.
#[derive(Clone, Debug)]
pub enum Set {
    /// A query: an entry of `sources`.
    Leaf(usize),
    /// An operation.
    Operation {
        /// `UNION`, `INTERSECT` or `EXCEPT`.
        kind: &'static str,
        /// ALL.
        all: bool,
        /// Left side.
        left: Box<Set>,
        /// Right side.
        right: Box<Set>,
    },
}

/// The letters that `upper` and `lower` change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Those of ASCII: the collation "C".
    Ascii,
    /// Those of Unicode that are one letter in either case: "C.UTF-8".
    Unicode,
    /// As another collation says.
    Other,
}

/// The question of `IS [NOT] TRUE` and its like, as SQL after IS.
pub type Test = &'static str;

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A column of a source.
    Column {
        /// Levels up.
        up: usize,
        /// Place in the range table of that level, from 0.
        source: usize,
        /// attnum of a table, else place in the result from 1.
        number: usize,
        /// Its name, for messages.
        name: String,
    },
    /// A value in PostgreSQL's own text; None is NULL. Times are in UTC; an interval is its months,
    /// days and microseconds.
    Constant {
        /// Its type.
        typed: Typed,
        /// Its text.
        text: Option<String>,
    },
    /// A function or operator of pg_proc.
    Call {
        /// Its oid.
        function: u32,
        /// For messages: `upper(text)`.
        shown: String,
        /// Arguments.
        args: Vec<Expr>,
        /// The type of the result.
        typed: Typed,
        /// Name of the collation it compares by, unless that is the order of bytes.
        order: Option<String>,
        /// The letters of that collation.
        letters: Letters,
        /// Place in the text.
        at: Option<usize>,
    },
    /// A number, text or UUID as text, as its output function writes it.
    ToText(Box<Expr>),
    /// AND.
    And(Vec<Expr>),
    /// OR.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS NULL, or IS NOT NULL.
    IsNull(Box<Expr>, bool),
    /// IS TRUE and its like.
    IsTrue(Box<Expr>, Test),
    /// CASE; None: NULL in place of ELSE.
    Case {
        /// WHEN and THEN.
        when: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
        /// The type of the result.
        typed: Typed,
    },
    /// COALESCE.
    Coalesce(Vec<Expr>, Typed),
    /// GREATEST (true) or LEAST.
    Extreme(bool, Vec<Expr>, Option<String>),
    /// NULLIF: an equality of two, and the first.
    NullIf(Box<Expr>),
    /// IS DISTINCT FROM: an equality of two.
    Distinct(Box<Expr>),
    /// `arg OPERATOR ANY (list)`, or ALL: a call with the element in place of the second argument.
    List {
        /// One for each element.
        elements: Vec<Expr>,
        /// ANY; else ALL.
        any: bool,
    },
    /// An aggregate.
    Aggregate {
        /// Its oid.
        function: u32,
        /// For messages.
        shown: String,
        /// Arguments; none for `count(*)`. Of WITHIN GROUP the direct ones.
        args: Vec<Expr>,
        /// DISTINCT.
        distinct: bool,
        /// ORDER BY or WITHIN GROUP, by expressions and not by places in the targets.
        sorted: Vec<(Expr, Order)>,
        /// FILTER.
        filter: Option<Box<Expr>>,
        /// As of a call.
        order: Option<String>,
        /// Place in the text.
        at: Option<usize>,
        /// Place in `windows`: it is called as a window function.
        window: Option<usize>,
    },
    /// EXISTS.
    Exists(Box<Query>),
    /// `test` for some row of a query of one column: an equality of an expression and
    /// [`Expr::RowOfSubquery`].
    In(Box<Expr>, Box<Query>),
    /// The column of the query of [`Expr::In`].
    RowOfSubquery,
    /// A query of one column in place of a value.
    Scalar(Box<Query>),
}
