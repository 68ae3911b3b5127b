package peers

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/wire"
)

// circle is a network of organisations o0, o1, …; o0 sends and asks.
type circle struct {
	*testing.T
	ctx      context.Context
	reactors []*Private
	switches []*p2p.Switch

	mu    sync.Mutex
	taken map[string][]string // values by who took them, and who asked for what
	says  map[string]string
}

func newCircle(t *testing.T, n int, change func(i int, o *PrivateOptions)) *circle {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	b := &circle{T: t, ctx: ctx, taken: map[string][]string{}, says: map[string]string{}}
	keys := map[string]ed25519.PrivateKey{}
	for i := range n {
		keys[fmt.Sprintf("o%d", i)] = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
	}
	for i := range n {
		name := fmt.Sprintf("o%d", i)
		opt := PrivateOptions{
			ChainID: "test", Organisation: name, Key: func() crypto.Signer { return keys[name] },
			GatewayKey: func(organisation string) (ed25519.PublicKey, bool) {
				key, known := keys[organisation]
				if !known {
					return nil, false
				}
				return key.Public().(ed25519.PublicKey), true
			},
			Ever: everOf(keys), Conduct: NewConduct(slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler),
			Take: func(_ context.Context, from string, m *wire.PrivateValues) string {
				b.note(name, from, len(m.Values))
				return b.says[name]
			},
			Give: func(_ context.Context, to string, names []*wire.SealedName) ([]*wire.SealedValue, error) {
				b.note(name, to, len(names))
				return []*wire.SealedValue{secret("of " + name)}, nil
			},
		}
		if change != nil {
			change(i, &opt)
		}
		r, err := NewPrivate(opt)
		if err != nil {
			t.Fatal(err)
		}
		b.reactors = append(b.reactors, r)
	}
	b.switches = p2p.MakeConnectedSwitches(comet.TestP2PConfig(), n, func(i int, s *p2p.Switch) *p2p.Switch {
		s.AddReactor(PrivateName, b.reactors[i])
		return s
	}, p2p.Connect2Switches)
	whose := map[p2p.ID]string{}
	for i, s := range b.switches {
		whose[s.NodeInfo().ID()] = fmt.Sprintf("o%d", i)
		b.reactors[i].opt.NodeID = string(s.NodeInfo().ID())
		t.Cleanup(func() { _ = s.Stop() })
	}
	for _, r := range b.reactors {
		r.OrganisationOf = func(peer p2p.Peer) string { return whose[peer.ID()] }
	}
	return b
}

func (b *circle) note(at, from string, values int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken[at] = append(b.taken[at], fmt.Sprintf("%d %s", values, from))
}

func secret(text string) *wire.SealedValue {
	return &wire.SealedValue{Commitment: make([]byte, 32), Table: "public.t", Column: "c", Type: "text", Salt: make([]byte, 32), Value: []byte(text)}
}

func (b *circle) deliver(limit time.Duration, to map[string][]*wire.SealedValue) map[string]string {
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return b.reactors[0].Deliver(ctx, wire.TxID{1}, 9, to, func(func(string) bool) bool { return false })
}

// K1: each organisation gets what is for it, and others get nothing.
func TestPrivateValuesReachTheirOrganisations(t *testing.T) {
	b := newCircle(t, 4, nil)
	b.says["o2"] = "its disk is full"
	got := b.deliver(testLimit, map[string][]*wire.SealedValue{"o1": {secret("a"), secret("b")}, "o2": {secret("b")}})
	if want := map[string]string{"o1": "", "o2": "its disk is full"}; !reflect.DeepEqual(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := map[string][]string{"o1": {"2 o0"}, "o2": {"1 o0"}}; !reflect.DeepEqual(b.taken, want) {
		t.Errorf("taken %v, want %v", b.taken, want)
	}
}

func TestPrivateValuesAreAskedFor(t *testing.T) {
	b := newCircle(t, 3, nil)
	names := []*wire.SealedName{{Table: "public.t", Column: "c", Commitment: make([]byte, 32)}}
	got, err := b.reactors[0].Ask(b.ctx, "o2", names)
	if err != nil || len(got) != 1 || string(got[0].Value) != "of o2" {
		t.Fatal(got, err)
	}
	if _, err := b.reactors[0].Ask(b.ctx, "o7", names); err == nil {
		t.Error("an organisation without a node gave values")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := map[string][]string{"o2": {"1 o0"}}; !reflect.DeepEqual(b.taken, want) {
		t.Errorf("asked %v, want %v", b.taken, want)
	}
}

// A node that names another organisation than its own, or signs with another key, gets nothing and
// gives nothing.
func TestPrivateValuesInAnothersName(t *testing.T) {
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	o1 := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, ed25519.SeedSize))
	for name, change := range map[string]func(o *PrivateOptions){
		"another name": func(o *PrivateOptions) { o.Organisation = "o1" },
		"another key":  func(o *PrivateOptions) { o.Key = func() crypto.Signer { return other } },
		// o1 signed for a node that another organisation vouches for
		"another's node": func(o *PrivateOptions) { o.Organisation, o.Key = "o1", func() crypto.Signer { return o1 } },
	} {
		b := newCircle(t, 3, func(i int, o *PrivateOptions) {
			if i == 0 {
				change(o)
			}
		})
		if got := b.deliver(time.Second, map[string][]*wire.SealedValue{"o2": {secret("a")}}); len(got) != 0 {
			t.Errorf("%s: answers %v", name, got)
		}
		b.mu.Lock()
		if len(b.taken) != 0 {
			t.Errorf("%s: taken %v", name, b.taken)
		}
		b.mu.Unlock()
	}
}

// Of a node one answer counts, and of another node than those asked none.
func TestAnswersThatNobodyAskedFor(t *testing.T) {
	b := newCircle(t, 2, nil)
	r := b.reactors[0]
	peer := b.switches[0].Peers().Copy()[0]
	number := r.begin(&privateRound{asked: map[p2p.ID]string{peer.ID(): "o1"}, given: make(chan *wire.PrivateGive, 1)})
	if !r.awaits(number, peer) || r.awaits(number+1, peer) {
		t.Error("the round is not awaited, or another one is")
	}
	if round, whose := r.answers(number, peer); round == nil || whose != "o1" {
		t.Error("the first answer does not count")
	}
	if round, _ := r.answers(number, peer); round != nil || r.awaits(number, peer) {
		t.Error("a second answer counts")
	}
}
