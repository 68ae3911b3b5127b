//! Converts the reads of a template into bounds of columns.
use std::collections::BTreeMap;

use chainify_sched::ranges::{range, Range};
use chainify_sched::template::Template;
use chainify_sched::value::{Class, Value};
use chainify_sched::Target;
use pgrx::pg_sys;

use crate::access::relation::facts;

/// Rows of a relation that a query reads: those with all of these values.
pub struct RowsRead {
    /// A partitioned table counts for its partitions.
    pub relation: pg_sys::Oid,
    /// By column number; a column that may have any value is left out.
    pub columns: BTreeMap<i16, (Class, Range)>,
}

impl RowsRead {
    /// All rows.
    pub fn all(relation: pg_sys::Oid) -> Self {
        Self {
            relation,
            columns: BTreeMap::new(),
        }
    }
}

/// The reads of rows in an execution with these values; None: everything. The relations must exist.
pub(crate) fn of(template: &Template, values: &[Value]) -> Option<Vec<RowsRead>> {
    if template.everything().is_some() {
        return None;
    }
    let mut reads = Vec::new();
    'accesses: for access in template.accesses() {
        let Target::Rows(relation) = access.target else {
            continue;
        };
        let mut read = RowsRead::all(relation.into());
        let facts = facts(read.relation);
        for limits in &access.limits {
            let key = facts.keys.get(usize::from(limits.key));
            let columns = key.map_or(&[][..], |key| &key.columns);
            for ((class, limits), (column, _)) in limits.columns.iter().zip(columns) {
                match range(*class, limits, values) {
                    Range::Nothing => continue 'accesses,
                    Range::Anything => {}
                    range => drop(read.columns.insert(*column, (*class, range))),
                }
            }
        }
        reads.push(read);
    }
    Some(reads)
}
