//! The transactions of this process's part that must keep to their declared access
//! (spec/scheduling.md).
use std::rc::Rc;

use chainify_sched::declared::Declared;

use crate::ledger::own_tables::OwnTable;
use crate::running::block_state::{block, ByTransaction};

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

/// The access that is declared for a transaction of the block, if it runs beside others.
pub fn of(tx: u32) -> Option<Rc<[Declared]>> {
    block(|block| block.declared.borrow().get(&tx).cloned())
}
