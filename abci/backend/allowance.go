package backend

import (
	"context"
	"sync/atomic"
	"time"
)

type forWhom struct{}

// For says for whom something is asked of a database that several share.
func For(ctx context.Context, whom string) context.Context {
	return context.WithValue(ctx, forWhom{}, whom)
}

// Whom is what For said, "" when it said nothing.
func Whom(ctx context.Context) string {
	whom, _ := ctx.Value(forWhom{}).(string)
	return whom
}

// Allowance is for how long a database may work for one question, in all steps of it. It is safe
// for concurrent use. The methods of nil are those of one without a bound.
type Allowance struct {
	given time.Duration
	spent atomic.Int64
}

// NewAllowance gives so much.
func NewAllowance(given time.Duration) *Allowance { return &Allowance{given: given} }

// Spend takes the time that a database worked.
func (a *Allowance) Spend(took time.Duration) {
	if a != nil {
		a.spent.Add(int64(took))
	}
}

// Spent is for how long databases worked.
func (a *Allowance) Spent() time.Duration { return time.Duration(a.spent.Load()) }

// Left is for how long one may still work; false: there is no bound.
func (a *Allowance) Left() (left time.Duration, bounded bool) {
	if a == nil {
		return 0, false
	}
	return a.given - a.Spent(), true
}

// Gone reports that nothing is left.
func (a *Allowance) Gone() bool {
	left, bounded := a.Left()
	return bounded && left < time.Millisecond // PostgreSQL's statement_timeout has no smaller unit
}

type forHowLong struct{}

// Allow bounds how long a database works for a question.
func Allow(ctx context.Context, a *Allowance) context.Context {
	return context.WithValue(ctx, forHowLong{}, a)
}

// Allowed is what Allow said; nil: it said nothing.
func Allowed(ctx context.Context) *Allowance {
	a, _ := ctx.Value(forHowLong{}).(*Allowance)
	return a
}
