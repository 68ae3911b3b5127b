//! The order in which EFFECTS transactions that follow each other in a block are applied. Readers
//! of a row come before its writers. Of transactions that exclude each other, the fewest lose
//! (`chainify_sched::reorder`).
//!
//! It decides who has a chance and not who is valid: each transaction is compared with the rows
//! when its turn comes (W2).
use std::collections::HashMap;
use std::rc::Rc;

use chainify_codec::Hash;
use chainify_ledger::messages::Kind;
use chainify_ledger::write_set::{Action, WriteSet};
use chainify_sched::reorder::{reorder, Accesses, PlaceNumber, Victim, Why};

use crate::ledger::outcome::is_of_the_machine;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::subtransaction::subtransaction;
use crate::transaction::request::{is_quarantined, Request};
use crate::transaction::write_sets;
use crate::transaction::written_table::WrittenTable;

const EXCESS: &str = "the transactions of the block have too many rows in common";

/// The turns of transactions, as places in the positions that were given.
pub struct Turns {
    pub order: Vec<usize>,
    /// Those that have none, with the outcome.
    pub lost: Vec<(usize, PgError)>,
}

impl Turns {
    /// How many transactions there are.
    pub fn count(&self) -> usize {
        self.order.len() + self.lost.len()
    }
}

/// The turns of the EFFECTS transactions at the beginning of `positions`; None when fewer than two
/// follow each other. Raises an error of the machine. Cost: linear in their rows, and a look-up for
/// each row of those that share one with another.
pub fn of(request: &Request, positions: &[usize]) -> Option<Turns> {
    let is_effects = |at: &&usize| {
        request.transactions[**at].kind() == Kind::Effects && !is_quarantined(request, **at)
    };
    let count = positions.iter().take_while(is_effects).count();
    if count < 2 {
        return None;
    }
    let mut rows = Rows::default();
    let effects = |at: &usize| &request.transactions[*at].proposal.effects;
    let seen = positions[..count]
        .iter()
        .map(|at| rows.seen_by(effects(at)));
    let seen: Vec<Seen> = seen.collect();
    let accesses = rows.accesses(&seen);
    let found = reorder(&accesses);
    let lost = |victim: &Victim| {
        let index = |transaction: u32| request.indices[positions[transaction as usize]];
        (
            victim.transaction as usize,
            rows.conflict(&victim.why, index),
        )
    };
    Some(Turns {
        order: found.order.iter().map(|at| *at as usize).collect(),
        lost: found.victims.iter().map(lost).collect(),
    })
}

/// The rows of one transaction.
#[derive(Default)]
pub struct Seen {
    /// As the transaction saw them; None: there was no row.
    pub saw: HashMap<PlaceNumber, Option<Hash>>,
    pub writes: Vec<PlaceNumber>,
}

/// The rows of all transactions, by number.
#[derive(Default)]
pub struct Rows {
    numbers: HashMap<(usize, Vec<u8>), PlaceNumber>,
    /// By number: the table's place in `tables`, and the key.
    places: Vec<(usize, Vec<u8>)>,
    tables: Vec<Rc<WrittenTable>>,
    /// By name, also those that are not on the ledger: a block may name them thousands of times.
    known: HashMap<String, Option<usize>>,
}

impl Rows {
    fn number(&mut self, table: usize, key: Vec<u8>) -> PlaceNumber {
        let next = self.places.len() as PlaceNumber;
        let place = (table, key);
        let number = *self.numbers.entry(place.clone()).or_insert(next);
        if number == next {
            self.places.push(place);
        }
        number
    }

    /// A transaction that cannot be read has no rows, and fails by itself.
    pub fn seen_by(&mut self, effects: &[u8]) -> Seen {
        let mut seen = Seen::default();
        let Ok(set) = WriteSet::decode(effects) else {
            return seen;
        };
        let tables = set.tables.iter().map(|name| self.table(name));
        let Some(tables) = tables.collect::<Option<Vec<usize>>>() else {
            return seen;
        };
        for change in &set.changes {
            let table = tables[usize::from(change.table)];
            let (key, saw) = match &change.action {
                Action::Insert { row } => (self.tables[table].key_of(row), None),
                Action::Update { key, before, .. } | Action::Delete { key, before } => {
                    (key.clone(), Some(*before))
                }
            };
            let number = self.number(table, key);
            seen.saw.entry(number).or_insert(saw);
            seen.writes.push(number);
        }
        for row in set.seen {
            let number = self.number(tables[usize::from(row.table)], row.key);
            seen.saw.entry(number).or_insert(row.hash);
        }
        seen
    }

