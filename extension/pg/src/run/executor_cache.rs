//! Executor states kept from one execution of a statement to the next.
//!
//! The statements of functions are short: starting and ending the executor takes as long as running
//! them. While a block runs, a statement with a kept and [known](crate::run::resettable_plans)
//! plan keeps its state. When the statement ends, the state goes back to what it was at the
//! beginning. The next execution of the plan sets what belongs to an execution (snapshot, command,
//! parameters, receiver), and has its rights on tables checked as ever.
//!
//! Invariant X10: an execution with a kept state gives the same result as one that starts anew.
//!
//! A kept state has a memory context and a resource owner of its own, so that what it holds (open
//! relations, their locks) outlives the subtransaction that used it. The end of that subtransaction
//! in the middle of an execution ends the state. So does the end of its plan, which PostgreSQL
//! announces, any change of definitions, every utility statement, and the end of the block.
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{c_int, c_void, CStr};
use std::mem::size_of;
use std::ops::{Deref, DerefMut};
use std::ptr::{null_mut, NonNull};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::base::catalog::generation;
use crate::base::error::{catch_c, enter, without_raising, OrRaise};
use crate::base::major::Run;
use crate::base::settings;
use crate::base::subtransaction::Hooks;
use crate::run::crossed;
use crate::run::executor_state::{
    end_execution, end_state, make_room, release, start_again, start_first, Kept, Room, Statement,
};
use crate::run::resettable_plans::is_known;

/// States kept at a time; a state takes some 30 kB, and as much for each of its scans of an index.
const KEPT_MAX: usize = 128;
/// Roles remembered for a plan.
const ROLES_MAX: usize = 1_024;

/// PostgreSQL's functions without pgrx's boundary: nothing of ours is on the stack that an ERROR
/// could skip.
mod raw {
    use super::{c_int, pg_sys};
    c_functions! {
        pub(crate) fn standard_ExecutorFinish(query: *mut pg_sys::QueryDesc);
        pub(crate) fn MemoryContextDelete(context: pg_sys::MemoryContext);
        pub(crate) fn GetCurrentTransactionNestLevel() -> c_int;
        pub(crate) fn GetUserId() -> pg_sys::Oid;
    }
}

/// The known facts about a statement.
struct Facts {
    known: bool,
    /// The last block that it ran in: the second time its state is worth keeping.
    block: u64,
    /// It started for these roles, as of a generation of the catalog: they may call its functions.
    roles: BTreeSet<u32>,
    generation: u64,
    /// A kept state of it runs.
    runs: bool,
    idle: Option<Held>,
}

/// The owner of a kept state. The hooks have pointers to the state beside it, which a `Box` that
/// moves would not allow.
struct Held(NonNull<Kept>);

impl Held {
    fn new(kept: Kept) -> Self {
        Held(NonNull::from(Box::leak(Box::new(kept))))
    }

    /// Valid until the owner is dropped. For use while there is no reference to the state.
    fn pointer(&self) -> *mut Kept {
        self.0.as_ptr()
    }
}

impl Deref for Held {
    type Target = Kept;

