package gateway

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// PlanWords are the parts of a PLAN transaction as people write them: over HTTP, and on the command
// line.
type PlanWords struct {
	// Action is plan, approve, cancel or execute.
	Action string `json:"action"`
	// Planned is the id of the transaction that planned, in hexadecimal digits; empty for plan.
	Planned string `json:"planned,omitempty"`
	// NotBefore and Expires are times of RFC 3339, for plan alone; empty: at once, and 30 days.
	NotBefore string `json:"not_before,omitempty"`
	Expires   string `json:"expires,omitempty"`
	// Approvals is the policy of approvals, for plan alone; empty: none is needed.
	Approvals string `json:"approvals,omitempty"`
}

var planActions = map[string]wire.PlanAction{
	"plan": wire.PlanAction_PLAN_ACTION_PLAN, "approve": wire.PlanAction_PLAN_ACTION_APPROVE,
	"cancel": wire.PlanAction_PLAN_ACTION_CANCEL, "execute": wire.PlanAction_PLAN_ACTION_EXECUTE,
}

// Plan reads the words. An error names the part that is wrong; the gateway checks the rest.
func (w PlanWords) Plan() (*wire.Plan, error) {
	action, known := planActions[w.Action]
	if !known {
		return nil, fmt.Errorf("action: %q is not plan, approve, cancel or execute", w.Action)
	}
	planned, err := hex.DecodeString(w.Planned)
	if err != nil {
		return nil, fmt.Errorf("planned: %q is not hexadecimal digits", w.Planned)
	}
	out := &wire.Plan{Action: action, Planned: planned, Approvals: w.Approvals}
	if out.NotBefore, err = microsOf("not_before", w.NotBefore); err != nil {
		return nil, err
	}
	out.Expires, err = microsOf("expires", w.Expires)
	return out, err
}

func microsOf(name, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a time such as 2027-01-31T09:00:00Z", name, text)
	}
	return t.UnixMicro(), nil
}
