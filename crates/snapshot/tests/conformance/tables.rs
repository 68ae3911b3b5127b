//! Tables: kinds of columns, NULL, deletion, reuse of slots, growth over groups, compaction.

use chainify_snapshot::{Error, Kind, Rows, Table, GROUP_ROWS, INLINE_BYTES_MAX, VIEW_BYTES};

use super::{each, MIB};

fn text(n: usize) -> String {
    format!("the value of row {n}, too long to stand in its view")
}

#[test]
fn every_kind_of_column_keeps_values_and_nulls() {
    let kinds = [Kind::Bytes1, Kind::Bytes2, Kind::Bytes4, Kind::Bytes8, Kind::Bytes16, Kind::Variable];
    each(32 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &kinds).unwrap();
        let wide = text(1);
        let full: [Option<&[u8]>; 6] =
            [Some(&[1]), Some(&[2; 2]), Some(&[3; 4]), Some(&[4; 8]), Some(&[5; 16]), Some(wide.as_bytes())];
        let full_slot = table.insert(&full).unwrap();
        let null_slot = table.insert(&[None; 6]).unwrap();
        let empty_slot = table.insert(&[full[0], None, full[2], None, full[4], Some(b"")]).unwrap();
        let rows = table.snapshot().unwrap();
        table.replace(full_slot, &[None; 6]).unwrap();
        table.replace(null_slot, &full).unwrap();
        let owned = |row: &[Option<&[u8]>]| -> Vec<_> { row.iter().map(|v| v.map(<[u8]>::to_vec)).collect() };
        assert_eq!(rows.row(full_slot).unwrap().unwrap(), owned(&full));
        assert_eq!(rows.row(null_slot).unwrap().unwrap(), owned(&[None; 6]));
        assert_eq!(rows.row(empty_slot).unwrap().unwrap()[5], Some(Vec::new()), "empty is another value than NULL");
        assert_eq!(rows.valid(1, 0).unwrap().ones(), 1);
        for (column, kind) in kinds.iter().enumerate() {
            assert_eq!(table.value(full_slot, column).unwrap(), None);
            assert_eq!(table.value(null_slot, column).unwrap().as_deref(), full[column]);
            assert_eq!(rows.cells(column, 0).unwrap().len(), kind.cell_bytes() * GROUP_ROWS);
        }
    });
}

/// The value of a view, read by the layout of Arrow's specification and nothing of the crate.
fn by_the_layout(view: &[u8], buffers: &[&[u8]]) -> Vec<u8> {
    let number = |at: usize| i32::from_le_bytes(view[at..at + 4].try_into().unwrap()) as usize;
    let length = number(0);
    if length <= 12 {
        assert!(view[4 + length..].iter().all(|byte| *byte == 0), "zeros behind a short value");
        return view[4..4 + length].to_vec();
    }
    let value = &buffers[number(8)][number(12)..][..length];
    assert_eq!(&view[4..8], &value[..4], "the prefix");
    value.to_vec()
}

#[test]
fn views_are_those_of_arrow() {
    each(32 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Variable]).unwrap();
        let values: Vec<Vec<u8>> =
            (0..40).chain([100_000, 65_536, 5]).map(|length| vec![length as u8; length]).collect();
        for value in &values {
            table.insert(&[Some(value)]).unwrap();
        }
        table.delete(3).unwrap();
        let rows = table.snapshot().unwrap();
        let buffers = rows.buffers(0).unwrap();
        let buffers: Vec<&[u8]> = buffers.iter().map(|buffer| &buffer[..]).collect();
        let long: usize = values.iter().map(Vec::len).filter(|length| *length > INLINE_BYTES_MAX).sum();
        assert_eq!(buffers.iter().map(|buffer| buffer.len()).sum::<usize>(), long, "nothing behind the last value");
        let cells = rows.cells(0, 0).unwrap();
        for (slot, view) in cells.chunks(VIEW_BYTES).enumerate() {
            let want = if slot == 3 { &[][..] } else { values.get(slot).map_or(&[][..], Vec::as_slice) };
            assert_eq!(by_the_layout(view, &buffers), want, "slot {slot}");
        }
        assert_eq!(INLINE_BYTES_MAX, 12);
    });
}

#[test]
fn slots_of_deleted_rows_are_used_again() {
    each(32 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes4, Kind::Variable]).unwrap();
        for n in 0..10u32 {
            table.insert(&[Some(&n.to_le_bytes()), Some(text(n as usize).as_bytes())]).unwrap();
        }
        let before = table.snapshot().unwrap();
        for slot in [2, 7] {
            table.delete(slot).unwrap();
            assert_eq!(table.delete(slot), Err(Error::NoRow { slot }));
            assert_eq!(table.update(slot, 0, None), Err(Error::NoRow { slot }));
        }
        let between = table.snapshot().unwrap();
        assert_eq!(table.insert(&[Some(&[9; 4]), None]), Ok(7));
        assert_eq!(table.insert(&[Some(&[9; 4]), None]), Ok(2));
        assert_eq!(table.insert(&[Some(&[9; 4]), None]), Ok(10));
        assert_eq!((before.rows(), between.rows(), table.rows()), (10, 8, 11));
        assert_eq!((before.slots_in(0), between.live(0).unwrap().ones()), (10, 8));
        assert_eq!(before.row(7).unwrap().unwrap()[1], Some(text(7).into_bytes()));
        assert_eq!(between.row(7).unwrap(), None);
        assert_eq!(table.value(7, 1), Ok(None));
    });
}

