//! The transactions of this process's part that must keep to their declared access
//! (spec/scheduling.md).
use crate::ledger::own_tables::OwnTable;
use crate::pg::run::planned_access;
use crate::transaction::block_state::{block, ByTransaction};

/// Whether there are declarations in this database.
pub fn exist() -> bool {
    OwnTable::read("declared_access").has_rows()
}

/// Runs `f`, in which each transaction has to keep to what is declared for it.
pub fn checked<T>(declared: ByTransaction, f: impl FnOnce() -> T) -> T {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            block(|block| block.declared.take());
        }
    }
    block(|block| block.declared.replace(declared));
    let _clear = Clear;
    f()
}

/// Runs a transaction of the block, which has to keep to what is declared for it, if it runs beside
/// others.
pub fn keeping<T>(tx: u32, f: impl FnOnce() -> T) -> T {
    let declared = block(|block| block.declared.borrow().get(&tx).cloned());
    planned_access::within(declared, f)
}
