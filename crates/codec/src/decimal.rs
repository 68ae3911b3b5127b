//! Canonical decimal text: tag 03 and the numbers in canonical JSON.
//!
//! Works on digits, so every number PostgreSQL can print keeps its exact value.

use crate::ValueError;

/// Digits before the decimal point that PostgreSQL's numeric holds.
const INTEGER_DIGITS_MAX: i64 = 131_072;
/// Digits after the decimal point that PostgreSQL's numeric holds.
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// Appends the canonical text of `text` to `out`: no exponent, `+`, leading zeros or trailing
/// fractional zeros.
///
/// Takes what `numeric_out` prints, and exponents, which JSON numbers may have. The bounds keep a
/// short text such as `1e999999999` from becoming a long one. Cost: linear in the longer of text
/// and result.
pub(crate) fn write_canonical(out: &mut Vec<u8>, text: &str) -> Result<(), ValueError> {
    if matches!(text, "NaN" | "Infinity" | "-Infinity") {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    let parts = Parts::of(text.as_bytes()).ok_or(ValueError::Numeric)?;
    parts.write(out)
}

/// A decimal number as it stands in a text: digits before and after the point, and the exponent.
struct Parts<'a> {
    negative: bool,
    integer: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Parts<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&text[..at], exponent_of(&text[at + 1..])?),
            None => (text, 0),
        };
        let (integer, fraction) = match mantissa.iter().position(|&b| b == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &mantissa[..0]),
        };
        let digits_only = integer.iter().chain(fraction).all(u8::is_ascii_digit);
        let some_digit = !integer.is_empty() || !fraction.is_empty();
        (digits_only && some_digit).then_some(Self { negative, integer, fraction, exponent })
    }

    fn digit(&self, index: usize) -> u8 {
        match self.integer.get(index) {
            Some(digit) => *digit,
            None => self.fraction[index - self.integer.len()],
        }
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let count = self.integer.len() + self.fraction.len();
        let Some(first) = (0..count).find(|&i| self.digit(i) != b'0') else {
            out.push(b'0');
            return Ok(());
        };
        let end = (0..count).rfind(|&i| self.digit(i) != b'0').map_or(count, |last| last + 1);
        // The decimal point stands before the digit with this index, which may lie outside
        // `first..end`.
        let point = (self.integer.len() as i64).saturating_add(self.exponent);
        let (first_at, end_at) = (first as i64, end as i64);
        if point.saturating_sub(first_at) > INTEGER_DIGITS_MAX || end_at.saturating_sub(point) > FRACTION_DIGITS_MAX {
            return Err(ValueError::NumericRange);
        }
        if self.negative {
            out.push(b'-');
        }
        if point <= first_at {
            out.extend_from_slice(b"0.");
            push_zeros(out, first_at - point);
            out.extend((first..end).map(|i| self.digit(i)));
        } else if point >= end_at {
            out.extend((first..end).map(|i| self.digit(i)));
            push_zeros(out, point - end_at);
        } else {
            let point = point as usize; // between `first` and `end`
            out.extend((first..point).map(|i| self.digit(i)));
            out.push(b'.');
            out.extend((point..end).map(|i| self.digit(i)));
        }
        Ok(())
    }
}

fn push_zeros(out: &mut Vec<u8>, count: i64) {
    out.extend(std::iter::repeat_n(b'0', count as usize)); // bounded by the digit limits above
}

/// The exponent, saturated: beyond ±10^15 the digit limits decide anyway, and zero stays zero.
fn exponent_of(text: &[u8]) -> Option<i64> {
    const FAR: i64 = 1_000_000_000_000_000;
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0i64, |n, d| n.saturating_mul(10).saturating_add(i64::from(d - b'0')).min(FAR));
    Some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        write_canonical(&mut out, text).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn one_spelling_per_number() {
        let cases = [
            ("0", "0"),
            ("-0", "0"),
            ("-0.00", "0"),
            ("+5", "5"),
            ("007", "7"),
            ("0.50", "0.5"),
            ("-12.000", "-12"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1.25E1", "12.5"),
            ("12500e-3", "12.5"),
            ("-1e-2", "-0.01"),
            ("0e999999999999999999999", "0"),
            ("100", "100"),
            ("0.001", "0.001"),
            ("1e+2", "100"),
            ("10e-1", "1"),
            ("NaN", "NaN"),
            ("Infinity", "Infinity"),
            ("-Infinity", "-Infinity"),
        ];
        for (text, want) in cases {
            assert_eq!(canonical(text).as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in
            ["", "-", "+", ".", "1.2.3", "1e", "e5", "1e+", "--1", "1 ", " 1", "0x10", "nan", "inf", "1_000", "+NaN"]
        {
            assert_eq!(canonical(text), Err(ValueError::Numeric), "{text}");
        }
    }

    #[test]
    fn bounds_the_digits() {
        assert_eq!(canonical("1e131071").unwrap().len(), 131_072);
        assert_eq!(canonical("1e131072"), Err(ValueError::NumericRange));
        assert_eq!(canonical("1e-16383").unwrap().len(), 2 + 16_383);
        assert_eq!(canonical("1e-16384"), Err(ValueError::NumericRange));
        assert_eq!(canonical("1e99999999999999999999"), Err(ValueError::NumericRange));
        assert_eq!(canonical("1e-99999999999999999999"), Err(ValueError::NumericRange));
    }
}
