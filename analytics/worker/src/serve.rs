//! The database's connections over the Unix socket (spec/analytics.md, "Connection").

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chainify_analytics_functions::write_text;
use chainify_dialect::wire::{take_asked, take_first, Answer, Asked, CancelKey, First, Malformed};
use datafusion::arrow::array::RecordBatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{ReadHalf, WriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore};

use crate::command::{MIRRORS, SNAPSHOTS};
use crate::engine::{Failure, Running};
use crate::session::{Outcome, Session, Worker};
use crate::views::{MirrorStatus, SnapshotStatus};

/// How long a connection may take for its first message.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// Bytes that are read, and sent, at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// The running connections by their cancel keys.
#[derive(Default)]
struct Cancels {
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
            if let Err(error) = connection(stream, worker, &cancels).await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
}

async fn connection(mut stream: UnixStream, worker: Arc<Worker>, cancels: &Cancels) -> io::Result<()> {
    let (reader, writer) = stream.split();
    let mut received = Received { reader, bytes: Vec::new() };
    let first = tokio::time::timeout(FIRST_WAIT, received.next(take_first)).await??;
    match first {
        None => Ok(()),
        Some(First::Cancel(CancelKey { process, secret })) => {
            let running = cancels.keys().get(&(process, secret)).cloned();
            running.iter().for_each(|running| running.notify_waiters());
            Ok(())
        }
        Some(First::Startup) => {
            let number = cancels.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            // A keyed hash, whose key is the operating system's randomness.
            let key = (number, RandomState::new().hash_one(number) as i32);
            let cancelled = Arc::new(Notify::new());
            cancels.keys().insert(key, cancelled.clone());
            let (session, answer) = (Session::new(worker), Answer::default());
            let ended = Connection { session, cancelled, received, writer, answer }.run(key).await;
            cancels.keys().remove(&key);
            ended
        }
    }
}

/// The bytes of the client that are not read yet.
struct Received<'s> {
    reader: ReadHalf<'s>,
    bytes: Vec<u8>,
}

impl Received<'_> {
    /// The next message, as its reader makes it; None: the client has closed. It may be dropped and
    /// asked again.
    async fn next<M>(
        &mut self,
        read: impl Fn(&[u8]) -> Result<Option<(M, usize)>, Malformed>,
    ) -> io::Result<Option<M>> {
        loop {
            let taken = read(&self.bytes);
            if let Some((message, length)) = taken.map_err(|wrong| io::Error::other(wrong.0))? {
                self.bytes.drain(..length);
                return Ok(Some(message));
            }
            self.bytes.reserve(PIECE_BYTES);
            if self.reader.read_buf(&mut self.bytes).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Comes when the client has left. It looks no more at one that sends ahead.
    async fn left(&mut self) {
        while self.bytes.len() < PIECE_BYTES {
            if self.reader.read_buf(&mut self.bytes).await.unwrap_or(0) == 0 {
                return;
            }
        }
        std::future::pending().await
    }
}

struct Connection<'s> {
    session: Session,
    cancelled: Arc<Notify>,
    received: Received<'s>,
    writer: WriteHalf<'s>,
    answer: Answer,
}

