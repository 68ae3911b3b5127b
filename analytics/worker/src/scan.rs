//! A table of a query: the rows of a snapshot, group by group.

use std::fmt;
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use chainify_analytics_functions::SqlError;
use chainify_snapshot::GROUP_ROWS;
use datafusion::arrow::compute::BatchCoalescer;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{apply_expression_roots, DisplayFormatType, ExecutionPlan};
use tokio::task::consume_budget;

use crate::arrays::{Columns, Output};
use crate::filters::{moved, Condition, Filter};
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
        if projection.iter().any(|place| self.0.bounds.have_nan(&self.0.layout, *place)) {
            let message = "a column of numeric(p,s) has or had NaN, for which the worker has no number";
            return Err(SqlError::new("0A000", message).into());
        }
        let groups = self.0.rows.groups();
        let source = GroupSource {
            output: Output { places: (0..projection.len()).collect(), schema: Arc::new(schema.project(&projection)?) },
            columns: Arc::new(Columns::new(&self.0, &projection)?),
            table: self.0.clone(),
            projection: projection.into(),
            conditions: Vec::new(),
            partitions: session.config().target_partitions().clamp(1, groups.max(1)),
            filters: Vec::new(),
            fetch,
        };
        Ok(Arc::new(DataSourceExec::new(Arc::new(source))))
    }
}

/// Reads every `partitions`-th group in each partition.
#[derive(Clone)]
pub struct GroupSource {
    table: Arc<TableView>,
    /// The columns that are read, by place of the store.
    projection: Arc<[usize]>,
    columns: Arc<Columns>,
    /// Those of them that go up.
    output: Output,
    partitions: usize,
    /// Rows have to meet these, over the columns that are read.
    conditions: Vec<Condition>,
    /// The same, and it may be left out.
    filters: Vec<Condition>,
    /// How many rows go up at most.
    fetch: Option<usize>,
}

impl fmt::Debug for GroupSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupSource({} rows)", self.table.rows.rows())
    }
}

/// A batch of more rows goes up as it is. Smaller ones are put together.
const MANY_ROWS: usize = GROUP_ROWS / 2;

/// The rest of a partition, which is still to be read.
struct Reading {
    columns: Arc<Columns>,
    output: Output,
    groups: StepBy<Range<usize>>,
    filters: Vec<Filter>,
    /// Rows of groups that filters left few of.
    gathered: BatchCoalescer,
    rows: usize,
}

impl Reading {
    /// The next rows. Between groups it gives way to other tasks: filters can drop all rows of many.
    async fn next(mut self) -> Result<Option<(RecordBatch, Reading)>> {
        while self.rows > 0 {
            if let Some(batch) = self.gathered.next_completed_batch() {
                let batch = batch.slice(0, batch.num_rows().min(self.rows));
                self.rows -= batch.num_rows();
                return Ok(Some((batch, self)));
            }
            consume_budget().await;
            match self.groups.next() {
                Some(group) => self.read(group)?,
                None if self.gathered.is_empty() => break,
                None => self.gathered.finish_buffered_batch()?,
            }
        }
        Ok(None)
    }

    /// Rows of a group that are many are not copied.
    fn read(&mut self, group: usize) -> Result<()> {
        let Some(batch) = self.columns.batch(group, &mut self.filters, &self.output)? else { return Ok(()) };
        if batch.num_rows() > MANY_ROWS {
            self.gathered.finish_buffered_batch()?;
        }
        Ok(self.gathered.push_batch(batch)?)
    }
}

impl GroupSource {
    /// The same with a filter over the rows that go up, which may be left out. None: it would drop
    /// rows before a LIMIT that counts them.
    pub fn filtered(&self, filter: &Condition) -> Result<Option<GroupSource>> {
        if self.fetch.is_some() {
            return Ok(None);
        }
        let mut source = self.clone();
        source.filters.push(moved(filter.clone(), |at| self.output.places.get(at).copied())?);
        Ok(Some(source))
    }

