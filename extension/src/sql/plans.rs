//! Plans of clients' transactions, kept by role, shape and types: texts that differ in literals
//! alone share one.
//!
//! Invariant X5: a text runs with its literals as parameters only if that gives the same result. A
//! literal that may not become a parameter stays in the text and belongs to the plan. A text that
//! cannot be analysed with parameters, and a literal that its type refuses, run once more as
//! written.
use std::cell::{Cell, RefCell};
use std::collections::{hash_map::Entry, HashMap};
use std::rc::Rc;
use std::time::Instant;

use chainify_ledger::messages::Proposal;
use chainify_sched::value::Value;
use chainify_sqltext::{shape, Literal, Shape};

use crate::ledger::outcome::Outcome;
use crate::pg::base::error::PgError;
use crate::pg::base::role::Role;
use crate::pg::base::{catalog, settings};
use crate::pg::run::statement::{Bound, Prepared};
use crate::pg::tree::constants::{slots, Slot};

/// Plans and shapes kept in a session.
const KEPT_MAX: usize = 2_048;
/// Bytes of memory that kept plans take at most.
const BYTES_MAX: usize = 64 << 20;
/// Plans kept between two measurements: a plan grows when it first runs.
const MEASURE_EVERY: usize = 128;
/// Bytes of the longest text, and of the longest key, kept; with [`KEPT_MAX`], 32 MiB.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The facts that texts of one shape have in common.
struct Template {
    /// Definitions may have changed since: see [`catalog::generation`].
    generation: u64,
    /// See [`Statement::active`].
    slots: Rc<[Slot]>,
    /// By parameter types and the literals that are not active slots.
    plans: HashMap<Vec<u8>, Rc<Kept>>,
}

struct Kept {
    prepared: Rc<Prepared>,
    used: Cell<u64>,
}

/// A text that has no literals, with its plan for the types it came with last: found without being
/// taken apart.
struct PlainText {
    generation: u64,
    types: Vec<String>,
    kept: Rc<Kept>,
}

#[derive(Default)]
struct PlainTexts {
    by_role: HashMap<Role, HashMap<String, PlainText>>,
    count: usize,
}

