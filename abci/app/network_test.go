package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"
	cmtcfg "github.com/cometbft/cometbft/config"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	cmtlog "github.com/cometbft/cometbft/libs/log"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/privval"
	"github.com/cometbft/cometbft/proxy"
	"github.com/cometbft/cometbft/store"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// fakeEffects executes at once: a block's hash is a function of the block. A deviating one gives
// another.
type fakeEffects struct {
	organisation string
	deviates     bool
	curedInRound uint32 // 0: never

	mu      sync.Mutex
	known   map[wire.Key]wire.Hash
	decided []Decision
	seen    int
	mute    bool // votes nothing, as with a lost database
}

func newFakeEffects(organisation string) *fakeEffects {
	return &fakeEffects{organisation: organisation, known: map[wire.Key]wire.Hash{}}
}

func (f *fakeEffects) execute(b *wire.OrderedBlock) wire.Hash {
	deviates := f.deviates && (f.curedInRound == 0 || b.Round < f.curedInRound)
	hash := wire.Hash(sha256.Sum256(fmt.Append(b.Transactions, b.Number, b.Quarantined, b.QuarantineAll, deviates)))
	f.known[b.Key()] = hash
	return hash
}

func (f *fakeEffects) Proposed(b *wire.OrderedBlock, _ *wire.Certificate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b != nil && !f.mute {
		f.execute(b)
	}
}

func (f *fakeEffects) Vote(_ context.Context, b *wire.OrderedBlock) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mute {
		return nil
	}
	return wire.NewEffectsVote(b.Key(), f.organisation, f.execute(b)).Encode()
}

func (f *fakeEffects) Seen(string, wire.EffectVote) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
}

func (f *fakeEffects) Decided(d Decision) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided = append(f.decided, d)
}

func (f *fakeEffects) Hash(key wire.Key) (wire.Hash, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hash, known := f.known[key]
	return hash, known
}

// certificates returns those decided so far, by number.
func (f *fakeEffects) certificates() map[uint64]*wire.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[uint64]*wire.Certificate{}
	for _, d := range f.decided {
		if d.Certificate != nil {
			out[d.Certificate.Number] = d.Certificate
		}
	}
	return out
}

