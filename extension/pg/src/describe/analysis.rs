//! Describes an analysed and rewritten query as [`Level`]s.
//!
//! Nodes are visited by PostgreSQL's own walker, one generation at a time: its callback only notes
//! pointers, so that no look-up can raise inside it. Every pointer here belongs to one query tree,
//! which lives until the description is complete.
use std::collections::HashMap;
use std::ffi::{c_char, CStr};
use std::ptr::NonNull;

use chainify_rules::catalog::{is_identical, system_column, widened};
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::base::{collation, major};
use crate::describe::frozen_time::frozen;
use crate::describe::function_facts::function;
use crate::describe::input_collations::{bare, input_collations, local_collation, told_apart_by};
use crate::describe::query_level::*;
use crate::tree::node::{children, functions, is, NodeAt};
use crate::tree::tree_walkers::{is_known_node, without_groups};

mod changes;
mod collations;
mod sources;
mod values;

mod raw {
    use super::pg_sys;
    c_functions! {
        pub(crate) fn pull_vars_of_level(node: *mut pg_sys::Node, up: i32) -> *mut pg_sys::List;
        pub(crate) fn contain_volatile_functions(node: *mut pg_sys::Node) -> bool;
    }
}

/// The known facts about a WITH query where it is used.
#[derive(Clone)]
struct Named {
    one_row: bool,
    keys: Vec<Vec<i16>>,
}

/// WITH queries in scope, outermost level first.
type Scope = Vec<HashMap<String, Named>>;

/// `text` is the one that the query was parsed from, in which its literals stand. Where there is
/// none, they are not looked at.
///
/// # Safety
/// `query` must be an analysed query that no planner has touched; `text` null or a C string.
pub(crate) unsafe fn describe(query: NonNull<pg_sys::Query>, text: *const c_char) -> Level {
    // SAFETY: by the caller's promise.
    unsafe {
        let text = (!text.is_null()).then(|| CStr::from_ptr(text));
        describe_in(query, text, &mut Vec::new())
    }
}

unsafe fn describe_in(
    query: NonNull<pg_sys::Query>,
    text: Option<&CStr>,
    scope: &mut Scope,
) -> Level {
    // SAFETY: raises when the stack is nearly used up; the tree is as the caller promised.
    unsafe {
        pg_sys::check_stack_depth();
        let query = catch_c(|| without_groups(query)).or_raise();
        let q = query.as_ref();
        let mut level = Level::new(match q.commandType {
            pg_sys::CmdType::CMD_INSERT => Command::Insert,
            pg_sys::CmdType::CMD_UPDATE => Command::Update,
            pg_sys::CmdType::CMD_DELETE => Command::Delete,
            pg_sys::CmdType::CMD_MERGE => Command::Merge,
            _ => Command::Select,
        });
        if matches!(level.command, Command::Update | Command::Delete) {
            level.target = u32::try_from(q.resultRelation).ok();
        }
        scope.push(HashMap::new());
        let mut reader = Reader {
            query,
            level,
            terms: Vec::new(),
            text,
            scope,
        };
        reader.read();
        let level = reader.level;
        scope.pop();
        level
    }
}

struct Reader<'a> {
    query: NonNull<pg_sys::Query>,
    level: Level,
    /// Expressions seen, by the ids of their terms.
    terms: Vec<*mut pg_sys::Node>,
    text: Option<&'a CStr>,
    scope: &'a mut Scope,
}

