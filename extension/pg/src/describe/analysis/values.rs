//! Finds values whose types are refused, or whose texts two databases may read differently.
use std::ffi::CStr;
use std::ptr::NonNull;

use chainify_rules::catalog::{is_own_of_text_search, OF_USERS};
use chainify_rules::functions::of_text_search;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use crate::base::collation;
use crate::base::error::{catch_c, OrRaise};
use crate::base::lists::elements;
use crate::describe::analysis::{is, Reader, ELSEWHERE};
use crate::describe::function_facts::function;
use crate::describe::query_level::*;
use crate::describe::type_parts::parts;
use crate::tree::node::{children, functions, NodeAt};

impl Reader<'_> {
    /// Notes the findings that the type of a node's value makes.
    pub(super) unsafe fn value(&mut self, node: NodeAt) {
        // SAFETY: the tag says which structure follows; each of these is an expression.
        unsafe {
            let gives = matches!(
                node.as_ref().type_,
                T_Var
                    | T_Const
                    | T_Param
                    | T_FuncExpr
                    | T_OpExpr
                    | T_FieldSelect
                    | T_RelabelType
                    | T_CoerceViaIO
                    | T_ArrayCoerceExpr
                    | T_ConvertRowtypeExpr
                    | T_CoerceToDomain
                    | T_CoerceToDomainValue
                    | T_Aggref
                    | T_WindowFunc
            );
            if !gives {
                return;
            }
            let at = node.as_ptr();
            let of = pg_sys::exprType(at);
            self.of_type(of, pg_sys::exprTypmod(at));
            match node.as_ref().type_ {
                T_Const | T_Param | T_CoerceViaIO => {
                    self.read_from_text(of);
                    self.words(node, of);
                    self.arguments(node);
                }
                T_FuncExpr | T_OpExpr | T_Aggref | T_WindowFunc => self.arguments(node),
                T_CoerceToDomain => self.domain(of),
                _ => (),
            }
        }
    }

    /// Refuses a type whose values are, or hold, numbers of objects of one database.
    pub(super) unsafe fn of_type(&mut self, of: pg_sys::Oid, typmod: i32) {
        // SAFETY: a type of an analysed query.
        if let Some(name) = unsafe { parts(of, typmod) }.and_then(|p| p.object_identifier) {
            self.refuse(Construct::ObjectIdentifier(name.into()));
        }
    }

    /// The functions that read a literal, or a text, of types of extensions: no call shows them.
    unsafe fn read_from_text(&mut self, of: pg_sys::Oid) {
        // SAFETY: a type of an analysed query; each part is one that there is.
        unsafe {
            for part in parts(of, -1).map_or_else(Vec::new, |p| p.of_users) {
                let (mut reads, mut parameter) = Default::default();
                catch_c(|| pg_sys::getTypeInputInfo(part, &mut reads, &mut parameter)).or_raise();
                self.unseen_call(reads);
            }
        }
    }

    /// Functions of PostgreSQL that take any value call those that write it as text. Functions that
    /// follow a path of jsonpath take its regular expressions as the database's collation classes
    /// characters.
    unsafe fn arguments(&mut self, node: NodeAt) {
        // SAFETY: arguments are expressions.
        unsafe {
            for argument in children(node) {
                let argument = match is(argument, T_TargetEntry) {
                    true => argument.cast::<pg_sys::TargetEntry>().as_ref().expr.cast(),
                    false => argument.as_ptr(),
                };
                let Some(argument) = NonNull::new(argument) else {
                    continue;
                };
                let at = argument.as_ptr();
                let of = pg_sys::exprType(at);
                if of == pg_sys::JSONPATHOID
                    && written(argument).is_none_or(|path| path.contains("like_regex"))
                {
                    self.by_classes("like_regex");
                }
                let parts = parts(of, pg_sys::exprTypmod(at));
                let of_users = parts.map_or_else(Vec::new, |p| p.of_users);
                if !of_users.is_empty() && shows_any(node) {
                    self.shown_as_text(&of_users);
                }
            }
        }
    }

    /// The functions that write values of types of extensions.
    unsafe fn shown_as_text(&mut self, types: &[pg_sys::Oid]) {
        // SAFETY: types that there are.
        unsafe {
            for of in types {
                let (mut writes, mut varlena) = (pg_sys::InvalidOid, false);
                catch_c(|| pg_sys::getTypeOutputInfo(*of, &mut writes, &mut varlena)).or_raise();
                self.unseen_call(writes);
            }
        }
    }

    fn unseen_call(&mut self, of: pg_sys::Oid) {
        self.level.calls.push(FunctionCall {
            function: function(of),
            in_target: false,
            local_collation: None,
            loose: false,
        });
    }

    /// Words of text search that are not of ASCII are taken apart as the database's collation
    /// classes characters.
    unsafe fn words(&mut self, node: NodeAt, of: pg_sys::Oid) {
        // SAFETY: an expression of the type.
        unsafe {
            if (of == pg_sys::TSVECTOROID || of == pg_sys::TSQUERYOID)
                && written(node).is_none_or(|text| !text.is_ascii())
            {
                self.by_classes("text search");
            }
        }
    }

    fn by_classes(&mut self, what: &'static str) {
        if let Some(local) = collation::of_database() {
            self.refuse(Construct::LocalClasses(what, local));
        }
    }

    /// Reads the conditions of a domain. Functions that they call are checked when they run. Of the
    /// rest nothing else tells.
    unsafe fn domain(&mut self, of: pg_sys::Oid) {
        // SAFETY: the reference lives in the current memory context, with what it is filled with.
        unsafe {
            let size = std::mem::size_of::<pg_sys::DomainConstraintRef>();
            let domain = pg_sys::palloc0(size).cast::<pg_sys::DomainConstraintRef>();
            let context = pg_sys::CurrentMemoryContext;
            catch_c(|| pg_sys::InitDomainConstraintRef(of, domain, context, false)).or_raise();
            let before = self.level.calls.len();
            for condition in elements::<pg_sys::DomainConstraintState>((*domain).constraints) {
                if let Some(check) = NonNull::new(condition.as_ref().check_expr.cast()) {
                    self.expression(check, ELSEWHERE);
                }
            }
            let called = self.level.calls.split_off(before);
            let by_collation = called.into_iter().filter(|c| c.local_collation.is_some());
            self.level.calls.extend(by_collation);
        }
    }

    /// Whether `child` names a configuration or dictionary that PostgreSQL has everywhere, for
    /// function of text search that `node` calls.
    pub(super) unsafe fn names_configuration(node: NodeAt, child: NodeAt) -> bool {
        // SAFETY: the tag says which structure follows.
        unsafe {
            if !(is(node, T_FuncExpr) && is(child, T_Const)) {
                return false;
            }
            let constant = child.cast::<pg_sys::Const>().as_ref();
            let value = constant.constvalue.value() as u32;
            is_own_of_text_search(constant.consttype.to_u32(), value)
                && of_text_search(&function(node.cast::<pg_sys::FuncExpr>().as_ref().funcid))
        }
    }
}

/// Whether a node may write its arguments as text: it is a conversion, or calls a function of
/// PostgreSQL's, which takes values of such types only where it takes any.
unsafe fn shows_any(node: NodeAt) -> bool {
    // SAFETY: part of a query tree.
    unsafe {
        let own = |oid: &pg_sys::Oid| oid.to_u32() < OF_USERS;
        is(node, T_CoerceViaIO) || functions(node).iter().any(own)
    }
}

/// The text of a constant, an empty one of NULL; None of what is no constant.
unsafe fn written(node: NodeAt) -> Option<String> {
    // SAFETY: the tag says which structure follows; the text is a fresh C string.
    unsafe {
        if !is(node, T_Const) {
            return None;
        }
        let constant = node.cast::<pg_sys::Const>().as_ref();
        if constant.constisnull {
            return Some(String::new());
        }
        let (mut writes, mut varlena) = (pg_sys::InvalidOid, false);
        let text = catch_c(|| {
            pg_sys::getTypeOutputInfo(constant.consttype, &mut writes, &mut varlena);
            pg_sys::OidOutputFunctionCall(writes, constant.constvalue)
        })
        .or_raise();
        Some(CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}
