package app

import (
	"crypto/sha256"
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// A withdrawal by fewer than approve other changes is admitted, proposed and accepted while the
// version that it names waits. Before and after, no block has it, so no proposer makes one that the
// others refuse.
func TestAWithdrawalByFewStandsInABlockWhileItsVersionWaits(t *testing.T) {
	c := newChain(t, 4, 0)
	version := &wire.GovernanceChange{Sequence: 1, EffectiveHeight: 50, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: 2}},
	}}
	accepted := c.consortium.Governance(version, 0, 1, 2)
	hash := sha256.Sum256(wire.Encode(version)) // Governance has named the chain
	withdrawal := c.consortium.Governance(&wire.GovernanceChange{Sequence: 2, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Withdraw{Withdraw: hash[:]}},
	}}, 2, 3)
	look := func(when string, code uint32, stands bool) {
		t.Helper()
		if got := c.check(abci.CheckTxType_New, withdrawal); got != code {
			t.Errorf("%s: admitted with code %d, want %d", when, got, code)
		}
		if proposed := len(c.prepare(withdrawal)) == 1; proposed != stands {
			t.Errorf("%s: proposed %t", when, proposed)
		}
		if c.process(withdrawal) != stands {
			t.Errorf("%s: a block with it is accepted: %t", when, !stands)
		}
	}
	look("nothing waits", order.CodeTooFewApprove, false)
	c.decide(nil, accepted)
	look("the version waits", order.CodeOK, true)
	c.decide(nil, withdrawal)
	if status, _ := c.app.Status(); status.Upgrade != nil {
		t.Errorf("version %d waits", status.Upgrade.Version)
	}
	look("it is withdrawn", order.CodeNothingLive, false)
}
