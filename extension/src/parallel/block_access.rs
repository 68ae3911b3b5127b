//! The access sets of a block's transactions, computed before these run (S6, spec/scheduling.md).
//! The template of a statement is computed when the statement is first met. Filled with a
//! transaction's values, templates give its access set, in terms of those keys that separate the
//! most transactions.
use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::mem::take;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use chainify_codec as codec;
use chainify_ledger::messages::{Kind, Proposal};
use chainify_ledger::Transaction;
use chainify_sched::cost::fill_up;
use chainify_sched::division::first_look;
use chainify_sched::focus::SAMPLE_MAX;
use chainify_sched::template::Template;
use chainify_sched::value::Value;
use chainify_sched::{AccessSet, Changes, Focus};

use crate::ledger::client_role;
use crate::ledger::outcome::{is_of_the_machine, is_of_the_moment};
use crate::parallel::declared_access;
use crate::parallel::declared_access::{Asked, Declarations, Lookup, Rows, LOOK_UPS_MAX};
use crate::parallel::effects_access::{self, Beside};
use crate::parallel::focus;
use crate::pg::base::catalog::generation;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;
use crate::pg::base::subtransaction::subtransaction;
use crate::pg::run::statement::Prepared;
use crate::running::block_state::ByTransaction;
use crate::running::request::may_deploy;
use crate::sql::plans;
use crate::sql::plans::Execution;
use crate::transaction::run;

/// The access sets of a block's transactions, in order; to be called before the first of them runs,
/// under the settings of a block. Raises for failures of the machine only (X4): what cannot be
/// analysed is everything, and fails when it runs.
///
/// Locks no row, and runs no function but those that declared access names. Cost: reading the
/// values of statements with a kept plan, and analysing the others, which running them then saves.
pub fn of_block(transactions: &[Transaction]) -> Sets {
    let everything = || Sets {
        sets: vec![AccessSet::everything(); transactions.len()],
        declared: ByTransaction::new(),
    };
    consistent(|| {
        let mut found = Found::new();
        found.add(transactions);
        Some(found.sets(Choice::Own))
    })
    .unwrap_or_else(everything)
}

/// The access sets of transactions, in order.
pub struct Sets {
    pub sets: Vec<AccessSet>,
    /// Which parts of them nothing vouches for but a declaration, by position.
    pub declared: ByTransaction,
}

/// The same with the expected time of each transaction in nanoseconds, where there is one; None
/// when the first transactions are not `promising`. See [`of_block`].
pub fn of_promising_block(
    transactions: &[Transaction],
    promising: impl Fn(&[AccessSet], &[u64]) -> bool,
) -> Option<(Sets, Vec<Option<u64>>)> {
    consistent(|| {
        let mut found = Found::new();
        let (first, others) = transactions.split_at(first_look(transactions.len()));
        found.add(first);
        if !promising(&found.sets(Choice::Last).sets, &fill_up(&found.costs())) {
            return None;
        }
        found.add(others);
        Some((found.sets(Choice::Last), found.costs()))
    })
}

/// The indexes there are give keys their numbers. Results from before and after a change of indexes
/// do not go together, so this analyses once more. None when they changed again.
fn consistent<T>(analyse: impl Fn() -> Option<T>) -> Option<T> {
    for _ in 0..2 {
        let before = generation();
        let found = analyse();
        if generation() == before {
            return found;
        }
    }
    None
}

/// The keys that tell places apart.
enum Choice {
    /// Those chosen for this block.
    Own,
    /// Those chosen for an earlier one, if they fit.
    Last,
}

/// The kind of a transaction.
enum Member {
    /// It fails before it reads anything but roles and definitions, which no transaction of the
    /// block has changed.
    Refused,
    Everything,
    /// The number of what it executes, where its values are, and the rows that are declared.
    Execution(usize, Range<usize>, Vec<Rows>),
    /// The statements that its write set counts as, each with its values, and what it does beside.
    Effects(Vec<(usize, Range<usize>)>, Beside),
}

/// An execution whose rows are to be looked up.
struct Awaiting<'b> {
    /// Its position in the block.
    tx: usize,
    /// What it executes.
    number: usize,
    role: Role,
    proposal: &'b Proposal,
    /// Its literals that became parameters.
    literals: Vec<String>,
}

impl Awaiting<'_> {
    /// The values of all parameters, None for NULL.
    fn values(&self) -> Rc<[Option<&str>]> {
        let given = self.proposal.parameters.iter();
        let given = given.map(|p| (!p.null).then_some(p.text.as_str()));
        let literals = self.literals.iter().map(|text| Some(text.as_str()));
        given.chain(literals).collect()
    }
}

