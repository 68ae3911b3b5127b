//! The messages of PostgreSQL's protocol, version 3, that clients and the door send. Pure.
//!
//! Decoders take any bytes: each count and length is checked before use, and a message has to end
//! where its length says.

use bytes::{BufMut, BytesMut};

use crate::engine::Failure;

/// Bytes of the longest first packet, as in PostgreSQL.
pub const FIRST_BYTES_MAX: usize = 10_000;
/// Bytes of the longest password message.
pub const PASSWORD_BYTES_MAX: usize = 1_000;
/// Bytes of the longest text of a statement.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of the longest message once the client is identified: a text, and names beside it.
pub const MESSAGE_BYTES_MAX: usize = TEXT_BYTES_MAX + 4_096;
/// Bytes of the longest row, as over the Unix socket.
const ROW_BYTES_MAX: usize = 64 << 20;

const VERSION_3: u16 = 3;
const TLS: (u16, u16) = (1234, 5679);
const GSS: (u16, u16) = (1234, 5680);
const CANCEL: (u16, u16) = (1234, 5678);

/// The first packet of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    /// The client asks for TLS.
    Tls,
    /// The client asks for GSS encryption.
    Gss,
    /// The statement of another connection has to end.
    Cancel {
        /// Number and secret of that connection.
        key: (i32, i32),
    },
    /// A session begins.
    Startup {
        /// Minor version of the protocol.
        minor: u16,
        /// Names and values.
        parameters: Vec<(String, String)>,
    },
}

/// A message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// Statements of the simple protocol.
    Query(String),
    /// A prepared statement is made.
    Parse {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
        /// Types of the first parameters; 0: not given.
        parameters: Vec<u32>,
    },
    /// A portal is made of it.
    Bind {
        /// Name of the portal.
        portal: String,
        /// Name of the statement.
        statement: String,
        /// Values; None: NULL.
        parameters: Vec<Option<Vec<u8>>>,
        /// How the values are sent.
        sent: Formats,
        /// How the columns of the result are wanted.
        formats: Formats,
    },
    /// The columns of one of the two are asked for.
    Describe(Named),
    /// Rows of a portal are asked for.
    Execute {
        /// Its name.
        portal: String,
        /// So many at most; 0: all.
        rows_max: usize,
    },
    /// One of the two is forgotten.
    Close(Named),
    /// The answers have to be sent now.
    Flush,
    /// A chain of messages ends.
    Sync,
    /// The token.
    Password(String),
    /// The client leaves.
    Terminate,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// None: NULL.
    pub bytes: Option<Vec<u8>>,
    /// In the binary form of its type, else as text.
    pub binary: bool,
}

/// Which values of a list are in binary: none, all, or each as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formats(Vec<bool>);

impl Formats {
    /// Whether the value at this place is.
    pub fn is_binary(&self, at: usize) -> bool {
        match self.0.as_slice() {
            [] => false,
            [all] => *all,
            each => each.get(at).copied().unwrap_or(false),
        }
    }

    /// Whether it is a list for so many values.
    pub fn fits(&self, values: usize) -> bool {
        self.0.len() < 2 || self.0.len() == values
    }
}

/// A prepared statement or a portal.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// By its name.
    Statement(String),
    /// By its name.
    Portal(String),
}

fn malformed<T>(why: &str) -> Result<T, Failure> {
    Err(Failure::new("08P01", format!("malformed message: {why}")))
}

struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Failure> {
        match self.0.split_at_checked(count) {
            Some((bytes, rest)) => {
                self.0 = rest;
                Ok(bytes)
            }
            None => malformed("it ends early"),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        self.bytes(N)?.try_into().or_else(|_| malformed("it ends early"))
    }

    fn u16(&mut self) -> Result<u16, Failure> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, Failure> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, Failure> {
        let Some(length) = self.0.iter().position(|byte| *byte == 0) else { return malformed("a text has no end") };
        let bytes = self.bytes(length)?;
        self.bytes(1)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Failure::new("22021", "a text is not in UTF-8")),
        }
    }

    fn named(&mut self) -> Result<Named, Failure> {
        match self.array()? {
            [b'S'] => Ok(Named::Statement(self.text()?)),
            [b'P'] => Ok(Named::Portal(self.text()?)),
            _ => malformed("neither statement nor portal"),
        }
    }

    fn end<T>(&self, message: T) -> Result<T, Failure> {
        match self.0.is_empty() {
            true => Ok(message),
            false => malformed("bytes behind its end"),
        }
    }
}

