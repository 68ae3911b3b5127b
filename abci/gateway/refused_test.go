package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// A text that no organisation will run is refused at every door. Nothing of its request is queued.
func TestATextThatNobodyRunsIsRefusedAtOnce(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.ClientRole = func([]byte) (string, bool) { return "clerk", true }
		o.Refused = func(kind wire.Kind, text string) *Error {
			if kind == wire.Kind_KIND_SQL && text == "SELECT odd()" {
				return &Error{SQLState: "CH011", Message: "function odd"}
			}
			return nil
		}
	})
	two := []*wire.Statement{sql("SELECT 1"), sql("SELECT odd()")}
	err := whyNot(f.g.Submit("bank", two))
	wantState(t, err, "CH011")
	if !strings.Contains(err.Error(), "statements[1]: function odd") {
		t.Errorf("it does not name the statement: %v", err)
	}
	wantState(t, whyNot(f.g.SubmitAgreed(context.Background(), "bank", two)), "CH011")
	odd := signed(clerkKey, func(p *wire.Proposal) { p.Sql = "SELECT odd()" })
	wantState(t, whyNot(f.g.SubmitSigned(context.Background(), []*wire.SignedProposal{odd})), "CH011")
	if s := f.g.Stats(); s.Pending != 0 {
		t.Fatalf("%d transactions are queued", s.Pending)
	}
	f.submit("bank", 1)
}
