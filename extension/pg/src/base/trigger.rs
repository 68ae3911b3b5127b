//! Calls of our trigger functions.
use pgrx::pg_sys;

use crate::base::cell::Cell;
use crate::base::error::PgError;
use crate::base::relation::{Scratch, Tuple};

/// Exports `fn(&TriggerCall)` as a trigger function.
#[macro_export]
macro_rules! trigger_function {
    ($symbol:ident, $finfo:ident, $function:path) => {
        $crate::export_v1!($symbol, $finfo, $crate::base::trigger::run, $function);
    };
}

/// Exports `fn(Oid, &Tuple) -> Vec<(i16, Cell)>` as a BEFORE ROW trigger function: of the row that
/// is about to be stored in the table, these columns, by number, get other values.
#[macro_export]
macro_rules! store_function {
    ($symbol:ident, $finfo:ident, $function:path) => {
        $crate::export_v1!(
            $symbol,
            $finfo,
            $crate::base::trigger::run_before,
            $function
        );
    };
}

/// The event that the trigger fired for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Insert,
    Update,
    Delete,
    Truncate,
}

/// One call of a trigger function.
pub struct TriggerCall<'a>(&'a pg_sys::TriggerData);

/// Called by `trigger_function!` only. Refuses calls that are not AFTER ROW or, for TRUNCATE,
/// BEFORE STATEMENT.
///
/// # Safety
/// To be the whole body of an exported function, which PostgreSQL's function manager calls with
/// `fcinfo`.
#[doc(hidden)]
pub unsafe fn run(fcinfo: pg_sys::FunctionCallInfo, f: fn(&TriggerCall)) -> pg_sys::Datum {
    // SAFETY: by the caller's promise.
    unsafe {
        crate::base::error::enter(|| {
            let call = call(fcinfo);
            call.must_be(match call.event() {
                Event::Truncate => pg_sys::TRIGGER_EVENT_BEFORE,
                _ => pg_sys::TRIGGER_EVENT_ROW,
            });
            f(&call);
            (*fcinfo).isnull = false;
            pg_sys::Datum::from(0)
        })
    }
}

/// Called by `store_function!` only. Refuses calls that are not BEFORE INSERT or UPDATE of a row.
///
/// # Safety
/// To be the whole body of an exported function, which PostgreSQL's function manager calls with
/// `fcinfo`.
#[doc(hidden)]
pub unsafe fn run_before(
    fcinfo: pg_sys::FunctionCallInfo,
    f: fn(pg_sys::Oid, &Tuple) -> Vec<(i16, Cell)>,
) -> pg_sys::Datum {
    // SAFETY: by the caller's promise. The trigger manager takes a tuple of the
    // memory context in which it called, or the one that it gave.
    unsafe {
        crate::base::error::enter(|| {
            let call = call(fcinfo);
            call.must_be(pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_BEFORE);
            let given = match call.event() {
                Event::Insert => call.0.tg_trigtuple,
                Event::Update => call.0.tg_newtuple,
                Event::Delete | Event::Truncate => wrong_time(),
            };
            // Not one for all calls: conditions of domains inside of a value may store rows
            // themselves.
            let mut scratch = Scratch::default();
            let row = call.deform(given, &mut scratch);
            let changed = f(call.relation(), &row);
            (*fcinfo).isnull = false;
            pg_sys::Datum::from(match changed.is_empty() {
                true => given,
                false => row.with(&changed, pg_sys::CurrentMemoryContext),
            })
        })
    }
}

/// # Safety
/// `fcinfo` must be of the call of a function.
unsafe fn call<'a>(fcinfo: pg_sys::FunctionCallInfo) -> TriggerCall<'a> {
    // SAFETY: by the caller's promise; the context's tag is checked before it is read as
    // TriggerData.
    unsafe {
        let context = (*fcinfo).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
            PgError::new(b"39P01", "not called by trigger manager").raise();
        }
        TriggerCall(&*context.cast())
    }
}

fn wrong_time() -> ! {
    PgError::new(b"39P01", "trigger of the ledger fired at the wrong time").raise()
}

impl TriggerCall<'_> {
    fn must_be(&self, when: u32) {
        let flags = pg_sys::TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;
        if self.0.tg_event & flags != when {
            wrong_time();
        }
    }

    pub fn event(&self) -> Event {
        match self.0.tg_event & pg_sys::TRIGGER_EVENT_OPMASK {
            pg_sys::TRIGGER_EVENT_INSERT => Event::Insert,
            pg_sys::TRIGGER_EVENT_DELETE => Event::Delete,
            pg_sys::TRIGGER_EVENT_UPDATE => Event::Update,
            _ => Event::Truncate,
        }
    }

    /// The table the row is in: a partition, not its root.
    pub fn relation(&self) -> pg_sys::Oid {
        // SAFETY: the trigger manager holds the relation open during the call.
        unsafe { (*self.0.tg_relation).rd_id }
    }

    /// The row before an update or a delete, the row inserted.
    pub fn row<'s>(&self, scratch: &'s mut Scratch) -> Tuple<'s> {
        self.deform(self.0.tg_trigtuple, scratch)
    }

    /// The row after an update.
    pub fn new_row<'s>(&self, scratch: &'s mut Scratch) -> Tuple<'s> {
        self.deform(self.0.tg_newtuple, scratch)
    }

    fn deform<'s>(&self, tuple: pg_sys::HeapTuple, scratch: &'s mut Scratch) -> Tuple<'s> {
        if tuple.is_null() {
            PgError::new(b"39P01", "trigger of the ledger got no row").raise();
        }
        // SAFETY: the tuple is of the trigger's relation, and both live as long as the call.
        unsafe { scratch.deform(tuple, (*self.0.tg_relation).rd_att) }
    }
}
