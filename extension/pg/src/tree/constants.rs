//! Decides from PostgreSQL's parse tree which literals of a text may become parameters without
//! changing its result.
//!
//! Literals stay in the text when the grammar or the analyser reads them as more than a value
//! (ORDER BY 1, type modifiers, typed literals, arbiter predicates). So do literals that the
//! planner folds: an error in folding, as of `1/0`, comes before any row is looked at, and a branch
//! folded away never raises one. Sums and products of small integers raise no error, so small
//! integers become parameters; each text is checked for that ([`Slot::small`]).
use std::ffi::{c_void, CStr};

use chainify_sqltext::{has_word, Kind, Literal};
use pgrx::pg_sys;

use crate::base::error::{enter, PgError};
use crate::base::lists::nodes;
use crate::tree::parse::parse;
use crate::tree::tree_walkers::{
    expression_tree_walker, query_tree_walker, raw_expression_tree_walker,
};

mod raw {
    c_functions! {
        pub(crate) fn check_stack_depth();
    }
}

/// A literal that may become a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its place among the text's literals.
    pub literal: usize,
    /// How many bytes before the literal its minus sign stands, which belongs to the value. The
    /// same in every text of the shape.
    pub minus: Option<usize>,
    /// Only a value up to [`SMALL_MAX`] may become a parameter here: the planner computes something
    /// of it, which might fail for more.
    pub small: bool,
    /// Its type holds times: a value that may read the clock stays in the text, where the rules
    /// refuse it.
    pub holds_time: bool,
}

/// See [`Slot::small`].
pub(crate) const SMALL_MAX: i64 = 32_767;

impl Slot {
    /// Where in the text the value begins.
    pub fn at(&self, literals: &[Literal]) -> usize {
        literals[self.literal].at - self.minus.unwrap_or(0)
    }

    /// Whether the value in this text may become a parameter.
    pub fn fits(&self, literals: &[Literal], sql: &str) -> bool {
        let value = literals[self.literal].written(sql);
        let small = || value.parse().is_ok_and(|value: i64| value <= SMALL_MAX);
        (!self.small || small()) && !(self.holds_time && has_word(value))
    }
}

struct Walk<'a> {
    sql: &'a str,
    literals: &'a [Literal],
    slots: Vec<Slot>,
    /// Within what the planner computes.
    small: bool,
}

impl Walk<'_> {
    /// Takes a constant of the tree as a slot when it is one of the literals, with or without a
    /// minus, and the same value.
    ///
    /// # Safety
    /// `constant` must come from the parser.
    unsafe fn take(&mut self, constant: &pg_sys::A_Const, cast: Option<&str>) {
        let Ok(at) = usize::try_from(constant.location) else {
            return;
        };
        let (at, minus) = match self.sql.get(at..).and_then(|rest| rest.strip_prefix('-')) {
            Some(rest) => {
                let number = self.sql.len() - rest.trim_start().len();
                (number, Some(number - at))
            }
            None => (at, None),
        };
        let Ok(literal) = self.literals.binary_search_by_key(&at, |l| l.at) else {
            return;
        };
        let found = &self.literals[literal];
        // 16 reads 0x0 and 0_0 as numbers; 15 has nothing like it.
        let continued =
            self.sql[found.end..].starts_with(|c: char| c == '_' || c.is_alphanumeric());
        if continued && found.kind != Kind::Text {
            return;
        }
        let mut value = found.value(self.sql);
        if minus.is_some() {
            value.insert(0, '-');
        }
        // SAFETY: by the caller's promise.
        let same = !constant.isnull
            && unsafe { text(constant) }.as_deref() == Some(&canonical(&value, found.kind));
        if same && cast.is_none_or(|to| cast_allowed(to, found, self.sql)) {
            let small = self.small;
            self.slots.push(Slot {
                literal,
                minus,
                small,
                holds_time: false, // not known before the analysis
            });
        }
    }
}

/// Function oids of casts that no value makes fail: int4 and int8 to wider types.
const SAFE_CASTS: [u32; 5] = [481, 1740, 1781, 316, 482];

/// Which parameters of analysed queries, from 1, go through a cast that may fail, where a query may
/// not come to it. The planner casts a literal whether or not a row is found, so such a one is no
/// parameter.
///
/// # Safety
/// `queries` must be a list of Query.
pub(crate) unsafe fn cast_parameters(queries: *mut pg_sys::List, found: &mut Vec<i32>) {
    // SAFETY: by the caller's promise; the walker owns nothing that an ERROR could skip.
    unsafe {
        for query in nodes(queries) {
            find_casts(query.as_ptr(), std::ptr::from_mut(found).cast());
        }
    }
}

