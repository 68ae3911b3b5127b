package wire

import (
	"strings"
	"testing"
)

// planVector is the part of a PLAN transaction as transactions.json holds it.
type planVector struct {
	Action    PlanAction
	Planned   hexBytes
	NotBefore int64 `json:"not_before,string"`
	Expires   int64 `json:",string"`
	Approvals string
}

func (v *planVector) plan() *Plan {
	if v == nil {
		return nil
	}
	return &Plan{Action: v.Action, Planned: v.Planned, NotBefore: v.NotBefore, Expires: v.Expires, Approvals: v.Approvals}
}

func testPlan() *Proposal {
	p := testProposal()
	p.Kind, p.Plan = Kind_KIND_PLAN, &Plan{Action: PlanAction_PLAN_ACTION_PLAN, NotBefore: 1, Approvals: "acme"}
	return p
}

// A plan is there exactly in its kind, and each action says what it needs and nothing else. The
// vectors have the rest.
func TestProposalsOfPlans(t *testing.T) {
	if _, err := DecodeProposal(Encode(testPlan())); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Proposal){
		"proposal.plan: there":       func(p *Proposal) { p.Kind = Kind_KIND_DEPLOY },
		"proposal.plan: missing":     func(p *Proposal) { p.Plan = nil },
		"proposal.plan: more":        func(p *Proposal) { p.Plan = &Plan{Action: PlanAction_PLAN_ACTION_CANCEL, Planned: make([]byte, 32)} },
		"proposal.plan.approvals: ":  func(p *Proposal) { p.Plan.Approvals = "\x00" },
		"proposal.plan.not_before: ": func(p *Proposal) { p.Plan.NotBefore = planTimeMax + 1 },
		"proposal.sql: 65537 bytes":  func(p *Proposal) { p.Sql, p.Parameters = strings.Repeat("x", 65_530), []*Parameter{{Text: "1234567"}} },
	} {
		p := testPlan()
		change(p)
		if _, err := DecodeProposal(Encode(p)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		submit := &SubmitRequest{Role: "clerk", Statements: []*Statement{{Kind: p.Kind, Sql: p.Sql, Parameters: p.Parameters, Plan: p.Plan}}}
		_, err := DecodeNodeRequest(Encode(&NodeRequest{Request: 1, Body: &NodeRequest_Submit{Submit: submit}}))
		if err == nil || !strings.HasPrefix(err.Error(), "submit.statements[0]"+strings.TrimPrefix(want, "proposal")) {
			t.Errorf("on the socket: error %v, want %s", err, want)
		}
	}
}
