//! Decimals of the worker: whole numbers of at most 38 digits with a scale that stands in the type.
use crate::error::SqlError;
use crate::number::Number;

/// Digits that a decimal has at most.
pub(crate) const DIGITS_MAX: u8 = 38;

const POWERS: [i128; 39] = powers();

const fn powers() -> [i128; 39] {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
}

/// Ten to a power; None: it is more than 38.
pub(crate) fn ten_to(power: u32) -> Option<i128> {
    POWERS.get(power as usize).copied()
}

/// Whether a number has at most 38 digits.
pub(crate) fn fits(of: i128) -> bool {
    of.unsigned_abs() < POWERS[38] as u128
}

/// The number, if a decimal of so many digits holds it.
pub(crate) fn in_digits(of: i128, digits: u8) -> Option<i128> {
    let bound = ten_to(digits.into())?;
    (of.unsigned_abs() < bound as u128).then_some(of)
}

/// The same number, or 0A000.
pub(crate) fn checked(of: Option<i128>) -> Result<i128, SqlError> {
    of.filter(|n| fits(*n)).ok_or_else(SqlError::too_many_digits)
}

/// A way to drop digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest; half away from zero.
    Nearest,
    /// Towards zero.
    Truncate,
    /// Upwards.
    Ceiling,
    /// Downwards.
    Floor,
}

/// A number of scale `from` with scale `to`. None: it has too many digits.
pub(crate) fn rescale(of: i128, from: u8, to: u8, rounding: Rounding) -> Option<i128> {
    if from <= to {
        return of.checked_mul(ten_to(u32::from(to - from))?);
    }
    let by = ten_to(u32::from(from - to))?;
    let (quotient, rest) = (of / by, of % by);
    let away = match rounding {
        Rounding::Nearest => rest.unsigned_abs() >= (by / 2) as u128,
        Rounding::Truncate => false,
        Rounding::Ceiling => rest > 0,
        Rounding::Floor => rest < 0,
    };
    Some(quotient + if away { of.signum() } else { 0 })
}

/// An operation of two decimals that gives a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Rem,
}

impl Operation {
    /// The scale of the result.
    pub fn scale(self, left: u8, right: u8) -> u8 {
        match self {
            Operation::Mul => left.saturating_add(right),
            _ => left.max(right),
        }
    }

    /// Digits of the greatest result of operands with these precisions and scales.
    pub fn digits(self, left: (u8, u8), right: (u8, u8)) -> u8 {
        let before = |(precision, scale): (u8, u8)| precision.saturating_sub(scale);
        let scale = self.scale(left.1, right.1);
        match self {
            Operation::Mul => left.0.saturating_add(right.0),
            Operation::Rem => scale + before(left).min(before(right)),
            _ => scale + before(left).max(before(right)) + 1,
        }
    }

    /// Prepares the operation for operands of these precisions and scales. None: the scales are too
    /// far apart.
    pub fn of_types(self, left: (u8, u8), right: (u8, u8)) -> Option<Scaled> {
        let scale = self.scale(left.1, right.1);
        let factor = |of: u8| match self {
            Operation::Mul => Some(1),
            _ => ten_to(u32::from(scale - of)),
        };
        Some(Scaled {
            operation: self,
            left: left.1,
            right: right.1,
            scale,
            left_factor: factor(left.1)?,
            right_factor: factor(right.1)?,
            always_fits: self.digits(left, right) <= DIGITS_MAX,
        })
    }
}

/// An operation of decimals with their scales.
pub(crate) struct Scaled {
    operation: Operation,
    left: u8,
    right: u8,
    scale: u8,
    left_factor: i128,
    right_factor: i128,
    always_fits: bool,
}

impl Scaled {
    /// The factors of a sum that always fits; None: it is none.
    pub fn sum_of(&self) -> Option<(i128, i128)> {
        match self.operation {
            Operation::Add if self.always_fits => Some((self.left_factor, self.right_factor)),
            Operation::Sub if self.always_fits => Some((self.left_factor, -self.right_factor)),
            _ => None,
        }
    }