    /// The same with conditions over the rows that go up, of which some columns do then.
    pub fn selected(&self, conditions: &[&Condition], columns: Option<&[usize]>) -> Result<Option<GroupSource>> {
        if self.fetch.is_some() {
            return Ok(None);
        }
        let mut source = self.clone();
        for condition in conditions {
            source.conditions.push(moved((*condition).clone(), |at| self.output.places.get(at).copied())?);
        }
        if let Some(columns) = columns {
            source.output.places = columns.iter().map(|at| self.output.places[*at]).collect();
            source.output.schema = Arc::new(self.output.schema.project(columns)?);
        }
        Ok(Some(source))
    }
}

impl DataSource for GroupSource {
    fn open(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = &self.output.schema;
        let reading = Reading {
            columns: self.columns.clone(),
            output: self.output.clone(),
            groups: (partition..self.table.rows.groups()).step_by(self.partitions),
            filters: Filter::all(&self.conditions, &self.filters, self.columns.schema())?,
            gathered: BatchCoalescer::new(schema.clone(), GROUP_ROWS).with_biggest_coalesce_batch_size(Some(MANY_ROWS)),
            rows: self.fetch.unwrap_or(usize::MAX),
        };
        let batches = futures::stream::try_unfold(reading, Reading::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches)))
    }

    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot, {} rows", self.table.rows.rows())?;
        self.conditions.iter().chain(&self.filters).try_for_each(|filter| write!(f, ", {filter}"))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let ascending = |place: &usize| self.table.bounds.are_ascending(self.projection[*place]);
        let columns = self.output.places.iter().zip(self.output.schema.fields()).enumerate();
        let order = columns.filter(|(_, (place, _))| ascending(place)).map(|(at, (_, field))| {
            let column = Column::new(field.name(), at);
            [PhysicalSortExpr::new_default(Arc::new(column))]
        });
        EquivalenceProperties::new_with_orderings(self.output.schema.clone(), order)
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.output.schema);
        for (of, place) in statistics.column_statistics.iter_mut().zip(&self.output.places) {
            // Not exact: rows that went may have been the only ones with the least or the greatest.
            if let Some((least, greatest)) = self.table.bounds.values(&self.table.layout, self.projection[*place]) {
                let (min_value, max_value) = (Precision::Inexact(least), Precision::Inexact(greatest));
                *of = ColumnStatistics { min_value, max_value, ..ColumnStatistics::new_unknown() };
            }
        }
        let all = self.table.rows.rows();
        let is_all = self.fetch.is_none() && self.conditions.is_empty() && self.filters.is_empty();
        statistics.num_rows = match partition {
            None if is_all => Precision::Exact(all),
            None => Precision::Inexact(all.min(self.fetch.unwrap_or(all))),
            Some(_) => Precision::Inexact(all / self.partitions),
        };
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, fetch: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(GroupSource { fetch, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    /// Leaves out and renames columns.
    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let mut output = Output { places: Vec::new(), schema: self.output.schema.clone() };
        let mut fields = Vec::new();
        for column in projection.iter() {
            let Some(at) = column.expr.downcast_ref::<Column>().map(Column::index) else { return Ok(None) };
            output.places.push(self.output.places[at]);
            fields.push(self.output.schema.field(at).clone().with_name(&column.alias));
        }
        output.schema = Arc::new(Schema::new(fields));
        Ok(Some(Arc::new(GroupSource { output, ..self.clone() })))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Condition) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.conditions.iter().chain(&self.filters), f)
    }
}

#[cfg(test)]
mod tests {
    use chainify_snapshot::{Pool, Table};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::StreamExt;

    use super::*;
    use crate::bounds::{Bounds, Place};
    use crate::layout::{Layout, ToldColumn};
    use crate::pushed::{by_place, pushed};

