//! A mirror: the rows of one ledger table as columns, with their running state.

use std::sync::Arc;

use chainify_codec::{table_state, Hash, LaneHasher, Lanes};
use chainify_snapshot::{Choice, Error, Pool, Slot, Table};

use crate::bounds::{Bounds, Place};
use crate::cells::{CellBytes, Cells, Refused, Row, ToldRow};
use crate::keys::Keys;
use crate::layout::{Cell, Layout};
use crate::source::ToldTable;
use crate::views::{MirrorStatus, TableView};

/// The reason why a mirror does not go on.
#[derive(Debug)]
pub enum Trouble {
    /// The database told a row that does not fit: the mirror has to be made anew.
    Told(Refused),
    /// The column store refuses, by its bound for instance: the mirror is as it was before the row.
    Store(Error),
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Trouble::Told(refused)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Store(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Told(refused) => refused.fmt(f),
            Trouble::Store(error @ Error::Full { .. }) => write!(f, "memory.mirrors is too small: {error}"),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}

/// A mirrored table. One thread changes it.
pub struct Mirror {
    name: String,
    schema_hash: Hash,
    layout: Arc<Layout>,
    table: Table,
    keys: Keys,
    bounds: Bounds,
    lanes: Lanes,
    hasher: LaneHasher,
    /// Of each column the slot where moving its long values goes on; 0: no pass has begun.
    compacting: Vec<Slot>,
}

impl Mirror {
    /// A mirror without rows of the table `name`, `schema.name` unquoted. Its columns are in memory
    /// of the pool, and share it with snapshots by a strategy.
    ///
    /// # Errors
    /// Those of [`Table::with`].
    pub fn new(
        (pool, strategy): (&Arc<Pool>, Choice),
        name: &str,
        schema_hash: Hash,
        layout: Arc<Layout>,
    ) -> Result<Self, Error> {
        Ok(Mirror {
            name: name.into(),
            schema_hash,
            table: Table::with(strategy.strategy(pool)?, pool, &layout.kinds())?,
            keys: Keys::default(),
            bounds: Bounds::of(&layout),
            compacting: vec![0; layout.kinds().len()],
            layout,
            lanes: Lanes::zero(),
            hasher: LaneHasher::new(name),
        })
    }

    /// Adds a row that the database told.
    ///
    /// # Errors
    /// [`Trouble::Told`] for a malformed row, and a second one of a key.
    pub fn insert(&mut self, told: &[u8]) -> Result<(), Trouble> {
        let told = ToldRow::read(told)?;
        let row = self.layout.take_apart(&told)?;
        if self.found(&row.key)?.is_some() {
            return Err(Refused("the database told two rows of one key".into()).into());
        }
        let cells = borrowed(&row.cells);
        let slots = self.table.slots();
        let slot = self.table.insert(&cells)?;
        if !self.keys.insert(&row.key, slot) {
            self.table.delete(slot)?;
            return Err(Refused("a mirror has at most 4,294,967,296 rows".into()).into());
        }
        self.bounds.widen(&self.layout, &cells, if slot < slots { Place::Between } else { Place::Behind });
        self.hasher.add(&mut self.lanes, told.canonical);
        Ok(())
    }

    /// Adds rows that the database told, to a mirror whose keys they do not have. Cost: a third of
    /// as many [`insert`](Self::insert)s.
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert). Beyond the bound of memory none is added; after
    /// [`Trouble::Told`] some may be.
    pub fn insert_all(&mut self, told: &[&[u8]]) -> Result<(), Trouble> {
        let told: Vec<ToldRow<'_>> = told.iter().map(|told| ToldRow::read(told)).collect::<Result<_, _>>()?;
        let rows: Vec<Row<'_>> = told.iter().map(|told| self.layout.take_apart(told)).collect::<Result<_, _>>()?;
        let cells: Vec<_> = rows.iter().map(|row| borrowed(&row.cells)).collect();
        let first = self.table.append(&cells)?;
        for (at, ((row, cells), told)) in rows.iter().zip(&cells).zip(&told).enumerate() {
            if self.found(&row.key)?.is_some() {
                return Err(Refused("the database told two rows of one key".into()).into());
            }
            if !self.keys.insert(&row.key, first + at) {
                return Err(Refused("a mirror has at most 4,294,967,296 rows".into()).into());
            }
            self.bounds.widen(&self.layout, cells, Place::Behind);
            self.hasher.add(&mut self.lanes, told.canonical);
        }
        Ok(())
    }

