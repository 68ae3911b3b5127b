//! Builds the graph in one pass over the block. It remembers the last readers and writers of each
//! place.

use std::collections::BTreeMap;

use super::{Edge, Graph};
use crate::lists::Lists;
use crate::units::{Links, Space};
use crate::{AccessSet, Dependencies, Dependency, KeyId, Place, Target, TxIndex};

/// The bound on building a graph, together with [`STEPS_PER_TRANSACTION`]: visits of runs and
/// transactions. From the transaction on with which it would take more, the block counts as serial.
pub const STEPS_MAX: u64 = 1 << 20;

/// The addition of each transaction to [`STEPS_MAX`].
pub const STEPS_PER_TRANSACTION: u64 = 64;

/// The graph of a block, from the access sets of its transactions in block order.
///
/// Edges are left out where a path of others leads the same way. At each point of a key space a
/// write waits for the last write and the reads since, a read for the last write.
///
/// Cost: for blocks of points, O(log n) for each access; never more than the limit of steps allows.
/// Source: dependency graph and components as in ChainifyDB (Schuhknecht et al., CIDR 2021).
pub fn build(sets: &[AccessSet]) -> Graph {
    let count = u32::try_from(sets.len()).expect("a block has fewer than 2^32 transactions");
    let mut builder = Builder { tables: tables(sets), ..Builder::default() };
    builder.steps_max = STEPS_MAX + STEPS_PER_TRANSACTION * u64::from(count);
    let mut earlier = Lists::default();
    for (tx, set) in (0..count).zip(sets) {
        let edges = builder.edges_of(tx, set);
        edges.iter().for_each(|edge| builder.has_later[edge.earlier as usize] = true);
        builder.has_later.push(false);
        earlier.push(edges);
    }
    Graph::new(earlier)
}

#[derive(Default)]
struct Builder<'a> {
    tables: BTreeMap<Target, Table<'a>>,
    links: Links,
    steps_max: u64,
    /// The last transaction that all later ones come after.
    barrier: Option<TxIndex>,
    /// Whether some edge leaves a transaction.
    has_later: Vec<bool>,
}

impl<'a> Builder<'a> {
    fn edges_of(&mut self, tx: TxIndex, set: &'a AccessSet) -> Vec<Edge> {
        if set.is_everything() {
            return self.raise_barrier(tx, Dependency::WriteWrite.into());
        }
        self.links.found.clear();
        let in_time = self.touch(tx, set);
        if !in_time {
            return self.raise_barrier(tx, Dependencies::NONE);
        }
        let mut edges = merge(&mut self.links.found, self.barrier);
        // A transaction after the barrier waits for it already, so any edge to that will do.
        if let (true, Some(earlier)) = (edges.is_empty(), self.barrier) {
            edges.push(Edge { earlier, kinds: Dependency::WriteWrite.into() });
        }
        edges
    }

    fn exhausted(&self) -> bool {
        self.links.steps > self.steps_max
    }

    /// Records what `set` touches and collects links; says whether the steps sufficed.
    fn touch(&mut self, tx: TxIndex, set: &'a AccessSet) -> bool {
        let places = |target: Target, places: &'a [Place]| places.iter().map(move |place| (target, place));
        let writes = set.writes().flat_map(|(target, of)| places(target, of)).map(|at| (true, at));
        let reads = set.reads().flat_map(|(target, of)| places(target, of)).map(|at| (false, at));
        for (write, (target, place)) in writes.chain(reads) {
            if self.exhausted() {
                return false;
            }
            // A target that nobody writes has no table, and reads of it wait for nothing.
            if let Some(table) = self.tables.get_mut(&target) {
                table.touch(tx, write, place, &mut self.links);
            }
        }
        !self.exhausted()
    }

    /// Lets `tx` wait for all earlier transactions, and all later ones for `tx`.
    fn raise_barrier(&mut self, tx: TxIndex, kinds: Dependencies) -> Vec<Edge> {
        let since = self.barrier.map_or(0, |barrier| barrier + 1);
        // Every other transaction since then has a path to one of these.
        let last = (since..tx).filter(|earlier| !self.has_later[*earlier as usize]);
        let mut edges: Vec<Edge> = last.map(|earlier| Edge { earlier, kinds }).collect();
        if let (true, Some(earlier)) = (edges.is_empty(), self.barrier) {
            edges.push(Edge { earlier, kinds });
        }
        self.barrier = Some(tx);
        edges
    }
}

