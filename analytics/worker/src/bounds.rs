//! Between which numbers the values of columns lie: the planner of queries estimates by them.

use datafusion::common::ScalarValue;

use crate::layout::{Cell, Layout};

/// The least and the greatest number that a column had. Rows that went may have been the only ones
/// with them.
type Range = Option<(i128, i128)>;

/// The bounds of a table's columns, by place of the store.
#[derive(Clone, Debug, Default)]
pub struct Bounds(Vec<Range>);

impl Bounds {
    /// Those of no rows.
    pub fn of(layout: &Layout) -> Bounds {
        Bounds(vec![None; layout.cells().count()])
    }

    /// Takes the values of a row in.
    pub fn widen(&mut self, layout: &Layout, row: &[Option<&[u8]>]) {
        for ((bounds, cell), value) in self.0.iter_mut().zip(layout.cells()).zip(row) {
            let number = value.filter(|_| is_number(cell)).and_then(number);
            *bounds = match (number, *bounds) {
                (Some(number), Some((least, greatest))) => Some((least.min(number), greatest.max(number))),
                (Some(number), None) => Some((number, number)),
                (None, bounds) => bounds,
            };
        }
    }

    /// The bounds of a column as values of its type; None: there are none.
    pub fn values(&self, layout: &Layout, place: usize) -> Option<(ScalarValue, ScalarValue)> {
        let (cell, (least, greatest)) = (layout.cells().nth(place)?, (*self.0.get(place)?)?);
        Some((value(cell, least)?, value(cell, greatest)?))
    }
}

fn is_number(cell: Cell) -> bool {
    match cell {
        Cell::Int2 | Cell::Int4 | Cell::Int8 | Cell::Decimal { .. } => true,
        Cell::Date | Cell::Time | Cell::Timestamp | Cell::TimestampTz => true,
        Cell::Bool | Cell::Float4 | Cell::Float8 | Cell::Text | Cell::Padded(_) | Cell::Uuid | Cell::Bytea => false,
    }
}

fn number(cell: &[u8]) -> Option<i128> {
    Some(match cell.len() {
        2 => i16::from_le_bytes(cell.try_into().ok()?).into(),
        4 => i32::from_le_bytes(cell.try_into().ok()?).into(),
        8 => i64::from_le_bytes(cell.try_into().ok()?).into(),
        _ => i128::from_le_bytes(cell.try_into().ok()?),
    })
}

fn value(cell: Cell, number: i128) -> Option<ScalarValue> {
    let long = || i64::try_from(number).ok().map(Some);
    Some(match cell {
        Cell::Int2 => ScalarValue::Int16(Some(number.try_into().ok()?)),
        Cell::Int4 => ScalarValue::Int32(Some(number.try_into().ok()?)),
        Cell::Int8 => ScalarValue::Int64(long()?),
        Cell::Decimal { precision, scale } => ScalarValue::Decimal128(Some(number), precision, scale as i8),
        Cell::Date => ScalarValue::Date32(Some(number.try_into().ok()?)),
        Cell::Time => ScalarValue::Time64Microsecond(long()?),
        Cell::Timestamp => ScalarValue::TimestampMicrosecond(long()?, None),
        Cell::TimestampTz => ScalarValue::TimestampMicrosecond(long()?, Some("+00:00".into())),
        _ => return None,
    })
}
