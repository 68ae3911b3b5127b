package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/seeded"
)

// pool is where a mempool would be: it notes what comes, and says that its peers have reached a
// height.
type pool struct {
	p2p.BaseReactor
	height atomic.Int64 // of the peers, as they tell

	mu  sync.Mutex
	got []string
}

func newPool(height int64) *pool {
	p := &pool{}
	p.height.Store(height)
	p.BaseReactor = *p2p.NewBaseReactor("pool", p)
	return p
}

func (p *pool) GetHeight() int64 { return p.height.Load() }

func (p *pool) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{ID: mempool.MempoolChannel, Priority: 5, RecvMessageCapacity: 1 << 20, MessageType: &protomem.Message{}}}
}

func (p *pool) InitPeer(peer p2p.Peer) p2p.Peer {
	peer.Set(types.PeerStateKey, p)
	return peer
}

func (p *pool) Receive(e p2p.Envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tx := range e.Message.(*protomem.Txs).Txs {
		p.got = append(p.got, string(tx))
	}
}

func (p *pool) received() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// mesh is nodes of which each is connected to all, or to none yet.
type mesh struct {
	*testing.T
	ctx      context.Context
	bundles  []*Bundles
	pools    []*pool
	switches []*p2p.Switch
	waiting  []atomic.Pointer[[][]byte] // at each node
	height   atomic.Int64
}

func newMesh(t *testing.T, n int, connect func([]*p2p.Switch, int, int)) *mesh {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	m := &mesh{T: t, ctx: ctx, waiting: make([]atomic.Pointer[[][]byte], n)}
	m.height.Store(1)
	for i := range n {
		m.pools = append(m.pools, newPool(1))
		m.bundles = append(m.bundles, NewBundles(BundlesOptions{
			Height: m.height.Load,
			Waiting: func(int64) [][]byte {
				if w := m.waiting[i].Load(); w != nil {
					return *w
				}
				return nil
			},
		}))
	}
	m.switches = p2p.MakeConnectedSwitches(comet.TestP2PConfig(), n, func(i int, s *p2p.Switch) *p2p.Switch {
		s.AddReactor("MEMPOOL", m.pools[i])
		s.AddReactor(BundlesName, m.bundles[i])
		return s
	}, connect)
	for _, s := range m.switches {
		t.Cleanup(func() { _ = s.Stop() })
	}
	return m
}

// until waits until a node has received exactly these.
func (m *mesh) until(node int, want []string) {
	m.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !slices.Equal(m.pools[node].received(), want) {
		select {
		case <-m.ctx.Done():
			m.Fatalf("node %d received %q, want %q", node, m.pools[node].received(), want)
		case <-tick.C:
		}
	}
}

// Each bundle reaches each node once, and in its gateway's order.
func TestBundlesComeOnceAndInOrder(t *testing.T) {
	m := newMesh(t, 4, p2p.Connect2Switches)
	var want []string
	for i := range 200 {
		bundle := fmt.Sprintf("bundle %d", i)
		want = append(want, bundle)
		m.bundles[0].Send([]byte(bundle))
	}
	for node := 1; node < 4; node++ {
		m.until(node, want)
	}
	m.bundles[1].Send([]byte("another's"))
	m.until(0, []string{"another's"})
	m.until(2, append(want, "another's"))
}

// Bundles that wait are passed on to every peer that connects.
func TestBundlesThatWaitReachWhoConnects(t *testing.T) {
	m := newMesh(t, 2, func([]*p2p.Switch, int, int) {})
	m.waiting[0].Store(&[][]byte{[]byte("a"), []byte("b")})
	p2p.Connect2Switches(m.switches, 0, 1)
	m.bundles[0].Send([]byte("c"))
	m.until(1, []string{"a", "b", "c"})
}

