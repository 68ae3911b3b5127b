package peers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// barredFirst is how long a peer stays disconnected that sent what could never be right; twice
	// as long each further time, up to barredMax. A peer that behaves for forgivenAfter begins
	// anew.
	barredFirst, barredMax, forgivenAfter = time.Second, 10 * time.Minute, time.Hour
	// conductKept bounds the peers whose conduct is known; of more, the one heard of longest ago is
	// forgotten.
	conductKept = 1_000
	// A peer causes linesAtOnce log lines, and then one in lineEvery.
	linesAtOnce, lineEvery = 5, time.Minute
)

// Conduct ends the connection of a peer that sends what could never be right, and keeps it away for
// a while. A bundle that is merely refused (full, stale, signed with a key that counted a moment
// ago) is no offence: an honest peer passes it on. It is safe for concurrent use.
type Conduct struct {
	log *slog.Logger
	now func() time.Time
	// Behind tells that this node does not know yet which keys count: others are ahead of it. nil:
	// never. It is set before peers are there.
	Behind func() bool
	// Member tells the organisation whose node a peer is. nil: each peer is one by itself. The node
	// sets it before peers are there.
	Member func(p2p.Peer) string

	mu       sync.Mutex
	of       *lru.Cache[p2p.ID, *conduct]
	offences uint64
}

type conduct struct {
	last, until time.Time // of the last offence, and how long the peer is barred
	pause       time.Duration
	lines       int
	line        time.Time // the last one
	left        int       // lines not written since
}

// NewConduct begins with a good opinion of everybody.
func NewConduct(log *slog.Logger) *Conduct {
	c := &Conduct{log: log, now: time.Now}
	c.of, _ = lru.New[p2p.ID, *conduct](conductKept) // an error is that of a size below 1
	return c
}

// Offence ends a peer's connection.
func (c *Conduct) Offence(sw p2p.Switcher, peer p2p.Peer, what string, err error) {
	now := c.now()
	c.mu.Lock()
	known := c.conduct(peer.ID())
	if now.Sub(known.last) > forgivenAfter {
		known.pause = 0
	}
	known.pause = min(max(2*known.pause, barredFirst), barredMax)
	known.last, known.until = now, now.Add(known.pause)
	pause := known.pause
	c.offences++
	c.mu.Unlock()
	c.Log(slog.LevelWarn, peer.ID(), what+"; its connection ends", "error", err, "barred_for", pause)
	if sw != nil {
		sw.StopPeerForError(peer, err)
	}
}

// Forged is Offence for a signature that no key fits which this node knows of. While it is behind
// the others, they may know of further ones, and it needs them to catch up.
func (c *Conduct) Forged(sw p2p.Switcher, peer p2p.Peer, what string, err error) {
	if c.Behind != nil && c.Behind() {
		c.Log(slog.LevelWarn, peer.ID(), what+"; this node is behind, and may not know the key", "error", err)
		return
	}
	c.Offence(sw, peer, what, err)
}

// Malformed is Offence for what cannot be decoded. It drops what a later version's node may rightly
// send: during a rolling upgrade both kinds of nodes are needed.
func (c *Conduct) Malformed(sw p2p.Switcher, peer p2p.Peer, what string, err error) {
	if wire.MayBeNewer(err) {
		c.Log(slog.LevelWarn, peer.ID(), what+"; it may be of a later version, and is ignored", "error", err)
		return
	}
	c.Offence(sw, peer, what, err)
}

// member is whose node a peer is.
func (c *Conduct) member(peer p2p.Peer) string {
	if c.Member == nil {
		return string(peer.ID())
	}
	return c.Member(peer)
}

// Barred tells that a peer is to stay disconnected.
func (c *Conduct) Barred(peer p2p.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.of.Peek(peer)
	return ok && c.now().Before(known.until)
}

// Offences counts those of all peers since the start.
func (c *Conduct) Offences() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offences
}

// Log writes a line about what a peer did, unless it caused too many already.
func (c *Conduct) Log(level slog.Level, peer p2p.ID, message string, args ...any) {
	now := c.now()
	c.mu.Lock()
	known := c.conduct(peer)
	if now.Sub(known.line) >= lineEvery {
		known.lines = max(0, known.lines-int(now.Sub(known.line)/lineEvery))
	}
	if known.lines >= linesAtOnce {
		known.left++
		c.mu.Unlock()
		return
	}
	left := known.left
	known.lines, known.line, known.left = known.lines+1, now, 0
	c.mu.Unlock()
	args = append([]any{"peer", peer}, args...)
	if left > 0 {
		args = append(args, "lines_left_out", left)
	}
	c.log.Log(context.Background(), level, message, args...)
}

// Accuse writes a line about whose node a peer is, within the bound of Log.
func (c *Conduct) Accuse(peer p2p.ID, a accuse.Accusation) {
	c.Log(slog.LevelWarn, peer, a.Message(), a.Args()...)
}

// conduct is what is known of a peer. Called with mu held.
func (c *Conduct) conduct(peer p2p.ID) *conduct {
	known, ok := c.of.Get(peer)
	if !ok {
		known = &conduct{}
		c.of.Add(peer, known)
	}
	return known
}

// Ahead tells whether more than half of the peers have reached a height beyond the next one, as
// they say: one that lies about it is not believed.
func Ahead(list []p2p.Peer, height int64) bool {
	ahead := 0
	for _, peer := range list {
		if state, known := peer.Get(types.PeerStateKey).(mempool.PeerState); known && state.GetHeight() > height+1 {
			ahead++
		}
	}
	return 2*ahead > len(list)
}
