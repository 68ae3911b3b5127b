//! A table of a query: the rows of a snapshot, group by group.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};

use crate::arrays::Columns;
use crate::views::TableView;

/// A mirrored table at a block.
pub struct SnapshotTable(pub Arc<TableView>);

impl fmt::Debug for SnapshotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotTable({} rows)", self.0.rows.rows())
    }
}

#[async_trait]
impl TableProvider for SnapshotTable {
    fn schema(&self) -> SchemaRef {
        self.0.layout.schema().clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        fetch: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.0.layout.schema();
        let projection = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let groups = self.0.rows.groups();
        let source = GroupSource {
            columns: Arc::new(Columns::new(&self.0, &projection)?),
            table: self.0.clone(),
            projection: projection.into(),
            partitions: session.config().target_partitions().clamp(1, groups.max(1)),
            fetch,
        };
        Ok(Arc::new(DataSourceExec::new(Arc::new(source))))
    }
}

/// Reads every `partitions`-th group in each partition.
#[derive(Clone)]
struct GroupSource {
    table: Arc<TableView>,
    projection: Arc<[usize]>,
    columns: Arc<Columns>,
    partitions: usize,
    fetch: Option<usize>,
}

impl fmt::Debug for GroupSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupSource({} rows)", self.table.rows.rows())
    }
}

impl DataSource for GroupSource {
    fn open(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let source = self.clone();
        let mut left = self.fetch.unwrap_or(usize::MAX);
        let groups = (partition..self.table.rows.groups()).step_by(self.partitions);
        let batches = groups.map_while(move |group| {
            if left == 0 {
                return None;
            }
            Some(source.columns.batch(group).map(|batch| {
                let batch = batch.slice(0, batch.num_rows().min(left));
                left -= batch.num_rows();
                batch
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.columns.schema().clone(), futures::stream::iter(batches))))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot, {} rows", self.table.rows.rows())
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(self.columns.schema().clone())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(self.columns.schema());
        for (of, place) in statistics.column_statistics.iter_mut().zip(&*self.projection) {
            // Not exact: rows that went may have been the only ones with the least or the greatest.
            if let Some((least, greatest)) = self.table.bounds.values(&self.table.layout, *place) {
                let (min_value, max_value) = (Precision::Inexact(least), Precision::Inexact(greatest));
                *of = ColumnStatistics { min_value, max_value, ..ColumnStatistics::new_unknown() };
            }
        }
        statistics.num_rows = match (partition, self.fetch) {
            (None, None) => Precision::Exact(self.table.rows.rows()),
            _ => Precision::Inexact(self.table.rows.rows() / self.partitions),
        };
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(GroupSource { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(&self, _projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
