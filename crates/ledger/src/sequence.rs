//! A sequence as part of the agreed state: its next value follows from its row in the ledger alone.

/// How many numbers ahead of its position a value may be that was drawn elsewhere, beside a part of
/// all numbers that are left. One further ahead was not drawn, and its row must not use up the
/// sequence.
const AHEAD_MIN: i128 = 10_000;
/// That part: sessions may give back millions of numbers before one arrives.
const AHEAD_OF_REST: i128 = 1_024;

/// A sequence with its definition, as in `chainify_ledger.sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The value given last, or the one to give first.
    pub last_value: i64,
    /// Whether `last_value` has been given.
    pub called: bool,
    /// Never 0.
    pub increment: i64,
    /// No value is below.
    pub minimum: i64,
    /// No value is above.
    pub maximum: i64,
    /// Begins anew at the other bound instead of ending.
    pub cycle: bool,
}

/// Why a sequence gives no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// It ascends and stands at this maximum.
    Maximum(i64),
    /// It descends and stands at this minimum.
    Minimum(i64),
}

impl Sequence {
    /// The next value, as nextval() of PostgreSQL gives it.
    pub fn draw(&mut self) -> Result<i64, Spent> {
        if self.called {
            self.last_value = self.following()?;
        }
        self.called = true;
        Ok(self.last_value)
    }

    fn following(&self) -> Result<i64, Spent> {
        let within = |value: &i64| (self.minimum..=self.maximum).contains(value);
        match self.last_value.checked_add(self.increment).filter(within) {
            Some(value) => Ok(value),
            None if self.increment > 0 && self.cycle => Ok(self.minimum),
            None if self.increment > 0 => Err(Spent::Maximum(self.maximum)),
            None if self.cycle => Ok(self.maximum),
            None => Err(Spent::Minimum(self.minimum)),
        }
    }

    /// Makes `value` the one given last, or the next one when not `called`. `false`, and nothing
    /// changes, beyond the bounds.
    #[must_use]
    pub fn set(&mut self, value: i64, called: bool) -> bool {
        let within = (self.minimum..=self.maximum).contains(&value);
        if within {
            (self.last_value, self.called) = (value, called);
        }
        within
    }

    /// Takes over a value that was drawn elsewhere and is ahead of all given so far, by no more
    /// than [`Self::is_led_by`] allows. Any other value changes nothing.
    pub fn follow(&mut self, value: i64) {
        if self.is_led_by(value) {
            let _ = self.set(value, true);
        }
    }

    /// Whether a value that has been given is ahead of this position, by at most 10,000 numbers and
    /// a 1,024th of those that are left.
    pub fn is_led_by(&self, value: i64) -> bool {
        let (last, step) = (i128::from(self.last_value), i128::from(self.increment));
        let (way, end) = (i128::from(value) - last, if step > 0 { self.maximum } else { self.minimum });
        let most = AHEAD_MIN + (i128::from(end) - last) / step / AHEAD_OF_REST;
        way % step == 0 && (i128::from(self.called)..=most.max(AHEAD_MIN)).contains(&(way / step))
    }
}

/// The place of an organisation among those that draw from one sequence at once: each takes every
/// n-th number, so that no two take the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// From 0.
    pub place: i64,
    /// Above 0, and above `place`.
    pub of: i64,
}

