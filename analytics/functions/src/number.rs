//! PostgreSQL's `numeric`: numbers of any size that carry the digits which are shown behind the
//! point. The rules of scale and rounding are those of numeric.c.
use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

use crate::error::SqlError;

/// Digits before the point of the greatest number: NUMERIC_WEIGHT_MAX digits of base 10,000.
const WHOLE_DIGITS_MAX: u64 = 131_072;
/// NUMERIC_DSCALE_MAX.
const SCALE_MAX: u32 = 16_383;
/// NUMERIC_MAX_RESULT_SCALE, of `round` and `trunc`.
const ROUNDED_SCALE_MAX: i32 = 2_000;
/// NUMERIC_MAX_DISPLAY_SCALE, of quotients.
const QUOTIENT_SCALE_MAX: i64 = 1_000;
/// NUMERIC_MIN_SIG_DIGITS, of quotients.
const QUOTIENT_DIGITS_MIN: i64 = 16;
/// Decimal digits in one digit of numeric.c.
const DEC_DIGITS: i64 = 4;

/// A finite number: `unscaled` divided by ten to the power of `scale`.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    unscaled: BigInt,
    scale: u32,
}

impl Number {
    pub fn new(unscaled: impl Into<BigInt>, scale: u32) -> Number {
        Number { unscaled: unscaled.into(), scale }
    }

    /// Reads PostgreSQL's text. 0A000 for NaN and the infinities.
    pub fn parse(text: &str) -> Result<Number, SqlError> {
        let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
        let (negative, whole) = match whole.strip_prefix('-') {
            Some(whole) => (true, whole),
            None => (false, whole),
        };
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let plain = digits(whole) && digits(behind) && !(whole.is_empty() && behind.is_empty());
        if !plain || behind.len() > SCALE_MAX as usize {
            return Err(match text {
                "NaN" | "Infinity" | "-Infinity" => {
                    SqlError::unsupported(format!("the number {text}"))
                }
                _ => SqlError::new(
                    "22P02",
                    format!("invalid input syntax for type numeric: \"{text}\""),
                ),
            });
        }
        let scale = behind.len() as u32;
        let unscaled = match whole.len() + behind.len() {
            0..=37 => {
                let of = |text: &str| text.bytes().fold(0, |n, b| n * 10 + i128::from(b - b'0'));
                BigInt::from(of(whole) * 10_i128.pow(scale) + of(behind))
            }
            _ => {
                let all = [whole.as_bytes(), behind.as_bytes()].concat();
                BigInt::parse_bytes(&all, 10).unwrap_or_default()
            }
        };
        Number { unscaled: if negative { -unscaled } else { unscaled }, scale }.checked()
    }

    /// The unscaled number with exactly this scale, rounded half away from zero. None: it has more
    /// digits than a decimal of the worker.
    pub fn to_decimal(&self, scale: u32) -> Option<i128> {
        let rounded = match self.scale <= scale {
            true => self.rescaled_up(scale),
            false => divide_rounded(&self.unscaled, &ten_to(self.scale - scale)),
        };
        i128::try_from(rounded).ok().filter(|n| crate::decimal::fits(*n))
    }

