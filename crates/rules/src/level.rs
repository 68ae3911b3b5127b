//! A query level in plain Rust, with the facts that the determinism checker needs. It derives which
//! rows and orders are determined.
//!
//! A *level* is one SELECT, INSERT, UPDATE, DELETE or MERGE after views, defaults and policies were
//! put in; subqueries are levels of their own. Everything here is conservative: "no" may mean "not
//! proven".
use std::collections::BTreeSet;
use std::rc::Rc;

/// A column of a source of the level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Column {
    /// The number of the source.
    pub source: u32,
    /// The number of the column, from 1.
    pub number: i16,
}

/// An expression of the level.
#[derive(Clone, Debug)]
pub struct Term {
    /// Equal expressions of a level have the same.
    pub id: usize,
    /// The column that it is, or whose values tell its own apart.
    pub column: Option<Column>,
    /// The same for every row of the level.
    pub constant: bool,
    /// Computed anew, perhaps to something else, each time.
    pub volatile: bool,
    /// Values that compare as equal are the same bytes.
    pub identical: bool,
    /// The collation, when its order depends on the machine.
    pub local_collation: Option<String>,
}

/// Collations that make an order one of the machine's.
pub fn local_collations(order: &[Term]) -> impl Iterator<Item = &String> {
    order.iter().filter_map(|t| t.local_collation.as_ref())
}

/// When the columns `needs` of a row are known, so is `gives`.
#[derive(Debug)]
pub struct Implication {
    /// The known columns.
    pub needs: Vec<Column>,
    /// The column that follows from them.
    pub gives: Column,
}

/// The sources of a level's rows.
#[derive(Debug)]
pub struct Source {
    /// As columns name it.
    pub number: u32,
    /// Columns of other sources that its rows depend on (LATERAL).
    pub needs: Vec<Column>,
    /// It has one row at most.
    pub one_row: bool,
    /// Sets of columns that no two rows share.
    pub keys: Vec<Vec<i16>>,
    /// Its rows come in an order that does not depend on how rows are stored.
    pub ordered: bool,
}

/// The kind of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// SELECT or VALUES.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// MERGE.
    Merge,
}

/// In what a function is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Written in SQL or PL/pgSQL: its statements are planned, and checked, when they run.
    Checked,
    /// Any other language.
    Other,
}

/// A function as the catalog has it.
#[derive(Clone, Debug)]
pub struct Function {
    /// With its schema unless built in.
    pub name: String,
    /// It came with PostgreSQL.
    pub built_in: bool,
    /// Whether its statements are checked when they run.
    pub language: Language,
    /// It is declared VOLATILE.
    pub volatile: bool,
    /// It is declared IMMUTABLE.
    pub immutable: bool,
    /// An aggregate or a window function.
    pub aggregate: bool,
    /// The extension that it belongs to.
    pub extension: Option<String>,
    /// PostgreSQL 15 does not have it.
    pub newer: bool,
    /// An argument is a floating-point number.
    pub takes_float: bool,
    /// An argument is an interval or an amount of money: sums of them have an end.
    pub takes_bounded: bool,
    /// An argument is a transaction number.
    pub takes_xid: bool,
    /// An argument is of type internal, which no query can write.
    pub takes_internal: bool,
    /// Its second argument is a text.
    pub takes_pattern: bool,
    /// A set-returning SQL function whose text PostgreSQL may put into the query that calls it.
    pub may_be_merged: bool,
    /// One of the ledger's own, which stand for nextval() and its like.
    pub on_sequence: bool,
}

impl Function {
    /// Its name without its schema, of a function of PostgreSQL or of an extension.
    pub fn own_name(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(_, name)| name)
    }
}

/// A call of a function.
#[derive(Debug)]
pub struct FunctionCall {
    /// The function.
    pub function: Rc<Function>,
    /// In the list of columns that the level returns or stores, not in a condition.
    pub in_target: bool,
    /// The collation of its arguments, when order and case under it depend on the machine.
    pub local_collation: Option<String>,
    /// Values of an argument that compare as equal may be different bytes; told of calls over a
    /// window alone.
    pub loose: bool,
}