/// Columns of the sources of the level `up` levels above `node`.
///
/// # Safety
/// `node` must be null or part of a query tree.
pub(crate) unsafe fn columns_of(node: *mut pg_sys::Node, up: i32) -> Vec<Column> {
    if node.is_null() {
        return Vec::new();
    }
    // SAFETY: gives a list of Var and PlaceHolderVar; the latter only the planner makes.
    unsafe {
        let vars = catch_c(|| raw::pull_vars_of_level(node, up)).or_raise();
        elements::<pg_sys::Var>(vars)
            .into_iter()
            .map(|v| Column {
                source: v.as_ref().varno as u32,
                number: v.as_ref().varattno,
            })
            .collect()
    }
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct At {
    in_target: bool,
}

const TARGET: At = At { in_target: true };
const ELSEWHERE: At = At { in_target: false };

impl Reader<'_> {
    fn q(&self) -> &pg_sys::Query {
        // SAFETY: alive for the reader's life, by the promise of `describe`.
        unsafe { self.query.as_ref() }
    }

    unsafe fn read(&mut self) {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let q = self.query.as_ref();
            for cte in elements::<pg_sys::CommonTableExpr>(q.cteList) {
                self.with_query(cte);
            }
            self.sources();
            self.condition(major::merge_condition(q), None);
            if let Some(clause) = major::unknown_clause(q) {
                self.refuse(Construct::Unknown(clause));
            }
            self.expressions();
            self.clauses();
            self.windows();
            self.change();
            self.level.returning = !q.returningList.is_null();
            if let Some(conflict) = q.onConflict.as_ref() {
                self.level.ignores_conflicts =
                    conflict.action == pg_sys::OnConflictAction::ONCONFLICT_NOTHING;
            }
            for mark in elements::<pg_sys::RowMarkClause>(q.rowMarks) {
                match mark.as_ref().waitPolicy {
                    pg_sys::LockWaitPolicy::LockWaitSkip => {
                        self.refuse(Construct::LockNotWaiting("SKIP LOCKED"))
                    }
                    pg_sys::LockWaitPolicy::LockWaitError => {
                        self.refuse(Construct::LockNotWaiting("NOWAIT"))
                    }
                    _ => {}
                }
            }
        }
    }

    fn refuse(&mut self, construct: Construct) {
        if !self.level.constructs.contains(&construct) {
            self.level.constructs.push(construct);
        }
    }

    unsafe fn with_query(&mut self, cte: NonNull<pg_sys::CommonTableExpr>) {
        // SAFETY: a WITH query is analysed to a Query.
        unsafe {
            let cte = cte.as_ref();
            let Some(query) = NonNull::new(cte.ctequery.cast::<pg_sys::Query>()) else {
                return;
            };
            let level = describe_in(query, self.text, self.scope);
            let name = CStr::from_ptr(cte.ctename).to_string_lossy().into_owned();
            let named = Named {
                one_row: !cte.cterecursive && level.one_row(),
                keys: if cte.cterecursive || level.command != Command::Select {
                    Vec::new()
                } else {
                    level.keys()
                },
            };
            if let Some(here) = self.scope.last_mut() {
                here.insert(name, named);
            }
            self.level.inner.push((Place::With, level));
        }
    }

    /// With columns of joins replaced by those of what is joined.
    unsafe fn flattened(&self, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
        let query = self.query.as_ptr();
        // SAFETY: an expression of this level; the result is a copy.
        unsafe { catch_c(|| major::flatten_join_alias_vars(query, node)).or_raise() }
    }

    unsafe fn term(&mut self, node: *mut pg_sys::Node) -> Term {
        // SAFETY: an expression of this level.
        unsafe {
            let shown = self.flattened(node);
            let node = bare(shown);
            let known = self
                .terms
                .iter()
                .position(|t| pg_sys::equal(t.cast(), node.cast()));
            let id = known.unwrap_or_else(|| {
                self.terms.push(node);
                self.terms.len() - 1
            });
            let value = told_apart_by(node);
            let var = (*value).type_ == T_Var && (*value.cast::<pg_sys::Var>()).varlevelsup == 0;
            let column = var.then(|| {
                let var = &*value.cast::<pg_sys::Var>();
                Column {
                    source: var.varno as u32,
                    number: var.varattno,
                }
            });
            let (of, typmod) = (pg_sys::exprType(node), pg_sys::exprTypmod(node));
            let by = pg_sys::exprCollation(node);
            Term {
                id,
                column,
                constant: columns_of(node, 0).is_empty() && is_constant(node),
                volatile: catch_c(|| raw::contain_volatile_functions(node)).or_raise(),
                // Values compare as their last type does: text as citext in another way.
                identical: !loose(shown) && collation::nondeterministic(by).is_none(),
                local_collation: collation::order_of(of, typmod, by),
            }
        }
    }

    /// The expressions that a list of SortGroupClause stands for.
    unsafe fn sort_terms(
        &mut self,
        clauses: *mut pg_sys::List,
        targets: *mut pg_sys::List,
    ) -> Vec<Term> {
        // SAFETY: each clause names a target list entry by its reference.
        unsafe {
            let targets = elements::<pg_sys::TargetEntry>(targets);
            let mut terms = Vec::new();
            for clause in elements::<pg_sys::SortGroupClause>(clauses) {
                let reference = clause.as_ref().tleSortGroupRef;
                if let Some(t) = targets
                    .iter()
                    .find(|t| t.as_ref().ressortgroupref == reference)
                {
                    terms.push(self.term(t.as_ref().expr.cast()));
                }
            }
            terms
        }
    }

    unsafe fn clauses(&mut self) {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let q = self.query.as_ref();
            let results = if q.commandType == pg_sys::CmdType::CMD_SELECT {
                q.targetList
            } else {
                q.returningList
            };
            for target in elements::<pg_sys::TargetEntry>(results) {
                if !target.as_ref().resjunk {
                    let term = self.term(target.as_ref().expr.cast());
                    self.level.outputs.push(term);
                }
            }
            self.level.sort = self.sort_terms(q.sortClause, q.targetList);
            self.level.group = self.equal_terms(q.groupClause, q.targetList);
            self.level.grouping_sets = !q.groupingSets.is_null();
            let distinct = self.equal_terms(q.distinctClause, q.targetList);
            self.level.distinct = match (q.distinctClause.is_null(), q.hasDistinctOn) {
                (true, _) => Distinct::No,
                (_, true) => Distinct::On(distinct),
                _ => Distinct::All,
            };
            self.level.multiplies = q.hasTargetSRFs;
            self.set_operations(q.setOperations);
            if let Some(operation) = q.setOperations.cast::<pg_sys::SetOperationStmt>().as_ref() {
                self.level.set_operation = Some(if operation.all {
                    SetOperation::Multiset
                } else {
                    SetOperation::Set
                });
            }
            if is_given(q.limitCount) || is_given(q.limitOffset) {
                self.level.limit = Some(Limit {
                    offset: is_given(q.limitOffset),
                    with_ties: q.limitOption == pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES,
                });
            }
        }
    }

    unsafe fn windows(&mut self) {
        // SAFETY: window clauses of this query; functions name theirs by number.
        unsafe {
            let q = self.query.as_ref();
            let mut calls = Vec::new();
            if q.hasWindowFuncs {
                window_functions(q.targetList.cast(), &mut calls);
                window_functions(q.sortClause.cast(), &mut calls);
            }
            for clause in elements::<pg_sys::WindowClause>(q.windowClause) {
                let c = clause.as_ref();
                let partition = self.equal_terms(c.partitionClause, q.targetList);
                let order = self.equal_terms(c.orderClause, q.targetList);
                let of_this = |w: &&NonNull<pg_sys::WindowFunc>| w.as_ref().winref == c.winref;
                let functions = calls.iter().filter(of_this).map(|w| FunctionCall {
                    function: function(w.as_ref().winfnoid),
                    in_target: false,
                    local_collation: local_collation(w.cast()),
                    loose: elements::<pg_sys::Node>(w.as_ref().args)
                        .iter()
                        .any(|a| loose(a.as_ptr())),
                });
                self.level.windows.push(Window {
                    partition,
                    order,
                    counts_rows: c.frameOptions as u32 & pg_sys::FRAMEOPTION_ROWS != 0,
                    functions: functions.collect(),
                });
            }
        }
    }

    unsafe fn expressions(&mut self) {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let q = self.query.as_ref();
            let target = [
                q.targetList.cast::<pg_sys::Node>(),
                q.returningList.cast(),
                q.onConflict.cast(),
                q.mergeActionList.cast(),
            ];
            let elsewhere = [
                q.havingQual,
                q.limitCount,
                q.limitOffset,
                q.windowClause.cast(),
                q.withCheckOptions.cast(),
            ];
            for node in target.into_iter().filter_map(NonNull::new) {
                self.expression(node, TARGET);
            }
            for node in elsewhere.into_iter().filter_map(NonNull::new) {
                self.expression(node, ELSEWHERE);
            }
        }
    }

    unsafe fn expression(&mut self, node: NodeAt, at: At) {
        // SAFETY: the tag says which structure follows.
        unsafe {
            pg_sys::check_stack_depth();
            match node.as_ref().type_ {
                T_Query => return self.subquery(node, Place::Expression),
                T_SubLink => {
                    let link = node.cast::<pg_sys::SubLink>().as_ref();
                    let place = match link.subLinkType {
                        pg_sys::SubLinkType::EXISTS_SUBLINK => Place::Exists,
                        pg_sys::SubLinkType::ARRAY_SUBLINK => Place::Array,
                        _ => Place::Expression,
                    };
                    if let Some(test) = NonNull::new(link.testexpr) {
                        self.expression(test, at);
                    }
                    if let Some(query) = NonNull::new(link.subselect) {
                        self.subquery(query, place);
                    }
                    return;
                }
                T_Aggref => self.aggregate(node.cast()),
                _ => self.leaf(node),
            }
            let aggregate = is(node, T_Aggref) || is(node, T_WindowFunc);
            for oid in functions(node) {
                let function = function(oid);
                if !(aggregate && function.aggregate) {
                    self.level.calls.push(FunctionCall {
                        function,
                        in_target: at.in_target,
                        local_collation: local_collation(node),
                        loose: false,
                    });
                }
            }
            let names_sequence = names_sequence(node);
            // The arguments of an aggregate are computed for rows that are not returned.
            let at = if aggregate { ELSEWHERE } else { at };
            for child in children(node) {
                let named = names_sequence && is(child, T_Const);
                if !(named || Self::names_configuration(node, child)) {
                    self.expression(child, at);
                }
            }
        }
    }

    unsafe fn subquery(&mut self, query: NodeAt, place: Place) {
        // SAFETY: analysed sublinks hold queries.
        unsafe {
            let level = describe_in(query.cast(), self.text, self.scope);
            self.level.inner.push((place, level));
        }
    }

    unsafe fn aggregate(&mut self, node: NonNull<pg_sys::Aggref>) {
        // SAFETY: arguments are target list entries that the order refers to.
        unsafe {
            let a = node.as_ref();
            let mut arguments = Vec::new();
            for target in elements::<pg_sys::TargetEntry>(a.args) {
                if !target.as_ref().resjunk {
                    arguments.push(self.term(target.as_ref().expr.cast()));
                }
            }
            let order = self.sort_terms(a.aggorder, a.args);
            self.equal_terms(a.aggdistinct, a.args);
            self.level.aggregates.push(Aggregate {
                function: function(a.aggfnoid),
                arguments,
                order,
                distinct: !a.aggdistinct.is_null(),
                local_collation: local_collation(node.cast()),
            });
        }
    }

    /// Constructs that one node shows.
    unsafe fn leaf(&mut self, node: NodeAt) {
        use pg_sys::SQLValueFunctionOp::*;
        // SAFETY: the tag says which structure follows.
        unsafe {
            if !is_known_node(node.as_ref().type_) {
                self.refuse(Construct::Unknown(
                    "an expression that PostgreSQL 15 does not have",
                ));
            }
            self.value(node);
            if is(node, T_Const) {
                let constant = node.cast::<pg_sys::Const>();
                let found = self.text.and_then(|text| frozen(constant.as_ref(), text));
                found
                    .into_iter()
                    .for_each(|f| self.refuse(Construct::FrozenTime(f)));
            }
            match node.as_ref().type_ {
                T_Var => {
                    let var = node.cast::<pg_sys::Var>().as_ref();
                    if var.varattno < 0 {
                        let name = system_column(var.varattno);
                        self.refuse(Construct::SystemColumn(name.into()));
                    }
                }
                T_MinMaxExpr => {
                    if let Some(name) = local_collation(node) {
                        self.refuse(Construct::LocalOrder(name));
                    }
                }
                T_NextValueExpr => self.refuse(Construct::Sequence),
                T_CurrentOfExpr => self.refuse(Construct::Cursor),
                T_SQLValueFunction => match node.cast::<pg_sys::SQLValueFunction>().as_ref().op {
                    SVFOP_SESSION_USER => self.refuse(Construct::SessionValue("session_user")),
                    SVFOP_CURRENT_CATALOG => {
                        self.refuse(Construct::SessionValue("current_catalog"))
                    }
                    SVFOP_CURRENT_SCHEMA => self.refuse(Construct::SessionValue("current_schema")),
                    SVFOP_CURRENT_ROLE | SVFOP_CURRENT_USER | SVFOP_USER => {}
                    _ => self.level.reads_time = true,
                },
                _ => {}
            }
            if !is(node, T_WindowFunc) {
                input_collations(node)
                    .into_iter()
                    .for_each(|by| self.compares_under(by));
            }
        }
    }
}

