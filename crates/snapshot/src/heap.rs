//! The bytes of a column's long values, in buffers that are only appended to.

use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::Error;
use crate::group::Group;
use crate::inline::{long, seen, short, Place, Seen, INLINE_BYTES_MAX, VIEW_BYTES};
use crate::pool::Pool;
use crate::raw::append::{Filled, Tail};

/// Bytes of the first buffer of a column, and of the largest for several values. Each buffer is
/// twice as large as the one before, so that a column has few.
const FIRST_BYTES: usize = 64 * 1024;
const LARGEST_BYTES: usize = 2 * 1024 * 1024;

/// The writer's side. Buffers of values that are all gone are left to the snapshots that have them.
pub(crate) struct Heap {
    pool: Arc<Pool>,
    /// Buffers that are full, each at its number.
    sealed: Arc<Vec<Option<Filled>>>,
    /// For each buffer: bytes of values that rows have, and bytes of the buffer in use.
    counts: Vec<Counts>,
    tail: Option<(usize, Tail)>,
    free: Vec<usize>,
    next_bytes: usize,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    live: usize,
    filled: usize,
}

/// The buffers of a column at one moment.
#[derive(Clone)]
pub(crate) struct Buffers {
    sealed: Arc<Vec<Option<Filled>>>,
    tail: Option<(usize, Filled)>,
}

impl Heap {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Heap { pool, sealed: Arc::default(), counts: Vec::new(), tail: None, free: Vec::new(), next_bytes: FIRST_BYTES }
    }

    /// Makes room for a value of so many bytes, so that the next [`put`](Self::put) cannot fail.
    pub(crate) fn reserve(&mut self, length: usize) -> Result<(), Error> {
        let has_room = self.tail.as_ref().is_some_and(|(_, tail)| tail.room() >= length);
        if length <= INLINE_BYTES_MAX || has_room {
            return Ok(());
        }
        let bytes = self.next_bytes.max(length);
        let tail = Tail::new(Chunk::any(&self.pool, bytes)?);
        self.seal();
        let number = self.free.pop().unwrap_or(self.counts.len());
        self.counts.resize(self.counts.len().max(number + 1), Counts::default());
        self.tail = Some((number, tail));
        self.next_bytes = (self.next_bytes * 2).min(LARGEST_BYTES);
        Ok(())
    }

    /// Keeps a value and returns its view.
    ///
    /// # Errors
    /// [`Error::Full`], unless [`reserve`](Self::reserve) made room.
    pub(crate) fn put(&mut self, value: &[u8]) -> Result<[u8; VIEW_BYTES], Error> {
        self.reserve(value.len())?;
        if value.len() <= INLINE_BYTES_MAX {
            return Ok(short(value));
        }
        let (buffer, tail) = self.tail.as_mut().expect("a buffer was reserved");
        let place = Place { buffer: *buffer, offset: tail.append(value), length: value.len() };
        let counts = &mut self.counts[place.buffer];
        counts.live += value.len();
        counts.filled += value.len();
        Ok(long(value, place))
    }

    /// Lets a value go, which a view of [`put`](Self::put) leads to.
    pub(crate) fn release(&mut self, view: &[u8]) {
        let Seen::At(place) = seen(view) else { return };
        self.counts[place.buffer].live -= place.length;
        self.drop_if_empty(place.buffer);
    }

    /// The same value in the newest buffer: its view; `None` when it is short.
    pub(crate) fn moved(&mut self, view: &[u8]) -> Result<Option<[u8; VIEW_BYTES]>, Error> {
        let Seen::At(place) = seen(view) else { return Ok(None) };
        self.reserve(place.length)?;
        let from = self.buffers();
        self.put(from.bytes(place)).map(Some)
    }

    /// Bytes of values that no row has any more, and bytes of all values together.
    pub(crate) fn dead_of(&self) -> (usize, usize) {
        let (live, filled) = self.counts.iter().fold((0, 0), |(l, f), counts| (l + counts.live, f + counts.filled));
        (filled - live, filled)
    }

    /// Bytes of all buffers, room at the end of the newest included.
    pub(crate) fn bytes(&self) -> usize {
        let sealed: usize = self.sealed.iter().flatten().map(|filled| filled.as_ref().len()).sum();
        sealed + self.tail.as_ref().map_or(0, |(_, tail)| tail.filled().as_ref().len() + tail.room())
    }

    /// Whether at most half of the buffer's bytes are of values that rows have.
    pub(crate) fn is_sparse(&self, view: &[u8]) -> bool {
        match seen(view) {
            Seen::Inline(_) => false,
            Seen::At(place) => {
                let counts = self.counts[place.buffer];
                counts.live * 2 <= counts.filled
            }
        }
    }

    /// Ends the newest buffer, so that its values can be moved.
    pub(crate) fn seal(&mut self) {
        if let Some((number, tail)) = self.tail.take() {
            let sealed = Arc::make_mut(&mut self.sealed);
            sealed.resize(sealed.len().max(number + 1), None);
            sealed[number] = Some(tail.filled());
            self.drop_if_empty(number);
        }
    }

    /// The buffers of now. Cost: two atomic additions.
    pub(crate) fn buffers(&self) -> Buffers {
        Buffers { sealed: self.sealed.clone(), tail: self.tail.as_ref().map(|(number, tail)| (*number, tail.filled())) }
    }

    fn drop_if_empty(&mut self, number: usize) {
        let is_sealed = self.sealed.get(number).is_some_and(Option::is_some);
        if is_sealed && self.counts[number].live == 0 {
            Arc::make_mut(&mut self.sealed)[number] = None;
            self.counts[number] = Counts::default();
            self.free.push(number);
        }
    }
}

impl Buffers {
    /// The bytes at a place.
    pub(crate) fn bytes(&self, place: Place) -> &[u8] {
        let filled = match &self.tail {
            Some((number, filled)) if *number == place.buffer => filled.as_ref(),
            _ => self.sealed[place.buffer].as_ref().map_or(&[][..], Filled::as_ref),
        };
        &filled[place.offset..place.offset + place.length]
    }

    /// The value of a cell: its bytes, or where there are buffers the bytes that the view leads to.
    pub(crate) fn value(buffers: Option<&Self>, cell: &[u8]) -> Vec<u8> {
        match buffers.map(|buffers| (buffers, seen(cell))) {
            None => cell.to_vec(),
            Some((_, Seen::Inline(value))) => value.to_vec(),
            Some((buffers, Seen::At(place))) => buffers.bytes(place).to_vec(),
        }
    }

    /// All buffers, each at its number; empty where no value is.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let numbers = self.sealed.len().max(self.tail.as_ref().map_or(0, |(number, _)| number + 1));
        let filled = |number| match &self.tail {
            Some((tail, filled)) if *tail == number => Some(filled),
            _ => self.sealed.get(number).and_then(Option::as_ref),
        };
        let group =
            |number| filled(number).map_or_else(|| Group::whole(Arc::new([])), |f| Group::whole(Arc::new(f.clone())));
        (0..numbers).map(group).collect()
    }
}
