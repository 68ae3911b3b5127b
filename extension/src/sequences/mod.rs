//! Sequences of the ledger. The position of a sequence is a row of `chainify_ledger.sequence`, a
//! ledger table like any other.
//!
//! In a block, nextval() and the other sequence functions work on that row alone (X7). A
//! transaction reads the row when it first draws a number, and writes it when it ends. So a failed
//! transaction or subtransaction gives its numbers back, and a block that runs again draws the same
//! numbers. Numbers that a session had drawn ahead (CACHE), or that a sequence keeps through
//! ROLLBACK, do not count. The database's own sequence is set to the same position at the block's
//! end, for people who look at it.
//!
//! A session whose changes go through the ledger draws from the sequence of its own database. Each
//! organisation takes every n-th number, so that no two draw the same one. The ledger's row follows
//! when a block inserts a row with such a number. A number that was drawn twice all the same causes
//! a conflict, and nothing else.
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use chainify_codec::{decode_row, Value};
use chainify_ledger::sequence::{Sequence, Spent, Turn};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

use crate::ledger::as_of::AsOf;
use crate::pg::base::backend::{phase, within, Phase};
use crate::pg::base::error::{attempt, PgError};
use crate::pg::base::function::{cell, Answer, Call};
use crate::pg::base::relation::{Lock, Relation, Scratch};
use crate::pg::base::role::Role;
use crate::pg::base::settings::{self, Writes};
use crate::pg::base::spi::{connected, query, Row};
use crate::pg::base::subtransaction::{subtransaction, Hooks};
use crate::pg::base::{catalog, sequence};
use crate::pg::run::step::{enter, Step};
use crate::running::block_state::block;
use crate::running::drawn::{Drawn, Left, Used};
use crate::running::effects;
use crate::running::recorded::Effects;

crate::pg::sql_function!(chainify_nextval, pg_finfo_chainify_nextval, nextval);
crate::pg::sql_function!(
    chainify_next_identity,
    pg_finfo_chainify_next_identity,
    next_identity
);
crate::pg::sql_function!(chainify_currval, pg_finfo_chainify_currval, currval);
crate::pg::sql_function!(chainify_lastval, pg_finfo_chainify_lastval, lastval);
crate::pg::sql_function!(chainify_setval, pg_finfo_chainify_setval, setval);

/// The table's name as it is hashed.
const TABLE: &str = "chainify_ledger.sequence";

/// Where a sequence stands.
const STANDS: &str = "SELECT last_value, called, increment, minimum, maximum, cycle FROM chainify_ledger.sequence WHERE name = $1";

/// How often all turns go by while others draw as well, before a number is taken out of turn.
const TRIES_PER_TURN: i64 = 16;

thread_local! {
    /// Names of this database's ledger sequences.
    static NAMES: AsOf<HashMap<Oid, String>> = const { AsOf::nothing() };
    /// The turn of this organisation, as of this transaction.
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
}

fn in_use<T>(f: impl FnOnce(&mut Drawn) -> T) -> T {
    block(|block| f(&mut block.sequences.borrow_mut()))
}

/// At the ends of transactions.
pub const ENDS: Hooks = Hooks {
    begin: || {
        in_use(|d| d.marks.push(d.undo.len()));
    },
    release: || {
        in_use(|d| d.marks.pop());
    },
    undo: || in_use(Drawn::undo),
    end: || {
        in_use(|d| *d = Drawn::default());
        TURN.set(None);
    },
};

/// To be called before a client's transaction runs.
pub fn before_transaction() {
    in_use(|d| {
        d.used.clear();
        d.last = None;
        d.undo.clear();
        d.marks.iter_mut().for_each(|mark| *mark = 0);
    });
}

/// To be called when a block begins: nothing is known of its sequences.
pub fn begin_block() {
    in_use(|d| d.left.clear());
}