/// Whether a node is a call of one of the ledger's own functions on sequences: their names stand
/// for agreed state.
unsafe fn names_sequence(node: NodeAt) -> bool {
    // SAFETY: the tag says which structure follows.
    unsafe {
        is(node, T_FuncExpr)
            && function(node.cast::<pg_sys::FuncExpr>().as_ref().funcid).on_sequence
    }
}

/// Whether LIMIT or OFFSET is more than the NULL that stands for none.
unsafe fn is_given(node: *mut pg_sys::Node) -> bool {
    // SAFETY: null or an expression.
    unsafe {
        let null = |n: *mut pg_sys::Const| (*n).constisnull;
        !(node.is_null() || (*node).type_ == T_Const && null(node.cast()))
    }
}

/// Whether an expression without columns is the same for every row of its level.
unsafe fn is_constant(node: *mut pg_sys::Node) -> bool {
    // SAFETY: an expression.
    unsafe {
        let Some(node) = NonNull::new(node) else {
            return true;
        };
        let varies = matches!(
            node.as_ref().type_,
            T_Aggref | T_WindowFunc | T_GroupingFunc | T_SubLink
        );
        let volatile = is(node, T_FuncExpr)
            && function(node.cast::<pg_sys::FuncExpr>().as_ref().funcid).volatile;
        !(varies || volatile) && children(node).into_iter().all(|c| is_constant(c.as_ptr()))
    }
}

