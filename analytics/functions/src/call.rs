//! Functions of DataFusion from plain Rust: the types, the loop over the rows, and NULL.
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{
    new_null_array, Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, LargeStringArray,
    PrimitiveArray, StringArray, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{internal_err, plan_err, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::SqlError;
use crate::memory::Memory;
use crate::number::Number;

/// The types of the arguments, and those that are constants.
pub(crate) struct Types<'a> {
    pub of: Vec<DataType>,
    pub constants: Vec<Option<&'a ScalarValue>>,
}

impl Types<'_> {
    /// A constant whole number.
    pub fn constant(&self, at: usize) -> Option<i64> {
        match self.constants.get(at).copied().flatten()? {
            ScalarValue::Int16(n) => n.map(i64::from),
            ScalarValue::Int32(n) => n.map(i64::from),
            ScalarValue::Int64(n) => *n,
            _ => None,
        }
    }
}

/// A function of the dialect.
pub(crate) struct Function {
    pub name: &'static str,
    pub arguments: RangeInclusive<usize>,
    /// The type of the result; None: the function does not take these types.
    pub result: fn(&Types) -> Option<DataType>,
    pub run: fn(&Call) -> Result<ArrayRef>,
    signature: Signature,
    memory: Memory,
}

impl Function {
    pub fn new(
        name: &'static str,
        arguments: RangeInclusive<usize>,
        result: fn(&Types) -> Option<DataType>,
        run: fn(&Call) -> Result<ArrayRef>,
    ) -> Function {
        let signature = Signature::user_defined(Volatility::Immutable);
        Function { name, arguments, result, run, signature, memory: Memory::default() }
    }

    /// The same within the memory of all queries.
    pub fn within(self, memory: Memory) -> Function {
        Function { memory, ..self }
    }

    fn result_of(&self, types: &Types) -> Result<DataType> {
        let known = types.of.iter().find(|of| !of.is_null());
        let Some(known) = known else {
            return Ok(DataType::Null);
        };
        // An untyped NULL has the type of another argument, if it can.
        let of = types.of.iter().map(|of| if of.is_null() { known } else { of }.clone()).collect();
        let typed = Types { of, constants: types.constants.clone() };
        match (self.result)(&typed) {
            Some(result) => Ok(result),
            None if types.of.iter().any(DataType::is_null) => Ok(DataType::Null),
            None => plan_err!("{} does not take {:?}", self.name, types.of),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match self.arguments.contains(&types.len()) {
            true => Ok(types.to_vec()),
            false => plan_err!("{} does not take {} arguments", self.name, types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.result_of(&Types { of: types.to_vec(), constants: Vec::new() })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let of = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let types = Types { of, constants: args.scalar_arguments.to_vec() };
        Ok(Arc::new(Field::new(self.name, self.result_of(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let result = args.return_field.data_type().clone();
        let args: Result<Vec<_>> = args.args.iter().map(Argument::new).collect();
        let call = Call { args: args?, rows, result, memory: self.memory.clone() };
        let array = match call.is_null() {
            true => new_null_array(&call.result, rows),
            false => (self.run)(&call)?,
        };
        match constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)),
            false => Ok(ColumnarValue::Array(array)),
        }
    }
}

/// The values of an argument: one for each row, or one for all.
struct Argument {
    array: ArrayRef,
    constant: bool,
}

impl Argument {
    fn new(value: &ColumnarValue) -> Result<Argument> {
        Ok(match value {
            ColumnarValue::Array(array) => Argument { array: Arc::clone(array), constant: false },
            ColumnarValue::Scalar(scalar) => Argument { array: scalar.to_array()?, constant: true },
        })
    }
}

/// A call of a strict function for a batch of rows.
pub(crate) struct Call {
    args: Vec<Argument>,
    rows: usize,
    /// The type of the result.
    pub result: DataType,
    memory: Memory,
}

impl Call {
    /// A constant argument is NULL, and so is each result.
    fn is_null(&self) -> bool {
        let null = |arg: &Argument| {
            arg.array.data_type().is_null() || arg.constant && arg.array.is_null(0)
        };
        self.result.is_null() || self.args.iter().any(null)
    }

    fn nulls(&self) -> Option<NullBuffer> {
        let columns = self.args.iter().filter(|arg| !arg.constant);
        columns.fold(None, |nulls, arg| NullBuffer::union(nulls.as_ref(), arg.array.nulls()))
    }

    /// Bytes of a result of texts.
    pub fn text_bytes_max(&self) -> usize {
        self.memory.batch_bytes_max
    }

    pub fn count(&self) -> usize {
        self.args.len()
    }

    pub fn type_of(&self, at: usize) -> &DataType {
        self.args[at].array.data_type()
    }

    /// The numbers of an argument as they are in memory.
    pub fn values<T: ArrowPrimitiveType>(&self, at: usize) -> Result<Values<'_, T>> {
        let Argument { array, constant } = &self.args[at];
        match array.as_primitive_opt::<T>() {
            Some(array) => Ok(Values { values: array.values(), constant: *constant }),
            None => internal_err!("a function got {}", array.data_type()),
        }
    }

    /// The texts of an argument.
    pub fn texts(&self, at: usize) -> Result<Texts<'_>> {
        let Argument { array, constant } = &self.args[at];
        Texts::new(array, *constant)
    }

    /// The whole numbers of an argument.
    pub fn integers(&self, at: usize) -> Result<Integers<'_>> {
        Ok(match self.type_of(at) {
            DataType::Int16 => Integers::Small(self.values(at)?),
            DataType::Int32 => Integers::Medium(self.values(at)?),
            _ => Integers::Big(self.values(at)?),
        })
    }

    /// Numbers of every exact type.
    pub fn numbers(&self, at: usize) -> Result<Numbers<'_>> {
        Ok(match self.type_of(at) {
            DataType::Decimal128(_, scale) => {
                Numbers::Decimals(self.values(at)?, scale.unsigned_abs().into())
            }
            of if of.is_integer() => Numbers::Integers(self.integers(at)?),
            _ => Numbers::Texts(self.texts(at)?),
        })
    }

