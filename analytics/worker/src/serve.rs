//! PostgreSQL's protocol over the Unix socket (spec/analytics.md, "Connection").

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use chainify_analytics_functions::write_text;
use chainify_dialect::wire::BLOCK_PARAMETER;
use datafusion::arrow::array::RecordBatch;
use futures::{Sink, SinkExt};
use pgwire::api::auth::{
    finish_authentication, protocol_negotiation, save_startup_parameters_to_metadata, DefaultServerParameterProvider,
    StartupHandler,
};
use pgwire::api::cancel::CancelHandler;
use pgwire::api::query::SimpleQueryHandler;
use pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse, Response, Tag};
use pgwire::api::{ClientInfo, ClientPortalStore, PgWireServerHandlers, Type};
use pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::data::DataRow;
use pgwire::messages::startup::{ParameterStatus, SecretKey};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use pgwire::tokio::process_socket_unix;
use socket2::SockRef;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

use crate::command::{MIRRORS, SNAPSHOTS};
use crate::engine::{Failure, Running};
use crate::session::{Outcome, Session, Worker};
use crate::views::{MirrorStatus, SnapshotStatus};

/// Bytes of an ordinary row, and of a piece of memory for rows.
const ROW_BYTES: usize = 64;
const MEMORY_BYTES: usize = 64 * 1024;

/// How often a running query looks whether its client is still there.
const HANGUP_POLL: Duration = Duration::from_millis(100);

/// The running connections by their cancel keys.
#[derive(Default)]
pub struct Cancels {
    keys: Mutex<HashMap<(i32, i32), Arc<Notify>>>,
    next: AtomicI32,
}

impl Cancels {
    fn keys(&self) -> std::sync::MutexGuard<'_, HashMap<(i32, i32), Arc<Notify>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts connections for ever, at most `connections_max` at a time.
///
/// # Errors
/// Those of accepting.
pub async fn serve(listener: UnixListener, worker: Arc<Worker>, connections_max: usize) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(connections_max));
    let cancels = Arc::new(Cancels::default());
    loop {
        let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = listener.accept().await?;
        let (worker, cancels) = (worker.clone(), cancels.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, worker, cancels).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

async fn connection(stream: UnixStream, worker: Arc<Worker>, cancels: Arc<Cancels>) -> io::Result<()> {
    let stream = stream.into_std()?;
    let socket = OwnedFd::from(stream.try_clone()?);
    let number = cancels.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
    // A keyed hash, whose key is the operating system's randomness.
    let key = (number, RandomState::new().hash_one(number) as i32);
    let connection =
        Arc::new(Connection { session: Session::new(worker), cancels, key, cancelled: Arc::default(), socket });
    connection.cancels.keys().insert(key, connection.cancelled.clone());
    let ended = process_socket_unix(UnixStream::from_std(stream)?, Handlers(connection.clone())).await;
    connection.cancels.keys().remove(&key);
    ended
}

struct Connection {
    session: Session,
    cancels: Arc<Cancels>,
    key: (i32, i32),
    cancelled: Arc<Notify>,
    /// The same socket, to see the client leave while a query runs.
    socket: OwnedFd,
}

struct Handlers(Arc<Connection>);

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        self.0.clone()
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        self.0.clone()
    }

    fn cancel_handler(&self) -> Arc<impl CancelHandler> {
        self.0.clone()
    }
}

