//! Groups of a snapshot as Arrow's arrays, without copying.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chainify_snapshot::{Bitmap, Error, Group, Rows, INLINE_BYTES_MAX};
use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, ByteView, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{ArrowNativeType, SchemaRef};
use datafusion::error::{DataFusionError, Result};

use crate::layout::Cell;
use crate::views::TableView;

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

    /// The rows of a group. Cost: a few pointers for each column, when all slots of the group have
    /// rows; else Arrow's filter. The views of long values are copied.
    ///
    /// # Errors
    /// Those of the snapshot.
    pub fn batch(&self, group: usize) -> Result<RecordBatch> {
        let slots = self.rows.slots_in(group);
        let live = self.rows.live(group).map_err(store)?;
        let columns = self.columns.iter().map(|of| column(&self.rows, group, of, slots));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(store)?;
        let options = RecordBatchOptions::new().with_row_count(Some(slots));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        match live.ones() == slots {
            true => Ok(batch),
            false => Ok(filter_record_batch(&batch, &BooleanArray::new(bits(&live, slots), None))?),
        }
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

fn column(rows: &Rows, group: usize, of: &Column, slots: usize) -> std::result::Result<ArrayRef, Error> {
    let cells = rows.cells(of.place, group)?;
    let valid = NullBuffer::new(bits(&rows.valid(of.place, group)?, slots));
    let nulls = (valid.null_count() > 0).then_some(valid);
    Ok(match of.cell {
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
        Cell::Text | Cell::Padded(_) => {
            let (views, buffers) = views(&of.buffers, &cells, slots);
            // SAFETY: the views of rows lead to UTF-8 that this snapshot keeps (V1): the mirror
            // took it from a `str`, and `views` gives each view its place in the part. Slots without
            // a row are filtered before anything looks there,
            // and no kernel looks at the value of a NULL.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
        }
        Cell::Bytea => {
            let (views, buffers) = views(&of.buffers, &cells, slots);
            // SAFETY: as above; any bytes serve.
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
        }
    })
}

type Views = (ScalarBuffer<u128>, Vec<Buffer>);

/// The views of a group, and the parts of buffers that they lead to. With all of its column's
/// buffers, a batch would count as large as the table where DataFusion puts batches together or
/// accounts for memory.
fn views(buffers: &[Group], cells: &Group, slots: usize) -> Views {
    let views = scalars::<u128>(cells, slots);
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
    use datafusion::arrow::array::{Array, AsArray};

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
        let mut seen = 0;
        for group in 0..5 {
            let batch = columns.batch(group).unwrap();
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