/// # Safety
/// `node` must be null or of an analysed query; `found` a `Vec<i32>`.
unsafe extern "C-unwind" fn find_casts(node: *mut pg_sys::Node, found: *mut c_void) -> bool {
    use pg_sys::NodeTag::*;
    if node.is_null() {
        return false;
    }
    // SAFETY: the tag says which structure follows.
    unsafe {
        match (*node).type_ {
            T_Query => {
                let query = &mut *node.cast::<pg_sys::Query>();
                let from = query.jointree;
                let one_row = query.commandType == pg_sys::CmdType::CMD_INSERT
                    && (from.is_null() || (*from).fromlist.is_null());
                if !one_row {
                    return query_tree_walker(query, find_casts, found, 0);
                }
                // INSERT … VALUES of one row comes to each value.
                find_casts(query.onConflict.cast(), found)
                    || find_casts(query.returningList.cast(), found)
                    || find_casts(query.cteList.cast(), found)
            }
            T_FuncExpr | T_CoerceViaIO | T_ArrayCoerceExpr | T_CoerceToDomain => {
                if let Some(parameter) = failing_cast_of(node, false) {
                    (*found.cast::<Vec<i32>>()).push(parameter);
                }
                expression_tree_walker(node, find_casts, found)
            }
            _ => expression_tree_walker(node, find_casts, found),
        }
    }
}

/// The parameter at the bottom of a chain of casts of which one may fail.
///
/// # Safety
/// `node` must be of an analysed query.
unsafe fn failing_cast_of(node: *mut pg_sys::Node, may_fail: bool) -> Option<i32> {
    use pg_sys::CoercionForm::COERCE_EXPLICIT_CALL;
    use pg_sys::NodeTag::*;
    // SAFETY: the tag says which structure follows.
    unsafe {
        match (*node).type_ {
            T_Param if may_fail => Some((*node.cast::<pg_sys::Param>()).paramid),
            T_FuncExpr => {
                let call = &*node.cast::<pg_sys::FuncExpr>();
                let safe = SAFE_CASTS.contains(&call.funcid.to_u32());
                if call.funcformat == COERCE_EXPLICIT_CALL {
                    return None;
                }
                failing_cast_of(nodes(call.args).next()?.as_ptr(), may_fail || !safe)
            }
            T_RelabelType => {
                failing_cast_of((*node.cast::<pg_sys::RelabelType>()).arg.cast(), may_fail)
            }
            T_CoerceViaIO => {
                failing_cast_of((*node.cast::<pg_sys::CoerceViaIO>()).arg.cast(), true)
            }
            T_ArrayCoerceExpr => {
                failing_cast_of((*node.cast::<pg_sys::ArrayCoerceExpr>()).arg.cast(), true)
            }
            T_CoerceToDomain => {
                failing_cast_of((*node.cast::<pg_sys::CoerceToDomain>()).arg.cast(), true)
            }
            // Computed while planning, had it literals in the place of parameters.
            T_OpExpr if may_fail => computed((*node.cast::<pg_sys::OpExpr>()).args),
            _ => None,
        }
    }
}

/// A parameter of an expression that consists of parameters and constants; None when there is none,
/// or something else.
///
/// # Safety
/// `arguments` must be of an analysed query.
unsafe fn computed(arguments: *mut pg_sys::List) -> Option<i32> {
    let mut found = None;
    // SAFETY: the tag says which structure follows.
    unsafe {
        for node in nodes(arguments) {
            match node.as_ref().type_ {
                pg_sys::NodeTag::T_Const => (),
                pg_sys::NodeTag::T_Param => {
                    found = Some(node.cast::<pg_sys::Param>().as_ref().paramid)
                }
                pg_sys::NodeTag::T_OpExpr => {
                    found = computed(node.cast::<pg_sys::OpExpr>().as_ref().args).or(found);
                }
                _ => return None,
            }
        }
    }
    found
}

/// As the parser keeps it: an integer loses its leading zeros.
fn canonical(value: &str, kind: Kind) -> String {
    match kind {
        Kind::Int4 => value
            .parse()
            .map(|n: i64| n.to_string())
            .unwrap_or_default(),
        _ => value.to_owned(),
    }
}

