//! Reading whole tables at a block, and comparing them with the certified state (Q1).

use std::collections::BTreeSet;
use std::sync::Arc;

use chainify_codec::{state_root, Hash};
use chainify_snapshot::{Choice, Error, Pool};

use crate::cells::Refused;
use crate::layout::Layout;
use crate::mirror::{Mirror, Trouble};
use crate::source::{Changes, Moment, SourceError, States, ToldTable};
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
    /// How columns share it with snapshots.
    pub strategy: Choice,
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
    let mut mirror = Mirror::new((&memory.pool, memory.strategy), &table.name, table.schema_hash, layout)?;
    moment.rows(table.id, block, |told| Ok::<_, LoadError>(memory.within(|| mirror.insert_all(told))?)).await?;
    Ok(mirror)
}

/// Applies changes that were read. After an error the mirror is of no more use.
///
/// # Errors
/// Those that do not fit the rows; the bound of memory.
pub fn apply(memory: &Memory, mirror: &mut Mirror, changes: &Changes) -> Result<(), LoadError> {
    changes.each(|op, told| Ok(memory.within(|| mirror.apply(op, told))?))
}

/// The tables whose rows are not the certified ones (Q1): none when the state root is. `told` are
/// the states that the database has, `computed` those of mirrors.
///
/// A table differs whose state is not the one that the database has for it. When no such table is
/// to blame, the database itself deviates, and all tables are named. One differs as well that the
/// state root is not over, or that has two mirrors which are not alike.
pub fn differing(certified: &Hash, told: &States, mirrors: &[(String, Hash)]) -> BTreeSet<String> {
    let computed: States = mirrors.iter().cloned().collect();
    let alike = |(name, state): &&(String, Hash)| told.contains_key(name) && computed.get(name) == Some(state);
    let mut wrong: BTreeSet<String> = mirrors.iter().filter(|of| !alike(of)).map(|(name, _)| name.clone()).collect();
    wrong.extend(not_certified(certified, told, &computed));
    wrong
}

fn not_certified(certified: &Hash, told: &States, computed: &States) -> BTreeSet<String> {
    let root = |computed: &dyn Fn(&str) -> Option<Hash>| {
        state_root(told.iter().map(|(name, state)| (name.as_str(), computed(name).unwrap_or(*state))))
    };
    if root(&|name| computed.get(name).copied()) == *certified {
        return BTreeSet::new();
    }
    let names = || computed.keys().cloned();
    if root(&|_| None) != *certified {
        return names().collect();
    }
    names().filter(|alone| root(&|name| computed.get(name).copied().filter(|_| name == alone)) != *certified).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(of: &[(&str, u8)]) -> States {
        of.iter().map(|(name, byte)| ((*name).into(), [*byte; 32])).collect()
    }

    #[test]
    fn tables_that_differ_are_named() {
        let told = states(&[("a.t", 1), ("a.u", 2), ("definitions", 3)]);
        let certified = state_root(told.iter().map(|(name, state)| (name.as_str(), *state)));
        let named = |certified: &Hash, computed: &[(&str, u8)]| {
            let mirrors: Vec<(String, Hash)> =
                computed.iter().map(|(name, byte)| ((*name).into(), [*byte; 32])).collect();
            differing(certified, &told, &mirrors).into_iter().collect::<Vec<_>>()
        };
        // The state root is not over it, or it is over one of two.
        assert_eq!(named(&certified, &[("a.t", 1), ("a.v", 4)]), ["a.v"]);
        assert_eq!(named(&certified, &[("a.t", 9), ("a.t", 1)]), ["a.t"]);
        assert_eq!(named(&certified, &[("a.t", 1), ("a.t", 9)]), ["a.t"]);
        assert!(named(&certified, &[("a.t", 1), ("a.t", 1)]).is_empty());
        assert!(named(&certified, &[("a.t", 1), ("a.u", 2)]).is_empty());
        assert!(named(&certified, &[]).is_empty());
        assert_eq!(named(&certified, &[("a.t", 1), ("a.u", 9)]), ["a.u"]);
        assert_eq!(named(&certified, &[("a.t", 9), ("a.u", 9)]), ["a.t", "a.u"]);
        // The database deviates by itself.
        assert_eq!(named(&[7; 32], &[("a.t", 1)]), ["a.t"]);
    }
}
