//! The access set of a statement before its values are known, and with them.
//!
//! An analysis of a statement builds a [`Template`] once; [`Template::fill`] then gives the
//! access set of each execution.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::value::{encode, Class, Value, VALUES};
use crate::{AccessSet, Interval, KeyId, Place, Target, PLACES_MAX};

/// The most accesses of a template; a statement with more may access everything.
pub const ACCESSES_MAX: usize = 1_024;
/// The most places that one access stands for. A key with more alternatives bounds nothing, or only
/// the range of its values.
pub const ALTERNATIVES_MAX: usize = PLACES_MAX;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Written in the statement.
    Constant(Value),
    /// The value with this number that the statement is run with.
    Given(usize),
    /// The result of a cast to a type of bounded length; a value that it would change is
    /// not known.
    Fitted(Box<Operand>, Fit),
    /// The element of an array with this number, from 1.
    At(Box<Operand>, Box<Operand>),
}

/// A bounded length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Characters of a text.
    Characters(usize),
    /// Digits of a decimal after the point.
    Scale(usize),
}

/// The known facts about a column's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Equal to one of these, by SQL's equality: NULL is equal to nothing.
    Equal(Vec<Operand>),
    /// Equal to an element of this array, by SQL's equality; if so said, it may be NULL as well.
    Element(Operand, bool),
    /// It is one of these, NULL included.
    Is(Vec<Operand>),
    /// At least, or more than.
    Lower(Operand, bool),
    /// At most, or less than.
    Upper(Operand, bool),
}

/// The known values of a key's columns, in order, up to the first column without a known value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Which key.
    pub key: KeyId,
    /// Its columns: the class, and limits that all hold.
    pub columns: Vec<(Class, Vec<Limit>)>,
    /// These are all columns of the key.
    pub complete: bool,
}

/// Which columns of its rows an access is about: those that a read looks at, those that a write
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// All; and whether there are such rows.
    All,
    /// These, by number; rows neither come nor go.
    Only(BTreeSet<i16>),
}

impl Touched {
    /// Adds those of `other`.
    pub fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Only(columns), Self::Only(more)) => columns.extend(more),
            _ => *self = Self::All,
        }
    }

    /// Whether the two sets have no column in common, and no rows come or go.
    pub fn apart(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) => a.is_disjoint(b),
            _ => false,
        }
    }
}

/// One access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The accessed target.
    pub target: Target,
    /// Whether it writes.
    pub write: bool,
    /// The touched columns; in a target `Keys`, all.
    pub touched: Touched,
    /// Conditions on the accessed rows, all of which hold. In a target `Keys`, only those of its
    /// key.
    pub limits: Vec<KeyLimits>,
}

/// The access of a statement, as a function of the values it is run with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    accesses: Vec<Access>,
    /// Why it is everything.
    everything: Option<String>,
}

impl Template {
    /// Adds an access. The same one twice counts once, and a write as a read of all columns too.
    pub fn add(&mut self, access: Access) {
        if self.everything.is_some() {
            return;
        }
        let same = |known: &&mut Access| known.target == access.target && known.limits == access.limits;
        if let Some(known) = self.accesses.iter_mut().find(same) {
            match (known.write, access.write) {
                (true, false) => {}
                (false, true) => *known = access,
                _ => known.touched.add(&access.touched),
            }
            return;
        }
        if self.accesses.len() == ACCESSES_MAX {
            return self.widen("it has too many accesses");
        }
        self.accesses.push(access);
    }

    /// Makes it everything; the first reason stays.
    pub fn widen(&mut self, reason: impl Into<String>) {
        self.accesses.clear();
        self.everything.get_or_insert_with(|| reason.into());
    }

    /// Why it is everything; `None` when it is not.
    pub fn everything(&self) -> Option<&str> {
        self.everything.as_deref()
    }

    /// The accesses, in the order added.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// The template with each access as `change` returns it; `None` drops the access.
    pub(crate) fn map(&self, change: impl Fn(&Access) -> Option<Access>) -> Self {
        let mut mapped = Self { accesses: Vec::new(), everything: self.everything.clone() };
        self.accesses.iter().filter_map(change).for_each(|access| mapped.add(access));
        mapped
    }

