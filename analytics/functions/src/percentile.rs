//! `pg_percentile_cont` and `pg_percentile_disc`: all values of a group are kept, and sorted at its
//! end. As orderedsetaggs.c they take the value at a part of the rows, or one between two.
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{new_empty_array, Array, ArrayRef, ArrowPrimitiveType, AsArray};
use datafusion::arrow::compute::{concat, filter, is_not_null, sort_to_indices};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{internal_err, Result, ScalarValue};
use datafusion::logical_expr::Accumulator;

use crate::error::SqlError;
use crate::float;

/// Arrays that are kept before they become one.
const ARRAYS_MAX: usize = 64;

/// The values of a group, the part of them that is wanted, and whether the greatest come first.
#[derive(Debug)]
pub(crate) struct Percentile {
    between: bool,
    of: DataType,
    part: f64,
    descending: bool,
    values: Vec<ArrayRef>,
}

/// Whether the dialect has percentiles of a type, at a part and in an order.
pub(crate) fn takes(types: &[DataType]) -> bool {
    use DataType::*;
    let sorts = |of: &DataType| {
        of.is_numeric() || matches!(of, Date32 | Time64(_) | Timestamp(..) | Duration(_))
    };
    matches!(types, [of, Float64, Boolean] if sorts(of))
}

impl Percentile {
    /// `between`: between two values where the part falls between two rows.
    pub fn new(between: bool, of: &DataType) -> Percentile {
        Percentile { between, of: of.clone(), part: 0.0, descending: false, values: Vec::new() }
    }

    fn keep(&mut self, values: ArrayRef) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.values.push(values);
        if self.values.len() > ARRAYS_MAX {
            self.values = vec![self.all()?];
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        let values: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
        match values.as_slice() {
            [] => Ok(new_empty_array(&self.of)),
            values => Ok(concat(values)?),
        }
    }

    /// The rows of the values in their order, as far as it matters.
    fn sorted(&self, values: &ArrayRef) -> Result<Vec<u32>> {
        let mut rows: Vec<u32> = match values.data_type() {
            DataType::Float32 => sorted_floats::<Float32Type>(values),
            DataType::Float64 => sorted_floats::<Float64Type>(values),
            _ => sort_to_indices(values, None, None)?.values().to_vec(),
        };
        if self.descending {
            rows.reverse();
        }
        Ok(rows)
    }
}

fn sorted_floats<T: ArrowPrimitiveType>(values: &ArrayRef) -> Vec<u32>
where
    T::Native: Into<f64>,
{
    let values = values.as_primitive::<T>().values();
    let mut rows: Vec<u32> = (0..values.len() as u32).collect();
    let of = |row: &u32| values[*row as usize].into();
    rows.sort_unstable_by(|l, r| float::compare(of(l), of(r)));
    rows
}

/// Refuses a zero among zeros of both signs: PostgreSQL may take any of them.
fn one_zero(values: &[f64], taken: f64) -> Result<f64, SqlError> {
    let has = |negative: bool| values.iter().any(|v| *v == 0.0 && v.is_sign_negative() == negative);
    match taken == 0.0 && has(true) && has(false) {
        true => Err(SqlError::unsupported("a percentile among zeros of both signs")),
        false => Ok(taken),
    }
}

impl Accumulator for Percentile {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, parts, descending] = values else {
            return internal_err!("a percentile without its part");
        };
        if values.is_empty() {
            return Ok(());
        }
        self.part = parts.as_primitive::<Float64Type>().value(0);
        self.descending = descending.as_boolean().value(0);
        match values.null_count() {
            0 => self.keep(Arc::clone(values)),
            _ => self.keep(filter(values, &is_not_null(values)?)?),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        if all.is_empty() {
            return ScalarValue::try_new_null(&self.of);
        }
        let (rows, count) = (self.sorted(&all)?, all.len() as f64);
        let row = |place: f64| rows[(place as usize).min(rows.len() - 1)] as usize;
        let floats = match self.of {
            DataType::Float32 => {
                all.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)).collect()
            }
            DataType::Float64 => all.as_primitive::<Float64Type>().values().to_vec(),
            _ => Vec::new(),
        };
        if !self.between {
            let row = row(((self.part * count).ceil() - 1.0).max(0.0));
            if let Some(taken) = floats.get(row) {
                one_zero(&floats, *taken)?;
            }
            return ScalarValue::try_from_array(&all, row);
        }
        let place = self.part * (count - 1.0);
        let (first, second) = (place.floor(), place.ceil());
        let at = |place: f64| one_zero(&floats, floats[row(place)]);
        let mut value = at(first)?;
        if first != second {
            if cfg!(not(target_arch = "x86_64")) {
                // PostgreSQL's compiler may round a product and a sum at once.
                return Err(SqlError::unsupported("a value between two on this processor").into());
            }
            value += (place - first) * (at(second)? - value);
        }
        Ok(ScalarValue::Float64(Some(value)))
    }

    fn size(&self) -> usize {
        size_of::<Percentile>()
            + self.values.iter().map(|values| values.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = SingleRowListArrayBuilder::new(self.all()?).build_list_scalar();
        Ok(vec![
            values,
            ScalarValue::Float64(Some(self.part)),
            ScalarValue::Boolean(Some(self.descending)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        for (row, values) in lists.iter().enumerate() {
            let Some(values) = values.filter(|values| !values.is_empty()) else { continue };
            self.part = states[1].as_primitive::<Float64Type>().value(row);
            self.descending = states[2].as_boolean().value(row);
            self.keep(values)?;
        }
        Ok(())
    }
}
