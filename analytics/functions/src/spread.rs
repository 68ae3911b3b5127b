//! `pg_var_samp` and its like: variances and standard deviations of exact numbers, as
//! numeric_stddev_internal of numeric.c rounds them.
use std::mem::size_of;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use crate::aggregates::numbers;
use crate::call::is_text;
use crate::error::SqlError;
use crate::number::Number;
use crate::sums::{for_each, scale_of};

/// The result that is wanted of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The square root of the variance.
    pub root: bool,
    /// Of the rows as a sample; else as the whole.
    pub sample: bool,
}

/// The number of rows, their sum and the sum of their squares.
#[derive(Debug)]
pub(crate) struct Spread {
    wanted: Wanted,
    count: i64,
    sum: Number,
    squares: Number,
}

impl Spread {
    pub fn new(wanted: Wanted) -> Spread {
        Spread { wanted, count: 0, sum: Number::new(0, 0), squares: Number::new(0, 0) }
    }

    fn add(&mut self, sum: &Number, squares: &Number) -> Result<(), SqlError> {
        self.sum = self.sum.add(sum)?;
        self.squares = self.squares.add(squares)?;
        Ok(())
    }

    /// Numbers of one scale: their sums have 128 bits as long as these are enough.
    fn add_all(&mut self, values: &ArrayRef) -> Result<()> {
        let scale = u32::from(scale_of(values.data_type()).unsigned_abs());
        let (mut sum, mut squares, mut large) = (0_i128, 0_i128, Vec::new());
        for_each(values, None, |_, value| {
            self.count += 1;
            let more = value.checked_mul(value).and_then(|square| squares.checked_add(square));
            match (sum.checked_add(value), more) {
                (Some(more), Some(more_squares)) => (sum, squares) = (more, more_squares),
                _ => large.push(value),
            }
        })?;
        self.add(&Number::new(sum, scale), &Number::new(squares, 2 * scale))?;
        for value in large {
            let value = Number::new(value, scale);
            self.add(&value, &value.mul(&value)?)?;
        }
        Ok(())
    }

    fn result(&self) -> Result<Option<Number>, SqlError> {
        let least = if self.wanted.sample { 2 } else { 1 };
        if self.count < least {
            return Ok(None);
        }
        let count = Number::new(self.count, 0);
        let above = count.mul(&self.squares)?.sub(&self.sum.mul(&self.sum)?)?;
        if !above.is_positive() {
            return Ok(Some(Number::new(0, 0)));
        }
        let below = count.mul(&Number::new(self.count - i64::from(self.wanted.sample), 0))?;
        let variance = above.div(&below)?;
        Ok(Some(match self.wanted.root {
            true => variance.sqrt(variance.scale()),
            false => variance,
        }))
    }
}

impl Accumulator for Spread {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if !is_text(values[0].data_type()) {
            return self.add_all(&values[0]);
        }
        for (number, _) in numbers(&values[0])? {
            self.count += 1;
            self.add(&number, &number.mul(&number)?)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.result()?.map(|number| number.to_string())))
    }

    fn size(&self) -> usize {
        size_of::<Spread>() + self.sum.size() + self.squares.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let text = |of: &Number| ScalarValue::Utf8View(Some(of.to_string()));
        Ok(vec![text(&self.sum), text(&self.squares), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, squares) = (numbers(&states[0])?, numbers(&states[1])?);
        for ((sum, _), (squares, _)) in sums.iter().zip(&squares) {
            self.add(sum, squares)?;
        }
        self.count += states[2].as_primitive::<Int64Type>().values().iter().sum::<i64>();
        Ok(())
    }
}

/// Whether the dialect has the spread of such values.
pub(crate) fn takes(of: &DataType) -> bool {
    is_text(of) || crate::sums::sum_type(of).is_some()
}
