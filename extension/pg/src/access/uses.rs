//! Turns uses of relations into accesses: `spec/scheduling.md`, "What a statement contributes".
use std::collections::{BTreeSet, HashMap};

use chainify_sched::template::{Access, KeyLimits, Limit, Operand, Template, Touched};
use chainify_sched::value::Value;
use chainify_sched::{KeyId, Target};
use pgrx::pg_sys;

use crate::access::columns::{Columns, Known};
use crate::access::relation::{counted_as, facts, Action, Facts, ForeignKey, Key};

/// Columns assigned, with what is known of their values.
pub(super) type New = HashMap<i16, Option<Known>>;

/// Rows of a relation that a level reads.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub relation: pg_sys::Oid,
    pub level: usize,
    pub number: u32,
}

/// The accesses that a row lock keeps others from.
pub(super) enum Lock {
    /// Changing and locking.
    Rows,
    /// Referring to it too.
    Keys,
}

/// How a statement uses a relation.
pub(super) enum Use {
    Read(Rows),
    Lock(Rows, Lock),
    Insert(pg_sys::Oid, New),
    Update(Rows, New),
    /// ON CONFLICT DO UPDATE: the rows that have these values, and what is assigned.
    UpdateFound(pg_sys::Oid, New, New),
    /// ON CONFLICT, as a read: the rows that have these values.
    Found(pg_sys::Oid, New),
    Delete(Rows),
    Sequence(pg_sys::Oid),
}

/// Foreign keys followed from one change.
const STEPS_MAX: usize = 8;

/// The known facts about rows: limits that all hold, by column.
type Limits = HashMap<i16, Vec<Limit>>;

/// Turns uses into accesses.
pub(super) fn resolve(uses: Vec<Use>, columns: &Columns, template: &mut Template) {
    let mut resolver = Resolver { columns, template };
    for one in uses {
        resolver.resolve(one);
    }
}

struct Resolver<'a> {
    columns: &'a Columns,
    template: &'a mut Template,
}

