//! The node's answers on its socket: the same however they arrive, and nothing is believed of a
//! length beyond the bound.

#![no_main]

use chainify_ledger::node_messages::{take_frame, FrameError, NodeResponse, FRAME_BYTES_MAX};
use libfuzzer_sys::fuzz_target;
use prost::Message;

/// The answers in what arrives in `pieces`, until an error ends the connection.
fn taken<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Vec<Result<NodeResponse, FrameError>> {
    let (mut received, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        received.extend_from_slice(piece);
        while let Some(answer) = take_frame(&mut received).transpose() {
            answers.push(answer);
            if answers.last().is_some_and(Result::is_err) {
                return answers;
            }
        }
    }
    answers
}

fuzz_target!(|bytes: &[u8]| {
    let answers = taken(std::iter::once(bytes));
    assert_eq!(answers, taken(bytes.chunks(1)));
    for answer in answers {
        match answer {
            Ok(answer) => {
                let mut frame = (answer.encoded_len() as u32).to_be_bytes().to_vec();
                answer.encode_raw(&mut frame);
                assert_eq!(take_frame(&mut frame), Ok(Some(answer)));
                assert!(frame.is_empty());
            }
            Err(FrameError::TooLong(length)) => assert!(length > FRAME_BYTES_MAX),
            Err(FrameError::Malformed(_)) => {}
        }
    }
});