/// A call of an aggregate.
#[derive(Debug)]
pub struct Aggregate {
    /// The function.
    pub function: Rc<Function>,
    /// Its arguments.
    pub arguments: Vec<Term>,
    /// ORDER BY inside the call.
    pub order: Vec<Term>,
    /// DISTINCT inside the call.
    pub distinct: bool,
    /// As of a call.
    pub local_collation: Option<String>,
}

/// A window with the calls over it.
#[derive(Debug)]
pub struct Window {
    /// PARTITION BY.
    pub partition: Vec<Term>,
    /// ORDER BY.
    pub order: Vec<Term>,
    /// The frame counts rows, not peers.
    pub counts_rows: bool,
    /// The calls over this window.
    pub functions: Vec<FunctionCall>,
}

/// Where a level stands in the one around it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// FROM.
    From,
    /// FROM LATERAL.
    Lateral,
    /// WITH.
    With,
    /// EXISTS (…).
    Exists,
    /// ARRAY(…).
    Array,
    /// Any other expression.
    Expression,
}

/// Something that is refused wherever it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Construct {
    /// A column such as ctid.
    SystemColumn(String),
    /// A table of pg_catalog.
    SystemCatalog(String),
    /// A value of a type such as regclass.
    ObjectIdentifier(String),
    /// TABLESAMPLE.
    TableSample,
    /// SKIP LOCKED or NOWAIT.
    LockNotWaiting(&'static str),
    /// The next value of an identity column, outside of a statement.
    Sequence,
    /// WHERE CURRENT OF.
    Cursor,
    /// A value such as session_user.
    SessionValue(&'static str),
    /// A comparison by a collation that takes different texts as equal.
    NondeterministicCollation(String),
    /// The greatest or least of values by a collation whose order depends on the machine.
    LocalOrder(String),
    /// A path of jsonpath, or words of text search, that are read as the database's collation
    /// classes characters; with the collation.
    LocalClasses(&'static str, String),
    /// A literal that reads the clock when it is parsed, as it is named in refusals.
    FrozenTime(String),
    /// A kind of a newer PostgreSQL, which the checker does not know.
    Unknown(&'static str),
}

/// DISTINCT of a level.
#[derive(Debug, Default)]
pub enum Distinct {
    /// It is not given.
    #[default]
    No,
    /// Whole rows.
    All,
    /// DISTINCT ON.
    On(Vec<Term>),
}

/// How a level combines the rows of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetOperation {
    /// UNION ALL and its like.
    Multiset,
    /// UNION, INTERSECT and EXCEPT without ALL.
    Set,
}

/// LIMIT and OFFSET of a level.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// OFFSET is given.
    pub offset: bool,
    /// WITH TIES is given.
    pub with_ties: bool,
}

/// The effect of changes on the rows that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Rows come, none changes or goes.
    Adds,
    /// Rows change, none leaves its place in a unique index.
    KeepsKeys,
    /// Any change.
    Any,
}

/// The changes of a level.
#[derive(Debug)]
pub struct Change {
    /// The number of the table.
    pub table: u32,
    /// The name of the table.
    pub name: String,
    /// The fate of rows that are there.
    pub kind: Kind,
    /// Rows may take places in a unique index that others, changed by the same level, leave.
    pub moves_keys: bool,
}

/// A level of a statement.
#[derive(Debug)]
pub struct Level {
    /// What it does.
    pub command: Command,
    /// The source that an UPDATE or DELETE changes.
    pub target: Option<u32>,
    /// The table that it changes.
    pub change: Option<Change>,
    /// The sources of its rows.
    pub sources: Vec<Source>,
    /// The facts that follow from its conditions.
    pub implications: Vec<Implication>,
    /// The columns that it returns or stores.
    pub outputs: Vec<Term>,
    /// ORDER BY.
    pub sort: Vec<Term>,
    /// GROUP BY.
    pub group: Vec<Term>,
    /// GROUPING SETS, CUBE or ROLLUP.
    pub grouping_sets: bool,
    /// DISTINCT.
    pub distinct: Distinct,
    /// It combines the rows of others.
    pub set_operation: Option<SetOperation>,
    /// The list of columns has a set-returning function.
    pub multiplies: bool,
    /// LIMIT or OFFSET.
    pub limit: Option<Limit>,
    /// Its windows.
    pub windows: Vec<Window>,
    /// Calls of aggregates.
    pub aggregates: Vec<Aggregate>,
    /// Calls of other functions.
    pub calls: Vec<FunctionCall>,
    /// The constructs that are refused wherever they stand.
    pub constructs: Vec<Construct>,
    /// Levels within, and where they stand.
    pub inner: Vec<(Place, Level)>,
    /// ON CONFLICT DO NOTHING.
    pub ignores_conflicts: bool,
    /// RETURNING.
    pub returning: bool,
    /// It reads rows of a table or a view.
    pub reads_tables: bool,
    /// current_date and its like.
    pub reads_time: bool,
}

