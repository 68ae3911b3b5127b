package node

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	cmtcons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cometstore "github.com/cometbft/cometbft/store"
	"github.com/cosmos/gogoproto/proto"

	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
)

// setLane turns the express lane of a node that does not run on or off.
func setLane(t testing.TB, r *runner, on bool) {
	t.Helper()
	change(t, r, func(c *config.Config) { c.Consensus.ExpressLane = on })
}

// change rewrites the configuration of a node that does not run.
func change(t testing.TB, r *runner, do func(*config.Config)) {
	t.Helper()
	c, err := config.Load(string(r.home))
	must.Do(t, err)
	do(&c)
	text, err := config.Render(c)
	must.Do(t, err)
	must.Do(t, os.WriteFile(r.home.Path(config.FileName), text, 0o600))
}

// refuseSome refuses a share of the messages, of a hundred.
func refuseSome(random *rand.Rand, share int) func(proto.Message) lane.Fate {
	var mu sync.Mutex
	return func(proto.Message) lane.Fate {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(100) < share {
			return lane.Refused
		}
		return lane.Sent
	}
}

// load lets each client execute so many transactions, all of which must succeed.
func load(t *testing.T, clients []*gateway.Client, each int) {
	t.Helper()
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for n := range each {
				if o := execute(t, c, fmt.Sprintf("UPDATE t SET x = %d WHERE id = %d", n, i)); !o.Succeeded {
					t.Errorf("outcome %v", o)
				}
			}
		})
	}
	all.Wait()
}

// back starts a node again, and waits until it takes transactions.
func back(t *testing.T, r *runner) *gateway.Client {
	t.Helper()
	r.start()
	c := r.dial()
	eventually(t, patience, organisationOf(r)+" is back", func() bool { s := status(t, c); return s.State == "serving" && s.Peers == 3 })
	return c
}

// checkSameChain stops the nodes once all have what was ordered, and compares their blocks. It
// returns the highest round in which one was decided.
func checkSameChain(t *testing.T, nodes []*runner, clients []*gateway.Client) (round int32) {
	t.Helper()
	height := quiet(t, clients[0])
	for i, c := range clients {
		eventually(t, patience, organisationOf(nodes[i])+" has all blocks", func() bool { return status(t, c).Height >= height })
	}
	chains := make([]*cometstore.BlockStore, len(nodes))
	for i, r := range nodes {
		r.stop()
		db, err := dbm.NewGoLevelDB("blockstore", r.home.Data())
		must.Do(t, err)
		defer db.Close()
		chains[i] = cometstore.NewBlockStore(db)
	}
	for h := int64(1); h <= height; h++ {
		want := chains[0].LoadBlockMeta(h)
		for i, chain := range chains {
			if got := chain.LoadBlockMeta(h); got == nil || !got.BlockID.Equals(want.BlockID) {
				t.Fatalf("block %d: %s has %v, %s %v", h, organisationOf(nodes[i]), got, organisationOf(nodes[0]), want)
			}
		}
		if commit := chains[0].LoadBlockCommit(h); commit != nil {
			round = max(round, commit.Round)
		}
	}
	return round
}

// Nodes whose lanes send two thirds of their messages make one chain with a node without a lane,
// also when one of them is away for some time.
func TestMessagesThatGossipBringsLeaveOneChain(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	random := seeded.Random(t)
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	for _, r := range nodes[:3] {
		r.lane.Fate = refuseSome(rand.New(rand.NewPCG(random.Uint64(), 0)), 33)
	}
	setLane(t, nodes[3], false)
	clients := startAll(t, nodes)
	load(t, clients, 5)
	nodes[1].stop()
	load(t, []*gateway.Client{clients[0], clients[2], clients[3]}, 2)
	clients[1] = back(t, nodes[1])
	load(t, clients, 2)
	checkSameChain(t, nodes, clients)
	if log := nodes[0].log.String(); strings.Contains(log, "CONSENSUS FAILURE") {
		t.Error("CometBFT's consensus failed")
	}
}

// A proposer ends after it told its proposal and before it sent a part. The others decide without
// it, in a later round, and it takes part again when it is back.
func TestProposerEndsBeforeItsParts(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	var loses atomic.Bool
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	nodes[3].lane.Fate = func(m proto.Message) lane.Fate {
		_, part := m.(*cmtcons.BlockPart)
		if part && loses.Load() {
			end()
			return lane.Lost
		}
		return lane.Sent
	}
	clients := startAll(t, nodes)
	load(t, clients[:3], 1)
	loses.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		load(t, clients[:3], 6)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("delta proposed nothing")
	}
	nodes[3].stop()
	<-done
	loses.Store(false)
	clients[3] = back(t, nodes[3])
	load(t, clients, 1)
	if round := checkSameChain(t, nodes, clients); round == 0 {
		t.Error("every block was decided in round 0")
	}
}

// Two of four nodes are not connected, one of which sends nothing by its lane: they learn of
// each other through the two that know both, whose gossip rests. No turn is skipped.
func TestMissingLink(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	ends := []*runner{nodes[0], nodes[3]}
	for i, r := range ends {
		other := nodeID(t, ends[1-i])
		change(t, r, func(c *config.Config) {
			var kept []string
			for _, peer := range c.Network.Peers {
				if !strings.HasPrefix(peer, string(other)) {
					kept = append(kept, peer)
				}
			}
			c.Network.Peers = kept
		})
	}
	nodes[0].lane.Fate = func(proto.Message) lane.Fate { return lane.Refused }
	var lanes []*lane.Lane
	for _, r := range nodes {
		r.lane.Made = func(l *lane.Lane) { lanes = append(lanes, l) }
	}
	clients := make([]*gateway.Client, len(nodes))
	for i, r := range nodes {
		r.start()
		clients[i] = r.dial()
	}
	for i, want := range []uint32{2, 3, 3, 2} {
		eventually(t, patience, "connected", func() bool { s := status(t, clients[i]); return s.State == "serving" && s.Peers == want })
	}
	skipped := func() (all uint64) {
		for _, l := range lanes {
			all += l.Counts().Skipped
		}
		return all
	}
	load(t, clients[:1], 4) // some nodes may have begun before others were there
	before := skipped()
	load(t, clients, 5)
	if now := skipped(); now != before {
		t.Errorf("%d turns were skipped, and %d before all were there", now-before, before)
	}
	checkSameChain(t, nodes, clients)
}

// A node that turns its lane off, and on again, signs on from where it was. Alone, it orders
// nothing without a signature.
func TestLaneIsTurnedOffAndOn(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	for n := range 4 {
		setLane(t, r, n%2 == 0)
		r.start()
		load(t, []*gateway.Client{r.dial()}, 2)
		r.stop()
	}
}
