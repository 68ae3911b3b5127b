package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// A client whose transactions did not end is told so at once and until when, at every door; nothing of it is queued, and the others
// go on.
func TestASuspendedClientIsToldAtOnce(t *testing.T) {
	until := time.Time{}
	f := newFixture(t, func(o *Options) {
		o.Suspended = func(role string, key []byte) time.Time {
			if role == "bank" || len(key) > 0 {
				return until
			}
			return time.Time{}
		}
	})
	until = f.now.Add(10 * time.Second)
	wantState(t, errorOf(f.g.Submit("bank", sql("SELECT 1"))), StateFull)
	wantState(t, errorOf(f.g.SubmitAgreed(context.Background(), "bank", sql("SELECT 1"))), StateFull)
	wantState(t, errorOf(f.g.SubmitSigned(context.Background(), []*wire.SignedProposal{signed(clerkKey, func(*wire.Proposal) {})})), StateFull)
	if s := f.g.Stats(); s.Pending != 0 {
		t.Fatalf("%d transactions are queued", s.Pending)
	}
	f.submit("desk", 1)
	f.now = until
	f.submit("bank", 1)
}

func errorOf(_ []wire.TxID, err error) error { return err }
