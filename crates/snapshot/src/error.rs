//! Reasons for a refusal.

use std::fmt;

/// A refusal. The rows and snapshots are as they were before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The bound of the [`Pool`](crate::Pool) leaves too little. To a client: SQLSTATE 53200.
    Full {
        /// Bytes that the call wanted.
        wanted: usize,
        /// Bytes in use by tables and snapshots.
        used: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The operating system has no memory left, below the bound of the pool.
    Memory {
        /// Bytes that the call wanted.
        wanted: usize,
    },
    /// A system call failed.
    System {
        /// Name of the call.
        call: &'static str,
        /// The number of the error, as in `errno`.
        errno: i32,
    },
    /// This machine has no such strategy.
    Unavailable {
        /// Name of the strategy.
        strategy: &'static str,
        /// The condition that does not hold.
        reason: String,
    },
    /// The process that holds a snapshot of `fork` has ended or does not answer.
    Lost,
    /// A row has another number of values than the table has columns.
    Columns {
        /// Values of the row.
        got: usize,
        /// Columns of the table.
        want: usize,
    },
    /// A value has another length than the cells of its column.
    Width {
        /// Number of the column.
        column: usize,
        /// Bytes of the value.
        got: usize,
        /// Bytes of a cell.
        want: usize,
    },
    /// A value is longer than [`VALUE_BYTES_MAX`](crate::VALUE_BYTES_MAX).
    TooLong {
        /// Number of the column.
        column: usize,
        /// Bytes of the value.
        got: usize,
    },
    /// No row is in this slot.
    NoRow {
        /// The slot.
        slot: usize,
    },
    /// The table has no such column.
    NoColumn {
        /// The column.
        column: usize,
    },
}

impl Error {
    /// Error of a system call that has just failed.
    pub(crate) fn system(call: &'static str, error: &std::io::Error) -> Self {
        Error::System { call, errno: error.raw_os_error().unwrap_or(0) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Full { wanted, used, bytes_max } => write!(
                f,
                "take {wanted} bytes: {used} of at most {bytes_max} are in use; drop snapshots or raise the bound"
            ),
            Error::Memory { wanted } => {
                write!(f, "take {wanted} bytes: the machine has no memory left; lower the bound or drop snapshots")
            }
            Error::System { call, errno } => {
                write!(f, "{call}: {}", std::io::Error::from_raw_os_error(*errno))?;
                match *errno == libc::ENOMEM && *call == "mmap" {
                    true => write!(f, "; drop snapshots or raise vm.max_map_count"),
                    false => Ok(()),
                }
            }
            Error::Unavailable { strategy, reason } => {
                write!(f, "strategy {strategy} is not available: {reason}; use chunks")
            }
            Error::Lost => write!(f, "the process that holds the snapshot does not answer; make another snapshot"),
            Error::Columns { got, want } => write!(f, "row has {got} values, want {want}"),
            Error::Width { column, got, want } => write!(f, "value of column {column} is {got} bytes, want {want}"),
            Error::TooLong { column, got } => {
                write!(f, "value of column {column} is {got} bytes, want at most {}", i32::MAX)
            }
            Error::NoRow { slot } => write!(f, "no row is in slot {slot}"),
            Error::NoColumn { column } => write!(f, "the table has no column {column}"),
        }
    }
}

impl std::error::Error for Error {}
