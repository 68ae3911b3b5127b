package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// A client whose transactions did not end is told so at once and until when, at every door; nothing
// of it is queued, and the others go on.
func TestASuspendedClientIsToldAtOnce(t *testing.T) {
	until := time.Time{}
	f := newFixture(t, func(o *Options) {
		o.ClientRole = func([]byte) (string, bool) { return "clerk", true }
		o.Suspended = func(role string, key []byte) time.Time {
			if role == "bank" || len(key) > 0 {
				return until
			}
			return time.Time{}
		}
	})
	until = f.now.Add(10 * time.Second)
	wantState(t, whyNot(f.g.Submit("bank", []*wire.Statement{sql("SELECT 1")})), StateFull)
	wantState(t, whyNot(f.g.SubmitAgreed(context.Background(), "bank", []*wire.Statement{sql("SELECT 1")})), StateFull)
	wantState(t, whyNot(f.g.SubmitSigned(context.Background(), []*wire.SignedProposal{signed(clerkKey, func(*wire.Proposal) {})})), StateFull)
	if s := f.g.Stats(); s.Pending != 0 {
		t.Fatalf("%d transactions are queued", s.Pending)
	}
	f.submit("desk", 1)
	until = f.now // it is over
	f.submit("bank", 1)
}

func whyNot(_ []wire.TxID, err error) error { return err }