impl Resolver<'_> {
    fn resolve(&mut self, one: Use) {
        match one {
            Use::Read(rows) => {
                let (facts, limits) = self.rows(rows);
                let touched = self.columns.looked_at((rows.level, rows.number));
                self.access(rows.relation, &facts, None, &limits, false, touched);
            }
            Use::Lock(rows, lock) => {
                let (facts, limits) = self.rows(rows);
                let nothing = Touched::Only(BTreeSet::new());
                self.access(rows.relation, &facts, None, &limits, true, nothing);
                if let Lock::Keys = lock {
                    self.unique(rows.relation, &facts, |_| Some(&limits));
                }
            }
            Use::Insert(relation, new) => self.insert(relation, &new),
            Use::Update(rows, new) => {
                let (facts, limits) = self.rows(rows);
                let new = self.stored(&new);
                self.update(rows.relation, &facts, &limits, &new, 0);
            }
            Use::UpdateFound(relation, found, new) => {
                let (found, new) = (looked_up(self.stored(&found)), self.stored(&new));
                self.update(relation, &facts(relation), &found, &new, 0);
            }
            Use::Found(relation, found) => {
                let found = looked_up(self.stored(&found));
                let facts = facts(relation);
                self.access(relation, &facts, None, &found, false, Touched::All);
            }
            Use::Delete(rows) => {
                let (facts, limits) = self.rows(rows);
                self.delete(rows.relation, &facts, &limits, 0);
            }
            Use::Sequence(oid) => self.template.add(Access {
                target: Target::Rows(oid.to_u32()),
                write: true,
                touched: Touched::All,
                limits: Vec::new(),
            }),
        }
    }

    fn rows(&self, rows: Rows) -> (std::rc::Rc<Facts>, Limits) {
        let facts = facts(rows.relation);
        let columns = facts.keys.iter().flat_map(|key| &key.columns);
        let limits = columns.map(|(column, _)| {
            (
                *column,
                self.columns.limits((rows.level, rows.number), *column),
            )
        });
        let limits = limits.collect();
        (facts, limits)
    }

    fn stored(&self, new: &New) -> Limits {
        let limits = |known: &Option<Known>| {
            known
                .as_ref()
                .map_or(Vec::new(), |k| self.columns.stored(k))
        };
        new.iter()
            .map(|(column, known)| (*column, limits(known)))
            .collect()
    }

    /// Adds an access to the rows within the limits, or to the values of a key that they have.
    fn access(
        &mut self,
        relation: pg_sys::Oid,
        facts: &Facts,
        key: Option<KeyId>,
        limits: &Limits,
        write: bool,
        touched: Touched,
    ) {
        if facts.inherited {
            let name = crate::base::catalog::display_name(relation);
            self.template.widen(format!("\"{name}\" has child tables"));
        }
        let counted = counted_as(relation).to_u32();
        let bounded = (0..)
            .zip(&facts.keys)
            .filter(|(id, k)| !facts.whole && k.bounds() && key.is_none_or(|only| only == *id))
            .filter_map(|(id, k)| key_limits(id, k, limits));
        self.template.add(Access {
            target: match key {
                None => Target::Rows(counted),
                Some(key) => Target::Keys(counted, key),
            },
            write,
            // Columns of a partition are numbered otherwise than its root's.
            touched: if facts.whole { Touched::All } else { touched },
            limits: bounded.collect(),
        });
        if write {
            if let Some(why) = facts.open {
                let name = crate::base::catalog::display_name(relation);
                self.template.widen(format!("it writes \"{name}\": {why}"));
            }
        }
    }

    /// Writes values of unique keys: those within the limits that `changed` gives for a key.
    fn unique<'l>(
        &mut self,
        relation: pg_sys::Oid,
        facts: &Facts,
        changed: impl Fn(&Key) -> Option<&'l Limits>,
    ) {
        for (id, key) in facts.unique() {
            if let Some(limits) = changed(key) {
                self.access(relation, facts, Some(id), limits, true, Touched::All);
            }
        }
    }

    fn insert(&mut self, relation: pg_sys::Oid, new: &New) {
        let facts = facts(relation);
        let mut row = self.stored(new);
        // A value that is not given is NULL: defaults have been filled in.
        for (column, _) in facts.keys.iter().flat_map(|key| &key.columns) {
            let null = || vec![Limit::Is(vec![Operand::Constant(Value::Null)])];
            row.entry(*column).or_insert_with(null);
        }
        for column in &facts.generated {
            row.remove(column);
        }
        self.access(relation, &facts, None, &row, true, Touched::All);
        self.unique(relation, &facts, |_| Some(&row));
        for key in &facts.refers {
            self.refer(key, &row);
        }
    }

    /// A child looks up its parent.
    fn refer(&mut self, key: &ForeignKey, row: &Limits) {
        let parent = facts(key.parent);
        let wanted = looked_up(across(key.exact, row, key.columns.iter().copied()));
        let same = |k: &Key| {
            k.columns.len() == key.columns.len()
                && k.columns
                    .iter()
                    .all(|(c, _)| key.columns.iter().any(|(_, p)| p == c))
        };
        let id = parent.unique().find(|(_, k)| same(k)).map(|(id, _)| id);
        self.access(key.parent, &parent, id, &wanted, false, Touched::All);
    }

    fn update(
        &mut self,
        relation: pg_sys::Oid,
        facts: &Facts,
        rows: &Limits,
        new: &Limits,
        steps: usize,
    ) {
        let changed = |column: i16| new.contains_key(&column) || facts.generated.contains(&column);
        let nowhere = Limits::new();
        let mut kept = rows.clone();
        kept.retain(|column, _| !changed(*column));
        let columns = new.keys().chain(&facts.generated).copied();
        let changes = Touched::Only(columns.collect());
        self.access(relation, facts, None, rows, false, Touched::All);
        self.access(relation, facts, None, &kept, true, changes);
        self.unique(relation, facts, |key| {
            key.changes_with(changed).then_some(&nowhere)
        });
        for key in &facts.refers {
            if key.columns.iter().any(|(child, _)| changed(*child)) {
                let mut row = kept.clone();
                row.extend(new.iter().map(|(column, limits)| (*column, limits.clone())));
                facts
                    .generated
                    .iter()
                    .for_each(|column| drop(row.remove(column)));
                self.refer(key, &row);
            }
        }
        for key in &facts.referred {
            if key.columns.iter().any(|(_, parent)| changed(*parent)) {
                self.referred(key, rows, key.on_update, true, steps);
            }
        }
    }

    fn delete(&mut self, relation: pg_sys::Oid, facts: &Facts, rows: &Limits, steps: usize) {
        self.access(relation, facts, None, rows, true, Touched::All);
        self.unique(relation, facts, |_| Some(rows));
        for key in &facts.referred {
            self.referred(key, rows, key.on_delete, false, steps);
        }
    }

    /// Rows of the parent go, or their keys change.
    fn referred(
        &mut self,
        key: &ForeignKey,
        rows: &Limits,
        action: Action,
        update: bool,
        steps: usize,
    ) {
        if steps == STEPS_MAX {
            return self.template.widen("foreign keys lead too far");
        }
        let child = facts(key.child);
        let turned = key.columns.iter().map(|(child, parent)| (*parent, *child));
        let theirs = looked_up(across(key.exact, rows, turned));
        match action {
            Action::Check => self.access(key.child, &child, None, &theirs, false, Touched::All),
            Action::Delete if !update => self.delete(key.child, &child, &theirs, steps + 1),
            _ => {
                let new = key
                    .columns
                    .iter()
                    .map(|(child, _)| (*child, Vec::new()))
                    .collect();
                self.update(key.child, &child, &theirs, &new, steps + 1);
            }
        }
    }
}

/// The limits of columns of one side of a foreign key as limits of those of the other.
fn across(exact: bool, limits: &Limits, columns: impl Iterator<Item = (i16, i16)>) -> Limits {
    let across = columns.filter_map(|(from, to)| Some((to, limits.get(&from)?.clone())));
    across.filter(|_| exact).collect()
}

/// Limits of values that are looked up, which NULL never finds.
fn looked_up(mut limits: Limits) -> Limits {
    for limit in limits.values_mut().flatten() {
        match limit {
            Limit::Is(operands) => *limit = Limit::Equal(std::mem::take(operands)),
            Limit::Element(_, or_null) => *or_null = false,
            _ => {}
        }
    }
    limits
}

/// The range of a key that limits give; `None`: nothing.
fn key_limits(id: KeyId, key: &Key, limits: &Limits) -> Option<KeyLimits> {
    let mut columns = Vec::new();
    for (column, class) in &key.columns {
        match (class, limits.get(column)) {
            (Some(class), Some(limits)) if !limits.is_empty() => {
                columns.push((*class, limits.clone()))
            }
            _ => break,
        }
    }
    let complete = columns.len() == key.columns.len();
    (!columns.is_empty()).then_some(KeyLimits {
        key: id,
        columns,
        complete,
    })
}