    /// Applies a change of the history: `I` and `U` with the new row, `D` with the key.
    ///
    /// # Errors
    /// [`Trouble::Told`] for a change that does not fit the rows.
    pub fn apply(&mut self, op: u8, told: &[u8]) -> Result<(), Trouble> {
        match op {
            b'I' => self.insert(told),
            b'U' => {
                let told = ToldRow::read(told)?;
                let row = self.layout.take_apart(&told)?;
                let (slot, was) = self.there(&row.key)?;
                let cells = borrowed(&row.cells);
                self.table.replace(slot, &cells)?;
                self.bounds.widen(&self.layout, &cells, Place::Same);
                self.hasher.sub(&mut self.lanes, &was);
                self.hasher.add(&mut self.lanes, told.canonical);
                Ok(())
            }
            b'D' => {
                let (slot, was) = self.there(told)?;
                self.table.delete(slot)?;
                self.keys.remove(told, slot);
                self.hasher.sub(&mut self.lanes, &was);
                Ok(())
            }
            _ => Err(Refused(format!("the database told a change of kind {}", op.escape_ascii())).into()),
        }
    }

    /// The slot of a key and the canonical bytes of the row there.
    fn there(&self, key: &[u8]) -> Result<(Slot, Vec<u8>), Trouble> {
        self.found(key)?.ok_or_else(|| Refused("the database told a change of a row that is not there".into()).into())
    }

    fn found(&self, key: &[u8]) -> Result<Option<(Slot, Vec<u8>)>, Trouble> {
        let mut row = Ok(None);
        let slot = self.keys.find(key, |slot| {
            row = self.canonical(slot).and_then(|row| Ok((self.layout.key_of(&row)? == key).then_some(row)));
            !matches!(row, Ok(None))
        });
        Ok(slot.zip(row?))
    }

    /// The canonical bytes of the row in a slot, made of its cells.
    fn canonical(&self, slot: Slot) -> Result<Vec<u8>, Trouble> {
        let values = (0..self.layout.kinds().len()).map(|place| self.table.value(slot, place));
        let cells = values.collect::<Result<Cells, Error>>()?;
        Ok(self.layout.put_together(&cells)?)
    }

    /// The table state of spec/formats.md, of the rows told. Cost: one SHA-256 of 2 KiB.
    pub fn state(&self) -> Hash {
        table_state(&self.name, &self.schema_hash, self.table.rows() as u64, &self.lanes)
    }

    /// Whether the rows are those of a state, to the sign of each zero: the state does not have it,
    /// so a table with floats never is. A state that the database lies about is found by Q1.
    pub fn has_rows_of(&self, state: Option<&Hash>) -> bool {
        let signed = self.layout.cells().any(|cell| matches!(cell, Cell::Float4 | Cell::Float8));
        !signed && state == Some(&self.state())
    }

    /// The rows that it was given, for a look at the cells of a view of them.
    pub fn given(&self) -> Given {
        Given { name: self.name.clone(), schema_hash: self.schema_hash, state: self.state() }
    }

    /// The rows of now, for queries (Q2). Cost: [`Table::snapshot`].
    ///
    /// # Errors
    /// Those of [`Table::snapshot`].
    pub fn view(&mut self) -> Result<TableView, Error> {
        Ok(TableView { rows: self.table.snapshot()?, layout: self.layout.clone(), bounds: self.bounds.clone() })
    }

    /// Whether the table still has this name, definition and columns.
    pub fn is_of(&self, table: &ToldTable) -> bool {
        self.name == table.name && self.schema_hash == table.schema_hash && self.layout.is_of(&table.columns)
    }