#[async_trait]
impl StartupHandler for Connection {
    async fn on_startup<C>(&self, client: &mut C, message: PgWireFrontendMessage) -> PgWireResult<()>
    where
        C: ClientInfo + Sink<PgWireBackendMessage> + Unpin + Send,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if let PgWireFrontendMessage::Startup(ref startup) = message {
            protocol_negotiation(client, startup).await?;
            save_startup_parameters_to_metadata(client, startup);
            client.set_pid_and_secret_key(self.key.0, SecretKey::I32(self.key.1));
            finish_authentication(client, &DefaultServerParameterProvider::default()).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl CancelHandler for Connection {
    async fn on_cancel_request(&self, request: CancelRequest) {
        let key = request.secret_key.as_i32().map(|secret| (request.pid, secret));
        if let Some(running) = key.and_then(|key| self.cancels.keys().get(&key).cloned()) {
            running.notify_waiters();
        }
    }
}

#[async_trait]
impl SimpleQueryHandler for Connection {
    async fn do_query<C>(&self, client: &mut C, text: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let mut stop = Box::pin(self.stop());
        let outcome = tokio::select! {
            biased;
            why = &mut stop => Err(why),
            outcome = self.session.run(text) => outcome,
        };
        let response = match outcome.map_err(wire_error)? {
            Outcome::Done(tag) => Response::Execution(Tag::new(tag)),
            Outcome::Rows(running) => {
                let block = ParameterStatus::new(BLOCK_PARAMETER.into(), running.block.to_string());
                client.feed(PgWireBackendMessage::ParameterStatus(block)).await?;
                Response::Query(rows(running, stop))
            }
            Outcome::Mirrors(mirrors, last) => {
                told(&MIRRORS, mirrors.iter().map(|mirror| mirror_row(mirror, last)).collect())
            }
            Outcome::Snapshots(snapshots) => told(&SNAPSHOTS, snapshots.iter().map(snapshot_row).collect()),
        };
        Ok(vec![response])
    }
}

impl Connection {
    /// Comes when the statement has to end: cancelled, out of time, or without a client.
    fn stop(&self) -> impl Future<Output = Failure> + Send + use<> {
        let timeout = self.session.settings().timeout;
        let (cancelled, socket) = (self.cancelled.clone(), self.socket.try_clone());
        async move {
            let expired = async {
                match timeout {
                    Some(timeout) => tokio::time::sleep(timeout).await,
                    None => std::future::pending().await,
                }
            };
            let left = async {
                let mut ticks = tokio::time::interval(HANGUP_POLL);
                loop {
                    ticks.tick().await;
                    if socket.as_ref().is_ok_and(|socket| has_left(socket)) {
                        return;
                    }
                }
            };
            tokio::select! {
                () = cancelled.notified() => Failure::new("57014", "canceling statement due to user request"),
                () = expired => Failure::new("57014", "canceling statement due to statement timeout"),
                () = left => Failure::new("08006", "the client left"),
            }
        }
    }
}

/// Whether the other side has closed, and nothing of it is left to be read.
fn has_left(socket: &OwnedFd) -> bool {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    matches!(SockRef::from(socket).peek(&mut byte), Ok(0))
}

fn wire_error(failure: Failure) -> PgWireError {
    let mut info = ErrorInfo::new("ERROR".into(), failure.sqlstate, failure.message);
    (info.detail, info.hint) = (failure.detail, failure.hint);
    PgWireError::UserError(Box::new(info))
}

fn fields<'a>(names: impl IntoIterator<Item = &'a str>) -> Arc<Vec<FieldInfo>> {
    // Values are texts: the client knows the types, since it wrote the query.
    let field = |name: &str| FieldInfo::new(name.into(), None, None, Type::TEXT, FieldFormat::Text);
    Arc::new(names.into_iter().map(field).collect())
}

/// Rows as messages. `stop` ends them with an error.
fn rows(running: Running, stop: std::pin::Pin<Box<impl Future<Output = Failure> + Send + 'static>>) -> QueryResponse {
    let fields = fields(running.schema.fields().iter().map(|field| field.name().as_str()));
    let messages = futures::stream::try_unfold(
        (running, stop, VecDeque::new()),
        |(mut running, mut stop, mut ready)| async move {
            loop {
                if let Some(row) = ready.pop_front() {
                    return Ok(Some((row, (running, stop, ready))));
                }
                let next = tokio::select! {
                    biased;
                    why = &mut stop => return Err(wire_error(why)),
                    next = running.next() => next,
                };
                match next {
                    None => return Ok(None),
                    Some(batch) => ready = batch.and_then(|batch| encode(&batch)).map_err(wire_error)?,
                }
            }
        },
    );
    QueryResponse::new(fields, messages)
}

fn encode(batch: &RecordBatch) -> Result<VecDeque<DataRow>, Failure> {
    let mut messages = VecDeque::with_capacity(batch.num_rows());
    let mut text = String::new();
    // Rows share pieces of memory.
    let mut memory = BytesMut::with_capacity((batch.num_rows() * ROW_BYTES).min(MEMORY_BYTES));
    for row in 0..batch.num_rows() {
        for column in batch.columns() {
            text.clear();
            let given = write_text(column.as_ref(), row, &mut text)
                .map_err(|error| Failure::new(error.sqlstate, error.message))?;
            put(&mut memory, given.then_some(&text));
        }
        messages.push_back(DataRow::new(memory.split(), batch.num_columns() as i16));
    }
    Ok(messages)
}

fn put(data: &mut BytesMut, value: Option<&String>) {
    match value {
        None => data.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(text) => {
            data.extend_from_slice(&(text.len() as i32).to_be_bytes());
            data.extend_from_slice(text.as_bytes());
        }
    }
}

/// Rows of the worker's own.
fn told(names: &[&str], rows: Vec<Vec<Option<String>>>) -> Response {
    let messages = rows.into_iter().map(|row| {
        let mut data = BytesMut::new();
        row.iter().for_each(|value| put(&mut data, value.as_ref()));
        Ok(DataRow::new(data, row.len() as i16))
    });
    let messages: Vec<PgWireResult<DataRow>> = messages.collect();
    Response::Query(QueryResponse::new(fields(names.iter().copied()), futures::stream::iter(messages)))
}

fn mirror_row((table, mirror): &(i32, MirrorStatus), last: i64) -> Vec<Option<String>> {
    let serving = mirror.error.is_none();
    let number = |number: u64| Some(number.to_string());
    vec![
        Some(table.to_string()),
        number(mirror.rows),
        number(mirror.bytes),
        number(mirror.chunks),
        number(mirror.chunks_shared),
        serving.then(|| mirror.block.to_string()),
        serving.then(|| (last - mirror.block).max(0).to_string()),
        mirror.digest_checked.map(|block| block.to_string()),
        Some(mirror.state.into()),
        mirror.error.clone(),
    ]
}

fn snapshot_row(snapshot: &SnapshotStatus) -> Vec<Option<String>> {
    let pinned = if snapshot.name.is_some() { "t" } else { "f" };
    let readers = snapshot.readers.to_string();
    vec![snapshot.name.clone(), Some(snapshot.block.to_string()), Some(pinned.into()), None, Some(readers)]
}