/// One edge for each earlier transaction after the barrier, ascending.
fn merge(found: &mut [(TxIndex, Dependencies)], barrier: Option<TxIndex>) -> Vec<Edge> {
    found.sort_unstable_by_key(|(earlier, _)| *earlier);
    let mut edges: Vec<Edge> = Vec::new();
    for (earlier, kinds) in
        found.iter().copied().filter(|(earlier, _)| barrier.is_none_or(|barrier| *earlier > barrier))
    {
        match edges.last_mut() {
            Some(last) if last.earlier == earlier => last.kinds = last.kinds.with(kinds),
            _ => edges.push(Edge { earlier, kinds }),
        }
    }
    edges
}

/// One target, in one block.
#[derive(Default)]
struct Table<'a> {
    /// The keys in which places are bounded; at least one.
    spaces: BTreeMap<KeyId, Space<'a>>,
    /// By the keys in which a place is bounded: places that share no key can be told apart in no
    /// space.
    shapes: BTreeMap<Vec<KeyId>, Touched>,
}

/// The transactions that touched a target through places of one shape, since it was last written as
/// a whole.
#[derive(Default)]
struct Touched {
    writers: Vec<TxIndex>,
    readers: Vec<TxIndex>,
}

/// The targets that are written, with the spaces sealed.
fn tables(sets: &[AccessSet]) -> BTreeMap<Target, Table<'_>> {
    let mut tables: BTreeMap<Target, Table<'_>> = BTreeMap::new();
    for (target, places) in sets.iter().flat_map(AccessSet::writes) {
        let table = tables.entry(target).or_default();
        places.iter().for_each(|place| table.announce(place, true));
    }
    for (target, places) in sets.iter().flat_map(AccessSet::reads) {
        if let Some(table) = tables.get_mut(&target) {
            places.iter().for_each(|place| table.announce(place, false));
        }
    }
    // After all keys are known: a write of the whole target is one of each space.
    for (target, places) in sets.iter().flat_map(AccessSet::writes) {
        if places.iter().any(Place::is_whole) {
            tables.entry(target).or_default().spaces.values_mut().for_each(Space::announce_whole);
        }
    }
    tables.values_mut().for_each(Table::seal);
    tables
}

impl<'a> Table<'a> {
    fn announce(&mut self, place: &'a Place, write: bool) {
        for (key, interval) in place.bounds() {
            let space = self.spaces.entry(*key).or_default();
            if write {
                space.announce(interval);
            }
        }
        let known = |shapes: &BTreeMap<Vec<KeyId>, Touched>| shapes.keys().any(|shape| same_shape(shape, place));
        if !place.is_whole() && !known(&self.shapes) {
            self.shapes.insert(shape_of(place), Touched::default());
        }
    }

    fn seal(&mut self) {
        if self.spaces.is_empty() {
            let mut only = Space::default(); // all places are whole: any key will do
            only.announce_whole();
            self.spaces.insert(0, only);
        }
        self.spaces.values_mut().for_each(Space::seal);
    }

    fn touch(&mut self, tx: TxIndex, write: bool, place: &Place, links: &mut Links) {
        let mut touch = |space: &mut Space<'a>, interval| match write {
            true => space.write(tx, interval, links),
            false => space.read(tx, interval, links),
        };
        if place.is_whole() {
            self.spaces.values_mut().for_each(|space| touch(space, None));
        }
        for (key, interval) in place.bounds() {
            let space = self.spaces.get_mut(key).expect("every key of every place was announced");
            touch(space, Some(interval));
        }
        if self.shapes.len() > 1 {
            self.cross(tx, write, place, links);
        }
    }

    /// Links `tx` with those whose places have no key in common with `place`.
    fn cross(&mut self, tx: TxIndex, write: bool, place: &Place, links: &mut Links) {
        if place.is_whole() {
            if write {
                // They all are in some space, where this write came after them.
                self.shapes.values_mut().for_each(|touched| *touched = Touched::default());
            }
            return;
        }
        for (shape, touched) in &mut self.shapes {
            links.steps += 1;
            if same_shape(shape, place) {
                let list = if write { &mut touched.writers } else { &mut touched.readers };
                if list.last() != Some(&tx) {
                    list.push(tx);
                }
            } else if !place.bounds().iter().any(|(key, _)| shape.contains(key)) {
                touched.link(tx, write, links);
            }
        }
    }
}

impl Touched {
    fn link(&self, tx: TxIndex, write: bool, links: &mut Links) {
        let kind = if write { Dependency::WriteWrite } else { Dependency::WriteRead };
        self.writers.iter().for_each(|writer| links.add(tx, *writer, kind));
        if write {
            self.readers.iter().for_each(|reader| links.add(tx, *reader, Dependency::ReadWrite));
        }
    }
}

fn shape_of(place: &Place) -> Vec<KeyId> {
    place.bounds().iter().map(|(key, _)| *key).collect()
}

fn same_shape(shape: &[KeyId], place: &Place) -> bool {
    shape.iter().eq(place.bounds().iter().map(|(key, _)| key))
}
