//! Floats by the rules of float.c.
use std::cmp::Ordering;
use std::fmt::{LowerExp, Write};
use std::str::FromStr;

use crate::error::SqlError;

/// Digits that tell every float from its neighbours.
const DIGITS_MAX: usize = 17;

/// The operations of `f32` and `f64` that the rules need.
pub(crate) trait Float: Copy + FromStr + PartialOrd + LowerExp + Into<f64> {
    /// Decimal exponents from which PostgreSQL writes `1e+06`.
    const EXPONENT_MIN: i32;
    /// Mantissa and exponent of two of a positive number, and whether the number below is nearer
    /// than the number above.
    fn parts(self) -> (u64, i32, bool);
    fn infinite(self) -> bool;
}

impl Float for f32 {
    const EXPONENT_MIN: i32 = 6;

    fn parts(self) -> (u64, i32, bool) {
        let bits = self.to_bits();
        parts(u64::from(bits & 0x7f_ffff), (bits >> 23 & 0xff) as i32, 23, 127)
    }

    fn infinite(self) -> bool {
        self.is_infinite()
    }
}

impl Float for f64 {
    const EXPONENT_MIN: i32 = 15;

    fn parts(self) -> (u64, i32, bool) {
        let bits = self.to_bits();
        parts(bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32, 52, 1023)
    }

    fn infinite(self) -> bool {
        self.is_infinite()
    }
}

fn parts(fraction: u64, exponent: i32, bits: i32, bias: i32) -> (u64, i32, bool) {
    match exponent {
        0 => (fraction, 1 - bias - bits, false),
        _ => (fraction | 1 << bits, exponent - bias - bits, fraction == 0 && exponent > 1),
    }
}

/// An operation of two floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Div,
}

/// Checks the result of an operation.
pub(crate) fn checked<F: Float>(
    operation: Operation,
    left: F,
    right: F,
    result: F,
) -> Result<F, SqlError> {
    let (l, r, value): (f64, f64, f64) = (left.into(), right.into(), result.into());
    let zero_divisor = operation == Operation::Div && r == 0.0;
    if zero_divisor && !l.is_nan() {
        return Err(SqlError::division_by_zero());
    }
    let right_may = operation != Operation::Div && right.infinite();
    if result.infinite() && !left.infinite() && !right_may && !zero_divisor {
        return Err(SqlError::new("22003", "value out of range: overflow"));
    }
    let underflow = value == 0.0
        && l != 0.0
        && match operation {
            Operation::Mul => r != 0.0,
            Operation::Div => !right.infinite(),
            _ => false,
        };
    match underflow {
        true => Err(SqlError::new("22003", "value out of range: underflow")),
        false => Ok(result),
    }
}

/// The order of floats: NaN equals NaN and is the greatest, -0 equals 0.
pub(crate) fn compare(left: f64, right: f64) -> Ordering {
    let nan = || left.is_nan().cmp(&right.is_nan());
    left.partial_cmp(&right).unwrap_or_else(nan)
}

/// A number that compares as the float does.
pub(crate) fn order(of: f64) -> i64 {
    if of.is_nan() {
        return i64::MAX;
    }
    // -0 + 0 is 0. The bits of negative numbers count backwards.
    let bits = (of + 0.0).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Appends PostgreSQL's text: the fewest digits that give the same float again.
pub(crate) fn write<F: Float>(of: F, out: &mut String) {
    let value: f64 = of.into();
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    if of.infinite() {
        return out.push_str("Infinity");
    }
    if value == 0.0 {
        return out.push('0');
    }
    let (digits, exponent) = shortest(of);
    let count = digits.len() as i32;
    if !(-4..F::EXPONENT_MIN).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        // Writing to a String does not fail.
        let _ = write!(out, "{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
    } else if count <= exponent + 1 {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (exponent + 1 - count) as usize));
    } else {
        let (whole, behind) = digits.split_at(exponent as usize + 1);
        let _ = write!(out, "{whole}.{behind}");
    }
}

/// Digits, and the exponent of ten of the first one. PostgreSQL writes no number that lies between
/// two floats, because its reading depends on a rule.
fn shortest<F: Float>(of: F) -> (String, i32) {
    let text = format!("{of:e}");
    let found = digits_of(&text);
    let shown = found.0.len();
    // Of two numbers that are as near, the even one is taken.
    let rounded = |behind: usize| format!("{of:.behind$e}");
    let mut texts = [rounded(shown - 1), text].into_iter().chain((shown..DIGITS_MAX).map(rounded));
    let good = texts.find_map(|text| {
        let found = digits_of(&text);
        let same = text.parse().is_ok_and(|read: F| read == of);
        (same && !is_midpoint(of, &found)).then_some(found)
    });
    good.unwrap_or(found)
}

/// Takes `-1.5e-7` apart.
fn digits_of(text: &str) -> (String, i32) {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let digits = digits.chars().filter(char::is_ascii_digit).collect();
    (digits, exponent.parse().unwrap_or(0))
}

/// Whether a number lies in the middle between the float and a neighbour.
fn is_midpoint<F: Float>(of: F, (digits, exponent): &(String, i32)) -> bool {
    let power = exponent + 1 - digits.len() as i32;
    let (mantissa, two, nearer_below) = of.parts();
    // No number of few digits has so many factors of five.
    if mantissa % 2 == 1 || power.abs() > 24 {
        return false;
    }
    let digits: u128 = digits.parse().unwrap_or(0);
    let fives = 5_u128.pow(power.unsigned_abs());
    let is = |middle: u128, two: i32| match power >= 0 {
        true => same(digits * fives, power, middle, two),
        false => same(digits, power, middle * fives, two),
    };
    let mantissa = u128::from(mantissa);
    let below = match nearer_below {
        true => (4 * mantissa - 1, two - 2),
        false => (2 * mantissa - 1, two - 1),
    };
    is(2 * mantissa + 1, two - 1) || is(below.0, below.1)
}

/// Whether two numbers with powers of two are one.
fn same(left: u128, left_two: i32, right: u128, right_two: i32) -> bool {
    let odd = |of: u128| of >> of.trailing_zeros().min(127);
    let two = |of: u128, two: i32| two + of.trailing_zeros() as i32;
    odd(left) == odd(right) && two(left, left_two) == two(right, right_two)
}
