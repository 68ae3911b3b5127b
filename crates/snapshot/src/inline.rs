//! The 16 bytes by which a column has a value of variable length: the views of Arrow's Utf8View and
//! BinaryView (Arrow columnar format, "Variable-size Binary View Layout").
//!
//! * Bytes 0 to 4 are the length.
//! * Of a value of at most 12 bytes, the rest is the value, then zeros.
//! * Of a longer one, bytes 4 to 8 are its first four bytes. Bytes 8 to 12 are the number of its
//!   buffer, and 12 to 16 its place there.
//!
//! Numbers are signed, of 32 bits, lowest byte first.

/// Bytes of a view.
pub const VIEW_BYTES: usize = 16;

/// Values of at most so many bytes stand in the view itself.
pub const INLINE_BYTES_MAX: usize = 12;

/// The view of the empty value, and of NULL and of rows that are not there.
pub(crate) const EMPTY: [u8; VIEW_BYTES] = [0; VIEW_BYTES];

/// A place in the buffers of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub buffer: usize,
    pub offset: usize,
    pub length: usize,
}

/// The value of a view, or its place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen<'a> {
    Inline(&'a [u8]),
    At(Place),
}

/// The view of a short value.
pub(crate) fn short(value: &[u8]) -> [u8; VIEW_BYTES] {
    let mut view = EMPTY;
    view[..4].copy_from_slice(&(value.len() as i32).to_le_bytes());
    view[4..4 + value.len()].copy_from_slice(value);
    view
}

/// The view of a long value that stands at `place`.
pub(crate) fn long(value: &[u8], place: Place) -> [u8; VIEW_BYTES] {
    let mut view = EMPTY;
    view[..4].copy_from_slice(&(value.len() as i32).to_le_bytes());
    view[4..8].copy_from_slice(&value[..4]);
    view[8..12].copy_from_slice(&(place.buffer as i32).to_le_bytes());
    view[12..].copy_from_slice(&(place.offset as i32).to_le_bytes());
    view
}

/// Reads a view that [`short`] or [`long`] made.
pub(crate) fn seen(view: &[u8]) -> Seen<'_> {
    let number = |at: usize| i32::from_le_bytes([view[at], view[at + 1], view[at + 2], view[at + 3]]) as usize;
    match number(0) {
        length @ 0..=INLINE_BYTES_MAX => Seen::Inline(&view[4..4 + length]),
        length => Seen::At(Place { buffer: number(8), offset: number(12), length }),
    }
}
