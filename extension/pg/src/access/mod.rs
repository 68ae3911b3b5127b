//! The access of a statement, from its analysed and rewritten query (spec/scheduling.md,
//! "What a statement contributes").
//!
//! Two passes read a query, and plan or run nothing. The first notes what conditions say about
//! columns ([`columns`]) and how the query uses relations, views and functions included. The second
//! knows all of it and bounds each use.
use std::ptr::NonNull;
use std::rc::Rc;

use chainify_sched::template::{Operand, Template};
use chainify_sched::value::Value;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::base::major;
use crate::tree::node::{children, NodeAt};
use crate::tree::tree_walkers::without_groups;

pub mod call;
mod calls;
mod columns;
mod conditions;
mod functions;
pub mod plpgsql;
pub mod reads;
mod relation;
pub mod show;
mod uses;
mod value;

pub(crate) use value::value_of;

use columns::{Columns, Known};
use uses::{Lock, New, Use};

/// Queries of one statement, those of views and functions included.
const QUERIES_MAX: usize = 1_024;

/// Parameters, variables among them, of a query in a function whose values are looked at.
const PARAMETERS_MAX: usize = 512;

/// The values of a query's parameters.
#[derive(Default)]
struct Parameters {
    /// By number, from 1.
    values: Vec<Option<Known>>,
    /// Functions being read, outermost first.
    functions: Vec<pg_sys::Oid>,
}

/// Where a query stands: its parameters and the queries around it, outermost first.
#[derive(Clone, Default)]
struct Place {
    parameters: Rc<Parameters>,
    around: Vec<usize>,
}

/// The template of analysed statements with `parameters` parameters, numbered from 0 in it.
///
/// # Safety
/// `queries` must be lists of analysed and rewritten queries that no planner has touched.
pub(super) unsafe fn template(queries: &[*mut pg_sys::List], parameters: usize) -> Template {
    let place = with_parameters(parameters);
    let mut reader = Reader::default();
    for list in queries {
        // SAFETY: by the caller's promise.
        unsafe {
            for query in elements::<pg_sys::Query>(*list) {
                reader.statement(query, &place);
            }
        }
    }
    reader.finish()
}

/// The template of one query, with parameters numbered as in it. It leaves out functions in SQL and
/// PL/pgSQL that the query calls: their queries are asked about by themselves.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(super) unsafe fn template_of_query(query: NonNull<pg_sys::Query>) -> Template {
    let mut reader = Reader {
        one_query: true,
        ..Reader::default()
    };
    // SAFETY: by the caller's promise.
    unsafe { reader.statement(query, &with_parameters(PARAMETERS_MAX)) };
    reader.finish()
}

/// The template of the rows that one query reads to have its result, as reads alone. It leaves out
/// rows that the query's changes find: the changed rows tell of themselves. It leaves out functions
/// in SQL and PL/pgSQL that the query calls as well.
///
/// # Safety
/// `query` must be analysed and rewritten, and no planner must have touched it.
pub(super) unsafe fn template_of_reads(query: NonNull<pg_sys::Query>) -> Template {
    let mut reader = Reader {
        one_query: true,
        reads: true,
        ..Reader::default()
    };
    // SAFETY: by the caller's promise.
    unsafe { reader.statement(query, &with_parameters(PARAMETERS_MAX)) };
    reader
        .uses
        .retain(|one| matches!(one, Use::Read(_) | Use::Found(..)));
    reader.finish()
}

fn with_parameters(count: usize) -> Place {
    let values = (0..count).map(|i| Some(Known::Operand(Operand::Given(i))));
    Place {
        parameters: Rc::new(Parameters {
            values: values.collect(),
            functions: Vec::new(),
        }),
        around: Vec::new(),
    }
}

#[derive(Default)]
struct Reader {
    /// See [`template_of_query`].
    one_query: bool,
    /// See [`template_of_reads`].
    reads: bool,
    columns: Columns,
    uses: Vec<Use>,
    template: Template,
    queries: usize,
}

impl Reader {
    fn finish(mut self) -> Template {
        uses::resolve(self.uses, &self.columns, &mut self.template);
        self.template
    }

    /// Whether there is any use in going on.
    fn full(&self) -> bool {
        self.template.everything().is_some()
    }

