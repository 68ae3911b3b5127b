//! A session of a client: its statements, one after the other, by the simple and the extended
//! protocol.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, WriteHalf};
use tokio::sync::{mpsc, watch};

use crate::door::answer::{client_left, Answer, Rows, Stop};
use crate::door::handshake::Stream;
use crate::door::settings::Settings;
use crate::door::statement::{self, Statement};
use crate::door::tokens::Shown;
use crate::door::transaction::Transaction;
use crate::door::wire::{self, Field, Formats, Message, Named, Out, Status, Value, TEXT};
use crate::door::Door;
use crate::engine::Failure;

/// How long a transaction or a portal may be open between two messages: it keeps rows.
const OPEN_IDLE_MAX: Duration = Duration::from_secs(300);
/// How long the client may take nothing of an answer.
const STALL_MAX: Duration = Duration::from_secs(300);
/// Between two looks at the token of a session, which may be revoked while a query runs.
const TOKEN_LOOK: Duration = Duration::from_secs(1);
/// How long the end of a connection may take.
const GOODBYE_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer that are sent together.
const SENT_BYTES: usize = 64 << 10;
/// Prepared statements of a session, and bytes of their texts.
const STATEMENTS_MAX: usize = 1_000;
const STATEMENT_BYTES_MAX: usize = 8 << 20;
/// Portals of a session.
const PORTALS_MAX: usize = 64;

/// A message's type and body, or the reason why none follows.
pub type Frame = Result<(u8, Vec<u8>), Failure>;

/// The end of a session.
pub enum End {
    /// The client is told this.
    Fatal(Failure),
    /// Nobody is there to be told.
    Gone,
}

#[derive(Clone)]
struct Prepared {
    text: Arc<str>,
    statement: Statement,
    /// Types of its first parameters; 0: not given.
    types: Arc<[u32]>,
    /// The columns that the client was told.
    described: Option<Arc<[Field]>>,
}

struct Portal {
    prepared: Prepared,
    values: Vec<Value>,
    formats: Formats,
    rows: Option<Rows>,
}

/// A query of a client, with its parameters.
pub struct Asks<'a> {
    /// PostgreSQL's SQL.
    pub text: &'a str,
    /// Types of its first parameters; 0: not given.
    pub types: &'a [u32],
    /// Values of its parameters; None: it is only described.
    pub values: Option<&'a [Value]>,
}

/// The parts of a connection that a session takes over.
pub struct Connection {
    /// For answers.
    pub stream: WriteHalf<Stream>,
    /// Messages.
    pub frames: mpsc::Receiver<Frame>,
    /// True once the client has left.
    pub left: watch::Receiver<bool>,
    /// Changes with a cancel request.
    pub cancelled: watch::Receiver<()>,
}

/// A session.
pub struct Client {
    door: Arc<Door>,
    shown: Shown,
    connection: Connection,
    out: Out,
    transaction: Transaction,
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
    /// After an error, messages are skipped up to Sync.
    skips: bool,
}

impl Client {
    /// A session that has just begun; `out` is what greets the client.
    pub fn new(door: Arc<Door>, shown: Shown, settings: Settings, connection: Connection, out: Out) -> Client {
        let (statements, portals) = (HashMap::new(), HashMap::new());
        let transaction = Transaction::new(settings);
        Client { door, shown, connection, out, transaction, statements, portals, skips: false }
    }

    /// Serves the client until it leaves, or its token counts no more.
    pub async fn serve(mut self) {
        self.out.ready(Status::Idle);
        let revoked = revoked(self.door.clone(), self.shown.clone());
        let ended = tokio::select! {
            ended = self.messages() => ended,
            () = revoked => Err(End::Fatal(super::handshake::not_known())),
        };
        // The query that ran, and those whose portals wait, end here.
        self.portals.clear();
        if let Err(End::Fatal(failure)) = ended {
            self.out.error("FATAL", &failure);
            let _ = tokio::time::timeout(GOODBYE_MAX, self.flush()).await;
        }
        let _ = tokio::time::timeout(GOODBYE_MAX, self.connection.stream.shutdown()).await;
    }

