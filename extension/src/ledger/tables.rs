//! Which tables are on the ledger, kept per session until one of them changes.
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use chainify_codec::{LaneHasher, RowHasher};
use pgrx::pg_sys::Oid;

use crate::pg::base::catalog;
use crate::pg::base::encode::{LedgerColumn, RowEncoder};
use crate::pg::base::error::OrRaise;
use crate::pg::base::relation::{Lock, Relation, Shape};
use crate::pg::base::stored_form::StoredForms;

/// A table on the ledger.
pub struct LedgerTable {
    pub id: i32,
    /// `schema.name`, unquoted. Hashes contain this name.
    pub name: String,
    pub history: Oid,
    pub columns: Vec<LedgerColumn>,
    pub rows: RowHasher,
    pub lanes: LaneHasher,
}

/// A relation that holds rows of a ledger table: itself, or one of its partitions.
pub struct Leaf {
    pub table: Rc<LedgerTable>,
    pub relation: Oid,
    pub encoder: RowEncoder,
    pub forms: StoredForms,
    /// The columns as of the recorded rows; a later transaction of the block may change the
    /// table's.
    pub shape: Shape,
}

#[derive(Default)]
struct Cache {
    /// The oid of `chainify_ledger.ledger_table`, read together with the fields below.
    list: Option<Oid>,
    /// The tables themselves by relation; None: not read yet.
    attached: Option<HashMap<Oid, Rc<LedgerTable>>>,
    /// Whether the ledger is this database's own, as of the same read.
    own: bool,
    /// Whether the node follows another server, as of the same read.
    superseded: bool,
    /// Whether the ledger is one of several engines, as of the same read.
    shared: bool,
    /// Any relation asked about, with the ledger table it belongs to.
    owners: HashMap<Oid, Option<Rc<LedgerTable>>>,
    leaves: HashMap<Oid, Rc<Leaf>>,
}

/// The column of `chainify_ledger.fence` with the epoch of a later server.
const SUPERSEDED_BY: i16 = 7;
/// The columns of `chainify_ledger.ledger_table` with the end of a version, and with schema text 2.
const DETACHED_AT: i16 = 8;
const SHARED_TEXT: i16 = 13;

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// The ledger table that `relation` is, or is a partition of.
pub fn owner(relation: Oid) -> Option<Rc<LedgerTable>> {
    refresh();
    if let Some(known) = CACHE.with_borrow(|c| c.owners.get(&relation).cloned()) {
        return known;
    }
    let attached = attached();
    let mut found = attached.get(&relation).cloned();
    if found.is_none() && !attached.is_empty() {
        found = catalog::partition_root(relation).and_then(|root| attached.get(&root).cloned());
    }
    CACHE.with_borrow_mut(|c| c.owners.insert(relation, found.clone()));
    found
}

/// The relation of the ledger table of this name, unquoted. Cost: linear in the tables.
pub fn named(name: &str) -> Option<Oid> {
    refresh();
    let attached = attached();
    let mut tables = attached.iter();
    tables.find_map(|(relation, table)| (table.name == name).then_some(*relation))
}

/// Every table on the ledger, with its relation.
pub fn all() -> Vec<(Oid, Rc<LedgerTable>)> {
    refresh();
    attached().into_iter().collect()
}

/// Whether this database has a ledger of its own: one with a first block, and not a restored one
/// that is not adopted.
pub fn is_own() -> bool {
    refresh();
    attached();
    CACHE.with_borrow(|c| c.own)
}

/// Whether the organisation's node follows another server than this one
/// (`chainify_node.supersede`).
pub fn is_superseded() -> bool {
    refresh();
    attached();
    CACHE.with_borrow(|c| c.superseded)
}

/// Whether the ledger is one of several engines: a table came on it with ENCODING 2, now or before.
pub fn is_shared() -> bool {
    refresh();
    attached();
    CACHE.with_borrow(|c| c.shared)
}

/// The ledger table of a relation with what is needed to encode its rows.
pub fn leaf(relation: Oid) -> Option<Rc<Leaf>> {
    refresh();
    if let Some(known) = CACHE.with_borrow(|c| c.leaves.get(&relation).cloned()) {
        return Some(known);
    }
    let table = owner(relation)?;
    let open = Relation::open(relation, Lock::AccessShare);
    let encoder = RowEncoder::new(&open, &table.columns).or_raise();
    let leaf = Rc::new(Leaf {
        table,
        relation,
        encoder,
        forms: StoredForms::of(&open).or_raise(),
        shape: Shape::of(&open),
    });
    CACHE.with_borrow_mut(|c| c.leaves.insert(relation, leaf.clone()));
    Some(leaf)
}