/// Reads the first packet, without its length.
///
/// # Errors
/// 08P01 for one that is malformed, 0A000 for another protocol.
pub fn first(body: &[u8]) -> Result<First, Failure> {
    let mut parts = Parts(body);
    match (parts.u16()?, parts.u16()?) {
        TLS => parts.end(First::Tls),
        GSS => parts.end(First::Gss),
        CANCEL => {
            let key = (parts.i32()?, parts.i32()?);
            parts.end(First::Cancel { key })
        }
        (VERSION_3, minor) => {
            let mut parameters = Vec::new();
            loop {
                let name = parts.text()?;
                if name.is_empty() {
                    return parts.end(First::Startup { minor, parameters });
                }
                parameters.push((name, parts.text()?));
            }
        }
        _ => Err(Failure::new("0A000", "only version 3 of the protocol is spoken here")),
    }
}

/// Reads a message.
///
/// # Errors
/// 08P01 for one that is malformed or not known, 22021 for a text that is not in UTF-8.
pub fn message(kind: u8, body: &[u8]) -> Result<Message, Failure> {
    let mut parts = Parts(body);
    let message = match kind {
        b'Q' => Message::Query(parts.text()?),
        b'P' => {
            let (name, text, count) = (parts.text()?, parts.text()?, usize::from(parts.u16()?));
            let types = parts.bytes(4 * count)?.chunks_exact(4);
            let parameters = types.map(|of| u32::from_be_bytes([of[0], of[1], of[2], of[3]])).collect();
            Message::Parse { name, text, parameters }
        }
        b'B' => bind(&mut parts)?,
        b'D' => Message::Describe(parts.named()?),
        b'E' => {
            let portal = parts.text()?;
            Message::Execute { portal, rows_max: usize::try_from(parts.i32()?).unwrap_or(0) }
        }
        b'C' => Message::Close(parts.named()?),
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'p' => Message::Password(parts.text()?),
        _ => return malformed("its type is not known here"),
    };
    parts.end(message)
}

fn bind(parts: &mut Parts<'_>) -> Result<Message, Failure> {
    let (portal, statement) = (parts.text()?, parts.text()?);
    let sent = formats(parts)?;
    let count = usize::from(parts.u16()?);
    let mut parameters = Vec::new();
    for _ in 0..count {
        let length = parts.i32()?;
        parameters.push(match usize::try_from(length) {
            Ok(length) => Some(parts.bytes(length)?.to_vec()),
            Err(_) if length == -1 => None,
            Err(_) => return malformed("a length below 0"),
        });
    }
    let formats = formats(parts)?;
    Ok(Message::Bind { portal, statement, parameters, sent, formats })
}

fn formats(parts: &mut Parts<'_>) -> Result<Formats, Failure> {
    let count = usize::from(parts.u16()?);
    let binary = |format: &[u8]| match format {
        [0, 0] => Ok(false),
        [0, 1] => Ok(true),
        _ => malformed("its format is neither text nor binary"),
    };
    Ok(Formats(parts.bytes(2 * count)?.chunks_exact(2).map(binary).collect::<Result<_, _>>()?))
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Oid of its type.
    pub of: u32,
    /// Its type's modifier.
    pub typmod: i32,
}

/// Oid of `text`.
pub const TEXT: u32 = 25;

/// Bytes of a value, as pg_type has them.
fn type_bytes(of: u32) -> i16 {
    match of {
        16 => 1,                            // boolean
        21 => 2,                            // smallint
        23 | 26 | 700 | 1082 => 4,          // integer, oid, real, date
        20 | 701 | 1083 | 1114 | 1184 => 8, // bigint, double precision, times
        2950 | 1186 => 16,                  // uuid, interval
        _ => -1,
    }
}