/// Writes what the transaction took, as changes of transaction `tx`. Cost: one UPDATE for each
/// sequence it drew from.
pub fn after_transaction(tx: u32) {
    let changed: BTreeMap<String, Sequence> = in_use(|d| {
        let changed = d.used.values().filter(|used| used.now != used.before);
        changed.map(|used| (used.name.clone(), used.now)).collect()
    });
    enter(Step::Own { tx }, || {
        for (name, now) in changed {
            let place = write(&name, now);
            let left = Left {
                sequence: now,
                place,
            };
            in_use(|d| d.left.insert(name, left));
        }
    });
}

/// Writes the position of a sequence; returns where the row lies now.
fn write(name: &str, now: Sequence) -> Option<pg_sys::ItemPointerData> {
    let known = in_use(|d| d.left.get(name).and_then(|left| left.place));
    let values = || {
        [
            cell(name.to_owned()),
            cell(now.last_value),
            cell(now.called),
        ]
    };
    let mut place = None;
    if let Some(known) = known {
        let sql = "UPDATE chainify_ledger.sequence SET last_value = $2, called = $3 WHERE ctid = $4 AND name = $1 RETURNING ctid";
        let [name, last_value, called] = values();
        let values = [name, last_value, called, cell(known)];
        query(sql, &values, |row| place = row.get(1));
    }
    if place.is_none() {
        let sql = "UPDATE chainify_ledger.sequence SET last_value = $2, called = $3 WHERE name = $1 RETURNING ctid";
        query(sql, &values(), |row| place = row.get(1));
    }
    place
}

/// The name of a sequence on the ledger; None for any other.
pub fn name_of(relation: Oid) -> Option<String> {
    let names = NAMES.with(|names| names.or(read_names));
    names.get(&relation).cloned()
}

fn read_names() -> HashMap<Oid, String> {
    let mut names = HashMap::new();
    if let Some(list) = catalog::relation_named("chainify_ledger", "sequence_here") {
        Relation::open(list, Lock::AccessShare).scan(|row| {
            if let (Some(name), Some(relation)) = (row.get::<String>(1), row.get::<Oid>(2)) {
                names.insert(relation, name);
            }
        });
    }
    names
}

fn in_block() -> bool {
    matches!(phase(), Phase::Client { .. })
}

/// Runs `f` on a sequence of the ledger as it stands in the transaction.
fn with<T>(relation: Oid, f: impl FnOnce(&mut Used) -> T) -> T {
    let known = in_use(|d| d.used.contains_key(&relation));
    let found = (!known).then(|| read(relation));
    in_use(|d| d.change(relation, found, f)).expect("in use, or read just now")
}

/// Why a ledger transaction may not use a sequence; None when it may.
pub fn refusal(relation: Oid) -> Option<PgError> {
    name_of(relation)
        .is_none()
        .then(|| not_on_the_ledger(relation))
}

fn not_on_the_ledger(relation: Oid) -> PgError {
    let name = catalog::display_name(relation);
    PgError::new(b"CH004", format!("sequence \"{name}\" is not on the ledger"))
        .detail("What a sequence of one database stands at is not agreed between the organisations.")
        .hint("Sequences are on the ledger when columns of ledger tables own them or take their values from them.")
}

fn read(relation: Oid) -> Used {
    let Some(name) = name_of(relation) else {
        not_on_the_ledger(relation).of_a_name().raise()
    };
    let mut found = in_use(|d| d.left.get(&name).map(|left| left.sequence));
    if let Some(now) = found {
        return Used::at(name, now);
    }
    let table = catalog::relation_named("chainify_ledger", "sequence");
    let owner = table.map_or_else(Role::current, Role::owner_of);
    within(Phase::Internal, || {
        owner.run(|| {
            connected(|| {
                query(STANDS, &[cell(name.clone())], |row| {
                    found = Some(stands(row))
                })
            })
        })
    });
    let Some(now) = found else {
        PgError::new(
            b"XX001",
            format!("what sequence \"{name}\" stands at is missing"),
        )
        .raise()
    };
    Used::at(name, now)
}

/// Where a sequence of the ledger stands before the block; None: it is not on the ledger.
pub fn stands_at(relation: Oid) -> Option<Sequence> {
    let name = name_of(relation)?;
    let table = catalog::relation_named("chainify_ledger", "sequence")?;
    let mut found = None;
    within(Phase::Internal, || {
        Role::owner_of(table)
            .run(|| connected(|| query(STANDS, &[cell(name)], |row| found = Some(stands(row)))))
    });
    found
}