/// Three groups: rows at their borders, and a snapshot that has two of them.
#[test]
fn tables_grow_over_groups() {
    each(64 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes8, Kind::Bytes2]).unwrap();
        let insert = |table: &mut Table, n: usize| {
            table.insert(&[Some(&(n as u64).to_le_bytes()), (!n.is_multiple_of(3)).then_some(&[1, 2][..])]).unwrap()
        };
        let end = 2 * GROUP_ROWS;
        (0..end).for_each(|n| assert_eq!(insert(&mut table, n), n));
        let two = table.snapshot().unwrap();
        (end..end + 5).for_each(|n| assert_eq!(insert(&mut table, n), n));
        let three = table.snapshot().unwrap();
        assert_eq!((two.groups(), two.slots_in(1), three.groups(), three.slots_in(2)), (2, GROUP_ROWS, 3, 5));
        for slot in [0, GROUP_ROWS - 1, GROUP_ROWS, end - 1] {
            table.update(slot, 0, None).unwrap();
            for rows in [&two, &three] {
                assert_eq!(rows.row(slot).unwrap().unwrap()[0], Some((slot as u64).to_le_bytes().to_vec()));
            }
        }
        assert_eq!(two.row(end).unwrap(), None);
        assert_eq!(three.valid(1, 2).unwrap().ones(), (end..end + 5).filter(|n| !n.is_multiple_of(3)).count());
    });
}

#[test]
fn what_does_not_fit_the_columns_is_refused() {
    each(8 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes4, Kind::Variable]).unwrap();
        assert_eq!(table.insert(&[None]), Err(Error::Columns { got: 1, want: 2 }));
        assert_eq!(table.insert(&[Some(&[1; 3]), None]), Err(Error::Width { column: 0, got: 3, want: 4 }));
        assert_eq!((table.rows(), table.slots()), (0, 0));
        let slot = table.insert(&[None, None]).unwrap();
        assert_eq!(table.update(slot, 2, None), Err(Error::NoColumn { column: 2 }));
        assert_eq!(table.update(9, 0, None), Err(Error::NoRow { slot: 9 }));
        assert_eq!(table.replace(slot, &[Some(&[1; 5]), None]), Err(Error::Width { column: 0, got: 5, want: 4 }));
        let rows = table.snapshot().unwrap();
        assert_eq!(rows.cells(2, 0).err(), Some(Error::NoColumn { column: 2 }));
    });
}

fn assert_texts(rows: &Rows, changed: bool) {
    for slot in 0..rows.slots() {
        let want =
            if changed && slot % 4 != 0 { format!("changed {slot}, long enough for a buffer") } else { text(slot) };
        assert_eq!(rows.row(slot).unwrap().unwrap()[0], Some(want.into_bytes()), "slot {slot}");
    }
}

#[test]
fn compaction_gives_dead_bytes_back_and_keeps_snapshots() {
    const ROWS: usize = 6000;
    each(16 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Variable]).unwrap();
        for n in 0..ROWS {
            table.insert(&[Some(text(n).as_bytes())]).unwrap();
        }
        assert_eq!(table.dead_bytes(0).unwrap().0, 0);
        assert_eq!(table.compact(0), Ok(0), "nothing to do");
        let before = table.snapshot().unwrap();
        for slot in (0..ROWS).filter(|slot| slot % 4 != 0) {
            table.update(slot, 0, Some(format!("changed {slot}, long enough for a buffer").as_bytes())).unwrap();
        }
        let (dead, all) = table.dead_bytes(0).unwrap();
        assert!(dead * 5 > all * 2, "{dead} dead of {all}");
        let between = table.snapshot().unwrap();
        let left = table.compact(0).unwrap();
        assert!(left < dead / 4, "{left} of {dead} bytes remain dead");
        let after = table.snapshot().unwrap();
        assert_texts(&before, false);
        assert_texts(&between, true);
        assert_texts(&after, true);
        let held = pool.usage().used;
        drop((before, between));
        assert!(pool.usage().used < held, "buffers of old values went back");
        assert_texts(&after, true);
        (0..ROWS).for_each(|slot| table.delete(slot).unwrap());
        assert_eq!(table.compact(0), Ok(0));
        assert_eq!(table.dead_bytes(0), Ok((0, 0)), "no buffer is left");
    });
}