impl PlainTexts {
    fn find(&mut self, role: Role, proposal: &Proposal) -> Option<&Kept> {
        let texts = self.by_role.get_mut(&role)?;
        let known = texts.get(&proposal.sql)?;
        let types = proposal.parameters.iter().map(|p| p.r#type.as_str());
        let current = known.generation == catalog::generation();
        (current && types.eq(known.types.iter().map(String::as_str))).then(|| &*known.kept)
    }

    /// At most [`KEPT_MAX`], then all are forgotten.
    fn keep(&mut self, role: Role, proposal: &Proposal, kept: Rc<Kept>) {
        if self.count >= KEPT_MAX {
            *self = PlainTexts::default();
        }
        let types = proposal.parameters.iter().map(|p| p.r#type.clone());
        let text = PlainText {
            generation: catalog::generation(),
            types: types.collect(),
            kept,
        };
        let of_role = self.by_role.entry(role).or_default();
        self.count += usize::from(of_role.insert(proposal.sql.clone(), text).is_none());
    }
}

#[derive(Default)]
struct OfRole {
    by_shape: HashMap<String, Template>,
    /// Texts that are not taken apart.
    by_text: HashMap<String, Template>,
}

/// By role, because names are resolved and rights on schemas checked when a statement is analysed.
#[derive(Default)]
struct Cache {
    by_role: HashMap<Role, OfRole>,
    plain: PlainTexts,
    /// Templates and plans, so that shapes whose texts all fail are bounded too.
    count: usize,
    /// Bytes of plans, as of the last measurement and with those kept since.
    bytes: usize,
    /// Plans kept since the last measurement.
    since_measured: usize,
    clock: u64,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

/// Runs a client's statements. Sets `as_written` when it fails because of literals taken as
/// parameters: the caller then undoes this attempt and calls again, and the text runs as written.
pub fn run(role: Role, proposal: &Proposal, as_written: &Cell<bool>) -> Outcome {
    if let Some(prepared) = CACHE.with_borrow_mut(|cache| cache.find_plain(role, proposal)) {
        return execute(&prepared, prepared.bind(parameters(proposal))?);
    }
    let statement = Statement::of(proposal, as_written.get());
    let (prepared, slots) = statement.prepared(role, as_written)?;
    CACHE.with_borrow_mut(|cache| cache.keep_plain(role, &statement));
    let literals = statement.values(&slots);
    let bound = prepared
        .bind(statement.given(&literals))
        .inspect_err(|_| as_written.set(!slots.is_empty()))?;
    execute(&prepared, bound)
}

fn execute(prepared: &Prepared, bound: Bound) -> Outcome {
    let started = prepared.cost.is_due().then(Instant::now);
    let outcome = bound.run();
    if let (Some(started), Ok(_)) = (started, &outcome) {
        prepared.cost.add(started.elapsed().as_nanos() as u64);
    }
    outcome
}

/// The values given, None for NULL.
pub fn parameters(proposal: &Proposal) -> impl Iterator<Item = Option<&str>> {
    let given = proposal.parameters.iter();
    given.map(|p| (!p.null).then_some(p.text.as_str()))
}

/// A transaction with what its access set follows from (spec/scheduling.md).
pub struct Execution {
    pub prepared: Rc<Prepared>,
    /// For [`Prepared::template`].
    pub values: Vec<Value>,
    /// The literals that became parameters, behind those given.
    pub literals: Vec<String>,
    /// Its text has no literals: executions of the same text and types differ in the values given
    /// alone.
    pub same_text: bool,
}

/// The statements of a client's transaction, analysed; fails as [`run`], but for what only running
/// it shows. Sets `is_prepared` when its statements are: what fails before, fails before any of it
/// runs.
pub fn access(
    role: Role,
    proposal: &Proposal,
    as_written: &Cell<bool>,
    is_prepared: &Cell<bool>,
) -> Result<Execution, PgError> {
    let statement = Statement::of(proposal, as_written.get());
    let (prepared, slots) = statement.prepared(role, as_written)?;
    is_prepared.set(true);
    statement
        .execution(prepared, &slots)
        .inspect_err(|_| as_written.set(!slots.is_empty()))
}

/// The same where everything but the values is known, and these can be read: needs no
/// subtransaction.
pub fn kept_access(role: Role, proposal: &Proposal) -> Option<Execution> {
    let statement = Statement::of(proposal, false);
    let (prepared, slots) = CACHE.with_borrow_mut(|cache| cache.find(role, &statement))?;
    let analysed = prepared.is_analysed();
    analysed.then(|| statement.execution(prepared, &slots).ok())?
}

struct Statement<'p> {
    proposal: &'p Proposal,
    shape: Option<Shape>,
}

impl<'p> Statement<'p> {
    fn of(proposal: &'p Proposal, as_written: bool) -> Self {
        let shape = (!as_written && settings::share_plans())
            .then(|| shape(&proposal.sql))
            .flatten()
            // A number beyond the parameters given is an error, not one of ours.
            .filter(|s| s.parameter_max as usize <= proposal.parameters.len());
        Statement { proposal, shape }
    }

    fn execution(&self, prepared: Rc<Prepared>, slots: &[Slot]) -> Result<Execution, PgError> {
        let (literals, mut values) = (self.values(slots), Vec::new());
        prepared.access_values(self.given(&literals), &mut values)?;
        Ok(Execution {
            prepared,
            values,
            literals,
            same_text: self.shape.is_some() && self.literals().is_empty(),
        })
    }

    fn literals(&self) -> &[Literal] {
        self.shape.as_ref().map_or(&[], |shape| &shape.literals)
    }

    fn value(&self, slot: &Slot) -> String {
        let value = self.literals()[slot.literal].value(&self.proposal.sql);
        match slot.minus {
            Some(_) => format!("-{value}"),
            None => value,
        }
    }

    fn values(&self, slots: &[Slot]) -> Vec<String> {
        slots.iter().map(|slot| self.value(slot)).collect()
    }

    /// The values of all parameters: those given, then the literals.
    fn given<'v>(&'v self, literals: &'v [String]) -> impl Iterator<Item = Option<&'v str>> {
        parameters(self.proposal).chain(literals.iter().map(|text| Some(text.as_str())))
    }

    fn prepared(
        &self,
        role: Role,
        as_written: &Cell<bool>,
    ) -> Result<(Rc<Prepared>, Rc<[Slot]>), PgError> {
        match CACHE.with_borrow_mut(|cache| cache.find(role, self)) {
            Some(found) => Ok(found),
            None => self.prepare(role, as_written),
        }
    }

    /// Those of a shape's slots that are slots in this text.
    fn active(&self, slots: &Rc<[Slot]>) -> Rc<[Slot]> {
        let fit = |slot: &Slot| slot.fits(self.literals(), &self.proposal.sql);
        match slots.iter().all(fit) {
            true => slots.clone(),
            false => slots
                .iter()
                .filter(|s| !s.small && fit(s))
                .copied()
                .collect(),
        }
    }

    /// Types and literals that belong to the plan, each with its length in front, literals with
    /// their place as well.
    fn key(&self, slots: &[Slot]) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        let mut push = |part: &str| {
            key.extend_from_slice(&(part.len() as u32).to_be_bytes());
            key.extend_from_slice(part.as_bytes());
        };
        self.types().for_each(&mut push);
        let mut slots = slots.iter().map(|slot| slot.literal).peekable();
        for (i, literal) in self.literals().iter().enumerate() {
            if slots.next_if_eq(&i).is_none() {
                push(&i.to_string());
                push(literal.written(&self.proposal.sql));
            }
        }
        key
    }

    fn types(&self) -> impl Iterator<Item = &'p str> {
        self.proposal.parameters.iter().map(|p| p.r#type.as_str())
    }

    /// The text with `slots` as parameters after those given.
    fn text(&self, slots: &[Slot]) -> String {
        let (sql, literals) = (&self.proposal.sql, self.literals());
        let (mut text, mut copied) = (String::with_capacity(sql.len()), 0);
        for (i, slot) in slots.iter().enumerate() {
            text.push_str(&sql[copied..slot.at(literals)]);
            text.push_str(&format!(" ${} ", self.proposal.parameters.len() + i + 1));
            copied = literals[slot.literal].end;
        }
        text.push_str(&sql[copied..]);
        text
    }

    fn prepare(
        &self,
        role: Role,
        as_written: &Cell<bool>,
    ) -> Result<(Rc<Prepared>, Rc<[Slot]>), PgError> {
        let known =
            CACHE.with_borrow_mut(|cache| cache.template(role, self).map(|t| t.slots.clone()));
        let mut all: Vec<Slot> = match known {
            Some(slots) => slots.to_vec(),
            None if self.literals().is_empty() => Vec::new(),
            None => {
                slots(&self.proposal.sql, self.literals()).inspect_err(|_| as_written.set(true))?
            }
        };
        loop {
            let slots = self.active(&all[..].into());
            let kinds = slots.iter().map(|slot| self.literals()[slot.literal].kind);
            let types: Vec<_> = self
                .types()
                .chain(kinds.map(|kind| -> &str { kind.type_name() }))
                .collect();
            let prepared = Prepared::new(&self.text(&slots), &types).inspect_err(|_| {
                if !slots.is_empty() {
                    as_written.set(true);
                    CACHE.with_borrow_mut(|cache| cache.keep(role, self, Rc::new([]), None));
                }
            })?;
            let given = self.proposal.parameters.len();
            let times = (given..).zip(slots.iter());
            let times = times.filter(|(at, _)| prepared.holds_time(*at));
            let times: Vec<_> = times.map(|(_, slot)| slot.literal).collect();
            for slot in &mut all {
                slot.holds_time |= times.contains(&slot.literal);
            }
            let of_shape: Rc<[Slot]> = all[..].into();
            if self.active(&of_shape).len() < slots.len() {
                continue; // a literal that may read the clock stays in the text
            }
            let unlike = prepared
                .unlike_literals(given)
                .inspect_err(|_| as_written.set(true))?;
            let unlike: Vec<_> = unlike.iter().map(|at| slots[at - given]).collect();
            all.retain(|slot| !unlike.contains(slot));
            if unlike.is_empty() {
                let prepared = Rc::new(prepared);
                CACHE.with_borrow_mut(|cache| {
                    cache.keep(role, self, of_shape, Some(prepared.clone()))
                });
                return Ok((prepared, slots));
            }
        }
    }
}

impl Cache {
    /// The template of a statement's shape, unless definitions changed since it was made.
    fn template(&mut self, role: Role, statement: &Statement) -> Option<&mut Template> {
        let of_role = self.by_role.get_mut(&role)?;
        let (map, text) = match &statement.shape {
            Some(shape) => (&mut of_role.by_shape, &shape.text),
            None => (&mut of_role.by_text, &statement.proposal.sql),
        };
        if map.get(text)?.generation != catalog::generation() {
            self.count -= map.remove(text).map_or(0, |t| 1 + t.plans.len());
            return None;
        }
        map.get_mut(text)
    }