fn stands(row: &Row) -> Sequence {
    Sequence {
        last_value: row.must(1),
        called: row.must(2),
        increment: row.must(3),
        minimum: row.must(4),
        maximum: row.must(5),
        cycle: row.must(6),
    }
}

fn draw(relation: Oid) -> i64 {
    let drawn = with(relation, |used| {
        let value = used
            .now
            .draw()
            .map_err(|spent| (used.name.clone(), spent))?;
        used.given = Some(value);
        Ok(value)
    });
    in_use(|d| d.last = Some(relation));
    drawn.unwrap_or_else(|(name, spent)| {
        let (bound, value) = match spent {
            Spent::Maximum(value) => ("maximum", value),
            Spent::Minimum(value) => ("minimum", value),
        };
        let message = format!("nextval: reached {bound} value of sequence \"{name}\" ({value})");
        PgError::new(b"2200H", message).raise()
    })
}

/// Draws from the database's own sequence: of one on the ledger, the next number whose turn it is.
fn draw_here(relation: Oid, next: fn(Oid) -> i64) -> i64 {
    let value = next(relation);
    if settings::writes() == Writes::Refuse || name_of(relation).is_none() {
        return value;
    }
    let increment = sequence::increment(relation);
    let turn = turn();
    // One of as many numbers as there are turns, unless others draw as well.
    let mut drawn = value;
    for _ in 0..TRIES_PER_TURN * turn.of {
        if turn.takes(drawn, increment) {
            break;
        }
        drawn = next(relation);
    }
    drawn
}

/// The place of this database's organisation among all that execute.
fn turn() -> Turn {
    if let Some(known) = TURN.get() {
        return known;
    }
    let turn = read_turn().unwrap_or(Turn { place: 0, of: 1 });
    TURN.set(Some(turn));
    turn
}

fn read_turn() -> Option<Turn> {
    let open = |name| {
        let relation = catalog::relation_named("chainify_ledger", name)?;
        Some(Relation::open(relation, Lock::AccessShare))
    };
    let mut own: Option<String> = None;
    open("chain")?.scan(|row| own = row.get(3));
    let own = own?;
    let mut members = BTreeSet::new();
    open("organisation")?.scan(|row| {
        if let (Some(name), Some(false), None) =
            (row.get::<String>(1), row.get::<bool>(3), row.get::<i64>(5))
        {
            members.insert(name);
        }
    });
    let place = members.iter().position(|name| *name == own)?;
    Some(Turn {
        place: i64::try_from(place).ok()?,
        of: i64::try_from(members.len()).ok()?,
    })
}

/// A row came in whose column takes its values from this sequence: the ledger's row follows.
pub fn drawn_elsewhere(relation: Oid, value: i64) {
    with(relation, |used| used.now.follow(value));
}

/// `nextval(regclass)`.
fn nextval(call: &mut Call) -> Answer {
    let relation: Oid = call.required(0, "sequence");
    if !in_block() {
        return call.value(draw_here(relation, sequence::nextval));
    }
    sequence::check_right(relation, false);
    call.value(draw(relation))
}

/// The drawing of an identity column.
fn next_identity(call: &mut Call) -> Answer {
    let relation: Oid = call.required(0, "sequence");
    if !in_block() {
        return call.value(draw_here(relation, sequence::next_identity));
    }
    call.value(draw(relation))
}

/// `currval(regclass)`: what the transaction drew last from it.
fn currval(call: &mut Call) -> Answer {
    let relation: Oid = call.required(0, "sequence");
    if !in_block() {
        return call.value(sequence::currval(relation));
    }
    sequence::check_right(relation, false);
    let given = in_use(|d| d.used.get(&relation).and_then(|used| used.given));
    call.value(given.unwrap_or_else(|| {
        let name = name_of(relation).unwrap_or_else(|| catalog::display_name(relation));
        PgError::new(
            b"55000",
            format!("currval of sequence \"{name}\" is not yet defined in this transaction"),
        )
        .raise()
    }))
}

