//! How transcripts write access sets.
//!
//! `reads=` and `writes=` are `-` or places with commas; `everything` alone is everything. A place
//! is `[target/]bounds`. The target is a relation (`r` when there is none) or `relation!key` for
//! the values of a key. Bounds are joined by `&`, each `[key:]interval`, of key 0 when none is
//! named. Intervals: `a` a point, `a..c` from a up to but not c, `a..`, `..c`, `a^` a prefix, `*`
//! all.

use std::cell::RefCell;
use std::ops::Bound;

use chainify_sched::{AccessSet, Interval, KeyId, Place, RelationId, Target};

/// Relations, numbered as they appear.
#[derive(Default)]
pub struct Notation {
    relations: RefCell<Vec<String>>,
}

impl Notation {
    pub fn relation_name(&self, relation: RelationId) -> String {
        self.relations.borrow()[relation as usize].clone()
    }

    /// `t0 reads=… writes=…`
    pub fn transaction(&self, line: &str) -> AccessSet {
        let mut words = line.split_whitespace().skip(1);
        let Some(first) = words.next() else { return AccessSet::new() };
        if first == "everything" {
            return AccessSet::everything();
        }
        let mut set = AccessSet::new();
        for word in std::iter::once(first).chain(words) {
            let (kind, places) = word.split_once('=').unwrap_or_else(|| panic!("want reads= or writes= in: {line}"));
            for place in places.split(',').filter(|place| *place != "-") {
                let (target, place) = self.place(place);
                match kind {
                    "reads" => set.read(target, place),
                    "writes" => set.write(target, place),
                    other => panic!("no access {other}"),
                }
            }
        }
        set
    }

    fn place(&self, text: &str) -> (Target, Place) {
        let (target, bounds) = text.split_once('/').unwrap_or(("r", text));
        let target = match target.split_once('!') {
            Some((relation, key)) => Target::Keys(self.relation(relation), key.parse().unwrap()),
            None => Target::Rows(self.relation(target)),
        };
        let place = Place::within(bounds.split('&').map(bound));
        (target, place.unwrap_or_else(|| panic!("empty place: {text}")))
    }

    fn relation(&self, name: &str) -> RelationId {
        let mut relations = self.relations.borrow_mut();
        let known = relations.iter().position(|relation| relation == name);
        let index = known.unwrap_or_else(|| {
            relations.push(name.to_string());
            relations.len() - 1
        });
        index as RelationId
    }
}

fn bound(text: &str) -> (KeyId, Interval) {
    let (key, interval) = text.split_once(':').unwrap_or(("0", text));
    (key.parse().unwrap(), interval_of(interval))
}

fn interval_of(text: &str) -> Interval {
    if text == "*" {
        return Interval::all();
    }
    if let Some(prefix) = text.strip_suffix('^') {
        return Interval::prefix(prefix.as_bytes());
    }
    let Some((lower, upper)) = text.split_once("..") else { return Interval::point(text) };
    let lower = if lower.is_empty() { Bound::Unbounded } else { Bound::Included(lower.as_bytes()) };
    let upper = if upper.is_empty() { Bound::Unbounded } else { Bound::Excluded(upper.as_bytes()) };
    Interval::range(lower, upper).unwrap_or_else(|| panic!("empty interval: {text}"))
}
