//! `pg_sum` and `pg_avg`: sums of integers and decimals in 128 bits, with the number of rows.
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Int64Array,
    StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::{internal_err, Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::decimal::{self, DIGITS_MAX};
use crate::error::SqlError;
use crate::number::Number;

/// The type of sums in the state of an aggregate.
pub(crate) fn state_type(input: &DataType) -> DataType {
    DataType::Decimal128(DIGITS_MAX, scale_of(input))
}

/// The type that PostgreSQL gives a sum; None: the dialect has none.
pub(crate) fn sum_type(input: &DataType) -> Option<DataType> {
    match input {
        DataType::Int16 | DataType::Int32 => Some(DataType::Int64),
        DataType::Int64 | DataType::Decimal128(_, 0..) | DataType::Null => Some(state_type(input)),
        _ => None,
    }
}

pub(crate) fn scale_of(input: &DataType) -> i8 {
    match input {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    sum: i128,
    count: i64,
}

impl Total {
    /// Adds to the sum; true: it overflowed.
    #[must_use]
    fn add(&mut self, sum: i128, count: i64) -> bool {
        let (sum, overflowed) = self.sum.overflowing_add(sum);
        self.sum = sum;
        self.count += count;
        overflowed
    }
}

fn fitting(overflowed: bool) -> Result<()> {
    match overflowed {
        true => Err(SqlError::too_many_digits().into()),
        false => Ok(()),
    }
}

/// The sums or averages of groups. Memory: 32 bytes for each group.
#[derive(Debug)]
pub(crate) struct Sums {
    average: bool,
    scale: i8,
    result: DataType,
    totals: Vec<Total>,
}

impl Sums {
    /// For an argument and a result of these types.
    pub fn new(average: bool, input: &DataType, result: &DataType) -> Sums {
        Sums { average, scale: scale_of(input), result: result.clone(), totals: Vec::new() }
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let (totals, mut overflowed) = (&mut self.totals, false);
        for_each(&values[0], filter, |row, value| overflowed |= totals[group(row)].add(value, 1))?;
        fitting(overflowed)
    }

    fn merge(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal128Type>();
        let counts = states[1].as_primitive::<Int64Type>();
        let mut overflowed = false;
        for (row, (sum, count)) in sums.values().iter().zip(counts.values()).enumerate() {
            overflowed |= self.totals[group(row)].add(*sum, *count);
        }
        fitting(overflowed)
    }

    fn number(&self, total: &Total) -> Result<Option<i128>, SqlError> {
        match (total.count, &self.result) {
            (0, _) => Ok(None),
            (_, DataType::Int64) => match i64::try_from(total.sum) {
                Ok(sum) => Ok(Some(sum.into())),
                Err(_) => Err(SqlError::out_of_range("bigint")),
            },
            _ => decimal::checked(Some(total.sum)).map(Some),
        }
    }

    fn averages(&self, totals: &[Total]) -> Result<ArrayRef> {
        let text = |total: &Total| {
            let sum = Number::new(total.sum, self.scale.unsigned_abs().into());
            let count = Number::new(total.count, 0);
            match total.count {
                0 => Ok(None),
                _ => sum.div(&count).map(|average| Some(average.to_string())),
            }
        };
        let texts: Result<Vec<_>, SqlError> = totals.iter().map(text).collect();
        Ok(Arc::new(StringViewArray::from_iter(texts?)))
    }

    fn results(&self, totals: &[Total]) -> Result<ArrayRef> {
        if self.average {
            return self.averages(totals);
        }
        let numbers: Result<Vec<_>, SqlError> = totals.iter().map(|t| self.number(t)).collect();
        let numbers = numbers?.into_iter();
        Ok(match self.result {
            DataType::Int64 => {
                Arc::new(Int64Array::from_iter(numbers.map(|n| n.map(|n| n as i64))))
            }
            _ => Arc::new(self.decimals(Decimal128Array::from_iter(numbers))),
        })
    }

    fn decimals(&self, array: Decimal128Array) -> Decimal128Array {
        array.with_data_type(DataType::Decimal128(DIGITS_MAX, self.scale))
    }

    fn states(&self, totals: &[Total]) -> Vec<ArrayRef> {
        let sums = Decimal128Array::from_iter_values(totals.iter().map(|total| total.sum));
        let counts = Int64Array::from_iter_values(totals.iter().map(|total| total.count));
        vec![Arc::new(self.decimals(sums)), Arc::new(counts)]
    }
}

impl GroupsAccumulator for Sums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.totals.resize(total_num_groups, Total::default());
        self.update(values, opt_filter, |row| group_indices[row])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let totals = emit_to.take_needed(&mut self.totals);
        self.results(&totals)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let totals = emit_to.take_needed(&mut self.totals);
        Ok(self.states(&totals))
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.totals.resize(total_num_groups, Total::default());
        self.merge(values, |row| group_indices[row])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let (mut totals, mut overflowed) = (vec![Total::default(); values[0].len()], false);
        for_each(&values[0], opt_filter, |row, value| overflowed |= totals[row].add(value, 1))?;
        fitting(overflowed)?;
        Ok(self.states(&totals))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<Total>()
    }
}

/// The sum or average of all rows.
#[derive(Debug)]
pub(crate) struct Sum {
    of: Sums,
}

impl Sum {
    pub fn new(mut of: Sums) -> Sum {
        of.totals.push(Total::default());
        Sum { of }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // A total of its own, which stays in registers.
        let (mut total, mut overflowed) = (Total::default(), false);
        for_each(&values[0], None, |_, value| overflowed |= total.add(value, 1))?;
        fitting(overflowed | self.of.totals[0].add(total.sum, total.count))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.of.results(&self.of.totals)?, 0)
    }

    fn size(&self) -> usize {
        size_of::<Sum>() + self.of.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.of.states(&self.of.totals);
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.of.merge(states, |_| 0)
    }
}

/// Calls `f` with each row that has a number and passes the filter.
pub(crate) fn for_each(
    array: &ArrayRef,
    filter: Option<&BooleanArray>,
    f: impl FnMut(usize, i128),
) -> Result<()> {
    match array.data_type() {
        DataType::Int16 => for_each_of::<Int16Type>(array, filter, f),
        DataType::Int32 => for_each_of::<Int32Type>(array, filter, f),
        DataType::Int64 => for_each_of::<Int64Type>(array, filter, f),
        DataType::Decimal128(..) => for_each_of::<Decimal128Type>(array, filter, f),
        DataType::Null => (),
        of => return internal_err!("a sum of {of}"),
    }
    Ok(())
}

fn for_each_of<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    filter: Option<&BooleanArray>,
    mut f: impl FnMut(usize, i128),
) where
    T::Native: Into<i128>,
{
    let array = array.as_primitive::<T>();
    let values = array.values().iter().enumerate();
    if array.null_count() == 0 && filter.is_none() {
        return values.for_each(|(row, value)| f(row, (*value).into()));
    }
    let passes = |row: usize| filter.is_none_or(|of| of.is_valid(row) && of.value(row));
    for (row, value) in values {
        if array.is_valid(row) && passes(row) {
            f(row, (*value).into());
        }
    }
}
