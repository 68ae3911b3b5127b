//! Groups of a snapshot as Arrow's arrays, without copying.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chainify_snapshot::{Bitmap, Error, Group, Rows, INLINE_BYTES_MAX};
use datafusion::arrow::array::{
    ArrayRef, AsArray, BinaryViewArray, BooleanArray, BooleanBufferBuilder, ByteView, Date32Array, Decimal128Array,
    FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    RecordBatchOptions, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::{FilterBuilder, FilterPredicate};
use datafusion::arrow::datatypes::{ArrowNativeType, Decimal128Type, SchemaRef};
use datafusion::error::{DataFusionError, Result};

use crate::filters::Filter;
use crate::layout::Cell;
use crate::views::TableView;

/// Columns of a batch.
#[derive(Clone, Debug)]
pub struct Output {
    /// Their places among [`Columns`].
    pub places: Vec<usize>,
    /// Their names and types.
    pub schema: SchemaRef,
}

/// Some columns of a table's rows.
pub struct Columns {
    rows: Rows,
    schema: SchemaRef,
    columns: Vec<Column>,
}

struct Column {
    place: usize,
    cell: Cell,
    /// The bytes of all its long values.
    buffers: Vec<Group>,
}

impl Columns {
    /// The columns of `projection`. Cost: a few pointers for each column and each buffer of long
    /// values.
    ///
    /// # Errors
    /// Those of the snapshot, and of a column that is not there.
    pub fn new(table: &TableView, projection: &[usize]) -> Result<Columns> {
        let schema = Arc::new(table.layout.schema().project(projection)?);
        let cells: Vec<Cell> = table.layout.cells().collect();
        let columns = projection.iter().map(|place| {
            let buffers = table.rows.buffers(*place).map_err(store)?;
            Ok(Column { place: *place, cell: cells[*place], buffers })
        });
        Ok(Columns { rows: table.rows.clone(), schema, columns: columns.collect::<Result<_>>()? })
    }

    /// Their names and types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of a group that filters keep, with the columns of `output`; None: there are none.
    /// Cost: a few pointers for each column, when all slots of the group have rows that are kept;
    /// else Arrow's filter. The views of long values are copied.
    ///
    /// # Errors
    /// Those of the snapshot and of filters.
    pub fn batch(&self, group: usize, filters: &mut [Filter], output: &Output) -> Result<Option<RecordBatch>> {
        let slots = self.rows.slots_in(group);
        let live = self.rows.live(group).map_err(store)?;
        let mut chosen = match live.ones() == slots {
            true => Chosen::all(slots),
            false => Chosen::some(bits(&live, slots)),
        };
        for filter in filters.iter_mut().filter_map(|filter| filter.is_due().then_some(filter)) {
            let keys = self.read(group, filter.columns(), &chosen)?;
            if let Some(kept) = filter.keeps(&keys)? {
                chosen = chosen.and(kept);
            }
            if chosen.count == 0 {
                return Ok(None);
            }
        }
        self.read(group, output, &chosen).map(Some)
    }

    /// Some columns of the rows that were chosen.
    fn read(&self, group: usize, output: &Output, chosen: &Chosen) -> Result<RecordBatch> {
        let columns = output.places.iter().map(|place| column(&self.rows, group, &self.columns[*place], chosen));
        let options = RecordBatchOptions::new().with_row_count(Some(chosen.count));
        Ok(RecordBatch::try_new_with_options(output.schema.clone(), columns.collect::<Result<_>>()?, &options)?)
    }
}

/// Some rows of a group.
struct Chosen {
    /// Of which slots; None: of all.
    slots: Option<(BooleanBuffer, FilterPredicate)>,
    count: usize,
}

impl Chosen {
    fn all(slots: usize) -> Chosen {
        Chosen { slots: None, count: slots }
    }

    fn some(slots: BooleanBuffer) -> Chosen {
        let rows = FilterBuilder::new(&BooleanArray::new(slots.clone(), None)).optimize().build();
        Chosen { count: rows.count(), slots: Some((slots, rows)) }
    }

    /// Those of them that are kept.
    fn and(&self, kept: BooleanBuffer) -> Chosen {
        let Some((slots, _)) = &self.slots else { return Chosen::some(kept) };
        let mut both = BooleanBufferBuilder::new(slots.len());
        both.append_n(slots.len(), false);
        for (slot, kept) in slots.set_indices().zip(&kept) {
            both.set_bit(slot, kept);
        }
        Chosen::some(both.finish())
    }
}

fn store(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn buffer(group: &Group) -> Buffer {
    Buffer::from(Bytes::from_owner(group.clone()))
}

fn bits(bitmap: &Bitmap, slots: usize) -> BooleanBuffer {
    BooleanBuffer::new(buffer(bitmap.bytes()), 0, slots)
}

fn scalars<T: ArrowNativeType>(cells: &Group, slots: usize) -> ScalarBuffer<T> {
    ScalarBuffer::new(buffer(cells), 0, slots)
}

/// The values of a column in the rows that were chosen.
fn column(rows: &Rows, group: usize, of: &Column, chosen: &Chosen) -> Result<ArrayRef> {
    let slots = rows.slots_in(group);
    let cells = rows.cells(of.place, group).map_err(store)?;
    let valid = NullBuffer::new(bits(&rows.valid(of.place, group).map_err(store)?, slots));
    let nulls = (valid.null_count() > 0).then_some(valid);
    let rows = chosen.slots.as_ref().map(|(_, rows)| rows);
    let array: ArrayRef = match of.cell {
        Cell::Bool => {
            let set = cells[..slots].iter().map(|byte| *byte != 0);
            Arc::new(BooleanArray::new(BooleanBuffer::from_iter(set), nulls))
        }
        Cell::Int2 => Arc::new(Int16Array::new(scalars(&cells, slots), nulls)),
        Cell::Int4 => Arc::new(Int32Array::new(scalars(&cells, slots), nulls)),
        Cell::Int8 => Arc::new(Int64Array::new(scalars(&cells, slots), nulls)),
        Cell::Float4 => Arc::new(Float32Array::new(scalars(&cells, slots), nulls)),
        Cell::Float8 => Arc::new(Float64Array::new(scalars(&cells, slots), nulls)),
        Cell::Decimal { .. } => {
            Arc::new(Decimal128Array::new(scalars(&cells, slots), nulls).with_data_type(of.cell.data_type()))
        }
        Cell::Date => Arc::new(Date32Array::new(scalars(&cells, slots), nulls)),
        Cell::Time => Arc::new(Time64MicrosecondArray::new(scalars(&cells, slots), nulls)),
        Cell::Timestamp => Arc::new(TimestampMicrosecondArray::new(scalars(&cells, slots), nulls)),
        Cell::TimestampTz => {
            Arc::new(TimestampMicrosecondArray::new(scalars(&cells, slots), nulls).with_data_type(of.cell.data_type()))
        }
        Cell::Uuid => Arc::new(FixedSizeBinaryArray::new(16, buffer(&cells).slice_with_length(0, slots * 16), nulls)),
        Cell::Text | Cell::Padded(_) | Cell::Bytea => {
            return variable(of, Decimal128Array::new(scalars(&cells, slots), nulls), rows)
        }
    };
    Ok(match rows {
        Some(rows) => rows.filter(&array)?,
        None => array,
    })
}

/// The values of a column of variable length: `cells` are their views.
fn variable(of: &Column, cells: Decimal128Array, rows: Option<&FilterPredicate>) -> Result<ArrayRef> {
    let cells = match rows {
        Some(rows) => rows.filter(&cells)?.as_primitive::<Decimal128Type>().clone(),
        None => cells,
    };
    let (_, cells, nulls) = cells.into_parts();
    let (views, buffers) = views(&of.buffers, ScalarBuffer::from(cells.into_inner()));
    Ok(match of.cell {
        // SAFETY: any bytes serve; `views` gives each view its place in the part.
        Cell::Bytea => Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) }),
        // SAFETY: as above, and the views of rows lead to UTF-8 that this snapshot keeps (V1): the
        // mirror took it from a `str`. Slots without a row are not among the chosen ones, and no
        // kernel looks at the value of a NULL.
        _ => Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) }),
    })
}

