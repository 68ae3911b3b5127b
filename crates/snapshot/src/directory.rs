//! The chunks of a column, as a copy-on-write tree of two levels.

use crate::chunk::Chunk;
use crate::error::Error;
use crate::sync::{owned, Arc};

/// Chunks under one leaf: a leaf is copied in the time of a tenth of a chunk of 64 KiB.
const LEAF: usize = 64;

/// The chunks of a column. A clone shares all of them: it costs one atomic addition (V3).
///
/// The first write to a chunk after a clone copies the root, a leaf and the chunk, if they are
/// shared still. Of 3,200 chunks these are 50 and 64 pointers.
#[derive(Clone, Default)]
pub(crate) struct Directory {
    root: Arc<Root>,
}

#[derive(Clone, Default)]
struct Root {
    leaves: Vec<Arc<Vec<Arc<Chunk>>>>,
    chunks: usize,
}

impl Directory {
    /// Number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.root.chunks
    }

    /// A chunk, shared.
    ///
    /// # Panics
    /// When there are fewer.
    pub(crate) fn chunk(&self, index: usize) -> &Arc<Chunk> {
        &self.root.leaves[index / LEAF][index % LEAF]
    }

    /// The chunks, each with whether a snapshot has it too. Cost: a look at each chunk.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (&Arc<Chunk>, bool)> {
        let root_shared = Arc::strong_count(&self.root) != 1;
        self.root.leaves.iter().flat_map(move |leaf| {
            let leaf_shared = root_shared || Arc::strong_count(leaf) != 1;
            leaf.iter().map(move |chunk| (chunk, leaf_shared || Arc::strong_count(chunk) != 1))
        })
    }

    /// Adds a chunk behind the others.
    pub(crate) fn push(&mut self, chunk: Arc<Chunk>) {
        let root = owned(&mut self.root);
        root.chunks += 1;
        match root.leaves.last_mut() {
            Some(leaf) if leaf.len() < LEAF => owned(leaf).push(chunk),
            _ => root.leaves.push(Arc::new(vec![chunk])),
        }
    }

    /// The bytes of a chunk that nobody shares, which it becomes by copying (V1).
    ///
    /// # Panics
    /// When there are fewer chunks.
    pub(crate) fn write(&mut self, index: usize) -> Result<&mut [u8], Error> {
        let leaf = owned(&mut owned(&mut self.root).leaves[index / LEAF]);
        let chunk = &mut leaf[index % LEAF];
        // Nobody can begin to share it meanwhile: that takes a reference to this directory. A
        // reader that is just letting go causes a copy too many, nothing else.
        if Arc::strong_count(chunk) != 1 {
            *chunk = Arc::new(chunk.copied()?);
        }
        Ok(Arc::get_mut(chunk).expect("a chunk with one owner").as_mut_slice())
    }
}