unsafe fn window_functions(node: *mut pg_sys::Node, found: &mut Vec<NonNull<pg_sys::WindowFunc>>) {
    // SAFETY: null or part of a query tree; subqueries are levels of their own, which the walker
    // does not enter.
    unsafe {
        let Some(node) = NonNull::new(node) else {
            return;
        };
        if is(node, T_WindowFunc) {
            found.push(node.cast());
        }
        for child in children(node) {
            window_functions(child.as_ptr(), found);
        }
    }
}

/// Whether values of a type that compare as equal are the same bytes. A domain is as its base type,
/// an array as its elements, a range as its bounds.
fn identical(mut of: pg_sys::Oid, mut typmod: i32) -> bool {
    // SAFETY: catalog look-ups.
    unsafe {
        pg_sys::check_stack_depth();
        of = catch_c(|| pg_sys::getBaseTypeAndTypmod(of, &mut typmod)).or_raise();
        let element = pg_sys::get_element_type(of);
        if element != pg_sys::InvalidOid {
            of = catch_c(|| pg_sys::getBaseTypeAndTypmod(element, &mut typmod)).or_raise();
        }
        is_identical(of.to_u32(), typmod)
            || match pg_sys::get_typtype(of) as u8 {
                pg_sys::TYPTYPE_ENUM => true,
                pg_sys::TYPTYPE_RANGE => identical(pg_sys::get_range_subtype(of), -1),
                pg_sys::TYPTYPE_MULTIRANGE => identical(pg_sys::get_multirange_range(of), -1),
                _ => false,
            }
    }
}

unsafe fn loose(node: *mut pg_sys::Node) -> bool {
    // SAFETY: an expression; the tag says which structure follows.
    unsafe {
        let call = node.cast::<pg_sys::FuncExpr>();
        let widens = (*node).type_ == T_FuncExpr && widened((*call).funcid.to_u32());
        !(widens || identical(pg_sys::exprType(node), pg_sys::exprTypmod(node)))
    }
}
