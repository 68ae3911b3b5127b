//! Queries in the dialect of spec/analytics.md over the rows of a block.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use chainify_snapshot::Error as StoreError;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider,
    SchemaProvider,
};
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, Semaphore, SemaphorePermit};

use chainify_analytics_functions::SqlError;
pub use chainify_dialect::wire::Failure;

use crate::pushed::{by_place, pushed};
use crate::scan::SnapshotTable;
use crate::stop::{stoppable, Stop, StopOnDrop};
use crate::views::BlockView;

/// A text of the dialect is at most 100 deep, and each of these levels takes a few of the parser's.
const PARSE_DEPTH_MAX: usize = 1_000;
/// A join looks its keys up in an array where one of fifty integers of their range is a key: up to
/// 200 bytes for each key.
const KEY_DENSITY_MIN: f64 = 0.02;
/// Batches that are computed before the client has taken those before.
const BATCHES_AHEAD: usize = 2;

/// The functions, the bound of memory and the threads of all queries. Other threads serve
/// connections: a query that computes for long must not keep others from being cancelled.
pub struct Engine {
    base: SessionState,
    memory_bytes: usize,
    threads: Handle,
    turns: Semaphore,
    time_max: Duration,
}

/// The bounds of all queries together.
pub struct Bounds {
    /// Bytes for hashes, sorts and texts.
    pub memory_bytes: usize,
    /// Parts that each query is cut into.
    pub parts: usize,
    /// Queries that compute at a time.
    pub running_max: usize,
    /// How long each may take.
    pub time_max: Duration,
}

/// A query whose plan is wanted, and where its rows go.
struct Task {
    session: SessionState,
    statement: Statement,
    stop: Stop,
    rows: mpsc::Sender<Told>,
}

/// Takes the columns of a query, or the reason why there are none; None: it was told.
type Planned = Option<oneshot::Sender<Result<SchemaRef, Failure>>>;

/// A message of a query to its connection. The end is one too: a query that broke off must not pass
/// for one with fewer rows.
enum Told {
    Rows(RecordBatch),
    Failed(Failure),
    End,
}

fn broken_off() -> Failure {
    Failure::new("XX000", "the query broke off in the analytics worker")
        .hint("The worker's log has the reason. PostgreSQL answers the query over chainify.as_of.")
}

/// A query under way. Dropping it ends the query.
pub struct Running {
    /// Its columns.
    pub schema: SchemaRef,
    /// The block whose rows it sees.
    pub block: i64,
    batches: mpsc::Receiver<Told>,
    ended: bool,
    _reader: Arc<()>,
    _guard: StopOnDrop,
}

impl Running {
    /// The next rows; None: there are no more.
    ///
    /// # Errors
    /// Those of the query.
    pub async fn next(&mut self) -> Option<Result<RecordBatch, Failure>> {
        if self.ended {
            return None;
        }
        let told = self.batches.recv().await;
        self.ended = !matches!(told, Some(Told::Rows(_)));
        match told {
            Some(Told::Rows(batch)) => Some(Ok(batch)),
            Some(Told::Failed(failure)) => Some(Err(failure)),
            Some(Told::End) => None,
            None => Some(Err(broken_off())),
        }
    }
}

/// A parsed query.
pub struct Query {
    statement: Statement,
    /// The versions of tables that it names.
    pub tables: Vec<i32>,
}

