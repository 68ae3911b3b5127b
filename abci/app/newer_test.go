package app

import (
	"errors"
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// A program that does not know the version in force applies the last block before it, says so, and
// judges, proposes and applies nothing more.
func TestNothingIsDoneUnderAVersionThatIsNotKnown(t *testing.T) {
	c := newChain(t, 4, 0)
	c.app.opt.Knows = 1
	var told error
	held := 0
	c.app.opt.Stop = func(why error) { told = why }
	c.app.opt.Hold = func() { held++ }
	change := &wire.GovernanceChange{Sequence: 1, EffectiveHeight: 4, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: 2}},
	}}
	c.decide(nil, c.consortium.Governance(change, 0, 1, 2))
	if status, _ := c.app.Status(); status.Protocol != 1 || status.Upgrade == nil || status.Upgrade.Height != 4 {
		t.Errorf("status %+v, want a version that comes at height 4", status)
	}
	for told == nil && c.height < 8 { // nothing is pending: the change holds from its height on
		c.decide(nil)
	}
	var newer *wire.NewerProtocolError
	if !errors.As(told, &newer) || newer.Version != 2 || newer.Height != 4 || c.height != 3 {
		t.Fatalf("told %v at height %d", told, c.height)
	}
	if c.process() {
		t.Error("a block of an unknown version is accepted")
	}
	if _, err := c.app.PrepareProposal(ctx, &abci.RequestPrepareProposal{MaxTxBytes: 1 << 20, Height: c.height + 1, Time: c.now()}); !errors.As(err, &newer) {
		t.Errorf("a proposal: %v", err)
	}
	if _, err := c.app.FinalizeBlock(ctx, &abci.RequestFinalizeBlock{Hash: c.blockHash(nil), Height: c.height + 1, Time: c.now()}); !errors.As(err, &newer) {
		t.Errorf("a decided block: %v", err)
	}
	if held != 3 {
		t.Errorf("CometBFT was held %d times, want 3", held)
	}
	c.open()
	c.app.opt.Knows = 1 // the same program again
	if err := c.app.Newer(); !errors.As(err, &newer) || newer.Height != c.height+1 {
		t.Errorf("after a restart: %v", err)
	}
	c.app.opt.Knows = 2 // a newer program on the same home
	c.attach()
	if err := c.app.Newer(); err != nil || !c.process() {
		t.Errorf("with a newer program: %v", err)
	}
	c.decide(nil)
}