    /// Name on the ledger.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the mirror is, at a block.
    pub fn status(&self, block: i64, digest_checked: Option<i64>) -> MirrorStatus {
        let memory = self.table.memory().unwrap_or_default();
        MirrorStatus {
            rows: self.table.rows() as u64,
            bytes: (memory.bytes + self.index_bytes()) as u64,
            chunks: memory.chunks as u64,
            chunks_shared: memory.chunks_shared as u64,
            block,
            digest_checked,
            state: "serving",
            error: None,
        }
    }

    /// Bytes of the index of keys, which is outside of the pool.
    pub fn index_bytes(&self) -> usize {
        self.keys.bytes()
    }

    /// Moves long values out of buffers that are half dead. A call looks at a part of the rows, and
    /// the next one goes on there.
    ///
    /// # Errors
    /// Those of [`Table::compact`].
    pub fn compact(&mut self) -> Result<(), Error> {
        self.compact_piece(COMPACTED_AT_ONCE.max(self.table.slots().div_ceil(COMPACTING_CALLS_MAX)))
    }

    fn compact_piece(&mut self, piece: usize) -> Result<(), Error> {
        let slots = self.table.slots();
        for (place, from) in self.compacting.iter_mut().enumerate() {
            let (dead, all) = self.table.dead_bytes(place)?;
            if *from > 0 || dead > all / 2 {
                let to = slots.min(*from + piece);
                self.table.compact_slots(place, *from..to)?;
                *from = if to < slots { to } else { 0 };
            }
        }
        Ok(())
    }

    /// Whether [`Self::compact`] has begun and not looked at all rows.
    pub fn is_compacting(&self) -> bool {
        self.compacting.iter().any(|from| *from > 0)
    }
}

/// Rows that are looked at for long values to be moved before following goes on; more of a table
/// that would otherwise take longer than so many calls.
const COMPACTED_AT_ONCE: usize = 32_768;
const COMPACTING_CALLS_MAX: usize = 64;

/// The rows that a mirror was given up to a moment.
pub struct Given {
    name: String,
    schema_hash: Hash,
    state: Hash,
}

impl Given {
    /// Whether the cells of a view of that moment are those of the rows. Cost: a BLAKE3 expansion of
    /// each row.
    pub fn are_in(&self, view: &TableView) -> bool {
        self.state_of(view).is_ok_and(|state| state == self.state)
    }

    /// The table's state, computed of the cells of every row.
    fn state_of(&self, view: &TableView) -> Result<Hash, Trouble> {
        let hasher = LaneHasher::new(&self.name);
        let mut lanes = Lanes::zero();
        for group in 0..view.rows.groups() {
            view.rows.each(group, |cells| {
                hasher.add(&mut lanes, &view.layout.put_together(&cells)?);
                Ok::<_, Trouble>(())
            })?;
        }
        Ok(table_state(&self.name, &self.schema_hash, view.rows.rows() as u64, &lanes))
    }
}