    /// A table of an id, a key and a text, both of which are NULL in some rows. Every 50th row is
    /// deleted again.
    fn table(ids: Range<i64>, keys: i64) -> Arc<TableView> {
        let told = |(at, type_oid): (usize, &u32)| {
            let ordinal = at as u16 + 1;
            ToldColumn { ordinal, attnum: at as i16 + 1, of_key: at == 0, type_oid: *type_oid, modifier: -1 }
        };
        let layout = Arc::new(Layout::new([20, 20, 25].iter().enumerate().map(told).collect()));
        let (mut table, mut bounds) = (Table::new(&Pool::new(1 << 30), &layout.kinds()).unwrap(), Bounds::of(&layout));
        for id in ids.clone() {
            let key = (id % 7 > 0).then(|| (id * 7_919 % keys).to_le_bytes());
            let text = (id % 5 > 0).then(|| format!("{} and a few words", id % 40));
            let (id, key, text) = (id.to_le_bytes(), key.as_ref(), text.as_ref());
            let row = [Some(&id[..]), key.map(|key| &key[..]), text.map(|text| text.as_bytes())];
            table.insert(&row).unwrap();
            bounds.widen(&layout, &row, Place::Behind);
        }
        for slot in (0..(ids.end - ids.start) as usize).step_by(50) {
            table.delete(slot).unwrap();
        }
        Arc::new(TableView { rows: table.snapshot().unwrap(), layout, bounds })
    }

    fn context(tables: &[(&str, Arc<dyn TableProvider>)], partitions: usize) -> SessionContext {
        let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(GROUP_ROWS);
        let context = SessionContext::new_with_state(by_place(SessionContext::new_with_config(config).state()));
        for (name, table) in tables {
            context.register_table(*name, table.clone()).unwrap();
        }
        context
    }

    /// The plan of a query, and its rows in an order of their own.
    async fn asked(context: &SessionContext, sql: &str) -> (String, Vec<String>) {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let plan = pushed(plan).unwrap();
        let batches = collect(plan.clone(), context.task_ctx()).await.unwrap();
        let mut rows: Vec<String> =
            pretty_format_batches(&batches).unwrap().to_string().lines().map(Into::into).collect();
        rows.sort();
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        (plan, rows)
    }

    /// The same rows without filters in the scan and without its order.
    async fn in_memory(table: &Arc<TableView>) -> Arc<dyn TableProvider> {
        let context = context(&[("t", Arc::new(SnapshotTable(table.clone())))], 1);
        let rows = context.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap();
        Arc::new(MemTable::try_new(table.layout.schema().clone(), vec![rows]).unwrap())
    }

