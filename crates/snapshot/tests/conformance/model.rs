//! Random changes, compared with a dumb model. A failure prints its seed and its steps.

use std::sync::Arc;

use chainify_snapshot::{Kind, Pool, Rows, Table};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{strategies, Make, MIB};

const KINDS: [Kind; 3] = [Kind::Bytes4, Kind::Bytes16, Kind::Variable];

type Row = Vec<Option<Vec<u8>>>;

#[derive(Debug, Clone)]
enum Step {
    Insert(Row),
    /// So many copies of a row, over the end of a group at times.
    Append(usize, Row),
    Replace(usize, Row),
    Update(usize, usize, Row),
    Delete(usize),
    Snapshot,
    Drop(usize),
    Compact,
}

fn row() -> impl Strategy<Value = Row> {
    let text =
        prop_oneof![2 => vec(any::<u8>(), 0..13), 3 => vec(any::<u8>(), 13..60), 1 => vec(any::<u8>(), 60_000..70_000)];
    let cell = |bytes: usize| proptest::option::weighted(0.8, vec(any::<u8>(), bytes..=bytes));
    (cell(4), cell(16), proptest::option::weighted(0.8, text)).prop_map(|(a, b, c)| vec![a, b, c])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => row().prop_map(Step::Insert),
        2 => (prop_oneof![19 => 0..5usize, 1 => 8_190..8_195usize], row()).prop_map(|(count, row)| {
            // Many long texts would take all memory.
            let text = row[2].as_ref().map(|text| text[..text.len().min(20)].to_vec());
            Step::Append(count, vec![row[0].clone(), row[1].clone(), text])
        }),
        3 => (any::<usize>(), row()).prop_map(|(slot, row)| Step::Replace(slot, row)),
        3 => (any::<usize>(), 0..3usize, row()).prop_map(|(slot, column, row)| Step::Update(slot, column, row)),
        3 => any::<usize>().prop_map(Step::Delete),
        3 => Just(Step::Snapshot),
        2 => any::<usize>().prop_map(Step::Drop),
        1 => Just(Step::Compact),
    ]
}

/// The model: a row or nothing for each slot, and the slots that were freed, in order.
#[derive(Default, Clone)]
struct Model {
    slots: Vec<Option<Row>>,
    free: Vec<usize>,
}

impl Model {
    /// A slot with a row, by a random number.
    fn pick(&self, at: usize) -> Option<usize> {
        let live: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()).collect();
        (!live.is_empty()).then(|| live[at % live.len()])
    }

    fn insert(&mut self, row: Row) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.slots.resize(self.slots.len().max(slot + 1), None);
        self.slots[slot] = Some(row);
        slot
    }
}

fn borrowed(row: &Row) -> Vec<Option<&[u8]>> {
    row.iter().map(Option::as_deref).collect()
}

fn assert_same(rows: &Rows, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(rows.slots(), model.slots.len());
    prop_assert_eq!(rows.rows(), model.slots.iter().flatten().count());
    for (slot, want) in model.slots.iter().enumerate() {
        prop_assert_eq!(&rows.row(slot).unwrap(), want, "slot {}", slot);
    }
    Ok(())
}

fn run(make: Make, steps: &[Step]) -> Result<(), TestCaseError> {
    let pool: Arc<Pool> = Pool::new(256 * MIB);
    let mut table = Table::with(make(pool.clone()), &pool, &KINDS).unwrap();
    let mut model = Model::default();
    let mut snapshots: Vec<(Rows, Model)> = Vec::new();
    for step in steps {
        match step {
            Step::Insert(row) => prop_assert_eq!(table.insert(&borrowed(row)).unwrap(), model.insert(row.clone())),
            Step::Append(count, row) => {
                prop_assert_eq!(table.append(&vec![borrowed(row); *count]).unwrap(), model.slots.len());
                model.slots.extend(std::iter::repeat_n(Some(row.clone()), *count));
            }
            Step::Replace(at, row) => {
                let Some(slot) = model.pick(*at) else { continue };
                table.replace(slot, &borrowed(row)).unwrap();
                model.slots[slot] = Some(row.clone());
            }
            Step::Update(at, column, row) => {
                let Some(slot) = model.pick(*at) else { continue };
                table.update(slot, *column, row[*column].as_deref()).unwrap();
                model.slots[slot].as_mut().unwrap()[*column] = row[*column].clone();
            }
            Step::Delete(at) => {
                let Some(slot) = model.pick(*at) else { continue };
                table.delete(slot).unwrap();
                model.slots[slot] = None;
                model.free.push(slot);
            }
            Step::Snapshot => snapshots.push((table.snapshot().unwrap(), model.clone())),
            Step::Drop(at) if !snapshots.is_empty() => drop(snapshots.swap_remove(at % snapshots.len())),
            Step::Drop(_) => {}
            Step::Compact => {
                table.compact(2).unwrap();
            }
        }
    }
    snapshots.push((table.snapshot().unwrap(), model));
    snapshots.iter().try_for_each(|(rows, model)| assert_same(rows, model))?;
    drop((snapshots, table));
    prop_assert_eq!(pool.usage().used, 0, "V4");
    Ok(())
}

proptest! {
    #![proptest_config(chainify_seeded::config(24))]

    /// V1, V2, V4: every snapshot has the rows of its moment, at the end of all steps.
    #[test]
    fn random_changes_are_as_in_the_model(steps in vec(step(), 1..60)) {
        for make in strategies() {
            run(make, &steps)?;
        }
    }
}
