//! The order in which indexes are written to, and in which triggers of constraints run, in a block.
//!
//! PostgreSQL goes by numbers: indexes by that of their relation, triggers of constraints by names
//! that are made of theirs. Numbers follow from the age of objects, which organisations do not have
//! in common. In a block the order follows from definitions alone, which are agreed (invariant
//! X12). A primary key comes first, then other unique keys, each by its words. Triggers go by their
//! kind, then by the words of their constraints. Those with the same words behave alike, and go by
//! name.
//!
//! The order is put into PostgreSQL's cache of relations, and stays there until definitions change.
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;

use pgrx::pg_sys;
use pgrx::pg_sys::SysCacheIdentifier::INDEXRELID;

use crate::base::catalog::generation;
use crate::base::lists::nodes;
use crate::planner::block_settings::under_path;

extern "C-unwind" {
    fn find_all_inheritors(
        relation: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
}

/// `pg_get_indexdef(oid)` in pg_proc.
const INDEX_WORDS: pg_sys::Oid = pg_sys::Oid::from_u32(1643);
/// Looks at a relation whose definition changes meanwhile.
const LOOKS_MAX: usize = 8;

/// The place of an index among those of its table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexPlace {
    pub kind: IndexKind,
    words: String,
    name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexKind {
    PrimaryKey,
    /// A part of the table's definition.
    Unique,
    /// It decides nothing: an organisation may have its own.
    Own,
}

#[derive(Default)]
struct Known {
    /// Definitions may have changed since: see [`generation`].
    generation: u64,
    arranged: BTreeSet<u32>,
    indexes: BTreeMap<u32, IndexPlace>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Forgets what may be no longer so.
fn refresh() {
    let generation = generation();
    KNOWN.with_borrow_mut(|known| {
        if known.generation != generation {
            *known = Known {
                generation,
                ..Known::default()
            };
        }
    });
}

/// Arranges the tables that a statement changes, with their partitions, to which rows may go.
/// Cost: a look-up for each table, once they are arranged.
///
/// # Safety
/// `plan` must be what the executor is about to start, with its tables locked.
pub(super) unsafe fn arrange_targets(plan: &pg_sys::PlannedStmt) {
    if plan.resultRelations.is_null() {
        return;
    }
    refresh();
    // SAFETY: by the caller's promise; a range table has entries.
    let tables = unsafe { nodes(plan.rtable) }
        .map(|entry| unsafe { entry.cast::<pg_sys::RangeTblEntry>().as_ref() });
    for table in tables.filter(|entry| entry.rtekind == pg_sys::RTEKind::RTE_RELATION) {
        if !is_arranged(table.relid) {
            arrange_tree(
                table.relid,
                table.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE,
            );
        }
    }
}

fn is_arranged(relation: pg_sys::Oid) -> bool {
    relation.to_u32() < pg_sys::FirstNormalObjectId
        || KNOWN.with_borrow(|known| known.arranged.contains(&relation.to_u32()))
}

fn arrange_tree(table: pg_sys::Oid, is_partitioned: bool) {
    let before = generation();
    let mut all = vec![table];
    if is_partitioned {
        let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
        // SAFETY: a list of oids. A partition that is locked later may have changed by then, which
        // is a new generation for the next statement.
        all = unsafe { oids(find_all_inheritors(table, no_lock, std::ptr::null_mut())) };
    }
    for relation in all {
        // SAFETY: null when it is gone, else held open until it is closed here.
        unsafe {
            let open = pg_sys::RelationIdGetRelation(relation);
            if open.is_null() {
                continue;
            }
            arrange(open);
            pg_sys::RelationClose(open);
        }
    }
    if generation() == before {
        KNOWN.with_borrow_mut(|known| known.arranged.insert(table.to_u32()));
    }
}

/// Puts indexes and triggers of a relation into their order.
///
/// # Safety
/// `relation` must be open.
unsafe fn arrange(relation: pg_sys::Relation) {
    // SAFETY: by the caller's promise.
    unsafe {
        arrange_indexes(relation);
        arrange_triggers(relation);
    }
}

/// # Safety
/// As for [`arrange`].
unsafe fn arrange_indexes(relation: pg_sys::Relation) {
    // SAFETY: by the caller's promise. The list in the cache is looked at anew after every look at
    // the catalog, which may replace it; its elements are exchanged in place.
    unsafe {
        for _ in 0..LOOKS_MAX {
            let indexes = oids(pg_sys::RelationGetIndexList(relation));
            if indexes.len() < 2 {
                return;
            }
            let mut places: Vec<_> = indexes.iter().map(|i| (place(*i), *i)).collect();
            places.sort_by(|a, b| a.0.cmp(&b.0));
            if !(*relation).rd_indexvalid || oids((*relation).rd_indexlist) != indexes {
                continue;
            }
            for (i, (_, index)) in places.iter().enumerate() {
                (*(*(*relation).rd_indexlist).elements.add(i)).oid_value = *index;
            }
            return;
        }
    }
}

/// The place of an index. Cost: some look-ups and its words, the first time since definitions
/// changed.
pub(super) fn place(index: pg_sys::Oid) -> IndexPlace {
    refresh();
    let known = KNOWN.with_borrow(|known| known.indexes.get(&index.to_u32()).cloned());
    if let Some(known) = known {
        return known;
    }
    let place = find_place(index);
    KNOWN.with_borrow_mut(|known| known.indexes.insert(index.to_u32(), place.clone()));
    place
}

fn find_place(index: pg_sys::Oid) -> IndexPlace {
    // SAFETY: the row is released after its last use.
    let kind = unsafe {
        let row = pg_sys::SearchSysCache1(INDEXRELID as i32, pg_sys::Datum::from(index));
        if row.is_null() {
            IndexKind::Own // it is gone
        } else {
            let of = &*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_index>();
            let kind = match (of.indisprimary, of.indisunique) {
                (true, _) => IndexKind::PrimaryKey,
                (_, true) => IndexKind::Unique,
                _ => IndexKind::Own,
            };
            pg_sys::ReleaseSysCache(row);
            kind
        }
    };
    let name = relation_name(index);
    let words = index_words(index);
    // The name stands in front.
    let words = match words.split_once(&format!(" INDEX {} ON ", quoted(&name))) {
        Some((_, words)) => words.to_owned(),
        None => words,
    };
    IndexPlace { kind, words, name }
}

/// The place of a trigger among those of its table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TriggerPlace {
    /// Its name, of a constraint's without the number.
    kind: String,
    table: String,
    words: String,
    constraint: String,
    of: (i16, u32),
}

/// # Safety
/// As for [`arrange`].
unsafe fn arrange_triggers(relation: pg_sys::Relation) {
    // SAFETY: by the caller's promise. The description in the cache is looked at anew after every
    // look at the catalog, which may replace it; its triggers are exchanged in place. Those that
    // run are copies.
    unsafe {
        for _ in 0..LOOKS_MAX {
            let found: Vec<_> = triggers(relation).iter().map(|t| Found::of(t)).collect();
            if found.iter().filter(|t| t.constraint.is_some()).count() < 2 {
                return;
            }
            let mut places: Vec<_> = found.iter().map(Found::place).zip(0..).collect();
            places.sort();
            let current = triggers(relation);
            if !current
                .iter()
                .map(|t| t.tgoid)
                .eq(found.iter().map(|t| t.number))
            {
                continue;
            }
            let sorted: Vec<_> = places
                .iter()
                .map(|(_, i): &(_, usize)| current[*i])
                .collect();
            current.copy_from_slice(&sorted);
            return;
        }
    }
}

/// # Safety
/// As for [`arrange`]; valid until the next look at the catalog.
unsafe fn triggers<'t>(relation: pg_sys::Relation) -> &'t mut [pg_sys::Trigger] {
    // SAFETY: by the caller's promise; a description has as many triggers as it says.
    unsafe {
        match (*relation).trigdesc.as_ref() {
            Some(all) => std::slice::from_raw_parts_mut(all.triggers, all.numtriggers as usize),
            None => &mut [],
        }
    }
}

/// A trigger as the cache has it.
struct Found {
    number: pg_sys::Oid,
    name: String,
    constraint: Option<pg_sys::Oid>,
    of: (i16, u32),
}

impl Found {
    /// # Safety
    /// `trigger` must be of a relation's description.
    unsafe fn of(trigger: &pg_sys::Trigger) -> Self {
        Found {
            number: trigger.tgoid,
            // SAFETY: by the caller's promise, a C string.
            name: unsafe { text(trigger.tgname) },
            constraint: trigger.tgisinternal.then_some(trigger.tgconstraint),
            of: (trigger.tgtype, trigger.tgfoid.to_u32()),
        }
    }

    fn place(&self) -> TriggerPlace {
        let (kind, of) = (self.name.clone(), self.of);
        let Some((table, words, constraint)) = self.constraint.and_then(constraint) else {
            let (table, words, constraint) = Default::default();
            return TriggerPlace {
                kind,
                table,
                words,
                constraint,
                of,
            };
        };
        let kind = kind
            .rsplit_once('_')
            .map_or(&*kind, |(kind, _)| kind)
            .to_owned();
        TriggerPlace {
            kind,
            table,
            words,
            constraint,
            of,
        }
    }
}

/// The table of a constraint, with its schema, the constraint's words, and its name.
fn constraint(of: pg_sys::Oid) -> Option<(String, String, String)> {
    // SAFETY: C strings, or null for a constraint that is gone.
    unsafe {
        let name = pg_sys::get_constraint_name(of);
        if name.is_null() {
            return None;
        }
        let name = text(name);
        let command = under_path(|| text(pg_sys::pg_get_constraintdef_command(of)));
        let (table, words) = command.split_once(&format!(" ADD CONSTRAINT {} ", quoted(&name)))?;
        Some((table.to_owned(), words.to_owned(), name))
    }
}

/// The words that PostgreSQL has for an index, as under the path of a block.
fn index_words(index: pg_sys::Oid) -> String {
    // SAFETY: the function takes one oid, and gives a text, or raises for an index that is gone.
    under_path(|| unsafe {
        let words = pg_sys::OidFunctionCall1Coll(INDEX_WORDS, pg_sys::InvalidOid, index.into());
        text(pg_sys::text_to_cstring(words.cast_mut_ptr()))
    })
}

fn relation_name(relation: pg_sys::Oid) -> String {
    // SAFETY: a C string, or null when it is gone.
    unsafe { text(pg_sys::get_rel_name(relation)) }
}

fn quoted(name: &str) -> String {
    let name = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: a C string.
    unsafe { text(pg_sys::quote_identifier(name.as_ptr())) }
}

/// # Safety
/// `of` must be null or a C string.
unsafe fn text(of: *const std::ffi::c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}

/// # Safety
/// `list` must be null or a list of oids.
unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    // SAFETY: by the caller's promise.
    unsafe {
        let Some(list) = list.as_ref() else {
            return Vec::new();
        };
        let elements = std::slice::from_raw_parts(list.elements, list.length as usize);
        elements.iter().map(|cell| cell.oid_value).collect()
    }
}
