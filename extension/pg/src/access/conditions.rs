//! The limits that conditions, outputs of subqueries and values put on columns.
use std::ptr::NonNull;

use chainify_sched::template::{Fit, Limit, Operand};
use chainify_sched::value::{Class, Value};
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::access::columns::{Entry, Known, Node};
use crate::access::value::{class_of, value_of};
use crate::access::{Place, Reader};
use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::base::major;
use crate::tree::node::{is, NodeAt};
use crate::tree::tree_walkers::without_groups;

/// Values of one condition.
const VALUES_MAX: usize = 256;

/// Casts between integers, which keep the value or fail; and from integers to numeric.
const INTEGER_CASTS: [u32; 6] = [480, 481, 754, 714, 313, 314];
const TO_NUMERIC: [u32; 3] = [1740, 1781, 1782];
/// Casts to a type of bounded length.
const TO_CHAR: u32 = 668;
const TO_VARCHAR: u32 = 669;
const TO_SCALE: u32 = 1703;
/// `VARHDRSZ`, which type modifiers count.
const HEADER: i32 = 4;

/// The limit that a condition puts on a column.
enum Fact {
    Limit(Limit),
    EqualTo(Node),
}

/// A column in an expression.
struct Column {
    node: Node,
    entry: Entry,
    class: Class,
    oid: pg_sys::Oid,
}

impl Reader {
    /// Notes the entries that an outer join may make NULL, and collects all entries below `tree`.
    pub(super) unsafe fn nullable(
        &mut self,
        tree: NodeAt,
        level: usize,
        inside: bool,
        found: &mut Vec<u32>,
    ) {
        use pg_sys::JoinType::*;
        // SAFETY: a join tree consists of these three kinds of nodes.
        unsafe {
            pg_sys::check_stack_depth();
            if is(tree, T_RangeTblRef) {
                let number = tree.cast::<pg_sys::RangeTblRef>().as_ref().rtindex as u32;
                found.push(number);
                if inside {
                    self.columns.set_nullable((level, number));
                }
            } else if is(tree, T_FromExpr) {
                for item in elements(tree.cast::<pg_sys::FromExpr>().as_ref().fromlist) {
                    self.nullable(item, level, inside, found);
                }
            } else if is(tree, T_JoinExpr) {
                let join = tree.cast::<pg_sys::JoinExpr>().as_ref();
                let left = matches!(join.jointype, JOIN_RIGHT | JOIN_FULL);
                let right = matches!(join.jointype, JOIN_LEFT | JOIN_FULL);
                for (side, null) in [(join.larg, left), (join.rarg, right)] {
                    if let Some(side) = NonNull::new(side) {
                        self.nullable(side, level, inside || null, found);
                    }
                }
            }
        }
    }

    /// Reads the conditions of a join tree. `only`: what they say holds for these entries alone.
    pub(super) unsafe fn join_tree(
        &mut self,
        query: NonNull<pg_sys::Query>,
        tree: NodeAt,
        only: Option<&[u32]>,
        place: &Place,
        found: &mut Vec<u32>,
    ) {
        use pg_sys::JoinType::*;
        // SAFETY: a join tree consists of these three kinds of nodes.
        unsafe {
            pg_sys::check_stack_depth();
            if is(tree, T_RangeTblRef) {
                found.push(tree.cast::<pg_sys::RangeTblRef>().as_ref().rtindex as u32);
            } else if is(tree, T_FromExpr) {
                let from = tree.cast::<pg_sys::FromExpr>();
                for item in elements(from.as_ref().fromlist) {
                    self.join_tree(query, item, None, place, found);
                }
                self.condition(query, from.as_ref().quals, only, place);
            } else if is(tree, T_JoinExpr) {
                let join = tree.cast::<pg_sys::JoinExpr>().as_ref();
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (side, into) in [(join.larg, &mut left), (join.rarg, &mut right)] {
                    if let Some(side) = NonNull::new(side) {
                        self.join_tree(query, side, None, place, into);
                    }
                }
                // A row of the side that is kept counts whether or not the condition holds.
                let only = match join.jointype {
                    JOIN_INNER => None,
                    JOIN_LEFT => Some(&right[..]),
                    JOIN_RIGHT => Some(&left[..]),
                    _ => Some(&[][..]),
                };
                self.condition(query, join.quals, only, place);
                found.append(&mut left);
                found.append(&mut right);
            }
        }
    }

