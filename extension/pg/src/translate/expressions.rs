//! Expressions.
use std::ptr::NonNull;

use chainify_dialect::query::{Expr, Letters};
use chainify_dialect::types::Type;
use chainify_dialect::Kind;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use super::reader::{function_name, owned, place, Reader, Stop};
use crate::base::collation;
use crate::base::lists::{elements, nodes};
use crate::tree::node::{is, NodeAt};

/// How far columns of an expression stand above where they are written: of a join's columns, which
/// belong to the level of the join.
type Shift = usize;

impl Reader<'_> {
    /// An expression with what is constant computed.
    ///
    /// # Safety
    /// `node` must be an expression of the innermost level.
    pub(super) unsafe fn expression(&mut self, node: *mut pg_sys::Node) -> Result<Expr, Stop> {
        let Some(node) = NonNull::new(node) else {
            return Err(self.refuse(Kind::Form, "an empty expression", None));
        };
        // SAFETY: by the caller's promise.
        unsafe {
            let node = self.folded(node)?;
            self.read(node, 0)
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn list(&mut self, list: *mut pg_sys::List, shift: Shift) -> Result<Vec<Expr>, Stop> {
        // SAFETY: by the caller's promise.
        unsafe { nodes(list) }
            .map(|node| unsafe { self.read(node, shift) })
            .collect()
    }

    /// # Safety
    /// `node` must be an expression of an analysed query, folded or not.
    unsafe fn read(&mut self, node: NodeAt, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: the tag says which structure follows; raises when the stack is nearly used up.
        unsafe {
            pg_sys::check_stack_depth();
            self.count()?;
            let at = place(node);
            // The worker tells all texts apart, wherever they are keys.
            self.order(pg_sys::exprCollation(node.as_ptr()), at)?;
            match node.as_ref().type_ {
                T_Var => self.column(node.cast().as_ref(), shift, at),
                T_Const => self.constant(node.cast().as_ref()),
                T_Param => self.parameter(node.cast().as_ref(), at),
                T_FuncExpr => {
                    let call = node.cast::<pg_sys::FuncExpr>().as_ref();
                    let args = self.list(call.args, shift)?;
                    self.call(node, call.funcid, args, call.inputcollid)
                }
                T_OpExpr => {
                    let call = node.cast::<pg_sys::OpExpr>().as_ref();
                    self.operator(node, call, shift)
                }
                T_DistinctExpr => {
                    let test = self.operator(node, node.cast().as_ref(), shift)?;
                    Ok(Expr::Distinct(Box::new(test)))
                }
                T_NullIfExpr => {
                    let test = self.operator(node, node.cast().as_ref(), shift)?;
                    Ok(Expr::NullIf(Box::new(test)))
                }
                T_ScalarArrayOpExpr => self.of_array(node, shift),
                T_BoolExpr => self.boolean(node.cast().as_ref(), shift),
                T_NullTest => {
                    let test = node.cast::<pg_sys::NullTest>().as_ref();
                    if test.argisrow {
                        return Err(self.refuse(Kind::Row, "IS NULL of a row", at));
                    }
                    let arg = self.part(test.arg, shift)?;
                    let null = test.nulltesttype == pg_sys::NullTestType::IS_NULL;
                    Ok(Expr::IsNull(Box::new(arg), null))
                }
                T_BooleanTest => {
                    let test = node.cast::<pg_sys::BooleanTest>().as_ref();
                    let arg = self.part(test.arg, shift)?;
                    use pg_sys::BoolTestType::*;
                    let words = match test.booltesttype {
                        IS_TRUE => "TRUE",
                        IS_NOT_TRUE => "NOT TRUE",
                        IS_FALSE => "FALSE",
                        IS_NOT_FALSE => "NOT FALSE",
                        IS_UNKNOWN => "UNKNOWN",
                        _ => "NOT UNKNOWN",
                    };
                    Ok(Expr::IsTrue(Box::new(arg), words))
                }
                T_CaseExpr => self.case(node.cast().as_ref(), shift),
                T_CaseTestExpr => match self.case_values.last() {
                    Some(value) => Ok(value.clone()),
                    None => Err(self.refuse(Kind::Form, "CASE of this form", at)),
                },
                T_CoalesceExpr => {
                    let coalesce = node.cast::<pg_sys::CoalesceExpr>().as_ref();
                    let typed = self.typed(coalesce.coalescetype, -1)?;
                    Ok(Expr::Coalesce(self.list(coalesce.args, shift)?, typed))
                }
                T_MinMaxExpr => {
                    let extreme = node.cast::<pg_sys::MinMaxExpr>().as_ref();
                    let greatest = extreme.op == pg_sys::MinMaxOp::IS_GREATEST;
                    let order = self.order(extreme.inputcollid, at)?;
                    Ok(Expr::Extreme(
                        greatest,
                        self.list(extreme.args, shift)?,
                        order,
                    ))
                }
                T_RelabelType => self.relabelled(node.cast().as_ref(), shift, at),
                T_CollateExpr => {
                    let of = node.cast::<pg_sys::CollateExpr>().as_ref();
                    self.part(of.arg, shift)
                }
                T_CoerceViaIO => self.through_text(node.cast().as_ref(), shift, at),
                T_Aggref => self.aggregate(node, shift),
                T_WindowFunc => self.window_function(node, shift),
                T_SubLink => self.sublink(node.cast().as_ref(), shift, at),
                tag => {
                    let kind = format!("{tag:?}");
                    let kind = kind.strip_prefix("T_").unwrap_or(&kind);
                    Err(self.refuse(Kind::Form, &format!("an expression of kind {kind}"), at))
                }
            }
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn part(&mut self, part: *mut pg_sys::Expr, shift: Shift) -> Result<Expr, Stop> {
        match NonNull::new(part.cast()) {
            // SAFETY: by the caller's promise.
            Some(part) => unsafe { self.read(part, shift) },
            None => Err(self.refuse(Kind::Form, "an empty expression", None)),
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn column(
        &mut self,
        var: &pg_sys::Var,
        shift: Shift,
        at: Option<usize>,
    ) -> Result<Expr, Stop> {
        let up = var.varlevelsup as usize + shift;
        let level = self.levels.iter().rev().nth(up).copied();
        // SAFETY: by the caller's promise, the levels are live and the entry is one of the range
        // table.
        unsafe {
            let source = (var.varno as usize).wrapping_sub(1);
            let entry = level.and_then(|level| nodes(level.as_ref().rtable).nth(source));
            let Some(entry) = entry else {
                return Err(self.refuse(Kind::Form, "a column of this form", at));
            };
            let entry = entry.cast::<pg_sys::RangeTblEntry>().as_ref();
            let number = usize::try_from(var.varattno).unwrap_or(0);
            if number == 0 {
                let what = match var.varattno {
                    0 => "a whole row",
                    _ => "a system column",
                };
                return Err(self.refuse(Kind::Row, what, at));
            }
            if entry.rtekind == pg_sys::RTEKind::RTE_JOIN {
                let alias = nodes(entry.joinaliasvars).nth(number - 1);
                return match alias {
                    Some(alias) => self.read(alias, up),
                    None => Err(self.refuse(Kind::Form, "a column of this form", at)),
                };
            }
            let names = entry.eref.as_ref().map(|alias| alias.colnames);
            let name = names.and_then(|names| nodes(names).nth(number - 1));
            let name = name.map(|name| {
                let name = name.cast::<pg_sys::String>();
                owned(name.as_ref().sval)
            });
            self.check_column(entry, var, name.as_deref(), at)?;
            Ok(Expr::Column {
                up,
                source,
                number,
                name: name.unwrap_or_default(),
            })
        }
    }

    /// Refuses a column of a table that the worker does not have.
    fn check_column(
        &self,
        entry: &pg_sys::RangeTblEntry,
        var: &pg_sys::Var,
        name: Option<&str>,
        at: Option<usize>,
    ) -> Result<(), Stop> {
        let mirrored =
            Type::of(var.vartype.to_u32()).is_some_and(|of| of.is_mirrored(var.vartypmod));
        if mirrored || entry.rtekind != pg_sys::RTEKind::RTE_RELATION {
            return Ok(());
        }
        let what = format!(
            "the column \"{}\" of type {}",
            name.unwrap_or_default(),
            type_with_modifier(var.vartype, var.vartypmod)
        );
        Err(self.refuse(Kind::Column, &what, at))
    }

    fn parameter(&self, param: &pg_sys::Param, at: Option<usize>) -> Result<Expr, Stop> {
        match param.paramkind {
            pg_sys::ParamKind::PARAM_SUBLINK if param.paramid == 1 => Ok(Expr::RowOfSubquery),
            pg_sys::ParamKind::PARAM_EXTERN => {
                self.parameters.missing.set(true);
                Err(self.refuse(
                    Kind::Parameter,
                    &format!("the parameter ${}", param.paramid),
                    at,
                ))
            }
            _ => Err(self.refuse(Kind::Form, "a parameter of this form", at)),
        }
    }

    /// Name of a collation unless its order is that of bytes; refuses one that takes different
    /// texts as equal.
    pub(super) fn order(&self, of: pg_sys::Oid, at: Option<usize>) -> Result<Option<String>, Stop> {
        match collation::nondeterministic(of) {
            Some(name) => {
                Err(self.refuse(Kind::Nondeterministic, &format!("collation \"{name}\""), at))
            }
            None => Ok(collation::local(of)),
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn call(
        &mut self,
        node: NodeAt,
        function: pg_sys::Oid,
        args: Vec<Expr>,
        collation: pg_sys::Oid,
    ) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        let (at, of, typmod) = unsafe {
            (
                place(node),
                pg_sys::exprType(node.as_ptr()),
                pg_sys::exprTypmod(node.as_ptr()),
            )
        };
        if Type::of(of.to_u32()).is_none() {
            return Err(self.refuse(Kind::Function, &function_name(function), at));
        }
        Ok(Expr::Call {
            function: function.to_u32(),
            shown: function_name(function),
            args,
            typed: self.typed(of, typmod)?,
            order: self.order(collation, at)?,
            letters: letters(collation),
            at,
        })
    }

    /// # Safety
    /// As for [`Reader::read`]; of DISTINCT and NULLIF the call is that of the equality.
    unsafe fn operator(
        &mut self,
        node: NodeAt,
        call: &pg_sys::OpExpr,
        shift: Shift,
    ) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise; a catalog look-up.
        unsafe {
            let function = match call.opfuncid {
                pg_sys::InvalidOid => pg_sys::get_opcode(call.opno),
                function => function,
            };
            let args = self.list(call.args, shift)?;
            let shown = self.shown_operator(call.opno);
            let at = place(node);
            if Type::of(call.opresulttype.to_u32()).is_none() {
                return Err(self.refuse(Kind::Function, &shown, at));
            }
            // The type of NULLIF is that of its first argument; the test is a boolean all the same.
            let of = match is(node, T_OpExpr) {
                true => call.opresulttype,
                false => pg_sys::BOOLOID,
            };
            Ok(Expr::Call {
                function: function.to_u32(),
                shown,
                args,
                typed: self.typed(of, -1)?,
                order: self.order(call.inputcollid, at)?,
                letters: letters(call.inputcollid),
                at,
            })
        }
    }

    /// An operator with the types of its operands.
    fn shown_operator(&self, operator: pg_sys::Oid) -> String {
        // SAFETY: catalog look-ups; the name is null or a fresh C string.
        unsafe {
            let (mut left, mut right) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
            pg_sys::op_input_types(operator, &mut left, &mut right);
            let name = owned(pg_sys::get_opname(operator));
            let right = super::constants::type_name(right);
            match left {
                pg_sys::InvalidOid => format!("{name} {right}"),
                left => format!("{} {name} {right}", super::constants::type_name(left)),
            }
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn of_array(&mut self, node: NodeAt, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise; it has two arguments.
        unsafe {
            let test = node.cast::<pg_sys::ScalarArrayOpExpr>().as_ref();
            let at = place(node);
            let args: Vec<NodeAt> = nodes(test.args).collect();
            let [left, array] = args.as_slice() else {
                return Err(self.refuse(Kind::Array, "ANY of this form", at));
            };
            let rights = match array.as_ref().type_ {
                T_Const => self.array(array.cast().as_ref())?,
                T_ArrayExpr => {
                    let array = array.cast::<pg_sys::ArrayExpr>().as_ref();
                    if array.multidims {
                        return Err(self.refuse(Kind::Array, "ANY of an array of arrays", at));
                    }
                    self.list(array.elements, shift)?
                }
                _ => {
                    return Err(self.refuse(
                        Kind::Array,
                        "ANY of an array that is not constant",
                        at,
                    ))
                }
            };
            let function = match test.opfuncid {
                pg_sys::InvalidOid => pg_sys::get_opcode(test.opno),
                function => function,
            };
            let left = self.read(*left, shift)?;
            let (shown, order) = (
                self.shown_operator(test.opno),
                self.order(test.inputcollid, at)?,
            );
            let typed = self.typed(pg_sys::BOOLOID, -1)?;
            let element = |right| Expr::Call {
                function: function.to_u32(),
                shown: shown.clone(),
                args: vec![left.clone(), right],
                typed,
                order: order.clone(),
                letters: letters(test.inputcollid),
                at,
            };
            Ok(Expr::List {
                elements: rights.into_iter().map(element).collect(),
                any: test.useOr,
            })
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn boolean(&mut self, of: &pg_sys::BoolExpr, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        let mut args = unsafe { self.list(of.args, shift)? };
        Ok(match of.boolop {
            pg_sys::BoolExprType::AND_EXPR => Expr::And(args),
            pg_sys::BoolExprType::OR_EXPR => Expr::Or(args),
            _ => match args.pop() {
                Some(arg) => Expr::Not(Box::new(arg)),
                None => return Err(self.refuse(Kind::Form, "NOT of this form", None)),
            },
        })
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn case(&mut self, case: &pg_sys::CaseExpr, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        unsafe {
            let typed = self.typed(case.casetype, -1)?;
            let value = match case.arg.is_null() {
                true => None,
                false => Some(self.part(case.arg, shift)?),
            };
            let with_value = value.is_some();
            self.case_values.extend(value);
            let mut when = Vec::new();
            for part in elements::<pg_sys::CaseWhen>(case.args) {
                let part = part.as_ref();
                when.push((self.part(part.expr, shift)?, self.part(part.result, shift)?));
            }
            if with_value {
                self.case_values.pop();
            }
            let otherwise = match case.defresult.is_null() {
                true => None,
                false => Some(Box::new(self.part(case.defresult, shift)?)),
            };
            Ok(Expr::Case {
                when,
                otherwise,
                typed,
            })
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn relabelled(
        &mut self,
        of: &pg_sys::RelabelType,
        shift: Shift,
        at: Option<usize>,
    ) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        let from = unsafe { pg_sys::exprType(of.arg.cast()) };
        match (Type::of(from.to_u32()), Type::of(of.resulttype.to_u32())) {
            // SAFETY: as above.
            (Some(from), Some(to)) if from == to => unsafe { self.part(of.arg, shift) },
            _ => {
                let to = super::constants::type_name(of.resulttype);
                let from = super::constants::type_name(from);
                Err(self.refuse(Kind::Cast, &format!("a cast of {from} to {to}"), at))
            }
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn through_text(
        &mut self,
        of: &pg_sys::CoerceViaIO,
        shift: Shift,
        at: Option<usize>,
    ) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        let from = unsafe { pg_sys::exprType(of.arg.cast()) };
        use Type::*;
        let known = matches!(
            Type::of(from.to_u32()),
            Some(Int2 | Int4 | Int8 | Numeric | Uuid | Text)
        );
        if known && Type::of(of.resulttype.to_u32()) == Some(Text) {
            // SAFETY: as above.
            return Ok(Expr::ToText(Box::new(unsafe { self.part(of.arg, shift)? })));
        }
        let to = super::constants::type_name(of.resulttype);
        let from = super::constants::type_name(from);
        Err(self.refuse(Kind::Cast, &format!("a cast of {from} to {to}"), at))
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn aggregate(&mut self, node: NodeAt, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise; arguments are target entries.
        unsafe {
            let of = node.cast::<pg_sys::Aggref>().as_ref();
            let at = place(node);
            let shown = function_name(of.aggfnoid);
            if of.agglevelsup != 0 {
                return Err(self.refuse(
                    Kind::Aggregate,
                    &format!("{shown} of an outer query"),
                    at,
                ));
            }
            let targets = elements::<pg_sys::TargetEntry>(of.args);
            // WITHIN GROUP sorts the arguments; the direct ones stand before it.
            let within = of.aggkind as u8 == b'o';
            if !within && of.aggkind as u8 != b'n' {
                return Err(self.refuse_function(of.aggfnoid, node));
            }
            let mut args = match within {
                true => self.list(of.aggdirectargs, shift)?,
                false => Vec::new(),
            };
            for target in targets.iter().filter(|t| !within && !t.as_ref().resjunk) {
                args.push(self.part(target.as_ref().expr, shift)?);
            }
            let mut sorted = Vec::new();
            for order in self.order_by(&targets, of.aggorder)? {
                let key = targets[order.target].as_ref().expr;
                sorted.push((self.part(key, shift)?, order));
            }
            let filter = match of.aggfilter.is_null() {
                true => None,
                false => Some(Box::new(self.part(of.aggfilter, shift)?)),
            };
            Ok(Expr::Aggregate {
                function: of.aggfnoid.to_u32(),
                shown,
                args,
                distinct: !of.aggdistinct.is_null(),
                sorted,
                filter,
                order: self.order(of.inputcollid, at)?,
                at,
                window: None,
            })
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn window_function(&mut self, node: NodeAt, shift: Shift) -> Result<Expr, Stop> {
        // SAFETY: by the caller's promise.
        unsafe {
            let of = node.cast::<pg_sys::WindowFunc>().as_ref();
            let at = place(node);
            let filter = match of.aggfilter.is_null() {
                true => None,
                false => Some(Box::new(self.part(of.aggfilter, shift)?)),
            };
            Ok(Expr::Aggregate {
                function: of.winfnoid.to_u32(),
                shown: function_name(of.winfnoid),
                args: self.list(of.args, shift)?,
                distinct: false,
                sorted: Vec::new(),
                filter,
                order: self.order(of.inputcollid, at)?,
                at,
                window: (of.winref as usize).checked_sub(1),
            })
        }
    }

    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn sublink(
        &mut self,
        link: &pg_sys::SubLink,
        shift: Shift,
        at: Option<usize>,
    ) -> Result<Expr, Stop> {
        use pg_sys::SubLinkType::*;
        let Some(query) = NonNull::new(link.subselect.cast::<pg_sys::Query>()) else {
            return Err(self.refuse(Kind::Form, "a subquery of this form", at));
        };
        // SAFETY: by the caller's promise; after analysis the subselect is a query.
        unsafe {
            match link.subLinkType {
                EXISTS_SUBLINK => Ok(Expr::Exists(Box::new(self.query_of_exists(query)?))),
                EXPR_SUBLINK => Ok(Expr::Scalar(Box::new(self.query(query)?))),
                ANY_SUBLINK => {
                    let test = NonNull::new(link.testexpr).filter(|test| is(*test, T_OpExpr));
                    let Some(test) = test else {
                        return Err(self.refuse(
                            Kind::Subquery,
                            "IN (SELECT …) of several columns",
                            at,
                        ));
                    };
                    let test = self.read(test, shift)?;
                    Ok(Expr::In(Box::new(test), Box::new(self.query(query)?)))
                }
                ALL_SUBLINK => Err(self.refuse(Kind::Subquery, "ALL (SELECT …)", at)),
                ARRAY_SUBLINK => Err(self.refuse(Kind::Subquery, "ARRAY (SELECT …)", at)),
                _ => Err(self.refuse(Kind::Subquery, "a subquery of several columns", at)),
            }
        }
    }
}

fn letters(of: pg_sys::Oid) -> Letters {
    match collation::letters(of).as_str() {
        "C" | "POSIX" => Letters::Ascii,
        "C.UTF-8" | "C.utf8" => Letters::Unicode,
        _ => Letters::Other,
    }
}

fn type_with_modifier(of: pg_sys::Oid, typmod: i32) -> String {
    // SAFETY: a catalog look-up that knows every number; a fresh C string.
    unsafe { owned(pg_sys::format_type_with_typemod(of, typmod)) }
}
