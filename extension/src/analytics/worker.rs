//! This backend's connection to the analytics worker: PostgreSQL's protocol over a Unix socket.
//!
//! The connection is kept between statements. A query takes it out of its place, and puts it back
//! only after the whole answer was read. A query that ends early is cancelled, and its connection
//! closed, so that a late row of it cannot end up in the answer of another query.
use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use chainify_dialect::wire::{self, CancelKey, Failure, Message};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::pg::base::error::PgError;
use crate::pg::base::latch::{pause, wait_for_socket, Interest, Woken};
use crate::pg::base::text_rows::TextRow;

/// How long to try to be accepted.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static KEPT: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Sends statements one after the other, waits for each answer until `deadline`, and gives the rows
/// of the last one to `row`. Returns the block that the worker named last. Errors: the worker's
/// own, with its SQLSTATE; 08001 and 08006 when it does not answer.
pub fn ask(
    path: &str,
    statements: &[String],
    deadline: Instant,
    mut row: impl FnMut(&TextRow) -> Result<(), PgError>,
) -> Result<Option<i64>, PgError> {
    let kept = KEPT.take().filter(|kept| kept.path == path);
    let kept = kept.filter(Connection::is_idle);
    let mut connection = match kept {
        Some(kept) => kept,
        None => Connection::open(path)?,
    };
    let last = statements.len().saturating_sub(1);
    let mut answered = Ok(());
    connection.block = None;
    for (at, statement) in statements.iter().enumerate() {
        answered = match at == last {
            true => connection.run(statement, deadline, &mut row),
            false => connection.run(statement, deadline, &mut |_| Ok(())),
        };
        if answered.is_err() {
            break;
        }
    }
    let block = connection.block;
    // An error of the worker is a whole answer as well.
    if !connection.busy {
        KEPT.set(Some(connection));
    }
    answered.map(|()| block)
}

struct Connection {
    stream: UnixStream,
    path: String,
    received: Vec<u8>,
    key: Option<CancelKey>,
    /// A query is under way.
    busy: bool,
    /// The block whose rows the answer has, once the worker named it.
    block: Option<i64>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let (true, Some(key)) = (self.busy, self.key) {
            // The worker also ends a query whose connection closes; this is sooner. It never waits:
            // a worker that does not accept at once gets no request.
            let _ = connected(&self.path).map(|mut stream| stream.write(&wire::cancel(key)));
        }
    }
}

/// A connection that never blocks.
fn connected(path: &str) -> std::io::Result<UnixStream> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.connect(&address)?;
    Ok(UnixStream::from(socket))
}

impl Connection {
    fn open(path: &str) -> Result<Self, PgError> {
        let deadline = Instant::now() + CONNECT_WAIT_MAX;
        let stream = loop {
            match connected(path) {
                Ok(stream) => break stream,
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    pause(CONNECT_RETRY_PAUSE);
                }
                Err(error) => return Err(unreachable(path, &error)),
            }
        };
        let mut connection = Connection {
            stream,
            path: path.into(),
            received: Vec::new(),
            key: None,
            busy: false,
            block: None,
        };
        let parameters = [
            ("user", "chainify"),
            ("database", "chainify"),
            ("application_name", "chainify extension"),
            ("client_encoding", "UTF8"),
        ];
        connection.send(&wire::startup(&parameters), deadline)?;
        connection.until_ready(deadline, &mut |_| Ok(()))?;
        Ok(connection)
    }

    /// Whether the worker still holds the other end and has nothing to say.
    fn is_idle(&self) -> bool {
        let mut byte = [0];
        match (&self.stream).read(&mut byte) {
            Err(error) => error.kind() == ErrorKind::WouldBlock && self.received.is_empty(),
            Ok(0) => false,   // closed
            Ok(1..) => false, // out of step
        }
    }

    fn run(
        &mut self,
        statement: &str,
        deadline: Instant,
        row: &mut dyn FnMut(&TextRow) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        self.busy = true;
        self.send(&wire::query(statement), deadline)?;
        self.until_ready(deadline, row)
    }

    fn send(&mut self, bytes: &[u8], deadline: Instant) -> Result<(), PgError> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(written) => sent += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(Interest::Writable, deadline)?
                }
                Err(error) => return Err(lost(&error.to_string())),
            }
        }
        Ok(())
    }

    /// Reads messages until the worker is ready for the next query. An error of the worker is
    /// returned then.
    fn until_ready(
        &mut self,
        deadline: Instant,
        row: &mut dyn FnMut(&TextRow) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        let mut failed = None;
        loop {
            let mut used = 0;
            while let Some((message, length)) =
                wire::take(&self.received[used..]).map_err(|wrong| lost(wrong.0))?
            {
                let message_at = used + wire::HEAD_BYTES;
                used += length;
                match message {
                    Message::Row(fields) => row(&TextRow {
                        fields: &fields,
                        message: &self.received[message_at..used],
                    })?,
                    Message::Key(key) => self.key = Some(key),
                    Message::Block(block) => self.block = Some(block),
                    Message::Error(failure) => failed = Some(worker_error(failure)),
                    Message::AuthenticationAsked => {
                        return Err(lost("it asks for a password"));
                    }
                    Message::Ready => {
                        self.received.drain(..used);
                        self.busy = false;
                        return failed.map_or(Ok(()), Err);
                    }
                    _ => (),
                }
            }
            self.received.drain(..used);
            if let Err(gone) = self.receive(deadline) {
                // Its last words are the reason.
                return Err(failed.unwrap_or(gone));
            }
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), PgError> {
        let mut bytes = [0; READ_BYTES];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(lost("it closed the connection")),
                Ok(read) => {
                    self.received.extend_from_slice(&bytes[..read]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(Interest::Readable, deadline)?
                }
                Err(error) => return Err(lost(&error.to_string())),
            }
        }
    }

    fn wait(&self, interest: Interest, deadline: Instant) -> Result<(), PgError> {
        match wait_for_socket(self.stream.as_fd(), interest, deadline) {
            Woken::Socket => Ok(()),
            Woken::Deadline => Err(lost("it does not answer in time")
                .hint("The setting chainify.analytics_timeout says how long a session waits.")),
        }
    }
}

/// The worker's own words; a SQLSTATE that is none becomes XX000.
fn worker_error(failure: Failure) -> PgError {
    PgError {
        detail: failure.detail,
        hint: failure.hint,
        ..PgError::told(&failure.sqlstate, failure.message)
    }
}

fn unreachable(path: &str, error: &std::io::Error) -> PgError {
    PgError::new(b"08001", "the analytics worker does not answer")
        .detail(format!("Connecting to \"{path}\" failed: {error}."))
        .hint("Start chainify-analytics, or set chainify.analytics_socket to the directory of its socket.")
}

fn lost(why: &str) -> PgError {
    PgError::new(b"08006", "the connection to the analytics worker is lost")
        .detail(format!("The reason: {why}."))
}