/// # Safety
/// `constant` must come from the parser.
unsafe fn text(constant: &pg_sys::A_Const) -> Option<String> {
    // SAFETY: the tag says which member of the union is set; its strings are C strings.
    unsafe {
        let string = match constant.val.node.type_ {
            pg_sys::NodeTag::T_Integer => return Some(constant.val.ival.ival.to_string()),
            pg_sys::NodeTag::T_Float => constant.val.fval.fval,
            pg_sys::NodeTag::T_String => constant.val.sval.sval,
            _ => return None,
        };
        CStr::from_ptr(string).to_str().ok().map(str::to_owned)
    }
}

/// The last part of a type's name as written or as the grammar spells it; empty for an array.
///
/// # Safety
/// `name` must come from the parser.
unsafe fn type_name(name: &pg_sys::TypeName) -> String {
    // SAFETY: a list of strings.
    unsafe {
        let last = nodes(name.names)
            .last()
            .filter(|_| name.arrayBounds.is_null());
        last.map(|part| {
            CStr::from_ptr(part.cast::<pg_sys::String>().as_ref().sval)
                .to_string_lossy()
                .into_owned()
        })
        .unwrap_or_default()
    }
}

/// Whether a cast of the parameter does what the cast of the literal does. That of a string is its
/// input function, which for an interval looks at more than the value; `date '…'` is no cast to the
/// grammar. A number's must not fail.
fn cast_allowed(to: &str, literal: &Literal, sql: &str) -> bool {
    let after = sql[literal.end..].trim_start().as_bytes();
    match literal.kind {
        Kind::Text => {
            let written_as_cast = after.starts_with(b"::")
                || after
                    .get(..2)
                    .is_some_and(|a| a.eq_ignore_ascii_case(b"as"));
            written_as_cast && to != "interval"
        }
        Kind::Int4 => matches!(to, "int4" | "int8" | "numeric" | "float8"),
        Kind::Int8 => matches!(to, "int8" | "numeric" | "float8"),
        Kind::Numeric => to == "numeric",
    }
}

/// The slots of `sql`, in order.
pub fn slots(sql: &str, literals: &[Literal]) -> Result<Vec<Slot>, PgError> {
    let mut walk = Walk {
        sql,
        literals,
        slots: Vec::new(),
        small: false,
    };
    for statement in parse(sql)? {
        let context = (&raw mut walk).cast();
        // SAFETY: the tree lives in the current memory context. The walker owns nothing that an
        // ERROR could skip: what it fills belongs to this frame, which `catch_c` returns to.
        unsafe {
            let top = statement.as_ref().stmt;
            if (*top).type_ == pg_sys::NodeTag::T_CallStmt {
                let arguments = (*(*top.cast::<pg_sys::CallStmt>()).funccall).args;
                crate::base::error::catch_c(|| {
                    for argument in nodes(arguments) {
                        visit(argument.as_ptr(), context);
                    }
                })?;
                continue;
            }
            if !is_query(top) {
                continue; // refused, or TRUNCATE
            }
            crate::base::error::catch_c(|| {
                if !call(top, context) {
                    visit(top, context);
                }
            })?;
        }
    }
    let mut slots = walk.slots;
    slots.sort_by_key(|slot| slot.literal);
    slots.dedup_by_key(|slot| slot.literal);
    Ok(slots)
}

/// # Safety
/// `top` must come from the parser.
unsafe fn is_query(top: *mut pg_sys::Node) -> bool {
    use pg_sys::NodeTag::*;
    // SAFETY: by the caller's promise.
    let tag = unsafe { (*top).type_ };
    [
        T_SelectStmt,
        T_InsertStmt,
        T_UpdateStmt,
        T_DeleteStmt,
        T_MergeStmt,
    ]
    .contains(&tag)
}

/// Whether `top` calls functions and does nothing else (`SELECT f(1, 'a')`): then there is no
/// branch to fold away, and their arguments may become parameters.
///
/// # Safety
/// As of [`visit`].
unsafe fn call(top: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: the tag says which structure follows.
    unsafe {
        if (*top).type_ != pg_sys::NodeTag::T_SelectStmt {
            return false;
        }
        let select = &*top.cast::<pg_sys::SelectStmt>();
        let others = [
            select.distinctClause,
            select.fromClause,
            select.groupClause,
            select.windowClause,
            select.valuesLists,
            select.sortClause,
        ];
        let clauses = [select.whereClause, select.havingClause, select.limitCount];
        if select.op != pg_sys::SetOperation::SETOP_NONE
            || !select.withClause.is_null()
            || others.iter().any(|list| !list.is_null())
            || clauses.iter().any(|clause| !clause.is_null())
        {
            return false;
        }
        let targets = || {
            nodes(select.targetList).map(|target| target.cast::<pg_sys::ResTarget>().as_ref().val)
        };
        if !targets().all(|value| !value.is_null() && (*value).type_ == pg_sys::NodeTag::T_FuncCall)
        {
            return false;
        }
        for value in targets() {
            for argument in nodes((*value.cast::<pg_sys::FuncCall>()).args) {
                visit(argument.as_ptr(), context);
            }
        }
        true
    }
}

