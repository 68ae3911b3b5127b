//! Declared access: the places of a table that a function accesses, as its owner declares them, for
//! functions whose text does not show it (spec/scheduling.md).
//!
//! Each database has declarations of its own, since they change no result. The leader looks the
//! rows up before the block runs. While a declared function runs beside others, its accesses are
//! compared with these rows. A wrong declaration costs time and nothing else (P2).
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use chainify_ledger::parts::{DeclaredAccess, DeclaredKey, DeclaredRow};
use chainify_sched::declared::{Declared, KeyValue};
use chainify_sched::template::Touched;
use chainify_sched::{Changes, Focus, Target, PLACES_MAX};
use pgrx::pg_sys::Oid;

use crate::ledger::outcome::is_of_the_moment;
use crate::pg::access::call::{counted, Called, KeyColumns};
use crate::pg::access::show;
use crate::pg::base::backend::{within, Phase};
use crate::pg::base::catalog::generation;
use crate::pg::base::error::{OrRaise, PgError};
use crate::pg::base::role::Role;
use crate::pg::base::spi::{connected, query};
use crate::pg::base::subtransaction::{read_only, subtransaction};
use crate::pg::base::time_limit::at_most;
use crate::pg::planner::planning::inlining;
use crate::pg::run::statement::Prepared;
use crate::running::block_state::ByTransaction;

/// The rows of a relation that a transaction may access; before the block is known in which they
/// are told apart.
pub type Rows = (Oid, Vec<Vec<KeyValue>>);

/// The time that the look-ups of one block may take together: what they do not come to is as if it
/// was not declared.
pub const LOOK_UPS_MAX: Duration = Duration::from_secs(1);

/// The declaration of a function's access to a table.
#[derive(PartialEq, Eq)]
struct Declaration {
    table: Oid,
    /// The function that returns the rows; without one, they are those with values of arguments in
    /// these columns.
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
#[derive(Default, PartialEq, Eq)]
pub struct Declarations(HashMap<Oid, Vec<Declaration>>);

/// The look-ups of a role's statement.
struct Kept {
    lookups: Rc<[Lookup]>,
    /// Holds the address under which they are kept.
    _of: Weak<Prepared>,
}

/// The look-ups made for earlier blocks, as long as declarations and definitions are the same.
#[derive(Default)]
struct Made {
    declarations: Rc<Declarations>,
    generation: u64,
    lookups: HashMap<(Role, *const Prepared), Kept>,
}

thread_local! {
    static MADE: RefCell<Made> = RefCell::default();
}

/// Statements whose look-ups are kept in a session.
const KEPT_MAX: usize = 256;

impl Declarations {
    /// The declared access of a call: the table, and where.
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

    /// The look-ups of rows for executions of a statement that only calls a declared function;
    /// kept until what is declared or defined changes, unless some of it does not work.
    pub fn lookups(self: &Rc<Self>, role: Role, prepared: &Rc<Prepared>) -> Rc<[Lookup]> {
        if self.0.is_empty() {
            return Rc::new([]);
        }
        let key = (role, Rc::as_ptr(prepared));
        let kept = MADE.with_borrow_mut(|made| {
            if made.generation != generation() || made.declarations != *self {
                *made = Made {
                    declarations: self.clone(),
                    generation: generation(),
                    lookups: HashMap::new(),
                };
            }
            made.lookups.get(&key).map(|kept| kept.lookups.clone())
        });
        kept.unwrap_or_else(|| {
            let (lookups, all) = self.make_lookups(role, prepared);
            MADE.with_borrow_mut(|made| {
                if all && made.lookups.len() < KEPT_MAX && made.generation == generation() {
                    let kept = Kept {
                        lookups: lookups.clone(),
                        _of: Rc::downgrade(prepared),
                    };
                    made.lookups.insert(key, kept);
                }
            });
            lookups
        })
    }

