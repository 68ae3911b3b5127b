//! Groups of bytes, below tables.

use std::sync::Arc;

use chainify_snapshot::{Strategy, View};

use super::{each, MIB};

/// Groups of the smallest and of the largest size.
const SIZES: [usize; 2] = [1024, 128 * 1024];

fn filled(strategy: &mut dyn Strategy, groups: usize) {
    for (column, bytes) in SIZES.into_iter().enumerate() {
        assert_eq!(strategy.add_column(bytes).unwrap(), column);
        for group in 0..groups {
            strategy.grow(column).unwrap();
            assert!(strategy.read(column, group).iter().all(|byte| *byte == 0), "a new group is of zeros");
            write(strategy, column, group, group as u8);
        }
    }
}

fn write(strategy: &mut dyn Strategy, column: usize, group: usize, value: u8) {
    strategy.write(column, group).unwrap().fill(value);
}

fn assert_all(bytes: &[u8], size: usize, value: u8) {
    assert_eq!(bytes.len(), size);
    assert!(bytes.iter().all(|byte| *byte == value), "{value} everywhere, and not {}", bytes[0]);
}

fn assert_group(view: &dyn View, column: usize, group: usize, value: u8) {
    assert_all(&view.group(column, group).unwrap(), SIZES[column], value);
}

#[test]
fn writer_and_snapshot_do_not_see_each_other() {
    each(16 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        filled(&mut *strategy, 3);
        let view = strategy.snapshot(&[0, 1]).unwrap();
        let held = view.group(1, 1).unwrap();
        for (column, size) in SIZES.into_iter().enumerate() {
            write(&mut *strategy, column, 1, 99);
            for (group, value) in [0, 1, 2].into_iter().enumerate() {
                assert_group(&*view, column, group, value);
            }
            assert_all(strategy.read(column, 1), size, 99);
            assert_all(strategy.read(column, 2), size, 2);
        }
        drop(view);
        assert_all(&held, SIZES[1], 1);
    });
}

#[test]
fn a_chain_of_snapshots_keeps_each_state() {
    each(64 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        filled(&mut *strategy, 2);
        let chain: Vec<Arc<dyn View>> = (0..8u8)
            .map(|step| {
                write(&mut *strategy, 0, 0, 10 + step);
                write(&mut *strategy, 1, usize::from(step % 2), 20 + step);
                strategy.snapshot(&[1, 0]).unwrap()
            })
            .collect();
        write(&mut *strategy, 0, 0, 200);
        for (step, view) in (0..8u8).zip(&chain) {
            assert_all(&view.group(1, 0).unwrap(), SIZES[0], 10 + step);
            assert_all(&view.group(0, usize::from(step % 2)).unwrap(), SIZES[1], 20 + step);
            let other = if step == 0 { 1 } else { 20 + step - 1 };
            assert_all(&view.group(0, usize::from(1 - step % 2)).unwrap(), SIZES[1], other);
        }
    });
}

/// Every order in which four snapshots can go.
#[test]
fn snapshots_go_in_any_order() {
    let mut orders = vec![vec![]];
    for next in 0..4 {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |at| [&order[..at], &[next], &order[at..]].concat())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    assert_eq!(orders.len(), 24);
    each(16 * MIB, |pool, make| {
        for order in &orders {
            let mut strategy = make(pool.clone());
            strategy.add_column(4096).unwrap();
            strategy.grow(0).unwrap();
            let mut views: Vec<Option<Arc<dyn View>>> = Vec::new();
            for step in 0..4 {
                write(&mut *strategy, 0, 0, step);
                views.push(Some(strategy.snapshot(&[0]).unwrap()));
            }
            for gone in order {
                views[*gone] = None;
                write(&mut *strategy, 0, 0, 50);
                for (step, view) in views.iter().enumerate() {
                    let Some(view) = view else { continue };
                    assert_all(&view.group(0, 0).unwrap(), 4096, step as u8);
                }
            }
        }
    });
}

#[test]
fn snapshots_do_not_grow_with_the_column() {
    each(64 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        filled(&mut *strategy, 1);
        let empty = strategy.snapshot(&[]).unwrap();
        let before = strategy.snapshot(&[0, 1]).unwrap();
        for group in 1..150 {
            strategy.grow(0).unwrap();
            write(&mut *strategy, 0, group, 7);
        }
        let after = strategy.snapshot(&[0]).unwrap();
        assert_eq!((before.groups(0), before.groups(1), after.groups(0), strategy.groups(0)), (1, 1, 150, 150));
        assert_group(&*before, 0, 0, 0);
        for group in [1, 63, 64, 65, 127, 128, 149] {
            write(&mut *strategy, 0, group, 8);
            assert_group(&*after, 0, group, 7);
        }
        drop((before, empty));
        assert_group(&*after, 0, 149, 7);
    });
}

#[test]
fn readers_outlive_the_writer() {
    each(16 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        filled(&mut *strategy, 2);
        let view = strategy.snapshot(&[0, 1]).unwrap();
        write(&mut *strategy, 1, 0, 77);
        drop(strategy);
        assert_group(&*view, 1, 0, 0);
        assert_group(&*view, 1, 1, 1);
    });
}

/// Arrow takes buffers that begin at a multiple of 64, with an owner of these properties.
#[test]
fn groups_are_as_arrow_wants_them() {
    fn is_an_owner(_: &(impl Send + Sync + std::panic::RefUnwindSafe + AsRef<[u8]> + 'static)) {}
    each(16 * MIB, |pool, make| {
        let mut strategy = make(pool.clone());
        filled(&mut *strategy, 2);
        let view = strategy.snapshot(&[0, 1]).unwrap();
        for (column, group) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let group = view.group(column, group).unwrap();
            is_an_owner(&group);
            assert_eq!(group.start().as_ptr() as usize % 64, 0);
        }
    });
}
