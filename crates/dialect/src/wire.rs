//! The part of PostgreSQL's protocol, version 3, that the extension speaks with the worker: simple
//! queries, answers in text, and cancelling.
//!
//! A decoder takes whole messages alone, compares each length and count with what there is, and
//! accepts nothing behind the last field.

/// Bytes of a message of the worker, without its type and length.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Type and length of a message.
pub const HEAD_BYTES: usize = 5;
/// The worker names the block of a result by this parameter.
pub const BLOCK_PARAMETER: &str = "chainify.block";
/// Columns of a row.
pub const COLUMNS_MAX: usize = 1_664;

const VERSION: i32 = 3 << 16;
const CANCEL: i32 = (1234 << 16) | 5678;

/// The secret that cancels the queries of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelKey {
    /// Process number.
    pub process: i32,
    /// Secret.
    pub secret: i32,
}

/// A message of the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'m> {
    /// The connection is accepted.
    Accepted,
    /// The worker wants a password or the like, which the extension does not have.
    AuthenticationAsked,
    /// How to cancel.
    Key(CancelKey),
    /// The next query may come.
    Ready,
    /// A result of so many columns follows.
    Columns(usize),
    /// A row; None is NULL.
    Row(Vec<Option<&'m str>>),
    /// The statement has ended.
    Complete,
    /// The statement has failed.
    Error(Failure),
    /// The block whose rows the result has.
    Block(i64),
    /// A notice, another parameter, or another message without meaning here.
    Other,
}

/// An ErrorResponse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

/// A message that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(
    /// The part that is wrong.
    pub &'static str,
);

/// The first message of a connection: names and values.
pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = VERSION.to_be_bytes().to_vec();
    for (name, value) in parameters {
        for text in [name, value] {
            body.extend(text.bytes().filter(|b| *b != 0));
            body.push(0);
        }
    }
    body.push(0);
    framed(None, &body)
}

/// A simple query. Bytes of value zero are left out.
pub fn query(sql: &str) -> Vec<u8> {
    let mut body: Vec<u8> = sql.bytes().filter(|b| *b != 0).collect();
    body.push(0);
    framed(Some(b'Q'), &body)
}

/// The only message of a connection that cancels the query of another.
pub fn cancel(key: CancelKey) -> Vec<u8> {
    let fields = [CANCEL, key.process, key.secret];
    framed(None, &fields.map(i32::to_be_bytes).concat())
}

fn framed(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let mut message: Vec<u8> = kind.into_iter().collect();
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    message.extend(length.to_be_bytes());
    message.extend(body);
    message
}

/// The first message of `bytes` and how many bytes it takes; None: it is not there as a whole.
pub fn take(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Malformed> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let length =
        length.checked_sub(4).filter(|length| *length <= MESSAGE_BYTES_MAX).ok_or(Malformed("length of a message"))?;
    match rest.get(..length) {
        Some(body) => Ok(Some((decode(head[0], body)?, HEAD_BYTES + length))),
        None => Ok(None),
    }
}

fn decode(kind: u8, body: &[u8]) -> Result<Message<'_>, Malformed> {
    let mut fields = Fields(body);
    let message = match kind {
        b'R' => match fields.int4()? {
            0 => Message::Accepted,
            _ => return Ok(Message::AuthenticationAsked),
        },
        b'K' => Message::Key(CancelKey { process: fields.int4()?, secret: fields.int4()? }),
        b'Z' => {
            fields.take(1)?;
            Message::Ready
        }
        b'T' => {
            let count = fields.count()?;
            for _ in 0..count {
                fields.text()?;
                // Table, column, type, size, modifier, format.
                fields.take(18)?;
            }
            Message::Columns(count)
        }
        b'D' => Message::Row(row(&mut fields)?),
        b'C' => {
            fields.text()?;
            Message::Complete
        }
        b'I' => Message::Complete,
        b'E' => Message::Error(failure(&mut fields)?),
        b'S' => {
            let (name, value) = (fields.text()?, fields.text()?);
            let block = (name == BLOCK_PARAMETER).then(|| value.parse().or(Err(Malformed("number of a block"))));
            block.transpose()?.map_or(Message::Other, Message::Block)
        }
        _ => return Ok(Message::Other),
    };
    match fields.0.is_empty() {
        true => Ok(message),
        false => Err(Malformed("bytes behind the last field")),
    }
}

