//! Declared access: where the accesses of a function to a table lie, when its text does not tell (spec/scheduling.md).
//!
//! A declaration is this database's own matter. The leader looks the rows up before the block runs, and what a declared function
//! accesses is compared with them while it runs beside others; a wrong one costs time and nothing else (P2).
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use chainify_ledger::parts::{DeclaredAccess, DeclaredKey, DeclaredRow};
use chainify_sched::declared::{Declared, KeyValue};
use chainify_sched::template::Touched;
use chainify_sched::{Changes, Focus, Target, PLACES_MAX};
use pgrx::pg_sys::Oid;

use super::session::{self, Mode};
use super::transaction::is_of_the_machine;
use crate::pg::access::call::{counted, key_values, Called};
use crate::pg::access::show;
use crate::pg::error::{OrRaise, PgError};
use crate::pg::planned_access;
use crate::pg::planning::inlining;
use crate::pg::role::Role;
use crate::pg::spi::{connected, query};
use crate::pg::statement::Prepared;
use crate::pg::subtransaction::{read_only, subtransaction};
use crate::pg::time_limit::at_most;

/// The rows of a relation that a transaction may access; before the block is known in which they are told apart.
pub type Rows = (Oid, Vec<Vec<KeyValue>>);

/// What is left of the time that the look-ups of one block may take together: what they do not come to is as if it was not declared.
pub struct LookUpTime(Cell<Duration>);

impl Default for LookUpTime {
    fn default() -> Self {
        LookUpTime(Cell::new(Duration::from_secs(1)))
    }
}

impl LookUpTime {
    /// Runs `f`, which is to keep to the time given; None when there is none left.
    fn spend<T>(&self, f: impl FnOnce(Duration) -> T) -> Option<T> {
        let (left, started) = (self.0.get(), Instant::now());
        let found = (!left.is_zero()).then(|| f(left));
        self.0.set(left.saturating_sub(started.elapsed()));
        found
    }
}

/// What each transaction may access, by its position in the block.
pub type ByTransaction = HashMap<u32, Rc<[Declared]>>;

thread_local! {
    /// Of the part that runs in this process.
    static RUNNING: RefCell<ByTransaction> = RefCell::default();
}

/// What was declared of a function and a table.
struct Declaration {
    table: Oid,
    /// The function that returns the rows; without one, they are those with values of arguments in these columns.
    rows: Option<String>,
    /// Argument, from 1, and column, as an identifier.
    key: Vec<(usize, String)>,
}

impl Declaration {
    /// The query for the rows of one call.
    fn text(&self, call: &Called) -> Option<String> {
        if let Some(rows) = &self.rows {
            return Some(format!(
                "SELECT * FROM {rows}({}) r",
                call.arguments.join(", ")
            ));
        }
        let column = |(argument, column): &(usize, String)| {
            let value = call.arguments.get(argument.checked_sub(1)?)?;
            Some(format!("({value}) AS {column}"))
        };
        let columns: Option<Vec<String>> = self.key.iter().map(column).collect();
        Some(format!("SELECT {}", columns?.join(", ")))
    }
}

/// All there are, by function.
#[derive(Default)]
pub struct Declarations(HashMap<Oid, Vec<Declaration>>);

/// Whether there are any.
pub fn exist() -> bool {
    let mut found = false;
    let sql = "SELECT FROM chainify_ledger.declared_access LIMIT 1";
    query(sql, &[], |_| found = true);
    found
}

impl Declarations {
    /// What is declared of a call: the table, and where.
    pub fn shown(&self, call: &Called) -> Vec<(String, String)> {
        let declarations = self.0.get(&call.function).into_iter().flatten();
        let shown = |d: &Declaration| {
            let place = match &d.rows {
                Some(rows) => format!("{rows}({})", call.arguments.join(", ")),
                None => {
                    let of = |n: &usize| call.arguments.get(n.wrapping_sub(1)).cloned();
                    let column =
                        |(n, c): &(usize, String)| format!("{c} = {}", of(n).unwrap_or_default());
                    d.key.iter().map(column).collect::<Vec<_>>().join(" and ")
                }
            };
            (show::relation_name(d.table.to_u32()), place)
        };
        declarations.map(shown).collect()
    }

    /// Those of this database, for whoever asks.
    pub fn read_for_all() -> Self {
        let read = || Ok(connected(Self::read));
        subtransaction(|| Role::bootstrap().run(read)).or_raise()
    }

    /// Those of this database.
    pub fn read() -> Self {
        let mut all = Self::default();
        let sql = "SELECT function, tbl, rows, arguments, columns FROM chainify_ledger.declarations ORDER BY 1, 2";
        query(sql, &[], |row| {
            let arguments: Vec<i32> = row.get(4).unwrap_or_default();
            let columns: Vec<String> = row.get(5).unwrap_or_default();
            let arguments = arguments
                .into_iter()
                .map(|n| usize::try_from(n).unwrap_or(0));
            let declaration = Declaration {
                table: row.must(2),
                rows: row.get(3),
                key: arguments.zip(columns).collect(),
            };
            all.0.entry(row.must(1)).or_default().push(declaration);
        });
        all
    }

