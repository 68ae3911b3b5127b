// Package greedy attacks a network from inside. It has the keys of some members, and sends every
// kind of message that a member can send, so that the nodes of the others do useless work. The
// members' own nodes run normally beside it. All messages are made before the attack, so that
// sending them takes little processor time.
package greedy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/config"
)

// Kind is one way to be greedy.
type Kind string

// The kinds. Each member has a connection of its own for each kind.
const (
	Forged    Kind = "forged"    // bundles of many transactions, one of which has a forged signature of its client
	Decided   Kind = "decided"   // bundles that were ordered before
	Expired   Kind = "expired"   // bundles of a MiB, and of one transaction, which are too old to be ordered
	Questions Kind = "questions" // for agreement to transactions that are never ordered, all of which are rehearsed
	Votes     Kind = "votes"     // precommits with votes on invented blocks, which nobody signed
	Parts     Kind = "parts"     // proposals that nobody signed, and parts of no block
	Notes     Kind = "notes"     // of votes that a node is said to have
	Blocks    Kind = "blocks"    // requests for blocks, whose answers are not read
)

// Kinds are all of them.
var Kinds = []Kind{Forged, Decided, Expired, Questions, Votes, Parts, Notes, Blocks}

// Options describes an attack.
type Options struct {
	Members []config.Home // of those that are greedy
	Targets []config.Home // of those whose nodes they send to
	Kinds   []Kind
	Role    string // that questions are for
	SQL     string // that is rehearsed
	// BytesPerSecond is the largest rate of one connection.
	BytesPerSecond int64
}

// Count is what was sent in one way, and what came back.
type Count struct {
	Messages, Bytes uint64
	Refused         uint64 // questions that were answered with no, because time is used up
	Disconnected    uint64 // connections that a target ended
}

// Attack is the connections of all members, and what they send.
type Attack struct {
	peers []*peer
}

const (
	heightLimit = time.Minute // for the first word of a target, and for its blocks
	look        = 10 * time.Millisecond
	redial      = 100 * time.Millisecond
)

// Connect connects every member with every target, once for each kind.
func Connect(ctx context.Context, opt Options) (_ *Attack, err error) {
	a := &Attack{}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	for _, home := range opt.Members {
		m, err := memberOf(home)
		if err != nil {
			return nil, err
		}
		for _, kind := range opt.Kinds {
			p, err := connect(ctx, m, kind, opt)
			if p != nil {
				a.peers = append(a.peers, p)
			}
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", m.organisation, kind, err)
			}
		}
	}
	return a, nil
}

// Prepare makes what is sent until the chain is some 1,900 blocks longer. It takes a second for
// each member.
func (a *Attack) Prepare(ctx context.Context) error {
	for _, p := range a.peers {
		if err := p.prepare(ctx); err != nil {
			return fmt.Errorf("%s, %s: %w", p.member.organisation, p.kind, err)
		}
	}
	return nil
}

// Run sends what was prepared, again and again, until the context ends.
func (a *Attack) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range a.peers {
		for i := range p.targets {
			all.Go(func() { p.run(ctx, i) })
		}
	}
	all.Wait()
}

// Counts are those since the start, by kind.
func (a *Attack) Counts() map[Kind]Count {
	out := map[Kind]Count{}
	for _, p := range a.peers {
		c := out[p.kind]
		c.Messages += p.messages.Load()
		c.Bytes += p.bytes.Load()
		c.Refused += p.refused.Load()
		c.Disconnected += p.disconnected.Load()
		out[p.kind] = c
	}
	return out
}

// Close ends all connections.
func (a *Attack) Close() {
	for _, p := range a.peers {
		if p.net.IsRunning() {
			_ = p.net.Stop()
		}
	}
}

// peer is the connections of one member for one kind. It has a node key of its own, for which its
// organisation vouches.
type peer struct {
	p2p.BaseReactor
	member  *member
	kind    Kind
	opt     Options
	id      p2p.ID
	net     *p2p.Switch
	targets []target
	blocks  chan [][]byte // transactions of blocks that a target gave

	height                                 atomic.Int64 // where a target stands
	messages, bytes, refused, disconnected atomic.Uint64
}

// target is a node, and what it is sent.
type target struct {
	organisation string
	address      *p2p.NetAddress
	sends        sends
}

func connect(ctx context.Context, m *member, kind Kind, opt Options) (*peer, error) {
	p := &peer{member: m, kind: kind, opt: opt, blocks: make(chan [][]byte, 1)}
	if err := p.open(); err != nil {
		return nil, err
	}
	for _, home := range opt.Targets {
		c, err := config.Load(string(home))
		if err != nil {
			return p, err
		}
		key, err := home.NodeKey()
		if err != nil {
			return p, err
		}
		address, err := p2p.NewNetAddressString(fmt.Sprintf("%s@%s", key.ID(), c.Network.Listen))
		if err != nil {
			return p, err
		}
		if err := p.net.DialPeerWithAddress(address); err != nil {
			return p, err
		}
		p.targets = append(p.targets, target{organisation: c.Organisation, address: address})
	}
	return p, p.until(ctx, "the height of a target", func() bool { return p.height.Load() > 0 })
}

// open starts a switch with a key of its own.
func (p *peer) open() error {
	p.BaseReactor = *p2p.NewBaseReactor("greedy", p)
	settings := comet.DefaultP2PConfig()
	settings.AllowDuplicateIP, settings.MaxPacketMsgPayloadSize, settings.SendRate = true, 16<<10, p.opt.BytesPerSecond
	key, info, err := p.member.node(p.GetChannels())
	if err != nil {
		return err
	}
	p.id = key.ID()
	p.net = p2p.NewSwitch(settings, p2p.NewMultiplexTransport(info, *key, p2p.MConnConfig(settings)))
	p.net.AddReactor("greedy", p)
	p.net.SetNodeInfo(info)
	p.net.SetNodeKey(key)
	return p.net.Start()
}

// until waits for something that the targets tell.
func (p *peer) until(ctx context.Context, what string, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, heightLimit)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait for %s", what), ctx.Err())
		case <-time.After(look):
		}
	}
	return nil
}

// run sends to one target, and connects with it again when it ended the connection.
func (p *peer) run(ctx context.Context, i int) {
	t := &p.targets[i]
	for n := 0; ctx.Err() == nil; n++ {
		to := p.net.Peers().Get(t.address.ID)
		if to == nil {
			p.disconnected.Add(1)
			for ctx.Err() == nil && !p.net.Peers().Has(t.address.ID) {
				_ = p.net.DialPeerWithAddress(t.address)
				select {
				case <-ctx.Done():
				case <-time.After(redial):
				}
			}
			continue
		}
		message, size := t.sends(n, p.height.Load())
		if message == nil {
			select { // nothing is left for this height
			case <-ctx.Done():
			case <-time.After(look):
			}
			continue
		}
		if to.Send(*message) {
			p.messages.Add(1)
			p.bytes.Add(uint64(size))
		}
	}
}
