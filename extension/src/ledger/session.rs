//! The rights of this session on ledger tables at the moment.
use std::cell::Cell;

use crate::pg::base::own_work;

/// Set by the executor around what it runs; everything else is `Outside`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// An ordinary session: the guard refuses writes.
    Outside,
    /// An ordinary session whose changes are recorded, undone and ordered when it commits.
    Plain,
    /// A client's transaction in a block: changes are recorded.
    Client { tx: u32 },
    /// A statement of the ledger's own in a client's transaction: changes are recorded, and nobody
    /// judges the statement.
    Own { tx: u32 },
    /// A statement of a DEPLOY transaction: definitions change, rows do not.
    Deploy,
    /// The ledger's own work (attach, seal, repair): neither refused nor recorded.
    Internal,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Outside) };
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

pub fn mode() -> Mode {
    match MODE.get() {
        Mode::Outside if PLAIN.get() => Mode::Plain,
        mode => mode,
    }
}

/// From now on an ordinary session's changes are recorded, or not.
pub fn set_plain(plain: bool) {
    PLAIN.set(plain);
}

/// Runs `f` in `mode`; the old one returns however `f` ends.
pub fn with<T>(mode: Mode, f: impl FnOnce() -> T) -> T {
    struct Restore(Mode, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MODE.set(self.0);
            own_work::set(self.1);
        }
    }
    let is_own_work = mode != Mode::Outside;
    let _restore = Restore(MODE.replace(mode), own_work::set(is_own_work));
    f()
}

/// Runs `f` with guard and digest off: for repairs, whose changes are not effects of a block.
pub fn unrecorded<T>(f: impl FnOnce() -> T) -> T {
    with(Mode::Internal, f)
}