    /// Digits behind the point.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    pub fn add(&self, other: &Number) -> Result<Number, SqlError> {
        let (left, right, scale) = self.aligned(other);
        Number { unscaled: left + right, scale }.checked()
    }

    pub fn sub(&self, other: &Number) -> Result<Number, SqlError> {
        let (left, right, scale) = self.aligned(other);
        Number { unscaled: left - right, scale }.checked()
    }

    pub fn mul(&self, other: &Number) -> Result<Number, SqlError> {
        let scale = self.scale + other.scale;
        let product = Number { unscaled: &self.unscaled * &other.unscaled, scale };
        match scale > SCALE_MAX {
            true => product.with_scale(SCALE_MAX, true).checked(),
            false => product.checked(),
        }
    }

    /// A quotient of at least 16 digits, rounded half away from zero.
    pub fn div(&self, other: &Number) -> Result<Number, SqlError> {
        if other.is_zero() {
            return Err(SqlError::division_by_zero());
        }
        let scale = self.quotient_scale(other);
        let shift = i64::from(scale) + i64::from(other.scale) - i64::from(self.scale);
        let power = ten_to(shift.unsigned_abs() as u32);
        let unscaled = match shift >= 0 {
            true => divide_rounded(&(&self.unscaled * power), &other.unscaled),
            false => divide_rounded(&self.unscaled, &(&other.unscaled * power)),
        };
        Number { unscaled, scale }.checked()
    }

    /// The rest of the quotient that is cut to a whole number.
    pub fn rem(&self, other: &Number) -> Result<Number, SqlError> {
        if other.is_zero() {
            return Err(SqlError::division_by_zero());
        }
        let (left, right, scale) = self.aligned(other);
        Number { unscaled: left % right, scale }.checked()
    }

    /// The square root with this scale, rounded half up. The number must not be negative.
    pub fn sqrt(&self, scale: u32) -> Number {
        // Of a root that is cut one digit later, that digit alone decides.
        let shift = 2 * (i64::from(scale) + 1) - i64::from(self.scale);
        let power = ten_to(shift.unsigned_abs() as u32);
        let scaled = if shift >= 0 { &self.unscaled * power } else { &self.unscaled / power };
        Number { unscaled: divide_rounded(&scaled.sqrt(), &BigInt::from(10)), scale }
    }

    pub fn is_positive(&self) -> bool {
        self.unscaled.sign() == Sign::Plus
    }

    pub fn neg(self) -> Number {
        Number { unscaled: -self.unscaled, ..self }
    }

    pub fn abs(self) -> Number {
        Number { unscaled: BigInt::from(self.unscaled.into_parts().1), ..self }
    }

    /// `round(x, digits)`.
    pub fn round(&self, digits: i32) -> Result<Number, SqlError> {
        self.cut(digits, true)
    }

    /// `trunc(x, digits)`.
    pub fn trunc(&self, digits: i32) -> Result<Number, SqlError> {
        self.cut(digits, false)
    }

    pub fn compare(&self, other: &Number) -> Ordering {
        if self.scale == other.scale {
            return self.unscaled.cmp(&other.unscaled);
        }
        let signs = self.unscaled.sign().cmp(&other.unscaled.sign());
        signs.then_with(|| {
            let (left, right, _) = self.aligned(other);
            left.cmp(&right)
        })
    }

    /// The nearest float; 22003 where there is none.
    pub fn to_f64(&self) -> Result<f64, SqlError> {
        let text = self.to_string();
        let value: f64 = text.parse().unwrap_or(f64::NAN);
        match value.is_finite() && (value != 0.0 || self.is_zero()) {
            true => Ok(value),
            false => {
                let message = format!("\"{text}\" is out of range for type double precision");
                Err(SqlError::new("22003", message))
            }
        }
    }

    /// Bytes that compare as the numbers do, and are equal for equal numbers.
    pub fn key(&self) -> Vec<u8> {
        let digits = self.unscaled.magnitude().to_string();
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return vec![1];
        }
        // The place of the first digit, then the digits. A shorter number is smaller.
        let place = digits.len() as i64 - i64::from(self.scale);
        let place = (place + (1 << 31)) as u32;
        let mut key = vec![2];
        key.extend(place.to_be_bytes());
        key.extend(significant.as_bytes());
        if self.unscaled.sign() == Sign::Minus {
            key.iter_mut().for_each(|b| *b = !*b);
            key[0] = 0;
            key.push(u8::MAX);
        }
        key
    }

    pub fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    /// Bytes that the number takes beside its own.
    pub fn size(&self) -> usize {
        (self.unscaled.bits() / 8) as usize
    }

    fn cut(&self, digits: i32, round: bool) -> Result<Number, SqlError> {
        let digits = digits.clamp(-ROUNDED_SCALE_MAX, ROUNDED_SCALE_MAX);
        match u32::try_from(digits) {
            Ok(scale) => self.with_scale(scale, round).checked(),
            // Zeros before the point.
            Err(_) => {
                let power = ten_to(digits.unsigned_abs());
                let divisor = ten_to(self.scale) * &power;
                let whole = match round {
                    true => divide_rounded(&self.unscaled, &divisor),
                    false => &self.unscaled / divisor,
                };
                Number { unscaled: whole * power, scale: 0 }.checked()
            }
        }
    }

    fn with_scale(&self, scale: u32, round: bool) -> Number {
        let unscaled = match (scale.cmp(&self.scale), round) {
            (Ordering::Less, true) => divide_rounded(&self.unscaled, &ten_to(self.scale - scale)),
            (Ordering::Less, false) => &self.unscaled / ten_to(self.scale - scale),
            _ => self.rescaled_up(scale),
        };
        Number { unscaled, scale }
    }

    fn rescaled_up(&self, scale: u32) -> BigInt {
        match scale - self.scale {
            0 => self.unscaled.clone(),
            more => &self.unscaled * ten_to(more),
        }
    }

    fn aligned(&self, other: &Number) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        (self.rescaled_up(scale), other.rescaled_up(scale), scale)
    }

    /// `select_div_scale` of numeric.c.
    fn quotient_scale(&self, divisor: &Number) -> u32 {
        let (weight, first) = self.first_digit();
        let (divisor_weight, divisor_first) = divisor.first_digit();
        let mut quotient_weight = weight - divisor_weight;
        if first <= divisor_first {
            quotient_weight -= 1;
        }
        let scale = QUOTIENT_DIGITS_MIN - quotient_weight * DEC_DIGITS;
        let scale = scale.max(i64::from(self.scale)).max(i64::from(divisor.scale));
        scale.clamp(0, QUOTIENT_SCALE_MAX) as u32
    }

    /// Weight and value of the first digit in base 10,000.
    fn first_digit(&self) -> (i64, u128) {
        if self.is_zero() {
            return (0, 0);
        }
        let magnitude = self.unscaled.magnitude();
        let count = digits_of(magnitude) as i64;
        let place = count - i64::from(self.scale) - 1;
        // How many decimal digits stand in it.
        let taken = place.rem_euclid(DEC_DIGITS) + 1;
        let dropped = count - taken;
        let first = match u128::try_from(magnitude) {
            Ok(small) if dropped > 0 => small / 10_u128.pow(dropped as u32),
            // There are fewer digits than a digit of base 10,000 has.
            Ok(small) => small * 10_u128.pow(dropped.unsigned_abs() as u32),
            Err(_) => u128::try_from(magnitude / ten_to_unsigned(dropped as u32)).unwrap_or(0),
        };
        (place.div_euclid(DEC_DIGITS), first)
    }

    /// 22003 for a number that PostgreSQL does not have.
    fn checked(self) -> Result<Number, SqlError> {
        // A decimal digit takes more than three bits.
        let suspicious = self.unscaled.bits() / 3 > WHOLE_DIGITS_MAX;
        let whole = |n: &Number| digits_of(n.unscaled.magnitude()).saturating_sub(n.scale.into());
        match suspicious && whole(&self) > WHOLE_DIGITS_MAX {
            true => Err(SqlError::new("22003", "value overflows numeric format")),
            false => Ok(self),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let scale = self.scale as usize;
        let magnitude = self.unscaled.magnitude();
        let digits = match u128::try_from(magnitude) {
            Ok(small) => small.to_string(),
            Err(_) => magnitude.to_string(),
        };
        let sign = if self.unscaled.sign() == Sign::Minus { "-" } else { "" };
        match digits.len().checked_sub(scale) {
            _ if scale == 0 => write!(f, "{sign}{digits}"),
            None | Some(0) => write!(f, "{sign}0.{digits:0>scale$}"),
            Some(whole) => write!(f, "{sign}{}.{}", &digits[..whole], &digits[whole..]),
        }
    }
}

