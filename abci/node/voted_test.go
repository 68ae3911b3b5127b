package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// crashingHome is the variable that makes TestNodeThatCrashes run the node of a home until it is
// killed.
const crashingHome = "CHAINIFY_TEST_CRASHING_HOME"

func TestNodeThatCrashes(t *testing.T) {
	home := os.Getenv(crashingHome)
	if home == "" {
		t.Skip("run by TestAVoteOutlivesACrash")
	}
	db := backendtest.NewDatabase()
	db.Tamper("row 7")
	r := &runner{t: t, home: config.Home(home), log: &lockedBuffer{}, backend: func() backend.Backend { return backendtest.Open(db, time.Minute) }}
	r.start()
	<-t.Context().Done()
}

// E5 across a crash: acme's node is killed after its vote was heard, and its database is put right
// meanwhile. It goes on voting what it voted, though the block comes out otherwise now, and is no
// organisation that votes twice for one execution.
func TestAVoteOutlivesACrash(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	acme := membersOf(t, nodes, "acme", "bolt", "cargo", "delta")[0]
	crashing := exec.Command(os.Args[0], "-test.run=^TestNodeThatCrashes$", "-test.timeout=5m")
	crashing.Env = append(os.Environ(), crashingHome+"="+string(nodes[0].home))
	must.Do(t, crashing.Start())
	kill := sync.OnceFunc(func() {
		if err := crashing.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = crashing.Wait() // killed
	})
	t.Cleanup(kill)
	for _, r := range nodes[1:3] {
		r.db.Down(true) // they order and vote nothing on effects, so that the block stays pending in its first round
		r.start()
	}

	var mu sync.Mutex
	var votes []wire.EffectVote // acme's, each once
	var last int64
	s := meet(t, nodes[3], nodes[1])
	s.hear(func(v *cmtproto.Vote) {
		vote, err := wire.DecodeEffectVote(v.Extension)
		if err != nil || string(v.ValidatorAddress) != string(acme.address) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if last = max(last, v.Height); !slices.Contains(votes, vote) {
			votes = append(votes, vote)
		}
	})
	heardAfter := func(height int64) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(votes) > 0 && last > height
		}
	}
	client := nodes[1].dial()
	eventually(t, patience, "orders", func() bool {
		_, err := client.Submit(t.Context(), "bank", sql("UPDATE t SET x = 1"))
		return err == nil
	})
	eventually(t, patience, "acme votes", heardAfter(0))
	kill()
	mu.Lock()
	before := last
	mu.Unlock()
	nodes[0].start() // with a database that is not tampered with
	eventually(t, patience, "acme votes again, at a later height", heardAfter(before))
	eventually(t, patience, "and once more", heardAfter(before+1))
	mu.Lock()
	defer mu.Unlock()
	if len(votes) != 1 {
		t.Errorf("acme voted %d times for one execution: %+v", len(votes), votes)
	}
}

// E5 without CometBFT's log: acme's node stops while a block is pending on which it voted. It loses
// the log, and its database is put right meanwhile. It does not vote on that block, and goes on
// signing.
func TestANodeWithoutItsLogContradictsNoVote(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	acme := membersOf(t, nodes, "acme", "bolt", "cargo", "delta")[0]
	nodes[0].db.Tamper("row 7")
	for i, r := range nodes[:3] {
		r.db.Down(i > 0) // bolt and cargo vote nothing on effects, so that the block stays pending
		r.start()
	}
	var mu sync.Mutex
	var votes []wire.EffectVote // acme's, each once
	var last int64              // height of its last precommit
	s := meet(t, nodes[3], nodes[1])
	s.hear(func(v *cmtproto.Vote) {
		if v.Type != cmtproto.PrecommitType || string(v.ValidatorAddress) != string(acme.address) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		last = max(last, v.Height)
		if vote, err := wire.DecodeEffectVote(v.Extension); err == nil && !slices.Contains(votes, vote) {
			votes = append(votes, vote)
		}
	})
	heard := func() (int, int64) {
		mu.Lock()
		defer mu.Unlock()
		return len(votes), last
	}
	client := nodes[1].dial()
	eventually(t, patience, "orders", func() bool {
		_, err := client.Submit(t.Context(), "bank", sql("UPDATE t SET x = 1"))
		return err == nil
	})
	eventually(t, patience, "acme votes", func() bool { n, _ := heard(); return n > 0 })
	nodes[0].stop()
	_, before := heard()
	must.Do(t, os.RemoveAll(filepath.Join(nodes[0].home.Data(), "cs.wal")))
	nodes[0].db = backendtest.NewDatabase()
	nodes[0].backend = func() backend.Backend { return backendtest.Open(nodes[0].db, time.Minute) }
	nodes[0].start()
	for more := range int64(3) {
		eventually(t, patience, "acme signs at a later height", func() bool { _, height := heard(); return height > before+1+more })
	}
	if n, _ := heard(); n != 1 {
		t.Errorf("acme voted %d times: %+v", n, votes)
	}
	if !strings.Contains(nodes[0].log.String(), "not_on_block=1 round=0") {
		t.Error("the log does not say on which block acme does not vote")
	}
}
