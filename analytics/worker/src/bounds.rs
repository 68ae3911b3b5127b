//! Between which numbers the values of columns lie, and which columns are in order: the planner of
//! queries looks at them.

use datafusion::common::ScalarValue;

use crate::cells::NAN_DECIMAL;
use crate::layout::{Cell, Layout};

/// The values of a column.
#[derive(Clone, Copy, Debug)]
struct Values {
    /// The least and the greatest number that there was. Rows that went may have been the only ones
    /// with them.
    range: Option<(i128, i128)>,
    /// Whether each value is a number, and at least the one of the row before.
    ascending: bool,
}

/// Where a row comes to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind all other rows.
    Behind,
    /// Between other rows.
    Between,
    /// In the place of the row that had its key.
    Same,
}

/// The bounds of a table's columns, by place of the store.
#[derive(Clone, Debug, Default)]
pub struct Bounds(Vec<Values>);

impl Bounds {
    /// Those of no rows.
    pub fn of(layout: &Layout) -> Bounds {
        Bounds(layout.cells().map(|cell| Values { range: None, ascending: is_number(cell) }).collect())
    }

    /// Takes the values of a row in. Cost: a comparison for each column.
    pub fn widen(&mut self, layout: &Layout, row: &[Option<&[u8]>], place: Place) {
        for ((values, (cell, of_key)), value) in self.0.iter_mut().zip(layout.cells_and_keys()).zip(row) {
            let number = value.filter(|_| is_number(cell)).and_then(number);
            values.ascending &= match place {
                Place::Behind => number.is_some_and(|number| values.range.is_none_or(|(_, most)| number >= most)),
                Place::Between => false,
                Place::Same => of_key,
            };
            values.range = match (number, values.range) {
                (Some(number), Some((least, greatest))) => Some((least.min(number), greatest.max(number))),
                (Some(number), None) => Some((number, number)),
                (None, range) => range,
            };
        }
    }

    /// Whether the rows stand in the order of a column that is never NULL.
    pub fn are_ascending(&self, place: usize) -> bool {
        self.0.get(place).is_some_and(|values| values.ascending)
    }

    /// Whether a column of decimals has, or once had, a NaN.
    pub fn have_nan(&self, layout: &Layout, place: usize) -> bool {
        let decimal = matches!(layout.cells().nth(place), Some(Cell::Decimal { .. }));
        decimal && self.0.get(place).is_some_and(|values| values.range.is_some_and(|(_, most)| most == NAN_DECIMAL))
    }

    /// The bounds of a column as values of its type; None: there are none. Not for a column with NaN.
    pub fn values(&self, layout: &Layout, place: usize) -> Option<(ScalarValue, ScalarValue)> {
        let (cell, (least, greatest)) = (layout.cells().nth(place)?, self.0.get(place)?.range?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ToldColumn;

    /// Bounds of a key and another column after rows of both, each at its place.
    fn of(rows: &[(Option<i64>, Option<i64>, Place)]) -> (Layout, Bounds) {
        let told = |ordinal: u16| ToldColumn {
            ordinal,
            attnum: ordinal as i16,
            of_key: ordinal == 1,
            type_oid: 20,
            modifier: -1,
        };
        let layout = Layout::new(vec![told(1), told(2)]);
        let mut bounds = Bounds::of(&layout);
        for (key, other, place) in rows {
            let (key, other) = (key.map(i64::to_le_bytes), other.map(i64::to_le_bytes));
            bounds.widen(&layout, &[key.as_ref().map(|key| &key[..]), other.as_ref().map(|other| &other[..])], *place);
        }
        (layout, bounds)
    }

    fn ascending(rows: &[(Option<i64>, Option<i64>, Place)]) -> [bool; 2] {
        let (_, bounds) = of(rows);
        [bounds.are_ascending(0), bounds.are_ascending(1)]
    }

    #[test]
    fn rows_are_in_order_while_each_comes_behind_with_a_greater_value() {
        use Place::{Behind, Between, Same};
        let first = [(Some(-3), Some(7), Behind), (Some(4), Some(7), Behind)];
        let then = |row| ascending(&[&first[..], &[row]].concat());
        assert_eq!(ascending(&first), [true, true]);
        assert_eq!(then((Some(4), Some(8), Behind)), [true, true]);
        assert_eq!(then((Some(3), Some(8), Behind)), [false, true]);
        assert_eq!(then((Some(5), None, Behind)), [true, false]);
        assert_eq!(then((Some(9), Some(9), Between)), [false, false]);
        assert_eq!(then((Some(-3), Some(9), Same)), [true, false], "an update keeps the key");
        assert!(!of(&first).1.are_ascending(2), "no such column");
    }

    #[test]
    fn bounds_are_of_all_rows_that_there_were() {
        let (layout, bounds) = of(&[(Some(2), None, Place::Behind), (Some(-9), None, Place::Between)]);
        assert_eq!(bounds.values(&layout, 0), Some((ScalarValue::Int64(Some(-9)), ScalarValue::Int64(Some(2)))));
        assert_eq!(bounds.values(&layout, 1), None);
    }
}