/// Whether a transaction is open, as ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// None.
    Idle = b'I',
    /// Open.
    Open = b'T',
    /// A statement of it failed.
    Failed = b'E',
}

/// Messages that are to be sent.
#[derive(Default)]
pub struct Out {
    /// Their bytes.
    pub bytes: BytesMut,
}

impl Out {
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.bytes.put_u8(kind);
        let at = self.bytes.len();
        self.bytes.put_i32(0);
        body(&mut self.bytes);
        let length = (self.bytes.len() - at) as u32; // rows are bounded, and other messages small
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// A message without a body.
    pub fn bare(&mut self, kind: u8) {
        self.message(kind, |_| ());
    }

    /// The kind of proof that is asked for; 0: none.
    pub fn authentication(&mut self, kind: i32) {
        self.message(b'R', |body| body.put_i32(kind));
    }

    /// Versions of the protocol beyond 3.0, and its options, are not spoken.
    pub fn negotiate(&mut self, unknown: &[&str]) {
        self.message(b'v', |body| {
            body.put_i32(0);
            body.put_i32(unknown.len() as i32);
            unknown.iter().for_each(|name| put_text(body, name));
        });
    }

    /// A setting that clients watch.
    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |body| {
            put_text(body, name);
            put_text(body, value);
        });
    }

    /// Number and secret that a cancel request needs.
    pub fn key(&mut self, (number, secret): (i32, i32)) {
        self.message(b'K', |body| {
            body.put_i32(number);
            body.put_i32(secret);
        });
    }

    /// The next statement may come.
    pub fn ready(&mut self, status: Status) {
        self.message(b'Z', |body| body.put_u8(status as u8));
    }

    /// The types of parameters.
    pub fn parameters(&mut self, types: &[u32]) {
        self.message(b't', |body| {
            body.put_u16(types.len() as u16); // at most 65,535
            types.iter().for_each(|of| body.put_u32(*of));
        });
    }

    /// The columns of an answer.
    pub fn fields(&mut self, fields: &[Field], formats: &Formats) {
        self.message(b'T', |body| {
            body.put_u16(fields.len() as u16); // at most 1,664
            for (at, field) in fields.iter().enumerate() {
                put_text(body, &field.name);
                body.put_u32(0);
                body.put_i16(0);
                body.put_u32(field.of);
                body.put_i16(type_bytes(field.of));
                body.put_i32(field.typmod);
                body.put_u16(formats.is_binary(at).into());
            }
        });
    }

    /// A row; `write` appends one value after the other by [`put_value`].
    ///
    /// # Errors
    /// Those of `write`, and 54000 for a row that is too long. Then nothing is appended.
    pub fn row(
        &mut self,
        columns: usize,
        write: impl FnOnce(&mut BytesMut) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let before = self.bytes.len();
        let mut written = Ok(());
        self.message(b'D', |body| {
            body.put_u16(columns as u16); // at most 1,664
            written = write(body);
        });
        if written.is_ok() && self.bytes.len() - before > ROW_BYTES_MAX {
            written = Err(Failure::new("54000", format!("a row has more than {ROW_BYTES_MAX} bytes")));
        }
        if written.is_err() {
            self.bytes.truncate(before);
        }
        written
    }

    /// A statement has ended.
    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    /// An error; `severity` is ERROR or FATAL.
    pub fn error(&mut self, severity: &str, failure: &Failure) {
        self.message(b'E', |body| {
            let mut field = |kind: u8, text: &str| {
                body.put_u8(kind);
                put_text(body, text);
            };
            field(b'S', severity);
            field(b'V', severity);
            field(b'C', &failure.sqlstate);
            field(b'M', &failure.message);
            failure.detail.iter().for_each(|detail| field(b'D', detail));
            failure.hint.iter().for_each(|hint| field(b'H', hint));
            body.put_u8(0);
        });
    }
}