    /// An argument as it is, with the row of it that belongs to a row of the batch.
    pub fn array(&self, at: usize) -> (&dyn Array, impl Fn(usize) -> usize + use<>) {
        let Argument { array, constant } = &self.args[at];
        let constant = *constant;
        (array.as_ref(), move |row| if constant { 0 } else { row })
    }

    /// The only argument, unchanged.
    pub fn same(&self) -> Result<ArrayRef> {
        Ok(Arc::clone(&self.args[0].array))
    }

    /// The only value of a constant argument, or None.
    pub fn constant_text(&self, at: usize) -> Result<Option<&str>> {
        match self.args[at].constant {
            true => Ok(Some(self.texts(at)?.get(0))),
            false => Ok(None),
        }
    }

    /// A result of numbers: `f` for each row without NULL.
    pub fn primitive<T: ArrowPrimitiveType>(
        &self,
        mut f: impl FnMut(usize) -> Result<T::Native, SqlError>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut values = Vec::with_capacity(self.rows);
        match &nulls {
            None => {
                for row in 0..self.rows {
                    values.push(f(row)?);
                }
            }
            Some(nulls) => {
                for row in 0..self.rows {
                    values.push(if nulls.is_null(row) { T::default_value() } else { f(row)? });
                }
            }
        }
        let array = PrimitiveArray::<T>::new(values.into(), nulls);
        Ok(Arc::new(array.with_data_type(self.result.clone())))
    }

    /// The same of two arguments and a function that cannot fail: it also sees the values below
    /// NULLs, which can be any. Compilers make it a loop of few instructions.
    pub fn of_two<T: ArrowPrimitiveType>(
        &self,
        mut f: impl FnMut(T::Native, T::Native) -> T::Native,
    ) -> Result<ArrayRef> {
        let (left, right) = (self.values::<T>(0)?, self.values::<T>(1)?);
        let one = |of: &Values<T>| of.values.first().copied().unwrap_or_default();
        let values: Vec<T::Native> = match (left.constant, right.constant) {
            (false, false) => {
                left.values.iter().zip(right.values).map(|(l, r)| f(*l, *r)).collect()
            }
            (true, false) => right.values.iter().map(|r| f(one(&left), *r)).collect(),
            (false, true) => left.values.iter().map(|l| f(*l, one(&right))).collect(),
            (true, true) => vec![f(one(&left), one(&right)); self.rows],
        };
        let array = PrimitiveArray::<T>::new(values.into(), self.nulls());
        Ok(Arc::new(array.with_data_type(self.result.clone())))
    }

    /// The same of a function that has NULL for some values.
    pub fn nullable<T: ArrowPrimitiveType>(
        &self,
        f: impl Fn(usize) -> Result<Option<T::Native>, SqlError>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut values = Vec::with_capacity(self.rows);
        for row in 0..self.rows {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            values.push(if null { None } else { f(row)? });
        }
        let array = PrimitiveArray::<T>::from_iter(values);
        Ok(Arc::new(array.with_data_type(self.result.clone())))
    }

