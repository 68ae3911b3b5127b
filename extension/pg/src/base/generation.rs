//! Tells when a result of an earlier look-up by name, or of an earlier check, may be out of date.
//!
//! PostgreSQL tells every session of changed definitions: of a relation by its number, of a row of
//! another catalog by a hash of its key. Each message begins a new *generation*. Temporary
//! relations of other sessions and their row types are the exception: no name leads to them.
//! Messages may arrive anywhere, so a session only notes them then, and reads them later inside a
//! transaction.
//!
//! A temporary relation may be gone by that time. PostgreSQL gives OIDs in ascending order. So
//! nothing in this session has used a relation that got its OID after the last reading and is gone
//! now.
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use pgrx::pg_sys;
use pgrx::pg_sys::SysCacheIdentifier::TYPEOID;

use crate::base::error::without_raising;
use crate::base::major;

/// Messages noted; above it there is a new generation.
const NOTED_MAX: usize = 1_024;
/// Numbers given since the last look, up to which the hashes of types are compared with all of
/// them.
const NUMBERS_MAX: u32 = 16_384;
/// Temporary relations, and types of theirs, that are remembered until they go.
const KNOWN_MAX: usize = 16_384;
/// Looks at messages that come while others are looked into.
const LOOKS_MAX: usize = 8;

#[derive(Default)]
struct Noted {
    /// Something that counts whatever it is of.
    any: bool,
    relations: HashSet<pg_sys::Oid>,
    /// By the hashes of their numbers.
    types: HashSet<u32>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        !self.any && self.relations.is_empty() && self.types.is_empty()
    }

    fn bound(&mut self) {
        if self.any || self.relations.len() + self.types.len() > NOTED_MAX {
            *self = Noted::default();
            self.any = true;
        }
    }
}

/// Temporary relations of other sessions that are there, with the hashes of their types' numbers.
#[derive(Default)]
struct Known {
    relations: HashMap<pg_sys::Oid, [u32; 2]>,
    types: HashSet<u32>,
}

impl Known {
    fn add(&mut self, relation: pg_sys::Oid, types: [u32; 2]) {
        if self.relations.len() >= KNOWN_MAX {
            *self = Known::default();
        }
        self.types.extend(types);
        self.relations.insert(relation, types);
    }

    fn remove(&mut self, relation: pg_sys::Oid) {
        for hash in self.relations.remove(&relation).unwrap_or_default() {
            self.types.remove(&hash);
        }
    }
}