fn borrowed<'r>(cells: &'r [Option<CellBytes<'_>>]) -> Vec<Option<&'r [u8]>> {
    cells.iter().map(|cell| cell.as_ref().map(AsRef::as_ref)).collect()
}

#[cfg(test)]
mod tests {
    use chainify_codec::{row_hash, RowWriter, Value};
    use proptest::prelude::*;

    use super::*;
    use crate::cells::encoded;
    use crate::layout::ToldColumn;

    const BOOL: u32 = 16;
    const INT8: u32 = 20;
    const TEXT: u32 = 25;
    const JSONB: u32 = 3802;
    const FLOAT8: u32 = 701;
    const BPCHAR: u32 = 1042;
    const NUMERIC: u32 = 1700;
    const DATE: u32 = 1082;

    fn told(ordinal: u16, type_oid: u32, modifier: i32) -> ToldColumn {
        ToldColumn { ordinal, attnum: ordinal as i16 + 1, of_key: ordinal == 1, type_oid, modifier }
    }

    /// A key and columns of several kinds, one of them without cells.
    fn layout() -> Arc<Layout> {
        let decimal = (12 << 16 | 2) + 4;
        let columns =
            [(1, INT8, -1), (2, TEXT, -1), (3, JSONB, -1), (5, NUMERIC, decimal), (6, FLOAT8, -1), (7, BPCHAR, 9)];
        let columns = columns.iter().chain(&[(8, DATE, -1), (9, BOOL, -1)]);
        Arc::new(Layout::new(columns.map(|(ordinal, oid, modifier)| told(*ordinal, *oid, *modifier)).collect()))
    }

    /// `lp(row) ‖ minus zeros`
    fn told_row(values: &[(u16, Value)], minus_zeros: &[u16]) -> Vec<u8> {
        let row = encoded(values).unwrap();
        let mut told = (row.len() as u32).to_be_bytes().to_vec();
        told.extend_from_slice(&row);
        minus_zeros.iter().for_each(|ordinal| told.extend_from_slice(&ordinal.to_be_bytes()));
        told
    }

    fn mirror() -> Mirror {
        Mirror::new((&Pool::new(64 << 20), Choice::Chunks), "public.t", [7; 32], layout()).unwrap()
    }

    fn state_of_cells(mirror: &mut Mirror) -> Hash {
        let view = mirror.view().unwrap();
        assert_eq!(mirror.given().are_in(&view), mirror.given().state_of(&view).unwrap() == mirror.state());
        mirror.given().state_of(&view).unwrap()
    }

    fn key(id: i64) -> Vec<u8> {
        encoded(&[(1, Value::Int(id))]).unwrap()
    }

    prop_compose! {
        fn values()(
            text in proptest::option::of(".{0,40}"),
            json in proptest::option::of(0..3_u8),
            cents in proptest::option::of(-999_999_999_999_i64..=999_999_999_999),
            float in proptest::option::of(prop_oneof![any::<f64>(), Just(0.0), Just(f64::NAN)]),
            padded in proptest::option::of("[a-c ]{0,5}"),
            days in proptest::option::of(prop_oneof![-100_000_i64..100_000, Just(i64::MIN), Just(i64::MAX)]),
            flag in proptest::option::of(any::<bool>()),
        ) -> Vec<(u16, Value)> {
            let cents = cents.map(|cents| {
                let mut bytes = Vec::new();
                let sign = if cents < 0 { "-" } else { "" };
                let cents = cents.unsigned_abs();
                let text = format!("{sign}{}.{:02}", cents / 100, cents % 100);
                RowWriter::begin(&mut bytes).column(1, |out| chainify_codec::value::numeric(out, &text)).unwrap();
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            });
            let cents = cents.map(|text| if text == "-0" { "0".into() } else { text });
            [
                text.map(|text| (2, Value::Text(text))),
                json.map(|n| (3, Value::Json(format!("{{\"n\":{n}}}")))),
                cents.map(|text| (5, Value::Numeric(text))),
                float.map(|float| (6, Value::Float(if float == 0.0 { 0.0 } else { float }))),
                padded.map(|text| (7, Value::Text(text.trim_end_matches(' ').into()))),
                days.map(|days| (8, Value::Date(days))),
                flag.map(|flag| (9, Value::Bool(flag))),
            ]
            .into_iter()
            .flatten()
            .collect()
        }
    }

    fn row(id: i64, mut values: Vec<(u16, Value)>) -> Vec<(u16, Value)> {
        values.insert(0, (1, Value::Int(id)));
        values
    }

    proptest! {
        #![proptest_config(chainify_seeded::config(256))]

        /// Q1: after any changes the state is that of the rows, and so is the one of the cells.
        #[test]
        fn the_state_is_that_of_the_rows(changes in proptest::collection::vec((0..12_i64, values(), any::<bool>()), 1..60)) {
            let mut mirror = mirror();
            let mut model = std::collections::BTreeMap::new();
            for (id, values, delete) in changes {
                let values = row(id, values);
                let (op, told) = match (model.contains_key(&id), delete) {
                    (true, true) => (b'D', key(id)),
                    (true, false) => (b'U', told_row(&values, &[])),
                    (false, _) => (b'I', told_row(&values, &[])),
                };
                mirror.apply(op, &told).unwrap();
                match op {
                    b'D' => _ = model.remove(&id),
                    _ => _ = model.insert(id, encoded(&values).unwrap()),
                }
            }
            let mut lanes = Lanes::zero();
            model.values().for_each(|row| lanes.add("public.t", row));
            let want = table_state("public.t", &[7; 32], model.len() as u64, &lanes);
            prop_assert_eq!(mirror.state(), want);
            prop_assert_eq!(state_of_cells(&mut mirror), want);
        }

        /// Rows that come together are as those that come one by one.
        #[test]
        fn rows_come_together_or_one_by_one(values in proptest::collection::vec(values(), 0..40)) {
            let (mut together, mut one_by_one) = (mirror(), mirror());
            let told: Vec<_> = values.into_iter().zip(0..).map(|(values, id)| told_row(&row(id, values), &[])).collect();
            told.iter().for_each(|told| one_by_one.insert(told).unwrap());
            let told: Vec<&[u8]> = told.iter().map(Vec::as_slice).collect();
            together.insert_all(&told).unwrap();
            prop_assert_eq!(together.state(), one_by_one.state());
            prop_assert_eq!(state_of_cells(&mut together), one_by_one.state());
            if let Some(again) = told.last() {
                prop_assert!(matches!(together.insert_all(&[again]), Err(Trouble::Told(_))));
            }
        }

        /// Cells keep every value.
        #[test]
        fn rows_come_back(values in values()) {
            let values = row(5, values);
            let told = told_row(&values, &[]);
            let taken = layout().take_apart(&ToldRow::read(&told).unwrap()).unwrap();
            let cells: Cells = taken.cells.iter().map(|cell| cell.as_ref().map(|cell| cell.as_ref().to_vec())).collect();
            let back = layout().put_together(&cells).unwrap();
            prop_assert_eq!(row_hash("t", &back), row_hash("t", &encoded(&values).unwrap()));
            prop_assert_eq!(taken.key, key(5));
        }
    }

    #[test]
    fn a_minus_zero_keeps_its_sign_and_counts_as_zero() {
        let values = [(1, Value::Int(1)), (6, Value::Float(0.0))];
        let mut mirror = mirror();
        mirror.apply(b'I', &told_row(&values, &[6])).unwrap();
        let place = 3; // columns 1, 2, 5 and 6 have cells
        let cell = mirror.table.value(0, place).unwrap().unwrap();
        assert_eq!(cell, (-0.0_f64).to_le_bytes());
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
        mirror.apply(b'D', &key(1)).unwrap();
        assert_eq!(mirror.state(), table_state("public.t", &[7; 32], 0, &Lanes::zero()));
    }

    #[test]
    fn rows_of_a_state_are_known_without_reading_changes() {
        let columns = vec![told(1, INT8, -1), told(2, TEXT, -1)];
        let pool = Pool::new(64 << 20);
        let layout = Arc::new(Layout::new(columns));
        let mut mirror = Mirror::new((&pool, Choice::Chunks), "public.t", [7; 32], layout).unwrap();
        let before = mirror.state();
        assert!(mirror.has_rows_of(Some(&before)) && !mirror.has_rows_of(None));
        mirror.insert(&told_row(&[(1, Value::Int(1))], &[])).unwrap();
        assert!(!mirror.has_rows_of(Some(&before)) && mirror.has_rows_of(Some(&mirror.state())));
        // The state of a table with floats does not tell a minus zero from a zero.
        let floats = self::mirror();
        assert!(!floats.has_rows_of(Some(&floats.state())));
    }

    #[test]
    fn a_cell_that_changed_by_itself_is_found() {
        let mut mirror = mirror();
        mirror.insert(&told_row(&[(1, Value::Int(1)), (2, Value::Text("a".into()))], &[])).unwrap();
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
        mirror.table.update(0, 1, Some(b"b")).unwrap();
        assert_ne!(state_of_cells(&mut mirror), mirror.state());
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut mirror = mirror();
        mirror.apply(b'I', &told_row(&[(1, Value::Int(1))], &[])).unwrap();
        let state = mirror.state();
        let refused: &[(u8, Vec<u8>)] = &[
            (b'I', told_row(&[(1, Value::Int(1))], &[])),
            (b'U', told_row(&[(1, Value::Int(2))], &[])),
            (b'D', key(2)),
            (b'X', key(1)),
            (b'I', vec![0, 0, 0, 9, 1]),
            (b'I', vec![]),
            (b'I', told_row(&[(1, Value::Text("no number".into()))], &[])),
            (b'I', told_row(&[(1, Value::Int(3)), (5, Value::Numeric("Infinity".into()))], &[])),
            (b'I', told_row(&[(1, Value::Int(3)), (5, Value::Numeric("12345678901.5".into()))], &[])),
            (b'I', told_row(&[(1, Value::Int(3)), (5, Value::Numeric("1.005".into()))], &[])),
            (b'I', told_row(&[(1, Value::Int(3)), (4, Value::Int(1))], &[])),
        ];
        for (op, told) in refused {
            assert!(matches!(mirror.apply(*op, told), Err(Trouble::Told(_))), "{} {told:?}", op.escape_ascii());
            assert_eq!(mirror.state(), state);
            assert_eq!(state_of_cells(&mut mirror), state);
        }
    }

    /// A NaN is mirrored, and says that the column is not for queries.
    #[test]
    fn nan_takes_no_more_than_its_column() {
        let mut mirror = mirror();
        let (place, nan) = (2, Value::Numeric("NaN".into()));
        mirror.apply(b'I', &told_row(&[(1, Value::Int(1)), (5, Value::Numeric("1.5".into()))], &[])).unwrap();
        let before = mirror.view().unwrap();
        mirror.apply(b'I', &told_row(&[(1, Value::Int(2)), (5, nan)], &[])).unwrap();
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
        mirror.apply(b'D', &key(2)).unwrap();
        let after = mirror.view().unwrap();
        let have_nan = |view: &TableView| [place, 0, 1].map(|at| view.bounds.have_nan(&view.layout, at));
        assert_eq!((have_nan(&before), have_nan(&after)), ([false; 3], [true, false, false]));
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
    }

    #[test]
    fn the_bound_of_memory_refuses_a_row_whole() {
        let mut mirror = Mirror::new((&Pool::new(2 << 20), Choice::Chunks), "public.t", [7; 32], layout()).unwrap();
        let long = "x".repeat(100_000);
        let mut added = 0;
        let refused = loop {
            let values = [(1, Value::Int(added)), (2, Value::Text(long.clone()))];
            match mirror.insert(&told_row(&values, &[])) {
                Ok(()) => added += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Trouble::Store(Error::Full { .. })), "{refused}");
        assert!(added > 2);
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
        assert_eq!(mirror.table.rows(), added as usize);
    }

    /// Moving long values takes several calls, between which rows change; all rows stay.
    #[test]
    fn long_values_are_moved_while_rows_change() {
        const PIECE: usize = 500;
        let rows = PIECE as i64 * 2 + 1;
        let columns = vec![told(1, INT8, -1), told(2, TEXT, -1)];
        let mut mirror =
            Mirror::new((&Pool::new(256 << 20), Choice::Chunks), "public.t", [7; 32], Arc::new(Layout::new(columns)))
                .unwrap();
        let row = |id: i64, text: &str| told_row(&[(1, Value::Int(id)), (2, Value::Text(text.repeat(20)))], &[]);
        (0..rows).for_each(|id| mirror.insert(&row(id, "a")).unwrap());
        mirror.compact_piece(PIECE).unwrap();
        assert!(!mirror.is_compacting(), "nothing is dead");
        (0..rows).filter(|id| id % 5 > 0).for_each(|id| mirror.apply(b'U', &row(id, "b")).unwrap());
        (0..rows).filter(|id| id % 7 > 0).for_each(|id| mirror.apply(b'U', &row(id, "c")).unwrap());
        let dead = |mirror: &Mirror| mirror.table.dead_bytes(1).unwrap();
        let (before, all) = dead(&mirror);
        assert!(before > all / 2, "{before} of {all}");
        let mut calls = 0;
        while calls == 0 || mirror.is_compacting() {
            mirror.compact_piece(PIECE).unwrap();
            mirror.apply(b'U', &row(calls, "d")).unwrap();
            mirror.apply(b'D', &key(rows - 1 - calls)).unwrap();
            calls += 1;
        }
        assert_eq!(calls, 3);
        let (after, all) = dead(&mirror);
        assert!(after < all / 2 && after < before / 2, "{after} of {all}, before {before}");
        assert_eq!(state_of_cells(&mut mirror), mirror.state());
    }
}