    /// Whether it multiplies. A product of two numbers of 64 bits has at most 38 digits.
    pub fn is_product(&self) -> bool {
        self.operation == Operation::Mul
    }

    /// The unscaled result; 22012, 0A000. Cost: a few nanoseconds, more where 128 bits are too few
    /// on the way.
    #[inline]
    pub fn apply(&self, left: i128, right: i128) -> Result<i128, SqlError> {
        if self.always_fits {
            // The types promise that nothing overflows.
            let scaled_left = left.wrapping_mul(self.left_factor);
            let scaled_right = right.wrapping_mul(self.right_factor);
            match self.operation {
                Operation::Add => return Ok(scaled_left.wrapping_add(scaled_right)),
                Operation::Sub => return Ok(scaled_left.wrapping_sub(scaled_right)),
                Operation::Mul => return Ok(left.wrapping_mul(right)),
                Operation::Rem => {}
            }
        }
        self.apply_checked(left, right)
    }

    fn apply_checked(&self, left: i128, right: i128) -> Result<i128, SqlError> {
        if self.operation == Operation::Rem && right == 0 {
            return Err(SqlError::division_by_zero());
        }
        match self.in_128_bits(left, right) {
            Some(result) if fits(result) => Ok(result),
            _ => self.in_many_bits(left, right),
        }
    }

    fn in_128_bits(&self, left: i128, right: i128) -> Option<i128> {
        if self.operation == Operation::Mul {
            return multiply(left, right);
        }
        let left = multiply(left, self.left_factor)?;
        let right = multiply(right, self.right_factor)?;
        match self.operation {
            Operation::Add => left.checked_add(right),
            Operation::Sub => left.checked_sub(right),
            _ => left.checked_rem(right),
        }
    }

    #[cold]
    fn in_many_bits(&self, left: i128, right: i128) -> Result<i128, SqlError> {
        let left = Number::new(left, self.left.into());
        let right = Number::new(right, self.right.into());
        let result = match self.operation {
            Operation::Add => left.add(&right),
            Operation::Sub => left.sub(&right),
            Operation::Mul => left.mul(&right),
            Operation::Rem => left.rem(&right),
        };
        checked(result?.to_decimal(self.scale.into()))
    }
}

/// A product; that of two numbers of 64 bits, the usual ones, is one instruction.
fn multiply(left: i128, right: i128) -> Option<i128> {
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => Some(i128::from(left) * i128::from(right)),
        _ => left.checked_mul(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_at_the_bound() {
        let nines = 10_i128.pow(38) - 1;
        let add = Operation::Add.of_types((38, 0), (38, 0)).expect("scales");
        assert_eq!(add.apply(nines, -nines), Ok(0));
        assert_eq!(add.apply(nines, 1).map_err(|e| e.sqlstate), Err("0A000"));
        // 128 bits are too few on the way, and enough for the result.
        let rem = Operation::Rem.of_types((38, 0), (38, 37)).expect("scales");
        assert_eq!(rem.apply(nines, 3), Ok(0));
        assert_eq!(rem.apply(nines, 0).map_err(|e| e.sqlstate), Err("22012"));
        let mul = Operation::Mul.of_types((38, 0), (38, 0)).expect("scales");
        assert_eq!(mul.apply(nines, nines).map_err(|e| e.sqlstate), Err("0A000"));
        assert_eq!(mul.apply(i64::MAX.into(), i64::MAX.into()), Ok(i128::from(i64::MAX).pow(2)));
    }

    #[test]
    fn digits_of_types() {
        assert_eq!(Operation::Sub.digits((1, 0), (15, 2)), 16);
        assert_eq!(Operation::Mul.digits((15, 2), (16, 2)), 31);
        assert_eq!(Operation::Rem.digits((15, 2), (4, 3)), 4);
        let fits = |o: Operation, l, r| o.of_types(l, r).is_some_and(|o| o.always_fits);
        assert!(fits(Operation::Mul, (19, 0), (19, 0)) && !fits(Operation::Mul, (20, 0), (19, 0)));
        // 37 digits before the point and 2 behind it.
        assert!(!fits(Operation::Add, (37, 0), (5, 2)) && fits(Operation::Add, (35, 0), (5, 2)));
    }
}
