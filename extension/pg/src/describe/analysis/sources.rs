//! The sources of a level's rows, and the facts that its conditions imply about them.
use std::ffi::CStr;
use std::ptr::NonNull;

use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::catalog;
use crate::base::error::{catch_c, OrRaise};
use crate::describe::analysis::{
    bare, columns_of, describe_in, elements, is, raw, At, NodeAt, Reader, ELSEWHERE, TARGET,
};
use crate::describe::function_facts::function;
use crate::describe::input_collations::oids;
use crate::describe::query_level::*;
use crate::describe::relation_keys::unique_keys;

impl Reader<'_> {
    pub(super) unsafe fn sources(&mut self) {
        // SAFETY: range table entries are numbered from 1; set operations use entries that no join
        // names.
        unsafe {
            let entries = elements::<pg_sys::RangeTblEntry>(self.q().rtable);
            let mut used = Vec::new();
            if let Some(tree) = NonNull::new(self.q().jointree.cast::<pg_sys::Node>()) {
                self.join_tree(tree, None, &mut used);
            }
            let is_set = !self.q().setOperations.is_null();
            for (number, entry) in (1..).zip(entries) {
                let kind = entry.as_ref().rtekind;
                let member = is_set && kind == pg_sys::RTEKind::RTE_SUBQUERY;
                if kind == pg_sys::RTEKind::RTE_RELATION {
                    self.policies(entry);
                }
                if used.contains(&number) || member {
                    self.source(number, entry);
                } else if number as i32 == self.q().resultRelation {
                    self.relation(entry);
                }
            }
        }
    }

    /// Row-level security.
    unsafe fn policies(&mut self, entry: NonNull<pg_sys::RangeTblEntry>) {
        // SAFETY: a list of expressions.
        unsafe {
            for qual in elements::<pg_sys::Node>(entry.as_ref().securityQuals) {
                self.expression(qual, ELSEWHERE);
            }
        }
    }

    unsafe fn relation(&mut self, entry: NonNull<pg_sys::RangeTblEntry>) {
        // SAFETY: an entry of kind RTE_RELATION names a relation.
        let entry = unsafe { entry.as_ref() };
        self.level.reads_tables = true;
        if entry.relkind as u8 != pg_sys::RELKIND_VIEW && catalog::is_catalog(entry.relid) {
            self.refuse(Construct::SystemCatalog(catalog::display_name(entry.relid)));
        }
        if !entry.tablesample.is_null() {
            self.refuse(Construct::TableSample);
        }
    }

    unsafe fn source(&mut self, number: u32, entry: NonNull<pg_sys::RangeTblEntry>) {
        use pg_sys::RTEKind::*;
        let mut source = Source {
            number,
            needs: Vec::new(),
            one_row: false,
            keys: Vec::new(),
            ordered: false,
        };
        // SAFETY: the kind says which fields of the entry are set.
        unsafe {
            let e = entry.as_ref();
            match e.rtekind {
                RTE_RELATION => {
                    self.relation(entry);
                    source.keys = unique_keys(e.relid);
                }
                RTE_SUBQUERY => {
                    if let Some(query) = NonNull::new(e.subquery) {
                        let level = describe_in(query, self.text, self.scope);
                        source.needs = if e.lateral {
                            columns_of(e.subquery.cast(), 1)
                        } else {
                            Vec::new()
                        };
                        source.one_row = level.one_row();
                        source.keys = level.keys();
                        source.ordered = level.ordered();
                        let place = if e.lateral {
                            Place::Lateral
                        } else {
                            Place::From
                        };
                        self.level.inner.push((place, level));
                    }
                }
                RTE_FUNCTION => self.function_source(entry, &mut source),
                RTE_TABLEFUNC => {
                    self.column_types((*e.tablefunc).coltypes);
                    source.needs = columns_of(e.tablefunc.cast(), 0);
                    source.ordered = true;
                    if let Some(node) = NonNull::new(e.tablefunc.cast()) {
                        self.expression(node, At { in_target: false });
                    }
                }
                RTE_VALUES => {
                    source.needs = columns_of(e.values_lists.cast(), 0);
                    source.one_row = elements::<pg_sys::Node>(e.values_lists).len() == 1;
                    source.ordered = true;
                    self.values(e.values_lists);
                }
                RTE_CTE => {
                    let name = CStr::from_ptr(e.ctename).to_string_lossy();
                    let depth = self.scope.len().checked_sub(1 + e.ctelevelsup as usize);
                    if let Some(named) = depth.and_then(|d| self.scope.get(d)?.get(&*name)) {
                        source.one_row = named.one_row;
                        source.keys = named.keys.clone();
                    }
                }
                RTE_RESULT => source.one_row = true,
                _ => {}
            }
        }
        self.level.sources.push(source);
    }

    /// Columns that the query names types of.
    unsafe fn column_types(&mut self, types: *mut pg_sys::List) {
        // SAFETY: null or a list of oids of types.
        unsafe {
            for of in oids(types) {
                self.of_type(of, -1);
            }
        }
    }

    /// VALUES are computed row by row in the order written, so what they draw is in a level of its
    /// own.
    unsafe fn values(&mut self, lists: *mut pg_sys::List) {
        // SAFETY: a list of lists of expressions.
        unsafe {
            let before = std::mem::take(&mut self.level.calls);
            if let Some(node) = NonNull::new(lists.cast()) {
                self.expression(node, TARGET);
            }
            let mut own = Level::new(Command::Select);
            own.calls = std::mem::replace(&mut self.level.calls, before);
            self.level.inner.push((Place::From, own));
        }
    }

    unsafe fn function_source(
        &mut self,
        entry: NonNull<pg_sys::RangeTblEntry>,
        source: &mut Source,
    ) {
        // SAFETY: functions is a list of RangeTblFunction with one expression each.
        unsafe {
            let e = entry.as_ref();
            source.one_row = true;
            source.ordered = true;
            let mut columns = 0;
            for function_of in elements::<pg_sys::RangeTblFunction>(e.functions) {
                let node = function_of.as_ref().funcexpr;
                columns += function_of.as_ref().funccolcount as i16;
                self.column_types(function_of.as_ref().funccoltypes);
                source.needs.extend(columns_of(node, 0));
                let Some(node) = NonNull::new(node) else {
                    continue;
                };
                if is(node, T_FuncExpr) {
                    let call = node.cast::<pg_sys::FuncExpr>();
                    if call.as_ref().funcretset {
                        source.one_row = false;
                        source.ordered &= function(call.as_ref().funcid).built_in;
                    }
                }
                self.expression(node, At { in_target: true });
            }
            if e.funcordinality {
                source.keys.push(vec![columns + 1]);
            }
        }
    }

    /// Notes the sources used and what the conditions imply. `only`: implications for these sources
    /// alone hold (outer joins).
    unsafe fn join_tree(&mut self, node: NodeAt, only: Option<&[u32]>, used: &mut Vec<u32>) {
        use pg_sys::JoinType::*;
        // SAFETY: a join tree consists of these three kinds of nodes.
        unsafe {
            pg_sys::check_stack_depth();
            if is(node, T_RangeTblRef) {
                used.push(node.cast::<pg_sys::RangeTblRef>().as_ref().rtindex as u32);
            } else if is(node, T_FromExpr) {
                let from = node.cast::<pg_sys::FromExpr>();
                for item in elements::<pg_sys::Node>(from.as_ref().fromlist) {
                    self.join_tree(item, only, used);
                }
                self.condition(from.as_ref().quals, only);
            } else if is(node, T_JoinExpr) {
                let join = node.cast::<pg_sys::JoinExpr>().as_ref();
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (side, into) in [(join.larg, &mut left), (join.rarg, &mut right)] {
                    if let Some(side) = NonNull::new(side) {
                        self.join_tree(side, only, into);
                    }
                }
                match join.jointype {
                    JOIN_INNER => self.condition(join.quals, only),
                    JOIN_LEFT => self.condition(join.quals, Some(&right)),
                    JOIN_RIGHT => self.condition(join.quals, Some(&left)),
                    _ => self.condition(join.quals, Some(&[])),
                }
                used.append(&mut left);
                used.append(&mut right);
            }
        }
    }

    pub(super) unsafe fn condition(&mut self, quals: *mut pg_sys::Node, only: Option<&[u32]>) {
        // SAFETY: null or an expression; implicit ANDs are lists.
        unsafe {
            let Some(node) = NonNull::new(quals) else {
                return;
            };
            self.expression(node, ELSEWHERE);
            let flat = self.flattened(quals);
            self.implications(flat, only);
        }
    }

    unsafe fn implications(&mut self, node: *mut pg_sys::Node, only: Option<&[u32]>) {
        // SAFETY: an expression of this level.
        unsafe {
            let Some(node) = NonNull::new(node) else {
                return;
            };
            if is(node, T_List) {
                for part in elements::<pg_sys::Node>(node.as_ptr().cast()) {
                    self.implications(part.as_ptr(), only);
                }
            } else if is(node, T_BoolExpr) {
                let b = node.cast::<pg_sys::BoolExpr>();
                if b.as_ref().boolop == pg_sys::BoolExprType::AND_EXPR {
                    for part in elements::<pg_sys::Node>(b.as_ref().args) {
                        self.implications(part.as_ptr(), only);
                    }
                }
            } else if is(node, T_OpExpr) {
                let op = node.cast::<pg_sys::OpExpr>().as_ref();
                if let [left, right] = elements::<pg_sys::Node>(op.args)[..] {
                    if pg_sys::op_mergejoinable(op.opno, pg_sys::exprType(left.as_ptr())) {
                        self.implication(left, right, only);
                        self.implication(right, left, only);
                    }
                }
            }
        }
    }

    unsafe fn implication(&mut self, known: NodeAt, given: NodeAt, only: Option<&[u32]>) {
        // SAFETY: both are expressions of this level.
        unsafe {
            let given = bare(given.as_ptr());
            if (*given).type_ != T_Var {
                return;
            }
            let var = &*given.cast::<pg_sys::Var>();
            let source = var.varno as u32;
            let usable = var.varlevelsup == 0
                && var.varattno > 0
                && only.is_none_or(|o| o.contains(&source));
            if !usable || catch_c(|| raw::contain_volatile_functions(known.as_ptr())).or_raise() {
                return;
            }
            self.level.implications.push(Implication {
                needs: columns_of(known.as_ptr(), 0),
                gives: Column {
                    source,
                    number: var.varattno,
                },
            });
        }
    }
}