    async fn messages(&mut self) -> Result<(), End> {
        self.flush().await.map_err(|_| End::Gone)?;
        loop {
            let (kind, body) = self.next().await?;
            let message = wire::message(kind, &body).map_err(End::Fatal)?;
            if matches!(message, Message::Password(_) | Message::Terminate) {
                return Err(End::Fatal(Failure::new("08P01", "unexpected message")));
            }
            let simple = matches!(message, Message::Query(_));
            if self.skips && !matches!(message, Message::Sync) {
                continue;
            }
            let asks = !matches!(message, Message::Sync | Message::Flush | Message::Close(_));
            if asks && !self.door.tokens.count(&self.shown) {
                return Err(End::Fatal(super::handshake::not_known()));
            }
            let taken = self.take(message).await;
            let failed = taken.is_err();
            if let Err(failure) = taken {
                self.out.error("ERROR", &failure);
                self.transaction.failed();
                self.skips = !simple;
            }
            if simple {
                self.portals.clear();
                self.out.ready(self.transaction.status());
            }
            if simple || failed || self.out.bytes.len() > SENT_BYTES {
                self.flush().await.map_err(|_| End::Gone)?;
            }
        }
    }

    async fn next(&mut self) -> Result<(u8, Vec<u8>), End> {
        let open = self.transaction.status() != Status::Idle || !self.portals.is_empty();
        let frame = match open {
            false => self.connection.frames.recv().await,
            true => match tokio::time::timeout(OPEN_IDLE_MAX, self.connection.frames.recv()).await {
                Ok(frame) => frame,
                Err(_) => {
                    let message = "terminating connection due to idle-in-transaction timeout";
                    return Err(End::Fatal(Failure::new("25P03", message)));
                }
            },
        };
        frame.ok_or(End::Gone)?.map_err(End::Fatal)
    }