type Views = (ScalarBuffer<u128>, Vec<Buffer>);

/// The views of a group, and the parts of buffers that they lead to. With all of its column's
/// buffers, a batch would count as large as the table where DataFusion puts batches together or
/// accounts for memory.
fn views(buffers: &[Group], views: ScalarBuffer<u128>) -> Views {
    let mut parts: Vec<(u32, Range<u32>)> = Vec::new();
    if !buffers.is_empty() {
        views.iter().for_each(|view| widen(&mut parts, *view));
    }
    if parts.is_empty() {
        return (views, Vec::new());
    }
    let mut last = 0;
    let moved = views.iter().map(|view| {
        if is_inline(*view) {
            return *view;
        }
        let view = ByteView::from(*view);
        if parts[last].0 != view.buffer_index {
            last = parts.iter().position(|(number, _)| *number == view.buffer_index).unwrap_or(0);
        }
        let offset = view.offset - parts[last].1.start;
        ByteView { buffer_index: last as u32, offset, ..view }.as_u128()
    });
    let moved = moved.collect();
    let part = |(number, range): &(u32, Range<u32>)| {
        let bytes = Bytes::from_owner(buffers[*number as usize].clone());
        Buffer::from(bytes.slice(range.start as usize..range.end as usize))
    };
    (moved, parts.iter().map(part).collect())
}

