//! Reading many rows of a query in bounded memory, all under one snapshot.

use std::ffi::CString;
use std::marker::PhantomData;

use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use pgrx::pg_sys;
use pgrx::prelude::*;

use crate::base::cell::reads_as;
use crate::base::error::PgError;
use crate::base::own_search_path::own_path;
use crate::base::record::Record;
pub use crate::base::snapshot::Sees;
use crate::base::spi::SpiClient;

const BATCH_ROWS: i64 = 1_000;

/// An open query. Rows are fetched in batches, each freed before the next.
pub struct Cursor<'conn> {
    portal: pg_sys::Portal,
    batch: *mut pg_sys::SPITupleTable,
    at: u64,
    rows: u64,
    connection: PhantomData<&'conn SpiClient<'conn>>,
}

impl<'conn> Cursor<'conn> {
    /// Opens `sql`, which must be a query that changes nothing when it sees [`Sees::Statement`].
    pub fn open(
        _connection: &'conn SpiClient<'conn>,
        sees: Sees,
        sql: &str,
        args: &[DatumWithOid<'_>],
    ) -> Self {
        let sql = CString::new(sql).expect("a query has no NUL byte");
        let mut types: Vec<pg_sys::Oid> = args.iter().map(DatumWithOid::oid).collect();
        let nulls: Vec<std::ffi::c_char> = args
            .iter()
            .map(|arg| if arg.datum().is_none() { b'n' } else { b' ' } as std::ffi::c_char)
            .collect();
        let mut values: Vec<pg_sys::Datum> = args
            .iter()
            .map(|arg| {
                arg.datum()
                    .map_or(pg_sys::Datum::from(0), |datum| datum.sans_lifetime())
            })
            .collect();
        // SAFETY: an SPI connection is open, as the borrowed client shows; the three arrays have
        // one element per argument, and the values outlive the call, which copies them.
        let portal = own_path(|| unsafe {
            pg_sys::SPI_cursor_open_with_args(
                std::ptr::null(),
                sql.as_ptr(),
                args.len() as i32,
                types.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_ptr(),
                sees == Sees::Statement,
                0,
            )
        });
        Cursor {
            portal,
            batch: std::ptr::null_mut(),
            at: 0,
            rows: 0,
            connection: PhantomData,
        }
    }

    /// The next row, or `None` after the last. Interruptible.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        if self.at == self.rows {
            self.next_batch();
        }
        if self.rows == 0 {
            return None;
        }
        self.at += 1;
        // SAFETY: the batch has `rows` tuples, `at` was below that, and the borrow of the cursor
        // keeps the batch.
        Some(unsafe { Row::of(self.batch, self.at as usize - 1) })
    }

    fn next_batch(&mut self) {
        pg_sys::check_for_interrupts!();
        // SAFETY: the portal is open until drop; the batch before is freed once, after its last row
        // was given up. SPI sets SPI_tuptable to the new one, which belongs to the SPI connection.
        unsafe {
            if !self.batch.is_null() {
                pg_sys::SPI_freetuptable(std::mem::replace(&mut self.batch, std::ptr::null_mut()));
            }
            own_path(|| {
                pg_sys::SPI_cursor_fetch(self.portal, true, BATCH_ROWS as std::ffi::c_long)
            });
            self.batch = pg_sys::SPI_tuptable;
            self.rows = if self.batch.is_null() {
                0
            } else {
                (*self.batch).numvals
            };
        }
        self.at = 0;
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing closes the portal
        }
        // SAFETY: opened by `open` in this SPI connection, closed nowhere else.
        unsafe {
            if !self.batch.is_null() {
                pg_sys::SPI_freetuptable(self.batch);
            }
            pg_sys::SPI_cursor_close(self.portal);
        }
    }
}

/// A row. Columns count from 1. A column of another type than asked for is a
/// defect of the query and ends the statement.
pub struct Row<'a> {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    batch: PhantomData<&'a ()>,
}

impl Row<'_> {
    /// Row `at` from 0 of a batch.
    ///
    /// # Safety
    /// The batch must have it, and be kept as long as the row.
    pub(crate) unsafe fn of(batch: *mut pg_sys::SPITupleTable, at: usize) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { Row::alone(*(*batch).vals.add(at), (*batch).tupdesc) }
    }

    /// A row that is in no batch.
    ///
    /// # Safety
    /// Both must be kept as long as the row.
    pub(crate) unsafe fn alone(tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) -> Self {
        Row {
            tuple,
            descriptor,
            batch: PhantomData,
        }
    }

    /// A row as a value. Raises where the column is none, or NULL.
    pub fn record(&self, column: i32) -> Record {
        let mut null = false;
        // SAFETY: as for `get`; a value of a row type is a row with its type in its header, and
        // lives in the batch.
        unsafe {
            let found = pg_sys::SPI_gettypeid(self.descriptor, column);
            let value = pg_sys::SPI_getbinval(self.tuple, self.descriptor, column, &mut null);
            if null || !pg_sys::type_is_rowtype(found) {
                PgError::new(b"XX000", format!("column {column} is no row")).raise();
            }
            Record::of(value)
        }
    }

    /// A value of type "char".
    pub fn char(&self, column: usize) -> Option<u8> {
        self.get(column, pg_sys::CHAROID).map(|char: i8| char as u8)
    }

    pub fn bytes(&self, column: usize) -> Option<Vec<u8>> {
        self.get(column, pg_sys::BYTEAOID)
    }

    pub fn text(&self, column: usize) -> Option<String> {
        self.get(column, pg_sys::TEXTOID)
    }

    pub fn bigint(&self, column: usize) -> Option<i64> {
        self.get(column, pg_sys::INT8OID)
    }

    pub fn int(&self, column: usize) -> Option<i32> {
        self.get(column, pg_sys::INT4OID)
    }

    pub fn boolean(&self, column: usize) -> Option<bool> {
        self.get(column, pg_sys::BOOLOID)
    }

    pub fn json(&self, column: usize) -> Option<pgrx::JsonB> {
        self.get(column, pg_sys::JSONBOID)
    }

    pub fn timestamptz(&self, column: usize) -> Option<TimestampWithTimeZone> {
        self.get(column, pg_sys::TIMESTAMPTZOID)
    }

    /// A value as it is, of type `wanted` or, where that is a domain, of the type below it. Raises
    /// for any other.
    pub(crate) fn datum(&self, column: i32, wanted: pg_sys::Oid) -> Option<pg_sys::Datum> {
        // SAFETY: as for `get`.
        unsafe {
            let found = pg_sys::SPI_gettypeid(self.descriptor, column);
            if !reads_as(wanted, found) {
                let message =
                    format!("column {column} is not of the type that it has in the table");
                PgError::new(b"XX000", message).raise();
            }
            let mut null = false;
            let datum = pg_sys::SPI_getbinval(self.tuple, self.descriptor, column, &mut null);
            (!null).then_some(datum)
        }
    }

    fn get<T: FromDatum>(&self, column: usize, expected: pg_sys::Oid) -> Option<T> {
        let column = i32::try_from(column).expect("a query has few columns");
        // SAFETY: tuple and descriptor belong to the same batch, which is still held; SPI gives
        // InvalidOid for a column that is not there, which is no type expected; the value is of the
        // type checked.
        unsafe {
            let found = pg_sys::SPI_gettypeid(self.descriptor, column);
            assert_eq!(found, expected, "type of column {column}");
            let mut null = false;
            let datum = pg_sys::SPI_getbinval(self.tuple, self.descriptor, column, &mut null);
            T::from_datum(datum, null)
        }
    }
}