/// Whether nothing changed in the table's definition since `leaf` was read.
pub fn leaf_is_current(leaf: &Leaf) -> bool {
    refresh();
    CACHE.with_borrow(|c| {
        let kept = c.leaves.get(&leaf.relation);
        kept.is_some_and(|kept| std::ptr::eq(Rc::as_ptr(kept), leaf))
    })
}

/// Makes every session read the list of tables anew; this session does so from the next command on.
pub fn announce_change() {
    if let Some(list) = catalog::relation_named("chainify_ledger", "ledger_table") {
        catalog::announce_change(list);
    }
}

fn refresh() {
    let changes = catalog::take_changes();
    if changes.is_empty() {
        return;
    }
    CACHE.with_borrow_mut(|cache| {
        for change in changes {
            let list = cache.attached.is_some() && change.is_some() && change == cache.list;
            match change {
                Some(relation) if !list => {
                    cache.owners.remove(&relation);
                    cache.leaves.remove(&relation);
                }
                _ => *cache = Cache::default(),
            }
        }
    });
}

fn attached() -> HashMap<Oid, Rc<LedgerTable>> {
    loop {
        if let Some(known) = CACHE.with_borrow(|c| c.attached.clone()) {
            return known;
        }
        let list = catalog::relation_named("chainify_ledger", "ledger_table");
        let (own, superseded) = (reads_here(), reads_superseded());
        let (read, shared) = match own {
            true => read(list),
            false => Default::default(),
        };
        // A change arrived while this session read the list, so the list may be out of date.
        if !catalog::take_changes().is_empty() {
            CACHE.with_borrow_mut(|c| *c = Cache::default());
        }
        CACHE.with_borrow_mut(|c| {
            (c.list, c.attached, c.shared) = (list, Some(read), shared);
            (c.own, c.superseded) = (own, superseded);
        });
    }
}

/// Whether `chainify_ledger.here` has its row.
fn reads_here() -> bool {
    let mut own = false;
    if let Some(here) = catalog::relation_named("chainify_ledger", "here") {
        Relation::open(here, Lock::AccessShare).scan(|_| own = true);
    }
    own
}

/// Whether `chainify_ledger.fence` names a later server.
fn reads_superseded() -> bool {
    let mut superseded = false;
    if let Some(fence) = catalog::relation_named("chainify_ledger", "fence") {
        Relation::open(fence, Lock::AccessShare).scan(|row| {
            superseded = row.get::<i64>(SUPERSEDED_BY).is_some();
        });
    }
    superseded
}

/// The tables by relation, and whether one of any time has schema text 2.
fn read(list: Option<Oid>) -> (HashMap<Oid, Rc<LedgerTable>>, bool) {
    let columns = catalog::relation_named("chainify_ledger", "ledger_column");
    let (Some(list), Some(columns)) = (list, columns) else {
        return Default::default();
    };
    let (list, columns) = (
        Relation::open(list, Lock::AccessShare),
        Relation::open(columns, Lock::AccessShare),
    );
    let mut by_table: HashMap<i32, Vec<LedgerColumn>> = HashMap::new();
    columns.scan(|row| {
        if let (Some(table), Some(ordinal), Some(name)) =
            (row.get::<i32>(1), row.get::<i16>(2), row.get::<String>(3))
        {
            let key = row.get::<i16>(4).is_some();
            by_table.entry(table).or_default().push(LedgerColumn {
                ordinal: ordinal as u16,
                name,
                key,
            });
        }
    });
    let (mut tables, mut shared) = (HashMap::new(), false);
    // A ledger of an earlier version has no such column until ALTER EXTENSION chainify UPDATE.
    let has_texts = list.columns().len() >= SHARED_TEXT as usize;
    list.scan(|row| {
        shared |= has_texts && row.get::<String>(SHARED_TEXT).is_some();
        let fields = (
            row.get::<i32>(1),
            row.get::<String>(2),
            row.get::<Oid>(3),
            row.get::<Oid>(4),
        );
        if let (Some(id), Some(name), Some(relation), Some(history), None) = (
            fields.0,
            fields.1,
            fields.2,
            fields.3,
            row.get::<i64>(DETACHED_AT),
        ) {
            let (rows, lanes) = (RowHasher::new(&name), LaneHasher::new(&name));
            let columns = by_table.remove(&id).unwrap_or_default();
            tables.insert(
                relation,
                Rc::new(LedgerTable {
                    id,
                    name,
                    history,
                    columns,
                    rows,
                    lanes,
                }),
            );
        }
    });
    (tables, shared)
}