    unsafe fn statement(&mut self, query: NonNull<pg_sys::Query>, place: &Place) {
        // SAFETY: an analysed query; a utility statement's tag says which structure follows.
        unsafe {
            let q = query.as_ref();
            if q.commandType != pg_sys::CmdType::CMD_UTILITY {
                self.query(query, place);
                return;
            }
            match NonNull::new(q.utilityStmt) {
                Some(node) if node.as_ref().type_ == T_CallStmt => {
                    let call = node.cast::<pg_sys::CallStmt>();
                    if let Some(call) = NonNull::new(call.as_ref().funcexpr.cast()) {
                        let place = self.level(place);
                        self.expression(call, &place);
                    }
                }
                _ => self.template.widen("it is no query"),
            }
        }
    }

    /// A level of its own inside `place`.
    fn level(&mut self, place: &Place) -> Place {
        self.queries += 1;
        let mut inner = place.clone();
        inner.around.push(self.queries);
        inner
    }

    /// Reads a query; gives its number.
    unsafe fn query(&mut self, query: NonNull<pg_sys::Query>, place: &Place) -> usize {
        let place = self.level(place);
        let level = self.queries;
        if self.queries > QUERIES_MAX {
            self.template.widen("it consists of too many queries");
        }
        if self.full() {
            return level;
        }
        // SAFETY: raises when the stack is nearly used up; the fields of a query are what
        // parsenodes.h says.
        unsafe {
            pg_sys::check_stack_depth();
            let query = catch_c(|| without_groups(query)).or_raise();
            let q = query.as_ref();
            for cte in elements::<pg_sys::CommonTableExpr>(q.cteList) {
                if let Some(query) = NonNull::new(cte.as_ref().ctequery.cast()) {
                    self.query(query, &place);
                }
            }
            let entries = elements::<pg_sys::RangeTblEntry>(q.rtable);
            if let Some(tree) = NonNull::new(q.jointree.cast::<pg_sys::Node>()) {
                self.nullable(tree, level, false, &mut Vec::new());
            }
            for (number, entry) in (1..).zip(&entries) {
                self.entry(query, number, *entry, &place);
            }
            if let Some(tree) = NonNull::new(q.jointree.cast::<pg_sys::Node>()) {
                // The condition of MERGE says nothing about the source: MERGE inserts source rows
                // without a match.
                let target = [q.resultRelation as u32];
                let merge = q.commandType == pg_sys::CmdType::CMD_MERGE;
                self.join_tree(
                    query,
                    tree,
                    merge.then_some(&target),
                    &place,
                    &mut Vec::new(),
                );
            }
            self.condition(
                query,
                major::merge_condition(q),
                Some(&[q.resultRelation as u32]),
                &place,
            );
            let expressions = [
                q.targetList.cast::<pg_sys::Node>(),
                q.returningList.cast(),
                q.onConflict.cast(),
                q.mergeActionList.cast(),
                q.havingQual,
                q.limitCount,
                q.limitOffset,
                q.windowClause.cast(),
                q.withCheckOptions.cast(),
            ];
            for node in expressions.into_iter().filter_map(NonNull::new) {
                let flat = self.flattened(query, node.as_ptr());
                self.expressions(flat, &place);
            }
            self.locks(q, level);
            self.changes(query, &entries, &place);
        }
        level
    }

    /// With columns of joins replaced by those of what is joined.
    unsafe fn flattened(
        &self,
        query: NonNull<pg_sys::Query>,
        node: *mut pg_sys::Node,
    ) -> *mut pg_sys::Node {
        // SAFETY: an expression of this query; the result is a copy.
        unsafe { catch_c(|| major::flatten_join_alias_vars(query.as_ptr(), node)).or_raise() }
    }

    unsafe fn expressions(&mut self, node: *mut pg_sys::Node, place: &Place) {
        if let Some(node) = NonNull::new(node) {
            // SAFETY: an expression of a query.
            unsafe { self.expression(node, place) }
        }
    }

    /// Notes the queries and functions in an expression.
    unsafe fn expression(&mut self, node: NodeAt, place: &Place) {
        if self.full() {
            return;
        }
        // SAFETY: the tag says which structure follows.
        unsafe {
            pg_sys::check_stack_depth();
            match node.as_ref().type_ {
                T_Query => {
                    self.query(node.cast(), place);
                    return;
                }
                T_Var => self.look(node.cast::<pg_sys::Var>().as_ref(), place),
                T_NextValueExpr => {
                    let sequence = node.cast::<pg_sys::NextValueExpr>().as_ref().seqid;
                    self.uses.push(Use::Sequence(sequence));
                }
                _ => self.calls(node, place),
            }
            for child in children(node) {
                self.expression(child, place);
            }
        }
    }

    /// Notes a column that an expression looks at.
    fn look(&mut self, var: &pg_sys::Var, place: &Place) {
        let depth = place.around.len().checked_sub(1 + var.varlevelsup as usize);
        if let Some(level) = depth.and_then(|depth| place.around.get(depth)) {
            self.columns.look((*level, var.varno as u32), var.varattno);
        }
    }

