//! The content of PLAN transactions (`spec/transactions.md`, "Planned transactions").

use crate::messages::{Plan, PlanAction, Proposal};
use crate::names::check_text;
use crate::{Hash, WireError};

/// Bytes of text and parameters of a planned transaction, names of types included.
pub const PLANNED_BYTES_MAX: usize = 65_536;
/// Bytes of the approvals that a plan asks for: those of an agreement policy.
pub const APPROVALS_BYTES_MAX: usize = 4_096;
/// The last microsecond of the year 9999, from the Unix epoch.
pub const TIME_MAX: i64 = 253_402_300_799_999_999;

/// The action of a PLAN transaction that was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'p> {
    /// The statements of the proposal run later.
    Plan(&'p Plan),
    /// The client's organisation approves the plan with this id.
    Approve(Hash),
    /// The plan with this id will not run.
    Cancel(Hash),
    /// The plan with this id runs now.
    Execute(Hash),
}

/// The action of a proposal of kind PLAN. Errors name the field. Cost: linear in the text of a
/// plan.
pub fn action(proposal: &Proposal) -> Result<Action<'_>, WireError> {
    let plan = proposal.plan.as_ref().ok_or_else(|| WireError::new("plan", "is missing"))?;
    let of_other = |make: fn(Hash) -> Action<'static>| Ok(make(of_other(proposal, plan)?));
    match plan.action() {
        PlanAction::Plan => check_plan(proposal, plan).map(|()| Action::Plan(plan)),
        PlanAction::Approve => of_other(Action::Approve),
        PlanAction::Cancel => of_other(Action::Cancel),
        PlanAction::Execute => of_other(Action::Execute),
        PlanAction::Unspecified => Err(WireError::new("plan.action", "is unknown")),
    }
}

/// The id that every action but PLAN names, which says nothing else.
fn of_other(proposal: &Proposal, plan: &Plan) -> Result<Hash, WireError> {
    let says_more = !proposal.sql.is_empty() || !proposal.parameters.is_empty();
    if says_more || plan.not_before != 0 || plan.expires != 0 || !plan.approvals.is_empty() {
        return Err(WireError::new("plan", "has more than the id of a planned transaction"));
    }
    let id = plan.planned.as_slice();
    id.try_into().map_err(|_| WireError::new("plan.planned", format!("is {} bytes, want 32", id.len())))
}

fn check_plan(proposal: &Proposal, plan: &Plan) -> Result<(), WireError> {
    if !plan.planned.is_empty() {
        return Err(WireError::new("plan.planned", "is not empty though the transaction plans"));
    }
    for (field, time) in [("plan.not_before", plan.not_before), ("plan.expires", plan.expires)] {
        if !(0..=TIME_MAX).contains(&time) {
            return Err(WireError::new(field, format!("is {time}, want 0 to {TIME_MAX}")));
        }
    }
    if plan.approvals.len() > APPROVALS_BYTES_MAX {
        return Err(WireError::new("plan.approvals", format!("longer than {APPROVALS_BYTES_MAX} bytes")));
    }
    check_text("plan.approvals", &plan.approvals)?;
    let of_parameters: usize = proposal.parameters.iter().map(|p| p.r#type.len() + p.text.len()).sum();
    let bytes = proposal.sql.len() + of_parameters;
    if bytes > PLANNED_BYTES_MAX {
        let what =
            format!("and parameters are {bytes} bytes, want at most {PLANNED_BYTES_MAX} of a planned transaction");
        return Err(WireError::new("sql", what));
    }
    Ok(())
}
