//! The columns of a mirrored table: which have cells of their own, and as what type of Arrow.

use std::sync::Arc;

use chainify_dialect::types::{numeric_modifier, Type};
use chainify_snapshot::Kind;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// A column as the database tells it (`chainify.mirrored_columns`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldColumn {
    /// Its number on the ledger.
    pub ordinal: u16,
    /// Its number in the database: the dialect calls it `c_<attnum>`.
    pub attnum: i16,
    /// Whether the primary key has it.
    pub of_key: bool,
    /// Oid of its type, below domains.
    pub type_oid: u32,
    /// Its type's modifier.
    pub modifier: i32,
}

/// The type of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric(p, s)`
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// `text`, `varchar`
    Text,
    /// `char(n)`, padded to so many characters.
    Padded(usize),
    /// `date`
    Date,
    /// `time`
    Time,
    /// `timestamp`
    Timestamp,
    /// `timestamptz`
    TimestampTz,
    /// `uuid`
    Uuid,
    /// `bytea`
    Bytea,
}

impl Cell {
    /// The cells of a type; None: the column has none.
    fn of(type_oid: u32, modifier: i32) -> Option<Cell> {
        let of = Type::of(type_oid).filter(|of| of.is_mirrored(modifier))?;
        Some(match of {
            Type::Bool => Cell::Bool,
            Type::Int2 => Cell::Int2,
            Type::Int4 => Cell::Int4,
            Type::Int8 => Cell::Int8,
            Type::Float4 => Cell::Float4,
            Type::Float8 => Cell::Float8,
            Type::Numeric => {
                let (precision, scale) = numeric_modifier(modifier)?;
                Cell::Decimal { precision, scale }
            }
            Type::Text => Cell::Text,
            Type::Bpchar => Cell::Padded(usize::try_from(modifier.checked_sub(4)?).unwrap_or(0)),
            Type::Date => Cell::Date,
            Type::Time => Cell::Time,
            Type::Timestamp => Cell::Timestamp,
            Type::TimestampTz => Cell::TimestampTz,
            Type::Uuid => Cell::Uuid,
            Type::Bytea => Cell::Bytea,
            Type::Interval => return None,
        })
    }

    /// How the column store keeps it.
    pub fn kind(self) -> Kind {
        match self {
            Cell::Bool => Kind::Bytes1,
            Cell::Int2 => Kind::Bytes2,
            Cell::Int4 | Cell::Float4 | Cell::Date => Kind::Bytes4,
            Cell::Int8 | Cell::Float8 | Cell::Time | Cell::Timestamp | Cell::TimestampTz => Kind::Bytes8,
            Cell::Decimal { .. } | Cell::Uuid => Kind::Bytes16,
            Cell::Text | Cell::Padded(_) | Cell::Bytea => Kind::Variable,
        }
    }

    /// Its type in a query (spec/analytics.md).
    pub fn data_type(self) -> DataType {
        match self {
            Cell::Bool => DataType::Boolean,
            Cell::Int2 => DataType::Int16,
            Cell::Int4 => DataType::Int32,
            Cell::Int8 => DataType::Int64,
            Cell::Float4 => DataType::Float32,
            Cell::Float8 => DataType::Float64,
            Cell::Decimal { precision, scale } => DataType::Decimal128(precision, scale as i8),
            Cell::Text | Cell::Padded(_) => DataType::Utf8View,
            Cell::Date => DataType::Date32,
            Cell::Time => DataType::Time64(TimeUnit::Microsecond),
            Cell::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Cell::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Cell::Uuid => DataType::FixedSizeBinary(16),
            Cell::Bytea => DataType::BinaryView,
        }
    }
}

/// A column of a mirrored table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As told.
    pub told: ToldColumn,
    /// None: queries cannot name it, and its values are kept as bytes for the digest alone.
    pub cell: Option<Cell>,
}

/// The columns of a mirrored table, and their place in the column store: those with cells first,
/// by ordinal. The last place has the bytes of all other columns, when there are such.
#[derive(Debug)]
pub struct Layout {
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl Layout {
    /// The layout of a table of these columns.
    pub fn new(mut told: Vec<ToldColumn>) -> Layout {
        told.sort_by_key(|column| column.ordinal);
        let columns: Vec<Column> =
            told.into_iter().map(|told| Column { cell: Cell::of(told.type_oid, told.modifier), told }).collect();
        let fields = columns.iter().filter_map(|column| {
            let cell = column.cell?;
            Some(Field::new(format!("c_{}", column.told.attnum), cell.data_type(), true))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Layout { columns, schema }
    }

    /// All columns, by ordinal.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of columns that have some, in their order in the store.
    pub fn cells(&self) -> impl Iterator<Item = Cell> + '_ {
        self.columns.iter().filter_map(|column| column.cell)
    }

    /// The same, and whether the primary key has the column.
    pub fn cells_and_keys(&self) -> impl Iterator<Item = (Cell, bool)> + '_ {
        self.columns.iter().filter_map(|column| Some((column.cell?, column.told.of_key)))
    }

    /// Whether the store has a place for the bytes of other columns.
    pub fn has_rest(&self) -> bool {
        self.columns.iter().any(|column| column.cell.is_none())
    }

    /// The kinds of all places of the store.
    pub fn kinds(&self) -> Vec<Kind> {
        let rest = self.has_rest().then_some(Kind::Variable);
        self.cells().map(Cell::kind).chain(rest).collect()
    }

    /// The columns that queries can name.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether the database still tells these columns.
    pub fn is_of(&self, told: &[ToldColumn]) -> bool {
        let mut told = told.to_vec();
        told.sort_by_key(|column| column.ordinal);
        self.columns.iter().map(|column| &column.told).eq(told.iter())
    }
}