    /// Those that work, and whether all do.
    fn make_lookups(&self, role: Role, prepared: &Prepared) -> (Rc<[Lookup]>, bool) {
        let bounded = || prepared.template().is_ok_and(|t| t.everything().is_none());
        let call = || subtransaction(|| prepared.called()).ok().flatten();
        let Some(call) = bounded().then(call).flatten() else {
            return (Rc::new([]), true);
        };
        let mut texts: BTreeMap<String, Vec<Oid>> = BTreeMap::new();
        for declaration in self.0.get(&call.function).into_iter().flatten() {
            if let Some(text) = declaration.text(&call) {
                texts.entry(text).or_default().push(declaration.table);
            }
        }
        let types = prepared.types();
        let types: Vec<&str> = types.iter().map(String::as_str).collect();
        let wanted = texts.len();
        let lookup = |(text, tables): (String, Vec<Oid>)| {
            let made = read_only(|| {
                let query = role.run(|| Prepared::new(&text, &types))?;
                let names = query.columns()?;
                let columns = tables.iter().map(|t| (*t, KeyColumns::of(*t, &names)));
                Ok((columns.collect(), query))
            });
            let (tables, query) = unless_it_fails(&text, made)?;
            Some(Lookup {
                tables,
                query,
                text,
            })
        };
        let lookups: Rc<[Lookup]> = texts.into_iter().filter_map(lookup).collect();
        let all = lookups.len() == wanted;
        (lookups, all)
    }
}

/// A look-up of the rows of tables that executions of a statement may access.
pub struct Lookup {
    tables: Vec<(Oid, KeyColumns)>,
    query: Prepared,
    text: String,
}

impl Lookup {
    /// The rows of the execution with these values; none of any table when there are too many.
    fn rows(&self, role: Role, values: &[Option<&str>]) -> Result<Vec<Rows>, PgError> {
        let values = values.iter().copied();
        let look_up = || self.query.bind(values)?.values(PLACES_MAX as u64 + 1);
        let rows = role.run(look_up)?;
        let of_table = |(table, columns): &(Oid, KeyColumns)| {
            (*table, rows.iter().map(|row| columns.values(row)).collect())
        };
        let few = rows.len() <= PLACES_MAX;
        Ok(self.tables.iter().filter(|_| few).map(of_table).collect())
    }
}

/// A look-up for one execution, with its client's role and its values, None for NULL.
pub type Asked<'a> = (&'a Lookup, Role, Rc<[Option<&'a str>]>);

/// The rows of each, looked up as its client, who can change nothing by it; none of any table where
/// the look-up fails, or no time is `left` for it.
///
/// They share one subtransaction until one of them fails; those behind it then share the next.
pub fn look_up(asked: &[Asked], left: &mut Duration) -> Vec<Vec<Rows>> {
    let mut found = Vec::with_capacity(asked.len());
    while found.len() < asked.len() && !left.is_zero() {
        let started = Instant::now();
        let mut look_up = || {
            for (lookup, role, values) in &asked[found.len()..] {
                found.push(lookup.rows(*role, values)?);
            }
            Ok(())
        };
        let looked_up =
            read_only(|| within(Phase::Outside, || at_most(*left, || inlining(&mut look_up))));
        *left = left.saturating_sub(started.elapsed());
        let (lookup, ..) = &asked[found.len().min(asked.len() - 1)];
        if unless_it_fails(&lookup.text, looked_up).is_none() {
            found.push(Vec::new());
        }
    }
    found.resize(asked.len(), Vec::new()); // one too many where the time was over behind the last
    found
}

/// A declaration that does not work is none; what failed is in the log.
fn unless_it_fails<T>(text: &str, result: Result<T, PgError>) -> Option<T> {
    match result {
        Ok(found) => Some(found),
        Err(error) if is_of_the_moment(&error) => error.raise(),
        Err(error) => {
            pgrx::log!("declared access is not known: {}: {text}", error.message);
            None
        }
    }
}

/// The rows that were looked up, as they are told apart in this block.
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

/// The declared access that a leader told.
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
