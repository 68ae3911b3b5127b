//! The door for clients over TCP (spec/analytics.md, "Clients over TCP"): PostgreSQL's protocol and
//! PostgreSQL's SQL, read only.
//!
//! Files, from the top: `mod` accepts; `handshake` identifies a client by `tls` and `tokens`;
//! `client` is its session, `transaction` its settings and its block, `answer` its rows;
//! `translate` asks the database. `wire`, `statement`, `settings` and `places` are pure.
//!
//! Only texts that the database translated reach the engine.

mod answer;
mod binary;
mod client;
mod handshake;
mod kept;
mod places;
mod settings;
mod statement;
mod tls;
mod tokens;
mod transaction;
mod translate;
mod wire;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, ReadHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch, Semaphore};

use crate::config::Listen;
use crate::door::answer::Rows;
use crate::door::client::{Asks, Client, Connection, Frame};
use crate::door::handshake::{Met, Stream};
use crate::door::places::Places;
use crate::door::settings::{Settings, TOLD};
use crate::door::tls::Identity;
use crate::door::tokens::{Shown, Tokens};
use crate::door::transaction::Transaction;
use crate::door::translate::{Asked, Translated, Translator};
use crate::door::wire::{Out, Value};
use crate::engine::{Failure, Share};
use crate::session::Worker;
use crate::source::SILENCE_MAX;

/// How long a client may take until it is identified, TLS included.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// How long a message may take once it has begun.
const MESSAGE_MAX: Duration = Duration::from_secs(60);
/// Clients that are not identified yet, and those of one address.
const HANDSHAKES_MAX: usize = 64;
const HANDSHAKES_OF_ONE_MAX: usize = 16;
/// Between two tries to accept, when the machine has no more connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Columns of the widest answer, as in PostgreSQL.
const COLUMNS_MAX: usize = 1_664;

/// The parts that all clients share.
pub struct Door {
    worker: Arc<Worker>,
    translator: Arc<Translator>,
    tokens: Tokens,
    identity: Option<Identity>,
    clients: Arc<Places>,
    cancels: Mutex<HashMap<(i32, i32), watch::Sender<()>>>,
    /// One role's queries that may compute at a time.
    running_of_one_max: usize,
    shares: Mutex<HashMap<String, Share>>,
}

/// A door that can be opened: its files were read.
pub struct Ready {
    listen: Listen,
    tokens: Tokens,
    identity: Option<Identity>,
    translator: Arc<Translator>,
}

/// Reads the files of the configuration.
///
/// # Errors
/// A sentence that names the file or setting.
pub fn ready(listen: Listen, connection: &str) -> Result<Ready, String> {
    let identity = listen.tls.clone().map(|(certificates, key)| Identity::open(certificates, key)).transpose()?;
    let tokens = Tokens::open(listen.tokens_file.clone())?;
    let translator = Translator::new(connection).map_err(|why| format!("database.connection: {why}"))?;
    Ok(Ready { listen, tokens, identity, translator })
}

impl Ready {
    /// Listens. One role may have half of the queries that run.
    ///
    /// # Errors
    /// Those of the address.
    pub async fn open(self, worker: Arc<Worker>, running_max: usize) -> Result<(Arc<Door>, TcpListener), String> {
        let address = self.listen.address;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| format!("listening at \"{address}\" failed: {error}"))?;
        let most = self.listen.connections_max;
        let door = Door {
            worker,
            translator: self.translator,
            tokens: self.tokens,
            identity: self.identity,
            clients: Places::new(most, most.div_ceil(2)),
            cancels: Mutex::default(),
            running_of_one_max: running_max.div_ceil(2),
            shares: Mutex::default(),
        };
        Ok((Arc::new(door), listener))
    }
}

/// Accepts clients for ever.
pub async fn serve(door: Arc<Door>, listener: TcpListener) {
    let handshakes = Places::new(HANDSHAKES_MAX, HANDSHAKES_OF_ONE_MAX);
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a client cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Without a place, the connection closes.
        let Some(place) = handshakes.take(address.ip()) else { continue };
        let door = door.clone();
        tokio::spawn(async move {
            let met = tokio::time::timeout(HANDSHAKE_MAX, met(stream, &door)).await;
            drop(place);
            match met {
                Ok(Ok(Some(Met::Client { stream, shown, settings }))) => {
                    door.client(stream, shown, settings, address).await;
                }
                Ok(Ok(Some(Met::Cancel(key)))) => door.cancel(key),
                Ok(Ok(None)) => tracing::debug!(%address, "a client was not let in"),
                Ok(Err(error)) => tracing::debug!(%address, %error, "a client was not let in"),
                Err(_) => tracing::debug!(%address, "a client took too long to show its token"),
            }
        });
    }
}

