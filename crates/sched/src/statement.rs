//! The contribution of statements to an access set: `spec/scheduling.md`, "What a statement
//! contributes".
//!
//! The existing values of a key are a target of their own, for each key that a unique index or a
//! foreign key looks up. Two inserts of one value meet there, and so do a child's insert and its
//! parent's delete. An update of other columns of the parent does not concern the child.

use crate::{AccessSet, Interval, KeyId, Place, RelationId, Target};

impl AccessSet {
    /// Rows read by a query, or by the conditions of any statement.
    pub fn select(&mut self, relation: RelationId, rows: Place) {
        self.read(Target::Rows(relation), rows);
    }

    /// A row inserted. `row`: bounded by the row's value in as many keys as are known. `unique`:
    /// every unique key of the relation; its values are written where `row` is bounded in it,
    /// otherwise all of them.
    pub fn insert(&mut self, relation: RelationId, row: Place, unique: &[KeyId]) {
        self.write_values(relation, &row, unique);
        self.write(Target::Rows(relation), row);
    }

    /// Rows deleted. `rows` and `unique` as for [`AccessSet::insert`].
    pub fn delete(&mut self, relation: RelationId, rows: Place, unique: &[KeyId]) {
        self.write_values(relation, &rows, unique);
        self.write(Target::Rows(relation), rows);
    }

    /// Rows changed. `rows`: where they are before and after, so *not* bounded in a column that
    /// changes. `unique`: the unique keys that change. Which of their values go is not known
    /// before, so all of them are written.
    pub fn update(&mut self, relation: RelationId, rows: Place, unique: &[KeyId]) {
        self.write_values(relation, &Place::whole(), unique);
        self.write(Target::Rows(relation), rows);
    }

    /// Values of a unique key looked up without reading the rows: a foreign key finding its parent.
    pub fn look_up(&mut self, relation: RelationId, key: KeyId, values: Interval) {
        self.read(Target::Keys(relation, key), bounded(key, Some(&values)));
    }

    fn write_values(&mut self, relation: RelationId, rows: &Place, keys: &[KeyId]) {
        for key in keys {
            let values = rows.bounds().iter().find(|(of, _)| of == key).map(|(_, interval)| interval);
            self.write(Target::Keys(relation, *key), bounded(*key, values));
        }
    }
}

/// The place of a `Keys` target with the given values.
fn bounded(key: KeyId, values: Option<&Interval>) -> Place {
    let bound = values.map(|values| (key, values.clone()));
    Place::within(bound).expect("a single bound excludes nothing")
}