    fn find(&mut self, role: Role, statement: &Statement) -> Option<(Rc<Prepared>, Rc<[Slot]>)> {
        self.clock += 1;
        let clock = self.clock;
        let template = self.template(role, statement)?;
        let slots = statement.active(&template.slots);
        let kept = template.plans.get(&statement.key(&slots))?;
        kept.used.set(clock);
        Some((kept.prepared.clone(), slots))
    }

    fn find_plain(&mut self, role: Role, proposal: &Proposal) -> Option<Rc<Prepared>> {
        self.clock += 1;
        let kept = self.plain.find(role, proposal)?;
        kept.used.set(self.clock);
        Some(kept.prepared.clone())
    }

    /// Keeps the plan of a text without literals, if it is kept, for the text as it is.
    fn keep_plain(&mut self, role: Role, statement: &Statement) {
        if statement.shape.is_none() || !statement.literals().is_empty() {
            return;
        }
        let key = statement.key(&[]);
        let template = self.template(role, statement);
        if let Some(kept) = template.and_then(|t| t.plans.get(&key).cloned()) {
            self.plain.keep(role, statement.proposal, kept);
        }
    }

    /// Keeps a plan with the slots of its shape; without one, that texts of this shape are not to
    /// be taken apart.
    fn keep(
        &mut self,
        role: Role,
        statement: &Statement,
        slots: Rc<[Slot]>,
        prepared: Option<Rc<Prepared>>,
    ) {
        let key = statement.key(&statement.active(&slots));
        if statement.proposal.sql.len().max(key.len()) > TEXT_BYTES_MAX {
            return;
        }
        self.make_room(prepared.as_deref());
        let used = self.clock;
        let fresh = || Template {
            generation: catalog::generation(),
            slots: slots.clone(),
            plans: HashMap::new(),
        };
        let of_role = self.by_role.entry(role).or_default();
        let entry = match &statement.shape {
            Some(shape) => of_role.by_shape.entry(shape.text.clone()),
            None => of_role.by_text.entry(statement.proposal.sql.clone()),
        };
        if let Entry::Vacant(_) = &entry {
            self.count += 1;
        }
        let template = entry.or_insert_with(fresh);
        if template.slots != slots {
            self.count -= template.plans.len();
            *template = fresh();
        }
        if let Some(prepared) = prepared {
            let used = Cell::new(used);
            let old = template.plans.insert(key, Rc::new(Kept { prepared, used }));
            self.count += usize::from(old.is_none());
        }
    }