impl Turn {
    /// Whether a number of a sequence with this increment belongs to this place. Of as many numbers
    /// in a row as there are places, each belongs to another.
    pub fn takes(&self, value: i64, increment: i64) -> bool {
        value.wrapping_div_euclid(increment).rem_euclid(self.of) == self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_values_that_were_drawn_elsewhere() {
        let at = |last_value, called, increment| Sequence {
            last_value,
            called,
            increment,
            maximum: i64::MAX,
            minimum: i64::MIN,
            ..ASCENDING
        };
        let upto = |maximum| Sequence { maximum, ..at(5, true, 1) };
        for (before, value, after) in [
            (at(1, false, 1), 1, (1, true)),
            (at(1, true, 1), 1, (1, true)),
            (at(5, true, 1), 4, (5, true)),
            (upto(1_034), 1_034, (1_034, true)),
            (upto(102_405), 10_105, (10_105, true)),
            (upto(102_405), 10_106, (5, true)),
            (at(5, true, 1), 1 << 50, (1 << 50, true)),
            (at(5, true, 1), i64::MAX, (5, true)),
            (at(5, true, 10), 26, (5, true)),
            (at(5, true, 10), 25, (25, true)),
            (at(5, true, -1), 3, (3, true)),
            (at(5, true, -1), 6, (5, true)),
            (at(i64::MIN, true, 1), i64::MAX, (i64::MIN, true)),
        ] {
            let mut now = before;
            now.follow(value);
            assert_eq!((now.last_value, now.called), after, "{before:?} follows {value}");
        }
        let mut bounded = Sequence { last_value: 2, called: true, ..ASCENDING };
        bounded.follow(4);
        assert_eq!(bounded.last_value, 2, "the maximum is 3");
    }

    #[test]
    fn each_number_is_the_turn_of_one_place() {
        for increment in [1, 7, -3, i64::MIN] {
            for of in 1..6 {
                let numbers = (-10..10).map(|n: i64| n.wrapping_mul(increment).wrapping_add(2));
                for value in numbers {
                    let takers = (0..of).filter(|place| Turn { place: *place, of }.takes(value, increment));
                    assert_eq!(takers.count(), 1, "{value} by {increment}");
                }
                let run: Vec<i64> = (0..of).map(|n| n.wrapping_mul(increment).wrapping_add(2)).collect();
                let taken = |place| run.iter().any(|value| Turn { place, of }.takes(*value, increment));
                assert!(increment == i64::MIN || (0..of).all(taken), "{run:?} by {increment}");
            }
        }
    }

    const ASCENDING: Sequence =
        Sequence { last_value: 1, called: false, increment: 1, minimum: 1, maximum: 3, cycle: false };

    fn drawn(mut sequence: Sequence, count: usize) -> Vec<Result<i64, Spent>> {
        (0..count).map(|_| sequence.draw()).collect()
    }

    #[test]
    fn gives_the_first_value_first_and_ends_at_the_maximum() {
        assert_eq!(drawn(ASCENDING, 5), [Ok(1), Ok(2), Ok(3), Err(Spent::Maximum(3)), Err(Spent::Maximum(3))]);
    }

    #[test]
    fn begins_anew_at_the_other_bound_when_it_cycles() {
        let cycling = Sequence { cycle: true, ..ASCENDING };
        assert_eq!(drawn(cycling, 4), [Ok(1), Ok(2), Ok(3), Ok(1)]);
        let descending = Sequence { last_value: 2, increment: -2, minimum: -3, maximum: 2, ..cycling };
        assert_eq!(drawn(descending, 4), [Ok(2), Ok(0), Ok(-2), Ok(2)]);
    }

    #[test]
    fn descends_to_the_minimum() {
        let descending = Sequence { last_value: -1, increment: -1, minimum: -2, maximum: -1, ..ASCENDING };
        assert_eq!(drawn(descending, 3), [Ok(-1), Ok(-2), Err(Spent::Minimum(-2))]);
    }

    #[test]
    fn set_keeps_to_the_bounds() {
        let mut sequence = ASCENDING;
        assert!(sequence.set(3, false));
        assert_eq!(sequence.draw(), Ok(3));
        assert!(!sequence.set(4, true) && !sequence.set(0, true));
        assert_eq!(sequence.last_value, 3);
    }

    /// Every step of every small definition, and of those at the ends of i64, against arithmetic
    /// that cannot overflow.
    #[test]
    fn agrees_with_wide_arithmetic() {
        let ends = [i64::MIN, i64::MIN + 1, -3, -1, 0, 2, 5, i64::MAX - 1, i64::MAX];
        for (minimum, maximum) in ends.iter().flat_map(|a| ends.map(|b| (*a, b))).filter(|(a, b)| a < b) {
            for increment in ends.into_iter().filter(|i| *i != 0) {
                for last_value in ends.into_iter().filter(|v| (minimum..=maximum).contains(v)) {
                    for cycle in [false, true] {
                        let mut sequence = Sequence { last_value, called: true, increment, minimum, maximum, cycle };
                        let wide = i128::from(last_value) + i128::from(increment);
                        let expected = match i64::try_from(wide).ok().filter(|v| (minimum..=maximum).contains(v)) {
                            Some(value) => Ok(value),
                            None if cycle => Ok(if increment > 0 { minimum } else { maximum }),
                            None if increment > 0 => Err(Spent::Maximum(maximum)),
                            None => Err(Spent::Minimum(minimum)),
                        };
                        assert_eq!(sequence.draw(), expected, "{sequence:?}");
                    }
                }
            }
        }
    }
}