    const QUERIES: &[&str] = &[
        "SELECT small.c_1, big.c_1 FROM small JOIN big ON small.c_2 = big.c_2",
        "SELECT small.c_1, big.c_1 FROM small JOIN big ON small.c_2 = big.c_2 AND small.c_3 = big.c_3",
        "SELECT small.c_1, big.c_1 FROM small JOIN big ON small.c_2 IS NOT DISTINCT FROM big.c_2 WHERE small.c_1 < 20",
        "SELECT small.c_1, big.c_1 FROM small JOIN big ON small.c_2 = big.c_2 WHERE small.c_1 > 1000",
        "SELECT small.c_1, big.c_1 FROM small LEFT JOIN big ON small.c_2 = big.c_2 AND big.c_3 LIKE '1%'",
        "SELECT small.c_1, n FROM small JOIN (SELECT c_2, count(*) AS n, sum(c_1) FROM big GROUP BY c_2) s ON s.c_2 = small.c_2",
        "SELECT c_1 FROM small WHERE c_1 < (SELECT avg(c_1) FROM big WHERE big.c_2 = small.c_2)",
        "SELECT c_1, (SELECT count(*) FROM big WHERE big.c_2 = small.c_2) FROM small",
        "SELECT c_1 FROM big WHERE c_2 IN (SELECT c_2 FROM small WHERE c_1 < 9)",
        "SELECT c_1 FROM small WHERE NOT EXISTS (SELECT 1 FROM big WHERE big.c_2 = small.c_2 AND big.c_3 = small.c_3)",
        "SELECT c_1 FROM small WHERE c_2 NOT IN (SELECT c_2 FROM big WHERE c_1 < 5000)",
        "SELECT c_1 FROM big WHERE c_2 NOT IN (SELECT c_2 FROM small WHERE c_2 IS NOT NULL)",
        "SELECT c_1, count(*) FROM big WHERE c_3 > '2' GROUP BY c_1 HAVING c_1 % 3 = 0",
        "SELECT c_3, max(c_1) FROM big WHERE c_2 % 2 = 0 AND c_3 <> '7 and a few words' AND c_1 > 12000 GROUP BY c_3",
        "SELECT c_1, c_2 FROM big ORDER BY c_2 DESC NULLS LAST, c_1 LIMIT 7",
        "SELECT c_1, c_2 FROM big WHERE c_3 LIKE '%9 and%' ORDER BY c_1 DESC LIMIT 7",
        "SELECT c_1 FROM (SELECT c_1, c_2 FROM big ORDER BY c_1 LIMIT 3000) WHERE c_2 < 100 LIMIT 9",
        "SELECT count(*) FROM big WHERE c_2 > 5",
        "SELECT count(*) FROM big WHERE c_1 % 100 = 3 OR c_1 BETWEEN 9000 AND 16000",
        "SELECT count(*), min(c_1), max(c_2) FROM big",
        "SELECT min(c_2), max(c_1) FROM big WHERE c_2 > 5",
        "SELECT 1 FROM big WHERE c_1 < 0",
        "SELECT a.c_1, b.c_1, c.c_1 FROM big a JOIN big b ON a.c_1 = b.c_2 JOIN big c ON b.c_2 = c.c_1 WHERE b.c_1 IN (SELECT c_2 FROM small)",
        "SELECT a.c_1, b.c_1 FROM small a LEFT JOIN big b ON a.c_2 = b.c_1 WHERE b.c_2 IS NULL OR a.c_2 < 50",
        // A row whose key is NULL is in the answer of an empty list alone.
        "SELECT c_1 FROM small WHERE c_2 NOT IN (SELECT c_1 FROM big WHERE c_1 > 29000)",
        "SELECT c_1 FROM small WHERE c_2 NOT IN (SELECT c_1 FROM big WHERE c_1 > 290000)",
        // Columns of one name, of which an upper node filters the second.
        "SELECT b.c_1 FROM small a JOIN big b ON a.c_2 = b.c_2 JOIN big c ON b.c_1 = c.c_1 WHERE a.c_1 > 30 ORDER BY b.c_1 LIMIT 5",
        "SELECT b.c_1 FROM small a JOIN big b ON a.c_2 = b.c_2 JOIN small c ON b.c_2 = c.c_1 WHERE a.c_3 LIKE '1%' ORDER BY b.c_1 DESC LIMIT 3",
        "SELECT c.c_1 FROM small a JOIN small b ON a.c_2 = b.c_1 JOIN big c ON b.c_2 = c.c_2 WHERE a.c_1 % 2 = 1 ORDER BY c.c_1 DESC LIMIT 3",
        "SELECT max(b.c_1) FROM small a JOIN big b ON a.c_2 = b.c_2 JOIN big c ON b.c_1 = c.c_1 WHERE a.c_1 % 2 = 1",
        "SELECT b.c_1 FROM small a JOIN big b ON a.c_2 = b.c_2 LEFT JOIN small c ON b.c_1 = c.c_2 WHERE a.c_1 % 2 = 1 ORDER BY b.c_1 LIMIT 6",
        "SELECT s.c_1, b.c_1 FROM (SELECT a.c_1, c.c_2 FROM small a JOIN small c ON a.c_2 = c.c_1 WHERE a.c_1 % 2 = 1) s JOIN big b ON s.c_2 = b.c_1 JOIN big d ON b.c_2 = d.c_1",
        "SELECT a.c_1, b.c_1, c.c_1 FROM small a JOIN big b ON a.c_2 = b.c_2 JOIN (SELECT * FROM small WHERE c_1 < 50) c ON b.c_1 = c.c_2 WHERE a.c_3 LIKE '1%'",
        "SELECT a.c_1, b.c_1, c.c_1 FROM big a JOIN big b ON a.c_2 = b.c_2 JOIN (SELECT * FROM small WHERE c_1 < 5) c ON b.c_1 = c.c_2 WHERE a.c_3 LIKE '1%' AND b.c_3 LIKE '2%'",
        "SELECT a.c_1, b.c_1 FROM big a JOIN big b ON a.c_2 = b.c_2 WHERE a.c_3 LIKE '1%' AND b.c_3 LIKE '2%' AND b.c_1 IN (SELECT c_2 FROM small WHERE c_1 < 40)",
        "SELECT a.c_1, b.c_1, c.c_1 FROM small c JOIN (SELECT a.c_1, b.c_1 AS d, a.c_3 FROM big b LEFT JOIN big a ON a.c_2 = b.c_2 AND a.c_1 > 20000) x(c_1, d, e) ON x.d = c.c_2 JOIN big a ON a.c_1 = x.c_1 JOIN big b ON b.c_1 = x.d WHERE c.c_1 < 30",
    ];

