//! Conflicts by comparing each pair of transactions.

use chainify_sched::reorder::Accesses;

/// Whether the first one saw what the second one writes.
pub(crate) fn before(block: &[Accesses], first: usize, second: usize) -> bool {
    first != second && block[first].sees.iter().any(|place| block[second].writes.contains(place))
}

/// Whether the transactions are valid in this order: none saw what an earlier one wrote.
pub(crate) fn replays(block: &[Accesses], order: &[u32]) -> bool {
    let mut written: std::collections::BTreeSet<u32> = std::collections::BTreeSet::new();
    order.iter().all(|tx| {
        let Accesses { sees, writes } = &block[*tx as usize];
        let valid = sees.iter().all(|place| !written.contains(place));
        written.extend(writes);
        valid
    })
}

/// Whether some order of these transactions is valid: they can be taken away one after the other,
/// each before all that are left.
pub(crate) fn has_no_cycle(block: &[Accesses], some: &[u32]) -> bool {
    let mut left = some.to_vec();
    while !left.is_empty() {
        let first = |tx: &u32| !left.iter().any(|other| before(block, *other as usize, *tx as usize));
        let Some(at) = left.iter().position(first) else { return false };
        left.swap_remove(at);
    }
    true
}

/// The most transactions of at most eight that have no cycle.
pub(crate) fn most_without_cycle(block: &[Accesses]) -> usize {
    let members = |set: u32| (0..block.len() as u32).filter(|tx| set >> tx & 1 == 1).collect::<Vec<_>>();
    let sets = (0..1u32 << block.len()).map(members);
    sets.filter(|set| has_no_cycle(block, set)).map(|set| set.len()).max().unwrap()
}

/// The transactions that are valid in the order of the block, as Fabric has it.
pub(crate) fn first_comers(block: &[Accesses]) -> usize {
    let mut kept: Vec<u32> = Vec::new();
    for tx in 0..block.len() as u32 {
        kept.push(tx);
        if !replays(block, &kept) {
            kept.pop();
        }
    }
    kept.len()
}
