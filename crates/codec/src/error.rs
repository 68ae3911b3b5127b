//! The errors of a value to encode and of bytes to decode.

use std::fmt;

/// A value has no canonical encoding. The buffer is as it was before the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// Not a decimal number as PostgreSQL prints it.
    Numeric,
    /// A number with more digits than PostgreSQL's numeric holds.
    NumericRange,
    /// JSON text that is not well formed; the byte offset and what was expected there.
    Json {
        /// Offset in the text, in bytes.
        offset: usize,
        /// The expectation, or the fault.
        what: &'static str,
    },
    /// A nested value of 4 GiB or more.
    TooLong,
    /// Elements, fields, bounds or columns that contradict what was announced.
    Shape(&'static str),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numeric => f.write_str("not a decimal number"),
            Self::NumericRange => f.write_str("number has more digits than numeric holds"),
            Self::Json { offset, what } => write!(f, "invalid JSON at byte {offset}: {what}"),
            Self::TooLong => f.write_str("encoded value is 4 GiB or longer"),
            Self::Shape(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ValueError {}

/// Bytes are not a canonical encoding: where, counted from the start of the row or value, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset of the part at fault, in bytes.
    pub offset: usize,
    /// The fault there.
    pub what: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.offset)
    }
}

impl std::error::Error for DecodeError {}