async fn met(stream: TcpStream, door: &Door) -> io::Result<Option<Met>> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE_MAX))?;
    handshake::meet(stream, door).await
}

impl Door {
    fn cancels(&self) -> MutexGuard<'_, HashMap<(i32, i32), watch::Sender<()>>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self, key: (i32, i32)) {
        if let Some(client) = self.cancels().get(&key) {
            client.send_replace(());
        }
    }

    /// A key that nobody can guess: 63 bits of keyed hashes, whose keys are the operating system's
    /// randomness.
    fn key(&self, cancels: &HashMap<(i32, i32), watch::Sender<()>>) -> (i32, i32) {
        loop {
            let random = || RandomState::new().hash_one(cancels.len());
            let key = ((random() >> 33) as i32, random() as i32);
            if !cancels.contains_key(&key) {
                return key;
            }
        }
    }

    async fn client(self: &Arc<Self>, mut stream: Stream, shown: Shown, settings: Settings, address: SocketAddr) {
        let Some(_place) = self.clients.take(address.ip()) else {
            let failure = Failure::new("53300", "too many clients already");
            let _ = tokio::time::timeout(HANDSHAKE_MAX, handshake::refuse::<()>(&mut stream, &failure)).await;
            return;
        };
        tracing::info!(%address, role = shown.role, "a client");
        let (sender, cancelled) = watch::channel(());
        let key = {
            let mut cancels = self.cancels();
            let key = self.key(&cancels);
            cancels.insert(key, sender);
            key
        };
        let mut out = Out::default();
        out.authentication(0);
        TOLD.iter().for_each(|name| out.parameter(name, settings.shown(name).unwrap_or_default()));
        out.key(key);
        let (reads, stream) = tokio::io::split(stream);
        let (sender, frames) = mpsc::channel(1);
        let (left_sender, left) = watch::channel(false);
        let reader = tokio::spawn(async move {
            read(reads, sender).await;
            left_sender.send_replace(true);
        });
        let connection = Connection { stream, frames, left, cancelled };
        Client::new(self.clone(), shown, settings, connection, out).serve().await;
        reader.abort();
        self.cancels().remove(&key);
    }

    /// Asks the database what a client's query means.
    ///
    /// # Errors
    /// Those of [`Translator::translate`].
    async fn translate(&self, role: &str, transaction: &Transaction, asks: Asks<'_>) -> Result<Translated, Failure> {
        let shown = |name: &str| transaction.settings.shown(name).unwrap_or_default().to_owned();
        let asked = Asked {
            role: role.to_owned(),
            search_path: shown("search_path"),
            time_zone: shown("TimeZone"),
            timeout: transaction.timeout(),
            text: asks.text.to_owned(),
            types: asks.types.to_vec(),
            values: asks.values.map(<[Value]>::to_vec),
        };
        let translated = self.translator.translate(asked).await?;
        match translated.fields.len() <= COLUMNS_MAX {
            true => Ok(translated),
            false => Err(Failure::new("54011", format!("a query has at most {COLUMNS_MAX} columns"))),
        }
    }

    /// Runs a client's query up to its first row.
    ///
    /// # Errors
    /// Those of the translation, of the rows that it sees, and of the engine.
    async fn query(&self, role: &str, transaction: &mut Transaction, asks: Asks<'_>) -> Result<Rows, Failure> {
        let translated = self.translate(role, transaction, asks).await?;
        let engine = &self.worker.engine;
        let query = engine.parse(&translated.sql)?;
        let tables = query.tables.iter().copied().collect();
        let view = transaction.rows(&self.worker, &translated, &tables).await?;
        Rows::of(engine.run(query, &view, Some(self.share(role))).await?, translated.fields.into())
    }

    /// The share of a role that has a token.
    fn share(&self, role: &str) -> Share {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.entry(role.to_owned()).or_insert_with(|| Share::new(Semaphore::new(self.running_of_one_max))).clone()
    }
}

/// Reads messages ahead, one at most. It ends with the client, and after a message that is too long.
async fn read(mut reads: ReadHalf<Stream>, frames: mpsc::Sender<Frame>) {
    loop {
        let mut kind = [0];
        if reads.read_exact(&mut kind).await.is_err() || kind == *b"X" {
            return;
        }
        let body = tokio::time::timeout(MESSAGE_MAX, handshake::packet(&mut reads, wire::MESSAGE_BYTES_MAX)).await;
        let Ok(Ok(body)) = body else { return };
        let ends = body.is_err();
        let sent = frames.send(body.map(|body| (kind[0], body))).await;
        if ends || sent.is_err() {
            return;
        }
    }
}
