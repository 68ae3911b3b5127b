//! The changes of a level, and whether two rows can have the same key in the middle of the
//! statement although they differ at its end.
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::catalog;
use crate::base::lists::elements;
use crate::describe::analysis::{columns_of, is_constant, Reader};
use crate::describe::query_level::*;
use crate::describe::relation_keys::{unique_indexes, UniqueIndex};
use crate::tree::node::is;

/// A column that is assigned to, and whether every row gets the same value.
struct Assigned {
    number: i16,
    constant: bool,
}

impl Reader<'_> {
    pub(super) unsafe fn change(&mut self) {
        // SAFETY: range table entries are numbered from 1; a changed one is a relation.
        unsafe {
            let q = self.query.as_ref();
            let entries = elements::<pg_sys::RangeTblEntry>(q.rtable);
            let entry = usize::try_from(q.resultRelation)
                .ok()
                .and_then(|number| entries.get(number.checked_sub(1)?));
            let Some(relation) = entry.map(|entry| entry.as_ref().relid) else {
                return;
            };
            let updates = self.assignments();
            let merges = self.level.command == Command::Merge;
            let indexes = match merges || updates.iter().any(|columns| !columns.is_empty()) {
                true => unique_indexes(relation),
                false => Vec::new(),
            };
            // Rows are matched by one key; in another one that is inserted may meet one that is
            // still to be deleted.
            let makes_way = indexes.len() > 1
                && self.merges(pg_sys::CmdType::CMD_DELETE)
                && self.merges(pg_sys::CmdType::CMD_INSERT);
            let any = |of: &dyn Fn(&UniqueIndex, &[Assigned]) -> bool| {
                updates.iter().any(|u| indexes.iter().any(|i| of(i, u)))
            };
            // A row that a conflict updates makes way for one that is inserted, whatever it is set
            // to.
            let excused = self.level.command != Command::Insert;
            self.level.change = Some(Change {
                table: relation.to_u32(),
                name: catalog::display_name(relation),
                kind: match self.level.command {
                    Command::Insert if q.onConflict.is_null() => Kind::Adds,
                    Command::Update if !any(&touches) => Kind::KeepsKeys,
                    _ => Kind::Any,
                },
                moves_keys: makes_way || any(&|index, columns| moves(index, columns, excused)),
            });
        }
    }

    /// Whether a MERGE has an action of the kind.
    unsafe fn merges(&self, kind: pg_sys::CmdType::Type) -> bool {
        // SAFETY: a list of MergeAction.
        unsafe {
            elements::<pg_sys::MergeAction>(self.query.as_ref().mergeActionList)
                .iter()
                .any(|action| action.as_ref().commandType == kind)
        }
    }

    /// The columns that each UPDATE in the level assigns to.
    unsafe fn assignments(&self) -> Vec<Vec<Assigned>> {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let q = self.query.as_ref();
            let mut found = Vec::new();
            if q.commandType == pg_sys::CmdType::CMD_UPDATE {
                found.push(assigned(q.targetList, q.resultRelation));
            }
            if let Some(conflict) = q.onConflict.as_ref() {
                if conflict.action == pg_sys::OnConflictAction::ONCONFLICT_UPDATE {
                    found.push(assigned(conflict.onConflictSet, q.resultRelation));
                }
            }
            for action in elements::<pg_sys::MergeAction>(q.mergeActionList) {
                if action.as_ref().commandType == pg_sys::CmdType::CMD_UPDATE {
                    found.push(assigned(action.as_ref().targetList, q.resultRelation));
                }
            }
            found
        }
    }
}

/// A column set to itself is not assigned to.
unsafe fn assigned(targets: *mut pg_sys::List, relation: i32) -> Vec<Assigned> {
    // SAFETY: a target list, whose entries name columns of the changed relation by number.
    unsafe {
        elements::<pg_sys::TargetEntry>(targets)
            .into_iter()
            .filter(|t| !t.as_ref().resjunk)
            .filter(|t| {
                let column = t.as_ref().expr.cast::<pg_sys::Var>();
                let itself = |c: &pg_sys::Var| {
                    c.varno == relation && c.varattno == t.as_ref().resno && c.varlevelsup == 0
                };
                !((*column).xpr.type_ == T_Var && itself(&*column))
            })
            .map(|t| {
                let value = t.as_ref().expr.cast::<pg_sys::Node>();
                Assigned {
                    number: t.as_ref().resno,
                    constant: columns_of(value, 0).is_empty()
                        && is_constant(value)
                        && !is_of_a_row(value),
                }
            })
            .collect()
    }
}

/// `SET (a, b) = (SELECT …)`: a parameter that stands for a subquery, which may look at the row.
unsafe fn is_of_a_row(value: *mut pg_sys::Node) -> bool {
    // SAFETY: null or an expression.
    unsafe {
        NonNull::new(value).is_some_and(|node| {
            is(node, T_Param)
                && node.cast::<pg_sys::Param>().as_ref().paramkind
                    == pg_sys::ParamKind::PARAM_MULTIEXPR
        })
    }
}

fn touches(index: &UniqueIndex, columns: &[Assigned]) -> bool {
    let all = [&index.columns, &index.computed, &index.condition];
    let mut numbers = all.into_iter().flatten();
    numbers.any(|number| columns.iter().any(|c| c.number == *number))
}

/// Whether a row may take a place in the index that another row, which the same statement changes,
/// leaves. Not so when every row gets the same values in columns of the key: what a row meets then
/// has them already and keeps them.
fn moves(index: &UniqueIndex, columns: &[Assigned], excused: bool) -> bool {
    let find = |number: &i16| columns.iter().find(|c| c.number == *number);
    let mut keys = index.columns.iter().filter_map(find);
    let mut computed = index.computed.iter().filter_map(find);
    let condition: Vec<_> = index.condition.iter().map(find).collect();
    let one_value = |c: &Assigned| excused && c.constant;
    keys.any(|c| !one_value(c))
        || computed.next().is_some()
        || (condition.iter().any(Option::is_some)
            && !condition.iter().all(|c| c.is_some_and(one_value)))
}
