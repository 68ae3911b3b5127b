//! Conditions and keys of joins, brought down to the scans of a plan.
//!
//! DataFusion has a rule for it, which finds a column below by its name. Here many columns of a plan
//! have one name, so this goes by places, in place of that rule.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::JoinType;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_expr::expressions::{lit, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{split_conjunction, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::filters::{moved, Condition};
use crate::scan::GroupSource;

type Plan = Arc<dyn ExecutionPlan>;

/// The session without the rules of DataFusion that stand against [`pushed`].
pub fn by_place(session: SessionState) -> SessionState {
    let rules = session.physical_optimizers().iter().filter(|rule| !rule.name().starts_with("FilterPushdown"));
    let rules = rules.cloned().collect();
    SessionStateBuilder::new_from_existing(session).with_physical_optimizer_rules(rules).build()
}

/// The plan whose scans take the conditions above them, and the keys of the smaller sides of joins
/// once these are read.
///
/// # Errors
/// Those of making a plan node anew.
pub fn pushed(plan: Plan) -> Result<Plan> {
    let plan = plan.transform_up(|node| {
        let taken = node.downcast_ref::<FilterExec>().map(selected).transpose()?.flatten();
        Ok(taken.map_or(Transformed::no(node), Transformed::yes))
    })?;
    // From above: the filter of an upper join may go below a lower one.
    let plan = plan.data.transform_down(|node| {
        let filtered = node.downcast_ref::<HashJoinExec>().map(filtered).transpose()?.flatten();
        Ok(filtered.map_or(Transformed::no(node), Transformed::yes))
    })?;
    Ok(plan.data)
}

/// The scan below a filter, with its conditions.
fn selected(filter: &FilterExec) -> Result<Option<Plan>> {
    if filter.fetch().is_some() {
        return Ok(None);
    }
    let (conditions, columns) = (split_conjunction(filter.predicate()), filter.projection().as_deref());
    scan(filter.input(), |source| source.selected(&conditions, columns))
}

/// The plan with another scan, where it is one.
fn scan(plan: &Plan, other: impl FnOnce(&GroupSource) -> Result<Option<GroupSource>>) -> Result<Option<Plan>> {
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        let scan = scan(cooperative.input(), other)?;
        return Ok(scan.map(|scan| Arc::new(CooperativeExec::new(scan)) as Plan));
    }
    let source = plan.downcast_ref::<DataSourceExec>();
    let Some(source) = source.and_then(|scan| scan.data_source().downcast_ref::<GroupSource>()) else {
        return Ok(None);
    };
    Ok(other(source)?.map(|source| Arc::new(DataSourceExec::new(Arc::new(source))) as Plan))
}

/// The join, when scans of its right side take the keys of its left one. A row without one of them
/// has no part in the answer.
fn filtered(join: &HashJoinExec) -> Result<Option<Plan>> {
    let drops_others = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => true,
        JoinType::RightSemi => true,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark => false,
    };
    // NOT IN: a NULL on the left is in the answer where the right side has no row at all.
    if !drops_others || join.null_aware {
        return Ok(None);
    }
    let keys = join.on().iter().map(|(_, right)| right.clone()).collect();
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    let Some(right) = below(join.right(), &(filter.clone() as Condition))? else { return Ok(None) };
    let join = join.builder().with_new_children(vec![join.left().clone(), right])?.build()?;
    Ok(Some(Arc::new(join.with_dynamic_filter_expr(filter)?)))
}

/// The plan with a filter of its rows in a scan; None: there is none that it can go to.
fn below(plan: &Plan, filter: &Condition) -> Result<Option<Plan>> {
    if plan.is::<CooperativeExec>() && plan.children()[0].is::<DataSourceExec>() || plan.is::<DataSourceExec>() {
        return scan(plan, |source| source.filtered(filter));
    }
    for (side, places) in columns_below(plan) {
        let places = |at: usize| places.get(at).copied().flatten();
        if collect_columns(filter).iter().any(|column| places(column.index()).is_none()) {
            continue;
        }
        let mut children: Vec<Plan> = plan.children().into_iter().cloned().collect();
        let Some(child) = below(&children[side], &moved(filter.clone(), places)?)? else { continue };
        children[side] = child;
        return replace_children_if_necessary(plan.clone(), children).map(Some);
    }
    Ok(None)
}

/// Children of a node below which a filter of its rows may go, and where its columns are there.
fn columns_below(plan: &Plan) -> Vec<(usize, Vec<Option<usize>>)> {
    let place = |column: &Arc<dyn PhysicalExpr>| column.downcast_ref::<Column>().map(Column::index);
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return vec![(0, projection.expr().iter().map(|column| place(&column.expr)).collect())];
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none()) {
        let all = (0..filter.input().schema().fields().len()).collect();
        let columns: Vec<usize> = filter.projection().as_ref().map_or(all, |columns| columns.to_vec());
        return vec![(0, columns.into_iter().map(Some).collect())];
    }
    // Groups are dropped whole. Without columns to group by there is a row of no rows.
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let group = aggregate.group_expr();
        return match group.is_single() && !group.is_true_no_grouping() && aggregate.limit_options().is_none() {
            true => vec![(0, group.expr().iter().map(|(column, _)| place(column)).collect())],
            false => Vec::new(),
        };
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>().filter(|join| join.fetch().is_none()) {
        return columns_of_sides(join);
    }
    match plan.is::<CooperativeExec>() || plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() {
        true => vec![(0, (0..plan.schema().fields().len()).map(Some).collect())],
        false => Vec::new(),
    }
}

/// The sides of a join of which each row that goes up is a row, or NULLs for no other reason than
/// the row of the other side.
fn columns_of_sides(join: &HashJoinExec) -> Vec<(usize, Vec<Option<usize>>)> {
    let (left, right) = (join.left().schema().fields().len(), join.right().schema().fields().len());
    let (left, right) = ((0..left).map(|at| Some((0, at))), (0..right).map(|at| Some((1, at))));
    let (columns, sides): (Vec<Option<(usize, usize)>>, &[usize]) = match join.join_type() {
        JoinType::Inner => (left.chain(right).collect(), &[0, 1]),
        JoinType::Left => (left.chain(right).collect(), &[0]),
        JoinType::Right => (left.chain(right).collect(), &[1]),
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (left.chain([None]).collect(), &[0]),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (right.chain([None]).collect(), &[1]),
        JoinType::Full => (Vec::new(), &[]),
    };
    let columns: Vec<_> = match &join.projection {
        Some(projection) => projection.iter().map(|at| columns.get(*at).copied().flatten()).collect(),
        None => columns,
    };
    let of =
        |side: usize| columns.iter().map(|column| column.filter(|(of, _)| *of == side).map(|(_, at)| at)).collect();
    sides.iter().map(|side| (*side, of(*side))).collect()
}
