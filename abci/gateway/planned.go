package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	plansEvery     = time.Second // from one look for due plans to the next
	plansLimit     = 5 * time.Second
	plansMax       = 1_000 // open plans of an organisation (spec/transactions.md)
	plansAtOnce    = 100   // executions submitted after one look
	planPause      = 5 * time.Second
	planPauseLimit = 10 * time.Minute
)

// Plans has the planned transactions of the organisation executed when they are due, each as its
// planner (spec/transactions.md). The block decides whether one is: a second execution fails and
// changes nothing. Only the goroutine of Run uses it.
type Plans struct {
	Database backend.Planner
	Submit   func(role string, statements []*wire.Statement) ([]wire.TxID, error)
	Now      func() time.Time
	Log      *slog.Logger

	// tries are of plans that were due at the last look: at most plansMax.
	tries  map[wire.TxID]try
	failed bool // the last look
}

// try says when the execution of a plan is submitted again.
type try struct {
	next  time.Time
	pause time.Duration
}

// Run looks until ctx ends.
func (p *Plans) Run(ctx context.Context) {
	tick := time.NewTicker(plansEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.look(ctx)
		}
	}
}

// look submits the executions of plans that are due and not tried a moment ago. Cost: one query.
func (p *Plans) look(ctx context.Context) {
	now := p.Now()
	ctx, cancel := context.WithTimeout(ctx, plansLimit)
	defer cancel()
	due, err := p.Database.DuePlans(ctx, now, plansMax)
	if err != nil {
		if !p.failed && ctx.Err() == nil {
			p.Log.Warn("due plans cannot be looked for", "error", err)
		}
		p.failed = true
		return
	}
	p.failed = false
	for _, plan := range p.ripe(due, now) {
		if _, err := p.Submit(plan.Role, []*wire.Statement{execution(plan.ID)}); err != nil {
			p.Log.Info("planned transaction cannot be executed now", "plan", plan.ID, "role", plan.Role, "error", err)
		}
	}
}

// ripe picks those to try now, notes that they are tried, and forgets those that are due no more.
func (p *Plans) ripe(due []backend.DuePlan, now time.Time) (ripe []backend.DuePlan) {
	tries := make(map[wire.TxID]try, len(due))
	for _, plan := range due[:min(len(due), plansMax)] {
		t, known := p.tries[plan.ID]
		switch {
		case known && now.Before(t.next), len(ripe) == plansAtOnce:
		default:
			t.pause = min(max(2*t.pause, planPause), planPauseLimit)
			t.next = now.Add(t.pause)
			ripe = append(ripe, plan)
		}
		tries[plan.ID] = t
	}
	p.tries = tries
	return ripe
}

// execution is the statement that has a plan executed.
func execution(id wire.TxID) *wire.Statement {
	plan := &wire.Plan{Action: wire.PlanAction_PLAN_ACTION_EXECUTE, Planned: id[:]}
	return &wire.Statement{Kind: wire.Kind_KIND_PLAN, Plan: plan}
}