    /// Which of the first `count` values it depends on.
    pub fn needs(&self, count: usize) -> Vec<bool> {
        let mut needed = vec![false; count];
        let columns = self.accesses.iter().flat_map(|access| &access.limits).flat_map(|limits| &limits.columns);
        for operand in columns.flat_map(|(_, limits)| limits).flat_map(Limit::operands) {
            operand.mark(&mut needed);
        }
        needed
    }

    /// The access set with these values. A value that is missing or of another class than its
    /// column bounds nothing.
    ///
    /// Cost: linear in the accesses and the bytes of their values; some 50 ns for one row written.
    pub fn fill(&self, values: &[Value]) -> AccessSet {
        let mut set = AccessSet::new();
        self.fill_into(values, &mut set);
        set
    }

    /// Adds the access with these values to that of other statements; see [`Self::fill`].
    pub fn fill_into(&self, values: &[Value], set: &mut AccessSet) {
        if self.everything.is_some() {
            *set = AccessSet::everything();
            return;
        }
        let mut bytes = Vec::with_capacity(32);
        for access in &self.accesses {
            let mut add = |place| match access.write {
                true => set.write(access.target, place),
                false => set.read(access.target, place),
            };
            // Most accesses are to one value of one key.
            if let [limits] = &access.limits[..] {
                match limits.point(values, &mut bytes) {
                    Some(Point::Nowhere) => {}
                    Some(Point::At(interval)) => add(Place::of(limits.key, interval)),
                    None => access.places(values).into_iter().for_each(add),
                }
            } else {
                access.places(values).into_iter().for_each(add);
            }
        }
    }
}

impl Access {
    /// The places of the access, with these values.
    pub(crate) fn places(&self, values: &[Value]) -> Vec<Place> {
        if let [limits] = &self.limits[..] {
            return match limits.intervals(values) {
                Found::Nothing => Vec::new(),
                Found::Anything => vec![Place::whole()],
                Found::In(intervals) => intervals.into_iter().map(|i| Place::of(limits.key, i)).collect(),
            };
        }
        let mut all: Vec<Vec<(KeyId, Interval)>> = vec![Vec::new()];
        for limits in &self.limits {
            let intervals = match limits.intervals(values) {
                Found::Nothing => return Vec::new(),
                Found::Anything => continue,
                Found::In(intervals) => intervals,
            };
            match &intervals[..] {
                [one] => all.iter_mut().for_each(|place| place.push((limits.key, one.clone()))),
                several if all.len() * several.len() <= PLACES_MAX => {
                    let with = |place: &Vec<_>, interval: &Interval| {
                        let mut place = place.clone();
                        place.push((limits.key, interval.clone()));
                        place
                    };
                    all = all.iter().flat_map(|place| several.iter().map(move |i| with(place, i))).collect();
                }
                _ => {}
            }
        }
        all.into_iter().filter_map(Place::within).collect()
    }
}

/// Where the values of a key are.
enum Found {
    /// No row can have such values.
    Nothing,
    Anything,
    /// In one of these.
    In(Vec<Interval>),
}

/// The one value of a key.
enum Point {
    /// No row can have it.
    Nowhere,
    At(Interval),
}