    /// A result of booleans.
    pub fn booleans(&self, mut f: impl FnMut(usize) -> Result<bool, SqlError>) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut values = Vec::with_capacity(self.rows);
        for row in 0..self.rows {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            values.push(!null && f(row)?);
        }
        Ok(Arc::new(BooleanArray::new(values.into(), nulls)))
    }

    /// A result of texts, which `f` appends to an empty text.
    pub fn written(
        &self,
        f: impl Fn(usize, &mut String) -> Result<(), SqlError>,
    ) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut builder = StringViewBuilder::with_capacity(self.rows);
        let (mut text, mut batch) = (String::new(), self.memory.batch());
        for row in 0..self.rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                builder.append_null();
                continue;
            }
            text.clear();
            f(row, &mut text)?;
            batch.grow(text.len())?;
            builder.append_value(&text);
        }
        Ok(Arc::new(builder.finish()))
    }

    /// A result of texts that are parts of an argument's.
    pub fn slices<'a>(&self, f: impl Fn(usize) -> Result<&'a str, SqlError>) -> Result<ArrayRef> {
        let nulls = self.nulls();
        let mut builder = StringViewBuilder::with_capacity(self.rows);
        let mut batch = self.memory.batch();
        for row in 0..self.rows {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                builder.append_null();
                continue;
            }
            let text = f(row)?;
            batch.grow(text.len())?;
            builder.append_value(text);
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Rows of the batch without NULL, for results of other types.
    pub fn rows(&self) -> impl Iterator<Item = Option<usize>> {
        let nulls = self.nulls();
        (0..self.rows).map(move |row| {
            let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!null).then_some(row)
        })
    }
}

/// Numbers of an argument.
pub(crate) struct Values<'a, T: ArrowPrimitiveType> {
    values: &'a [T::Native],
    constant: bool,
}

impl<T: ArrowPrimitiveType> Values<'_, T> {
    #[inline]
    pub fn get(&self, row: usize) -> T::Native {
        self.values[if self.constant { 0 } else { row }]
    }
}

/// Texts of an argument.
pub(crate) struct Texts<'a> {
    of: TextArray<'a>,
    constant: bool,
}

enum TextArray<'a> {
    View(&'a StringViewArray),
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
}

impl<'a> Texts<'a> {
    pub fn new(array: &'a dyn Array, constant: bool) -> Result<Texts<'a>> {
        let of = match array.data_type() {
            DataType::Utf8View => TextArray::View(array.as_string_view()),
            DataType::Utf8 => TextArray::Small(array.as_string()),
            DataType::LargeUtf8 => TextArray::Large(array.as_string()),
            of => return internal_err!("a function of texts got {of}"),
        };
        Ok(Texts { of, constant })
    }

    #[inline]
    pub fn get(&self, row: usize) -> &'a str {
        let row = if self.constant { 0 } else { row };
        match self.of {
            TextArray::View(array) => array.value(row),
            TextArray::Small(array) => array.value(row),
            TextArray::Large(array) => array.value(row),
        }
    }
}

/// Whole numbers of an argument.
pub(crate) enum Integers<'a> {
    Small(Values<'a, Int16Type>),
    Medium(Values<'a, Int32Type>),
    Big(Values<'a, Int64Type>),
}

impl Integers<'_> {
    pub fn get(&self, row: usize) -> i64 {
        match self {
            Integers::Small(values) => values.get(row).into(),
            Integers::Medium(values) => values.get(row).into(),
            Integers::Big(values) => values.get(row),
        }
    }

    /// One of 32 bits; the nearest one where there is none.
    pub fn get_i32(&self, row: usize) -> i32 {
        self.get(row).clamp(i32::MIN.into(), i32::MAX.into()) as i32
    }
}

/// Numbers of an argument, of an exact type.
pub(crate) enum Numbers<'a> {
    Decimals(Values<'a, Decimal128Type>, u32),
    Integers(Integers<'a>),
    Texts(Texts<'a>),
}

impl Numbers<'_> {
    pub fn get(&self, row: usize) -> Result<Number, SqlError> {
        match self {
            Numbers::Decimals(values, scale) => Ok(Number::new(values.get(row), *scale)),
            Numbers::Integers(values) => Ok(Number::new(values.get(row), 0)),
            Numbers::Texts(texts) => Number::parse(texts.get(row)),
        }
    }
}

/// Whether values of the type are texts.
pub(crate) fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether the type is one of the worker's whole numbers.
pub(crate) fn is_whole(of: &DataType) -> bool {
    matches!(of, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// Whether the type holds numbers exactly.
pub(crate) fn is_exact(of: &DataType) -> bool {
    is_text(of) || is_whole(of) || matches!(of, DataType::Decimal128(_, 0..))
}