    pub(super) unsafe fn condition(
        &mut self,
        query: NonNull<pg_sys::Query>,
        node: *mut pg_sys::Node,
        only: Option<&[u32]>,
        place: &Place,
    ) {
        if node.is_null() {
            return;
        }
        // SAFETY: an expression of this query.
        unsafe {
            let flat = self.flattened(query, node);
            for (node, fact) in self.facts(flat, only, place) {
                match fact {
                    Fact::Limit(limit) => self.columns.limit(node, limit),
                    Fact::EqualTo(other) => self.columns.equal(node, other),
                }
            }
            self.expressions(flat, place);
        }
    }

    /// The limits on columns that follow from a condition that holds.
    unsafe fn facts(
        &mut self,
        node: *mut pg_sys::Node,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Vec<(Node, Fact)> {
        let Some(node) = NonNull::new(node) else {
            return Vec::new();
        };
        // SAFETY: the tag says which structure follows.
        unsafe {
            pg_sys::check_stack_depth();
            match node.as_ref().type_ {
                T_List => self.all(node.as_ptr().cast(), only, place),
                T_BoolExpr => {
                    let expression = node.cast::<pg_sys::BoolExpr>().as_ref();
                    match expression.boolop {
                        pg_sys::BoolExprType::AND_EXPR => self.all(expression.args, only, place),
                        pg_sys::BoolExprType::OR_EXPR => self.any(expression.args, only, place),
                        _ => Vec::new(),
                    }
                }
                T_OpExpr => self.comparison(node.cast::<pg_sys::OpExpr>().as_ref(), only, place),
                T_ScalarArrayOpExpr => self.membership(
                    node.cast::<pg_sys::ScalarArrayOpExpr>().as_ref(),
                    only,
                    place,
                ),
                T_NullTest => {
                    let test = node.cast::<pg_sys::NullTest>().as_ref();
                    let null = test.nulltesttype == pg_sys::NullTestType::IS_NULL && !test.argisrow;
                    match self.own_column(test.arg.cast(), only, place) {
                        // A row that is not NULL there keeps the join from making one up.
                        Some(c) if null && !self.columns.is_nullable(c.entry) => {
                            let is = Limit::Is(vec![Operand::Constant(Value::Null)]);
                            vec![(c.node, Fact::Limit(is))]
                        }
                        _ => Vec::new(),
                    }
                }
                _ => Vec::new(),
            }
        }
    }

    unsafe fn all(
        &mut self,
        list: *mut pg_sys::List,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Vec<(Node, Fact)> {
        let mut facts = Vec::new();
        // SAFETY: a list of expressions.
        unsafe {
            for node in elements::<pg_sys::Node>(list) {
                facts.extend(self.facts(node.as_ptr(), only, place));
            }
        }
        facts
    }

    /// Of alternatives: a column that each of them makes equal to something is equal to one of
    /// these.
    unsafe fn any(
        &mut self,
        list: *mut pg_sys::List,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Vec<(Node, Fact)> {
        // SAFETY: a list of expressions.
        let arms: Vec<Vec<(Node, Vec<Operand>)>> = unsafe {
            let mut arms = Vec::new();
            for node in elements::<pg_sys::Node>(list) {
                let facts = self.facts(node.as_ptr(), only, place);
                let equal = facts.into_iter().filter_map(|(node, fact)| match fact {
                    Fact::Limit(Limit::Equal(operands)) => Some((node, operands)),
                    _ => None,
                });
                arms.push(equal.collect());
            }
            arms
        };
        let Some((first, others)) = arms.split_first() else {
            return Vec::new();
        };
        let mut facts = Vec::new();
        for (node, operands) in first {
            let mut together = operands.clone();
            let in_all = others.iter().all(|arm| {
                let found = arm.iter().find(|(of, _)| of == node);
                together.extend(found.iter().flat_map(|(_, operands)| operands.clone()));
                found.is_some()
            });
            if in_all && together.len() <= VALUES_MAX {
                facts.push((*node, Fact::Limit(Limit::Equal(together))));
            }
        }
        facts
    }

    unsafe fn comparison(
        &mut self,
        op: &pg_sys::OpExpr,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Vec<(Node, Fact)> {
        let mut facts = Vec::new();
        // SAFETY: operands of an operator are expressions of this query; the rest are catalog
        // look-ups.
        unsafe {
            let [left, right] = elements::<pg_sys::Node>(op.args)[..] else {
                return facts;
            };
            let turned = pg_sys::get_commutator(op.opno);
            for (column, other, operator) in [(left, right, op.opno), (right, left, turned)] {
                let Some(column) = self.own_column(column.as_ptr(), only, place) else {
                    continue;
                };
                let Some(strategy) = strategy(&column, operator, op.inputcollid) else {
                    continue;
                };
                let fact = match self.known(other.as_ptr(), place) {
                    Some(Known::Operand(operand)) => Fact::Limit(match strategy {
                        1 => Limit::Upper(operand, false),
                        2 => Limit::Upper(operand, true),
                        3 => Limit::Equal(vec![operand]),
                        4 => Limit::Lower(operand, true),
                        _ => Limit::Lower(operand, false),
                    }),
                    Some(Known::Column(node, None)) if strategy == 3 => Fact::EqualTo(node),
                    Some(Known::Element(array)) if strategy == 3 => {
                        Fact::Limit(Limit::Element(array, false))
                    }
                    _ => continue,
                };
                facts.push((column.node, fact));
            }
        }
        facts
    }

    /// `column = ANY (array)`, which IN is too.
    unsafe fn membership(
        &mut self,
        op: &pg_sys::ScalarArrayOpExpr,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Vec<(Node, Fact)> {
        // SAFETY: as for `comparison`; an ARRAY's elements are expressions.
        unsafe {
            let [column, array] = elements::<pg_sys::Node>(op.args)[..] else {
                return Vec::new();
            };
            let Some(column) = self.own_column(column.as_ptr(), only, place) else {
                return Vec::new();
            };
            if !op.useOr || strategy(&column, op.opno, op.inputcollid) != Some(3) {
                return Vec::new();
            }
            let array = bare(array.as_ptr());
            let limit = if (*array).type_ == T_ArrayExpr {
                let values =
                    elements::<pg_sys::Node>((*array.cast::<pg_sys::ArrayExpr>()).elements);
                let known = values
                    .iter()
                    .map(|value| match self.known(value.as_ptr(), place) {
                        Some(Known::Operand(operand)) => Some(operand),
                        _ => None,
                    });
                known
                    .collect::<Option<Vec<_>>>()
                    .filter(|values| values.len() <= VALUES_MAX)
                    .map(Limit::Equal)
            } else {
                match self.known(array, place) {
                    Some(Known::Operand(operand)) => Some(Limit::Element(operand, false)),
                    _ => None,
                }
            };
            let fact = limit.map(|limit| (column.node, Fact::Limit(limit)));
            fact.into_iter().collect()
        }
    }

    /// A column of this level that facts may be noted about.
    unsafe fn own_column(
        &mut self,
        node: *mut pg_sys::Node,
        only: Option<&[u32]>,
        place: &Place,
    ) -> Option<Column> {
        // SAFETY: an expression of this level's query.
        unsafe {
            let node = without_integer_casts(node);
            if node.is_null() || (*node).type_ != T_Var {
                return None;
            }
            let var = &*node.cast::<pg_sys::Var>();
            let number = var.varno as u32;
            if var.varlevelsup != 0
                || var.varattno <= 0
                || only.is_some_and(|o| !o.contains(&number))
            {
                return None;
            }
            let entry = (*place.around.last()?, number);
            Some(Column {
                node: self.columns.node(entry, var.varattno, var.vartype),
                entry,
                class: class_of(var.vartype)?,
                oid: var.vartype,
            })
        }
    }

    /// The known facts about the value of an expression.
    pub(super) unsafe fn known(&mut self, node: *mut pg_sys::Node, place: &Place) -> Option<Known> {
        // SAFETY: the tag says which structure follows.
        unsafe {
            let node = bare(node);
            if node.is_null() {
                return None;
            }
            match (*node).type_ {
                T_Const => {
                    let constant = &*node.cast::<pg_sys::Const>();
                    let datum = (!constant.constisnull).then_some(constant.constvalue);
                    Some(Known::Operand(Operand::Constant(value_of(
                        datum,
                        constant.consttype,
                    ))))
                }
                T_Param => {
                    let param = &*node.cast::<pg_sys::Param>();
                    let number = usize::try_from(param.paramid).ok()?.checked_sub(1)?;
                    let external = param.paramkind == pg_sys::ParamKind::PARAM_EXTERN;
                    place
                        .parameters
                        .values
                        .get(number)
                        .filter(|_| external)?
                        .clone()
                }
                T_Var => {
                    let var = &*node.cast::<pg_sys::Var>();
                    let depth = place
                        .around
                        .len()
                        .checked_sub(1 + var.varlevelsup as usize)?;
                    let entry = (*place.around.get(depth)?, var.varno as u32);
                    (var.varattno > 0).then(|| {
                        Known::Column(self.columns.node(entry, var.varattno, var.vartype), None)
                    })
                }
                T_FuncExpr => {
                    let call = &*node.cast::<pg_sys::FuncExpr>();
                    let arguments = elements::<pg_sys::Node>(call.args);
                    let inner = arguments.first()?.as_ptr();
                    let number = call.funcid.to_u32();
                    if INTEGER_CASTS.contains(&number) || TO_NUMERIC.contains(&number) {
                        let known = self.known(inner, place)?;
                        // A column keeps its class, and a numeric is of another.
                        let operand = matches!(known, Known::Operand(_));
                        return (operand || INTEGER_CASTS.contains(&number)).then_some(known);
                    }
                    let fit = fit(number, arguments.get(1)?.as_ptr())?;
                    self.known(inner, place)?.fitted(Some(fit))
                }
                T_SubscriptingRef => {
                    let part = &*node.cast::<pg_sys::SubscriptingRef>();
                    let one = part.reflowerindexpr.is_null()
                        && part.refassgnexpr.is_null()
                        && elements::<pg_sys::Node>(part.refupperindexpr).len() == 1
                        && pg_sys::get_element_type(part.refcontainertype) != pg_sys::InvalidOid;
                    let Known::Operand(array) = self.known(part.refexpr.cast(), place)? else {
                        return None;
                    };
                    let number = elements::<pg_sys::Node>(part.refupperindexpr)
                        .first()
                        .copied();
                    match self.known(number.filter(|_| one)?.as_ptr(), place) {
                        Some(Known::Operand(number)) => Some(Known::Operand(Operand::At(
                            Box::new(array),
                            Box::new(number),
                        ))),
                        _ => Some(Known::Element(array)),
                    }
                }
                _ => None,
            }
        }
    }

    /// Ties the columns of a subquery to those it selects.
    pub(super) unsafe fn outputs(
        &mut self,
        query: NonNull<pg_sys::Query>,
        level: usize,
        entry: Entry,
        place: &Place,
    ) {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let query = catch_c(|| without_groups(query)).or_raise();
            let q = query.as_ref();
            if !q.setOperations.is_null() {
                // Each member is tied to its own level's columns; those are of this entry.
                self.members(query, level, entry);
                return;
            }
            if q.commandType != pg_sys::CmdType::CMD_SELECT || !q.groupingSets.is_null() {
                return;
            }
            // A condition on the result may be asked of the rows only where leaving rows out
            // changes no other row.
            let picks = !q.limitCount.is_null()
                || !q.limitOffset.is_null()
                || q.hasDistinctOn
                || q.hasWindowFuncs
                || !q.rowMarks.is_null();
            let grouped = q.hasAggs || !q.groupClause.is_null() || !q.havingQual.is_null();
            let mut inside = place.clone();
            inside.around.push(level);
            for target in elements::<pg_sys::TargetEntry>(q.targetList) {
                let target = target.as_ref();
                if target.resjunk {
                    continue;
                }
                let expression = self.flattened(query, target.expr.cast());
                let oid = pg_sys::exprType(expression);
                let outer = self.columns.node(entry, target.resno, oid);
                let key = elements::<pg_sys::SortGroupClause>(q.groupClause)
                    .iter()
                    .any(|g| {
                        target.ressortgroupref != 0
                            && g.as_ref().tleSortGroupRef == target.ressortgroupref
                    });
                match self.known(expression, &inside) {
                    Some(Known::Operand(operand)) => {
                        self.columns.limit(outer, Limit::Is(vec![operand]))
                    }
                    Some(Known::Column(inner, None)) => {
                        self.columns.equal(outer, inner);
                        let var = without_integer_casts(expression).cast::<pg_sys::Var>();
                        if (*var).varlevelsup == 0 && !picks && (!grouped || key) {
                            self.columns.equal(inner, outer);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// A set operation's members are entries of its own range table; what is asked of its result is
    /// asked of theirs.
    unsafe fn members(&mut self, query: NonNull<pg_sys::Query>, level: usize, entry: Entry) {
        // SAFETY: the fields of a query are what parsenodes.h says.
        unsafe {
            let q = query.as_ref();
            if !q.limitCount.is_null() || !q.limitOffset.is_null() || !q.rowMarks.is_null() {
                return;
            }
            let columns = elements::<pg_sys::TargetEntry>(q.targetList);
            for (number, member) in (1..).zip(elements::<pg_sys::RangeTblEntry>(q.rtable)) {
                let Some(member) = member.as_ref().subquery.as_ref() else {
                    continue;
                };
                for (outer, inner) in columns
                    .iter()
                    .zip(elements::<pg_sys::TargetEntry>(member.targetList))
                {
                    let (outer, inner) = (outer.as_ref(), inner.as_ref());
                    let oids = [outer, inner].map(|target| pg_sys::exprType(target.expr.cast()));
                    let outer = self.columns.node(entry, outer.resno, oids[0]);
                    let inner = self.columns.node((level, number), inner.resno, oids[1]);
                    self.columns.equal(inner, outer);
                }
            }
        }
    }

    /// The columns of VALUES are one of those written.
    pub(super) unsafe fn values(&mut self, lists: *mut pg_sys::List, entry: Entry, place: &Place) {
        // SAFETY: a list of lists of as many expressions.
        unsafe {
            let rows: Vec<Vec<NodeAt>> = elements::<pg_sys::List>(lists)
                .into_iter()
                .map(|row| elements(row.as_ptr()))
                .collect();
            if rows.len() > VALUES_MAX {
                return;
            }
            let columns = rows.iter().map(Vec::len).min().unwrap_or(0);
            let Some(first) = rows.first() else { return };
            for column in 0..columns {
                let operands =
                    rows.iter()
                        .map(|row| match self.known(row[column].as_ptr(), place) {
                            Some(Known::Operand(operand)) => Some(operand),
                            _ => None,
                        });
                if let Some(operands) = operands.collect::<Option<Vec<_>>>() {
                    let node = self.columns.node(
                        entry,
                        column as i16 + 1,
                        pg_sys::exprType(first[column].as_ptr()),
                    );
                    self.columns.limit(node, Limit::Is(operands));
                }
            }
        }
    }
}

/// Without what changes no value: relabelling, COLLATE, a domain's checks.
pub(super) unsafe fn bare(mut node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: null or an expression.
    unsafe {
        while !node.is_null() {
            node = match (*node).type_ {
                T_RelabelType => (*node.cast::<pg_sys::RelabelType>()).arg.cast(),
                T_CollateExpr => (*node.cast::<pg_sys::CollateExpr>()).arg.cast(),
                T_CoerceToDomain => (*node.cast::<pg_sys::CoerceToDomain>()).arg.cast(),
                _ => return node,
            }
        }
        node
    }
}

unsafe fn without_integer_casts(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: null or an expression; a cast has its argument first.
    unsafe {
        let mut node = bare(node);
        while !node.is_null() && (*node).type_ == T_FuncExpr {
            let call = &*node.cast::<pg_sys::FuncExpr>();
            let arguments = elements::<pg_sys::Node>(call.args);
            match arguments.first() {
                Some(inner) if INTEGER_CASTS.contains(&call.funcid.to_u32()) => {
                    node = bare(inner.as_ptr())
                }
                _ => break,
            }
        }
        node
    }
}

/// The bound of a cast to a type of bounded length.
unsafe fn fit(cast: u32, modifier: *mut pg_sys::Node) -> Option<Fit> {
    // SAFETY: an expression.
    unsafe {
        if modifier.is_null() || (*modifier).type_ != T_Const {
            return None;
        }
        let modifier = (*modifier.cast::<pg_sys::Const>()).constvalue.value() as i32 - HEADER;
        match cast {
            TO_CHAR | TO_VARCHAR => usize::try_from(modifier).ok().map(Fit::Characters),
            // Eleven bits with a sign.
            TO_SCALE if modifier >= 0 && modifier & 0x400 == 0 => {
                Some(Fit::Scale((modifier & 0x7ff) as usize))
            }
            _ => None,
        }
    }
}

/// The comparison that an operator makes with a column, as a B-tree's strategy: 1 <, 2 <=, 3 =, 4
/// >=, 5 >; None when the bytes do not tell.
unsafe fn strategy(column: &Column, operator: pg_sys::Oid, collation: pg_sys::Oid) -> Option<i32> {
    // SAFETY: catalog look-ups.
    unsafe {
        let base = pg_sys::getBaseType(column.oid);
        let class = pg_sys::GetDefaultOpClass(base, pg_sys::BTREE_AM_OID);
        let strategy =
            pg_sys::get_op_opfamily_strategy(operator, pg_sys::get_opclass_family(class));
        let text = matches!(column.class, Class::Text | Class::Padded);
        if text
            && (collation == pg_sys::InvalidOid
                || !pg_sys::get_collation_isdeterministic(collation))
        {
            return None;
        }
        let by_bytes = match column.class {
            Class::Symbol => false,
            Class::Text | Class::Padded => major::orders_by_bytes(collation),
            _ => true,
        };
        (strategy == 3 || (1..=5).contains(&strategy) && by_bytes).then_some(strategy)
    }
}