/// # Safety
/// `node` must be null or of a raw parse tree; `context` a [`Walk`].
unsafe extern "C-unwind" fn visit(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    use pg_sys::NodeTag::*;
    if node.is_null() {
        return false;
    }
    // SAFETY: the tag says which structure follows.
    unsafe {
        match (*node).type_ {
            T_A_Const => enter(|| (*context.cast::<Walk>()).take(&*node.cast(), None)),
            T_TypeCast => return visit_cast(&*node.cast(), context),
            T_TypeName | T_InferClause | T_A_Indices | T_RangeTableSample | T_RangeTableFunc
            | T_XmlExpr | T_XmlSerialize | T_WindowDef | T_GroupingSet | T_GroupingFunc => (),
            T_SelectStmt => return visit_select(node, context),
            T_SortBy if is_constant((*node.cast::<pg_sys::SortBy>()).node) => (),
            T_CaseExpr => visit_case(&*node.cast(), context),
            T_BoolExpr => visit_but_constants((*node.cast::<pg_sys::BoolExpr>()).args, context),
            T_CoalesceExpr => {
                visit_but_constants((*node.cast::<pg_sys::CoalesceExpr>()).args, context)
            }
            T_List | T_A_ArrayExpr | T_InsertStmt | T_UpdateStmt | T_DeleteStmt | T_MergeStmt => {
                return raw_expression_tree_walker(node, visit, context)
            }
            _ if is_constant(node) => visit_computed(node, context),
            _ => return raw_expression_tree_walker(node, visit, context),
        }
    }
    false
}

/// Takes the integers of a constant expression that cannot fail as long as they are small.
///
/// # Safety
/// As of [`visit`].
unsafe fn visit_computed(node: *mut pg_sys::Node, context: *mut c_void) {
    // SAFETY: by the caller's promise.
    unsafe {
        if magnitude(node).is_none() {
            return;
        }
        (*context.cast::<Walk>()).small = true;
        visit_integers(node, context);
        (*context.cast::<Walk>()).small = false;
    }
}

/// # Safety
/// As of [`visit`], for a node that has a [`magnitude`].
unsafe fn visit_integers(node: *mut pg_sys::Node, context: *mut c_void) {
    // SAFETY: by the caller's promise.
    unsafe {
        if (*node).type_ == pg_sys::NodeTag::T_A_Const {
            enter(|| (*context.cast::<Walk>()).take(&*node.cast(), None));
        } else {
            let expression = &*node.cast::<pg_sys::A_Expr>();
            visit_integers(expression.lexpr, context);
            visit_integers(expression.rexpr, context);
        }
    }
}

/// How large a sum, difference or product of integers gets when each of them is up to
/// [`SMALL_MAX`]; None for anything else, and when an integer might not hold it.
///
/// # Safety
/// As of [`visit`].
unsafe fn magnitude(node: *mut pg_sys::Node) -> Option<i64> {
    use pg_sys::A_Expr_Kind::AEXPR_OP;
    // SAFETY: the tag says which structure follows; the name of an operator is a list of strings.
    unsafe {
        let node = node.as_ref()?;
        match node.type_ {
            pg_sys::NodeTag::T_A_Const => {
                let constant = &*std::ptr::from_ref(node).cast::<pg_sys::A_Const>();
                let integer = constant.val.node.type_ == pg_sys::NodeTag::T_Integer;
                (integer && !constant.isnull).then_some(SMALL_MAX)
            }
            pg_sys::NodeTag::T_A_Expr => {
                raw::check_stack_depth();
                let expression = &*std::ptr::from_ref(node).cast::<pg_sys::A_Expr>();
                let (left, right) = (magnitude(expression.lexpr)?, magnitude(expression.rexpr)?);
                let mut names = nodes(expression.name);
                let name = names.next().filter(|_| names.next().is_none())?;
                let name = CStr::from_ptr(name.cast::<pg_sys::String>().as_ref().sval);
                let most = match name.to_bytes() {
                    b"+" | b"-" => left + right,
                    b"*" => left.checked_mul(right)?,
                    _ => return None,
                };
                (expression.kind == AEXPR_OP && most <= i32::MAX.into()).then_some(most)
            }
            _ => None,
        }
    }
}