/// Whether a view has the whole value: its length comes first.
fn is_inline(view: u128) -> bool {
    view as u32 as usize <= INLINE_BYTES_MAX
}

/// Takes the place of a value into the parts. Values stand one behind the other, so that nearly
/// always the last part is the one.
fn widen(parts: &mut Vec<(u32, Range<u32>)>, view: u128) {
    if is_inline(view) {
        return;
    }
    let view = ByteView::from(view);
    let (start, end) = (view.offset, view.offset + view.length);
    match parts.iter_mut().rev().find(|(number, _)| *number == view.buffer_index) {
        Some((_, range)) => *range = range.start.min(start)..range.end.max(end),
        None => parts.push((view.buffer_index, start..end)),
    }
}

#[cfg(test)]
mod tests {
    use chainify_dialect::types::Type;
    use chainify_snapshot::{Pool, Table};
    use datafusion::arrow::array::Array;

    use super::*;
    use crate::bounds::Bounds;
    use crate::layout::{Layout, ToldColumn};

    /// A table of one column of texts.
    fn texts(values: &[Option<String>]) -> TableView {
        let told = ToldColumn { ordinal: 1, attnum: 1, of_key: true, type_oid: 25, modifier: -1 };
        assert_eq!(Type::of(25), Some(Type::Text));
        let layout = Arc::new(Layout::new(vec![told]));
        let mut table = Table::new(&Pool::new(1 << 30), &layout.kinds()).unwrap();
        for value in values {
            table.insert(&[value.as_deref().map(str::as_bytes)]).unwrap();
        }
        TableView { rows: table.snapshot().unwrap(), bounds: Bounds::of(&layout), layout }
    }

    #[test]
    fn a_batch_has_the_values_of_its_group_and_no_others() {
        let value = |n: usize| match n % 7 {
            0 => None,
            1 => Some(n.to_string()),
            _ => Some(format!("{n} {}", "x".repeat(n % 300))),
        };
        let values: Vec<_> = (0..40_000).map(value).collect();
        let columns = Columns::new(&texts(&values), &[0]).unwrap();
        assert!(columns.columns[0].buffers.len() > 3);
        let output = Output { places: vec![0], schema: columns.schema().clone() };
        let mut seen = 0;
        for group in 0..5 {
            let batch = columns.batch(group, &mut [], &output).unwrap().unwrap();
            let array = batch.column(0).as_string_view();
            for row in 0..array.len() {
                let want = &values[seen + row];
                assert_eq!(array.is_valid(row).then(|| array.value(row)), want.as_deref());
            }
            let bytes: usize = values[seen..seen + array.len()].iter().flatten().map(String::len).sum();
            assert!(array.data_buffers().iter().map(Buffer::capacity).sum::<usize>() <= bytes);
            seen += array.len();
        }
        assert_eq!(seen, values.len());
    }
}
