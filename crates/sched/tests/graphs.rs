//! Properties of graphs, parts and runs, against models that compare every pair of transactions.

use chainify_seeded::check;
use std::ops::Bound;

use chainify_sched::{division, graph, AccessSet, Dependencies, Graph, Interval, Place, Target, TxIndex, STEPS_MAX};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Few keys, and those that are hard to keep apart: prefixes and successors of each other.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    vec(select(vec![0u8, 1, 0xff]), 0..3)
}

fn bounds() -> impl Strategy<Value = (Bound<Vec<u8>>, Bound<Vec<u8>>)> {
    let end =
        || prop_oneof![Just(Bound::Unbounded), keys().prop_map(Bound::Included), keys().prop_map(Bound::Excluded),];
    (end(), end())
}

fn interval((lower, upper): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Option<Interval> {
    Interval::range(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
}

fn intervals() -> impl Strategy<Value = Interval> {
    let range = bounds().prop_filter_map("empty", |bounds| interval(&bounds));
    prop_oneof![
        5 => keys().prop_map(Interval::point),
        2 => range,
        1 => keys().prop_map(|prefix| Interval::prefix(&prefix)),
    ]
}

fn places() -> impl Strategy<Value = Place> {
    vec((0u16..3, intervals()), 0..3).prop_filter_map("nothing", Place::within)
}

fn sets() -> impl Strategy<Value = AccessSet> {
    let target = prop_oneof![(0u32..2).prop_map(Target::Rows), Just(Target::Keys(0, 1))];
    let accesses = vec((any::<bool>(), target, places()), 0..4);
    let bounded = accesses.prop_map(|accesses| {
        let mut set = AccessSet::new();
        for (write, target, place) in accesses {
            if write {
                set.write(target, place);
            } else {
                set.read(target, place);
            }
        }
        set
    });
    prop_oneof![20 => bounded, 1 => Just(AccessSet::everything())]
}

fn blocks() -> impl Strategy<Value = Vec<AccessSet>> {
    vec(sets(), 0..16)
}

/// Every byte string of the few bytes that can lie on either side of a bound of [`keys`].
fn samples() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..4 {
        let next: Vec<Vec<u8>> = all[from..]
            .iter()
            .flat_map(|sample: &Vec<u8>| [0u8, 1, 2, 0xff].map(|byte| [&sample[..], &[byte]].concat()))
            .collect();
        from = all.len();
        all.extend(next);
    }
    all
}

fn inside(key: &[u8], (lower, upper): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    use std::ops::RangeBounds;
    (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice)).contains(key)
}

#[test]
fn intervals_hold_the_keys_between_their_bounds() {
    let samples = samples();
    check(2000, (bounds(), bounds()), |(a, b)| {
        let (in_a, in_b) = (|key: &Vec<u8>| inside(key, &a), |key: &Vec<u8>| inside(key, &b));
        let (of_a, of_b) = (interval(&a), interval(&b));
        prop_assert_eq!(of_a.is_some(), samples.iter().any(in_a), "emptiness of {:?}", a);
        if let (Some(of_a), Some(of_b)) = (of_a, of_b) {
            let both = samples.iter().any(|key| in_a(key) && in_b(key));
            prop_assert_eq!(of_a.overlaps(&of_b), both);
            prop_assert_eq!(of_a.intersect(&of_b).is_some(), both);
            for key in &samples {
                let point = Interval::point(key.clone());
                prop_assert_eq!(of_a.overlaps(&point), in_a(key), "{:?}", key);
                let held = of_a.intersect(&of_b).is_some_and(|meet| meet.overlaps(&point));
                prop_assert_eq!(held, in_a(key) && in_b(key), "{:?}", key);
            }
        }
        Ok(())
    });
}

/// The dependencies, by comparing each pair.
fn model(sets: &[AccessSet]) -> Vec<Vec<Dependencies>> {
    let row = |(later, set): (usize, &AccessSet)| {
        sets[..later].iter().map(|earlier| set.dependencies_on(earlier).0).collect()
    };
    sets.iter().enumerate().map(row).collect()
}

/// `reach[later][earlier]`: whether there is a path.
fn reachable(count: usize, edge: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let mut reach: Vec<Vec<bool>> = Vec::new();
    for later in 0..count {
        let mut row = vec![false; later];
        for earlier in (0..later).filter(|earlier| edge(*earlier, later)) {
            row[earlier] = true;
            reach[earlier].iter().enumerate().for_each(|(before, path)| row[before] |= path);
        }
        reach.push(row);
    }
    reach
}

fn has_edge(graph: &Graph, earlier: usize, later: usize) -> bool {
    graph.waits_for(later as TxIndex).iter().any(|edge| edge.earlier == earlier as TxIndex)
}

/// S3.
#[test]
fn graphs_have_the_paths_of_all_dependencies_and_no_other_edges() {
    check(3000, blocks(), |sets| {
        let (graph, model) = (graph::build(&sets), model(&sets));
        for (later, row) in model.iter().enumerate() {
            for edge in graph.waits_for(later as TxIndex) {
                let kinds = row.get(edge.earlier as usize).copied().unwrap_or_default();
                let all = edge.kinds.iter().all(|kind| kinds.contains(kind));
                prop_assert!(
                    all && !edge.kinds.is_empty(),
                    "t{} to t{}: {} of {}",
                    edge.earlier,
                    later,
                    edge.kinds,
                    kinds
                );
                prop_assert!(graph.waiters(edge.earlier).contains(&(later as TxIndex)));
            }
        }
        let wanted = reachable(sets.len(), |earlier, later| !model[later][earlier].is_empty());
        prop_assert_eq!(reachable(sets.len(), |earlier, later| has_edge(&graph, earlier, later)), wanted);
        Ok(())
    });
}