/// The transactions of a block, analysed.
struct Found<'b> {
    declarations: Rc<Declarations>,
    /// By number of what is executed.
    lookups: Vec<Rc<[Lookup]>>,
    awaiting: Vec<Awaiting<'b>>,
    /// The time that the look-ups may still take.
    time: Duration,
    deployed: bool,
    members: Vec<Member>,
    /// All values, one execution's after the other's.
    values: Vec<Value>,
    /// The functions that are executed: each once, by address.
    prepared: Vec<Rc<Prepared>>,
    numbers: HashMap<*const Prepared, usize>,
    effects_known: effects_access::Known,
    roles: HashMap<&'b str, Option<Role>>,
    /// By role and text, where texts of the same parameter types differ in the values given alone.
    texts: HashMap<(Role, &'b str), (usize, &'b Proposal)>,
}

impl<'b> Found<'b> {
    fn new() -> Self {
        Found {
            declarations: Declarations::read().into(),
            lookups: Vec::new(),
            awaiting: Vec::new(),
            time: LOOK_UPS_MAX,
            deployed: false,
            members: Vec::new(),
            values: Vec::new(),
            prepared: Vec::new(),
            numbers: HashMap::new(),
            effects_known: effects_access::Known::default(),
            roles: HashMap::new(),
            texts: HashMap::new(),
        }
    }

    /// The next transactions.
    fn add(&mut self, transactions: &'b [Transaction]) {
        for transaction in transactions {
            // Transactions behind a DEPLOY are not analysed with its changes yet.
            self.deployed |= may_deploy(transaction.kind());
            let member = match transaction.kind() {
                _ if self.deployed => Member::Everything,
                Kind::Effects => self.effects(&transaction.proposal),
                _ => self.member(&transaction.proposal),
            };
            self.members.push(member);
        }
        self.look_up();
    }

    /// Looks up the rows of the executions that await it.
    fn look_up(&mut self) {
        let awaiting = take(&mut self.awaiting);
        let asked = awaiting.iter().flat_map(|a| {
            let values = a.values();
            let lookups = self.lookups[a.number].iter();
            lookups.map(move |lookup| (lookup, a.role, values.clone()))
        });
        let asked: Vec<Asked> = asked.collect();
        let mut found = declared_access::look_up(&asked, &mut self.time).into_iter();
        for a in &awaiting {
            let lookups = self.lookups[a.number].len();
            if let Member::Execution(.., rows) = &mut self.members[a.tx] {
                rows.extend(found.by_ref().take(lookups).flatten());
            }
        }
    }

    /// The expected time of each transaction.
    fn costs(&self) -> Vec<Option<u64>> {
        let cost = |member: &Member| match member {
            Member::Execution(number, ..) => self.prepared[*number].cost.expected(),
            Member::Effects(_, beside) => run::cost_of_effects(beside.changes),
            _ => None,
        };
        self.members.iter().map(cost).collect()
    }

    /// The client's role; None: it has none here.
    fn role(&mut self, proposal: &'b Proposal) -> Option<Role> {
        let name = proposal.client.as_ref().map_or("", |c| c.role.as_str());
        let role = self.roles.entry(name);
        *role.or_insert_with(|| client_role::of_client(name).ok())
    }

    fn effects(&mut self, proposal: &'b Proposal) -> Member {
        let role = self.role(proposal);
        let (mut known, mut all) = (take(&mut self.effects_known), Vec::new());
        let mut add = |prepared: &Rc<Prepared>, values: &[Option<&codec::Value>]| {
            let number = self.number(role, prepared);
            let start = self.values.len();
            prepared.access_cells(values.iter().copied(), &mut self.values)?;
            all.push((number, start..self.values.len()));
            Ok(())
        };
        let found = effects_access::of_write_set(&mut known, role, &proposal.effects, &mut add);
        self.effects_known = known;
        match found {
            Ok(Some(beside)) => Member::Effects(all, beside),
            Ok(None) => Member::Refused,
            Err(error) if is_of_the_moment(&error) => error.raise(),
            Err(_) => Member::Everything,
        }
    }

    fn member(&mut self, proposal: &'b Proposal) -> Member {
        let Some(role) = self.role(proposal) else {
            return Member::Refused;
        };
        if let Some(member) = self.known_text(role, proposal) {
            return member;
        }
        let is_prepared = Cell::new(false);
        let kept = plans::kept_access(role, proposal);
        match kept.map_or_else(|| analyse(role, proposal, &is_prepared), Ok) {
            Ok(execution) => self.execution(role, proposal, execution),
            Err(error) if is_of_the_moment(&error) => error.raise(),
            Err(error) if is_of_the_machine(&error) => Member::Everything,
            Err(_) if !is_prepared.get() => Member::Refused,
            Err(_) => Member::Everything,
        }
    }

