//! The messages between a PostgreSQL backend and its organisation's node
//! (`spec/proto/node.proto`), and the frame around it (`spec/node-socket.md`). The peer is the
//! organisation's own node, so unknown fields are ignored: a newer node may tell more than this
//! extension asks for.

#![allow(missing_docs, reason = "the fields are those of spec/proto/node.proto, which describes them")]

use prost::Message;

use crate::messages::{Parameter, Plan};

/// Largest message either side may send, without the length before it.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

const LENGTH_BYTES: usize = 4;

/// One statement, which becomes one transaction.
#[derive(Clone, PartialEq, Message)]
pub struct Statement {
    /// A [`crate::messages::Kind`].
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(string, tag = "2")]
    pub sql: String,
    #[prost(message, repeated, tag = "3")]
    pub parameters: Vec<Parameter>,
    #[prost(bytes = "vec", tag = "4")]
    pub effects: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub plan: Option<Plan>,
    #[prost(uint64, tag = "6")]
    pub nonce: u64,
    /// 0: the node chooses this and the nonce.
    #[prost(uint64, tag = "7")]
    pub valid_until_height: u64,
    /// Private values whose commitments the write set has.
    #[prost(message, repeated, tag = "8")]
    pub sealed: Vec<SealedValue>,
}

/// A private value with its commitment (`spec/private.md`). Neither is shown by `Debug`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct SealedValue {
    #[prost(bytes = "vec", tag = "1")]
    pub commitment: Vec<u8>,
    #[prost(string, tag = "2")]
    pub table: String,
    #[prost(string, tag = "3")]
    pub column: String,
    #[prost(string, tag = "4")]
    pub r#type: String,
    #[prost(bytes = "vec", tag = "5")]
    pub salt: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    pub value: Vec<u8>,
}

