package peers

import (
	"context"
	"log/slog"
	"slices"
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
	// barredFirst is the first ban of a peer that sent a message which no honest node sends. Each
	// further ban is twice as long, up to barredMax. After forgivenAfter without an offence a peer
	// begins anew.
	barredFirst, barredMax, forgivenAfter = time.Second, 10 * time.Minute, time.Hour
	// conductKept bounds the peers that are remembered. Beyond it the least recently seen one is
	// forgotten.
	conductKept = 1_000
	// A peer causes linesAtOnce log lines, and then one in lineEvery.
	linesAtOnce, lineEvery = 5, time.Minute
)

// Conduct scores peers. It disconnects a peer that sends a message which no honest node sends, and
// bans it for a while. A bundle that is merely refused (full, stale, signed with a key that counted
// a moment ago) is no offence: an honest peer passes it on. It is safe for concurrent use.
type Conduct struct {
	log *slog.Logger
	now func() time.Time
	// Behind reports that this node is behind the others, and so may not know which keys count.
	// nil: never. Set it before the first peer connects.
	Behind func() bool
	// Member returns the organisation of a peer's node. nil: each peer counts as an organisation.
	// Set it before the first peer connects.
	Member func(p2p.Peer) string

	mu       sync.Mutex
	first    map[string][]p2p.Peer // nodes of each member that pay for themselves
	of       *lru.Cache[p2p.ID, *conduct]
	offences uint64
}

type conduct struct {
	last, until time.Time // of the last offence, and of the ban's end
	pause       time.Duration
	lines       int
	line        time.Time // the last one
	left        int       // lines not written since
}

// NewConduct returns a Conduct without offences.
func NewConduct(log *slog.Logger) *Conduct {
	c := &Conduct{log: log, now: time.Now, first: map[string][]p2p.Peer{}}
	c.of, _ = lru.New[p2p.ID, *conduct](conductKept) // an error is that of a size below 1
	return c
}

// Offence disconnects a peer and bans it.
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

// Forged is Offence for a signature that fits no key known to this node. While this node is behind,
// others may know newer keys, and it needs these peers to catch up: then it bans nobody.
func (c *Conduct) Forged(sw p2p.Switcher, peer p2p.Peer, what string, err error) {
	if c.Behind != nil && c.Behind() {
		c.Log(slog.LevelWarn, peer.ID(), what+"; this node is behind, and may not know the key", "error", err)
		return
	}
	c.Offence(sw, peer, what, err)
}

// Malformed is Offence for a message that cannot be decoded. During a rolling upgrade, a message
// that a later version may rightly send is dropped without a ban.
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

// account is the name under which a peer pays for its messages. The first two connected nodes of a
// member, its own and its standby, pay for themselves, and all further ones together. So
// messages of a member's further nodes do not hold up the votes of its own.
func (c *Conduct) account(peer p2p.Peer) string {
	member := c.member(peer)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := slices.DeleteFunc(c.first[member], func(p p2p.Peer) bool { return !p.IsRunning() })
	is := slices.ContainsFunc(first, func(p p2p.Peer) bool { return p.ID() == peer.ID() })
	if !is && len(first) < voicesMax {
		first, is = append(first, peer), true
	}
	c.first[member] = first
	if is {
		return string(peer.ID())
	}
	return member
}

// Barred reports whether a peer is banned.
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

// Accuse logs an accusation against the organisation of a peer's node, within the bound of Log.
func (c *Conduct) Accuse(peer p2p.ID, a accuse.Accusation) {
	c.Log(slog.LevelWarn, peer, a.Message(), a.Args()...)
}

// conduct returns the record of a peer. Called with mu held.
func (c *Conduct) conduct(peer p2p.ID) *conduct {
	known, ok := c.of.Get(peer)
	if !ok {
		known = &conduct{}
		c.of.Add(peer, known)
	}
	return known
}

// Ahead reports whether more than half of the peers say that they are beyond the next height. So
// one liar decides nothing.
func Ahead(list []p2p.Peer, height int64) bool {
	ahead := 0
	for _, peer := range list {
		if heightOf(peer) > height+1 {
			ahead++
		}
	}
	return 2*ahead > len(list)
}

// heightOf is the order block that a peer works on, as it says; 0 while it has not said.
func heightOf(peer p2p.Peer) int64 {
	state, known := peer.Get(types.PeerStateKey).(mempool.PeerState)
	if !known {
		return 0
	}
	return state.GetHeight()
}
