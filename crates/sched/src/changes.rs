//! The columns that no statement of a block changes.

use std::collections::BTreeMap;

use crate::template::{Template, Touched};
use crate::{RelationId, Target};

/// The changes that the statements of a block make in the rows of each relation.
///
/// Invariant S8: a read is left out only if no statement of the block changes what it looks at. No
/// statement inserts into its relation or deletes from it, and none changes a column that the read
/// looks at. An access to everything depends on all others anyway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(BTreeMap<RelationId, Touched>);

impl Changes {
    /// The changes of these statements.
    pub fn of<'t>(templates: impl IntoIterator<Item = &'t Template>) -> Self {
        let mut changes = Self::default();
        for access in templates.into_iter().flat_map(Template::accesses).filter(|access| access.write) {
            if let Target::Rows(relation) = access.target {
                let changed = changes.0.entry(relation).or_insert_with(|| Touched::Only(Default::default()));
                changed.add(&access.touched);
            }
        }
        changes
    }

    /// The changes in the rows of a relation; `None`: nothing.
    pub fn in_relation(&self, relation: RelationId) -> Option<&Touched> {
        self.0.get(&relation)
    }

    /// The template without reads of what does not change.
    pub fn apply(&self, template: &Template) -> Template {
        template.map(|access| {
            let Target::Rows(relation) = access.target else { return Some(access.clone()) };
            let changes = self.0.get(&relation).is_some_and(|changed| !changed.apart(&access.touched));
            (access.write || changes).then(|| access.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Access;

    fn only(columns: &[i16]) -> Touched {
        Touched::Only(columns.iter().copied().collect())
    }

    fn access(relation: RelationId, write: bool, touched: Touched) -> Template {
        let mut template = Template::default();
        template.add(Access { target: Target::Rows(relation), write, touched, limits: Vec::new() });
        template
    }

    /// Whether a read of these columns of relation 1 counts beside the other statements.
    fn counts(read: &Template, others: &[Template]) -> bool {
        !Changes::of(others.iter().chain([read])).apply(read).accesses().is_empty()
    }

    /// S8.
    #[test]
    fn only_a_read_of_what_stays_is_left_out() {
        let read = access(1, false, only(&[2, 3]));
        assert!(!counts(&read, &[]));
        assert!(!counts(&read, &[access(1, true, only(&[4])), access(2, true, Touched::All)]));
        assert!(counts(&read, &[access(1, true, only(&[4])), access(1, true, only(&[3]))]));
        assert!(counts(&read, &[access(1, true, Touched::All)]), "rows may come and go");
        assert!(counts(&access(1, false, Touched::All), &[access(1, true, only(&[4]))]), "whatever it looks at");
        let write = access(1, true, only(&[4]));
        assert!(counts(&write, &[]), "a write always counts");
    }

    /// Reading and writing one place is writing it, and changes what the write does.
    #[test]
    fn one_place_has_the_columns_of_its_writes() {
        let mut template = access(1, false, only(&[2]));
        for (write, column) in [(true, 4), (false, 3), (true, 5)] {
            let one = access(1, write, only(&[column]));
            template.add(one.accesses()[0].clone());
        }
        assert_eq!(template.accesses().len(), 1);
        assert_eq!(Changes::of([&template]).in_relation(1), Some(&only(&[4, 5])));
    }
}
