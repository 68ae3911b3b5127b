//! Which blocks maintenance folds, or reads again, in one step, and which block gets a checkpoint.

use std::time::Duration;

/// Blocks of one step, however few changes they made.
pub const BLOCKS_MAX: i64 = 1_000;

/// The blocks after `after`, up to and with `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The last block before them.
    pub after: i64,
    /// The last of them; `after` when there is none.
    pub to: i64,
}

/// Whether block `number` gets a checkpoint: its turn has come, or it `deployed`. Which tables are on the ledger is not
/// replayed, so recovery has to have a checkpoint behind such a block.
pub fn checkpoint_is_due(number: i64, interval: Option<i64>, deployed: bool) -> bool {
    deployed || interval.is_some_and(|interval| number % interval == 0)
}

/// The blocks to fold next: from the oldest base on, `after`, towards the oldest checkpoint that stays, `target`. None: none
/// now.
///
/// `blocks` gives the blocks of a range, in their order, with how many changes each made.
pub fn fold_range<B: IntoIterator<Item = (i64, i64)>>(
    after: i64,
    target: i64,
    changes_max: i64,
    blocks: impl FnOnce(Range) -> B,
) -> Option<Range> {
    let all = Range { after, to: target.min(after + BLOCKS_MAX) };
    let to = last_of_step(after, changes_max, blocks(all))?;
    Some(Range { after, to })
}

/// How far the past was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Up to this block; 0 between two passes.
    pub read: i64,
    /// How long ago a pass ended; None: the next one is due.
    pub ago: Option<Duration>,
}

/// The blocks of the past to read next, up to the newest base: recovery may have brought that of a single table forward,
/// past history that is false. An empty range is the end of a pass. None: the next pass is not due.
///
/// `blocks` as for [`fold_range`]. Where it gives none, they are missing: the step reads over them and says so.
pub fn audit_range<B: IntoIterator<Item = (i64, i64)>>(
    Past { read, ago }: Past,
    newest_base: i64,
    interval: Duration,
    changes_max: i64,
    blocks: impl FnOnce(Range) -> B,
) -> Option<Range> {
    let due = ago.is_none_or(|ago| ago > interval) && newest_base > 0;
    if read <= 0 && !due {
        return None;
    }
    let all = Range { after: read, to: newest_base.min(read + BLOCKS_MAX) };
    let to = last_of_step(read, changes_max, blocks(all)).unwrap_or(all.to);
    Some(Range { after: read, to: to.max(read) })
}

/// The last of the blocks that make up to `changes_max` changes together; the first one after `after` whatever it makes.
fn last_of_step(after: i64, changes_max: i64, blocks: impl IntoIterator<Item = (i64, i64)>) -> Option<i64> {
    let together = blocks.into_iter().scan(0i64, |sum, (number, changes)| {
        *sum = sum.saturating_add(changes);
        Some((number, *sum))
    });
    let fits = together.take_while(|(number, sum)| *sum <= changes_max || *number == after + 1);
    fits.last().map(|(number, _)| number)
}
