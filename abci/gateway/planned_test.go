package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// planning is a database with due plans, and what was submitted for them.
type planning struct {
	due       []backend.DuePlan
	err       error
	asked     time.Time
	submitted []string // role and first byte of the plan
	refused   error
}

func (p *planning) DuePlans(_ context.Context, at time.Time, most int) ([]backend.DuePlan, error) {
	p.asked = at
	return p.due[:min(len(p.due), most)], p.err
}

func (p *planning) submit(role string, statements []*wire.Statement) ([]wire.TxID, error) {
	for _, s := range statements {
		if err := checkStatement(s); err != nil {
			return nil, err
		}
		p.submitted = append(p.submitted, role+string(rune('0'+s.Plan.Planned[0])))
	}
	return nil, p.refused
}

func due(n byte, role string) backend.DuePlan {
	return backend.DuePlan{ID: wire.TxID{n}, Role: role}
}

type planFixture struct {
	planning
	plans Plans
	now   time.Time
	log   bytes.Buffer
}

func newPlans() *planFixture {
	f := &planFixture{now: time.Unix(1_700_000_000, 0)}
	f.plans = Plans{
		Database: &f.planning, Submit: f.submit, Now: func() time.Time { return f.now },
		Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	return f
}

// looked is what one look submits.
func (f *planFixture) looked() string {
	f.submitted = nil
	f.plans.look(context.Background())
	return strings.Join(f.submitted, " ")
}

// A due plan is executed as its planner, again after pauses that grow while it stays due, and is
// forgotten when it is due no more.
func TestDuePlansAreExecutedAsTheirPlanners(t *testing.T) {
	f := newPlans()
	f.due = []backend.DuePlan{due(1, "clerk"), due(2, "bank")}
	if got := f.looked(); got != "clerk1 bank2" || !f.asked.Equal(f.now) {
		t.Errorf("submitted %q at %s", got, f.asked)
	}
	var at []int
	for second := range 200 {
		f.now = f.now.Add(time.Second)
		if got := f.looked(); got == "clerk1 bank2" {
			at = append(at, second+1)
		} else if got != "" {
			t.Errorf("second %d: submitted %q", second+1, got)
		}
	}
	if want := []int{5, 15, 35, 75, 155}; len(at) != len(want) || at[0] != want[0] || at[4] != want[4] {
		t.Errorf("tried again at seconds %v, want %v", at, want)
	}
	f.due = nil
	f.looked()
	if len(f.plans.tries) != 0 {
		t.Errorf("%d plans are remembered", len(f.plans.tries))
	}
	f.due = []backend.DuePlan{due(1, "clerk")}
	if got := f.looked(); got != "clerk1" {
		t.Errorf("due again: submitted %q", got)
	}
}

// Plans that never end do not keep others from their turn, and no look submits more than its bound.
func TestManyDuePlansHaveTheirTurn(t *testing.T) {
	f := newPlans()
	for i := range plansMax + 10 {
		f.due = append(f.due, backend.DuePlan{ID: wire.TxID{byte(i), byte(i >> 8), 1}, Role: "clerk"})
	}
	seen := map[string]bool{}
	for range 2 * plansMax / plansAtOnce {
		f.looked()
		if len(f.submitted) > plansAtOnce {
			t.Errorf("%d submitted at once", len(f.submitted))
		}
		for _, plan := range f.due[:plansMax] {
			if try := f.plans.tries[plan.ID]; try.pause > 0 {
				seen[string(plan.ID[:])] = true
			}
		}
		f.now = f.now.Add(plansEvery)
	}
	if len(seen) != plansMax || len(f.plans.tries) != plansMax {
		t.Errorf("%d plans had their turn, %d are remembered, want %d", len(seen), len(f.plans.tries), plansMax)
	}
}

func TestPlansThatCannotBeLookedForAreLoggedOnce(t *testing.T) {
	f := newPlans()
	f.err = errors.New("gone")
	for range 3 {
		f.looked()
	}
	if n := strings.Count(f.log.String(), "gone"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	f.err, f.refused, f.due = nil, errors.New("full"), []backend.DuePlan{due(1, "clerk")}
	f.looked()
	f.now = f.now.Add(planPause)
	if got := f.looked(); got != "clerk1" {
		t.Errorf("after a refusal: submitted %q", got)
	}
}

func TestMalformedPlansAreRefused(t *testing.T) {
	plan := func(change func(*wire.Statement)) *wire.Statement {
		s := &wire.Statement{Kind: wire.Kind_KIND_PLAN, Sql: "SELECT 1", Plan: &wire.Plan{Action: wire.PlanAction_PLAN_ACTION_PLAN}}
		change(s)
		return s
	}
	for name, c := range map[string]struct {
		s              *wire.Statement
		state, message string
	}{
		"without a plan":        {plan(func(s *wire.Statement) { s.Plan = nil }), StateMalformed, "plan: "},
		"of another kind":       {plan(func(s *wire.Statement) { s.Kind = wire.Kind_KIND_SQL }), StateMalformed, "plan: "},
		"too long":              {plan(func(s *wire.Statement) { s.Sql = strings.Repeat("x", wire.PlannedBytesMax+1) }), StateBound, "size of a planned"},
		"of too many values":    {plan(func(s *wire.Statement) { s.Parameters = make([]*wire.Parameter, wire.ParametersMax+1) }), StateBound, "number of parameters"},
		"without statements":    {plan(func(s *wire.Statement) { s.Sql = "" }), StateMalformed, "sql: "},
		"an id with statements": {plan(func(s *wire.Statement) { s.Plan = execution(wire.TxID{}).Plan }), StateMalformed, "plan: "},
	} {
		f := newFixture(t, nil)
		_, err := f.g.Submit("bank", []*wire.Statement{c.s})
		var e *Error
		if !errors.As(err, &e) || e.SQLState != c.state || !strings.HasPrefix(e.Message, c.message) {
			t.Errorf("%s: %v, want SQLSTATE %s and %q", name, err, c.state, c.message)
		}
	}
	f := newFixture(t, nil)
	if _, err := f.g.Submit("bank", []*wire.Statement{plan(func(*wire.Statement) {}), execution(wire.TxID{1})}); err != nil {
		t.Fatal(err)
	}
	f.step()
	for _, chained := range f.mempool.bundles[0].Transactions {
		if tx, err := wire.DecodeChainedTx(wire.Encode(chained)); err != nil || tx.Proposal.Plan == nil {
			t.Errorf("ordered %v, %v", tx.Proposal, err)
		}
	}
}