    /// What looks up the rows of executions of a statement that only calls a declared function.
    pub fn lookups(&self, role: Role, prepared: &Prepared) -> Vec<Lookup> {
        let bounded = || prepared.template().is_ok_and(|t| t.everything().is_none());
        if self.0.is_empty() || !bounded() {
            return Vec::new();
        }
        let Ok(Some(call)) = prepared.called() else {
            return Vec::new();
        };
        let mut texts: BTreeMap<String, Vec<Oid>> = BTreeMap::new();
        for declaration in self.0.get(&call.function).into_iter().flatten() {
            if let Some(text) = declaration.text(&call) {
                texts.entry(text).or_default().push(declaration.table);
            }
        }
        let types = prepared.types();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let lookup = |(text, tables): (String, Vec<Oid>)| {
            let made = read_only(|| role.run(|| Prepared::new(&text, &types)));
            let query = unless_it_fails(&text, made)?;
            Some(Lookup {
                tables,
                query,
                text,
            })
        };
        texts.into_iter().filter_map(lookup).collect()
    }
}

/// What looks up the rows of tables that executions of a statement may access.
pub struct Lookup {
    tables: Vec<Oid>,
    query: Prepared,
    text: String,
}

impl Lookup {
    /// The rows of the execution with these values, looked up as its client, who can change nothing by it; none of any table when there
    /// are too many, the look-up fails, or there is no time for it.
    pub fn rows<'v>(
        &self,
        role: Role,
        values: impl Iterator<Item = Option<&'v str>>,
        time: &LookUpTime,
    ) -> Vec<Rows> {
        let look_up = || inlining(|| self.query.bind(values)?.values(PLACES_MAX as u64 + 1));
        let found = time.spend(|left| {
            read_only(|| role.run(|| session::with(Mode::Outside, || at_most(left, look_up))))
        });
        let found = found.and_then(|found| unless_it_fails(&self.text, found));
        let Some((columns, rows)) = found else {
            return Vec::new();
        };
        let of_table = |table: &Oid| {
            let key_values = |values: &Vec<_>| key_values(*table, &columns, values);
            (*table, rows.iter().map(key_values).collect())
        };
        let few = rows.len() <= PLACES_MAX;
        self.tables.iter().filter(|_| few).map(of_table).collect()
    }
}

/// A declaration that does not work is none; what failed is in the log.
fn unless_it_fails<T>(text: &str, result: Result<T, PgError>) -> Option<T> {
    match result {
        Ok(found) => Some(found),
        Err(error) if is_of_the_machine(error.sqlstate) => error.raise(),
        Err(error) => {
            pgrx::log!("declared access is not known: {}: {text}", error.message);
            None
        }
    }
}

/// What was looked up, as it is told apart in this block.
pub fn in_block(rows: &[Rows], changes: &Changes, focus: &Focus) -> Vec<Declared> {
    let declared = |(table, rows): &Rows| {
        let relation = counted(*table);
        let changed = changes.in_relation(relation).cloned();
        Declared {
            relation,
            focus: focus.key(Target::Rows(relation)),
            changed: changed.unwrap_or(Touched::Only(Default::default())),
            rows: rows.clone(),
        }
    };
    rows.iter().map(declared).collect()
}

/// Runs `f`, in which each transaction has to keep to what is declared for it.
pub fn checked<T>(declared: ByTransaction, f: impl FnOnce() -> T) -> T {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            RUNNING.take();
        }
    }
    RUNNING.set(declared);
    let _clear = Clear;
    f()
}

/// Runs a transaction of the block, which has to keep to what is declared for it, if it runs beside others.
pub fn keeping<T>(tx: u32, f: impl FnOnce() -> T) -> T {
    let declared = RUNNING.with_borrow(|running| running.get(&tx).cloned());
    planned_access::within(declared, f)
}

/// Those of a part's transactions as its process is told.
pub fn messages(declared: &ByTransaction, members: &[u32]) -> Vec<DeclaredAccess> {
    let of = |tx: &u32| declared.get(tx).map(|declared| (*tx, declared.clone()));
    let messages = members.iter().filter_map(of).flat_map(|(tx, declared)| {
        let message = |d: &Declared| to_message(tx, d);
        declared.iter().map(message).collect::<Vec<_>>()
    });
    messages.collect()
}

fn to_message(tx: u32, declared: &Declared) -> DeclaredAccess {
    let key = |k: &KeyValue| DeclaredKey {
        key: k.key.into(),
        bytes: k.bytes.clone(),
        complete: k.complete,
    };
    let row = |row: &Vec<KeyValue>| DeclaredRow {
        keys: row.iter().map(key).collect(),
    };
    let (all, columns) = match &declared.changed {
        Touched::All => (true, Vec::new()),
        Touched::Only(columns) => (false, columns.iter().map(|c| i32::from(*c)).collect()),
    };
    DeclaredAccess {
        transaction: tx,
        relation: declared.relation,
        focus: declared.focus.map(u32::from),
        changed_all: all,
        changed: columns,
        rows: declared.rows.iter().map(row).collect(),
    }
}

/// What a leader told.
pub fn from_messages(messages: &[DeclaredAccess]) -> ByTransaction {
    let key = |k: &DeclaredKey| KeyValue {
        key: k.key as u16,
        bytes: k.bytes.clone(),
        complete: k.complete,
    };
    let row = |row: &DeclaredRow| row.keys.iter().map(key).collect();
    let declared = |m: &DeclaredAccess| Declared {
        relation: m.relation,
        focus: m.focus.map(|key| key as u16),
        changed: match m.changed_all {
            true => Touched::All,
            false => Touched::Only(m.changed.iter().map(|c| *c as i16).collect()),
        },
        rows: m.rows.iter().map(row).collect(),
    };
    let of_one = messages.chunk_by(|a, b| a.transaction == b.transaction);
    of_one
        .map(|one| (one[0].transaction, one.iter().map(declared).collect()))
        .collect()
}
