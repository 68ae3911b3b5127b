//! V4: the bound refuses, and nothing is half done.

use std::sync::Arc;

use chainify_snapshot::{Error, Kind, Pool, Table, View};

use super::{each, MIB};

#[test]
fn the_bound_refuses_and_leaves_every_byte() {
    each(2 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        strategy.add_column(64 * 1024).unwrap();
        let mut views: Vec<(u8, Arc<dyn View>)> = Vec::new();
        for group in 0..4 {
            strategy.grow(0).unwrap();
            strategy.write(0, group).unwrap().fill(0);
        }
        let mut value = 0;
        let refused = loop {
            match strategy.snapshot(&[0]) {
                Ok(view) => views.push((value, view)),
                Err(error) => break error,
            }
            let mut written = (0..4).map(|group| strategy.write(0, group).map(|bytes| bytes.fill(value + 1)));
            if let Some(error) = written.find_map(Result::err) {
                break error;
            }
            value += 1;
            assert!(views.len() < 100, "2 MiB hold no more than eight copies of a quarter");
        };
        assert!(matches!(refused, Error::Full { bytes_max, .. } if bytes_max == 2 * MIB), "{refused}");
        assert!(refused.to_string().contains("drop snapshots or raise the bound"));
        assert!(views.len() > 3, "only {} snapshots", views.len());
        // Room for what fork copies from its process.
        let newest = views.pop().unwrap();
        drop((views.remove(0), views.remove(0)));
        for (value, view) in views.iter().chain([&newest]) {
            for group in 0..4 {
                assert!(view.group(0, group).unwrap().iter().all(|byte| byte == value), "snapshot {value}");
            }
        }
        drop((views, newest));
        for group in 0..4 {
            strategy.write(0, group).unwrap().fill(200);
        }
        let view = strategy.snapshot(&[0]).unwrap();
        assert_eq!(view.group(0, 3).unwrap()[0], 200);
    });
}

#[test]
fn snapshots_that_went_leave_room_for_new_ones() {
    each(MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        strategy.add_column(64 * 1024).unwrap();
        strategy.grow(0).unwrap();
        for round in 0..100 {
            strategy.write(0, 0).unwrap().fill(round);
            let view = strategy.snapshot(&[0]).unwrap();
            strategy.write(0, 0).unwrap().fill(200);
            assert_eq!(view.group(0, 0).unwrap()[0], round);
        }
    });
}

#[test]
fn a_column_cannot_grow_beyond_the_bound() {
    each(MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        strategy.add_column(64 * 1024).unwrap();
        let mut refused = None;
        for group in 0..20 {
            let grown = strategy.grow(0).and_then(|()| strategy.write(0, group).map(|bytes| bytes.fill(group as u8)));
            if let Err(error) = grown {
                refused = Some((group, error));
                break;
            }
        }
        let (groups, error) = refused.expect("16 groups of 64 KiB are one MiB");
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!((15..=16).contains(&groups), "{groups} groups");
        assert!((0..groups).all(|group| strategy.read(0, group)[100] == group as u8));
        assert!(pool.usage().used <= MIB);
    });
}

#[test]
fn a_refused_change_of_a_table_changes_no_row() {
    each(3 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes8, Kind::Variable, Kind::Variable]).unwrap();
        let long = vec![b'x'; 3000];
        let row = |n: u64| (n.to_le_bytes(), format!("row {n} of a table with a bound"));
        let mut rows = 0;
        let refused = loop {
            let (number, text) = row(rows);
            match table.insert(&[Some(&number), Some(text.as_bytes()), Some(&long)]) {
                Ok(slot) => assert_eq!(slot as u64, rows),
                Err(error) => break error,
            }
            rows += 1;
        };
        assert!(matches!(refused, Error::Full { .. }), "{refused}");
        assert!(rows > 100, "{rows} rows");
        assert_eq!((table.rows() as u64, table.slots() as u64), (rows, rows));
        // A large value fails in the last column: the first two keep theirs.
        let (number, text) = row(77);
        let all = vec![b'y'; 4 * MIB];
        assert!(table.replace(5, &[Some(&number), Some(text.as_bytes()), Some(&all)]).is_err());
        for n in [0, 5, rows - 1] {
            let (number, text) = row(n);
            assert_eq!(table.value(n as usize, 0).unwrap().unwrap(), number);
            assert_eq!(table.value(n as usize, 1).unwrap().unwrap(), text.as_bytes());
            assert_eq!(table.value(n as usize, 2).unwrap().unwrap(), long);
        }
        assert!(pool.usage().used <= 3 * MIB);
    });
}

fn borrowed(rows: &[Vec<Option<Vec<u8>>>]) -> Vec<Vec<Option<&[u8]>>> {
    rows.iter().map(|row| row.iter().map(Option::as_deref).collect()).collect()
}