impl Connection<'_> {
    async fn run(mut self, (process, secret): (i32, i32)) -> io::Result<()> {
        self.answer.accepted(CancelKey { process, secret });
        loop {
            self.answer.ready();
            self.writer.write_all(&self.answer.bytes).await?;
            self.answer.bytes.clear();
            let asked = self.received.next(|bytes| {
                let owned = |(asked, length)| match asked {
                    Asked::Query(text) => (Some(text.to_owned()), length),
                    Asked::Terminate => (None, length),
                };
                Ok(take_asked(bytes)?.map(owned))
            });
            let Some(Some(text)) = asked.await? else { return Ok(()) };
            self.statement(&text).await?;
        }
    }

    /// Runs a statement and sends its answer, but for the last bytes.
    async fn statement(&mut self, text: &str) -> io::Result<()> {
        let Connection { session, cancelled, received, writer, answer } = self;
        let mut stop = pin!(stop(session.settings().timeout, cancelled, received));
        let outcome = tokio::select! {
            biased;
            why = &mut stop => Err(why),
            outcome = session.run(text) => outcome,
        };
        let answered = match outcome {
            Err(failure) => Err(failure),
            Ok(Outcome::Done(tag)) => Ok(tag.to_owned()),
            Ok(Outcome::Rows(running)) => rows(running, stop, writer, answer).await?,
            Ok(Outcome::Mirrors(mirrors, last)) => {
                told(answer, &MIRRORS, mirrors.iter().map(|mirror| mirror_row(mirror, last)))
            }
            Ok(Outcome::Snapshots(snapshots)) => told(answer, &SNAPSHOTS, snapshots.iter().map(snapshot_row)),
        };
        match answered {
            Ok(tag) => answer.complete(&tag),
            Err(failure) => answer.error(&failure),
        }
        Ok(())
    }
}

/// Comes when the statement has to end: cancelled, out of time, or without a client.
async fn stop(timeout: Option<Duration>, cancelled: &Notify, received: &mut Received<'_>) -> Failure {
    let expired = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = cancelled.notified() => Failure::new("57014", "canceling statement due to user request"),
        () = expired => Failure::new("57014", "canceling statement due to statement timeout"),
        () = received.left() => Failure::new("08006", "the client left"),
    }
}

/// Sends the rows of a query until they end or `stop` comes. The last bytes stay in `answer`.
/// Returns the tag.
///
/// # Errors
/// Outer: the client takes nothing although the statement has to end.
async fn rows(
    mut running: Running,
    mut stop: Pin<&mut impl Future<Output = Failure>>,
    writer: &mut WriteHalf<'_>,
    answer: &mut Answer,
) -> io::Result<Result<String, Failure>> {
    answer.block(running.block);
    answer.columns(running.schema.clone().fields().iter().map(|field| field.name().as_str()));
    let (mut sent, mut text) = (0, String::new());
    loop {
        let next = tokio::select! {
            biased;
            why = &mut stop => return Ok(Err(why)),
            next = running.next() => next,
        };
        let batch = match next {
            None => return Ok(Ok(format!("SELECT {sent}"))),
            Some(Err(failure)) => return Ok(Err(failure)),
            Some(Ok(batch)) => batch,
        };
        for row in 0..batch.num_rows() {
            if let Err(failure) = put_row(answer, &batch, row, &mut text) {
                return Ok(Err(failure));
            }
            sent += 1;
            if answer.bytes.len() >= PIECE_BYTES {
                tokio::select! {
                    biased;
                    why = &mut stop => return Err(io::Error::other(why.message)),
                    written = writer.write_all(&answer.bytes) => written?,
                }
                answer.bytes.clear();
            }
        }
    }
}

fn put_row(answer: &mut Answer, batch: &RecordBatch, row: usize, text: &mut String) -> Result<(), Failure> {
    answer.row(batch.num_columns(), |value| {
        for column in batch.columns() {
            text.clear();
            let given =
                write_text(column.as_ref(), row, text).map_err(|error| Failure::new(error.sqlstate, error.message))?;
            value(given.then_some(text.as_str()));
        }
        Ok(())
    })
}

/// Rows of the worker's own. Returns the tag.
fn told(
    answer: &mut Answer,
    names: &[&str],
    rows: impl Iterator<Item = Vec<Option<String>>>,
) -> Result<String, Failure> {
    answer.columns(names.iter().copied());
    let mut sent = 0;
    for row in rows {
        answer.row(row.len(), |value| {
            row.iter().for_each(|text| value(text.as_deref()));
            Ok(())
        })?;
        sent += 1;
    }
    Ok(format!("SELECT {sent}"))
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