/// The known values of one column in an execution: encodings.
enum Known {
    Nothing,
    Anything,
    /// Ascending.
    OneOf(Vec<Vec<u8>>),
    Between(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl KeyLimits {
    /// The common form of keys: one value for each column. `None`: it is another. Its result covers
    /// what [`Self::intervals`] does.
    fn point(&self, values: &[Value], bytes: &mut Vec<u8>) -> Option<Point> {
        bytes.clear();
        for (class, limits) in &self.columns {
            let value = match limits.first()? {
                Limit::Equal(operands) => match operands[..] {
                    [ref one] => match one.value(values)? {
                        Value::Null => return Some(Point::Nowhere),
                        value => value,
                    },
                    _ => return None,
                },
                Limit::Is(operands) if operands.len() == 1 => operands.first()?.value(values)?,
                _ => return None,
            };
            if !encode(*class, value, bytes) {
                return None;
            }
        }
        Some(Point::At(match self.complete {
            true => Interval::point(bytes),
            false => Interval::prefix(bytes),
        }))
    }

    fn intervals(&self, values: &[Value]) -> Found {
        match self.point(values, &mut Vec::with_capacity(32)) {
            Some(Point::Nowhere) => Found::Nothing,
            Some(Point::At(interval)) => found([interval].into_iter()),
            None => self.any_intervals(values),
        }
    }

    fn any_intervals(&self, values: &[Value]) -> Found {
        let mut prefixes = vec![Vec::new()];
        for (class, limits) in &self.columns {
            match known(*class, limits, values) {
                Known::Nothing => return Found::Nothing,
                Known::Anything => return found(prefixes.iter().map(|p| Interval::prefix(p))),
                Known::Between(lower, upper) => {
                    return found(prefixes.iter().filter_map(|prefix| between(prefix, &lower, &upper)))
                }
                Known::OneOf(one_of) if prefixes.len() * one_of.len() > ALTERNATIVES_MAX => {
                    let (Some(first), Some(last)) = (one_of.first(), one_of.last()) else { return Found::Nothing };
                    let (first, last) = (Bound::Included(first.clone()), Bound::Included(last.clone()));
                    return found(prefixes.iter().filter_map(|prefix| between(prefix, &first, &last)));
                }
                Known::OneOf(one_of) => {
                    let join = |prefix: &Vec<u8>, value: &Vec<u8>| [&prefix[..], value].concat();
                    prefixes = prefixes.iter().flat_map(|p| one_of.iter().map(move |value| join(p, value))).collect();
                }
            }
        }
        match self.complete {
            true => found(prefixes.into_iter().map(Interval::point)),
            false => found(prefixes.iter().map(|prefix| Interval::prefix(prefix))),
        }
    }
}

fn found(intervals: impl Iterator<Item = Interval>) -> Found {
    let intervals: Vec<Interval> = intervals.collect();
    if intervals.is_empty() {
        return Found::Nothing;
    }
    if intervals.iter().any(Interval::is_all) {
        return Found::Anything;
    }
    Found::In(intervals)
}

/// The values of a column that begin with `prefix`; `None` when there are none. Other columns may
/// follow.
fn between(prefix: &[u8], lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> Option<Interval> {
    let with = |bytes: &[u8]| [prefix, bytes].concat();
    let lower = match lower {
        Bound::Included(value) => with(value),
        Bound::Excluded(value) => end_of(with(value)),
        Bound::Unbounded => with(&[VALUES.0]),
    };
    let upper = match upper {
        Bound::Included(value) => end_of(with(value)),
        Bound::Excluded(value) => with(value),
        Bound::Unbounded => with(&[VALUES.1]),
    };
    Interval::range(Bound::Included(&lower), Bound::Excluded(&upper))
}

/// The first byte string after all that begin with `bytes`, which do not consist of ff alone:
/// encodings begin with a byte less than that.
fn end_of(mut bytes: Vec<u8>) -> Vec<u8> {
    while bytes.last() == Some(&0xff) {
        bytes.pop();
    }
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    bytes
}

/// Combines the limits. A limit with values counts before ranges; of several such, the first
/// counts.
fn known(class: Class, limits: &[Limit], values: &[Value]) -> Known {
    let (mut lower, mut upper) = (Bound::Unbounded, Bound::Unbounded);
    let (mut best, mut ranged) = (Known::Anything, false);
    for limit in limits {
        match limit {
            Limit::Lower(operand, inclusive) | Limit::Upper(operand, inclusive) => {
                let Some(value) = operand.value(values) else { continue };
                if *value == Value::Null {
                    return Known::Nothing;
                }
                let mut bytes = Vec::new();
                if !encode(class, value, &mut bytes) {
                    continue;
                }
                ranged = true;
                let end = if *inclusive { Bound::Included(bytes) } else { Bound::Excluded(bytes) };
                match limit {
                    Limit::Lower(..) => lower = end,
                    _ => upper = end,
                }
            }
            _ => match limit.one_of(class, values) {
                Known::Nothing => return Known::Nothing,
                found if matches!(best, Known::Anything) => best = found,
                _ => {}
            },
        }
    }
    match best {
        Known::Anything if ranged => Known::Between(lower, upper),
        best => best,
    }
}

impl Limit {
    fn operands(&self) -> &[Operand] {
        match self {
            Self::Equal(operands) | Self::Is(operands) => operands,
            Self::Element(operand, _) | Self::Lower(operand, _) | Self::Upper(operand, _) => {
                std::slice::from_ref(operand)
            }
        }
    }

    fn one_of(&self, class: Class, values: &[Value]) -> Known {
        let mut found = Vec::new();
        let mut take = |value: &Value, nulls: bool| {
            let mut bytes = Vec::new();
            if *value == Value::Null && !nulls {
                return true;
            }
            let fits = encode(class, value, &mut bytes);
            found.push(bytes);
            fits
        };
        let all = match self {
            Self::Equal(operands) => operands.iter().all(|o| o.value(values).is_some_and(|value| take(value, false))),
            Self::Is(operands) => operands.iter().all(|o| o.value(values).is_some_and(|value| take(value, true))),
            Self::Element(operand, or_null) => {
                let fits = match operand.value(values) {
                    Some(Value::Array(elements) | Value::Elements(elements)) => {
                        elements.iter().all(|value| take(value, false))
                    }
                    Some(Value::Null) => true,
                    _ => false,
                };
                fits && (!or_null || take(&Value::Null, true))
            }
            Self::Lower(..) | Self::Upper(..) => false,
        };
        if !all {
            return Known::Anything;
        }
        if found.is_empty() {
            return Known::Nothing;
        }
        found.sort_unstable();
        found.dedup();
        Known::OneOf(found)
    }
}

impl Operand {
    /// Marks the values that it is made of.
    fn mark(&self, needed: &mut [bool]) {
        match self {
            Self::Constant(_) => {}
            Self::Given(number) => needed.get_mut(*number).into_iter().for_each(|given| *given = true),
            Self::Fitted(operand, _) => operand.mark(needed),
            Self::At(array, number) => [array, number].into_iter().for_each(|operand| operand.mark(needed)),
        }
    }

    /// `None`: not known.
    pub(crate) fn value<'v>(&'v self, values: &'v [Value]) -> Option<&'v Value> {
        match self {
            Self::Constant(value) => Some(value),
            Self::Given(number) => values.get(*number),
            Self::Fitted(operand, fit) => operand.value(values).filter(|value| fit.keeps(value)),
            Self::At(array, number) => match (array.value(values)?, number.value(values)?) {
                (Value::Null, _) | (Value::Array(_), Value::Null) => Some(&Value::Null),
                (Value::Array(elements), Value::Integer(number)) => {
                    let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                    Some(at.and_then(|at| elements.get(at)).unwrap_or(&Value::Null))
                }
                _ => None,
            },
        }
    }
}

impl Fit {
    fn keeps(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) | (Self::Scale(_), Value::Integer(_)) => true,
            // Bytes: there are no more characters than that, in any encoding.
            (Self::Characters(max), Value::Text(text)) => text.len() <= max,
            (Self::Scale(max), Value::Decimal(text)) => {
                text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len()) <= max
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            6 => (-3i64..3).prop_map(Value::Integer),
            1 => Just(Value::Null),
            1 => Just(Value::Opaque),
            1 => Just(Value::Text(vec![7])),
        ]
    }

    fn limit() -> impl Strategy<Value = Limit> {
        let operand = || prop_oneof![value().prop_map(Operand::Constant), (0usize..4).prop_map(Operand::Given)];
        prop_oneof![
            3 => vec(operand(), 1..3).prop_map(Limit::Equal),
            3 => vec(operand(), 1..3).prop_map(Limit::Is),
            1 => operand().prop_map(|operand| Limit::Lower(operand, true)),
        ]
    }

    proptest! {
        #![proptest_config(chainify_seeded::config(256))]

        /// The short way to one value gives what the long one does.
        #[test]
        fn a_point_is_the_only_interval(
            columns in vec((Just(Class::Integer), vec(limit(), 1)), 1..3), complete: bool, given in vec(value(), 0..4)
        ) {
            let limits = KeyLimits { key: 0, columns, complete };
            let long = limits.any_intervals(&given);
            match limits.point(&given, &mut vec![1, 2]) {
                None => {}
                // The long way comes to a range before it comes to the column of which nothing can
                // be.
                Some(Point::Nowhere) => prop_assert!(matches!(long, Found::Nothing)),
                Some(Point::At(interval)) => {
                    let Found::In(intervals) = long else { panic!("the long way finds no place for {interval:?}") };
                    prop_assert_eq!(intervals, [interval]);
                }
            }
        }
    }
}