impl Level {
    /// A level without anything in it.
    pub fn new(command: Command) -> Self {
        Level {
            command,
            target: None,
            change: None,
            sources: Vec::new(),
            implications: Vec::new(),
            outputs: Vec::new(),
            sort: Vec::new(),
            group: Vec::new(),
            grouping_sets: false,
            distinct: Distinct::No,
            set_operation: None,
            multiplies: false,
            limit: None,
            windows: Vec::new(),
            aggregates: Vec::new(),
            calls: Vec::new(),
            constructs: Vec::new(),
            inner: Vec::new(),
            ignores_conflicts: false,
            returning: false,
            reads_tables: false,
            reads_time: false,
        }
    }

    /// The functions called here and in the levels within.
    pub fn all_calls<'l>(&'l self, calls: &mut Vec<&'l Function>) {
        calls.extend(self.calls.iter().map(|call| &*call.function));
        self.inner.iter().for_each(|(_, inner)| inner.all_calls(calls));
    }

    fn groups(&self) -> bool {
        !self.group.is_empty() || self.grouping_sets || !self.aggregates.is_empty()
    }

    /// Whether one combination of source rows at most agrees with `known`.
    pub fn determined(&self, known: impl Iterator<Item = Column>, targets: &[u32]) -> bool {
        let mut columns: BTreeSet<Column> = known.collect();
        let mut rows: BTreeSet<u32> = targets.iter().copied().collect();
        loop {
            let has = |rows: &BTreeSet<u32>, columns: &BTreeSet<Column>, c: &Column| {
                rows.contains(&c.source) || columns.contains(c)
            };
            let before = (rows.len(), columns.len());
            for i in &self.implications {
                if i.needs.iter().all(|c| has(&rows, &columns, c)) {
                    columns.insert(i.gives);
                }
            }
            for s in &self.sources {
                let known_key = |key: &Vec<i16>| {
                    key.iter().all(|number| columns.contains(&Column { source: s.number, number: *number }))
                };
                if s.needs.iter().all(|c| has(&rows, &columns, c)) && (s.one_row || s.keys.iter().any(known_key)) {
                    rows.insert(s.number);
                }
            }
            if (rows.len(), columns.len()) == before {
                return self.sources.iter().all(|s| rows.contains(&s.number));
            }
        }
    }

    /// Whether it returns, or changes, one row at most.
    pub fn one_row(&self) -> bool {
        if self.set_operation.is_some() || self.multiplies || self.grouping_sets {
            return false;
        }
        (self.groups() && self.group.is_empty()) || self.determined(std::iter::empty(), &[])
    }

    /// Whether rows that `by` does not tell apart are not different at all.
    pub fn total_order(&self, by: &[Term]) -> bool {
        self.orders(&self.distinct, by)
    }

    /// Whether terms order the rows totally before DISTINCT ON drops some.
    pub fn total_order_before_distinct(&self, by: &[Term]) -> bool {
        self.orders(&Distinct::No, by)
    }

    fn orders(&self, distinct: &Distinct, by: &[Term]) -> bool {
        let has = |term: &Term| by.iter().any(|t| t.id == term.id);
        let outputs_covered =
            !self.outputs.is_empty() && self.outputs.iter().all(|t| t.constant || (t.identical && has(t)));
        if outputs_covered || self.one_row() {
            return true;
        }
        match (distinct, self.set_operation) {
            (_, Some(SetOperation::Multiset)) => return false,
            (_, Some(SetOperation::Set)) | (Distinct::All, _) => return self.outputs.iter().all(has),
            (Distinct::On(keys), _) if keys.iter().all(has) => return true,
            _ => {}
        }
        if self.groups() {
            return !self.grouping_sets && self.group.iter().all(|t| t.constant || has(t));
        }
        if self.multiplies {
            return false;
        }
        self.rows_told_apart(by) || (by.is_empty() && self.keeps_order())
    }

    /// Whether `by` tells the rows apart before they are grouped.
    pub fn rows_told_apart(&self, by: &[Term]) -> bool {
        self.set_operation.is_none() && self.determined(by.iter().filter_map(|t| t.column), &[])
    }

    /// Whether the rows come in the order of a single source that has one.
    pub fn keeps_order(&self) -> bool {
        let plain = !self.groups()
            && matches!(self.distinct, Distinct::No)
            && self.set_operation.is_none()
            && self.windows.is_empty();
        plain && self.sources_ordered()
    }

    /// Whether the rows, before they are grouped, come in an order of their own.
    pub fn sources_ordered(&self) -> bool {
        matches!(&self.sources[..], [only] if only.ordered)
    }

    /// Whether the result comes in one order only, on every machine.
    pub fn ordered(&self) -> bool {
        self.one_row() || (self.total_order(&self.sort) && local_collations(&self.sort).next().is_none())
    }

    /// Sets of output columns, from 1, that no two rows of the result share.
    pub fn keys(&self) -> Vec<Vec<i16>> {
        let numbers = |terms: &[Term]| {
            terms
                .iter()
                .map(|t| self.outputs.iter().position(|o| o.id == t.id))
                .map(|at| at.map(|at| at as i16 + 1))
                .collect::<Option<Vec<_>>>()
        };
        let all = || (1..=self.outputs.len() as i16).collect::<Vec<_>>();
        match (&self.distinct, self.set_operation) {
            (_, Some(SetOperation::Multiset)) => return Vec::new(),
            (_, Some(SetOperation::Set)) | (Distinct::All, _) => return vec![all()],
            (Distinct::On(keys), _) => return numbers(keys).into_iter().collect(),
            _ => {}
        }
        if self.multiplies || self.grouping_sets {
            return Vec::new();
        }
        if self.groups() {
            return numbers(&self.group).into_iter().collect();
        }
        self.smallest_key().into_iter().collect()
    }

    fn smallest_key(&self) -> Option<Vec<i16>> {
        let mut key: Vec<(i16, Column)> =
            (1..).zip(&self.outputs).filter_map(|(number, t)| t.column.map(|c| (number, c))).collect();
        let tells_apart = |key: &[(i16, Column)]| self.determined(key.iter().map(|(_, c)| *c), &[]);
        if !tells_apart(&key) {
            return None;
        }
        let mut at = 0;
        while at < key.len() {
            let dropped = key.remove(at);
            if !tells_apart(&key) {
                key.insert(at, dropped);
                at += 1;
            }
        }
        Some(key.into_iter().map(|(number, _)| number).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouped_by_its_key() -> Level {
        let mut level = Level::new(Command::Select);
        let column = Some(Column { source: 1, number: 1 });
        let id = Term { id: 0, column, constant: false, volatile: false, identical: true, local_collation: None };
        level.sources.push(Source { number: 1, needs: vec![], one_row: false, keys: vec![vec![1]], ordered: false });
        level.outputs.push(id.clone());
        level.group.push(id);
        level
    }

    #[test]
    fn groups_are_a_key_but_not_in_several_sets_or_copies() {
        let level = grouped_by_its_key();
        assert_eq!(level.keys(), [vec![1]]);
        assert_eq!(Level { grouping_sets: true, ..grouped_by_its_key() }.keys(), Vec::<Vec<i16>>::new());
        assert_eq!(Level { multiplies: true, ..grouped_by_its_key() }.keys(), Vec::<Vec<i16>>::new());
    }

    #[test]
    fn a_lateral_source_has_one_row_only_for_a_known_row() {
        let mut level = Level::new(Command::Select);
        let key = Column { source: 1, number: 1 };
        level.sources.push(Source { number: 1, needs: vec![], one_row: false, keys: vec![vec![1]], ordered: false });
        level.sources.push(Source { number: 2, needs: vec![key], one_row: true, keys: vec![], ordered: false });
        assert!(level.determined([key].into_iter(), &[]));
        level.sources[1].needs = vec![Column { source: 3, number: 1 }];
        assert!(!level.determined([key].into_iter(), &[]));
    }
}