    async fn take(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Query(text) => self.simple(&text).await,
            Message::Parse { name, text, parameters } => self.parse(name, text, parameters),
            Message::Bind { portal, statement, parameters, sent, formats } => {
                if !sent.fits(parameters.len()) {
                    return Err(Failure::new("08P01", "as many formats as values are needed"));
                }
                let values = parameters.into_iter().enumerate();
                let values = values.map(|(at, bytes)| Value { bytes, binary: sent.is_binary(at) });
                self.bind(portal, &statement, values.collect(), formats)
            }
            Message::Describe(Named::Statement(name)) => self.describe_statement(&name).await,
            Message::Describe(Named::Portal(name)) => self.describe_portal(&name).await,
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(named) => {
                match named {
                    Named::Statement(name) => _ = self.statements.remove(&name),
                    Named::Portal(name) => _ = self.portals.remove(&name),
                }
                self.out.bare(b'3');
                Ok(())
            }
            Message::Flush => self.flush().await,
            Message::Sync => {
                self.skips = false;
                // Portals live as long as their transaction.
                if self.transaction.status() == Status::Idle {
                    self.portals.clear();
                }
                self.out.ready(self.transaction.status());
                self.flush().await
            }
            Message::Password(_) | Message::Terminate => Ok(()), // ended the session already
        }
    }

    fn stop(&self) -> Stop {
        let (cancelled, left) = (self.connection.cancelled.clone(), self.connection.left.clone());
        Stop::new(cancelled, left, self.transaction.settings.timeout)
    }

    async fn simple(&mut self, text: &str) -> Result<(), Failure> {
        let mut stop = self.stop();
        let statement = statement::parse(text)?;
        let asks = Asks { text, types: &[], values: Some(&[]) };
        match self.begin(&statement, asks, &mut stop).await? {
            Answer::Rows(mut rows) => {
                self.out.fields(&rows.fields, &rows.formats);
                self.send(&mut rows, usize::MAX, &mut stop).await?;
            }
            answer => self.end(&answer),
        }
        Ok(())
    }

    fn end(&mut self, answer: &Answer) {
        match answer {
            Answer::Done(tag) => self.out.complete(tag),
            _ => self.out.bare(b'I'),
        }
    }

    /// Runs a statement up to its first row.
    async fn begin(&mut self, statement: &Statement, asks: Asks<'_>, stop: &mut Stop) -> Result<Answer, Failure> {
        self.transaction.check(statement)?;
        Ok(match statement {
            Statement::Empty => Answer::Empty,
            Statement::Query => {
                let door = self.door.clone();
                let begun = door.query(&self.shown.role, &mut self.transaction, asks);
                Answer::Rows(tokio::select! {
                    biased;
                    why = stop.comes() => return Err(why),
                    begun = begun => begun?,
                })
            }
            Statement::Show(name) => {
                let value = self.transaction.settings.shown(name);
                let value = value.ok_or_else(|| unknown_setting(name))?.to_owned();
                Answer::Rows(Rows::value(shown_fields(name), value))
            }
            Statement::Deallocate(Some(name)) if self.statements.remove(name).is_none() => {
                return Err(no_statement(name));
            }
            Statement::Deallocate(name) => {
                if name.is_none() {
                    self.statements.clear();
                }
                Answer::Done("DEALLOCATE")
            }
            Statement::Discard => {
                self.transaction.discard()?;
                self.statements.clear();
                Answer::Done("DISCARD ALL")
            }
            other => {
                let tag = self.transaction.run(other)?;
                if let Statement::Set { name, .. } | Statement::Reset(Some(name)) = other {
                    for told in ["application_name", "TimeZone"] {
                        if told.eq_ignore_ascii_case(name) {
                            self.out.parameter(told, self.transaction.settings.shown(told).unwrap_or_default());
                        }
                    }
                }
                Answer::Done(tag)
            }
        })
    }

    /// Sends rows, so many at most, and the end of the statement when there are no more.
    async fn send(&mut self, rows: &mut Rows, most: usize, stop: &mut Stop) -> Result<(), Failure> {
        for sent in 0..most {
            let more = tokio::select! {
                biased;
                why = stop.comes() => return Err(why),
                more = rows.next(&mut self.out) => more?,
            };
            if !more {
                let tag = rows.tag;
                let tag = if tag == "SELECT" { format!("{tag} {sent}") } else { tag.to_owned() };
                self.out.complete(&tag);
                return Ok(());
            }
            if self.out.bytes.len() > SENT_BYTES {
                tokio::select! {
                    biased;
                    why = stop.comes() => return Err(why),
                    sent = self.flush() => sent?,
                }
            }
        }
        self.out.bare(b's');
        Ok(())
    }

    fn parse(&mut self, name: String, text: String, types: Vec<u32>) -> Result<(), Failure> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            return Err(Failure::new("42P05", "a prepared statement of this name is there already"));
        }
        let bytes = |text: &str, types: &[u32]| text.len() + size_of_val(types);
        let kept: usize = self.statements.values().map(|prepared| bytes(&prepared.text, &prepared.types)).sum();
        if self.statements.len() >= STATEMENTS_MAX || kept + bytes(&text, &types) > STATEMENT_BYTES_MAX {
            return Err(Failure::new("54000", "this session has too many prepared statements")
                .detail(format!("It may have {STATEMENTS_MAX}, and {STATEMENT_BYTES_MAX} bytes of texts.")));
        }
        let statement = statement::parse(&text)?;
        self.statements.insert(name, Prepared { text: text.into(), statement, types: types.into(), described: None });
        self.out.bare(b'1');
        Ok(())
    }

    fn bind(&mut self, portal: String, statement: &str, values: Vec<Value>, formats: Formats) -> Result<(), Failure> {
        let prepared = self.statements.get(statement).cloned().ok_or_else(|| no_statement(statement))?;
        if !matches!(prepared.statement, Statement::Query) && !values.is_empty() {
            return Err(Failure::new("08P01", "only a query has parameters"));
        }
        if !portal.is_empty() && self.portals.contains_key(&portal) {
            return Err(Failure::new("42P03", "a portal of this name is there already"));
        }
        if self.portals.len() >= PORTALS_MAX {
            return Err(Failure::new("54000", format!("this session has {PORTALS_MAX} portals already")));
        }
        self.portals.insert(portal, Portal { prepared, values, formats, rows: None });
        self.out.bare(b'2');
        Ok(())
    }

    async fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.statements.get(name).cloned().ok_or_else(|| no_statement(name))?;
        let mut parameters = Vec::new();
        let fields = match &prepared.statement {
            Statement::Show(name) => Some(shown_fields(name)),
            Statement::Query => {
                self.transaction.check(&prepared.statement)?;
                let mut stop = self.stop();
                let asks = Asks { text: &prepared.text, types: &prepared.types, values: None };
                let translated = self.door.translate(&self.shown.role, &self.transaction, asks);
                let translated = tokio::select! {
                    biased;
                    why = stop.comes() => return Err(why),
                    translated = translated => translated?,
                };
                parameters = translated.parameters;
                Some(translated.fields.into())
            }
            _ => None,
        };
        self.out.parameters(&parameters);
        self.told_fields(fields.as_ref(), &Formats::default());
        if let Some(prepared) = self.statements.get_mut(name) {
            prepared.described = fields;
        }
        Ok(())
    }

    fn told_fields(&mut self, fields: Option<&Arc<[Field]>>, formats: &Formats) {
        match fields {
            Some(fields) => self.out.fields(fields, formats),
            None => self.out.bare(b'n'),
        }
    }

    async fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        let portal = self.portals.get(name).ok_or_else(no_portal)?;
        let formats = portal.formats.clone();
        let fields = match (&portal.rows, &portal.prepared.statement) {
            (Some(rows), _) => Some(rows.fields.clone()),
            (None, Statement::Show(name)) => Some(shown_fields(name)),
            (None, Statement::Query) => {
                let mut stop = self.stop();
                let rows = self.opened(name, &mut stop).await?;
                let fields = rows.as_ref().map(|rows| rows.fields.clone());
                if let Some(portal) = self.portals.get_mut(name) {
                    portal.rows = rows;
                }
                fields
            }
            _ => None,
        };
        self.told_fields(fields.as_ref(), &formats);
        Ok(())
    }

    /// The rows of a portal from its first one on. None: it has none, and what it does is done.
    async fn opened(&mut self, name: &str, stop: &mut Stop) -> Result<Option<Rows>, Failure> {
        let portal = self.portals.get_mut(name).ok_or_else(no_portal)?;
        let (prepared, formats) = (portal.prepared.clone(), portal.formats.clone());
        let values = std::mem::take(&mut portal.values); // it is opened once
        let asks = Asks { text: &prepared.text, types: &prepared.types, values: Some(&values) };
        match self.begin(&prepared.statement, asks, stop).await? {
            Answer::Rows(rows) => match prepared.described {
                Some(described) if described != rows.fields => {
                    Err(Failure::new("0A000", "cached plan must not change result type"))
                }
                _ => Ok(Some(rows.in_formats(formats)?)),
            },
            answer => {
                self.end(&answer);
                Ok(None)
            }
        }
    }

    async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let mut stop = self.stop();
        let kept = self.portals.get_mut(name).ok_or_else(no_portal)?.rows.take();
        let opened = match kept {
            Some(rows) => Some(rows),
            None => self.opened(name, &mut stop).await?,
        };
        let Some(mut rows) = opened else { return Ok(()) };
        self.send(&mut rows, if rows_max == 0 { usize::MAX } else { rows_max }, &mut stop).await?;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.rows = Some(rows);
        }
        Ok(())
    }

    /// Sends what is ready. It may be dropped and asked again.
    async fn flush(&mut self) -> Result<(), Failure> {
        let stalled = |_| client_left();
        while !self.out.bytes.is_empty() {
            let sent = tokio::time::timeout(STALL_MAX, self.connection.stream.write_buf(&mut self.out.bytes)).await;
            match sent.map_err(stalled)? {
                Ok(1..) => (),
                Ok(0) | Err(_) => return Err(client_left()),
            }
        }
        let flushed: io::Result<()> =
            tokio::time::timeout(STALL_MAX, self.connection.stream.flush()).await.map_err(stalled)?;
        flushed.map_err(|_| client_left())
    }
}

/// Comes when a token counts no more, at two looks: its file may just be written.
async fn revoked(door: Arc<Door>, shown: Shown) {
    let mut missed = 0;
    while missed < 2 {
        tokio::time::sleep(TOKEN_LOOK).await;
        missed = if door.tokens.count(&shown) { 0 } else { missed + 1 };
    }
}

fn shown_fields(name: &str) -> Arc<[Field]> {
    [Field { name: name.to_owned(), of: TEXT, typmod: -1 }].into()
}

fn unknown_setting(name: &str) -> Failure {
    Failure::new("42704", format!("there is no setting \"{}\" in analytics", name.escape_default()))
}

fn no_statement(name: &str) -> Failure {
    Failure::new("26000", format!("prepared statement \"{}\" does not exist", name.escape_default()))
}

fn no_portal() -> Failure {
    Failure::new("34000", "the portal does not exist")
}