    unsafe fn entry(
        &mut self,
        query: NonNull<pg_sys::Query>,
        number: u32,
        entry: NonNull<pg_sys::RangeTblEntry>,
        place: &Place,
    ) {
        use pg_sys::RTEKind::*;
        let level = place.around[place.around.len() - 1];
        // SAFETY: the kind says which fields of the entry are set.
        unsafe {
            let (q, e) = (query.as_ref(), entry.as_ref());
            for qual in elements::<pg_sys::Node>(e.securityQuals) {
                self.condition(query, qual.as_ptr(), Some(&[number]), place);
            }
            match e.rtekind {
                RTE_RELATION => {
                    let stored = matches!(
                        e.relkind as u8,
                        pg_sys::RELKIND_RELATION
                            | pg_sys::RELKIND_PARTITIONED_TABLE
                            | pg_sys::RELKIND_MATVIEW
                            | pg_sys::RELKIND_FOREIGN_TABLE
                            | pg_sys::RELKIND_SEQUENCE
                    );
                    let inserted = q.commandType == pg_sys::CmdType::CMD_INSERT
                        && q.resultRelation == number as i32;
                    if stored && !inserted {
                        self.uses.push(Use::Read(uses::Rows {
                            relation: e.relid,
                            level,
                            number,
                        }));
                    }
                }
                RTE_SUBQUERY => {
                    if let Some(inner) = NonNull::new(e.subquery) {
                        let inside = Place {
                            parameters: place.parameters.clone(),
                            // Only LATERAL sees the level around it; numbering needs it there all
                            // the same.
                            around: place.around.clone(),
                        };
                        let inner_level = self.query(inner, &inside);
                        self.outputs(inner, inner_level, (level, number), place);
                    }
                }
                RTE_JOIN => self.columns.join((level, number)),
                RTE_FUNCTION => self.expressions(e.functions.cast(), place),
                RTE_TABLEFUNC => self.expressions(e.tablefunc.cast(), place),
                RTE_VALUES => {
                    self.expressions(e.values_lists.cast(), place);
                    self.values(e.values_lists, (level, number), place);
                }
                _ => {}
            }
        }
    }

    unsafe fn locks(&mut self, q: &pg_sys::Query, level: usize) {
        // SAFETY: row marks name entries of the range table, from 1.
        unsafe {
            let entries = elements::<pg_sys::RangeTblEntry>(q.rtable);
            for mark in elements::<pg_sys::RowMarkClause>(q.rowMarks) {
                let number = mark.as_ref().rti;
                let Some(entry) = entries.get((number as usize).wrapping_sub(1)) else {
                    continue;
                };
                if entry.as_ref().rtekind != pg_sys::RTEKind::RTE_RELATION {
                    continue; // a subquery's relations are marked in it
                }
                let rows = uses::Rows {
                    relation: entry.as_ref().relid,
                    level,
                    number,
                };
                match mark.as_ref().strength {
                    pg_sys::LockClauseStrength::LCS_FORUPDATE => {
                        self.uses.push(Use::Lock(rows, Lock::Keys))
                    }
                    pg_sys::LockClauseStrength::LCS_FORNOKEYUPDATE => {
                        self.uses.push(Use::Lock(rows, Lock::Rows))
                    }
                    // Others may read and share, but FOR SHARE not change.
                    pg_sys::LockClauseStrength::LCS_FORSHARE => {
                        self.columns.look((level, number), 0)
                    }
                    _ => {}
                }
            }
        }
    }

