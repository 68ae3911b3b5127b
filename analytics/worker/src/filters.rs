//! The filters of a scan: the conditions of the query, and those that operators above give while it
//! runs, a join the keys of its smaller side and a LIMIT the values that are still wanted.
//!
//! Rows that an operator's filter drops would be dropped above in any case. So it may be left out,
//! and it is where it drops too few rows to be worth its time.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::prep_null_mask_filter;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{internal_err, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{conjunction_opt, PhysicalExpr};

use crate::arrays::Output;

/// A filter is worth its time when it keeps at most one of so many rows.
const KEPT_ONE_OF: usize = 4;
/// Groups that a filter rests after one of which it kept more. Then it is tried again, since a
/// filter can become stricter.
const REST_GROUPS: usize = 15;

/// A condition over columns.
pub type Condition = Arc<dyn PhysicalExpr>;

/// The condition with its columns at other places.
///
/// # Errors
/// A column that has no place, and those of making the condition anew.
pub fn moved(condition: Condition, to: impl Fn(usize) -> Option<usize>) -> Result<Condition> {
    let moved = condition.transform(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let Some(place) = to(column.index()) else { return internal_err!("{column} is not among the columns") };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Condition))
    })?;
    Ok(moved.data)
}

/// A filter of a scan.
#[derive(Debug)]
pub struct Filter {
    condition: Condition,
    /// The columns that it looks at.
    columns: Output,
    may_rest: bool,
    rest: usize,
}

impl Filter {
    /// The filters of a scan of these columns, in the order in which rows go through them.
    ///
    /// `conditions` stay in their order. `optional` ones come before the first condition on a text,
    /// since those look at numbers as a rule and texts cost more.
    ///
    /// # Errors
    /// Those of making conditions anew.
    pub fn all(conditions: &[Condition], optional: &[Condition], schema: &SchemaRef) -> Result<Vec<Filter>> {
        let of_text = |column: &Column| {
            matches!(schema.field(column.index()).data_type(), DataType::Utf8View | DataType::BinaryView)
        };
        let first = conditions.iter().position(|condition| collect_columns(condition).iter().any(of_text));
        let (first, then) = conditions.split_at(first.unwrap_or(conditions.len()));
        let together =
            |conditions: &[Condition]| conjunction_opt(conditions.iter().cloned()).map(|condition| (condition, false));
        let optional = optional.iter().map(|condition| (condition.clone(), true));
        let filters = together(first).into_iter().chain(optional).chain(together(then));
        filters.map(|(condition, may_rest)| Filter::new(condition, may_rest, schema)).collect()
    }

    fn new(condition: Condition, may_rest: bool, schema: &SchemaRef) -> Result<Filter> {
        let mut places: Vec<usize> = collect_columns(&condition).iter().map(Column::index).collect();
        places.sort_unstable();
        let condition = moved(condition, |place| places.binary_search(&place).ok())?;
        let schema = Arc::new(schema.project(&places)?);
        Ok(Filter { condition, columns: Output { places, schema }, may_rest, rest: 0 })
    }

    /// The columns that [`Self::keeps`] wants.
    pub fn columns(&self) -> &Output {
        &self.columns
    }

    /// Whether the filter is worth a look at the next group.
    pub fn is_due(&mut self) -> bool {
        let due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        due
    }

    /// The rows that the filter keeps; None: all of them.
    ///
    /// # Errors
    /// Those of the condition.
    pub fn keeps(&mut self, rows: &RecordBatch) -> Result<Option<BooleanBuffer>> {
        let kept = match self.condition.evaluate(rows)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(None),
            ColumnarValue::Scalar(_) => return Ok(Some(BooleanBuffer::new_unset(rows.num_rows()))),
            ColumnarValue::Array(kept) => match kept.as_boolean() {
                kept if kept.null_count() > 0 => prep_null_mask_filter(kept),
                kept => kept.clone(),
            },
        };
        if self.may_rest && kept.true_count() * KEPT_ONE_OF > rows.num_rows() {
            self.rest = REST_GROUPS;
            return Ok(None);
        }
        Ok(Some(kept.values().clone()))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    /// Eight rows of a number from 0 to 7, and a text.
    fn rows() -> RecordBatch {
        let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..8));
        let text: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a"; 8]));
        RecordBatch::try_from_iter([("text", text), ("number", number)]).unwrap()
    }

    fn below(number: i64) -> Condition {
        let schema = rows().schema();
        binary(col("number", &schema).unwrap(), Operator::Lt, lit(number), &schema).unwrap()
    }

    fn is_a() -> Condition {
        let schema = rows().schema();
        binary(col("text", &schema).unwrap(), Operator::Eq, lit(ScalarValue::Utf8View(Some("a".into()))), &schema)
            .unwrap()
    }

    /// How many of the rows each of the next groups keeps; None: the filter is not looked at.
    fn kept(filter: &mut Filter, groups: usize) -> Vec<Option<usize>> {
        let rows = rows().project(&filter.columns.places).unwrap();
        let group = |_| filter.is_due().then(|| filter.keeps(&rows).unwrap().map_or(8, |kept| kept.count_set_bits()));
        (0..groups).map(group).collect()
    }

    #[test]
    fn a_filter_that_keeps_most_rows_rests_unless_it_is_a_condition() {
        let filters = |number| Filter::all(&[below(number)], &[below(number)], &rows().schema()).unwrap();
        let [condition, optional] = &mut filters(7)[..] else { panic!() };
        assert_eq!(kept(condition, 3), [Some(7); 3]);
        // Not worth taking out one of eight rows: all go up.
        let mut want = vec![None; 17];
        (want[0], want[16]) = (Some(8), Some(8));
        assert_eq!(kept(optional, 17), want);
        assert_eq!(kept(&mut filters(2)[1], 3), [Some(2); 3]);
    }

    #[test]
    fn filters_of_operators_come_before_conditions_on_texts() {
        let order = |conditions: &[Condition]| -> Vec<(bool, usize)> {
            let filters = Filter::all(conditions, &[below(3)], &rows().schema()).unwrap();
            filters.iter().map(|filter| (filter.may_rest, filter.columns.places.len())).collect()
        };
        assert_eq!(order(&[]), [(true, 1)]);
        assert_eq!(order(&[below(5), below(4)]), [(false, 1), (true, 1)]);
        assert_eq!(order(&[is_a(), below(5)]), [(true, 1), (false, 2)]);
        assert_eq!(order(&[below(5), is_a(), below(4)]), [(false, 1), (true, 1), (false, 2)]);
    }

    #[test]
    fn nothing_is_kept_where_a_condition_is_null() {
        let null = lit(ScalarValue::Boolean(None));
        let mut filters = Filter::all(&[null], &[], &rows().schema()).unwrap();
        assert_eq!(kept(&mut filters[0], 1), [Some(0)]);
        let schema = rows().schema();
        let unknown = binary(col("number", &schema).unwrap(), Operator::Lt, lit(ScalarValue::Int64(None)), &schema);
        let mut filters = Filter::all(&[unknown.unwrap()], &[], &schema).unwrap();
        assert_eq!(kept(&mut filters[0], 1), [Some(0)]);
    }
}