#[test]
fn components_and_stages_follow_from_the_paths() {
    check(1000, blocks(), |sets| {
        let graph = graph::build(&sets);
        let (count, model) = (sets.len(), model(&sets));
        let reach = reachable(count, |earlier, later| !model[later][earlier].is_empty());
        let mut stages: Vec<u32> = Vec::new();
        let mut components: Vec<usize> = (0..count).collect();
        for (later, row) in reach.iter().enumerate() {
            let before = || (0..later).filter(|earlier| row[*earlier]);
            stages.push(before().map(|earlier| stages[earlier] + 1).max().unwrap_or(0));
            for earlier in before() {
                let (from, to) = (components[later], components[earlier]);
                components.iter_mut().filter(|component| **component == from).for_each(|component| *component = to);
            }
        }
        for tx in 0..count {
            prop_assert_eq!(graph.stage_of(tx as TxIndex), stages[tx]);
            for other in 0..count {
                let together = graph.component_of(tx as TxIndex) == graph.component_of(other as TxIndex);
                prop_assert_eq!(together, components[tx] == components[other], "t{} and t{}", tx, other);
            }
        }
        let path = graph.critical_path();
        prop_assert_eq!(path.len(), stages.iter().max().map_or(0, |stage| *stage as usize + 1));
        prop_assert!(path.windows(2).all(|pair| has_edge(&graph, pair[0] as usize, pair[1] as usize)));
        let mut numbers: Vec<TxIndex> =
            (0..graph.components()).map(|component| graph.component(component)[0]).collect();
        prop_assert!(numbers.is_sorted(), "numbered by first transaction");
        numbers = (0..graph.components()).flat_map(|component| graph.stages(component).concat()).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..count as TxIndex).collect::<Vec<_>>());
        Ok(())
    });
}

/// S4.
#[test]
fn parts_hold_every_transaction_once_and_do_not_depend_on_each_other() {
    let costs = || vec(0u64..50, 16);
    check(1000, (blocks(), costs(), 0u32..6), |(sets, costs, workers)| {
        let (graph, model) = (graph::build(&sets), model(&sets));
        let costs = &costs[..sets.len()];
        let division = division::assign(&graph, costs, workers);
        prop_assert!(division.parts().len() <= workers.max(1) as usize);
        prop_assert!(sets.is_empty() || division.parts().iter().all(|part| !part.is_empty()));
        let mut part_of = vec![None; sets.len()];
        for (number, part) in division.parts().iter().enumerate() {
            prop_assert!(part.is_sorted());
            let load: u64 = part.iter().map(|tx| costs[*tx as usize].max(1)).sum();
            prop_assert_eq!(load, division.loads()[number]);
            part.iter().for_each(|tx| assert_eq!(part_of[*tx as usize].replace(number), None));
        }
        prop_assert!(part_of.iter().all(Option::is_some));
        for (later, row) in model.iter().enumerate() {
            for (earlier, kinds) in row.iter().enumerate() {
                prop_assert!(kinds.is_empty() || part_of[earlier] == part_of[later]);
            }
        }
        balanced(&graph, costs, &division)
    });
}

/// A part that is longer than the others was so before its last component only.
fn balanced(graph: &Graph, costs: &[u64], division: &division::Division) -> Result<(), TestCaseError> {
    let cost = |component| graph.component(component).iter().map(|tx| costs[*tx as usize].max(1)).sum::<u64>();
    let largest = (0..graph.components()).map(cost).max().unwrap_or(0);
    let (least, most) = (division.loads().iter().min(), division.loads().iter().max());
    let apart = most.zip(least).map_or(0, |(most, least)| most - least);
    prop_assert!(apart <= largest, "loads {:?}, largest component {}", division.loads(), largest);
    Ok(())
}

/// n writes of single rows, then n reads of them all: n² dependencies, none of which another
/// implies.
#[test]
fn blocks_with_too_many_dependencies_end_serially() {
    let key = |i: u32| i.to_be_bytes().to_vec();
    let mut sets = vec![AccessSet::new(); 4000];
    for (i, set) in (0u32..).zip(&mut sets) {
        match i {
            0..2000 => set.write(Target::Rows(1), Place::point(0, key(i))),
            _ => set.read(Target::Rows(1), Place::whole()),
        }
    }
    let graph = graph::build(&sets);
    assert!(graph.edges() as u64 <= 2 * STEPS_MAX, "{} edges", graph.edges());
    let last = graph.transactions() - 1;
    assert_eq!(graph.waits_for(last).iter().map(|edge| edge.earlier).collect::<Vec<_>>(), [last - 1]);
    assert!(graph.waits_for(last)[0].kinds.is_empty());
    assert_eq!(graph.components(), 1);
    let first_serial = (2000..last).find(|tx| graph.waits_for(*tx).iter().any(|edge| edge.kinds.is_empty())).unwrap();
    assert!(first_serial > 2150, "only t{first_serial}");
    assert!((2000..first_serial).all(|tx| graph.waits_for(tx).len() == 2000));
    // The first of the rest waits for all that nobody waits for.
    assert!((2000..first_serial).all(|tx| graph.waiters(tx) == [first_serial]));
}