impl Engine {
    /// An engine whose queries run on `threads`.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn new(bounds: Bounds, threads: Handle) -> Result<Arc<Engine>, DataFusionError> {
        let Bounds { memory_bytes, running_max, time_max, .. } = bounds;
        let mut config = SessionConfig::new()
            .with_target_partitions(bounds.parts)
            .with_batch_size(chainify_snapshot::GROUP_ROWS)
            .with_information_schema(false)
            .set_usize("datafusion.sql_parser.recursion_limit", PARSE_DEPTH_MAX);
        config.options_mut().execution.perfect_hash_join_min_key_density = KEY_DENSITY_MIN;
        let runtime: Arc<RuntimeEnv> = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(memory_bytes)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled))
            .build_arc()?;
        let context = SessionContext::new_with_config_rt(config, runtime);
        chainify_analytics_functions::register(&context);
        let turns = Semaphore::new(running_max);
        let base = by_place(context.state());
        Ok(Arc::new(Engine { base, memory_bytes, threads, turns, time_max }))
    }

    /// Reads the text of a query.
    ///
    /// # Errors
    /// 42601 for a text that is no SELECT of the dialect.
    pub fn parse(&self, sql: &str) -> Result<Query, Failure> {
        let dialect = self.base.config().options().sql_parser.dialect;
        let statement = self.base.sql_to_statement(sql, &dialect).map_err(|error| self.failure(&error))?;
        let references = self.base.resolve_table_references(&statement).map_err(|error| self.failure(&error))?;
        let tables = references.iter().map(|reference| {
            let number = reference.table().strip_prefix("t_").and_then(|digits| digits.parse().ok());
            number.ok_or_else(|| Failure::new("42P01", format!("\"{}\" is no mirrored table", reference.table())))
        });
        Ok(Query { tables: tables.collect::<Result<_, _>>()?, statement })
    }

    /// Begins a query over the rows of a block. It waits for a turn.
    ///
    /// # Errors
    /// 55000 for a table that is not mirrored; those of planning, with their SQLSTATEs; 53400 when it
    /// takes too long.
    pub async fn run(self: &Arc<Self>, query: Query, view: &BlockView) -> Result<Running, Failure> {
        let schema = Arc::new(MemorySchemaProvider::new());
        for table in &query.tables {
            let Some(rows) = view.tables.get(table) else {
                return Err(Failure::new("55000", "a table of the query has no mirror")
                    .detail(format!("Version {table} of a table is not mirrored at block {}.", view.block))
                    .hint("chainify.mirrors says why, or how far it is."));
            };
            let rows = Arc::new(SnapshotTable(rows.clone()));
            schema.register_table(format!("t_{table}"), rows).map_err(|error| self.failure(&error))?;
        }
        let session = self.session_of(schema).map_err(|error| self.failure(&error))?;
        let (planned, plan) = oneshot::channel();
        let (rows, batches) = mpsc::channel(BATCHES_AHEAD);
        let stop = Stop::default();
        let guard = StopOnDrop(stop.clone());
        let task = Task { session, statement: query.statement, stop, rows };
        self.threads.spawn(self.clone().bounded(task, Some(planned)));
        match plan.await {
            Ok(schema) => {
                let block = view.block;
                Ok(Running {
                    schema: schema?,
                    block,
                    batches,
                    ended: false,
                    _reader: view.readers.clone(),
                    _guard: guard,
                })
            }
            Err(_) => Err(broken_off()),
        }
    }

    /// Computes a query while somebody wants it, and no longer than a query may take.
    async fn bounded(self: Arc<Self>, task: Task, mut planned: Planned) {
        let (rows, stop, time_max) = (task.rows.clone(), task.stop.clone(), self.time_max);
        tokio::select! {
            biased;
            () = rows.closed() => return,
            () = tokio::time::sleep(time_max) => (),
            () = self.compute(task, &mut planned) => return,
        }
        stop.store(true, Ordering::Relaxed);
        let failure = Failure::new("53400", "the query takes longer than the analytics worker lets queries run")
            .detail(format!("The bound is {} seconds.", time_max.as_secs()))
            .hint("Raise queries.seconds_max of chainify-analytics, or let PostgreSQL answer the query.");
        match planned {
            Some(planned) => _ = planned.send(Err(failure)),
            None => _ = rows.send(Told::Failed(failure)).await,
        }
    }

    async fn compute(&self, task: Task, planned: &mut Planned) {
        let Task { session, statement, stop, rows } = task;
        let mut _turn = self.turn().await;
        let stream = planned_stream(session, statement, &stop).await;
        let schema = stream.as_ref().map(|stream| stream.schema()).map_err(|error| self.refusal(error));
        if let Some(planned) = planned.take() {
            let _ = planned.send(schema);
        }
        let Ok(mut stream) = stream else { return };
        while let Some(batch) = stream.next().await {
            let failed = batch.is_err();
            let told = batch.map_or_else(|error| Told::Failed(self.failure(&error)), Told::Rows);
            // While the client takes its time, others compute.
            if let Err(TrySendError::Full(told)) = rows.try_send(told) {
                drop(_turn);
                let _ = rows.send(told).await;
                _turn = self.turn().await;
            }
            if failed {
                return;
            }
        }
        drop(_turn);
        let _ = rows.send(Told::End).await;
    }

    /// A query computes while it has one. The semaphore is never closed.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// A session that sees these tables alone. Cost: a copy of the tables of functions.
    fn session_of(&self, tables: Arc<MemorySchemaProvider>) -> Result<SessionState, DataFusionError> {
        let (catalogs, catalog) = (MemoryCatalogProviderList::new(), MemoryCatalogProvider::new());
        let names = &self.base.config().options().catalog;
        catalog.register_schema(&names.default_schema, tables)?;
        catalogs.register_catalog(names.default_catalog.clone(), Arc::new(catalog));
        let mut session = self.base.clone();
        session.register_catalog_list(Arc::new(catalogs));
        Ok(session)
    }

    /// The error of a query that was not begun: what has no SQLSTATE of its own is refused, so that
    /// PostgreSQL can answer it.
    fn refusal(&self, error: &DataFusionError) -> Failure {
        let failure = self.failure(error);
        match failure.sqlstate.as_str() {
            "XX000" => Failure::new("0A000", "not available in analytics: the worker has no plan for this query")
                .detail(failure.message),
            _ => failure,
        }
    }

    /// The error as PostgreSQL would word it, or as near as can be.
    pub fn failure(&self, error: &DataFusionError) -> Failure {
        if let Some(own) = SqlError::of(error) {
            return Failure::new(own.sqlstate, own.message.clone());
        }
        match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => {
                Failure::new("53200", "the query takes more memory than the analytics worker has for queries")
                    .detail(format!("The bound is {} MiB for all queries together.", self.memory_bytes >> 20))
                    .hint("Raise memory.queries of chainify-analytics, or let PostgreSQL answer the query.")
            }
            DataFusionError::SQL(error, _) => Failure::new("42601", error.to_string()),
            DataFusionError::External(error) if error.is::<StoreError>() => Failure::new("53200", error.to_string()),
            DataFusionError::ArrowError(error, _) => arrow_failure(error),
            other => Failure::new("XX000", other.strip_backtrace()),
        }
    }
}

