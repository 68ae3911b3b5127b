//! The bounds of an access to a relation, and the further accesses that it causes: by keys, foreign
//! keys and triggers.
use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::rc::Rc;

use chainify_sched::value::Class;
use chainify_sched::KeyId;
use pgrx::pg_sys;

use crate::access::value::class_of;
use crate::base::catalog;
use crate::base::index_columns;
use crate::base::major;
use crate::base::relation::{Lock, Relation};

/// Keys of a relation that are looked at.
const KEYS_MAX: usize = 12;

/// An ordered list of columns.
pub(super) struct Key {
    /// Number and class; without one, the column is never bounded.
    pub columns: Vec<(i16, Option<Class>)>,
    /// Whether no two rows, or none of those that some condition holds for, have the same values.
    pub unique: bool,
    /// Columns that decide whether a row is in the key and where, from 1; empty: they cannot be
    /// told.
    depends: Vec<i16>,
    /// It has an expression, which a value's bytes do not tell.
    expression: bool,
}

impl Key {
    /// Whether a change of these columns changes the values that exist.
    pub(crate) fn changes_with(&self, changed: impl Fn(i16) -> bool) -> bool {
        self.depends.is_empty() || self.depends.iter().any(|column| changed(*column))
    }

    /// Whether rows may be found by its values.
    pub fn bounds(&self) -> bool {
        !self.expression
    }
}

/// The fate of the child's rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Check,
    Delete,
    Set,
}

/// A foreign key.
pub(super) struct ForeignKey {
    pub child: pg_sys::Oid,
    pub parent: pg_sys::Oid,
    /// Columns of the child with those of the parent.
    pub columns: Vec<(i16, i16)>,
    /// Equal values have equal bytes.
    pub(crate) exact: bool,
    pub on_delete: Action,
    pub(crate) on_update: Action,
}

/// The known facts about a relation.
pub(super) struct Facts {
    /// Numbered by their place.
    pub keys: Vec<Key>,
    /// In which it is the child, and the parent.
    pub refers: Vec<Rc<ForeignKey>>,
    pub(crate) referred: Vec<Rc<ForeignKey>>,
    /// Columns computed from others.
    pub generated: Vec<i16>,
    /// Accesses are never bounded: its rows are in other relations too.
    pub whole: bool,
    /// Its rows are those of other tables too, which count for themselves.
    pub(crate) inherited: bool,
    /// Why a write may do anything.
    pub open: Option<&'static str>,
}

impl Facts {
    /// The numbers of the unique keys.
    pub fn unique(&self) -> impl Iterator<Item = (KeyId, &Key)> {
        (0..).zip(&self.keys).filter(|(_, key)| key.unique)
    }
}

thread_local! {
    /// With the generation of definitions that they are of.
    static KNOWN: RefCell<(u64, HashMap<pg_sys::Oid, Rc<Facts>>)> = RefCell::default();
}

/// The relation under which accesses to a relation count: the root of a partition.
pub(super) fn counted_as(oid: pg_sys::Oid) -> pg_sys::Oid {
    catalog::partition_root(oid).unwrap_or(oid)
}

/// The known facts about a relation; kept until definitions change. Takes an ACCESS SHARE lock.
/// Raises when there is none.
pub(super) fn facts(oid: pg_sys::Oid) -> Rc<Facts> {
    let kept = KNOWN.with_borrow_mut(|(generation, known)| {
        if *generation != catalog::generation() {
            known.clear();
            *generation = catalog::generation();
        }
        known.get(&oid).cloned()
    });
    kept.unwrap_or_else(|| {
        let facts = Rc::new(look_up(oid));
        KNOWN.with_borrow_mut(|(_, known)| known.insert(oid, facts.clone()));
        facts
    })
}