    /// Keeps to the bounds, before one more is kept.
    fn make_room(&mut self, coming: Option<&Prepared>) {
        let coming = coming.map_or(0, Prepared::bytes);
        self.since_measured += 1;
        if self.since_measured >= MEASURE_EVERY || self.bytes + coming > BYTES_MAX {
            self.measure();
        }
        if self.count >= KEPT_MAX {
            self.forget_older_half();
        }
        while self.bytes + coming > BYTES_MAX && self.count > 0 {
            self.forget_older_half();
            self.measure();
        }
        self.bytes += coming;
    }

    fn measure(&mut self) {
        let roles = self.by_role.values();
        let templates = roles.flat_map(|r| r.by_shape.values().chain(r.by_text.values()));
        let kept = templates.flat_map(|t| t.plans.values());
        self.bytes = kept.map(|kept| kept.prepared.bytes()).sum();
        self.since_measured = 0;
    }

    /// Half at once, so that one pass over the cache serves many transactions that are new.
    fn forget_older_half(&mut self) {
        let templates = |r: &OfRole| r.by_shape.len() + r.by_text.len();
        let plans = |m: &HashMap<String, Template>| -> Vec<u64> {
            m.values()
                .flat_map(|t| t.plans.values().map(|k| k.used.get()))
                .collect()
        };
        let mut used: Vec<u64> = self
            .by_role
            .values()
            .flat_map(|r| [plans(&r.by_shape), plans(&r.by_text)].concat())
            .collect();
        let middle = used.len() / 2;
        let limit = match used.get(middle) {
            Some(_) => *used.select_nth_unstable(middle).1,
            None => 0, // shapes without plans alone
        };
        for of_role in self.by_role.values_mut() {
            for map in [&mut of_role.by_shape, &mut of_role.by_text] {
                map.retain(|_, template| {
                    template.plans.retain(|_, kept| kept.used.get() > limit);
                    !template.plans.is_empty()
                });
            }
        }
        self.by_role.retain(|_, of_role| templates(of_role) > 0);
        // Forgotten plans must not stay here; the others come back with their next use.
        self.plain = PlainTexts::default();
        self.count = self
            .by_role
            .values()
            .flat_map(|r| r.by_shape.values().chain(r.by_text.values()))
            .map(|t| 1 + t.plans.len())
            .sum();
    }
}