#[test]
fn a_refused_append_adds_no_row() {
    each(4 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes8, Kind::Variable, Kind::Variable]).unwrap();
        let (short, long) = (vec![b'x'; 100], vec![b'y'; 5 * MIB]);
        let row = |n: u64, last| vec![Some(Vec::from(n.to_le_bytes())), Some(short.clone()), last];
        let rows: Vec<Vec<Option<Vec<u8>>>> = (0..100).map(|n| row(n, None)).collect();
        assert_eq!(table.append(&borrowed(&rows)).unwrap(), 0);
        let filled = table.dead_bytes(1).unwrap().1;
        // The last value of the last column does not fit.
        let mut refused = rows.clone();
        refused.push(row(100, Some(long.clone())));
        assert!(matches!(table.append(&borrowed(&refused)), Err(Error::Full { .. })));
        assert_eq!((table.rows(), table.slots()), (100, 100));
        assert_eq!(
            table.dead_bytes(1).unwrap().0,
            table.dead_bytes(1).unwrap().1 - filled,
            "values that went are dead"
        );
        assert_eq!(table.append(&borrowed(&rows)).unwrap(), 100);
        for n in 0..200 {
            assert_eq!(table.value(n, 0).unwrap().unwrap(), (n as u64 % 100).to_le_bytes());
            assert_eq!(table.value(n, 1).unwrap().unwrap(), short);
            assert_eq!(table.value(n, 2).unwrap(), None);
        }
    });
}

#[test]
fn spare_memory_is_used_again_and_makes_room_for_other_sizes() {
    let pool = Pool::new(MIB);
    let mut table = Table::new(&pool, &[Kind::Bytes8]).unwrap();
    let slot = table.insert(&[Some(&[1; 8])]).unwrap();
    drop(table.snapshot().unwrap());
    let rows = table.snapshot().unwrap();
    table.update(slot, 0, Some(&[2; 8])).unwrap();
    let both = pool.usage();
    drop(rows);
    let one = pool.usage();
    assert_eq!(both.used - one.used, 65_536 + 1024, "the old cells and their validity went back");
    assert_eq!(one.spare - both.spare, 65_536 + 1024);
    // The same again takes the spare chunks.
    let rows = table.snapshot().unwrap();
    table.update(slot, 0, Some(&[3; 8])).unwrap();
    assert_eq!(pool.usage(), both);
    drop(rows);
    // Values of other sizes push spare memory out, up to the bound.
    let mut wide = Table::new(&pool, &[Kind::Variable]).unwrap();
    let value = vec![7; MIB - pool.usage().used - 128 * 1024 - 4 * 1024];
    wide.insert(&[Some(&value)]).expect("spare memory makes room");
    let full = pool.usage();
    assert!(full.used + full.spare <= MIB, "{full:?}");
    drop((table, wide));
    assert_eq!(pool.usage().used, 0);
    pool.trim();
    assert_eq!(pool.usage().spare, 0);
}

#[test]
fn memory_of_a_large_value_goes_back_to_the_machine() {
    let pool = Pool::new(16 * MIB);
    let mut table = Table::new(&pool, &[Kind::Variable]).unwrap();
    let before = pool.usage();
    let slot = table.insert(&[Some(&vec![1; 5 * MIB])]).unwrap();
    assert!(pool.usage().used > 5 * MIB);
    table.delete(slot).unwrap();
    table.compact(0).unwrap();
    assert!(pool.usage().used + pool.usage().spare < before.used + MIB, "{:?}", pool.usage());
}

#[test]
fn a_table_knows_what_snapshots_share() {
    let pool = Pool::new(16 * MIB);
    let mut table = Table::new(&pool, &[Kind::Bytes8, Kind::Variable]).unwrap();
    let long = [b'x'; 100];
    for row in 0_u64..20_000 {
        table.insert(&[Some(&row.to_le_bytes()), Some(&long)]).unwrap();
    }
    let alone = table.memory().unwrap();
    // Three groups: rows, and cells and validity of two columns.
    assert_eq!((alone.chunks, alone.chunks_shared), (15, 0));
    assert!(alone.bytes >= 3 * (64 + 128) * 1024 + 2_000_000, "{alone:?}");
    assert!(alone.bytes <= pool.usage().used, "{alone:?}");
    let rows = table.snapshot().unwrap();
    assert_eq!(table.memory().unwrap().chunks_shared, 15);
    table.update(1, 0, Some(&[0; 8])).unwrap();
    assert_eq!(table.memory().unwrap().chunks_shared, 13, "the chunks of the cell and its validity were copied");
    drop(rows);
    assert_eq!(table.memory().unwrap().chunks_shared, 0);
}
