//! EFFECTS transactions: the turns of the write sets of a block, whether each may be applied, and
//! its changes.
//!
//! Knows write sets. Must not know the other kinds of transactions.
pub mod effects_explained;
pub mod effects_order;
pub mod recent_changes;
pub mod serializable;
pub mod write_sets;
pub mod written_table;