fn look_up(oid: pg_sys::Oid) -> Facts {
    let relation = Relation::open(oid, Lock::AccessShare);
    // SAFETY: the fields belong to the open relation.
    unsafe {
        let form = &*(*relation.raw()).rd_rel;
        let plain = form.relkind as u8 == pg_sys::RELKIND_RELATION;
        let mut facts = Facts {
            keys: Vec::new(),
            refers: Vec::new(),
            referred: Vec::new(),
            generated: attributes(&relation)
                .iter()
                .filter(|a| a.attgenerated != 0)
                .map(|a| a.attnum)
                .collect(),
            whole: !plain || form.relispartition,
            inherited: plain && form.relhassubclass,
            open: None,
        };
        if form.relispartition {
            facts.open = Some("it is a partition"); // its columns are numbered otherwise than its root's
        } else if !plain && form.relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE {
            facts.open = Some("it is no table");
        }
        triggers(&relation, &mut facts);
        checks(&relation, &mut facts);
        indexes(&relation, &mut facts);
        for key in facts.refers.clone() {
            let columns: Vec<i16> = key.columns.iter().map(|(child, _)| *child).collect();
            let begins = |k: &Key| {
                k.columns
                    .iter()
                    .map(|c| c.0)
                    .take(columns.len())
                    .eq(columns.iter().copied())
            };
            if !facts.keys.iter().any(|k| k.bounds() && begins(k)) && facts.keys.len() < KEYS_MAX {
                facts.keys.push(Key {
                    columns: classes(&relation, &columns),
                    unique: false,
                    depends: columns,
                    expression: false,
                });
            }
        }
        facts
    }
}

fn attributes(relation: &Relation) -> &[pg_sys::FormData_pg_attribute] {
    // SAFETY: the descriptor belongs to the open relation.
    unsafe { major::attributes(relation.descriptor()) }
}

fn deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    collation == pg_sys::InvalidOid || unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// The class of a column by which equal values have equal bytes.
fn class_at(relation: &Relation, column: i16) -> Option<Class> {
    let attribute = attributes(relation).get(usize::try_from(column).ok()?.checked_sub(1)?)?;
    class_of(attribute.atttypid).filter(|_| deterministic(attribute.attcollation))
}

fn classes(relation: &Relation, columns: &[i16]) -> Vec<(i16, Option<Class>)> {
    let class = |column: &i16| (*column, class_at(relation, *column));
    columns.iter().map(class).collect()
}

unsafe fn indexes(relation: &Relation, facts: &mut Facts) {
    // SAFETY: the list is of oids of indexes that exist as long as the relation is open.
    unsafe {
        let Some(list) = pg_sys::RelationGetIndexList(relation.raw()).as_ref() else {
            return;
        };
        let oids = (0..list.length as usize).map(|i| (*list.elements.add(i)).oid_value);
        let mut keys: Vec<(bool, bool, Key)> =
            oids.filter_map(|oid| index(relation, oid, facts)).collect();
        keys.sort_by_key(|(primary, unique, _)| (!primary, !unique));
        for (_, _, key) in keys {
            let same = |k: &&mut Key| k.bounds() && key.bounds() && k.columns == key.columns;
            if let Some(known) = facts.keys.iter_mut().find(same) {
                known.unique |= key.unique;
                known.depends.extend(key.depends);
            } else if facts.keys.len() < KEYS_MAX {
                facts.keys.push(key);
            } else if key.unique {
                facts.open = Some("it has too many unique indexes");
            }
        }
    }
}