func testLog(t *testing.T) *slog.Logger {
	if os.Getenv("CHAINIFY_TEST_LOG") == "" {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("test", t.Name())
}

// storedBlocks reads CometBFT's block store.
type storedBlocks struct{ store *store.BlockStore }

func (b storedBlocks) Txs(height int64) ([][]byte, error) {
	block := b.store.LoadBlock(height)
	if block == nil {
		return nil, fmt.Errorf("no block at height %d", height)
	}
	return block.Txs.ToSliceOfBytes(), nil
}

// testNode is one organisation's node, without a database.
type testNode struct {
	app     *App
	effects *fakeEffects
	node    *node.Node
	config  *cmtcfg.Config
	genesis *cmttypes.GenesisDoc
	key     cmted25519.PrivKey
	dbs     map[string]dbm.DB // outlive a restart
	// lies makes the application that CometBFT sees, of an organisation that cheats; nil: app.
	lies func(*App) abci.Application
}

// start runs the node on its stores.
func (n *testNode) start(t *testing.T) {
	t.Helper()
	database := func(name string) dbm.DB {
		if n.dbs[name] == nil {
			n.dbs[name] = dbm.NewMemDB()
		}
		return n.dbs[name]
	}
	var err error
	n.app, err = New(Options{
		Store: NewStore(database("order")), Effects: n.effects, Organisation: n.effects.organisation,
		HoldBack: 20 * time.Millisecond, Logger: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	pv := privval.NewFilePV(n.key, n.config.PrivValidatorKeyFile(), n.config.PrivValidatorStateFile())
	if _, err := os.Stat(n.config.PrivValidatorStateFile()); err == nil {
		pv = privval.LoadFilePV(n.config.PrivValidatorKeyFile(), n.config.PrivValidatorStateFile())
	}
	pv.Save()
	shown := abci.Application(n.app)
	if n.lies != nil {
		shown = n.lies(n.app)
	}
	n.node, err = node.NewNode(n.config, pv, &p2p.NodeKey{PrivKey: n.key}, proxy.NewConnSyncLocalClientCreator(shown),
		func() (*cmttypes.GenesisDoc, error) { return n.genesis, nil },
		func(c *cmtcfg.DBContext) (dbm.DB, error) { return database(c.ID), nil },
		node.DefaultMetricsProvider(n.config.Instrumentation), cmtlog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, n.app.SetBlocks(storedBlocks{n.node.BlockStore()}))
	must.Do(t, n.node.Start())
}

func (n *testNode) stop(t *testing.T) {
	t.Helper()
	if err := n.node.Stop(); err != nil {
		t.Error(err)
	}
	n.node.Wait()
}

// keepOpen is a database that a node's stop does not close.
type keepOpen struct{ dbm.DB }

func (keepOpen) Close() error { return nil }

func newNetwork(t *testing.T, c *ordertest.Consortium) []*testNode {
	t.Helper()
	appState, err := json.Marshal(c.Genesis)
	must.Do(t, err)
	genesis := &cmttypes.GenesisDoc{
		ChainID: ordertest.ChainID, GenesisTime: time.Now(), InitialHeight: 1, AppState: appState,
		ConsensusParams: cmttypes.DefaultConsensusParams(),
	}
	genesis.ConsensusParams.ABCI.VoteExtensionsEnableHeight = 1
	nodes, ports := []*testNode(nil), freePorts(t, len(c.Validators))
	var peers []string
	for i, v := range c.Validators {
		key := cmted25519.PrivKey(c.Key(i))
		genesis.Validators = append(genesis.Validators, cmttypes.GenesisValidator{PubKey: key.PubKey(), Power: v.Power})
		peers = append(peers, fmt.Sprintf("%s@127.0.0.1:%d", p2p.PubKeyToID(key.PubKey()), ports[i]))
	}
	must.Do(t, genesis.ValidateAndComplete())
	for i := range c.Validators {
		config := fastConfig(filepath.Join(t.TempDir(), fmt.Sprint(i)), ports[i])
		config.P2P.PersistentPeers = strings.Join(peers[:i], ",") // one of two dials, see abci/node/peers.go
		n := &testNode{
			effects: newFakeEffects(fmt.Sprintf("o%d", i)), config: config, genesis: genesis,
			key: cmted25519.PrivKey(c.Key(i)), dbs: map[string]dbm.DB{},
		}
		for _, name := range []string{"order", "blockstore", "state", "evidence"} {
			n.dbs[name] = keepOpen{dbm.NewMemDB()}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// fastConfig has the timers the node uses on a local network.
func fastConfig(root string, port int) *cmtcfg.Config {
	config := cmtcfg.DefaultConfig().SetRoot(root)
	cmtcfg.EnsureRoot(root)
	config.RPC.ListenAddress = ""
	config.TxIndex.Indexer = "null"
	config.P2P.ListenAddress = fmt.Sprintf("tcp://127.0.0.1:%d", port)
	config.P2P.AddrBookStrict, config.P2P.AllowDuplicateIP, config.P2P.PexReactor = false, true, false
	config.P2P.FlushThrottleTimeout = time.Millisecond
	config.Mempool.Recheck = false
	config.Consensus.PeerGossipSleepDuration = 2 * time.Millisecond
	config.Consensus.TimeoutPropose = 300 * time.Millisecond
	config.Consensus.TimeoutPrecommit = 100 * time.Millisecond
	config.Consensus.TimeoutCommit, config.Consensus.SkipTimeoutCommit = 0, true
	config.Consensus.CreateEmptyBlocks = false
	return config
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// eventually polls until ok holds, at most limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func submit(t *testing.T, n *testNode, raw []byte) {
	t.Helper()
	must.Do(t, n.node.Mempool().CheckTx(raw, nil, mempool.TxInfo{}))
}

// wantCertified waits until every node knows the certificate of ledger block number, and has told
// its effects.
func wantCertified(t *testing.T, nodes []*testNode, number uint64) {
	t.Helper()
	for i, n := range nodes {
		eventually(t, 15*time.Second, fmt.Sprintf("node %d certifies block %d", i, number), func() bool {
			return n.app.LastCertified() >= number && n.effects.certificates()[number] != nil
		})
	}
}

// wantQuiet checks that no block is made while nothing happens (A1: the certificate does not change
// the AppHash).
func wantQuiet(t *testing.T, nodes []*testNode) {
	t.Helper()
	height := func() (top int64) {
		for _, n := range nodes {
			top = max(top, n.node.BlockStore().Height())
		}
		return top
	}
	before := height()
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now := height(); now != before {
			t.Fatalf("block %d was made in a quiet network, the last was %d", now, before)
		}
	}
}

func TestFourNodesCertifyBlocksAndFallQuiet(t *testing.T) {
	c := ordertest.New(4, 0)
	nodes := newNetwork(t, c)
	nodes[3].effects.deviates = true
	for _, n := range nodes {
		n.start(t)
		t.Cleanup(func() { n.stop(t) })
	}
	for round := range uint64(10) {
		submit(t, nodes[round%4], c.Bundle(int(round%4), c.Proposal(int(round%4), round, 1000)))
		wantCertified(t, nodes, round+1)
	}
	wantQuiet(t, nodes)

	want := nodes[0].effects.certificates()
	for i, n := range nodes {
		for number, certificate := range n.effects.certificates() {
			if certificate.Hash != want[number].Hash || len(certificate.Votes) < 3 {
				t.Errorf("node %d block %d: hash %x with %d votes, want %x with 3", i, number, certificate.Hash, len(certificate.Votes), want[number].Hash)
			}
			for _, v := range certificate.Votes {
				if v.Organisation == "o3" {
					t.Errorf("block %d: the deviating organisation is in the certificate", number)
				}
			}
			stored, err := n.app.Certificate(number)
			if err != nil || stored.Hash != certificate.Hash || len(stored.Votes) != len(certificate.Votes) {
				t.Errorf("node %d block %d: stored certificate %+v, %v", i, number, stored, err)
			}
		}
	}
}

// Two against two: every node repairs and votes again in the next effect round.
func TestSplitEndsInTheNextRound(t *testing.T) {
	c := ordertest.New(4, 0)
	nodes := newNetwork(t, c)
	for i, n := range nodes {
		n.effects.deviates, n.effects.curedInRound = i >= 2, 1
		n.start(t)
		t.Cleanup(func() { n.stop(t) })
	}
	submit(t, nodes[0], c.Bundle(0, c.Proposal(0, 1, 1000)))
	wantCertified(t, nodes, 1)
	for i, n := range nodes {
		if certificate := n.effects.certificates()[1]; certificate.Round != 1 || len(certificate.Votes) < 3 {
			t.Errorf("node %d: certified in round %d by %d, want round 1 by 3", i, certificate.Round, len(certificate.Votes))
		}
	}
	wantQuiet(t, nodes)
}

func TestNodeComesBackWithItsStores(t *testing.T) {
	c := ordertest.New(4, 0)
	nodes := newNetwork(t, c)
	for _, n := range nodes {
		n.start(t)
	}
	stopped := map[int]bool{}
	t.Cleanup(func() {
		for i, n := range nodes {
			if !stopped[i] {
				n.stop(t)
			}
		}
	})
	submit(t, nodes[0], c.Bundle(0, c.Proposal(0, 1, 1000), c.Proposal(0, 2, 1000)))
	wantCertified(t, nodes, 1)
	nodes[3].stop(t)
	stopped[3] = true
	submit(t, nodes[0], c.Bundle(0, c.Proposal(0, 2, 1000), c.Proposal(0, 3, 1000)))
	wantCertified(t, nodes[:3], 2)

	nodes[3].start(t)
	stopped[3] = false
	wantCertified(t, nodes, 2)
	for n := range uint64(2) {
		want, err := nodes[0].app.Ordered(n + 1)
		must.Do(t, err)
		got, err := nodes[3].app.Ordered(n + 1)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(got.IDs) != int(2-n) {
			t.Errorf("block %d after coming back: %+v, want %+v", n+1, got, want)
		}
	}
	// The window was rebuilt from the store: what was accepted before the stop is refused after it.
	replay := c.Bundle(0, c.Proposal(0, 1, 1000))
	must.Do(t, nodes[3].node.Mempool().CheckTx(replay, nil, mempool.TxInfo{}))
	if nodes[3].node.Mempool().Size() != 0 {
		t.Error("a replayed bundle entered the mempool")
	}
	wantQuiet(t, nodes)
}

// The order's store is written without waiting for the disk: what a crash takes from it, even all,
// CometBFT gives again from its block store, without ProcessProposal (A1).
func TestLostStoreIsRebuiltFromTheBlockStore(t *testing.T) {
	c := ordertest.New(1, 0)
	n := newNetwork(t, c)[0]
	n.start(t)
	for number := range uint64(3) {
		submit(t, n, c.Bundle(0, c.Proposal(0, number, 1000), c.Proposal(0, 0, 1000)))
		wantCertified(t, []*testNode{n}, number+1)
	}
	wantQuiet(t, []*testNode{n})
	before, _ := n.app.Status()
	n.stop(t)
	n.dbs["order"] = keepOpen{dbm.NewMemDB()}
	n.start(t)
	t.Cleanup(func() { n.stop(t) })
	if after, _ := n.app.Status(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("status %+v, want %+v", after, before)
	}
	for number := uint64(1); number <= 3; number++ {
		if block, err := n.app.Ordered(number); err != nil || len(block.IDs) != 1 {
			t.Errorf("block %d: %+v, %v; want one transaction", number, block, err)
		}
	}
	wantQuiet(t, []*testNode{n})
}
