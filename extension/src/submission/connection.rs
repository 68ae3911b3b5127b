//! This backend's connection to its organisation's node (spec/node-socket.md).
//!
//! The connection is kept between statements. A request takes it out of its place, and puts it back
//! only after the answer was read. A request that ends early (cancel, timeout, an error anywhere)
//! closes it. So a late answer cannot be read as the answer to another request, and an aborted
//! transaction leaves nothing behind.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use chainify_ledger::node_messages::{
    encode_frame, take_frame, NodeError, NodeRequest, NodeResponse, RequestBody, ResponseBody,
};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::pg::base::error::PgError;
use crate::pg::base::latch::{pause, wait_for_socket, Interest, Woken};

/// How long to try to be accepted by a node whose queue of connections is full.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(2);
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(20);
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static KEPT: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

/// Sends one request to the node listening on `path` and returns its answer; a `NodeError` becomes
/// the failure it describes. Waits for the answer until `deadline`.
pub fn ask(path: &str, body: RequestBody, deadline: Instant) -> Result<ResponseBody, PgError> {
    if path.is_empty() {
        return Err(PgError::new(b"08001", "no chainify node is configured for this database")
            .detail("The setting \"chainify.node_socket\" is empty.")
            .hint("Set it to the path of the node's Unix socket, in postgresql.conf or with ALTER SYSTEM, and reload."));
    }
    let mut connection = match KEPT.take() {
        Some(kept) if kept.path == path && kept.is_idle() => kept,
        _ => Connection::open(path)?,
    };
    let frame = connection.next_frame(body)?;
    if let Err(error) = connection.send(&frame, deadline) {
        if error.sent_any {
            return Err(error.failure);
        }
        // Closed since it was looked at: the node has seen nothing of this request.
        connection = Connection {
            last_request: connection.last_request,
            ..Connection::open(path)?
        };
        connection
            .send(&frame, deadline)
            .map_err(|error| error.failure)?;
    }
    let answer = connection.receive_answer(deadline)?;
    KEPT.set(Some(connection));
    match answer {
        ResponseBody::Error(error) => Err(node_error(error)),
        other => Ok(other),
    }
}

/// The node's own words; a SQLSTATE that is none becomes XX000.
fn node_error(error: NodeError) -> PgError {
    let optional = |text: String| Some(text).filter(|text| !text.is_empty());
    PgError {
        detail: optional(error.detail),
        hint: optional(error.hint),
        ..PgError::told(&error.sqlstate, error.message)
    }
}

struct SendError {
    failure: PgError,
    sent_any: bool,
}

struct Connection {
    stream: UnixStream,
    path: String,
    received: Vec<u8>,
    last_request: u64,
}

impl Connection {
    fn open(path: &str) -> Result<Self, PgError> {
        let address = SockAddr::unix(path).map_err(|error| unreachable(path, &error))?;
        let deadline = Instant::now() + CONNECT_WAIT_MAX;
        loop {
            // Non-blocking from the start: connecting waits in the kernel while the node's queue is
            // full, and that wait could not be cancelled.
            let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)
                .map_err(|error| unreachable(path, &error))?;
            match socket.connect(&address) {
                Ok(()) => {
                    let stream = UnixStream::from(socket);
                    return Ok(Connection {
                        stream,
                        path: path.into(),
                        received: Vec::new(),
                        last_request: 0,
                    });
                }
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline =>
                {
                    pause(CONNECT_RETRY_PAUSE);
                }
                Err(error) => return Err(unreachable(path, &error)),
            }
        }
    }

    /// Whether the node still holds the other end and has nothing to say: the only state in which
    /// to send.
    fn is_idle(&self) -> bool {
        let mut byte = [0];
        match (&self.stream).read(&mut byte) {
            Err(error) => error.kind() == ErrorKind::WouldBlock && self.received.is_empty(),
            Ok(0) => false,   // closed
            Ok(1..) => false, // out of step
        }
    }

    fn next_frame(&mut self, body: RequestBody) -> Result<Vec<u8>, PgError> {
        self.last_request += 1;
        let request = NodeRequest {
            request: self.last_request,
            body: Some(body),
        };
        encode_frame(&request)
            .map_err(|error| PgError::new(b"54000", format!("request to the node: {error}")))
    }

    fn send(&mut self, frame: &[u8], deadline: Instant) -> Result<(), SendError> {
        let mut sent = 0;
        while sent < frame.len() {
            let step = match self.stream.write(&frame[sent..]) {
                Ok(written) => {
                    sent += written;
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(Interest::Writable, deadline)
                }
                Err(error) => Err(lost(&reason(&error))),
            };
            step.map_err(|failure| SendError {
                failure,
                sent_any: sent > 0,
            })?;
        }
        Ok(())
    }

    fn receive_answer(&mut self, deadline: Instant) -> Result<ResponseBody, PgError> {
        let response = self.receive(deadline)?;
        match response.body {
            Some(body) if response.request == self.last_request => Ok(body),
            Some(_) => Err(protocol_violation(format!(
                "answer to request {}, expected {}",
                response.request, self.last_request
            ))),
            None => Err(protocol_violation("an answer without a body".into())),
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<NodeResponse, PgError> {
        let mut chunk = [0; READ_BYTES];
        loop {
            if let Some(response) = take_frame(&mut self.received)
                .map_err(|error| protocol_violation(error.to_string()))?
            {
                return Ok(response);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(lost("The node closed the connection.")),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(Interest::Readable, deadline)?
                }
                Err(error) => return Err(lost(&reason(&error))),
            }
        }
    }

    fn wait(&self, interest: Interest, deadline: Instant) -> Result<(), PgError> {
        match wait_for_socket(self.stream.as_fd(), interest, deadline) {
            Woken::Socket => Ok(()),
            Woken::Deadline => Err(lost("The node did not answer in time.")),
        }
    }
}

fn unreachable(path: &str, error: &std::io::Error) -> PgError {
    PgError::new(
        b"08001",
        format!("could not connect to the chainify node at \"{path}\""),
    )
    .detail(reason(error))
    .hint("Is the node running, and does the setting \"chainify.node_socket\" name its socket?")
}

/// The outcome of what was asked is unknown; the caller adds how to find out.
fn lost(why: &str) -> PgError {
    PgError::new(b"08006", "connection to the chainify node was lost").detail(why)
}

/// The operating system's words as a sentence, without its error number.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    format!("{}.", text.split(" (os error").next().unwrap_or(&text))
}

fn protocol_violation(what: String) -> PgError {
    PgError::new(
        b"08P01",
        format!("chainify node sent what this extension does not understand: {what}"),
    )
    .hint("Node and extension should be of the same version.")
}