    fn deref(&self) -> &Kept {
        // SAFETY: it lives until self is dropped. What the hooks do by pointer is over before self
        // is looked at again.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Kept {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: made by `new` from a box, and dropped once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// A block in which states are kept.
#[derive(Clone, Copy)]
struct Block {
    number: u64,
    memory: pg_sys::MemoryContext,
    owner: pg_sys::ResourceOwner,
    level: c_int,
}

#[derive(Default)]
struct States {
    block: Option<Block>,
    blocks: u64,
    statements: HashMap<Statement, Facts>,
    /// The innermost last.
    running: Vec<Held>,
    /// Of plans that are gone: to be ended where that may be done.
    stale: Vec<Held>,
    count: usize,
    /// Executions that began with a kept state, in the life of the session.
    uses: u64,
}

/// Whether modules loaded before watch the executor: they want to see all of it.
static IS_WATCHED: OnceLock<bool> = OnceLock::new();

thread_local! {
    static STATES: RefCell<States> = RefCell::default();
}

/// At the ends of transactions.
pub(crate) const ENDS: Hooks = Hooks {
    begin: || (),
    release: || (),
    undo,
    end: || {
        STATES.with_borrow_mut(|states| {
            states.running.clear();
            states.stale.clear();
            for facts in states.statements.values_mut() {
                (facts.idle, facts.runs) = (None, false);
            }
            (states.block, states.count) = (None, 0);
        });
    },
};

/// Says whether modules loaded before watch the executor; once, while the library is loaded.
pub(crate) fn set_watched(watched: bool) {
    let _ = IS_WATCHED.set(watched);
}

fn is_watched() -> bool {
    IS_WATCHED.get().is_none_or(|watched| *watched)
}

/// Runs `f`, whose statements keep states. When it raises, the caller must undo the transaction or
/// subtransaction around it.
pub fn keeping<T>(f: impl FnOnce() -> T) -> T {
    if is_watched() || !settings::keep_states() || STATES.with_borrow(|s| s.block.is_some()) {
        return f();
    }
    // SAFETY: the context is deleted below or with the transaction; the owner outlives this frame.
    let (memory, owner, level) = unsafe {
        let memory = pg_sys::AllocSetContextCreateExtended(
            pg_sys::TopTransactionContext,
            c"chainify kept states".as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        );
        let level = pg_sys::GetCurrentTransactionNestLevel();
        (memory, pg_sys::CurrentResourceOwner, level)
    };
    STATES.with_borrow_mut(|states| {
        states.blocks += 1;
        states.block = Some(Block {
            number: states.blocks,
            memory,
            owner,
            level,
        });
    });
    let result = f();
    forget();
    STATES.with_borrow_mut(|states| states.block = None);
    // SAFETY: created above; nothing in it is used any more.
    unsafe { pg_sys::MemoryContextDelete(memory) };
    result
}

/// Ends the states that do not run. To be called before work on relations that nobody may use.
pub fn forget() {
    let idle = STATES.with_borrow_mut(|states| {
        let mut idle = std::mem::take(&mut states.stale);
        if states.count > states.running.len() {
            idle.extend(states.statements.values_mut().filter_map(|f| f.idle.take()));
        }
        states.count = states.running.len();
        idle
    });
    for kept in idle {
        // SAFETY: it does not run, and nobody else has it.
        unsafe { catch_c(|| end_state(&kept)).or_raise() }
    }
}

/// How many executions of this session began with a kept state.
pub fn uses() -> u64 {
    STATES.with_borrow(|states| states.uses)
}

/// A receiver that discards rows, for statements whose state may be kept.
pub(crate) fn discarding() -> *mut pg_sys::DestReceiver {
    thread_local! {
        // SAFETY: copies a static structure, whose functions do nothing with it.
        static RECEIVER: *mut pg_sys::DestReceiver =
            unsafe { Box::leak(Box::new(*pg_sys::None_Receiver)) };
    }
    RECEIVER.with(|receiver| *receiver)
}

enum Choice {
    /// Of a statement about which something is known.
    Ordinary(Option<Statement>),
    Make(Block, Statement),
    Use(*mut Kept),
}

/// Starts a query, by `next` where its state is not kept.
///
/// # Safety
/// The arguments must be those of the hook; `next` must own nothing that needs dropping.
#[inline]
pub(crate) unsafe fn start(query: *mut pg_sys::QueryDesc, flags: c_int, next: impl FnOnce()) {
    // SAFETY: the executor's caller passes a query that has not started.
    unsafe {
        match enter(|| choose(query, flags)) {
            Choice::Use(kept) => start_again(kept, query),
            Choice::Make(block, statement) => start_kept(block, statement, query, flags),
            Choice::Ordinary(statement) => {
                next();
                if let Some(statement) = statement {
                    enter(|| note_role(statement));
                }
            }
        }
    }
}

/// Runs a query, by the next hook where its state is not kept.
///
/// # Safety
/// The arguments must be those of the hook.
#[inline]
pub(crate) unsafe fn run(run: Run, next: pg_sys::ExecutorRun_hook_type) {
    // SAFETY: the arguments are passed on; the owner is the kept state's, which runs.
    unsafe {
        let owner = enter(|| owner_of(run.query));
        crossed::running(run.query, || match owner {
            Some(owner) => {
                let outer = pg_sys::CurrentResourceOwner;
                pg_sys::CurrentResourceOwner = owner;
                run.go_on(None);
                pg_sys::CurrentResourceOwner = outer;
            }
            None => run.go_on(next),
        });
    }
}

/// The same at its end, with the triggers of its rows.
///
/// # Safety
/// As for [`start`].
#[inline]
pub(crate) unsafe fn finish(query: *mut pg_sys::QueryDesc, next: impl FnOnce()) {
    // SAFETY: as for `run`.
    unsafe {
        let owner = enter(|| owner_of(query));
        crossed::finishing(query, || match owner {
            Some(owner) => {
                let outer = pg_sys::CurrentResourceOwner;
                pg_sys::CurrentResourceOwner = owner;
                raw::standard_ExecutorFinish(query);
                pg_sys::CurrentResourceOwner = outer;
            }
            None => next(),
        });
    }
}

/// Ends a query, by `next` where its state is not kept.
///
/// # Safety
/// As for [`start`].
#[inline]
pub(crate) unsafe fn end(query: *mut pg_sys::QueryDesc, next: impl FnOnce()) {
    // SAFETY: as for `run`.
    unsafe {
        match enter(|| running(query)) {
            Some(kept) => {
                let again = end_execution(kept, query);
                enter(|| {
                    if let Some(kept) = put_back(kept, again) {
                        catch_c(|| end_state(&kept)).or_raise();
                    }
                });
            }
            None => next(),
        }
    }
}

/// Decides how a statement starts.
///
/// # Safety
/// `query` must be about to start.
unsafe fn choose(at: *mut pg_sys::QueryDesc, flags: c_int) -> Choice {
    // SAFETY: by the caller's promise.
    let query = unsafe { &*at };
    let Some(block) = STATES.with_borrow(|states| states.block) else {
        return Choice::Ordinary(None);
    };
    if STATES.with_borrow(|states| !states.stale.is_empty()) {
        end_stale();
    }
    // SAFETY: reads what a query that is about to start has.
    let (fits, statement) = unsafe { (fits(query, flags), query.plannedstmt as Statement) };
    // SAFETY: the plan of a query that is about to start.
    if !fits || !unsafe { learn(query.plannedstmt) } {
        return Choice::Ordinary(None);
    }
    // SAFETY: reads variables; parameters are null or live.
    let (role, level, compile) = unsafe {
        let compile = query.params.as_ref().and_then(|p| p.paramCompile);
        let level = raw::GetCurrentTransactionNestLevel();
        (raw::GetUserId().to_u32(), level, compile)
    };
    let generation = generation();
    STATES.with_borrow_mut(|states| {
        let Some(facts) = states.statements.get_mut(&statement) else {
            return Choice::Ordinary(None);
        };
        let again = std::mem::replace(&mut facts.block, block.number) == block.number;
        let allowed = facts.generation == generation && facts.roles.contains(&role);
        if facts.runs || !again || !allowed {
            return Choice::Ordinary(Some(statement));
        }
        let Some(mut kept) = facts.idle.take() else {
            return match states.count < KEPT_MAX {
                true => Choice::Make(block, statement),
                false => Choice::Ordinary(None),
            };
        };
        let same = kept.generation == generation
            && kept.flags == flags
            && kept.compile.map(|f| f as usize) == compile.map(|f| f as usize);
        if !same {
            states.stale.push(kept);
            return Choice::Ordinary(None);
        }
        facts.runs = true;
        states.uses += 1;
        (kept.runs, kept.level) = (at, level);
        let again = kept.pointer();
        states.running.push(kept);
        Choice::Use(again)
    })
}

/// Whether a query runs as those of functions do: at once, with nothing special about it.
///
/// # Safety
/// `query` must be about to start.
unsafe fn fits(query: &pg_sys::QueryDesc, flags: c_int) -> bool {
    // SAFETY: by the caller's promise, it has a receiver or null. A cursor starts with another one
    // and runs with a third.
    unsafe {
        let kept_receiver = query.dest == discarding()
            || (!query.dest.is_null() && (*query.dest).mydest == pg_sys::CommandDest::DestSPI);
        kept_receiver
            && flags & !(pg_sys::EXEC_FLAG_SKIP_TRIGGERS as c_int) == 0
            && query.instrument_options == 0
            && query.crosscheck_snapshot.is_null()
            && query.queryEnv.is_null()
            && !pg_sys::XactReadOnly
    }
}

/// Whether the statement's states can be kept; looks at it once.
///
/// # Safety
/// `statement` must be the live plan of a statement.
unsafe fn learn(statement: *mut pg_sys::PlannedStmt) -> bool {
    let key = statement as Statement;
    if let Some(known) = STATES.with_borrow(|s| s.statements.get(&key).map(|f| f.known)) {
        return known;
    }
    // SAFETY: a planned statement is a chunk of a memory context. The callback is allocated in that
    // context, and is called before it goes.
    unsafe {
        let context = pg_sys::GetMemoryChunkContext(statement.cast());
        if CStr::from_ptr((*context).name) != c"CachedPlan" {
            return false; // of one execution
        }
        let known = is_known(&*statement);
        let callback =
            pg_sys::MemoryContextAllocZero(context, size_of::<pg_sys::MemoryContextCallback>())
                .cast::<pg_sys::MemoryContextCallback>();
        (*callback).func = Some(on_plan_gone);
        (*callback).arg = statement.cast();
        pg_sys::MemoryContextRegisterResetCallback(context, callback);
        let facts = Facts {
            known,
            block: 0,
            roles: BTreeSet::new(),
            generation: 0,
            runs: false,
            idle: None,
        };
        STATES.with_borrow_mut(|states| states.statements.insert(key, facts));
        known
    }
}

/// The statement started for the current role: it may call all of its functions.
fn note_role(statement: Statement) {
    // SAFETY: reads a variable.
    let role = unsafe { raw::GetUserId() }.to_u32();
    let generation = generation();
    STATES.with_borrow_mut(|states| {
        if let Some(facts) = states.statements.get_mut(&statement) {
            if facts.generation != generation || facts.roles.len() >= ROLES_MAX {
                facts.roles.clear();
                facts.generation = generation;
            }
            facts.roles.insert(role);
        }
    });
}

/// Called when the memory of a plan goes.
unsafe extern "C-unwind" fn on_plan_gone(statement: *mut c_void) {
    without_raising("forgetting the states of a plan", || {
        forget_plan(statement as Statement)
    });
}

/// Nothing runs with the plan any more, but for states that have a copy of it.
fn forget_plan(statement: Statement) {
    STATES.with_borrow_mut(|states| {
        let facts = states.statements.remove(&statement);
        states.stale.extend(facts.and_then(|facts| facts.idle));
        for kept in &mut states.running {
            if kept.statement == statement {
                kept.statement = 0;
            }
        }
    });
}

fn end_stale() {
    let stale = STATES.with_borrow_mut(|states| {
        states.count -= states.stale.len();
        std::mem::take(&mut states.stale)
    });
    for kept in stale {
        // SAFETY: nobody else has it.
        unsafe { catch_c(|| end_state(&kept)).or_raise() }
    }
}

/// Starts a statement with a state that will be kept.
///
/// # Safety
/// Only as the end of the hook: what is raised goes through.
unsafe fn start_kept(
    block: Block,
    statement: Statement,
    query: *mut pg_sys::QueryDesc,
    flags: c_int,
) {
    // SAFETY: what is made is known to `undo` before anything is raised that would leave it behind.
    unsafe {
        let room = make_room(block.memory, block.owner);
        let kept = enter(|| run_new(room, statement, query, flags));
        start_first(kept, query);
    }
}

/// Adds a new state to those that run.
///
/// # Safety
/// `query` must be about to start.
unsafe fn run_new(
    room: Room,
    statement: Statement,
    query: *mut pg_sys::QueryDesc,
    flags: c_int,
) -> *mut Kept {
    // SAFETY: the query's parameters are null or live; reads a variable.
    let (compile, level) = unsafe {
        let compile = (*query).params.as_ref().and_then(|p| p.paramCompile);
        (compile, raw::GetCurrentTransactionNestLevel())
    };
    let kept = Held::new(Kept {
        statement,
        memory: room.memory,
        owner: room.owner,
        query: room.query,
        flags,
        compile,
        generation: generation(),
        uses: 0,
        runs: query,
        level,
    });
    let at = kept.pointer();
    STATES.with_borrow_mut(|states| {
        if let Some(facts) = states.statements.get_mut(&statement) {
            facts.runs = true;
        }
        states.count += 1;
        states.running.push(kept);
    });
    at
}

/// The kept state that an execution uses; `query` is compared and not looked at.
fn running(query: *const pg_sys::QueryDesc) -> Option<*mut Kept> {
    STATES.with_borrow(|states| {
        let mut running = states.running.iter().rev();
        running
            .find(|k| k.runs.cast_const() == query)
            .map(Held::pointer)
    })
}

fn owner_of(query: *const pg_sys::QueryDesc) -> Option<pg_sys::ResourceOwner> {
    STATES.with_borrow(|states| {
        let mut running = states.running.iter().rev();
        running
            .find(|k| k.runs.cast_const() == query)
            .map(|kept| kept.owner)
    })
}

/// The state runs no more. Returns it when it is to be ended. The pointer is compared and not
/// looked at.
fn put_back(kept: *const Kept, again: bool) -> Option<Held> {
    let generation = generation(); // may raise, so before anything is taken
    STATES.with_borrow_mut(|states| {
        let mut running = states.running.iter();
        let at = running.rposition(|k| std::ptr::eq(k.pointer(), kept))?;
        let mut kept = states.running.remove(at);
        kept.runs = null_mut();
        if let Some(facts) = states.statements.get_mut(&kept.statement) {
            facts.runs = false;
            facts.known &= again || kept.uses > 1;
            if again && kept.generation == generation {
                facts.idle = Some(kept);
                return None;
            }
        }
        states.count -= 1;
        Some(kept)
    })
}

/// A subtransaction is being undone: what runs in it does not come to its end.
fn undo() {
    // SAFETY: reads a variable.
    let level = unsafe { raw::GetCurrentTransactionNestLevel() };
    let block = STATES.with_borrow(|states| states.block);
    match block {
        // The block itself is undone, and with it the owners of all states.
        Some(block) if level <= block.level => {
            (ENDS.end)();
            // SAFETY: nothing uses what is in it: abort processing releases resources by their
            // owners alone.
            unsafe { raw::MemoryContextDelete(block.memory) };
        }
        Some(_) => cut_off(level),
        None => (),
    }
}

fn cut_off(level: c_int) {
    let cut = STATES.with_borrow_mut(|states| {
        let from = states.running.partition_point(|kept| kept.level < level);
        let cut = states.running.split_off(from);
        for kept in &cut {
            if let Some(facts) = states.statements.get_mut(&kept.statement) {
                facts.runs = false;
            }
        }
        states.count -= cut.len();
        cut
    });
    for kept in cut.iter().rev() {
        // SAFETY: called by abort processing, which does the same with the owner of the
        // subtransaction; its memory context is not of the state.
        unsafe { release(kept, false) }
    }
}