    /// A text met before in this block.
    fn known_text(&mut self, role: Role, proposal: &'b Proposal) -> Option<Member> {
        let (number, first) = *self.texts.get(&(role, proposal.sql.as_str()))?;
        let types = |p: &'b Proposal| p.parameters.iter().map(|p| &p.r#type);
        if !types(proposal).eq(types(first)) {
            return None;
        }
        let given = proposal.parameters.iter();
        let given = given.map(|p| (!p.null).then_some(p.text.as_str()));
        let start = self.values.len();
        let read = self.prepared[number].access_values(given, &mut self.values);
        if read.is_err() {
            self.values.truncate(start);
        }
        read.ok()?;
        Some(self.member_of(role, proposal, Vec::new(), number, start))
    }

    fn execution(&mut self, role: Role, proposal: &'b Proposal, execution: Execution) -> Member {
        let number = self.number(Some(role), &execution.prepared);
        if execution.same_text {
            self.texts.insert((role, &proposal.sql), (number, proposal));
        }
        let start = self.values.len();
        self.values.extend(execution.values);
        self.member_of(role, proposal, execution.literals, number, start)
    }

    /// The number of statements that are executed.
    fn number(&mut self, role: Option<Role>, prepared: &Rc<Prepared>) -> usize {
        let next = self.prepared.len();
        match self.numbers.entry(Rc::as_ptr(prepared)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let lookups = role.map(|role| self.declarations.lookups(role, prepared));
                self.lookups.push(lookups.unwrap_or_else(|| Rc::new([])));
                self.prepared.push(prepared.clone());
                *new.insert(next)
            }
        }
    }

    /// The next member: an execution whose values are those from `start` on.
    fn member_of(
        &mut self,
        role: Role,
        proposal: &'b Proposal,
        literals: Vec<String>,
        number: usize,
        start: usize,
    ) -> Member {
        if !self.lookups[number].is_empty() {
            self.awaiting.push(Awaiting {
                tx: self.members.len(),
                number,
                role,
                proposal,
                literals,
            });
        }
        Member::Execution(number, start..self.values.len(), Vec::new())
    }

    fn sets(&self, choice: Choice) -> Sets {
        let everything = everything();
        let templates = self.prepared.iter();
        let templates = templates.map(|prepared| prepared.template().unwrap_or(&everything));
        let changes = Changes::of(templates.clone());
        let templates: Vec<Template> = templates.map(|t| changes.apply(t)).collect();
        let templates: Vec<&Template> = templates.iter().collect();
        let executions = self.members.iter().flat_map(|member| match member {
            Member::Execution(number, values, _) => vec![(*number, &self.values[values.clone()])],
            Member::Effects(all, _) => {
                let of = |(number, values): &(usize, Range<usize>)| {
                    (*number, &self.values[values.clone()])
                };
                all.iter().map(of).collect()
            }
            _ => Vec::new(),
        });
        let sample: Vec<_> = executions.take(SAMPLE_MAX).collect();
        let choose = || Focus::choose(&templates, &sample);
        let focus = match choice {
            Choice::Last => focus::chosen_for(&self.prepared, sample.len(), choose),
            Choice::Own => choose().into(),
        };
        let focused: Vec<Template> = templates.iter().map(|t| focus.apply(t)).collect();
        let mut all = ByTransaction::new();
        let mut set = |(tx, member): (u32, &Member)| match member {
            Member::Refused => AccessSet::new(),
            Member::Everything => AccessSet::everything(),
            Member::Execution(number, values, rows) if rows.is_empty() => {
                focused[*number].fill(&self.values[values.clone()])
            }
            Member::Execution(number, values, rows) => {
                let declared = declared_access::in_block(rows, &changes, &focus);
                let set = focused[*number].fill_declared(&self.values[values.clone()], &declared);
                all.insert(tx, declared.into());
                set
            }
            Member::Effects(rows, beside) => {
                let mut set = AccessSet::new();
                for (number, values) in rows {
                    focused[*number].fill_into(&self.values[values.clone()], &mut set);
                }
                beside.add_to(&mut set);
                set
            }
        };
        let sets = (0..).zip(&self.members).map(&mut set).collect();
        Sets {
            sets,
            declared: all,
        }
    }
}

fn everything() -> Template {
    let mut template = Template::default();
    template.widen("it cannot be analysed");
    template
}

/// A transaction whose statements were not analysed before; see [`plans::access`].
fn analyse(
    role: Role,
    proposal: &Proposal,
    is_prepared: &Cell<bool>,
) -> Result<Execution, PgError> {
    let as_written = Cell::new(false);
    let once = || {
        is_prepared.set(false);
        subtransaction(|| role.run(|| plans::access(role, proposal, &as_written, is_prepared)))
    };
    match once() {
        Err(_) if as_written.get() => once(),
        execution => execution,
    }
}
