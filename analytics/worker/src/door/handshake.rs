//! The first packets of a connection: TLS, a cancel request, or a client that shows its token.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::door::settings::Settings;
use crate::door::statement::Word;
use crate::door::tokens::Shown;
use crate::door::wire::{self, First, Message, Out};
use crate::door::Door;
use crate::engine::Failure;

/// A connection, plain or in TLS.
pub trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}
/// A connection, plain or in TLS.
pub type Stream = Box<dyn Bytes>;

/// First packets of one connection: GSS, TLS and the startup.
const PACKETS_MAX: usize = 3;
/// AuthenticationCleartextPassword
const CLEAR_TEXT: i32 = 3;

/// The outcome of the first packets.
pub enum Met {
    /// A client with a token that counts.
    Client {
        /// The connection.
        stream: Stream,
        /// The token.
        shown: Shown,
        /// Settings of its startup.
        settings: Settings,
    },
    /// The statement of this key has to end.
    Cancel((i32, i32)),
}

/// The one error of a token that does not count, whatever the reason.
pub fn not_known() -> Failure {
    Failure::new("28P01", "authentication failed: the token is not known for this role, or counts no more")
        .hint("The user is the token's role, and the password the token: \"chainify client token add\" makes one.")
}

/// Meets a client. None: it was told why not, or has left.
///
/// # Errors
/// Those of the connection.
pub async fn meet(stream: TcpStream, door: &Door) -> io::Result<Option<Met>> {
    let mut stream: Stream = Box::new(stream);
    let mut in_tls = false;
    for _ in 0..PACKETS_MAX {
        let body = match packet(&mut stream, wire::FIRST_BYTES_MAX).await? {
            Ok(body) => body,
            Err(failure) => return refuse(&mut stream, &failure).await,
        };
        match (wire::first(&body), &door.identity) {
            (Ok(First::Tls), Some(identity)) if !in_tls => {
                let acceptor = identity.now().map_err(io::Error::other)?;
                stream.write_all(b"S").await?;
                // Nothing was read ahead: bytes that came before TLS cannot pass for bytes of it.
                stream = Box::new(acceptor.accept(stream).await?);
                in_tls = true;
            }
            (Ok(First::Tls | First::Gss), _) => stream.write_all(b"N").await?,
            (Ok(First::Cancel { key }), _) => return Ok(Some(Met::Cancel(key))),
            (Ok(First::Startup { .. }), Some(_)) if !in_tls => {
                let failure = Failure::new("28000", "TLS is needed").hint("Connect with sslmode=verify-full.");
                return refuse(&mut stream, &failure).await;
            }
            (Ok(First::Startup { minor, parameters }), _) => return shown(stream, door, minor, parameters).await,
            (Err(failure), _) => return refuse(&mut stream, &failure).await,
        }
    }
    refuse(&mut stream, &Failure::new("08P01", "too many requests for encryption")).await
}

async fn shown(
    mut stream: Stream,
    door: &Door,
    minor: u16,
    parameters: Vec<(String, String)>,
) -> io::Result<Option<Met>> {
    let mut out = Out::default();
    let options: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("_pq_.")).collect();
    if minor > 0 || !options.is_empty() {
        out.negotiate(&options);
    }
    out.authentication(CLEAR_TEXT);
    stream.write_all(&out.bytes).await?;
    stream.flush().await?;
    let mut kind = [0];
    stream.read_exact(&mut kind).await?;
    let token = match packet(&mut stream, wire::PASSWORD_BYTES_MAX).await? {
        Ok(body) => wire::message(kind[0], &body),
        Err(failure) => Err(failure),
    };
    let Ok(Message::Password(token)) = token else {
        return refuse(&mut stream, &Failure::new("08P01", "a password message was expected")).await;
    };
    let of = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let role = of("user").unwrap_or_default();
    let shown = Shown::new(role, &token);
    if !door.tokens.count(&shown) {
        return refuse(&mut stream, &not_known()).await;
    }
    let database = of("database").unwrap_or(role);
    if database != door.translator.database() {
        let message = format!("database \"{}\" does not exist", database.escape_default());
        return refuse(&mut stream, &Failure::new("3D000", message)).await;
    }
    match settings(role, &parameters) {
        Ok(settings) => Ok(Some(Met::Client { stream, shown, settings })),
        Err(failure) => refuse(&mut stream, &failure).await,
    }
}

fn settings(role: &str, parameters: &[(String, String)]) -> Result<Settings, Failure> {
    let mut settings = Settings::new(role);
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" => (),
            "replication" if matches!(value.as_str(), "false" | "off" | "no" | "0") => (),
            "replication" => return Err(Failure::new("0A000", "not available in analytics: replication")),
            "options" => options(&mut settings, value)?,
            name if name.starts_with("_pq_.") => (),
            // As it is: the value of search_path is a list.
            name => settings.set(name, &[Word::Plain(value.clone())])?,
        }
    }
    Ok(settings)
}

/// `-c name=value`, as PGOPTIONS has them.
fn options(settings: &mut Settings, text: &str) -> Result<(), Failure> {
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let pair = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c").filter(|rest| !rest.is_empty())) {
            Some(pair) => Some(pair),
            None if word == "-c" => words.next(),
            None => None,
        };
        match pair.and_then(|pair| pair.split_once('=')) {
            Some((name, value)) => settings.set(&name.replace('-', "_"), &[Word::Plain(value.to_owned())])?,
            None => return Err(Failure::new("0A000", "not available in analytics: options other than -c name=value")),
        }
    }
    Ok(())
}

/// Reads a length and that many bytes, or says that they are too many.
///
/// # Errors
/// Those of the connection.
pub async fn packet(stream: &mut (impl AsyncRead + Unpin), bytes_max: usize) -> io::Result<Result<Vec<u8>, Failure>> {
    let length = usize::try_from(stream.read_i32().await?).ok().and_then(|length| length.checked_sub(4));
    let Some(length) = length.filter(|length| *length <= bytes_max) else {
        return Ok(Err(Failure::new("54000", format!("a message has at most {bytes_max} bytes here"))));
    };
    // Memory is taken as bytes come, not as they are announced.
    let mut body = Vec::new();
    stream.take(length as u64).read_to_end(&mut body).await?;
    match body.len() == length {
        true => Ok(Ok(body)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Tells the client why not.
pub async fn refuse<T>(stream: &mut Stream, failure: &Failure) -> io::Result<Option<T>> {
    let mut out = Out::default();
    out.error("FATAL", failure);
    stream.write_all(&out.bytes).await?;
    stream.shutdown().await?;
    Ok(None)
}