async fn planned_stream(
    session: SessionState,
    statement: Statement,
    stop: &Stop,
) -> Result<SendableRecordBatchStream, DataFusionError> {
    let plan = session.statement_to_plan(statement).await?;
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false).verify_plan(&plan)?;
    let plan = session.create_physical_plan(&plan).await?;
    execute_stream(stoppable(pushed(plan)?, stop)?, session.task_ctx())
}

fn arrow_failure(error: &ArrowError) -> Failure {
    let sqlstate = match error {
        ArrowError::DivideByZero => "22012",
        ArrowError::ArithmeticOverflow(_) => "22003",
        // Digits beyond 38, which PostgreSQL has.
        ArrowError::CastError(_) | ArrowError::InvalidArgumentError(_) => "0A000",
        ArrowError::ParseError(_) => "22P02",
        _ => "XX000",
    };
    Failure::new(sqlstate, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query whose task told this and went away.
    fn gone_after(told: Vec<Told>) -> Running {
        let (sender, batches) = mpsc::channel(told.len().max(1));
        told.into_iter().for_each(|told| sender.try_send(told).unwrap());
        let schema = Arc::new(datafusion::arrow::datatypes::Schema::empty());
        Running {
            schema,
            block: 1,
            batches,
            ended: false,
            _reader: Arc::default(),
            _guard: StopOnDrop(Stop::default()),
        }
    }

    #[tokio::test]
    async fn a_query_that_broke_off_is_no_short_answer() {
        let batch = RecordBatch::new_empty(Arc::new(datafusion::arrow::datatypes::Schema::empty()));
        let mut whole = gone_after(vec![Told::Rows(batch.clone()), Told::End]);
        assert!(whole.next().await.unwrap().is_ok());
        assert!(whole.next().await.is_none());
        let mut broken = gone_after(vec![Told::Rows(batch)]);
        assert!(broken.next().await.unwrap().is_ok());
        assert_eq!(broken.next().await.unwrap().unwrap_err(), broken_off());
        assert!(broken.next().await.is_none());
        let mut failed = gone_after(vec![Told::Failed(Failure::new("22012", "division by zero"))]);
        assert_eq!(failed.next().await.unwrap().unwrap_err().sqlstate, "22012");
        assert!(failed.next().await.is_none());
    }
}
