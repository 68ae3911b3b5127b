//! The conflict graph: the transactions that read and write each place.

use super::input::{Accesses, PlaceNumber};
use crate::lists::Lists;
use crate::TxIndex;

/// A transaction at a place, from the side of either: the other side's number, and two roles.
#[derive(Clone, Copy, Default)]
pub(super) struct Access(u32);

impl Access {
    /// The place, or the transaction.
    pub fn at(self) -> u32 {
        self.0 >> 2
    }

    /// Whether the transaction saw the place.
    pub fn sees(self) -> bool {
        self.0 & SEES != 0
    }

    /// Whether it writes the place.
    pub fn writes(self) -> bool {
        self.0 & WRITES != 0
    }

    /// Whether it does both.
    pub fn updates(self) -> bool {
        self.sees() && self.writes()
    }

    /// The same roles beside another number, below 2^30.
    fn beside(self, at: u32) -> Self {
        Self(at << 2 | self.0 & (SEES | WRITES))
    }
}

const SEES: u32 = 1;
const WRITES: u32 = 2;

/// Some transactions, numbered from 0, and the places that matter among them: one writes it, and
/// another one sees or writes it.
pub(super) struct Conflicts {
    /// The index in the block of each transaction, ascending.
    pub names: Vec<TxIndex>,
    /// By transaction, its places.
    pub of: Lists<Access>,
    /// By place, its transactions, ascending.
    pub at: Lists<Access>,
}

impl Conflicts {
    /// The conflicts of a block, by index in the block, and the caller's number of each place,
    /// ascending.
    pub fn of_block(block: &[Accesses], admitted: &[bool]) -> (Self, Vec<PlaceNumber>) {
        let mut found = sorted(block, admitted);
        merge_roles(&mut found);
        let (mut at, mut places) = (Lists::default(), Vec::new());
        for here in found.chunk_by(|one, next| place_of(*one) == place_of(*next)) {
            if here.len() > 1 && here.iter().any(|key| access_of(*key).writes()) {
                at.push(here.iter().map(|key| access_of(*key)));
                places.push(place_of(here[0]));
            }
        }
        let transactions = block.len() as u32; // fewer than 2^30
        let of = Lists::group(transactions, turned(&at));
        (Self { names: (0..transactions).collect(), of, at }, places)
    }

    /// The conflicts of some of these transactions, ascending. `numbers` has room for each place,
    /// and holds [`NONE`] everywhere before and after.
    ///
    /// Cost: linear in the accesses of these transactions.
    pub fn among(&self, members: &[u32], numbers: &mut [u32]) -> Self {
        let mut seen: Vec<(u32, [u32; 2])> = Vec::new(); // by new number: place, accesses and writes
        for access in members.iter().flat_map(|member| self.of.get(*member)) {
            let number = &mut numbers[access.at() as usize];
            if *number == NONE {
                *number = seen.len() as u32;
                seen.push((access.at(), [0, 0]));
            }
            let counts = &mut seen[*number as usize].1;
            *counts = [counts[0] + 1, counts[1] + u32::from(access.writes())];
        }
        let mut count = 0;
        for (place, [accesses, writes]) in &seen {
            let matters = *accesses > 1 && *writes > 0;
            numbers[*place as usize] = if matters { count } else { NONE };
            count += u32::from(matters);
        }
        let mut of = Lists::default();
        for member in members {
            let mattering = self.of.get(*member).iter().filter(|access| numbers[access.at() as usize] != NONE);
            of.push(mattering.map(|access| access.beside(numbers[access.at() as usize])));
        }
        seen.iter().for_each(|(place, _)| numbers[*place as usize] = NONE);
        let at = Lists::group(count, turned(&of));
        Self { names: members.iter().map(|member| self.names[*member as usize]).collect(), of, at }
    }

    /// How many transactions there are.
    pub fn transactions(&self) -> u32 {
        self.of.len()
    }

    /// How many accesses there are.
    pub fn accesses(&self) -> u64 {
        self.at.items().len() as u64
    }
}

/// No number.
pub(super) const NONE: u32 = u32::MAX;

fn place_of(key: u64) -> PlaceNumber {
    (key >> 32) as u32
}

fn access_of(key: u64) -> Access {
    Access(key as u32)
}

/// Place, transaction and role of each access in one number, ascending.
fn sorted(block: &[Accesses], admitted: &[bool]) -> Vec<u64> {
    let mut found: Vec<u64> = Vec::new();
    for ((tx, accesses), _) in (0u32..).zip(block).zip(admitted).filter(|(_, admitted)| **admitted) {
        let key = |place: &PlaceNumber, role: u32| u64::from(*place) << 32 | u64::from(tx << 2 | role);
        found.extend(accesses.sees.iter().map(|place| key(place, SEES)));
        found.extend(accesses.writes.iter().map(|place| key(place, WRITES)));
    }
    found.sort_unstable();
    found
}

/// Leaves one number of each place and transaction, with all its roles.
fn merge_roles(found: &mut Vec<u64>) {
    found.dedup_by(|later, kept| {
        let same = *later >> 2 == *kept >> 2;
        if same {
            *kept |= *later;
        }
        same
    });
}

/// The accesses from the other side.
fn turned(lists: &Lists<Access>) -> impl Iterator<Item = (u32, Access)> + Clone + '_ {
    (0..lists.len()).flat_map(|list| lists.get(list).iter().map(move |access| (access.at(), access.beside(list))))
}
