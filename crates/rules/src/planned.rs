//! When a planned transaction may be created, approved, cancelled and executed
//! (`spec/transactions.md`, "Planned transactions").
//!
//! Times are microseconds since the Unix epoch. `now` is the time of the block that asks, never a
//! clock. Every function is pure: two organisations that hold the same rows decide the same.

use crate::refusal::Refusal;

/// Open plans of one planner, a role of an organisation.
pub const OPEN_OF_ROLE_MAX: u64 = 100;
/// Open plans of one organisation.
pub const OPEN_OF_ORGANISATION_MAX: u64 = 1_000;

const DAY: i64 = 86_400_000_000;
/// The time from the start of a plan to its end, where the planner names none.
const DEFAULT_LIFE: i64 = 30 * DAY;
/// The time from planning to the end of a plan.
const LIFE_MAX: i64 = 3_660 * DAY;

/// The times between which a plan may be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// The first; 0: at once.
    pub not_before: i64,
    /// The first at which it is too late.
    pub expires: i64,
}

impl Times {
    /// The times of a planned transaction made now, with the default for an end of 0. Errors:
    /// 22023.
    pub fn of_new(not_before: i64, expires: i64, now: i64) -> Result<Self, Refusal> {
        let start = not_before.max(now);
        let expires = if expires == 0 { start.saturating_add(DEFAULT_LIFE) } else { expires };
        if expires <= start {
            let message = "planned transaction expires before it may be executed";
            return Err(Refusal::new(b"22023", message).detail("The time that counts is that of the block."));
        }
        if expires > now.saturating_add(LIFE_MAX) {
            let message = format!("planned transaction expires more than {} days after it is planned", LIFE_MAX / DAY);
            return Err(Refusal::new(b"22023", message).hint("Name an earlier end, or an earlier start."));
        }
        Ok(Self { not_before, expires })
    }
}

/// Whether a planner with so many open plans, of an organisation with so many, may have one more.
/// Errors: 54000.
pub fn may_plan(of_role: u64, of_organisation: u64) -> Result<(), Refusal> {
    let beyond = |whose: &str, max: u64| {
        Err(Refusal::new(b"54000", format!("{whose} has {max} planned transactions that wait, at most {max} may"))
            .hint("Cancel one with chainify.cancel_planned."))
    };
    if of_role >= OPEN_OF_ROLE_MAX {
        return beyond("the role", OPEN_OF_ROLE_MAX);
    }
    if of_organisation >= OPEN_OF_ORGANISATION_MAX {
        return beyond("the organisation", OPEN_OF_ORGANISATION_MAX);
    }
    Ok(())
}

/// Where a plan stands, as its row says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Neither of the others.
    Waiting,
    /// It ran and succeeded.
    Executed,
    /// It ran and failed, which spends it.
    Failed,
    /// Its planner withdrew it.
    Cancelled,
}

impl State {
    /// The state of a stored word.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [State::Waiting, State::Executed, State::Failed, State::Cancelled];
        all.into_iter().find(|state| state.word() == word)
    }

    /// The word that is stored.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Executed => "executed",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
        }
    }
}

/// A plan that an action names.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// As its row says.
    pub state: State,
    /// When it may run.
    pub times: Times,
}

impl Plan {
    /// Whether something may still be done about it. Errors: 55000.
    pub fn is_open(&self, now: i64) -> Result<(), Refusal> {
        let over = match self.state {
            State::Waiting if now < self.times.expires => return Ok(()),
            State::Waiting => "has expired",
            State::Executed => "was executed already",
            State::Failed => "was executed already, and failed",
            State::Cancelled => "was cancelled",
        };
        Err(Refusal::new(b"55000", format!("planned transaction {over}")))
    }

    /// Whether it may be executed now. `missing` are the approvals that it lacks, as a policy.
    /// Errors: 55000, or CH009 for a missing approval.
    pub fn may_execute(&self, missing: Option<&str>, now: i64) -> Result<(), Refusal> {
        self.is_open(now)?;
        if now < self.times.not_before {
            let message = "planned transaction is not due yet";
            return Err(Refusal::new(b"55000", message).detail("The time that counts is that of the block."));
        }
        match missing {
            None => Ok(()),
            Some(need) => {
                let message = format!("planned transaction lacks the approval of {need}");
                Err(Refusal::new(b"CH009", message).hint("An admin approves with chainify.approve_planned."))
            }
        }
    }

