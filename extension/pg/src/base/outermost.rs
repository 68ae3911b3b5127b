//! Whether the next query to be planned is a statement that this extension runs, or one nested
//! inside it.
use std::cell::Cell;

thread_local! {
    /// The next query is the submitted statement itself; false once it runs.
    static OUTERMOST: Cell<bool> = const { Cell::new(false) };
}

/// Says that the next query is a statement as submitted.
pub(crate) fn outermost() {
    OUTERMOST.set(true);
}

/// Says that it is planned and runs: what comes to the planner now is inside of it.
pub(crate) fn running() {
    OUTERMOST.set(false);
}

/// Whether the query that is planned now is a statement as submitted; the one after it is not.
pub(crate) fn take() -> bool {
    OUTERMOST.replace(false)
}