// A node that is not connected to the gateway is passed on what waits when no block comes, by one
// that is.
func TestBundlesArePassedOnWhenTheOrderStandsStill(t *testing.T) {
	m := newMesh(t, 3, func(s []*p2p.Switch, i, j int) {
		if i != 0 || j != 2 {
			p2p.Connect2Switches(s, i, j)
		}
	})
	m.bundles[0].Send([]byte("a"))
	m.until(1, []string{"a"})
	m.waiting[1].Store(&[][]byte{[]byte("a")})
	m.until(2, []string{"a"})
}

// A peer that lags is sent nothing, which it would ignore, until it has caught up.
func TestBundlesWaitForAPeerThatLags(t *testing.T) {
	m := newMesh(t, 2, p2p.Connect2Switches)
	m.height.Store(7)
	m.bundles[0].Send([]byte("a"))
	peer := m.switches[0].Peers().Copy()[0]
	for height, lags := range map[int64]bool{0: true, 5: true, 6: false, 7: false} {
		m.pools[0].height.Store(height)
		if got := m.bundles[0].lags(peer); got != lags {
			t.Errorf("a peer at height %d of 7 lags: %v", height, got)
		}
	}
	m.pools[0].height.Store(6)
	m.until(1, []string{"a"})
	m.height.Store(0)
	m.pools[0].height.Store(0)
	if !m.bundles[0].lags(peer) {
		t.Error("a peer that has not begun does not lag")
	}
}

// A line holds no more than its bounds, keeps its order, and is empty when all is taken.
func TestALineIsBounded(t *testing.T) {
	l := &line{more: make(chan struct{}, 1)}
	for i := range lineMax + 5 {
		l.add([]byte{byte(i)})
	}
	for i := range lineMax {
		if got := l.take(); len(got) != 1 || got[0] != byte(i) {
			t.Fatalf("bundle %d is %v", i, got)
		}
	}
	if l.take() != nil || l.bytes != 0 {
		t.Errorf("%d bytes are left", l.bytes)
	}
	big := make([]byte, lineBytesMax/2+1)
	l.add(big)
	l.add(big)
	if len(l.bundles) != 1 {
		t.Error("too many bytes wait")
	}
}

// A7: while something waits and no block comes, it is passed on within a bound, ever less often;
// never while blocks come or nothing waits.
func TestStandstill(t *testing.T) {
	random := seeded.Random(t)
	start := time.Unix(1e9, 0)
	s := newStandstill(1, start)
	var passed []time.Duration
	for at := time.Duration(0); at < 10*time.Minute; at += standLook {
		if s.passes(1, start.Add(at)) {
			s.passed(true, start.Add(at))
			passed = append(passed, at)
		}
	}
	last, want := time.Duration(0), standsAfter
	for i, at := range passed {
		if at-last != want {
			t.Errorf("passed on for the %dth time after %s, want %s", i+1, at-last, want)
		}
		last, want = at, min(2*want, standsAfterMax)
	}
	if len(passed) < 10 {
		t.Errorf("passed on %d times in ten minutes", len(passed))
	}
	// It helped: for some time sooner.
	now := start.Add(10 * time.Minute)
	if s.passes(2, now) || !s.passes(2, now.Add(knownStandsAfter)) {
		t.Error("what is known to stand still is not passed on sooner")
	}
	s.passes(3, now.Add(knownFor))
	if s.passes(3, now.Add(knownFor+standsAfter-standLook)) || !s.passes(3, now.Add(knownFor+standsAfter)) {
		t.Error("what was known is not forgotten")
	}
	// Blocks come.
	s = newStandstill(1, start)
	at := start
	for height := int64(1); height < 500; height++ {
		at = at.Add(time.Duration(random.Int64N(int64(standsAfter))))
		if s.passes(height, at) {
			t.Fatalf("block %d came, and yet something is passed on", height)
		}
	}
	// Nothing waits.
	for range 100 {
		at = at.Add(standsAfter)
		if !s.passes(499, at) {
			t.Fatal("nobody looks whether something waits")
		}
		s.passed(false, at)
	}
}