/// `lastval()`: what the transaction drew last.
fn lastval(call: &mut Call) -> Answer {
    if !in_block() {
        return call.value(sequence::lastval());
    }
    let given = in_use(|d| d.used.get(&d.last?).and_then(|used| used.given));
    call.value(given.unwrap_or_else(|| {
        PgError::new(b"55000", "lastval is not yet defined in this transaction").raise()
    }))
}

/// `setval(regclass, bigint[, boolean])`.
fn setval(call: &mut Call) -> Answer {
    let (relation, value): (Oid, i64) = (call.required(0, "sequence"), call.required(1, "value"));
    let called = call.arg(2).unwrap_or(true);
    if !in_block() {
        sequence::setval(relation, value, called);
        return call.value(value);
    }
    sequence::check_right(relation, true);
    let refused = with(relation, |used| {
        if !used.now.set(value, called) {
            return Some((used.name.clone(), used.now));
        }
        if called {
            used.given = Some(value);
        }
        None
    });
    if let Some((name, now)) = refused {
        let (minimum, maximum) = (now.minimum, now.maximum);
        PgError::new(
            b"22003",
            format!("setval: value {value} is out of bounds for sequence \"{name}\" ({minimum}..{maximum})"),
        )
        .raise();
    }
    call.value(value)
}

/// A sequence that belongs on the ledger.
struct New {
    relation: Oid,
    name: String,
    stands: Sequence,
}

/// Before a statement that may change definitions of sequences, which are among `relations` or
/// belong to columns of these: the database's own become what the ledger says.
pub fn before_statement(relations: &[Oid]) {
    in_use(|d| d.left.clear());
    query(
        "SELECT chainify_ledger.show_sequences($1)",
        &[cell(relations.to_vec())],
        |_| (),
    );
}

/// After it: the ledger takes over what changed, as changes of transaction `tx`. Those that are not
/// on the ledger yet come there at the transaction's end.
pub fn after_statement(relations: &[Oid], tx: u32) {
    let mut changed = Vec::new();
    let sql = "SELECT last_value, called, increment, minimum, maximum, cycle, name FROM chainify_ledger.sequences_changed($1)";
    query(sql, &[cell(relations.to_vec())], |row| {
        changed.push((row.must::<String>(7), stands(row)))
    });
    let sql = "UPDATE chainify_ledger.sequence SET last_value = $2, called = $3, increment = $4, minimum = $5, maximum = $6, cycle = $7 WHERE name = $1";
    enter(Step::Rows { tx }, || {
        for (name, now) in &changed {
            query(sql, &row_of(name, now), |_| ());
        }
    });
}

fn row_of(name: &str, s: &Sequence) -> [crate::pg::base::cell::Cell; 7] {
    [
        cell(name.to_owned()),
        cell(s.last_value),
        cell(s.called),
        cell(s.increment),
        cell(s.minimum),
        cell(s.maximum),
        cell(s.cycle),
    ]
}

/// After a DEPLOY: takes off the ledger the sequences that nothing there uses any more, or not by
/// that name, and puts on it those that are used now. These are changes of transaction `tx` in
/// block `number`. Cost: a look at the dependencies of the ledger tables' defaults.
pub fn follow_tables(number: i64, tx: u32) {
    in_use(|d| d.left.clear());
    let mut old: Vec<(String, Option<Oid>)> = Vec::new();
    query(
        "SELECT name, relation FROM chainify_ledger.sequences_old()",
        &[],
        |row| old.push((row.must(1), row.get(2))),
    );
    old.iter()
        .for_each(|(name, relation)| release(name, *relation, tx));
    let mut new = Vec::new();
    let sql = "SELECT last_value, called, increment, minimum, maximum, cycle, relation, name FROM chainify_ledger.sequences_new()";
    query(sql, &[], |row| {
        new.push(New {
            relation: row.must(7),
            name: row.must(8),
            stands: stands(row),
        });
    });
    if new.is_empty() && old.is_empty() {
        return;
    }
    if !new.is_empty() {
        query(
            "SELECT chainify_ledger.attach_own('sequence', $1, $2)",
            &[cell(number), cell(tx as i32)],
            |_| (),
        );
    }
    new.iter().for_each(|new| adopt(new, tx));
    crate::ledger::tables::announce_change();
}