/// The part that AND, OR and COALESCE fold away depends on the constants among their arguments.
///
/// # Safety
/// As of [`visit`].
unsafe fn visit_but_constants(list: *mut pg_sys::List, context: *mut c_void) {
    // SAFETY: by the caller's promise.
    unsafe {
        for node in nodes(list).filter(|node| !is_constant(node.as_ptr())) {
            visit(node.as_ptr(), context);
        }
    }
}

/// # Safety
/// As of [`visit`].
unsafe fn visit_case(case: &pg_sys::CaseExpr, context: *mut c_void) {
    // SAFETY: by the caller's promise; the list of a CASE holds its WHENs.
    unsafe {
        let subject = case.arg.cast::<pg_sys::Node>();
        if !subject.is_null() && is_constant(subject) {
            return; // decided while planning
        }
        visit(subject, context);
        for when in nodes(case.args) {
            let when = when.cast::<pg_sys::CaseWhen>().as_ref();
            let condition = when.expr.cast();
            if !(subject.is_null() && is_constant(condition)) {
                visit(condition, context);
            }
            visit(when.result.cast(), context);
        }
        visit(case.defresult.cast(), context);
    }
}

/// Of a SELECT that groups, removes duplicates or has windows: FROM, WHERE and VALUES alone,
/// because the rest is compared with its other clauses, expression by expression.
///
/// # Safety
/// As of [`visit`].
unsafe fn visit_select(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        let select = &*node.cast::<pg_sys::SelectStmt>();
        let compared = [
            select.groupClause,
            select.distinctClause,
            select.windowClause,
        ];
        if compared.iter().all(|list| list.is_null()) {
            return raw_expression_tree_walker(node, visit, context);
        }
        visit(select.fromClause.cast(), context);
        visit(select.whereClause, context);
    }
    false
}

/// # Safety
/// As of [`visit`].
unsafe fn visit_cast(cast: &pg_sys::TypeCast, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise.
    unsafe {
        if (*cast.arg).type_ != pg_sys::NodeTag::T_A_Const {
            return visit(cast.arg, context);
        }
        if (*cast.typeName).typmods.is_null() {
            enter(|| {
                let to = type_name(&*cast.typeName);
                (*context.cast::<Walk>()).take(&*cast.arg.cast(), Some(&to));
            });
        }
    }
    false
}

/// Whether the planner computes an expression once and for all. Functions count as if it did.
///
/// # Safety
/// As of [`visit`].
unsafe fn is_constant(node: *mut pg_sys::Node) -> bool {
    use pg_sys::NodeTag::*;
    if node.is_null() {
        return true;
    }
    // SAFETY: the tag says which structure follows.
    unsafe {
        let all = |list: *mut pg_sys::List| nodes(list).all(|node| is_constant(node.as_ptr()));
        match (*node).type_ {
            T_A_Const => true,
            T_List => all(node.cast()),
            T_TypeCast => is_constant((*node.cast::<pg_sys::TypeCast>()).arg),
            T_A_Expr => {
                let expression = &*node.cast::<pg_sys::A_Expr>();
                is_constant(expression.lexpr) && is_constant(expression.rexpr)
            }
            T_BoolExpr => all((*node.cast::<pg_sys::BoolExpr>()).args),
            T_CoalesceExpr => all((*node.cast::<pg_sys::CoalesceExpr>()).args),
            T_MinMaxExpr => all((*node.cast::<pg_sys::MinMaxExpr>()).args),
            T_NullTest => is_constant((*node.cast::<pg_sys::NullTest>()).arg.cast()),
            T_BooleanTest => is_constant((*node.cast::<pg_sys::BooleanTest>()).arg.cast()),
            T_CollateClause => is_constant((*node.cast::<pg_sys::CollateClause>()).arg),
            T_FuncCall => all((*node.cast::<pg_sys::FuncCall>()).args),
            T_A_ArrayExpr => all((*node.cast::<pg_sys::A_ArrayExpr>()).elements),
            T_RowExpr => all((*node.cast::<pg_sys::RowExpr>()).args),
            T_NamedArgExpr => is_constant((*node.cast::<pg_sys::NamedArgExpr>()).arg.cast()),
            T_CaseExpr => {
                let case = &*node.cast::<pg_sys::CaseExpr>();
                is_constant(case.arg.cast()) && all(case.args) && is_constant(case.defresult.cast())
            }
            T_CaseWhen => {
                let when = &*node.cast::<pg_sys::CaseWhen>();
                is_constant(when.expr.cast()) && is_constant(when.result.cast())
            }
            _ => false,
        }
    }
}
