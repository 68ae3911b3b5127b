//! The serialization order of a run: the EFFECTS transactions that stand in a block without one of
//! another kind between them. Readers of a row come before its writers. Where transactions exclude
//! each other, few of them become victims (`chainify_sched::reorder`).
//!
//! The order does not certify a transaction. Each one is compared with the rows at its place in the
//! order (W2).
use std::collections::HashMap;
use std::rc::Rc;

use chainify_codec::{decode_value, Hash};
use chainify_ledger::write_set::{columns, Action, Known, Read, WriteSet};
use chainify_sched::reorder::{reorder, Accesses, Counts, PlaceNumber, Victim, Why};

use crate::certification::write_sets;
use crate::certification::written_table::WrittenTable;
use crate::ledger::outcome::is_of_the_machine;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::settings;
use crate::pg::base::subtransaction::subtransaction;
use crate::running::request::Request;

const EXCESS: &str = "the transactions of the block have too many rows in common";

/// The serialization order of transactions, as indexes into the positions that were given.
pub struct Turns {
    pub order: Vec<usize>,
    /// The victims, each with its outcome.
    pub lost: Vec<(usize, PgError)>,
    /// The sums that the limits bound.
    pub counts: Counts,
}

impl Turns {
    /// How many transactions there are.
    pub fn count(&self) -> usize {
        self.order.len() + self.lost.len()
    }
}

/// The serialization order of the first run of EFFECTS transactions in `positions`. None: the run
/// has fewer than two transactions, or a measurement wants the order of the block. In a part of a
/// block, the transactions have the same relative order as in the whole run, unless the run exceeds
/// a limit ([`Counts::fit`]). Raises an error of the machine. Cost: linear in the rows of the
/// transactions, and a look-up for each row of the transactions that share a row with another.
pub fn of(request: &Request, positions: &[usize]) -> Option<Turns> {
    if !settings::turns() {
        return None;
    }
    let first = request.runs[*positions.first()?];
    let is_of_run = |at: &&usize| first > 0 && request.runs[**at] == first;
    let count = positions.iter().take_while(is_of_run).count();
    if count < 2 {
        return None;
    }
    let mut rows = Rows::default();
    let effects = |at: &usize| &request.transactions[*at].proposal.effects;
    let seen = positions[..count]
        .iter()
        .map(|at| rows.seen_by(effects(at)));
    let mut seen: Vec<Seen> = seen.collect();
    cover(&mut seen);
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
        counts: found.counts,
    })
}

/// How many comparisons of a read with a written row a run makes at most. A read that was not
/// compared covers no row. It can only change the order, never which transactions are valid.
const COMPARISONS_MAX: usize = 1 << 20;

/// The rows of one transaction.
#[derive(Default)]
pub struct Seen {
    /// As the transaction saw them; None: there was no row.
    pub saw: HashMap<PlaceNumber, Option<Hash>>,
    pub writes: Vec<PlaceNumber>,
    /// The rows written, as far as the write set tells them: what its bounds are compared with.
    written: Vec<Written>,
    /// The reads of a SERIALIZABLE transaction, by table.
    reads: Vec<(usize, Read)>,
    /// Rows that others write and its reads cover.
    covers: Vec<PlaceNumber>,
}

impl Seen {
    /// Its rows as the rules of the order take them.
    pub fn accesses(&self) -> Accesses {
        let mut sees: Vec<PlaceNumber> = self.saw.keys().chain(&self.covers).copied().collect();
        sees.sort_unstable();
        sees.dedup();
        Accesses {
            sees,
            writes: self.writes.clone(),
        }
    }
}

/// A row that a transaction writes.
struct Written {
    table: usize,
    place: PlaceNumber,
    /// Known columns with their encoded values; those of an insert are all.
    columns: Vec<(u16, Vec<u8>)>,
    /// Columns that are not named are NULL.
    all: bool,
}

impl Written {
    /// Whether the row may come to lie in a read. Of an update that changes no column with a bound,
    /// and of a delete, the read has found the row or has nothing to do with it.
    fn may_come(&self, read: &Read) -> bool {
        let named = |ordinal: u16| self.columns.iter().find(|(known, _)| *known == ordinal);
        let column = |ordinal| match named(ordinal) {
            Some((_, value)) => decode_value(value).map_or(Known::Null, Known::Value),
            None if self.all => Known::Null,
            None => Known::Unknown,
        };
        let touched = || {
            read.bounds
                .iter()
                .any(|bound| named(bound.ordinal).is_some())
        };
        read.bounds.is_empty() || (self.all || touched()) && read.may_cover(column)
    }
}

fn copies(columns: Vec<(u16, &[u8])>) -> Vec<(u16, Vec<u8>)> {
    let copy = |(ordinal, value): (u16, &[u8])| (ordinal, value.to_vec());
    columns.into_iter().map(copy).collect()
}

/// Finds the rows that the reads of each transaction cover and others write.
pub fn cover(seen: &mut [Seen]) {
    if seen.iter().all(|seen| seen.reads.is_empty()) {
        return;
    }
    let mut by_table: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (transaction, of) in seen.iter().enumerate() {
        for (at, written) in of.written.iter().enumerate() {
            let places = by_table.entry(written.table).or_default();
            places.push((transaction, at));
        }
    }
    let mut left = COMPARISONS_MAX;
    for transaction in 0..seen.len() {
        let mut covers = Vec::new();
        for (table, read) in &seen[transaction].reads {
            for (other, at) in by_table.get(table).into_iter().flatten() {
                if *other == transaction || left == 0 {
                    continue;
                }
                left -= 1;
                let written = &seen[*other].written[*at];
                if written.may_come(read) {
                    covers.push(written.place);
                }
            }
        }
        seen[transaction].covers = covers;
    }
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
            let place = self.number(table, key);
            seen.saw.entry(place).or_insert(saw);
            seen.writes.push(place);
            let (columns, all) = match &change.action {
                Action::Insert { row } => (copies(columns(row).unwrap_or_default()), true),
                Action::Update { cells, .. } => (cells.clone(), false),
                Action::Delete { .. } => (Vec::new(), false),
            };
            seen.written.push(Written {
                table,
                place,
                columns,
                all,
            });
        }
        let of_table = |read: Read| (tables[usize::from(read.table)], read);
        seen.reads = set.reads.into_iter().map(of_table).collect();
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
            let only_covered = seen
                .covers
                .iter()
                .filter(|place| !seen.saw.contains_key(place));
            for place in seen.saw.keys().chain(only_covered) {
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
            let any_shared = seen.saw.keys().chain(&seen.covers).any(shared);
            if !(any_shared && seen.saw.iter().all(&mut is_as_seen)) {
                return Accesses::default();
            }
            seen.accesses()
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
pub fn within<T>(f: impl FnOnce() -> Result<T, PgError>) -> Option<T> {
    match subtransaction(f) {
        Err(error) if is_of_the_machine(&error) => Err(error).or_raise(),
        result => result.ok(),
    }
}