fn ten_to(power: u32) -> BigInt {
    BigInt::from(ten_to_unsigned(power))
}

fn ten_to_unsigned(power: u32) -> BigUint {
    match 10_u128.checked_pow(power) {
        Some(small) => BigUint::from(small),
        None => BigUint::from(10_u8).pow(power),
    }
}

/// Decimal digits of a number; one of zero.
fn digits_of(of: &BigUint) -> u64 {
    match u128::try_from(of) {
        Ok(small) => u64::from(small.checked_ilog10().unwrap_or(0)) + 1,
        Err(_) => of.to_string().len() as u64,
    }
}

/// A quotient of whole numbers, rounded half away from zero.
fn divide_rounded(of: &BigInt, by: &BigInt) -> BigInt {
    if let (Ok(of), Ok(by)) = (i128::try_from(of), i128::try_from(by)) {
        // Half of the greatest number, so that nothing below overflows.
        let small = |of: i128| of.unsigned_abs() < 1 << 126;
        if small(of) && small(by) {
            let (quotient, rest) = (of / by, of % by);
            let away = rest.unsigned_abs() * 2 >= by.unsigned_abs();
            let one = if (of < 0) == (by < 0) { 1 } else { -1 };
            return BigInt::from(quotient + if away { one } else { 0 });
        }
    }
    let (quotient, rest) = (of / by, of % by);
    let twice = rest.magnitude() * 2_u8;
    if twice < *by.magnitude() {
        return quotient;
    }
    match (of.sign() == Sign::Minus) != (by.sign() == Sign::Minus) {
        true => quotient - 1,
        false => quotient + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).expect(text)
    }

    #[test]
    fn keys_compare_as_numbers() {
        let ordered = [
            "-1000", "-999.9", "-100", "-10.5", "-10.25", "-10", "-1", "-0.11", "-0.1", "-0.01",
            "0", "0.01", "0.1", "0.11", "1", "9", "10", "10.25", "10.5", "100", "999.9", "1000",
        ];
        for pair in ordered.windows(2) {
            assert!(number(pair[0]).key() < number(pair[1]).key(), "{pair:?}");
        }
        assert_eq!(number("10").key(), number("10.000").key());
        assert_eq!(number("0.00").key(), number("0").key());
    }

    #[test]
    fn bounds_of_numeric() {
        let greatest = number(&"9".repeat(131_072));
        assert_eq!(greatest.add(&number("1")).map_err(|e| e.sqlstate).err(), Some("22003"));
        assert!(greatest.add(&number("0.5")).is_ok());
        assert_eq!(
            greatest.mul(&greatest).map_err(|e| e.message).err().as_deref(),
            Some("value overflows numeric format")
        );
        let smallest = number(&format!("0.{}1", "0".repeat(16_382)));
        assert_eq!(smallest.mul(&smallest).map(|n| (n.is_zero(), n.scale())), Ok((true, 16_383)));
    }

    #[test]
    fn texts_that_are_no_numbers() {
        for text in ["", ".", "-", "1e5", "+1", " 1", "1.2.3", "--1", "0x1"] {
            assert_eq!(Number::parse(text).map_err(|e| e.sqlstate).err(), Some("22P02"), "{text}");
        }
        for text in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(Number::parse(text).map_err(|e| e.sqlstate).err(), Some("0A000"), "{text}");
        }
    }
}
