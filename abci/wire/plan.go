package wire

// Bounds of PLAN transactions (spec/formats.md).
const (
	PlannedBytesMax   = 65_536                  // text and parameters of a planned transaction, with the names of types
	approvalsBytesMax = 4_096                   // of an agreement policy
	planTimeMax       = 253_402_300_799_999_999 // the last microsecond of the year 9999, from the Unix epoch
)

// CheckPlan checks the content of kind PLAN: statements with the times and approvals of their plan,
// or the id of a planned transaction and nothing else. Cost: linear in the bytes.
func CheckPlan(c Content) error {
	if len(c.GetEffects()) > 0 {
		return fieldErrorf("effects", "not empty though the transaction plans")
	}
	plan := c.GetPlan()
	if plan == nil {
		return fieldErrorf("plan", "missing")
	}
	switch action := plan.Action; action {
	case PlanAction_PLAN_ACTION_PLAN:
		return checkPlanned(c, plan)
	case PlanAction_PLAN_ACTION_APPROVE, PlanAction_PLAN_ACTION_CANCEL, PlanAction_PLAN_ACTION_EXECUTE:
		more := c.GetSql() != "" || len(c.GetParameters()) > 0 || plan.NotBefore != 0 || plan.Expires != 0 || plan.Approvals != ""
		if more {
			return fieldErrorf("plan", "more than the id of a planned transaction")
		}
		if len(plan.Planned) != len(TxID{}) {
			return fieldErrorf("plan.planned", "%d bytes, want %d", len(plan.Planned), len(TxID{}))
		}
		return nil
	default:
		return fieldErrorf("plan.action", "%d, want %d to %d", action, PlanAction_PLAN_ACTION_PLAN, PlanAction_PLAN_ACTION_EXECUTE)
	}
}

func checkPlanned(c Content, plan *Plan) error {
	if len(plan.Planned) > 0 {
		return fieldErrorf("plan.planned", "not empty though the transaction plans")
	}
	if t := plan.NotBefore; t < 0 || t > planTimeMax {
		return fieldErrorf("plan.not_before", "%d, want 0 to %d", t, planTimeMax)
	}
	if t := plan.Expires; t < 0 || t > planTimeMax {
		return fieldErrorf("plan.expires", "%d, want 0 to %d", t, planTimeMax)
	}
	if n := len(plan.Approvals); n > approvalsBytesMax {
		return fieldErrorf("plan.approvals", "%d bytes, want at most %d", n, approvalsBytesMax)
	}
	if err := checkText("plan.approvals", plan.Approvals); err != nil {
		return err
	}
	if n := PlannedBytes(c); n > PlannedBytesMax {
		return fieldErrorf("sql", "%d bytes with the parameters, want at most %d of a planned transaction", n, PlannedBytesMax)
	}
	return checkStatements(c.GetSql(), c.GetParameters())
}

// PlannedBytes counts the bytes of text and parameters, which PlannedBytesMax bounds.
func PlannedBytes(c Content) int {
	n := len(c.GetSql())
	for _, p := range c.GetParameters() {
		n += len(p.GetType()) + len(p.GetText())
	}
	return n
}
