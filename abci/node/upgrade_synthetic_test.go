//go:build synthetic_next

package node

import (
	"testing"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/wire"
)

// Four organisations get the next release one by one, under load, while the others go on. Three
// approve the next version. The one that stayed behind stops before it; with the new release it
// catches up. Before that, one went back to the former release, and after it that is refused.
func TestFourOrganisationsAreUpgradedOneByOne(t *testing.T) {
	nodes := newTestnet(t, config.Testnet{Organisations: []string{"acme", "bolt", "cargo", "delta"}, SnapshotEvery: 10})
	for _, r := range nodes {
		r.knows = 1 // the former release
	}
	clients := startAll(t, nodes)
	stop := drive(t, clients[3])
	leave := func(i int) {
		t.Helper()
		nodes[i].stop()
		blocks := status(t, clients[3]).LastCertified
		eventually(t, patience, "the others go on", func() bool { return status(t, clients[3]).LastCertified > blocks+3 })
	}
	comeBack := func(i int, knows wire.Protocol) {
		t.Helper()
		nodes[i].knows = knows
		nodes[i].start()
		clients[i] = nodes[i].dial()
		eventually(t, patience, "it is back", func() bool { s := status(t, clients[i]); return s.State == "serving" && s.Peers == 3 })
	}
	for i := range 3 {
		leave(i)
		comeBack(i, 2)
	}
	if stop() == 0 {
		t.Error("nothing was committed under load")
	}
	version1 := status(t, clients[3]).LastCertified
	toVersion(t, clients[3], 1, 2, 300, nodes[:3])
	eventually(t, patience, "acme knows what the others know", func() bool {
		return knownTo(t, clients[0])["bolt"] == 2 && knownTo(t, clients[0])["delta"] == 1
	})
	// The release before is good for as long as the version is not in force. Load would bring
	// that height sooner than a slow machine brings acme back, so load ends while acme starts.
	for _, knows := range []wire.Protocol{1, 2} {
		stop = drive(t, clients[3])
		leave(0)
		stop()
		comeBack(0, knows)
	}
	stop = drive(t, clients[3])
	nodes[3].stopsForNewer(2)
	stop()
	version2 := execute(t, clients[0], "SELECT 2")
	if !version2.Succeeded {
		t.Fatalf("under the next version: %v", version2)
	}
	eventually(t, patience, "its block is certified", func() bool { return status(t, clients[1]).LastCertified >= version2.Block })
	nodes[3].refusesToStart(2)
	nodes[3].knows = 2
	nodes[3].start()
	clients[3] = nodes[3].dial()
	eventually(t, patience, "delta catches up", func() bool {
		s := status(t, clients[3])
		return s.State == "serving" && s.LastCommitted >= version2.Block
	})
	if o := execute(t, clients[3], "SELECT 3"); !o.Succeeded {
		t.Fatalf("at the one that stayed behind: %v", o)
	}
	nodes[0].stop()
	nodes[0].knows = 1
	nodes[0].refusesToStart(2)
	for _, r := range nodes[1:] {
		r.stop()
	}
	if a, b := certifiedUnder(t, nodes[1], version1), certifiedUnder(t, nodes[1], version2.Block); a != 0 || b != 2 {
		t.Errorf("block %d is certified under version %d, block %d under %d", version1, a, version2.Block, b)
	}
}

func knownTo(t *testing.T, c *gateway.Client) map[string]uint32 {
	t.Helper()
	out := map[string]uint32{}
	for _, o := range status(t, c).Protocol.Organisations {
		out[o.Organisation] = o.Version
	}
	return out
}

// certifiedUnder is the version that the votes of a block's certificate are cast under, in the
// store of a node that was stopped.
func certifiedUnder(t *testing.T, r *runner, block uint64) wire.Protocol {
	t.Helper()
	db, err := nodestore.Open(r.home.Data())
	must.Do(t, err)
	defer db.Close()
	c, err := app.NewStore(db).Certificate(block)
	must.Do(t, err)
	vote, err := wire.DecodeEffectVote(c.Votes[0].Extension)
	if err != nil {
		t.Fatal(err)
	}
	return vote.Protocol
}