thread_local! {
    static GENERATION: Cell<u64> = const { Cell::new(0) };
    static PENDING: Cell<bool> = const { Cell::new(false) };
    static NOTED: RefCell<Noted> = RefCell::default();
    static KNOWN: RefCell<Known> = RefCell::default();
    /// The number that PostgreSQL was to give next at the last look; None before the first.
    static NEXT_NUMBER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The system caches whose rows are definitions, whichever of them changes.
pub(crate) const DEFINITIONS: [i32; 6] = {
    use pg_sys::SysCacheIdentifier::*;
    [
        AUTHMEMROLEMEM as i32,
        AUTHOID as i32,
        CASTSOURCETARGET as i32,
        NAMESPACEOID as i32,
        OPEROID as i32,
        PROCOID as i32,
    ]
};

/// The system cache of types, of which some do not count.
pub(crate) const TYPES: i32 = TYPEOID as i32;

/// A row of [`DEFINITIONS`] changed.
pub(crate) fn note_definition() {
    note(|noted| noted.any = true);
}

/// A type changed, of which PostgreSQL tells the hash; 0: any may have.
pub(crate) fn note_type(hash: u32) {
    note(|noted| match hash {
        0 => noted.any = true,
        _ => drop(noted.types.insert(hash)),
    });
}

/// A relation changed; InvalidOid: any may have.
pub(super) fn note_relation(relation: pg_sys::Oid) {
    note(|noted| match relation {
        pg_sys::InvalidOid => noted.any = true,
        _ => drop(noted.relations.insert(relation)),
    });
}

fn note(f: impl FnOnce(&mut Noted)) {
    PENDING.set(true);
    without_raising("noting a change of definitions", || {
        NOTED.with_borrow_mut(|noted| {
            f(noted);
            noted.bound();
        });
    });
}

/// Changes when a relation, type, function, operator, cast, schema, role or membership may have: a
/// name resolved before may now lead to something else, or not be allowed.
pub fn generation() -> u64 {
    if PENDING.get() || NEXT_NUMBER.get().is_none() {
        look();
    }
    GENERATION.get()
}

fn look() {
    // SAFETY: reads the state of this process.
    let in_transaction = unsafe { pg_sys::IsTransactionState() };
    // Until nothing was found it is a new one: a look-up may raise, and what was noted is gone
    // then.
    let old = GENERATION.get();
    GENERATION.set(old + 1);
    let before = NEXT_NUMBER.get();
    // Read first: what gets a number while this looks is new at the next look.
    NEXT_NUMBER.set(Some(major::next_number()));
    let mut changed = before.is_none();
    for _ in 0..LOOKS_MAX {
        PENDING.set(false);
        let noted = NOTED.take();
        if noted.is_empty() {
            break;
        }
        changed =
            changed || noted.any || !in_transaction || before.is_none_or(|b| counts(&noted, b));
    }
    if PENDING.replace(false) {
        NOTED.take();
        changed = true;
    }
    if !changed {
        GENERATION.set(old);
    }
}

/// Whether any of it is of something that this session may have used, or may now come upon.
fn counts(noted: &Noted, next_before: u32) -> bool {
    // All are looked at, so that those that are there are known when they go.
    let found: Vec<_> = noted.relations.iter().map(|of| (*of, find(*of))).collect();
    let counts = found.iter().any(|(of, found)| match found {
        Found::Gone => {
            let known = KNOWN.with_borrow(|known| known.relations.contains_key(of));
            !known && of.to_u32() < next_before
        }
        Found::OfAnother => false,
        Found::Counts => true,
    });
    let counts = counts || types_count(&noted.types, next_before);
    for (of, _) in found.iter().filter(|(_, found)| *found == Found::Gone) {
        KNOWN.with_borrow_mut(|known| known.remove(*of));
    }
    counts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Gone,
    /// A temporary relation of another session.
    OfAnother,
    Counts,
}

fn find(relation: pg_sys::Oid) -> Found {
    // SAFETY: catalog look-ups, which give zero for what is gone.
    unsafe {
        let schema = pg_sys::get_rel_namespace(relation);
        if schema == pg_sys::InvalidOid {
            return Found::Gone;
        }
        if !pg_sys::isOtherTempNamespace(schema) {
            return Found::Counts;
        }
        let row_type = pg_sys::get_rel_type_id(relation);
        let types = [row_type, pg_sys::get_array_type(row_type)].map(hash);
        KNOWN.with_borrow_mut(|known| known.add(relation, types));
        Found::OfAnother
    }
}

/// The same of types, given the hashes of their numbers.
fn types_count(hashes: &HashSet<u32>, next_before: u32) -> bool {
    let mut unknown = hashes.clone();
    KNOWN.with_borrow(|known| unknown.retain(|hash| !known.types.contains(hash)));
    if unknown.is_empty() {
        return false;
    }
    let next = major::next_number();
    let new = next.checked_sub(next_before); // None: numbers began anew
    if new.is_none_or(|new| new > NUMBERS_MAX) {
        return true;
    }
    for of in (next_before..next).map(pg_sys::Oid::from) {
        if unknown.remove(&hash(of)) && type_counts(of) {
            return true;
        }
    }
    !unknown.is_empty()
}

/// Whether a type counts that got its OID since the last look.
fn type_counts(of: pg_sys::Oid) -> bool {
    // SAFETY: the tuple is a row of pg_type and is released after its last use.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(TYPEOID as i32, pg_sys::Datum::from(of));
        if tuple.is_null() {
            return false;
        }
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_type>();
        let schema = (*row).typnamespace;
        pg_sys::ReleaseSysCache(tuple);
        !pg_sys::isOtherTempNamespace(schema)
    }
}

/// The number that a message of a type has instead.
fn hash(of: pg_sys::Oid) -> u32 {
    let none = pg_sys::Datum::from(0);
    // SAFETY: computes the hash of a key of this cache, which has one column.
    unsafe {
        pg_sys::GetSysCacheHashValue(TYPEOID as i32, pg_sys::Datum::from(of), none, none, none)
    }
}