fn adopt(new: &New, tx: u32) {
    query(
        "INSERT INTO chainify_ledger.sequence_here (name, relation) VALUES ($1, $2)",
        &[cell(new.name.clone()), cell(new.relation)],
        |_| (),
    );
    query(
        "INSERT INTO chainify_ledger.initial_sequence (name, last_value, called) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &row_of(&new.name, &new.stands)[..3],
        |_| (),
    );
    enter(Step::Rows { tx }, || {
        query(
            "INSERT INTO chainify_ledger.sequence VALUES ($1, $2, $3, $4, $5, $6, $7)",
            &row_of(&new.name, &new.stands),
            |_| (),
        )
    });
}

fn release(name: &str, relation: Option<Oid>, tx: u32) {
    before_statement(&Vec::from_iter(relation));
    query(
        "DELETE FROM chainify_ledger.sequence_here WHERE name = $1",
        &[cell(name.to_owned())],
        |_| (),
    );
    enter(Step::Rows { tx }, || {
        query(
            "DELETE FROM chainify_ledger.sequence WHERE name = $1",
            &[cell(name.to_owned())],
            |_| (),
        )
    });
}

/// Makes the sequence of the database stand where the ledger's does. It decides nothing, so one
/// that cannot is left as it is.
fn show(relation: Oid, value: i64, called: bool) {
    let _ = subtransaction(|| attempt(|| sequence::setval(relation, value, called)));
}

/// At the end of a block: the database's sequences follow those that it changed.
pub fn follow_ledger() {
    for (name, to) in effects::with(changed) {
        let mut here: Option<Oid> = None;
        query(
            "SELECT relation FROM chainify_ledger.sequence_here WHERE name = $1",
            &[cell(name)],
            |row| here = row.get(1),
        );
        if let Some(here) = here {
            show_unless_ahead(here, &to);
        }
    }
}

/// Sessions here may have drawn numbers that are still on their way to the ledger.
fn show_unless_ahead(here: Oid, to: &Moved) {
    let drawn = sequence::position(here).and_then(|(value, given)| given.then_some(value));
    let ahead = |value| {
        let position = Sequence {
            last_value: to.value,
            called: to.called,
            increment: sequence::increment(here),
            minimum: i64::MIN,
            maximum: i64::MAX,
            cycle: false,
        };
        position.is_led_by(value)
    };
    if to.back || !drawn.is_some_and(ahead) {
        show(here, to.value, to.called);
    }
}

/// The position to which a block has moved a sequence.
struct Moved {
    value: i64,
    called: bool,
    /// Some change moved it against its direction.
    back: bool,
}

/// The position that the block's last change of each sequence left.
fn changed(effects: &Effects) -> BTreeMap<String, Moved> {
    let mut scratch = Scratch::default();
    let mut changed: BTreeMap<String, Moved> = BTreeMap::new();
    for change in effects.changes.iter().filter(|c| c.after.is_some()) {
        let leaf = &effects.leaves[change.leaf as usize];
        if leaf.table.name != TABLE {
            continue;
        }
        let row = effects.images.get(change.image, &leaf.shape, &mut scratch);
        let fields = (row.get(1), row.get(2), row.get(3), row.get::<i64>(4));
        let (Some(name), Some(value), Some(called), Some(increment)) = fields else {
            continue;
        };
        let back = change.before.is_none_or(|before| {
            let before = decode_row(effects.bytes(before)).unwrap_or_default();
            let before = before.into_iter().find(|(ordinal, _)| *ordinal == 2);
            !matches!(before, Some((_, Value::Int(before))) if (value >= before) == (increment > 0) || value == before)
        });
        let earlier = changed.get(&name).is_some_and(|moved| moved.back);
        let back = back || earlier;
        changed.insert(
            name,
            Moved {
                value,
                called,
                back,
            },
        );
    }
    changed
}
