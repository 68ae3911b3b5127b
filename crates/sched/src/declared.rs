//! The places of a relation that one execution accesses, as its function declares them:
//! `spec/scheduling.md`, "Declared access".
//!
//! A declaration may be wrong, so each access is compared with it when the function runs.

use crate::template::{Template, Touched};
use crate::value::Value;
use crate::{AccessSet, Interval, KeyId, Place, RelationId, Target};

/// The known facts about the values of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// Which key.
    pub key: KeyId,
    /// The encodings of its first columns.
    pub bytes: Vec<u8>,
    /// These are all columns of the key.
    pub complete: bool,
}

impl KeyValue {
    fn interval(&self) -> Interval {
        match self.complete {
            true => Interval::point(&self.bytes),
            false => Interval::prefix(&self.bytes),
        }
    }
}

/// All rows of a relation that one execution may access, and whose values of its keys it may look
/// up or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The relation that the declaration is about.
    pub relation: RelationId,
    /// The focus of its rows in this block.
    pub focus: Option<KeyId>,
    /// The changes that the statements of this block make in its rows.
    pub changed: Touched,
    /// The rows, each with what is known of its keys.
    pub rows: Vec<Vec<KeyValue>>,
}

impl Declared {
    /// The places of a target of the relation; one for each row.
    fn places(&self, target: Target) -> impl Iterator<Item = Place> + '_ {
        let only = match target {
            Target::Rows(_) => self.focus,
            Target::Keys(_, key) => Some(key),
        };
        self.rows.iter().map(move |row| {
            let bounds = row.iter().filter(|value| only.is_none_or(|only| only == value.key));
            let place = Place::within(bounds.map(|value| (value.key, value.interval())));
            place.expect("a row has one value in each key")
        })
    }
}

impl Template {
    /// The access set as [`Template::fill`] gives it, but for the relations declared, whose places
    /// are those declared; where these say nothing of the focus, they stay what the text says.
    pub fn fill_declared(&self, values: &[Value], declared: &[Declared]) -> AccessSet {
        let of = |target: Target| declared.iter().find(|d| d.relation == target.relation());
        let mut set = self.map(|access| of(access.target).is_none().then(|| access.clone())).fill(values);
        for access in self.accesses() {
            let Some(declared) = of(access.target) else { continue };
            let mut places: Vec<Place> = declared.places(access.target).collect();
            if places.iter().any(Place::is_whole) {
                places = access.places(values);
            }
            for place in places {
                match access.write {
                    true => set.write(access.target, place),
                    false => set.read(access.target, place),
                }
            }
        }
        set
    }

    /// A relation of which this statement accesses more than what is declared; `None`: it keeps to
    /// it. Reads of what nothing in the block changes are not asked about.
    pub fn outside(&self, values: &[Value], declared: &[Declared]) -> Option<RelationId> {
        if self.everything().is_some() {
            return declared.first().map(|d| d.relation);
        }
        let strays = |d: &&Declared| {
            let mut accesses = self.accesses().iter().filter(|access| access.target.relation() == d.relation);
            accesses.any(|access| {
                let rows = matches!(access.target, Target::Rows(_));
                if rows && !access.write && d.changed.apart(&access.touched) {
                    return false;
                }
                let within = |place: &Place| d.places(access.target).any(|allowed| allowed.covers(place));
                !access.places(values).iter().all(within)
            })
        };
        declared.iter().find(strays).map(|d| d.relation)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::template::{Access, KeyLimits, Limit, Operand};
    use crate::value::{encode, Class};

    fn bytes(values: &[i64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| assert!(encode(Class::Integer, &Value::Integer(*value), &mut bytes)));
        bytes
    }

    /// Rows whose values of key 0 of two columns begin with these.
    fn declared(rows: &[Vec<i64>], focus: Option<KeyId>) -> Declared {
        let row = |values: &Vec<i64>| vec![KeyValue { key: 0, bytes: bytes(values), complete: values.len() == 2 }];
        let changed = Touched::Only([5].into());
        Declared { relation: 1, focus, changed, rows: rows.iter().map(row).collect() }
    }

    /// An access to the rows of relation 1 with these values of key 0.
    fn access(write: bool, touched: Touched, values: &[i64]) -> Template {
        let columns = values.iter().map(|value| {
            let value = Operand::Constant(Value::Integer(*value));
            (Class::Integer, vec![Limit::Equal(vec![value])])
        });
        let limits = KeyLimits { key: 0, columns: columns.collect(), complete: values.len() == 2 };
        let mut template = Template::default();
        template.add(Access { target: Target::Rows(1), write, touched, limits: vec![limits] });
        template
    }

    #[test]
    fn a_statement_keeps_to_what_is_declared() {
        let declared = [declared(&[vec![1, 1], vec![2]], None)];
        let outside = |write, column, values: &[i64]| {
            access(write, Touched::Only([column].into()), values).outside(&[], &declared).is_some()
        };
        assert!(!outside(true, 5, &[1, 1]) && !outside(true, 5, &[2, 7]) && !outside(true, 5, &[2]));
        assert!(outside(true, 5, &[1, 2]) && outside(true, 5, &[1]) && outside(true, 5, &[3, 1]));
        assert!(outside(false, 5, &[1, 2]), "a read of what changes");
        assert!(!outside(false, 4, &[1, 2]), "a read of what stays");
        assert!(outside(true, 4, &[1, 2]), "a write, whatever it changes");
        let mut anything = Template::default();
        anything.widen("it may do anything");
        assert_eq!(anything.outside(&[], &declared), Some(1));
        assert_eq!(anything.outside(&[], &[]), None);
    }

    #[test]
    fn where_nothing_is_declared_of_the_focus_the_text_counts() {
        let body = access(true, Touched::All, &[2]);
        let filled = |focus| body.fill_declared(&[], &[declared(&[vec![1, 1]], Some(focus))]);
        assert_eq!(filled(0), access(true, Touched::All, &[1, 1]).fill(&[]));
        assert_eq!(filled(7), body.fill(&[]));
    }

    #[test]
    fn values_of_another_key_are_not_declared() {
        let declared = [declared(&[vec![1, 1]], None)];
        let mut template = Template::default();
        let touched = Touched::All;
        template.add(Access { target: Target::Keys(1, 7), write: false, touched, limits: Vec::new() });
        assert_eq!(template.outside(&[], &declared), None, "nothing is said of key 7, so all of it is declared");
        assert_eq!(template.fill_declared(&[], &declared), template.fill(&[]));
    }

    proptest! {
        #![proptest_config(chainify_seeded::config(256))]

        /// P2: what is let through meets nothing that the declared set is apart from.
        #[test]
        fn what_is_let_through_is_in_the_declared_set(
            rows in vec(vec(0i64..3, 0..3), 0..4), focus in proptest::option::of(0u16..2), ran in vec(0i64..3, 0..3),
            other in vec(0i64..3, 0..3), write: bool, other_write: bool
        ) {
            let declared = [declared(&rows, focus)];
            let statement = access(write, Touched::All, &ran);
            prop_assume!(statement.outside(&[], &declared).is_none());
            // The body of a function is not known to be bounded.
            let mut body = Template::default();
            body.add(Access { target: Target::Rows(1), write, touched: Touched::All, limits: Vec::new() });
            let (foreseen, ran) = (body.fill_declared(&[], &declared), statement.fill(&[]));
            let other = access(other_write, Touched::All, &other).fill(&[]);
            if foreseen.dependencies_on(&other).1.is_empty() {
                prop_assert!(ran.dependencies_on(&other).1.is_empty(), "{foreseen:?} {ran:?} {other:?}");
            }
        }
    }
}