fn row<'m>(fields: &mut Fields<'m>) -> Result<Vec<Option<&'m str>>, Malformed> {
    let count = fields.count()?;
    let mut row = Vec::with_capacity(count);
    for _ in 0..count {
        row.push(match fields.int4()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("length of a value"))?;
                Some(utf8(fields.take(length)?)?)
            }
        });
    }
    Ok(row)
}

fn failure(fields: &mut Fields) -> Result<Failure, Malformed> {
    let mut failure = Failure::default();
    loop {
        let kind = fields.take(1)?[0];
        if kind == 0 {
            return Ok(failure);
        }
        let text = fields.text()?.to_owned();
        match kind {
            b'C' => failure.sqlstate = text,
            b'M' => failure.message = text,
            b'D' => failure.detail = Some(text),
            b'H' => failure.hint = Some(text),
            _ => (),
        }
    }
}

struct Fields<'m>(&'m [u8]);

impl<'m> Fields<'m> {
    fn take(&mut self, length: usize) -> Result<&'m [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("a message that ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn int4(&mut self) -> Result<i32, Malformed> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn count(&mut self) -> Result<usize, Malformed> {
        let bytes = self.take(2)?;
        let count = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        match count <= COLUMNS_MAX {
            true => Ok(count),
            false => Err(Malformed("number of columns")),
        }
    }

    fn text(&mut self) -> Result<&'m str, Malformed> {
        let end = self.0.iter().position(|b| *b == 0);
        let text = self.take(end.ok_or(Malformed("a text without its end"))?)?;
        self.take(1)?;
        utf8(text)
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        framed(Some(kind), body)
    }

    #[test]
    fn messages_in_pieces() {
        let mut row = 2u16.to_be_bytes().to_vec();
        row.extend((-1i32).to_be_bytes());
        row.extend(3i32.to_be_bytes());
        row.extend(b"abc");
        let bytes = message(b'D', &row);
        for cut in 0..bytes.len() {
            assert_eq!(take(&bytes[..cut]), Ok(None), "{cut}");
        }
        let expected = Message::Row(vec![None, Some("abc")]);
        assert_eq!(take(&bytes), Ok(Some((expected, bytes.len()))));
    }

    #[test]
    fn errors_keep_their_fields() {
        let bytes = message(b'E', b"SERROR\0C22012\0Mdivision by zero\0Hhint\0\0");
        let Ok(Some((Message::Error(failure), _))) = take(&bytes) else { panic!("{:?}", take(&bytes)) };
        assert_eq!((failure.sqlstate.as_str(), failure.hint.as_deref()), ("22012", Some("hint")));
    }

    #[test]
    fn the_block_of_a_result() {
        let is = |name: &str, expected: Message| {
            let bytes = message(b'S', format!("{name}\012\0").as_bytes());
            assert_eq!(take(&bytes), Ok(Some((expected, bytes.len()))), "{name}");
        };
        is(BLOCK_PARAMETER, Message::Block(12));
        is("server_version", Message::Other);
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (kind, body) in [
            (b'S', &b"chainify.block\0x\0"[..]),
            (b'S', b"chainify.block\x001"),
            (b'D', &b"\0\x01\0\0\0\x09abc"[..]),
            (b'D', b"\0\x01\xff\xff\xff\xfe"),
            (b'D', b"\0\0x"),
            (b'T', b"\xff\xff"),
            (b'T', b"\0\x01name"),
            (b'K', b"\0\0\0\x01"),
            (b'E', b"Mno end"),
            (b'C', b"\xff\0"),
        ] {
            assert!(take(&message(kind, body)).is_err(), "{kind} {body:?}");
        }
        assert!(take(b"D\0\0\0\x03").is_err());
        assert!(take(b"D\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn sent_messages_have_their_lengths() {
        let bytes = startup(&[("user", "a\0lice")]);
        assert_eq!(bytes, b"\0\0\0\x14\0\x03\0\0user\0alice\0\0");
        assert_eq!(query("SELECT 1"), b"Q\0\0\0\x0dSELECT 1\0");
        let key = CancelKey { process: 1, secret: 2 };
        assert_eq!(cancel(key).len(), 16);
    }
}