    /// Whether a client may cancel it: its planner, or an admin of the planner's organisation.
    /// Errors: 42501 or 55000.
    pub fn may_cancel(&self, is_planner: bool, is_admin_there: bool, now: i64) -> Result<(), Refusal> {
        if !is_planner && !is_admin_there {
            let message = "planned transaction belongs to another client";
            let detail = "Its planner may cancel it, and so may an admin of the planner's organisation.";
            return Err(Refusal::new(b"42501", message).detail(detail));
        }
        self.is_open(now)
    }

    /// Whether an organisation may approve it. Errors: 42710 for a second time, or 55000.
    pub fn may_approve(&self, approved: bool, now: i64) -> Result<(), Refusal> {
        self.is_open(now)?;
        if approved {
            return Err(Refusal::new(b"42710", "the organisation has approved the planned transaction already"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    fn plan(state: State) -> Plan {
        Plan { state, times: Times { not_before: NOW, expires: NOW + 10 } }
    }

    fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> &'static str {
        std::str::from_utf8(result.unwrap_err().sqlstate).unwrap()
    }

    #[test]
    fn the_end_is_after_start_and_now_and_in_ten_years_at_most() {
        let times = |not_before, expires| Times::of_new(not_before, expires, NOW);
        assert_eq!(times(0, 0).unwrap().expires, NOW + DEFAULT_LIFE);
        assert_eq!(times(NOW + DAY, 0).unwrap().expires, NOW + DAY + DEFAULT_LIFE);
        assert_eq!(times(NOW + 5, NOW + 6), Ok(Times { not_before: NOW + 5, expires: NOW + 6 }));
        assert_eq!(code(times(NOW + 5, NOW + 5)), "22023");
        assert_eq!(code(times(0, NOW)), "22023");
        assert!(times(0, NOW + LIFE_MAX).is_ok());
        assert_eq!(code(times(0, NOW + LIFE_MAX + 1)), "22023");
        assert_eq!(code(times(NOW + LIFE_MAX, 0)), "22023");
        assert_eq!(code(times(i64::MAX, 0)), "22023");
    }

    #[test]
    fn open_plans_are_bounded_for_each_role_and_organisation() {
        assert!(may_plan(OPEN_OF_ROLE_MAX - 1, OPEN_OF_ORGANISATION_MAX - 1).is_ok());
        assert_eq!(code(may_plan(OPEN_OF_ROLE_MAX, 0)), "54000");
        assert_eq!(code(may_plan(0, OPEN_OF_ORGANISATION_MAX)), "54000");
    }

    #[test]
    fn a_plan_is_executed_once_in_its_time_with_its_approvals() {
        let waiting = plan(State::Waiting);
        assert_eq!(code(waiting.may_execute(None, NOW - 1)), "55000");
        assert!(waiting.may_execute(None, NOW).is_ok());
        assert!(waiting.may_execute(None, NOW + 9).is_ok());
        assert_eq!(code(waiting.may_execute(None, NOW + 10)), "55000");
        assert_eq!(code(waiting.may_execute(Some("bolt"), NOW)), "CH009");
        for over in [State::Executed, State::Failed, State::Cancelled] {
            assert_eq!(code(plan(over).may_execute(None, NOW)), "55000", "{over:?}");
        }
    }

    #[test]
    fn only_the_planner_and_its_admins_cancel() {
        let waiting = plan(State::Waiting);
        assert!(waiting.may_cancel(true, false, NOW).is_ok());
        assert!(waiting.may_cancel(false, true, NOW).is_ok());
        assert_eq!(code(waiting.may_cancel(false, false, NOW)), "42501");
        assert_eq!(code(plan(State::Executed).may_cancel(true, true, NOW)), "55000");
        assert_eq!(code(plan(State::Executed).may_cancel(false, false, NOW)), "42501", "tells nothing to others");
    }

    #[test]
    fn an_organisation_approves_once_and_only_what_is_open() {
        let waiting = plan(State::Waiting);
        assert!(waiting.may_approve(false, NOW - 5).is_ok(), "before it is due as well");
        assert_eq!(code(waiting.may_approve(true, NOW)), "42710");
        assert_eq!(code(waiting.may_approve(false, NOW + 10)), "55000");
        assert_eq!(code(plan(State::Cancelled).may_approve(false, NOW)), "55000");
    }

    #[test]
    fn states_have_one_word_each() {
        for state in [State::Waiting, State::Executed, State::Failed, State::Cancelled] {
            assert_eq!(State::parse(state.word()), Some(state));
        }
        assert_eq!(State::parse("expired"), None, "is computed, not stored");
    }
}