    /// The changes of an INSERT, UPDATE, DELETE or MERGE.
    unsafe fn changes(
        &mut self,
        query: NonNull<pg_sys::Query>,
        entries: &[NonNull<pg_sys::RangeTblEntry>],
        place: &Place,
    ) {
        use pg_sys::CmdType::*;
        // SAFETY: the result relation is an entry of the range table, from 1; 0 for SELECT.
        unsafe {
            let q = query.as_ref();
            let Some(entry) = entries.get((q.resultRelation as usize).wrapping_sub(1)) else {
                return;
            };
            let rows = uses::Rows {
                relation: entry.as_ref().relid,
                level: place.around[place.around.len() - 1],
                number: q.resultRelation as u32,
            };
            match q.commandType {
                CMD_INSERT => {
                    for row in self.inserted(query, entries, place) {
                        self.uses.push(Use::Insert(rows.relation, row));
                    }
                    if let Some(conflict) = q.onConflict.as_ref() {
                        self.on_conflict(query, conflict, rows.relation, place);
                    }
                }
                CMD_UPDATE => {
                    let new = self.assigned(query, q.targetList, place);
                    self.uses.push(Use::Update(rows, new));
                }
                CMD_DELETE => self.uses.push(Use::Delete(rows)),
                CMD_MERGE => {
                    for action in elements::<pg_sys::MergeAction>(q.mergeActionList) {
                        let action = action.as_ref();
                        let new = self.assigned(query, action.targetList, place);
                        match action.commandType {
                            CMD_INSERT => self.uses.push(Use::Insert(rows.relation, new)),
                            CMD_UPDATE => self.uses.push(Use::Update(rows, new)),
                            CMD_DELETE => self.uses.push(Use::Delete(rows)),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// The columns that a list of targets assigns, with what is known of their values.
    unsafe fn assigned(
        &mut self,
        query: NonNull<pg_sys::Query>,
        targets: *mut pg_sys::List,
        place: &Place,
    ) -> New {
        // SAFETY: the targets of a change are numbered by the columns of its relation.
        unsafe {
            elements::<pg_sys::TargetEntry>(targets)
                .into_iter()
                .filter(|target| !target.as_ref().resjunk)
                .map(|target| {
                    let expression = self.flattened(query, target.as_ref().expr.cast());
                    let known = self.known(expression, place);
                    (target.as_ref().resno, known)
                })
                .collect()
        }
    }

    /// The rows of an INSERT: one for each row of VALUES, or one for all.
    unsafe fn inserted(
        &mut self,
        query: NonNull<pg_sys::Query>,
        entries: &[NonNull<pg_sys::RangeTblEntry>],
        place: &Place,
    ) -> Vec<New> {
        // SAFETY: VALUES of several rows are an entry whose lists have a value for each of its
        // columns.
        unsafe {
            let q = query.as_ref();
            let all = self.assigned(query, q.targetList, place);
            let values = entries
                .iter()
                .zip(1..)
                .find(|(entry, _)| entry.as_ref().rtekind == pg_sys::RTEKind::RTE_VALUES);
            let Some((entry, number)) = values else {
                return vec![all];
            };
            let lists = elements::<pg_sys::List>(entry.as_ref().values_lists);
            if lists.len() > chainify_sched::PLACES_MAX {
                return vec![all];
            }
            let level = place.around[place.around.len() - 1];
            let mut rows = Vec::new();
            for list in lists {
                let values = elements::<pg_sys::Node>(list.as_ptr());
                let known: Vec<_> = values
                    .into_iter()
                    .map(|value| self.known(value.as_ptr(), place))
                    .collect();
                let mut row = all.clone();
                for value in row.values_mut() {
                    let column = value.as_ref().and_then(|value| match value {
                        Known::Column(node, fit) => {
                            Some((self.columns.of((level, number), known.len(), *node)?, *fit))
                        }
                        _ => None,
                    });
                    if let Some((column, fit)) = column {
                        *value = known[column].clone().and_then(|known| known.fitted(fit));
                    }
                }
                rows.push(row);
            }
            rows
        }
    }

    unsafe fn on_conflict(
        &mut self,
        query: NonNull<pg_sys::Query>,
        conflict: &pg_sys::OnConflictExpr,
        relation: pg_sys::Oid,
        place: &Place,
    ) {
        if conflict.action != pg_sys::OnConflictAction::ONCONFLICT_UPDATE && !self.reads {
            return; // the values are looked up where they are inserted
        }
        // SAFETY: an arbiter's elements are columns or expressions.
        unsafe {
            let new = self.assigned(query, conflict.onConflictSet, place);
            let mut arbiter = Vec::new();
            for element in elements::<pg_sys::InferenceElem>(conflict.arbiterElems) {
                let node = element.as_ref().expr;
                let column = (!node.is_null() && (*node).type_ == T_Var)
                    .then(|| (*node.cast::<pg_sys::Var>()).varattno);
                arbiter.push(column);
            }
            let columns: Option<Vec<i16>> = arbiter.into_iter().collect();
            let inserted = self.inserted(
                query,
                &elements::<pg_sys::RangeTblEntry>(query.as_ref().rtable),
                place,
            );
            for row in inserted {
                let found: New = columns
                    .iter()
                    .flatten()
                    .map(|column| {
                        let absent = Some(Known::Operand(Operand::Constant(Value::Null)));
                        (*column, row.get(column).cloned().unwrap_or(absent))
                    })
                    .collect();
                self.uses.push(match self.reads {
                    true => Use::Found(relation, found),
                    false => Use::UpdateFound(relation, found, new.clone()),
                });
            }
        }
    }
}
