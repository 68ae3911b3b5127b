package gateway

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func limited(perSecond float64, burst int) func(*Options) {
	return func(o *Options) {
		registerClerk(o)
		o.Limits.ClientRate, o.Limits.ClientBurst = perSecond, burst
	}
}

// Each client has a rate of its own at every door, and gets it back with time.
func TestClientsHaveARate(t *testing.T) {
	f := newFixture(t, limited(2, 3))
	admitted := func(client string, n int, want bool) {
		t.Helper()
		if err := f.g.Admit(client, n); (err == nil) != want {
			t.Errorf("%s with %d: %v, want admitted %t", client, n, err, want)
		}
	}
	admitted("role a", 3, true)
	admitted("role a", 1, false)
	admitted("token a", 3, true) // another client
	f.now = f.now.Add(time.Second)
	admitted("role a", 2, true)
	admitted("role a", 1, false)
	wantState(t, f.g.Admit("role a", 1), StateFull)
	wantState(t, f.g.Admit("role b", 4), StateBound) // never possible: no use in trying again
	admitted("role b", 3, true)                      // and it cost nothing
}

func TestRatesAreOffByDefault(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.g.Admit("role a", statementsMax); err != nil {
		t.Error(err)
	}
}

// The memory of clients is bounded: those not heard of for longest begin anew.
func TestRatesOfManyClientsAreBounded(t *testing.T) {
	f := newFixture(t, limited(1, 1))
	for i := range ratesKept + 1 {
		must.Do(t, f.g.Admit(fmt.Sprint(i), 1))
	}
	if n := f.g.rates.buckets.Len(); n != ratesKept {
		t.Errorf("%d buckets are kept, want %d", n, ratesKept)
	}
	wantState(t, f.g.Admit(fmt.Sprint(ratesKept), 1), StateFull)
}

func TestEveryDoorHeedsTheRate(t *testing.T) {
	f := newFixture(t, limited(1, 1))
	path, _ := serveSocket(t, f, nil)
	c, ctx := dial(t, path), context.Background()
	a := newAPI(t, f, "bank")
	nonce := uint64(0)
	for door, submit := range map[string]func() error{
		"socket": func() error { _, err := c.Submit(ctx, "bank", sql("SELECT 1")); return err },
		"socket, signed": func() error {
			nonce++
			_, err := c.SubmitSigned(ctx, signed(clerkKey, func(p *wire.Proposal) { p.Nonce = nonce }))
			return err
		},
		"http": func() error {
			r := a.ask("POST", "/v1/transactions", testToken, `{"sql":"SELECT 1"}`)
			if r.code == 429 && r.head.Get("Retry-After") != "" {
				return &Error{SQLState: StateFull}
			}
			if r.code != 202 {
				t.Error(r)
			}
			return nil
		},
	} {
		if err := submit(); err != nil {
			t.Errorf("%s: %v", door, err)
		}
		wantState(t, submit(), StateFull)
	}
}
