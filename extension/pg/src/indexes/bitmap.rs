//! Checks an index that returns rows only as bitmaps, as GIN and BRIN do.
//!
//! Each check looks rows up by their values, a different sample each time. The bitmap of a look-up
//! may have many other rows, and be slow to make. So after a look-up the check skips about as many
//! rows as the bitmap had, and as entries were read for it. All look-ups together cost about as
//! much as reading the table.
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use pgrx::{pg_sys, FromDatum};

use crate::base::error::{catch_c, OrRaise};
use crate::base::major;
use crate::base::random;
use crate::indexes::check::{raw, Compared, Difference, Scans};

/// access/brin.h, of which pgrx has no bindings.
mod brin {
    use super::pg_sys;

    /// `BrinStatsData`
    #[repr(C)]
    #[derive(Default)]
    pub(crate) struct Stats {
        pub(crate) pages_of_an_entry: pg_sys::BlockNumber,
        pub(crate) map_pages: pg_sys::BlockNumber,
    }

    extern "C-unwind" {
        pub(crate) fn brinGetStats(index: pg_sys::Relation, stats: *mut Stats);
    }
}

/// About as many rows as fit on a page of those that GIN has not sorted in yet.
const ROWS_OF_A_PENDING_PAGE: u64 = 100;
/// A document is asked for by so many of its words.
const WORDS_MAX: usize = 64;
/// As many rows as fit on a page, and more.
const ROWS_OF_A_PAGE: usize = pg_sys::BLCKSZ as usize / size_of::<pg_sys::ItemIdData>();

impl Scans {
    /// Asks the index for some of the rows that it should have.
    ///
    /// # Safety
    /// As for [`Scans::compare`]; the index gives bitmaps.
    pub(super) unsafe fn ask_bitmaps(&self, pace: &mut dyn FnMut()) -> Compared {
        let mut seen = Difference::default();
        // SAFETY: by the caller's promise; the setting belongs to this process.
        unsafe {
            let operators = self.reflexive();
            // With a limit GIN leaves rows out by chance.
            if operators.iter().all(Option::is_none) || pg_sys::GinFuzzySearchLimit != 0 {
                return Compared::Not;
            }
            let always = self.read_always();
            let mut next = after(0, always);
            self.each_row(&mut |slot, estate| {
                seen.rows += 1;
                if seen.rows == next {
                    let answer = self.memory.enter(|| self.answer(&operators, slot, estate));
                    seen.not_by_value += u64::from(answer.is_some_and(|answer| !answer.finds));
                    next = after(seen.rows, answer.map_or(0, |answer| always + answer.rows));
                }
                pace();
            });
        }
        seen.found = seen.rows - seen.not_by_value;
        match seen.not_by_value {
            0 => Compared::Agrees,
            _ => Compared::Differs(seen),
        }
    }

    /// About how many entries each question reads, whatever it asks for.
    ///
    /// # Safety
    /// As for [`Scans::compare`].
    unsafe fn read_always(&self) -> u64 {
        // SAFETY: by the caller's promise.
        unsafe {
            match (*(*self.index).rd_rel).relam {
                pg_sys::GIN_AM_OID => {
                    let mut stats = pg_sys::GinStatsData::default();
                    pg_sys::ginGetStats(self.index, &mut stats);
                    u64::from(stats.nPendingPages) * ROWS_OF_A_PENDING_PAGE
                }
                pg_sys::BRIN_AM_OID => {
                    let mut stats = brin::Stats::default();
                    catch_c(|| brin::brinGetStats(self.index, &mut stats)).or_raise();
                    let main = pg_sys::ForkNumber::MAIN_FORKNUM;
                    let pages = pg_sys::RelationGetNumberOfBlocksInFork(self.table, main);
                    u64::from(pages / stats.pages_of_an_entry.max(1))
                }
                _ => 0,
            }
        }
    }

    /// For each key column an operator of the index by which a value most often matches itself, or
    /// a document all of its words.
    ///
    /// # Safety
    /// As for [`Scans::compare`].
    unsafe fn reflexive(&self) -> Vec<Option<Reflexive>> {
        // SAFETY: by the caller's promise; an index has a family and a type for each key column,
        // and an operator a name.
        unsafe {
            let columns = (*self.info).ii_NumIndexKeyAttrs as usize;
            let of_column = |at: usize| {
                let (family, of) = (
                    *(*self.index).rd_opfamily.add(at),
                    *(*self.index).rd_opcintype.add(at),
                );
                let document = of == pg_sys::TSVECTOROID;
                let query = if document { pg_sys::TSQUERYOID } else { of };
                let named = |name: &CStr| {
                    (1..=i16::from(u8::MAX)).find_map(|strategy| {
                        let operator = pg_sys::get_opfamily_member(family, of, query, strategy);
                        if operator == pg_sys::InvalidOid {
                            return None;
                        }
                        let called = pg_sys::get_opname(operator);
                        (!called.is_null() && CStr::from_ptr(called) == name).then(|| Reflexive {
                            strategy: strategy as pg_sys::StrategyNumber,
                            function: pg_sys::get_opcode(operator),
                            asked_by: query,
                        })
                    })
                };
                match document {
                    true => named(c"@@"),
                    false => named(c"=").or_else(|| named(c"@>")),
                }
            };
            (0..columns).map(of_column).collect()
        }
    }