impl std::fmt::Debug for SealedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a value of {}.{}", self.table, self.column)
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct SubmitRequest {
    /// The session's current role; the node vouches for it to the other organisations.
    #[prost(string, tag = "1")]
    pub role: String,
    #[prost(message, repeated, tag = "2")]
    pub statements: Vec<Statement>,
    /// Milliseconds to wait for outcomes; the node bounds it by a second.
    #[prost(uint32, tag = "3")]
    pub wait_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct WaitRequest {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub ids: Vec<Vec<u8>>,
    /// Milliseconds; 0: answer with the outcomes known now.
    #[prost(uint32, tag = "2")]
    pub timeout_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {}

/// The operator's wish that an excluded organisation tries again.
#[derive(Clone, PartialEq, Message)]
pub struct RejoinRequest {}

#[derive(Clone, PartialEq, Message)]
pub struct NodeRequest {
    /// Chosen by the asker; the answer carries it again.
    #[prost(uint64, tag = "1")]
    pub request: u64,
    #[prost(oneof = "RequestBody", tags = "2, 3, 4, 6")]
    pub body: Option<RequestBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum RequestBody {
    #[prost(message, tag = "2")]
    Submit(SubmitRequest),
    #[prost(message, tag = "3")]
    Wait(WaitRequest),
    #[prost(message, tag = "4")]
    Status(StatusRequest),
    #[prost(message, tag = "6")]
    Rejoin(RejoinRequest),
}

#[derive(Clone, PartialEq, Message)]
pub struct SubmitResponse {
    /// In the order of the statements.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub ids: Vec<Vec<u8>>,
    /// The outcomes that are there at the end of `wait_ms`.
    #[prost(message, repeated, tag = "2")]
    pub outcomes: Vec<Outcome>,
}

/// The outcome of a transaction at this organisation.
#[derive(Clone, PartialEq, Message)]
pub struct Outcome {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    /// 0: the order refused it, it was never executed.
    #[prost(uint64, tag = "2")]
    pub block: u64,
    #[prost(uint32, tag = "3")]
    pub index: u32,
    #[prost(bool, tag = "4")]
    pub succeeded: bool,
    #[prost(int64, tag = "5")]
    pub rows: i64,
    #[prost(string, tag = "6")]
    pub sqlstate: String,
    #[prost(string, tag = "7")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct WaitResponse {
    /// In the order of the ids asked for, those without an outcome left out.
    #[prost(message, repeated, tag = "1")]
    pub outcomes: Vec<Outcome>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(string, tag = "1")]
    pub organisation: String,
    #[prost(string, tag = "2")]
    pub chain_id: String,
    #[prost(string, tag = "3")]
    pub version: String,
    #[prost(int64, tag = "4")]
    pub height: i64,
    #[prost(uint64, tag = "5")]
    pub last_ordered: u64,
    #[prost(uint64, tag = "6")]
    pub last_certified: u64,
    #[prost(uint64, tag = "7")]
    pub last_committed: u64,
    /// serving, executing, recovering, failing, catching_up or database_down.
    #[prost(string, tag = "8")]
    pub state: String,
    #[prost(uint32, tag = "9")]
    pub peers: u32,
    #[prost(uint32, tag = "10")]
    pub organisations: u32,
    #[prost(uint32, tag = "11")]
    pub consent: u32,
    /// The reason of an exclusion.
    #[prost(string, tag = "15")]
    pub reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RejoinResponse {}

#[derive(Clone, PartialEq, Message)]
pub struct NodeError {
    #[prost(string, tag = "1")]
    pub sqlstate: String,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(string, tag = "3")]
    pub detail: String,
    #[prost(string, tag = "4")]
    pub hint: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeResponse {
    #[prost(uint64, tag = "1")]
    pub request: u64,
    #[prost(oneof = "ResponseBody", tags = "2, 3, 4, 5, 7")]
    pub body: Option<ResponseBody>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ResponseBody {
    #[prost(message, tag = "2")]
    Submit(SubmitResponse),
    #[prost(message, tag = "3")]
    Wait(WaitResponse),
    #[prost(message, tag = "4")]
    Status(StatusResponse),
    #[prost(message, tag = "5")]
    Error(NodeError),
    #[prost(message, tag = "7")]
    Rejoin(RejoinResponse),
}

/// Why bytes are not a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The message, or the length announced, is this long.
    TooLong(usize),
    /// The bytes of the frame are no `NodeResponse`.
    Malformed(String),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "message has {bytes} bytes, at most {FRAME_BYTES_MAX} are allowed"),
            Self::Malformed(why) => write!(f, "message cannot be decoded: {why}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Encodes a request with its length before it.
pub fn encode_frame(request: &NodeRequest) -> Result<Vec<u8>, FrameError> {
    let length = request.encoded_len();
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    let mut frame = Vec::with_capacity(LENGTH_BYTES + length);
    frame.extend_from_slice(&(length as u32).to_be_bytes());
    request.encode_raw(&mut frame);
    Ok(frame)
}

/// Takes the first frame off the front of what was received; `None` while it is incomplete.
pub fn take_frame(received: &mut Vec<u8>) -> Result<Option<NodeResponse>, FrameError> {
    let Some(head) = received.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*head) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    let end = LENGTH_BYTES + length;
    if received.len() < end {
        return Ok(None);
    }
    let response = NodeResponse::decode(&received[LENGTH_BYTES..end]);
    received.drain(..end);
    response.map(Some).map_err(|error| FrameError::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> NodeResponse {
        let outcome = Outcome { id: vec![7; 32], block: 3, index: 1, succeeded: true, rows: 2, ..Outcome::default() };
        NodeResponse { request: 9, body: Some(ResponseBody::Wait(WaitResponse { outcomes: vec![outcome] })) }
    }

    fn framed(response: &NodeResponse) -> Vec<u8> {
        let mut bytes = (response.encoded_len() as u32).to_be_bytes().to_vec();
        response.encode_raw(&mut bytes);
        bytes
    }

    #[test]
    fn frames_arrive_in_any_pieces() {
        let bytes = [framed(&response()), framed(&response())].concat();
        let mut received = Vec::new();
        let mut seen = 0;
        for byte in bytes {
            received.push(byte);
            while let Some(got) = take_frame(&mut received).expect("valid frame") {
                assert_eq!(got, response());
                seen += 1;
            }
        }
        assert_eq!((seen, received.len()), (2, 0));
    }

    #[test]
    fn a_length_beyond_the_bound_is_refused_before_it_is_believed() {
        let mut received = (FRAME_BYTES_MAX as u32 + 1).to_be_bytes().to_vec();
        assert_eq!(take_frame(&mut received), Err(FrameError::TooLong(FRAME_BYTES_MAX + 1)));
    }

    #[test]
    fn garbage_in_a_frame_is_named() {
        let mut received = vec![0, 0, 0, 2, 0xff, 0xff];
        assert!(matches!(take_frame(&mut received), Err(FrameError::Malformed(_))));
    }

    #[test]
    fn a_request_starts_with_its_length() {
        let request = NodeRequest { request: 1, body: Some(RequestBody::Status(StatusRequest {})) };
        assert_eq!(encode_frame(&request).expect("short"), [0, 0, 0, 4, 8, 1, 0x22, 0]);
    }

    #[test]
    fn a_request_beyond_the_bound_is_not_sent() {
        let statement = Statement { kind: 1, sql: "x".repeat(FRAME_BYTES_MAX), ..Statement::default() };
        let submit = SubmitRequest { role: "app".into(), statements: vec![statement], wait_ms: 0 };
        let request = NodeRequest { request: 1, body: Some(RequestBody::Submit(submit)) };
        assert!(matches!(encode_frame(&request), Err(FrameError::TooLong(_))));
    }
}
