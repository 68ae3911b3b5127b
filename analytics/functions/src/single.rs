//! `pg_single`: the value of the only row, of any type.
use std::mem::size_of;
use std::sync::Arc;

use datafusion::arrow::array::{
    new_empty_array, Array, ArrayRef, AsArray, BooleanArray, Int64Array,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::error::SqlError;

/// The row of a group; None: there was none.
type Row = Option<ScalarValue>;

/// The rows of groups. Memory: 80 bytes for each group, and long texts.
#[derive(Debug)]
pub(crate) struct Singles {
    of: DataType,
    rows: Vec<Row>,
    /// Bytes of texts and their like.
    bytes: usize,
}

impl Singles {
    /// For values of this type.
    pub fn new(of: &DataType) -> Singles {
        Singles { of: of.clone(), rows: Vec::new(), bytes: 0 }
    }

    fn take(&mut self, group: usize, array: &ArrayRef, row: usize) -> Result<()> {
        if self.rows[group].is_some() {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(SqlError::new("21000", message).into());
        }
        let mut value = ScalarValue::try_from_array(array, row)?;
        value.compact();
        self.bytes += bytes(&value);
        self.rows[group] = Some(value);
        Ok(())
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        group: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let rows = (0..values[0].len()).filter(|row| passes(filter, *row));
        for row in rows {
            self.take(group(row), &values[0], row)?;
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        let filled = counts.values().iter().enumerate().filter(|(_, count)| **count > 0);
        for (row, _) in filled {
            self.take(group(row), &states[0], row)?;
        }
        Ok(())
    }

    fn emitted(&mut self, emit_to: EmitTo) -> Vec<Row> {
        let rows = emit_to.take_needed(&mut self.rows);
        self.bytes -= rows.iter().flatten().map(bytes).sum::<usize>();
        rows
    }

    fn value(&self, row: &Row) -> Result<ScalarValue> {
        match row {
            Some(value) => Ok(value.clone()),
            None => ScalarValue::try_new_null(&self.of),
        }
    }

    fn values(&self, rows: &[Row]) -> Result<ArrayRef> {
        if rows.is_empty() {
            return Ok(new_empty_array(&self.of));
        }
        let values: Result<Vec<_>> = rows.iter().map(|row| self.value(row)).collect();
        ScalarValue::iter_to_array(values?)
    }
}

/// Bytes that a value takes beside its own.
fn bytes(of: &ScalarValue) -> usize {
    of.size().saturating_sub(size_of::<ScalarValue>())
}

fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

fn count(row: &Row) -> i64 {
    row.is_some().into()
}

impl GroupsAccumulator for Singles {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.rows.resize(total_num_groups, None);
        self.update(values, opt_filter, |row| group_indices[row])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let rows = self.emitted(emit_to);
        self.values(&rows)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let rows = self.emitted(emit_to);
        let counts = Int64Array::from_iter_values(rows.iter().map(count));
        Ok(vec![self.values(&rows)?, Arc::new(counts)])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.rows.resize(total_num_groups, None);
        self.merge(values, |row| group_indices[row])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let rows = 0..values[0].len();
        let counts = Int64Array::from_iter_values(rows.map(|row| passes(opt_filter, row).into()));
        Ok(vec![Arc::clone(&values[0]), Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.bytes
    }
}

/// The only row of all.
#[derive(Debug)]
pub(crate) struct Single {
    of: Singles,
}

impl Single {
    /// For values of this type.
    pub fn new(of: &DataType) -> Single {
        Single { of: Singles { rows: vec![None], ..Singles::new(of) } }
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.of.update(values, None, |_| 0)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.of.value(&self.of.rows[0])
    }

    fn size(&self) -> usize {
        size_of::<Single>() + self.of.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let count = count(&self.of.rows[0]);
        Ok(vec![self.evaluate()?, ScalarValue::Int64(Some(count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.of.merge(states, |_| 0)
    }
}