    /// Asks the index for the values of the row; None: there is none to ask for.
    ///
    /// # Safety
    /// As for [`Scans::compare`]; the slot holds a row. The caller frees the memory.
    unsafe fn answer(
        &self,
        operators: &[Option<Reflexive>],
        slot: *mut pg_sys::TupleTableSlot,
        estate: *mut pg_sys::EState,
    ) -> Option<Answer> {
        // SAFETY: by the caller's promise; FormIndexDatum sets as many values as the index has
        // columns. Both bitmaps live in the memory that the caller frees.
        unsafe {
            let columns = (*self.info).ii_NumIndexAttrs as usize;
            let mut values = vec![pg_sys::Datum::from(0); columns];
            let mut nulls = vec![true; columns];
            let (to, to_nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
            catch_c(|| raw::FormIndexDatum(self.info, slot, estate, to, to_nulls)).or_raise();
            let mut asked: Vec<pg_sys::ScanKeyData> = Vec::new();
            for (at, operator) in operators.iter().enumerate() {
                let Some(operator) = operator.as_ref().filter(|_| !nulls[at]) else {
                    continue;
                };
                let collation = *(*self.index).rd_indcollation.add(at);
                let value = values[at];
                let query = match operator.asked_by == pg_sys::TSQUERYOID {
                    true => words(value),
                    false => Some(value),
                };
                let Some(query) = query else {
                    continue;
                };
                let matches =
                    pg_sys::OidFunctionCall2Coll(operator.function, collation, value, query);
                if matches.value() == 0 {
                    continue; // as a box with a coordinate that is no number
                }
                let mut key = pg_sys::ScanKeyData::default();
                pg_sys::ScanKeyEntryInitialize(
                    &mut key,
                    0,
                    at as i16 + 1,
                    operator.strategy,
                    operator.asked_by,
                    collation,
                    operator.function,
                    query,
                );
                asked.push(key);
            }
            if asked.is_empty() {
                return None;
            }
            let keys = asked.len() as i32;
            let scan = major::begin_index_scan(None, self.index, self.snapshot, keys);
            pg_sys::index_rescan(scan, asked.as_mut_ptr(), keys, null_mut(), 0);
            let bytes = pg_sys::work_mem as usize * 1024;
            let given = pg_sys::tbm_create(bytes as _, null_mut());
            let rows = pg_sys::index_getbitmap(scan, given);
            pg_sys::index_endscan(scan);
            let wanted = pg_sys::tbm_create(bytes as _, null_mut());
            pg_sys::tbm_add_tuples(wanted, &mut self.root(slot), 1, false);
            pg_sys::tbm_intersect(given, wanted);
            Some(Answer {
                rows: rows.try_into().unwrap_or(0),
                finds: !pg_sys::tbm_is_empty(given),
            })
        }
    }

    /// The place by which indexes know the row: that of the first version of its chain.
    ///
    /// # Safety
    /// As for [`Scans::compare`]; the slot holds a row of the table.
    unsafe fn root(&self, slot: *mut pg_sys::TupleTableSlot) -> pg_sys::ItemPointerData {
        // SAFETY: by the caller's promise; the page is pinned and locked while it is read, and has
        // no more rows than the array has places.
        unsafe {
            let mut place = (*slot).tts_tid;
            let page = pgrx::itemptr::item_pointer_get_block_number_no_check(place);
            let mut roots = [0; ROWS_OF_A_PAGE];
            let buffer = pg_sys::ReadBuffer(self.table, page);
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage(buffer), roots.as_mut_ptr());
            pg_sys::UnlockReleaseBuffer(buffer);
            match usize::from(place.ip_posid)
                .checked_sub(1)
                .and_then(|at| roots.get(at))
            {
                Some(root) if *root != 0 => place.ip_posid = *root,
                _ => {}
            }
            place
        }
    }
}

/// An operator that an index can be asked by.
struct Reflexive {
    strategy: pg_sys::StrategyNumber,
    function: pg_sys::Oid,
    /// The type of what is asked for: that of the column, or a query that matches a document.
    asked_by: pg_sys::Oid,
}

/// The answer of an index to the values of one row.
#[derive(Clone, Copy)]
struct Answer {
    /// All that it gave, by its own count.
    rows: u64,
    /// Whether the row is among them.
    finds: bool,
}

/// The row to ask for next: on average `cost` rows on, and nobody knows which.
fn after(row: u64, cost: u64) -> u64 {
    let [a, b, c, d, ..] = random::key();
    row + 1 + u64::from(u32::from_be_bytes([a, b, c, d])) % cost.saturating_mul(2).max(2)
}

/// The query that asks for the words of a document, from a random one on; None: it has none.
///
/// # Safety
/// The value must be a tsvector.
unsafe fn words(document: pg_sys::Datum) -> Option<pg_sys::Datum> {
    // SAFETY: by the caller's promise; both functions are PostgreSQL's own, and take one argument.
    unsafe {
        let call = |function: u32, argument| {
            pg_sys::OidFunctionCall1Coll(function.into(), pg_sys::InvalidOid, argument)
        };
        let array = call(pg_sys::F_TSVECTOR_TO_ARRAY, document);
        let words = Vec::<String>::from_datum(array, false)?;
        let first = usize::from(random::key()[0]).checked_rem(words.len())?;
        let quoted =
            |word: &String| format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"));
        let asked: Vec<_> = words
            .iter()
            .cycle()
            .skip(first)
            .take(words.len().min(WORDS_MAX))
            .map(quoted)
            .collect();
        let query = CString::new(asked.join(" & ")).ok()?;
        Some(call(
            pg_sys::F_TSQUERYIN,
            pg_sys::Datum::from(query.as_ptr()),
        ))
    }
}
