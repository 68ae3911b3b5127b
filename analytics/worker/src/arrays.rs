//! Groups of a snapshot as Arrow's arrays, without copying.

use std::sync::Arc;

use bytes::Bytes;
use chainify_snapshot::{Bitmap, Error, Group, Rows};
use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{ArrowNativeType, SchemaRef};
use datafusion::error::{DataFusionError, Result};

use crate::layout::{Cell, Layout};

/// The rows of a group, with the columns of `projection`, whose schema is `schema`.
///
/// Cost: a few pointers for each column, when all slots of the group have rows; else Arrow's filter.
///
/// # Errors
/// Those of the snapshot.
pub fn batch(
    rows: &Rows,
    layout: &Layout,
    group: usize,
    projection: &[usize],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let slots = rows.slots_in(group);
    let live = rows.live(group).map_err(store)?;
    let cells: Vec<Cell> = layout.cells().collect();
    let columns = projection.iter().map(|place| column(rows, group, *place, cells[*place], slots));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(store)?;
    let options = RecordBatchOptions::new().with_row_count(Some(slots));
    let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
    match live.ones() == slots {
        true => Ok(batch),
        false => Ok(filter_record_batch(&batch, &BooleanArray::new(bits(&live, slots), None))?),
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

fn column(rows: &Rows, group: usize, place: usize, cell: Cell, slots: usize) -> std::result::Result<ArrayRef, Error> {
    let cells = rows.cells(place, group)?;
    let valid = NullBuffer::new(bits(&rows.valid(place, group)?, slots));
    let nulls = (valid.null_count() > 0).then_some(valid);
    Ok(match cell {
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
            Arc::new(Decimal128Array::new(scalars(&cells, slots), nulls).with_data_type(cell.data_type()))
        }
        Cell::Date => Arc::new(Date32Array::new(scalars(&cells, slots), nulls)),
        Cell::Time => Arc::new(Time64MicrosecondArray::new(scalars(&cells, slots), nulls)),
        Cell::Timestamp => Arc::new(TimestampMicrosecondArray::new(scalars(&cells, slots), nulls)),
        Cell::TimestampTz => {
            Arc::new(TimestampMicrosecondArray::new(scalars(&cells, slots), nulls).with_data_type(cell.data_type()))
        }
        Cell::Uuid => Arc::new(FixedSizeBinaryArray::new(16, buffer(&cells).slice_with_length(0, slots * 16), nulls)),
        Cell::Text | Cell::Padded(_) => {
            let (views, buffers) = views(rows, place, &cells, slots)?;
            // SAFETY: the views of rows lead to UTF-8 that this snapshot keeps (V1): the mirror
            // took it from a `str`. Slots without a row are filtered before anything looks there,
            // and no kernel looks at the value of a NULL.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
        }
        Cell::Bytea => {
            let (views, buffers) = views(rows, place, &cells, slots)?;
            // SAFETY: as above; any bytes serve.
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
        }
    })
}

type Views = (ScalarBuffer<u128>, Vec<Buffer>);

fn views(rows: &Rows, place: usize, cells: &Group, slots: usize) -> std::result::Result<Views, Error> {
    let buffers = rows.buffers(place)?.iter().map(buffer).collect();
    Ok((scalars(cells, slots), buffers))
}