fn put_text(body: &mut BytesMut, text: &str) {
    body.extend(text.bytes().filter(|byte| *byte != 0));
    body.put_u8(0);
}

/// Appends a value of a row; None: NULL.
pub fn put_value(body: &mut BytesMut, value: Option<&str>) {
    match value {
        None => body.put_i32(-1),
        Some(text) => {
            body.put_u32(text.len() as u32); // a row beyond its bound is taken back
            body.extend_from_slice(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn startup(minor: u16, body: &[u8]) -> Vec<u8> {
        [&[0, 3][..], &minor.to_be_bytes(), body].concat()
    }

    #[test]
    fn first_packets() {
        assert_eq!(first(&80_877_103_i32.to_be_bytes()).unwrap(), First::Tls);
        assert_eq!(first(&80_877_104_i32.to_be_bytes()).unwrap(), First::Gss);
        let cancel = [80_877_102_i32, 7, -8].map(i32::to_be_bytes).concat();
        assert_eq!(first(&cancel).unwrap(), First::Cancel { key: (7, -8) });
        assert_eq!(first(&cancel[..11]).unwrap_err().sqlstate, "08P01");
        assert_eq!(
            first(&startup(2, b"user\0clerk\0\0")).unwrap(),
            First::Startup { minor: 2, parameters: vec![("user".into(), "clerk".into())] }
        );
        for body in [&b"user\0clerk\0"[..], b"user\0", b"user", b"user\0clerk\0\0x", b""] {
            assert_eq!(first(&startup(0, body)).unwrap_err().sqlstate, "08P01", "{body:?}");
        }
        assert_eq!(first(&[0, 2, 0, 0, 0]).unwrap_err().sqlstate, "0A000");
    }

    #[test]
    fn messages() {
        assert_eq!(message(b'Q', b"SELECT 1\0").unwrap(), Message::Query("SELECT 1".into()));
        assert_eq!(message(b'Q', b"SELECT 1").unwrap_err().sqlstate, "08P01");
        assert_eq!(message(b'Q', b"SELECT 1\0x\0").unwrap_err().sqlstate, "08P01");
        assert_eq!(message(b'Q', b"\xff\0").unwrap_err().sqlstate, "22021");
        let (sent, formats) = (Formats(vec![true]), Formats(vec![false, true]));
        let parameters = vec![None, Some(b"x".to_vec())];
        let bound = Message::Bind { portal: "p".into(), statement: "s".into(), parameters, sent, formats };
        let body = b"p\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x01x\0\x02\0\0\0\x01";
        assert_eq!(message(b'B', body).unwrap(), bound);
        for length in 0..body.len() {
            assert_eq!(message(b'B', &body[..length]).unwrap_err().sqlstate, "08P01", "{length}");
        }
        assert_eq!(
            message(b'E', b"\0\xff\xff\xff\xff").unwrap(),
            Message::Execute { portal: String::new(), rows_max: 0 }
        );
        assert_eq!(message(b'F', b"").unwrap_err().sqlstate, "08P01");
    }

    #[test]
    fn answers() {
        let mut out = Out::default();
        out.error("ERROR", &Failure::new("0A000", "no\0 such"));
        assert_eq!(&out.bytes[..], b"E\0\0\0\x23SERROR\0VERROR\0C0A000\0Mno such\0\0");
        let before = out.bytes.len();
        out.row(1, |body| {
            put_value(body, Some("x"));
            Err(Failure::new("22012", "division by zero"))
        })
        .unwrap_err();
        assert_eq!(out.bytes.len(), before);
        out.row(2, |body| {
            put_value(body, Some("x"));
            put_value(body, None);
            Ok(())
        })
        .unwrap();
        assert_eq!(&out.bytes[before..], b"D\0\0\0\x0f\0\x02\0\0\0\x01x\xff\xff\xff\xff");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind: u8, body: Vec<u8>) {
            let _ = (first(&body), message(kind, &body));
        }
    }
}
