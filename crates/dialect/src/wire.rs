//! The part of PostgreSQL's protocol, version 3, that extension and worker speak with each other:
//! simple queries, answers in text, and cancelling.
//!
//! The extension writes by [`startup`], [`query`] and [`cancel`], and reads by [`take`]. The worker
//! reads by [`take_first`] and [`take_asked`], and writes by [`Answer`].
//!
//! A decoder takes whole messages alone, compares each length and count with what there is, and
//! accepts nothing behind the last field.

/// Bytes of a message, without its type and length.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Type and length of a message.
pub const HEAD_BYTES: usize = 5;
/// The worker names the block of a result by this parameter.
pub const BLOCK_PARAMETER: &str = "chainify.block";
/// Columns of a row.
pub const COLUMNS_MAX: usize = 1_664;
/// Bytes of the first message of a connection.
pub const FIRST_BYTES_MAX: usize = 10_000;

const VERSION: i32 = 3 << 16;
const CANCEL: i32 = (1234 << 16) | 5678;
/// Oid of `text`.
const TEXT: u32 = 25;

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

/// An error as a client of PostgreSQL gets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// SQLSTATE.
    pub sqlstate: String,
    /// In a sentence.
    pub message: String,
    /// More of it.
    pub detail: Option<String>,
    /// Advice.
    pub hint: Option<String>,
}

impl Failure {
    /// An error with its SQLSTATE.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Failure {
        Failure { sqlstate: sqlstate.into(), message: message.into(), detail: None, hint: None }
    }

    /// The same with a detail.
    pub fn detail(mut self, detail: impl Into<String>) -> Failure {
        self.detail = Some(detail.into());
        self
    }

    /// The same with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }
}

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Queries follow. Its parameters have no meaning for the worker.
    Startup,
    /// The query of another connection is to end.
    Cancel(CancelKey),
}

/// A message of the extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'m> {
    /// A statement.
    Query(&'m str),
    /// The connection ends.
    Terminate,
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

/// Messages of the worker that are to be sent, one behind the other.
#[derive(Default)]
pub struct Answer {
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Answer {
    fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        body(&mut self.bytes);
        let length = (self.bytes.len() - at) as u32; // rows are bounded, and other messages small
        self.bytes[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The connection is accepted; `key` cancels its queries.
    pub fn accepted(&mut self, key: CancelKey) {
        self.message(b'R', |body| body.extend([0; 4]));
        self.message(b'K', |body| body.extend([key.process, key.secret].map(i32::to_be_bytes).concat()));
    }

    /// The next query may come.
    pub fn ready(&mut self) {
        self.message(b'Z', |body| body.push(b'I'));
    }

    /// The block whose rows follow.
    pub fn block(&mut self, block: i64) {
        self.message(b'S', |body| {
            put_text(body, BLOCK_PARAMETER);
            put_text(body, &block.to_string());
        });
    }

    /// Rows of these columns follow. All are texts: who asks knows the types.
    pub fn columns<'n>(&mut self, names: impl ExactSizeIterator<Item = &'n str>) {
        self.message(b'T', |body| {
            body.extend((names.len() as u16).to_be_bytes()); // at most COLUMNS_MAX
            for name in names {
                put_text(body, name);
                body.extend([0; 6]);
                body.extend(TEXT.to_be_bytes());
                body.extend((-1_i16).to_be_bytes());
                body.extend((-1_i32).to_be_bytes());
                body.extend([0; 2]);
            }
        });
    }

    /// A row of so many columns, whose values `write` gives one after the other; None is NULL.
    ///
    /// # Errors
    /// Those of `write`, and 54000 for a row that is too long. Then nothing is appended.
    pub fn row(
        &mut self,
        columns: usize,
        write: impl FnOnce(&mut dyn FnMut(Option<&str>)) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let before = self.bytes.len();
        let mut written = Ok(());
        self.message(b'D', |body| {
            body.extend((columns as u16).to_be_bytes()); // at most COLUMNS_MAX
            written = write(&mut |value| match value {
                None => body.extend((-1_i32).to_be_bytes()),
                Some(text) => {
                    body.extend((text.len() as u32).to_be_bytes()); // a row beyond the bound is taken back
                    body.extend(text.as_bytes());
                }
            });
        });
        if written.is_ok() && self.bytes.len() - before > HEAD_BYTES + MESSAGE_BYTES_MAX {
            written = Err(Failure::new("54000", format!("a row has more than {MESSAGE_BYTES_MAX} bytes")));
        }
        if written.is_err() {
            self.bytes.truncate(before);
        }
        written
    }

    /// The statement has ended.
    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |body| put_text(body, tag));
    }

    /// The statement has failed.
    pub fn error(&mut self, failure: &Failure) {
        self.message(b'E', |body| {
            let mut field = |kind: u8, text: &str| {
                body.push(kind);
                put_text(body, text);
            };
            field(b'S', "ERROR");
            field(b'C', &failure.sqlstate);
            field(b'M', &failure.message);
            failure.detail.iter().for_each(|detail| field(b'D', detail));
            failure.hint.iter().for_each(|hint| field(b'H', hint));
            body.push(0);
        });
    }
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    body.extend(text.bytes().filter(|byte| *byte != 0));
    body.push(0);
}

