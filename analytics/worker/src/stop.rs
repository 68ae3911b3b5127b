//! Queries that can be ended: DataFusion ends a plan only where it gives way to other tasks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::ExecutionPlan;

/// Set when a query has to end.
pub type Stop = Arc<AtomicBool>;

/// Sets the flag when the query's rows are wanted no more.
pub struct StopOnDrop(pub Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The plan, where each join gives way to other tasks and looks at the flag: one join can take
/// hours without a row.
///
/// # Errors
/// Those of making a plan node anew.
pub fn stoppable(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<Arc<dyn ExecutionPlan>> {
    let made = plan.transform_up(|node| {
        if node.children().len() < 2 {
            return Ok(Transformed::no(node));
        }
        let node = match node.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => filtered(join, stop)?.unwrap_or(node),
            None => node,
        };
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(node)) as Arc<dyn ExecutionPlan>))
    });
    Ok(made?.data)
}

/// A join of this kind evaluates its filter for each batch of pairs, and gives way only with rows.
fn filtered(join: &NestedLoopJoinExec, stop: &Stop) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = join.filter() else { return Ok(None) };
    let condition = Arc::new(Unless { stop: stop.clone(), condition: filter.expression().clone() });
    let filter = JoinFilter::new(condition, filter.column_indices().to_vec(), filter.schema().clone());
    let projection = join.projection().as_ref().map(|projection| projection.to_vec());
    let (left, right) = (join.left().clone(), join.right().clone());
    Ok(Some(Arc::new(NestedLoopJoinExec::try_new(left, right, Some(filter), join.join_type(), projection)?)))
}

/// A condition that fails once the flag is set.
#[derive(Debug)]
struct Unless {
    stop: Stop,
    condition: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Unless {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stop, &other.stop) && self.condition.eq(&other.condition)
    }
}

impl Eq for Unless {}

impl Hash for Unless {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Unless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Unless {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.condition.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.condition.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(DataFusionError::Execution("the query was stopped".into())),
            false => self.condition.evaluate(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(condition) => Ok(Arc::new(Unless { stop: self.stop.clone(), condition })),
            None => Ok(self),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
