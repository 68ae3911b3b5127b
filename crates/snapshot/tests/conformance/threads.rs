//! Readers in other threads beside the writer.

use std::sync::mpsc;
use std::thread;

use chainify_snapshot::{Kind, Rows, Table, GROUP_ROWS};

use super::{each, MIB};

const SLOTS: usize = GROUP_ROWS + 100;
const READERS: usize = 3;
const ROUNDS: u64 = 12;

/// All values of the snapshot are those of its round, however often it is read.
fn check(rows: &Rows, round: u64) {
    for _ in 0..3 {
        for group in 0..rows.groups() {
            let (cells, texts) = (rows.cells(0, group).unwrap(), rows.cells(1, group).unwrap());
            let buffers = rows.buffers(1).unwrap();
            for row in 0..rows.slots_in(group) {
                assert_eq!(cells[row * 8..][..8], round.to_le_bytes(), "V1: round {round}, group {group}, row {row}");
                let view = &texts[row * 16..][..16];
                let number = |at: usize| i32::from_le_bytes(view[at..at + 4].try_into().unwrap()) as usize;
                let value = &buffers[number(8)][number(12)..][..number(0)];
                assert_eq!(value, text(round).as_bytes(), "V2: both columns are of one moment");
            }
        }
    }
}

fn text(round: u64) -> String {
    format!("the text of round {round}")
}

#[test]
fn readers_see_one_moment_while_the_writer_goes_on() {
    each(64 * MIB, |pool, make| {
        let mut table = Table::with(make(pool.clone()), pool, &[Kind::Bytes8, Kind::Variable]).unwrap();
        for _ in 0..SLOTS {
            table.insert(&[Some(&[0; 8]), Some(text(0).as_bytes())]).unwrap();
        }
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for _ in 0..READERS {
                let (give, take) = mpsc::sync_channel::<(Rows, u64)>(2);
                readers.push(give);
                scope.spawn(move || take.iter().for_each(|(rows, round)| check(&rows, round)));
            }
            for round in 1..=ROUNDS {
                for slot in 0..SLOTS {
                    table.replace(slot, &[Some(&round.to_le_bytes()), Some(text(round).as_bytes())]).unwrap();
                }
                let rows = table.snapshot().unwrap();
                let reader = &readers[round as usize % READERS];
                reader.send((rows, round)).expect("the reader found no fault");
                if round % 4 == 0 {
                    table.compact(1).unwrap();
                }
            }
            drop(readers);
        });
    });
}
