package peers

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
)

// EnvironmentsName is the reactor's in CometBFT's switch, EnvironmentsChannel its channel.
const (
	EnvironmentsName    = "CHAINIFY_ENVIRONMENTS"
	EnvironmentsChannel = byte(0x76)
)

const (
	environmentBytesMax = 32 << 10
	environmentLinesMax = 48
	environmentValueMax = 480 // bytes; of a longer value its digest is told
	// environmentTellsMax is how often a peer may tell in the time of one connection. A node tells
	// when its database is another one, or was updated.
	environmentTellsMax = 64
)

// Environments tells peers what this organisation's database leans on beside the ledger, and keeps
// what they tell. It is for people: nothing is decided by it (docs/differences.md).
type Environments struct {
	p2p.BaseReactor

	mu    sync.Mutex          // guards all below
	own   backend.Environment // shortened
	bytes []byte              // own, as told; nil: there is none to tell
	peers map[p2p.ID]*surrounded
}

// surrounded is a connected peer.
type surrounded struct {
	peer        p2p.Peer
	environment backend.Environment // nil: it told none
	tells       int
}

var _ p2p.Reactor = (*Environments)(nil)

// NewEnvironments makes a reactor, to be given to CometBFT's node.
func NewEnvironments() *Environments {
	r := &Environments{peers: map[p2p.ID]*surrounded{}}
	r.BaseReactor = *p2p.NewBaseReactor(EnvironmentsName, r)
	return r
}

// Tell sets what this node tells, and tells it to all peers when it is new. It does not wait.
func (r *Environments) Tell(own backend.Environment) {
	own = shortened(own)
	told := encodeEnvironment(own)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = own
	if bytes.Equal(told, r.bytes) {
		return
	}
	r.bytes = told
	for _, to := range r.peers {
		r.tell(to.peer)
	}
}

// tell is called with mu held.
func (r *Environments) tell(peer p2p.Peer) {
	if r.bytes != nil {
		peer.TrySend(p2p.Envelope{ChannelID: EnvironmentsChannel, Message: &types.BytesValue{Value: r.bytes}})
	}
}

// Differences are those of a connected node's environment from this one's. There are none before
// both are known.
func (r *Environments) Differences(peer p2p.ID) []backend.EnvironmentDifference {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.peers[peer]
	if r.own == nil || of == nil || of.environment == nil {
		return nil
	}
	return r.own.Differences(of.environment)
}

// GetChannels implements p2p.Reactor.
func (r *Environments) GetChannels() []*p2p.ChannelDescriptor {
	return []*p2p.ChannelDescriptor{{
		ID: EnvironmentsChannel, Priority: 1, SendQueueCapacity: 4,
		RecvMessageCapacity: environmentBytesMax + envelopeMore, MessageType: &types.BytesValue{},
	}}
}

// AddPeer implements p2p.Reactor.
func (r *Environments) AddPeer(peer p2p.Peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(peer)
	r.tell(peer)
}

// of returns the record of a peer, whose first message may come before AddPeer. Called with mu
// held.
func (r *Environments) of(peer p2p.Peer) *surrounded {
	known := r.peers[peer.ID()]
	if known == nil || known.peer != peer {
		known = &surrounded{peer: peer}
		r.peers[peer.ID()] = known
	}
	return known
}

// RemovePeer implements p2p.Reactor.
func (r *Environments) RemovePeer(peer p2p.Peer, _ any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.peers[peer.ID()]; known != nil && known.peer == peer {
		delete(r.peers, peer.ID())
	}
}

// Receive implements p2p.Reactor. A message that is no environment ends the connection.
func (r *Environments) Receive(e p2p.Envelope) {
	if err := r.hear(e); err != nil {
		r.Switch.StopPeerForError(e.Src, err)
	}
}

func (r *Environments) hear(e p2p.Envelope) error {
	raw, ok := e.Message.(*types.BytesValue)
	if !ok {
		return errors.New("environment: not bytes")
	}
	told, err := decodeEnvironment(raw.Value)
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(e.Src)
	if of.tells++; of.tells > environmentTellsMax {
		return fmt.Errorf("environment: told more than %d times", environmentTellsMax)
	}
	of.environment = told
	return nil
}

// shortened is an environment as it is told: a digest stands for a long value, and a space for each
// character that would not be printed.
func shortened(e backend.Environment) backend.Environment {
	out := backend.Environment{}
	for name, value := range e {
		value = strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return ' '
			}
			return c
		}, strings.ToValidUTF8(value, "\uFFFD"))
		if len(value) > environmentValueMax {
			value = fmt.Sprintf("sha256 %x", sha256.Sum256([]byte(value)))
		}
		out[name] = value
	}
	return out
}

// encodeEnvironment makes lines "name TAB value LF" of a shortened environment, ascending by name;
// nil for one without names.
func encodeEnvironment(e backend.Environment) []byte {
	var out []byte
	for i, name := range slices.Sorted(maps.Keys(e)) {
		if i == environmentLinesMax {
			break
		}
		out = fmt.Appendf(out, "%s\t%s\n", name, e[name])
	}
	return out
}

// decodeEnvironment reads what encodeEnvironment makes, and nothing else.
func decodeEnvironment(raw []byte) (backend.Environment, error) {
	if len(raw) > environmentBytesMax || !utf8.Valid(raw) {
		return nil, fmt.Errorf("want at most %d bytes of UTF-8", environmentBytesMax)
	}
	lines := strings.SplitAfterN(string(raw), "\n", environmentLinesMax+1)
	out, before := backend.Environment{}, ""
	for i, line := range lines {
		if i == len(lines)-1 && line == "" {
			return out, nil
		}
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case !found || !strings.HasSuffix(line, "\n"):
			return nil, fmt.Errorf("line %d is no name, tab and value", i+1)
		case name <= before:
			return nil, fmt.Errorf("line %d: names do not ascend", i+1)
		case len(value) > environmentValueMax || strings.ContainsFunc(name+value, unicode.IsControl):
			return nil, fmt.Errorf("line %d: a value is too long, or has characters that are not printed", i+1)
		}
		out[name], before = value, name
	}
	return nil, fmt.Errorf("more than %d lines", environmentLinesMax)
}