    #[tokio::test]
    async fn answers_are_those_without_filters_in_the_scan_and_without_its_order() {
        let (small, big, none) = (table(0..300, 900), table(0..30_000, 900), table(0..1, 1));
        for small in [small, none] {
            let theirs = context(&[("small", in_memory(&small).await), ("big", in_memory(&big).await)], 1);
            for partitions in [1, 3] {
                let scan = |table: &Arc<TableView>| Arc::new(SnapshotTable(table.clone())) as Arc<dyn TableProvider>;
                let ours = context(&[("small", scan(&small)), ("big", scan(&big))], partitions);
                for sql in QUERIES {
                    let (plan, rows) = asked(&ours, sql).await;
                    assert_eq!(rows, asked(&theirs, sql).await.1, "{sql}\n{plan}");
                }
            }
        }
    }

    #[tokio::test]
    async fn keys_of_the_smaller_side_reach_the_scan_below_an_aggregate() {
        let tables: [(&str, Arc<dyn TableProvider>); 2] = [
            ("small", Arc::new(SnapshotTable(table(0..20, 900)))),
            ("big", Arc::new(SnapshotTable(table(0..30_000, 900)))),
        ];
        let (plan, _) = asked(&context(&tables, 1), QUERIES[6]).await;
        let scan = plan.lines().find(|line| line.contains("29400 rows")).unwrap();
        assert!(scan.contains("DynamicFilter"), "{plan}");
        let (plan, _) = asked(&context(&tables, 1), QUERIES[12]).await;
        assert!(plan.contains("ordering_mode=Sorted") && !plan.contains("FilterExec"), "{plan}");
    }
    #[tokio::test]
    async fn a_scan_whose_filters_drop_every_row_gives_way_to_other_tasks() {
        let table: Arc<dyn TableProvider> = Arc::new(SnapshotTable(table(0..30_000, 900)));
        let context = context(&[("big", table)], 1);
        let plan = context.sql("SELECT c_1 FROM big WHERE c_1 % 2 = 2").await.unwrap();
        let plan = pushed(plan.create_physical_plan().await.unwrap()).unwrap();
        let mut rows = plan.children().first().map_or(&plan, |scan| scan).execute(0, context.task_ctx()).unwrap();
        while futures::poll!(std::pin::pin!(consume_budget())).is_ready() {}
        assert!(futures::poll!(rows.next()).is_pending());
        assert!(rows.next().await.is_none());
    }
}
