//! Reading whole tables at a block, and comparing them with the certified state (V1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chainify_codec::Hash;
use chainify_snapshot::{Error, Pool};

use crate::cells::Refused;
use crate::layout::Layout;
use crate::mirror::{Mirror, Trouble};
use crate::source::{At, Moment, SourceError, ToldTable};
use crate::views::Views;

/// The reason why rows of a moment cannot be had.
#[derive(Debug)]
pub enum LoadError {
    /// The database.
    Source(SourceError),
    /// A row that cannot be mirrored, or the bound of memory.
    Trouble(Trouble),
}

impl From<SourceError> for LoadError {
    fn from(error: SourceError) -> Self {
        LoadError::Source(error)
    }
}

impl From<Trouble> for LoadError {
    fn from(error: Trouble) -> Self {
        LoadError::Trouble(error)
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        LoadError::Trouble(Trouble::Store(error))
    }
}

impl From<Refused> for LoadError {
    fn from(error: Refused) -> Self {
        LoadError::Trouble(Trouble::Told(error))
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Source(error) => error.fmt(f),
            LoadError::Trouble(error) => error.fmt(f),
        }
    }
}

/// The memory of all mirrors and snapshots.
#[derive(Clone)]
pub struct Memory {
    /// Columns and values.
    pub pool: Arc<Pool>,
    /// The views that go first.
    pub views: Arc<Views>,
}

impl Memory {
    /// Does something that takes memory of the pool. While the bound refuses it, the oldest
    /// snapshots go (V4).
    ///
    /// # Errors
    /// Those of `step`.
    pub fn within<T>(&self, mut step: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
        loop {
            match step() {
                Err(Trouble::Store(Error::Full { .. })) if self.views.give_up_oldest() => (),
                done => return done,
            }
        }
    }
}

/// Reads a table at a block.
///
/// # Errors
/// Those of the database; a row that cannot be mirrored; the bound of memory.
pub async fn load(memory: &Memory, moment: &Moment<'_>, table: &ToldTable, block: i64) -> Result<Mirror, LoadError> {
    let layout = Arc::new(Layout::new(table.columns.clone()));
    let mut mirror = Mirror::new(&memory.pool, &table.name, table.schema_hash, layout)?;
    moment.rows(table.id, block, |told| Ok::<_, LoadError>(memory.within(|| mirror.insert(told))?)).await?;
    Ok(mirror)
}

/// Applies the changes of blocks after `after` up to `up_to`.
///
/// # Errors
/// As [`load`].
pub async fn advance(
    memory: &Memory,
    moment: &Moment<'_>,
    (table, mirror): (i32, &mut Mirror),
    (after, up_to): (i64, i64),
) -> Result<(), LoadError> {
    moment
        .changes(table, (after, up_to), |op, told| Ok::<_, LoadError>(memory.within(|| mirror.apply(op, told))?))
        .await?;
    Ok(mirror.compact()?)
}

/// The tables whose rows are not the certified ones (V1): none when the state root is.
///
/// A table differs whose state is not the one that the database has for it. When no such table is
/// to blame, the database itself deviates, and all tables are named.
///
/// # Errors
/// Those of the database.
pub async fn differing(
    moment: &Moment<'_>,
    at: At,
    certified: &Hash,
    states: &BTreeMap<String, Hash>,
) -> Result<BTreeSet<String>, SourceError> {
    if moment.state_root(at, states).await? == *certified {
        return Ok(BTreeSet::new());
    }
    let mut wrong = BTreeSet::new();
    for (name, state) in states {
        let alone = BTreeMap::from([(name.clone(), *state)]);
        if moment.state_root(at, &alone).await? != *certified {
            wrong.insert(name.clone());
        }
    }
    Ok(match moment.state_root(at, &BTreeMap::new()).await? == *certified {
        true => wrong,
        false => states.keys().cloned().collect(),
    })
}
