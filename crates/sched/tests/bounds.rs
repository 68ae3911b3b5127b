//! S5: what does not fit into an access set is widened, and nothing that was put in is lost.

use chainify_seeded::check;
use std::ops::Bound;

use chainify_sched::{AccessSet, Interval, Place, Target, BOUNDS_MAX, KEY_BYTES_MAX, PLACES_MAX, TARGETS_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

const ROWS: Target = Target::Rows(1);

fn key(i: usize) -> Vec<u8> {
    (i as u32).to_be_bytes().to_vec()
}

fn writing(target: Target, place: Place) -> AccessSet {
    let mut set = AccessSet::new();
    set.write(target, place);
    set
}

fn depend(later: &AccessSet, earlier: &AccessSet) -> bool {
    !later.dependencies_on(earlier).0.is_empty()
}

#[test]
fn too_many_places_are_the_whole_target() {
    let (mut reads, mut writes) = (AccessSet::new(), AccessSet::new());
    let elsewhere = writing(ROWS, Place::point(0, key(9999)));
    for i in 0..PLACES_MAX {
        reads.read(ROWS, Place::point(0, key(i)));
        writes.write(ROWS, Place::point(0, key(i)));
        reads.read(ROWS, Place::point(0, key(i))); // the same again takes no room
    }
    assert!(!depend(&reads, &elsewhere) && !depend(&writes, &elsewhere));
    reads.read(ROWS, Place::point(0, key(PLACES_MAX)));
    writes.write(ROWS, Place::point(0, key(PLACES_MAX)));
    for set in [&reads, &writes] {
        assert!(depend(set, &elsewhere) && !set.is_everything());
        assert!(!depend(set, &writing(Target::Rows(2), Place::whole())), "another target");
    }
    assert!(reads.reads().all(|(_, places)| places == [Place::whole()]));
    reads.read(ROWS, Place::point(0, key(5)));
    assert!(reads.reads().all(|(_, places)| places == [Place::whole()]), "stays whole");
}

#[test]
fn too_many_targets_are_everything() {
    let mut set = AccessSet::new();
    (0..TARGETS_MAX).for_each(|i| set.read(Target::Rows(i as u32), Place::whole()));
    set.read(Target::Rows(0), Place::point(0, key(1)));
    assert!(!set.is_everything());
    let mut one_more = set.clone();
    one_more.read(Target::Keys(0, 0), Place::whole());
    assert!(one_more.is_everything() && depend(&one_more, &AccessSet::new()));
    one_more.write(ROWS, Place::whole());
    assert_eq!(one_more, AccessSet::everything());
    set.add(&AccessSet::everything());
    assert_eq!(set, AccessSet::everything());
}

#[test]
fn too_many_bounds_are_the_whole_target() {
    let bounds = |count: usize| Place::within((0..count).map(|i| (i as u16, Interval::point(key(i))))).unwrap();
    assert_eq!(bounds(BOUNDS_MAX).bounds().len(), BOUNDS_MAX);
    assert!(bounds(BOUNDS_MAX + 1).is_whole());
    let unbounded = Place::within([(0, Interval::all())]);
    assert!(unbounded.unwrap().is_whole(), "all is no bound");
    assert_eq!(Place::within([(0, Interval::point([1])), (0, Interval::point([2]))]), None);
}

#[test]
fn long_keys_are_the_prefix_they_begin_with() {
    let long = |end: &[u8]| [&vec![0xff; KEY_BYTES_MAX - 1][..], end].concat();
    let exact = |end: u8| Interval::point(long(&[end]));
    assert!(!exact(1).overlaps(&exact(2)));
    let cut = Interval::point(long(&[1, 7]));
    assert!(cut.overlaps(&exact(1)) && cut.overlaps(&Interval::point(long(&[1, 8]))) && !cut.overlaps(&exact(2)));
    let last = Interval::point(long(&[0xff, 7])); // nothing comes after this prefix
    assert!(
        last.overlaps(&Interval::point([0xff; 300])) && last.overlaps(&exact(0xff)) && !last.overlaps(&exact(0xfe))
    );
    let (from, to) = (long(&[3, 7]), long(&[5, 7]));
    for (lower, upper) in
        [(Bound::Included(&from), Bound::Included(&to)), (Bound::Excluded(&from), Bound::Excluded(&to))]
    {
        let range = Interval::range(lower.map(Vec::as_slice), upper.map(Vec::as_slice)).unwrap();
        for (end, inside) in [(2, false), (3, true), (4, true), (5, true), (6, false)] {
            assert_eq!(range.overlaps(&exact(end)), inside, "{end} for {lower:?}");
        }
        assert!(range.overlaps(&Interval::point(long(&[3, 8]))) && range.overlaps(&Interval::point(long(&[5, 6]))));
    }
}

/// Every single row that a place covers is still covered, by a probe that writes that row alone.
#[test]
fn what_was_put_in_stays_covered() {
    let put = (any::<bool>(), 0u32..70, 0u16..20, vec(any::<u8>(), 0..3), 0usize..300);
    check(200, vec(put, 0..200), |puts| {
        let mut set = AccessSet::new();
        let place = |key: u16, start: &Vec<u8>, length: usize| {
            let value = [&start[..], &vec![7; length]].concat();
            Place::within((0..=key).map(|key| (key, Interval::point(value.clone())))).unwrap()
        };
        for (write, relation, key, start, length) in &puts {
            let (target, place) = (Target::Rows(*relation), place(*key, start, *length));
            if *write {
                set.write(target, place);
            } else {
                set.read(target, place);
            }
        }
        for (_, relation, key, start, length) in &puts {
            let probe = writing(Target::Rows(*relation), place(*key, start, *length));
            prop_assert!(depend(&set, &probe) && depend(&probe, &set));
        }
        for (_, places) in set.reads().chain(set.writes()) {
            prop_assert!(places.len() <= PLACES_MAX && places.iter().all(|place| place.bounds().len() <= BOUNDS_MAX));
        }
        prop_assert!(set.reads().count() <= TARGETS_MAX && set.writes().count() <= TARGETS_MAX);
        Ok(())
    });
}