unsafe fn index(
    relation: &Relation,
    oid: pg_sys::Oid,
    facts: &mut Facts,
) -> Option<(bool, bool, Key)> {
    let lock = Lock::AccessShare as pg_sys::LOCKMODE;
    // SAFETY: the index stays open while it is read; arrays of the index have as many entries as
    // key columns.
    unsafe {
        let index = pg_sys::index_open(oid, lock);
        let form = &*(*index).rd_index;
        let count = form.indnkeyatts as usize;
        let columns = std::slice::from_raw_parts(form.indkey.values.as_ptr(), count).to_vec();
        let families = std::slice::from_raw_parts((*index).rd_opfamily, count);
        let collations = std::slice::from_raw_parts((*index).rd_indcollation, count);
        let method = (*(*index).rd_rel).relam;
        let (unique, primary, exclusion) =
            (form.indisunique, form.indisprimary, form.indisexclusion);
        let mut classes = classes(relation, &columns);
        for ((column, class), (family, collation)) in
            classes.iter_mut().zip(families.iter().zip(collations))
        {
            let usual = usize::try_from(*column - 1)
                .ok()
                .and_then(|i| attributes(relation).get(i))
                .is_some_and(|a| {
                    pg_sys::get_opclass_family(pg_sys::GetDefaultOpClass(a.atttypid, method))
                        == *family
                });
            if !usual || !deterministic(*collation) {
                *class = None;
            }
        }
        let mut depends = columns.clone();
        let mut used = std::ptr::null_mut();
        for part in [
            index_columns::expressions(oid),
            index_columns::condition(oid),
        ] {
            pg_sys::pull_varattnos(part, 1, &mut used);
        }
        let mut at = -1;
        loop {
            at = pg_sys::bms_next_member(used, at);
            if at < 0 {
                break;
            }
            depends.push((at + pg_sys::FirstLowInvalidHeapAttributeNumber) as i16);
        }
        pg_sys::index_close(index, lock);
        if exclusion {
            facts.open = Some("it has an exclusion constraint");
        }
        let ordered = method == pg_sys::BTREE_AM_OID || method == pg_sys::HASH_AM_OID;
        let expression = columns.contains(&0);
        depends.retain(|column| *column != 0);
        // A whole-row reference depends on all columns.
        if depends.iter().any(|column| *column < 0) || (expression && depends.is_empty()) {
            depends.clear();
        }
        let useful = unique || (ordered && !expression);
        useful.then_some((
            primary,
            unique,
            Key {
                columns: classes,
                unique,
                depends,
                expression,
            },
        ))
    }
}

/// CHECK constraints run functions of users.
unsafe fn checks(relation: &Relation, facts: &mut Facts) {
    // SAFETY: the constraints belong to the descriptor of the open relation.
    unsafe {
        let Some(constraints) = (*relation.descriptor()).constr.as_ref() else {
            return;
        };
        for i in 0..constraints.num_check as usize {
            let check = &*constraints.check.add(i);
            let node = pg_sys::stringToNode(check.ccbin).cast::<pg_sys::Node>();
            if crate::access::calls::calls_users(node) {
                facts.open = Some("a constraint of it calls a function");
            }
        }
        for i in 0..constraints.num_defval as usize {
            let generated = &*constraints.defval.add(i);
            let node = pg_sys::stringToNode(generated.adbin).cast::<pg_sys::Node>();
            if facts.generated.contains(&generated.adnum) && crate::access::calls::calls_users(node)
            {
                facts.open = Some("a generated column of it calls a function");
            }
        }
    }
}

/// The head of a row of `pg_constraint`.
#[repr(C)]
struct Constraint {
    oid: pg_sys::Oid,
    name: pg_sys::NameData,
    namespace: pg_sys::Oid,
    kind: u8,
    flags: [bool; major::CONSTRAINT_FLAGS],
    child: pg_sys::Oid,
    domain: pg_sys::Oid,
    index: pg_sys::Oid,
    whole: pg_sys::Oid,
    parent: pg_sys::Oid,
    on_update: u8,
    on_delete: u8,
}

/// `INDEX_MAX_KEYS`.
const COLUMNS_MAX: usize = 32;

extern "C-unwind" {
    fn DeconstructFkConstraintRow(
        tuple: pg_sys::HeapTuple,
        count: *mut i32,
        child: *mut i16,
        parent: *mut i16,
        parent_child: *mut pg_sys::Oid,
        parent_parent: *mut pg_sys::Oid,
        child_child: *mut pg_sys::Oid,
        set_count: *mut i32,
        set: *mut i16,
    );
}

