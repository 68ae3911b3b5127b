package gateway

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// roles counts the transactions of a bundle by role.
func (f *fixture) roles(bundle int) map[string]int {
	f.t.Helper()
	count := map[string]int{}
	for _, tx := range f.mempool.bundles[bundle].Transactions {
		var p wire.Proposal
		if err := proto.Unmarshal(tx.Proposal.Proposal, &p); err != nil {
			f.t.Fatal(err)
		}
		count[p.Client.Role]++
	}
	return count
}

// No more is on its way than a block accepts: bundles are not cut, and a role that floods leaves
// the others their place in the next block.
func TestBundlesKeepToTheSharesOfABlock(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Shares = func() (int, int) { return 3, 5 } })
	f.submit("flood", 9)
	f.step()
	if got := f.roles(0); len(f.mempool.bundles) != 1 || got["flood"] != 3 {
		t.Fatalf("%d bundles, the first with %v", len(f.mempool.bundles), got)
	}
	f.submit("bank", 4)
	f.now = f.now.Add(time.Second)
	f.step()
	if got := f.roles(1); len(f.mempool.bundles) != 2 || got["bank"] != 2 || got["flood"] != 0 {
		t.Fatalf("%d bundles, the second with %v: the organisation has two places left, and its flood none", len(f.mempool.bundles), got)
	}
	f.decide(f.ordered(0)...)
	f.decide(f.ordered(1)...)
	f.now = f.now.Add(time.Second)
	f.step()
	if got := f.roles(2); got["flood"] != 3 || got["bank"] != 2 {
		t.Fatalf("the third bundle has %v", got)
	}
	f.g.Refused([]wire.TxResult{{ID: f.ordered(2)[0], SQLState: "40001"}}) // what is refused has left, too
	f.now = f.now.Add(time.Second)
	f.step()
	if got := f.roles(3); len(f.mempool.bundles) != 4 || got["flood"] != 1 {
		t.Fatalf("after a refusal the next bundle has %v", got)
	}
}
