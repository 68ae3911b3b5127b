//! The limits that conditions put on columns, and the columns that they make equal.
use std::collections::{BTreeSet, HashMap, HashSet};

use chainify_sched::template::{Fit, Limit, Operand, Touched};
use chainify_sched::value::Class;
use pgrx::pg_sys;

use crate::access::value::class_of;

/// An entry of the range table of a level.
pub(super) type Entry = (usize, u32);

/// A column of an entry, numbered.
pub(super) type Node = usize;

/// The known facts about an expression's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    Operand(Operand),
    /// It is that of a column, if it fits.
    Column(Node, Option<Fit>),
    /// It is an element of an array, or NULL.
    Element(Operand),
}

impl Known {
    /// The same after a cast to a type of bounded length.
    pub(crate) fn fitted(self, fit: Option<Fit>) -> Option<Known> {
        match (self, fit) {
            (known, None) => Some(known),
            (Known::Operand(operand), Some(fit)) => {
                Some(Known::Operand(Operand::Fitted(Box::new(operand), fit)))
            }
            (Known::Column(node, None), fit) => Some(Known::Column(node, fit)),
            (Known::Column(_, Some(_)) | Known::Element(_), Some(_)) => None,
        }
    }
}

#[derive(Default)]
struct Facts {
    limits: Vec<Limit>,
    /// Wherever this column's row counts and is not null, it is equal to these.
    equal_to: Vec<Node>,
}

/// Columns in order of appearance, and facts about them.
///
/// A fact about a column holds for the rows that have a part in the result, unless the column is
/// NULL in a row that an outer join made up. Rows for which it does not hold can be changed without
/// changing the result.
#[derive(Default)]
pub(super) struct Columns {
    numbers: HashMap<(Entry, i16), Node>,
    names: Vec<(Entry, i16)>,
    classes: Vec<Option<Class>>,
    facts: Vec<Facts>,
    /// Entries whose columns an outer join may make NULL.
    nullable: HashSet<Entry>,
    /// The columns of each entry that some expression looks at; 0 stands for all.
    looked_at: HashMap<Entry, BTreeSet<i16>>,
    /// Entries that stand for columns of others of their level.
    joins: HashSet<Entry>,
}

/// Columns that facts are passed on through.
const STEPS_MAX: usize = 256;

impl Columns {
    pub fn node(&mut self, entry: Entry, column: i16, oid: pg_sys::Oid) -> Node {
        *self.numbers.entry((entry, column)).or_insert_with(|| {
            self.names.push((entry, column));
            self.classes.push(class_of(oid));
            self.facts.push(Facts::default());
            self.facts.len() - 1
        })
    }

    /// The column of an entry, from 0 and below `count`, that a node is.
    pub fn of(&self, entry: Entry, count: usize, node: Node) -> Option<usize> {
        let (of, column) = self.names.get(node)?;
        let at = usize::try_from(*column).ok()?.checked_sub(1)?;
        (*of == entry && at < count).then_some(at)
    }

    pub fn limit(&mut self, node: Node, limit: Limit) {
        self.facts[node].limits.push(limit);
    }

    /// Notes that `node` is equal to `other`; not the other way round. Of columns of different
    /// classes nothing is noted: what is equal to one of them may have other bytes than what is
    /// equal to the other.
    pub fn equal(&mut self, node: Node, other: Node) {
        let class = self.classes[node];
        if class.is_some()
            && class == self.classes[other]
            && !self.facts[node].equal_to.contains(&other)
        {
            self.facts[node].equal_to.push(other);
        }
    }

    pub(crate) fn set_nullable(&mut self, entry: Entry) {
        self.nullable.insert(entry);
    }

    pub(crate) fn is_nullable(&self, entry: Entry) -> bool {
        self.nullable.contains(&entry)
    }

    /// Notes that an expression looks at a column; a row as a whole, and what every row has besides
    /// its columns, are all of them.
    pub fn look(&mut self, entry: Entry, column: i16) {
        let columns = self.looked_at.entry(entry).or_default();
        columns.insert(column.max(0));
    }

    pub fn join(&mut self, entry: Entry) {
        self.joins.insert(entry);
    }

    /// The columns of an entry that are looked at; to be asked when all expressions have been read.
    pub(crate) fn looked_at(&self, entry: Entry) -> Touched {
        let through_join = |join: &Entry| join.0 == entry.0 && self.looked_at.contains_key(join);
        let columns = self.looked_at.get(&entry).cloned().unwrap_or_default();
        match columns.contains(&0) || self.joins.iter().any(through_join) {
            true => Touched::All,
            false => Touched::Only(columns),
        }
    }

    /// All limits of a column of rows that are looked for.
    pub(crate) fn limits(&self, entry: Entry, column: i16) -> Vec<Limit> {
        match self.numbers.get(&(entry, column)) {
            Some(node) => self.collect(*node, |_| true),
            None => Vec::new(),
        }
    }

    /// All limits of a value that is stored: nothing is known of one that may be NULL instead.
    pub fn stored(&self, known: &Known) -> Vec<Limit> {
        match known {
            Known::Operand(operand) => vec![Limit::Is(vec![operand.clone()])],
            Known::Element(array) => vec![Limit::Element(array.clone(), true)],
            Known::Column(node, None) => {
                self.collect(*node, |node| !self.nullable.contains(&self.names[node].0))
            }
            Known::Column(node, Some(fit)) => {
                let limits = self.stored(&Known::Column(*node, None));
                limits
                    .into_iter()
                    .filter_map(|limit| fitted(limit, *fit))
                    .collect()
            }
        }
    }

    fn collect(&self, node: Node, take: impl Fn(Node) -> bool) -> Vec<Limit> {
        let (mut seen, mut at) = (vec![node], 0);
        let mut limits: Vec<Limit> = Vec::new();
        while at < seen.len() && at < STEPS_MAX {
            let node = seen[at];
            at += 1;
            if !take(node) {
                continue;
            }
            for limit in &self.facts[node].limits {
                if !limits.contains(limit) {
                    limits.push(limit.clone());
                }
            }
            for other in &self.facts[node].equal_to {
                if !seen.contains(other) {
                    seen.push(*other);
                }
            }
        }
        limits
    }
}

/// The limit of the value after a cast; a range says nothing.
fn fitted(limit: Limit, fit: Fit) -> Option<Limit> {
    let fitted = |operand| Operand::Fitted(Box::new(operand), fit);
    Some(match limit {
        Limit::Equal(operands) => Limit::Equal(operands.into_iter().map(fitted).collect()),
        Limit::Is(operands) => Limit::Is(operands.into_iter().map(fitted).collect()),
        _ => return None,
    })
}