    fn table(&mut self, name: &str) -> Option<usize> {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let found = within(|| write_sets::table(name)).map(|table| {
            self.tables.push(table);
            self.tables.len() - 1
        });
        self.known.insert(name.to_owned(), found);
        found
    }

    /// The rows of each transaction that count: of one that shares no row with another, or saw a
    /// row that is another one by now, none do.
    fn accesses(&self, seen: &[Seen]) -> Vec<Accesses> {
        let mut touched: HashMap<PlaceNumber, (usize, bool)> = HashMap::new();
        for seen in seen {
            for place in seen.saw.keys() {
                touched.entry(*place).or_default().0 += 1;
            }
            for place in &seen.writes {
                touched.entry(*place).or_default().1 = true;
            }
        }
        let shared = |place: &PlaceNumber| {
            let (transactions, written) = touched[place];
            transactions > 1 && written
        };
        let mut now: HashMap<PlaceNumber, Option<Option<Hash>>> = HashMap::new();
        let mut is_as_seen = |(place, saw): (&PlaceNumber, &Option<Hash>)| {
            let (table, key) = &self.places[*place as usize];
            let hash = || within(|| self.tables[*table].hash_now(key));
            *now.entry(*place).or_insert_with(hash) == Some(*saw)
        };
        let mut accesses = |seen: &Seen| {
            let counts = seen.saw.keys().any(shared) && seen.saw.iter().all(&mut is_as_seen);
            if !counts {
                return Accesses::default();
            }
            let mut sees: Vec<PlaceNumber> = seen.saw.keys().copied().collect();
            sees.sort_unstable();
            Accesses {
                sees,
                writes: seen.writes.clone(),
            }
        };
        seen.iter().map(&mut accesses).collect()
    }

    /// The name of a row.
    pub fn name(&self, place: PlaceNumber) -> String {
        let (table, key) = &self.places[place as usize];
        let table = &self.tables[*table];
        format!("row ({}) of table \"{}\"", table.key_text(key), table.name)
    }

    /// The outcome of a victim; see [`is_of_a_victim`].
    pub fn conflict(&self, why: &Why, index: impl Fn(u32) -> u32) -> PgError {
        let row = |place: &PlaceNumber| self.name(*place);
        let message = match why {
            Why::Cycle { place, others } => {
                let others: Vec<String> = others
                    .iter()
                    .map(|other| index(*other).to_string())
                    .collect();
                format!(
                    "{} is changed by others of the block: by transaction {}",
                    row(place),
                    others.join(", ")
                )
            }
            Why::Place(place) => format!(
                "{} is changed by another transaction of the block",
                row(place)
            ),
            Why::Excess => EXCESS.to_owned(),
        };
        PgError::new(b"40001", message)
    }
}

/// Whether the message is the one of a victim.
pub fn is_of_a_victim(message: &str) -> bool {
    let is_list = |list: &str| list.chars().all(|c| c.is_ascii_digit() || ", ".contains(c));
    let ends = |rest: &str| match rest.strip_prefix(": by transaction ") {
        Some(list) => is_list(list),
        None => rest.is_empty(),
    };
    let rest = message.rsplit_once(" of the block").map(|(_, rest)| rest);
    message == EXCESS || rest.is_some_and(ends)
}

/// Runs `f` in a subtransaction. None: it failed. Raises an error of the machine.
fn within<T>(f: impl FnOnce() -> Result<T, PgError>) -> Option<T> {
    match subtransaction(f) {
        Err(error) if is_of_the_machine(error.sqlstate) => Err(error).or_raise(),
        result => result.ok(),
    }
}
