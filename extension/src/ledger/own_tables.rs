//! Reads the small tables of schema `chainify_ledger` directly from their pages. Every block reads
//! them, and a planned statement takes several times as long.
use pgrx::{FromDatum, IntoDatum};

use crate::pg::base::catalog::relation_named;
use crate::pg::base::cell::Cell;
use crate::pg::base::error::PgError;
use crate::pg::base::relation::{ColumnDef, Lock, Relation, Tuple};
use crate::pg::base::row_change::change_rows;

/// One of them, open until dropped. A scan reads all of it.
pub struct OwnTable {
    name: &'static str,
    relation: Relation,
    columns: Vec<ColumnDef>,
}

/// One row.
pub struct Row<'a> {
    table: &'a OwnTable,
    tuple: &'a Tuple<'a>,
}

impl OwnTable {
    /// To be read. Raises 55000 where the extension is not installed.
    pub fn read(name: &'static str) -> Self {
        Self::open(name, Lock::AccessShare)
    }

    /// To be changed.
    pub fn change(name: &'static str) -> Self {
        Self::open(name, Lock::RowExclusive)
    }

    fn open(name: &'static str, lock: Lock) -> Self {
        let Some(oid) = relation_named("chainify_ledger", name) else {
            let message = format!("chainify_ledger.{name} is not in this database");
            PgError::new(b"55000", message).raise()
        };
        let relation = Relation::open(oid, lock);
        let columns = relation.columns();
        OwnTable {
            name,
            relation,
            columns,
        }
    }

    /// Its rows as this transaction sees them now.
    pub fn rows(&self, mut f: impl FnMut(&Row)) {
        self.relation.scan(|tuple| f(&Row { table: self, tuple }));
    }

    /// Whether it has a row.
    pub fn has_rows(&self) -> bool {
        let mut any = false;
        self.rows(|_| any = true);
        any
    }

    /// Gives rows new values in some columns; `f` gives those of a row, none where it stays.
    pub fn change_rows(&self, mut f: impl FnMut(&Row) -> Vec<(&'static str, Cell)>) {
        change_rows(&self.relation, |tuple| {
            let values = f(&Row { table: self, tuple });
            let numbered = |(column, value)| (self.number(column), value);
            values.into_iter().map(numbered).collect()
        });
    }

    fn number(&self, column: &str) -> i16 {
        let found = self.columns.iter().find(|c| c.name == column);
        found.map(|column| column.number).unwrap_or_else(|| {
            let message = format!("chainify_ledger.{} has no column {column}", self.name);
            PgError::new(b"XX000", message).raise()
        })
    }
}

impl Row<'_> {
    /// A column; None when NULL. Raises when it is not of `T`'s type.
    pub fn get<T: FromDatum + IntoDatum>(&self, column: &str) -> Option<T> {
        self.tuple.get(self.table.number(column))
    }

    /// A column that is never NULL.
    pub fn must<T: FromDatum + IntoDatum>(&self, column: &str) -> T {
        self.get(column).unwrap_or_else(|| {
            let message = format!("chainify_ledger.{}.{column} is null", self.table.name);
            PgError::new(b"XX000", message).raise()
        })
    }
}
