//! Reads big-endian fields one after the other. Errors name the field.

use crate::{Hash, WireError};

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn take(&mut self, field: &str, count: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(WireError::new(field, format!("ends after {} bytes, want {count}", self.rest.len()))),
        }
    }

    pub fn fixed<const N: usize>(&mut self, field: &str) -> Result<[u8; N], WireError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(field, N)?);
        Ok(bytes)
    }

    pub fn u8(&mut self, field: &str) -> Result<u8, WireError> {
        self.fixed(field).map(u8::from_be_bytes)
    }

    pub fn u16(&mut self, field: &str) -> Result<u16, WireError> {
        self.fixed(field).map(u16::from_be_bytes)
    }

    pub fn u32(&mut self, field: &str) -> Result<u32, WireError> {
        self.fixed(field).map(u32::from_be_bytes)
    }

    pub fn u64(&mut self, field: &str) -> Result<u64, WireError> {
        self.fixed(field).map(u64::from_be_bytes)
    }

    pub fn i64(&mut self, field: &str) -> Result<i64, WireError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    pub fn hash(&mut self, field: &str) -> Result<Hash, WireError> {
        self.fixed(field)
    }

    /// `lp(x)`
    pub fn prefixed(&mut self, field: &str) -> Result<&'a [u8], WireError> {
        let length = self.u32(field)?;
        self.take(field, usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// A value, whole: `u8 tag ‖ u32 length ‖ payload`
    pub fn value(&mut self, field: &str) -> Result<&'a [u8], WireError> {
        let (read, whole) = self.spanned(|reader| reader.u8(field).and_then(|_| reader.prefixed(field)));
        read.map(|_| whole)
    }

    /// Returns the result of `read`, and the bytes that it took.
    pub fn spanned<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> (T, &'a [u8]) {
        let whole = self.rest;
        let made = read(self);
        (made, &whole[..whole.len() - self.rest.len()])
    }

    pub fn end(&self, what: &str) -> Result<(), WireError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(WireError::new(what, format!("{} bytes too many", self.rest.len())))
    }
}