/// The first message of `bytes` and how many bytes it takes; None: it is not there as a whole.
pub fn take(bytes: &[u8]) -> Result<Option<(Message<'_>, usize)>, Malformed> {
    taken(bytes, decode)
}

/// The same of the extension's messages, behind the first of a connection.
pub fn take_asked(bytes: &[u8]) -> Result<Option<(Asked<'_>, usize)>, Malformed> {
    taken(bytes, |kind, body| {
        let mut fields = Fields(body);
        let asked = match kind {
            b'Q' => Asked::Query(fields.text()?),
            b'X' => Asked::Terminate,
            _ => return Err(Malformed("type of a message")),
        };
        fields.end(asked)
    })
}

/// The same of the first message of a connection, which has no type.
pub fn take_first(bytes: &[u8]) -> Result<Option<(First, usize)>, Malformed> {
    let Some((head, rest)) = bytes.split_at_checked(4) else { return Ok(None) };
    let length = body_bytes([head[0], head[1], head[2], head[3]], FIRST_BYTES_MAX)?;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let mut fields = Fields(body);
    let first = match fields.int4()? {
        VERSION => First::Startup,
        CANCEL => {
            let key = CancelKey { process: fields.int4()?, secret: fields.int4()? };
            fields.end(First::Cancel(key))?
        }
        _ => return Err(Malformed("version of the protocol")),
    };
    Ok(Some((first, 4 + length)))
}

type Taken<M> = Result<Option<(M, usize)>, Malformed>;

fn taken<'m, M>(bytes: &'m [u8], decode: impl FnOnce(u8, &'m [u8]) -> Result<M, Malformed>) -> Taken<M> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) else { return Ok(None) };
    let length = body_bytes([head[1], head[2], head[3], head[4]], MESSAGE_BYTES_MAX)?;
    match rest.get(..length) {
        Some(body) => Ok(Some((decode(head[0], body)?, HEAD_BYTES + length))),
        None => Ok(None),
    }
}

/// The bytes behind a length, which counts its own four.
fn body_bytes(length: [u8; 4], most: usize) -> Result<usize, Malformed> {
    let length = (u32::from_be_bytes(length) as usize).checked_sub(4);
    length.filter(|length| *length <= most).ok_or(Malformed("length of a message"))
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
    fields.end(message)
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

    fn end<T>(&self, message: T) -> Result<T, Malformed> {
        match self.0.is_empty() {
            true => Ok(message),
            false => Err(Malformed("bytes behind the last field")),
        }
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
    fn what_one_side_writes_the_other_reads() {
        let key = CancelKey { process: 7, secret: -8 };
        for (bytes, first) in [(startup(&[("user", "alice")]), First::Startup), (cancel(key), First::Cancel(key))] {
            for cut in 0..bytes.len() {
                assert_eq!(take_first(&bytes[..cut]), Ok(None), "{cut}");
            }
            assert_eq!(take_first(&bytes), Ok(Some((first, bytes.len()))));
        }
        let bytes = query("SELECT 1");
        assert_eq!(take_asked(&bytes), Ok(Some((Asked::Query("SELECT 1"), bytes.len()))));
        assert_eq!(take_asked(b"X\0\0\0\x04"), Ok(Some((Asked::Terminate, 5))));

        let failure = Failure::new("22012", "division by zero").detail("d").hint("h");
        let mut answer = Answer::default();
        answer.accepted(key);
        answer.block(12);
        answer.columns(["a", "b"].into_iter());
        let values = |value: &mut dyn FnMut(Option<&str>)| {
            [None, Some("abc")].into_iter().for_each(value);
            Ok(())
        };
        answer.row(2, values).unwrap();
        let before = answer.bytes.len();
        let failed = answer.row(2, |value| values(value).and(Err(failure.clone())));
        assert_eq!((failed, answer.bytes.len()), (Err(failure.clone()), before));
        answer.complete("SELECT 1");
        answer.error(&failure);
        answer.ready();
        let (mut used, mut messages) = (0, Vec::new());
        while let Some((message, length)) = take(&answer.bytes[used..]).unwrap() {
            messages.push(message);
            used += length;
        }
        let row = Message::Row(vec![None, Some("abc")]);
        let result = [Message::Block(12), Message::Columns(2), row, Message::Complete, Message::Error(failure)];
        assert_eq!(messages[..2], [Message::Accepted, Message::Key(key)]);
        assert_eq!((&messages[2..7], &messages[7..]), (&result[..], &[Message::Ready][..]));
        assert_eq!(used, answer.bytes.len());
    }

    #[test]
    fn malformed_questions_are_refused() {
        for bytes in [
            &b"P\0\0\0\x04"[..],
            b"Q\0\0\0\x06x\xff",
            b"Q\0\0\0\x06xy",
            b"Q\0\0\0\x06\0y",
            b"X\0\0\0\x05x",
            b"Q\xff\xff\xff\xff",
        ] {
            assert!(take_asked(bytes).is_err(), "{bytes:?}");
        }
        for bytes in [
            &b"\0\0\0\x08\x04\xd2\x16\x2f"[..],
            b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\x01",
            b"\0\0\0\x03",
            b"\0\0\x27\x15",
        ] {
            assert!(take_first(bytes).is_err(), "{bytes:?}");
        }
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
