//! Reads a whole relation under one snapshot, a few pages at a time, without a lock in between.
//! Sessions that want to change its definition or to rewrite it wait for one slice at most.

use pgrx::pg_sys;

use crate::base::relation::{Relation, Tuple};

/// Pages of one slice: a megabyte.
const PAGES: u32 = 128;

/// The fate of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slice {
    /// It was read; there may be more.
    Read,
    /// The relation is read to its end.
    End,
    /// The relation was rewritten, truncated or dropped meanwhile: what the snapshot sees of it
    /// cannot be told any more.
    Replaced,
}

/// How far reading has come.
pub struct Slices {
    relation: pg_sys::Oid,
    file: pg_sys::Oid,
    next: u32,
    end: u32,
    snapshot: pg_sys::Snapshot,
}

impl Slices {
    /// Begins to read what the running statement sees, with what `start` makes of the relation;
    /// None when there is none any more.
    pub fn of<T>(relation: pg_sys::Oid, start: impl FnOnce(&Relation) -> T) -> Option<(Self, T)> {
        let opened = Opened::try_open(relation)?;
        let started = start(opened.relation());
        // SAFETY: a SQL function runs under an active snapshot; it stays registered until drop.
        let snapshot = unsafe { pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot()) };
        // Rows that the snapshot sees lie in pages that are there now.
        let (file, end) = (opened.file(), opened.pages());
        let slices = Slices {
            relation,
            file,
            next: 0,
            end,
            snapshot,
        };
        Some((slices, started))
    }

    /// Reads the next pages.
    pub fn read(&mut self, f: &mut dyn FnMut(&Tuple)) -> Slice {
        let Some(opened) = Opened::try_open(self.relation).filter(|o| o.file() == self.file) else {
            return Slice::Replaced;
        };
        // Empty pages at the end may have been given back.
        let end = self.end.min(opened.pages());
        if self.next >= end {
            return Slice::End;
        }
        let count = PAGES.min(end - self.next);
        // SAFETY: the snapshot is registered; the pages were there a moment ago and, locked, are
        // still.
        unsafe {
            opened
                .relation()
                .scan_blocks(self.snapshot, Some((self.next, count)), f)
        };
        self.next += count;
        Slice::Read
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing forgets it
        }
        // SAFETY: registered by `of` and not unregistered since.
        unsafe { pg_sys::UnregisterSnapshot(self.snapshot) }
    }
}

/// A relation open and locked for one slice, or until dropped.
pub(crate) struct Opened(Option<Relation>, pg_sys::Oid);

c_functions! {
    fn try_table_open(relation: pg_sys::Oid, lock: pg_sys::LOCKMODE) -> pg_sys::Relation;
}

impl Opened {
    pub(crate) fn try_open(relation: pg_sys::Oid) -> Option<Self> {
        // SAFETY: returns null or a relation held open, which `Relation` closes.
        let opened = unsafe {
            crate::base::error::catch_c(|| {
                try_table_open(relation, pg_sys::AccessShareLock as pg_sys::LOCKMODE)
            })
        };
        let opened = crate::base::error::OrRaise::or_raise(opened);
        Relation::from_open(opened).map(|open| Opened(Some(open), relation))
    }

    pub(crate) fn relation(&self) -> &Relation {
        self.0.as_ref().expect("open until dropped")
    }

    fn file(&self) -> pg_sys::Oid {
        // SAFETY: held open by self.
        crate::base::major::file_of(unsafe { &*self.relation().raw() })
    }

    fn pages(&self) -> u32 {
        // SAFETY: held open and locked by self.
        unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(
                self.relation().raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
            )
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // abort processing closes and unlocks it
        }
        drop(self.0.take());
        // SAFETY: locked by `try_open`; nothing of the relation is used after this.
        unsafe {
            pg_sys::UnlockRelationOid(self.1, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        }
    }
}
