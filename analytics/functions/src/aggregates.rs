//! The aggregates of the dialect.
use std::cmp::Ordering;
use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{internal_err, not_impl_err, plan_err, Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{format_state_name, AggregateOrderSensitivity};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility,
};

use crate::call::{is_text, Texts};
use crate::number::Number;
use crate::percentile::{self, Percentile};
use crate::single::{Single, Singles};
use crate::spread::{self, Spread, Wanted};
use crate::sums::{self, Sum, Sums};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    ExactSum,
    ExactAverage,
    Least,
    Greatest,
    Single,
    Spread(Wanted),
    /// `true`: between two values.
    Percentile(bool),
}

/// An aggregate of the dialect.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Aggregate {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

/// All aggregates.
pub(crate) fn aggregates() -> Vec<Aggregate> {
    let aggregate = |name, kind| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Aggregate { name, kind, signature }
    };
    vec![
        aggregate("pg_sum", Kind::Sum),
        aggregate("pg_avg", Kind::Average),
        aggregate("pg_num_sum", Kind::ExactSum),
        aggregate("pg_num_avg", Kind::ExactAverage),
        aggregate("pg_num_min", Kind::Least),
        aggregate("pg_num_max", Kind::Greatest),
        aggregate("pg_single", Kind::Single),
        aggregate("pg_var_samp", Kind::Spread(Wanted { root: false, sample: true })),
        aggregate("pg_var_pop", Kind::Spread(Wanted { root: false, sample: false })),
        aggregate("pg_stddev_samp", Kind::Spread(Wanted { root: true, sample: true })),
        aggregate("pg_percentile_cont", Kind::Percentile(true)),
        aggregate("pg_percentile_disc", Kind::Percentile(false)),
        aggregate("pg_stddev_pop", Kind::Spread(Wanted { root: true, sample: false })),
    ]
}

impl fmt::Debug for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Aggregate {
    fn sums(&self, args: &AccumulatorArgs) -> Result<Sums> {
        let Some(input) = args.expr_fields.first() else {
            return internal_err!("{} without an argument", self.name);
        };
        let average = self.kind == Kind::Average;
        Ok(Sums::new(average, input.data_type(), args.return_field.data_type()))
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (types.len(), self.kind) {
            (3, Kind::Percentile(_)) | (1, _) => Ok(types.to_vec()),
            (n, _) => plan_err!("{} does not take {n} arguments", self.name),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().unwrap_or(&DataType::Null);
        let text = |known: bool| (known || of.is_null()).then_some(DataType::Utf8View);
        let result = match self.kind {
            Kind::Sum => sums::sum_type(of),
            Kind::Average => text(sums::sum_type(of).is_some()),
            Kind::Single => Some(of.clone()),
            Kind::Spread(_) => text(spread::takes(of)),
            Kind::Percentile(_) => percentile::takes(types).then(|| of.clone()),
            _ => text(is_text(of)),
        };
        match result {
            Some(result) => Ok(result),
            None => plan_err!("{} does not take {of}", self.name),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let input = args.input_fields.first();
        let input = input.map_or(&DataType::Null, |field| field.data_type());
        let types = match self.kind {
            Kind::Sum | Kind::Average => vec![sums::state_type(input), DataType::Int64],
            Kind::ExactSum | Kind::ExactAverage => vec![DataType::Utf8View, DataType::Int64],
            Kind::Least | Kind::Greatest => vec![DataType::Utf8View],
            Kind::Single => vec![input.clone(), DataType::Int64],
            Kind::Spread(_) => vec![DataType::Utf8View, DataType::Utf8View, DataType::Int64],
            Kind::Percentile(_) => {
                let item = Field::new_list_field(input.clone(), true);
                vec![DataType::List(Arc::new(item)), DataType::Float64, DataType::Boolean]
            }
        };
        let field = |(name, of)| Arc::new(Field::new(format_state_name(args.name, name), of, true));
        Ok(["first", "second", "third"].into_iter().zip(types).map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("{} with DISTINCT", self.name);
        }
        Ok(match self.kind {
            Kind::Sum | Kind::Average => Box::new(Sum::new(self.sums(&args)?)),
            Kind::ExactSum => Box::new(ExactSum::new(false)),
            Kind::ExactAverage => Box::new(ExactSum::new(true)),
            Kind::Least => Box::new(Extreme { wanted: Ordering::Less, found: None }),
            Kind::Greatest => Box::new(Extreme { wanted: Ordering::Greater, found: None }),
            Kind::Single => Box::new(Single::new(args.return_field.data_type())),
            Kind::Spread(wanted) => Box::new(Spread::new(wanted)),
            Kind::Percentile(between) => {
                Box::new(Percentile::new(between, args.return_field.data_type()))
            }
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        matches!(self.kind, Kind::Sum | Kind::Average | Kind::Single) && !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.kind {
            Kind::Single => Box::new(Singles::new(args.return_field.data_type())),
            _ => Box::new(self.sums(&args)?),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The exact numbers of an array, with their texts.
pub(crate) fn numbers(array: &ArrayRef) -> Result<Vec<(Number, &str)>> {
    if array.data_type().is_null() {
        return Ok(Vec::new());
    }
    let texts = Texts::new(array, false)?;
    let rows = (0..array.len()).filter(|row| array.is_valid(*row));
    let number = |row| {
        let text = texts.get(row);
        Ok((Number::parse(text)?, text))
    };
    rows.map(number).collect()
}

/// A sum or average of exact numbers. Its digits behind the point are those of the number with
/// the most.
#[derive(Debug)]
struct ExactSum {
    average: bool,
    sum: Number,
    count: i64,
}

impl ExactSum {
    fn new(average: bool) -> ExactSum {
        ExactSum { average, sum: Number::new(0, 0), count: 0 }
    }

    fn text(&self, of: &Number) -> ScalarValue {
        ScalarValue::Utf8View((self.count > 0).then(|| of.to_string()))
    }
}

impl Accumulator for ExactSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (number, _) in numbers(&values[0])? {
            self.sum = self.sum.add(&number)?;
            self.count += 1;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.average && self.count > 0 {
            true => Ok(self.text(&self.sum.div(&Number::new(self.count, 0))?)),
            false => Ok(self.text(&self.sum)),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sum.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.text(&self.sum), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (number, _) in numbers(&states[0])? {
            self.sum = self.sum.add(&number)?;
        }
        self.count += states[1].as_primitive::<Int64Type>().values().iter().sum::<i64>();
        Ok(())
    }
}

/// The least or greatest exact number, as it is written. Of equal ones the last is taken, as
/// numeric_smaller and numeric_larger do.
#[derive(Debug)]
struct Extreme {
    wanted: Ordering,
    found: Option<(Number, String)>,
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (number, text) in numbers(&values[0])? {
            let stays = |(found, _): &(Number, _)| found.compare(&number) == self.wanted;
            if !self.found.as_ref().is_some_and(stays) {
                self.found = Some((number, text.to_owned()));
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.found.as_ref().map(|(_, text)| text.clone())))
    }

    fn size(&self) -> usize {
        let found = self.found.as_ref();
        size_of_val(self) + found.map_or(0, |(number, text)| number.size() + text.capacity())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