fn action(code: u8) -> Action {
    match code {
        b'c' => Action::Delete,
        b'n' | b'd' => Action::Set,
        _ => Action::Check,
    }
}

/// None for one that is the part of another on a partition.
fn foreign_key(oid: pg_sys::Oid) -> Option<ForeignKey> {
    // SAFETY: the row is read before it is released; the arrays have room for as many columns as an
    // index may have.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::CONSTROID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return None;
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<Constraint>();
        let (mut count, mut child, mut parent) = (0, [0; COLUMNS_MAX], [0; COLUMNS_MAX]);
        let (child_at, parent_at) = (child.as_mut_ptr(), parent.as_mut_ptr());
        let oids = null_mut();
        DeconstructFkConstraintRow(
            tuple,
            &mut count,
            child_at,
            parent_at,
            oids,
            oids,
            oids,
            null_mut(),
            null_mut(),
        );
        let count = count as usize;
        let key = ForeignKey {
            child: form.child,
            parent: form.parent,
            columns: child[..count]
                .iter()
                .copied()
                .zip(parent[..count].iter().copied())
                .collect(),
            exact: true,
            on_delete: action(form.on_delete),
            on_update: action(form.on_update),
        };
        let part = form.whole != pg_sys::InvalidOid;
        pg_sys::ReleaseSysCache(tuple);
        if part {
            return None;
        }
        let (child, parent) = (
            Relation::open(key.child, Lock::AccessShare),
            Relation::open(key.parent, Lock::AccessShare),
        );
        let exact = key
            .columns
            .iter()
            .all(|(c, p)| class_at(&child, *c).is_some() && class_at(&parent, *p).is_some());
        Some(ForeignKey { exact, ..key })
    }
}

/// Foreign keys are kept by triggers of both sides; those of the ledger change nothing that others
/// see.
unsafe fn triggers(relation: &Relation, facts: &mut Facts) {
    // SAFETY: the triggers belong to the open relation.
    unsafe {
        let Some(all) = (*relation.raw()).trigdesc.as_ref() else {
            return;
        };
        // A look at a constraint may have PostgreSQL read the relation anew, and free these.
        let all = std::slice::from_raw_parts(all.triggers, all.numtriggers as usize).iter();
        let all = all.map(|t| (t.tgfoid, t.tgconstraint, t.tgisinternal));
        for (function, constraint, is_internal) in all.collect::<Vec<_>>() {
            let known = |keys: &[Rc<ForeignKey>], key: &ForeignKey| {
                keys.iter().any(|k| {
                    (k.child, k.parent) == (key.child, key.parent)
                        && k.columns == key.columns
                        && (k.on_delete, k.on_update) == (key.on_delete, key.on_update)
                })
            };
            match RI_FKey_trigger_type(function) as u32 {
                pg_sys::RI_TRIGGER_PK | pg_sys::RI_TRIGGER_FK => {
                    let Some(key) = foreign_key(constraint) else {
                        continue;
                    };
                    let own = relation.oid();
                    if key.child == own && !known(&facts.refers, &key) {
                        facts.refers.push(Rc::new(key));
                        let key = facts.refers[facts.refers.len() - 1].clone();
                        if key.parent == own {
                            facts.referred.push(key);
                        }
                    } else if key.parent == own && !known(&facts.referred, &key) {
                        facts.referred.push(Rc::new(key));
                    }
                }
                _ if is_internal => {}
                _ if of_the_ledger(function) => {}
                _ => facts.open = Some("it has triggers"),
            }
        }
    }
}

c_functions! {
    fn RI_FKey_trigger_type(function: pg_sys::Oid) -> i32;
}

fn of_the_ledger(function: pg_sys::Oid) -> bool {
    crate::access::calls::schema_of(function).is_some_and(|schema| schema == "chainify_ledger")
}
