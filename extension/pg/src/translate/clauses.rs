//! Levels of a query: the range table, FROM, and the clauses.
use std::collections::BTreeMap;
use std::ptr::NonNull;

use chainify_dialect::query::{
    Expr, From, Join, Order, Query, Set, Source, TableColumn, Target, Window, With,
};
use chainify_dialect::types::Type;
use chainify_dialect::Kind;
use pgrx::pg_sys;
use pgrx::pg_sys::NodeTag::*;

use super::reader::{owned, Reader, Stop};
use crate::base::catalog::display_name;
use crate::base::error::{catch_c, OrRaise, PgError};
use crate::base::lists::{elements, nodes};
use crate::base::major;
use crate::base::relation::{Lock, Relation};
use crate::base::rights::{may_read, MayRead};
use crate::base::role::Role;
use crate::tree::node::NodeAt;
use crate::tree::tree_walkers::without_groups;

type Level = NonNull<pg_sys::Query>;

impl Reader<'_> {
    /// # Safety
    /// `query` must be an analysed SELECT that no planner has touched.
    pub(super) unsafe fn query(&mut self, query: Level) -> Result<Query, Stop> {
        // SAFETY: by the caller's promise.
        unsafe { self.level(query, false) }
    }

    /// The same of a query whose columns nobody looks at.
    ///
    /// # Safety
    /// As for [`Reader::query`].
    pub(super) unsafe fn query_of_exists(&mut self, query: Level) -> Result<Query, Stop> {
        // SAFETY: by the caller's promise.
        unsafe {
            let q = query.as_ref();
            let plain = !q.hasAggs
                && q.groupClause.is_null()
                && q.havingQual.is_null()
                && q.setOperations.is_null()
                && q.distinctClause.is_null();
            self.level(query, plain)
        }
    }

    /// # Safety
    /// As for [`Reader::query`].
    unsafe fn level(&mut self, query: Level, no_columns: bool) -> Result<Query, Stop> {
        // SAFETY: by the caller's promise; raises when the stack is nearly used up.
        unsafe {
            pg_sys::check_stack_depth();
            let query = catch_c(|| without_groups(query)).or_raise();
            self.check_clauses(query.as_ref())?;
            self.levels.push(query);
            let read = self.read_level(query, no_columns);
            self.levels.pop();
            read
        }
    }

    /// # Safety
    /// As for [`Reader::query`].
    unsafe fn read_level(&mut self, query: Level, no_columns: bool) -> Result<Query, Stop> {
        // SAFETY: by the caller's promise; the fields of a query are what parsenodes.h says.
        unsafe {
            let q = query.as_ref();
            let mut level = Query {
                aggregates: q.hasAggs,
                distinct: !q.distinctClause.is_null(),
                ..Query::default()
            };
            for cte in elements::<pg_sys::CommonTableExpr>(q.cteList) {
                level.with.push(self.with(cte.as_ref())?);
            }
            for entry in elements::<pg_sys::RangeTblEntry>(q.rtable) {
                level.sources.push(self.source(entry.as_ref())?);
            }
            if let Some(from) = q.jointree.as_ref() {
                for part in nodes(from.fromlist) {
                    level.from.push(self.from(part)?);
                }
                if !from.quals.is_null() {
                    level.condition = Some(self.expression(from.quals)?);
                }
            }
            if let Some(set) = NonNull::new(q.setOperations) {
                level.set = Some(self.set(set, None)?);
            }
            let targets = elements::<pg_sys::TargetEntry>(q.targetList);
            for target in targets.iter().filter(|_| !no_columns) {
                let target = target.as_ref();
                level.targets.push(Target {
                    expr: self.expression(target.expr.cast())?,
                    name: owned(target.resname),
                    junk: target.resjunk,
                });
            }
            for clause in elements::<pg_sys::SortGroupClause>(q.groupClause) {
                level.group.push(self.target(&targets, clause.as_ref())?);
            }
            if !q.havingQual.is_null() {
                level.having = Some(self.expression(q.havingQual)?);
            }
            for clause in elements::<pg_sys::WindowClause>(q.windowClause) {
                level.windows.push(self.window(&targets, clause.as_ref())?);
            }
            if !no_columns {
                level.order = self.order_by(&targets, q.sortClause)?;
            }
            level.limit = self.count_of(q.limitCount, "LIMIT")?;
            level.offset = self.count_of(q.limitOffset, "OFFSET")?;
            Ok(level)
        }
    }

    fn check_clauses(&self, q: &pg_sys::Query) -> Result<(), Stop> {
        let with_ties =
            q.limitOption == pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES && !q.limitCount.is_null();
        let found = [
            (
                q.commandType != pg_sys::CmdType::CMD_SELECT,
                Kind::Writes,
                "a change of rows",
            ),
            (
                q.hasTargetSRFs,
                Kind::Clause,
                "a function that returns rows among the columns",
            ),
            (q.hasDistinctOn, Kind::Clause, "DISTINCT ON"),
            (q.hasRecursive, Kind::From, "WITH RECURSIVE"),
            (
                q.hasModifyingCTE,
                Kind::Writes,
                "WITH of a statement that changes rows",
            ),
            (
                !q.rowMarks.is_null(),
                Kind::Writes,
                "FOR UPDATE and its like",
            ),
            (q.hasRowSecurity, Kind::RowSecurity, "row-level security"),
            (
                !q.groupingSets.is_null(),
                Kind::Clause,
                "GROUPING SETS, CUBE and ROLLUP",
            ),
            (with_ties, Kind::Clause, "FETCH … WITH TIES"),
            (
                !q.constraintDeps.is_null(),
                Kind::Implied,
                "columns that stand neither in GROUP BY nor in an aggregate",
            ),
        ];
        match found.iter().find(|(found, ..)| *found) {
            Some((_, kind, what)) => Err(self.refuse(*kind, what, None)),
            None => Ok(()),
        }
    }

    /// # Safety
    /// `cte` must be of an analysed query.
    unsafe fn with(&mut self, cte: &pg_sys::CommonTableExpr) -> Result<With, Stop> {
        // SAFETY: by the caller's promise; after analysis it holds a query.
        unsafe {
            match NonNull::new(cte.ctequery.cast()).filter(|_| !cte.cterecursive) {
                Some(query) => Ok(With {
                    name: owned(cte.ctename),
                    query: self.query(query)?,
                    several_uses: cte.cterefcount > 1,
                }),
                None => Err(self.refuse(Kind::From, "WITH RECURSIVE", None)),
            }
        }
    }

    /// # Safety
    /// `entry` must be of the innermost level.
    unsafe fn source(&mut self, entry: &pg_sys::RangeTblEntry) -> Result<Source, Stop> {
        use pg_sys::RTEKind::*;
        if entry.lateral {
            return Err(self.refuse(Kind::From, "LATERAL", None));
        }
        if entry.security_barrier {
            return Err(self.refuse(Kind::View, "a view with security_barrier", None));
        }
        // SAFETY: by the caller's promise.
        unsafe {
            match entry.rtekind {
                // Until 15 the query of a view has entries for its rule, which stand in no FROM.
                RTE_RELATION if is_view(entry) => Ok(Source::Join),
                RTE_RELATION => self.table(entry),
                RTE_SUBQUERY => match NonNull::new(entry.subquery) {
                    Some(query) => Ok(Source::Subquery(Box::new(self.query(query)?))),
                    None => Err(self.refuse(Kind::Form, "FROM of this form", None)),
                },
                RTE_JOIN => Ok(Source::Join),
                RTE_CTE if entry.self_reference => {
                    Err(self.refuse(Kind::From, "WITH RECURSIVE", None))
                }
                RTE_CTE => Ok(Source::With {
                    name: owned(entry.ctename),
                    up: entry.ctelevelsup as usize,
                }),
                RTE_FUNCTION | RTE_TABLEFUNC => {
                    Err(self.refuse(Kind::From, "a function in FROM", None))
                }
                RTE_VALUES => Err(self.refuse(Kind::From, "VALUES in FROM", None)),
                _ => Err(self.refuse(Kind::Form, "FROM of this form", None)),
            }
        }
    }

    /// A mirrored table that the role may read whole.
    ///
    /// # Safety
    /// As for [`Reader::source`].
    unsafe fn table(&self, entry: &pg_sys::RangeTblEntry) -> Result<Source, Stop> {
        let relation = Relation::try_open(entry.relid, Lock::AccessShare);
        let Some(relation) = relation else {
            let what = format!("the relation \"{}\"", display_name(entry.relid));
            return Err(self.refuse(Kind::From, &what, None));
        };
        let name = relation.quoted_name();
        let denied = |why: &str| {
            let message = format!("permission denied for table {name} in analytics");
            Stop::Failed(PgError::new(b"42501", message).detail(why))
        };
        let may = match self.asker.reads_all {
            true => MayRead::All,
            // SAFETY: by the caller's promise.
            false => may_read(unsafe { self.reads_as(entry) }, entry.relid)?,
        };
        match may {
            MayRead::All => (),
            MayRead::No => {
                return Err(denied(
                    "Analytics needs the right SELECT on the whole table.",
                ))
            }
            MayRead::SomeRows => {
                return Err(denied("Row-level security hides rows of it from the role."))
            }
        }
        if !entry.tablesample.is_null() {
            return Err(self.refuse(Kind::From, "TABLESAMPLE", None));
        }
        if !entry.inh && entry.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE {
            return Err(self.refuse(Kind::From, "ONLY of a partitioned table", None));
        }
        let Some(id) = (self.mirrored)(entry.relid) else {
            let error = PgError::new(b"55000", format!("table {name} is not mirrored"));
            let hint =
                format!("An administrator mirrors it with SELECT chainify.mirror('{name}').");
            return Err(error.hint(hint).into());
        };
        let mut columns = BTreeMap::new();
        for column in relation.types() {
            let Some(of) = Type::of(column.of.to_u32()) else {
                continue;
            };
            if !of.is_mirrored(column.typmod) {
                continue;
            }
            let column_of = TableColumn {
                typed: self.typed(column.of, column.typmod)?,
                not_null: column.not_null,
            };
            columns.insert(usize::try_from(column.number).unwrap_or(0), column_of);
        }
        Ok(Source::Table { id, columns })
    }

    /// The role whose rights on a table count: of a view's query its owner.
    ///
    /// # Safety
    /// As for [`Reader::source`].
    unsafe fn reads_as(&self, entry: &pg_sys::RangeTblEntry) -> Role {
        // SAFETY: by the caller's promise.
        let role = self
            .levels
            .last()
            .map(|level| unsafe { major::checked_as(level.as_ref(), entry) });
        match role.filter(|role| *role != pg_sys::InvalidOid) {
            Some(owner) => Role::of(owner),
            None => self.asker.role,
        }
    }

    /// An entry of FROM. Refuses a view that was not replaced by its query.
    ///
    /// # Safety
    /// As for [`Reader::from`].
    unsafe fn entry_of_from(&self, at: usize) -> Result<From, Stop> {
        // SAFETY: by the caller's promise; a range table has entries alone.
        let entry = self
            .levels
            .last()
            .and_then(|level| unsafe { nodes(level.as_ref().rtable).nth(at) });
        let entry = entry.map(|entry| unsafe { entry.cast::<pg_sys::RangeTblEntry>().as_ref() });
        match entry.filter(|entry| entry.rtekind == pg_sys::RTEKind::RTE_RELATION && is_view(entry))
        {
            Some(view) => {
                let what = format!("the view \"{}\"", display_name(view.relid));
                Err(self.refuse(Kind::View, &what, None))
            }
            None => Ok(From::Source(at)),
        }
    }

    /// # Safety
    /// `node` must be of the join tree of the innermost level.
    unsafe fn from(&mut self, node: NodeAt) -> Result<From, Stop> {
        // SAFETY: the tag says which structure follows; raises when the stack is nearly used up.
        unsafe {
            pg_sys::check_stack_depth();
            match node.as_ref().type_ {
                T_RangeTblRef => {
                    let at = node.cast::<pg_sys::RangeTblRef>().as_ref().rtindex;
                    self.entry_of_from((at as usize).wrapping_sub(1))
                }
                T_JoinExpr => {
                    let join = node.cast::<pg_sys::JoinExpr>().as_ref();
                    use pg_sys::JoinType::*;
                    let kind = match join.jointype {
                        JOIN_INNER => Join::Inner,
                        JOIN_LEFT => Join::Left,
                        JOIN_RIGHT => Join::Right,
                        JOIN_FULL => Join::Full,
                        _ => return Err(self.refuse(Kind::Form, "a join of this form", None)),
                    };
                    let side = |side: *mut pg_sys::Node| NonNull::new(side);
                    let (Some(left), Some(right)) = (side(join.larg), side(join.rarg)) else {
                        return Err(self.refuse(Kind::Form, "a join of this form", None));
                    };
                    Ok(From::Join {
                        kind,
                        left: Box::new(self.from(left)?),
                        right: Box::new(self.from(right)?),
                        on: match join.quals.is_null() {
                            true => None,
                            false => Some(self.expression(join.quals)?),
                        },
                    })
                }
                _ => Err(self.refuse(Kind::Form, "FROM of this form", None)),
            }
        }
    }

    /// # Safety
    /// `node` must be of the set operations of the innermost level; `types` those of the operation
    /// around.
    unsafe fn set(&mut self, node: NodeAt, types: Option<*mut pg_sys::List>) -> Result<Set, Stop> {
        // SAFETY: the tag says which structure follows; lists of types are of oids.
        unsafe {
            pg_sys::check_stack_depth();
            match node.as_ref().type_ {
                T_RangeTblRef => {
                    let at = node.cast::<pg_sys::RangeTblRef>().as_ref().rtindex;
                    let at = (at as usize).wrapping_sub(1);
                    self.check_leaf(at, types)?;
                    Ok(Set::Leaf(at))
                }
                T_SetOperationStmt => {
                    let operation = node.cast::<pg_sys::SetOperationStmt>().as_ref();
                    if types.is_some_and(|types| oids(types) != oids(operation.colTypes)) {
                        return Err(self.refuse(
                            Kind::SetOperation,
                            "set operations of different types",
                            None,
                        ));
                    }
                    let kind = match operation.op {
                        pg_sys::SetOperation::SETOP_UNION => "UNION",
                        pg_sys::SetOperation::SETOP_INTERSECT => "INTERSECT",
                        _ => "EXCEPT",
                    };
                    let side = |side: *mut pg_sys::Node| NonNull::new(side);
                    let (Some(left), Some(right)) = (side(operation.larg), side(operation.rarg))
                    else {
                        return Err(self.refuse(Kind::Form, "set operations of this form", None));
                    };
                    let types = Some(operation.colTypes);
                    Ok(Set::Operation {
                        kind,
                        all: operation.all,
                        left: Box::new(self.set(left, types)?),
                        right: Box::new(self.set(right, types)?),
                    })
                }
                _ => Err(self.refuse(Kind::Form, "set operations of this form", None)),
            }
        }
    }

    /// Refuses a side of set operations whose columns are of other types than the result.
    ///
    /// # Safety
    /// As for [`Reader::set`].
    unsafe fn check_leaf(&self, at: usize, types: Option<*mut pg_sys::List>) -> Result<(), Stop> {
        let level = self.levels.last().copied();
        // SAFETY: by the caller's promise.
        unsafe {
            let entry = level.and_then(|level| nodes(level.as_ref().rtable).nth(at));
            let entry = entry.map(|entry| entry.cast::<pg_sys::RangeTblEntry>().as_ref());
            let query = entry.and_then(|entry| entry.subquery.as_ref());
            let Some(query) = query else {
                return Err(self.refuse(Kind::Form, "set operations of this form", None));
            };
            let targets = elements::<pg_sys::TargetEntry>(query.targetList);
            let shown = targets.iter().map(|target| target.as_ref());
            let of: Vec<pg_sys::Oid> = shown
                .filter(|target| !target.resjunk)
                .map(|target| pg_sys::exprType(target.expr.cast()))
                .collect();
            match types.is_none_or(|types| oids(types) == of) {
                true => Ok(()),
                false => Err(self.refuse(
                    Kind::SetOperation,
                    "set operations of different types",
                    None,
                )),
            }
        }
    }

    /// # Safety
    /// `targets` must be of the innermost level.
    unsafe fn target(
        &self,
        targets: &[NonNull<pg_sys::TargetEntry>],
        clause: &pg_sys::SortGroupClause,
    ) -> Result<usize, Stop> {
        let reference = clause.tleSortGroupRef;
        // SAFETY: by the caller's promise.
        let found = targets
            .iter()
            .position(|target| unsafe { target.as_ref() }.ressortgroupref == reference);
        found.ok_or_else(|| self.refuse(Kind::Form, "GROUP BY or ORDER BY of this form", None))
    }

    /// # Safety
    /// As for [`Reader::target`]; `list` must be of SortGroupClause.
    pub(super) unsafe fn order_by(
        &self,
        targets: &[NonNull<pg_sys::TargetEntry>],
        list: *mut pg_sys::List,
    ) -> Result<Vec<Order>, Stop> {
        let mut order = Vec::new();
        // SAFETY: by the caller's promise; entries of the type cache live as long as the session.
        unsafe {
            for clause in elements::<pg_sys::SortGroupClause>(list) {
                let clause = clause.as_ref();
                let target = self.target(targets, clause)?;
                let expr = targets[target].as_ref().expr.cast::<pg_sys::Node>();
                let flags = (pg_sys::TYPECACHE_LT_OPR | pg_sys::TYPECACHE_GT_OPR) as i32;
                let usual = &*pg_sys::lookup_type_cache(pg_sys::exprType(expr), flags);
                let descending = clause.sortop == usual.gt_opr;
                if !descending && clause.sortop != usual.lt_opr {
                    return Err(self.refuse(Kind::Clause, "ORDER BY … USING", None));
                }
                order.push(Order {
                    target,
                    descending,
                    nulls_first: clause.nulls_first,
                    collation: self.order(pg_sys::exprCollation(expr), None)?,
                });
            }
        }
        Ok(order)
    }

    /// # Safety
    /// As for [`Reader::target`].
    unsafe fn window(
        &self,
        targets: &[NonNull<pg_sys::TargetEntry>],
        clause: &pg_sys::WindowClause,
    ) -> Result<Window, Stop> {
        let mut partition = Vec::new();
        // SAFETY: by the caller's promise.
        let order = unsafe {
            for of in elements::<pg_sys::SortGroupClause>(clause.partitionClause) {
                partition.push(self.target(targets, of.as_ref())?);
            }
            self.order_by(targets, clause.orderClause)?
        };
        let options = clause.frameOptions as u32;
        use pg_sys::*;
        let from_start = FRAMEOPTION_START_UNBOUNDED_PRECEDING;
        let to_row = from_start | FRAMEOPTION_END_CURRENT_ROW;
        let whole = from_start | FRAMEOPTION_END_UNBOUNDED_FOLLOWING;
        let of = options & !(FRAMEOPTION_NONDEFAULT | FRAMEOPTION_BETWEEN);
        let frame = match of {
            _ if options & FRAMEOPTION_NONDEFAULT == 0 => "",
            of if of == FRAMEOPTION_RANGE | to_row => "",
            of if of == FRAMEOPTION_ROWS | to_row => {
                "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
            }
            of if of == FRAMEOPTION_ROWS | whole || of == FRAMEOPTION_RANGE | whole => {
                "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
            }
            _ => return Err(self.refuse(Kind::Frame, "a window frame of this form", None)),
        };
        Ok(Window {
            partition,
            order,
            frame,
        })
    }

    /// A constant of LIMIT or OFFSET; None: NULL, or there is none.
    ///
    /// # Safety
    /// `node` must be null or of the innermost level.
    unsafe fn count_of(
        &mut self,
        node: *mut pg_sys::Node,
        clause: &str,
    ) -> Result<Option<u64>, Stop> {
        if node.is_null() {
            return Ok(None);
        }
        // SAFETY: by the caller's promise.
        match unsafe { self.expression(node)? } {
            Expr::Constant { text: None, .. } => Ok(None),
            Expr::Constant {
                text: Some(text), ..
            } if !text.starts_with('-') => Ok(text.parse().ok()),
            _ => Err(self.refuse(Kind::Form, &format!("{clause} of this form"), None)),
        }
    }
}

fn is_view(entry: &pg_sys::RangeTblEntry) -> bool {
    entry.relkind as u8 == pg_sys::RELKIND_VIEW
}

/// # Safety
/// `list` must be null or a list of oids.
unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: a list has `length` elements.
    unsafe {
        let Some(list) = list.as_ref() else {
            return Vec::new();
        };
        (0..list.length as usize)
            .map(|at| (*list.elements.add(at)).oid_value)
            .collect()
    }
}
