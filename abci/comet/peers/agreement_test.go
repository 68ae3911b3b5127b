package peers

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// table is a network of organisations o0, o1, … that decide as the test says.
type table struct {
	*testing.T
	ctx      context.Context
	keys     map[string]ed25519.PrivateKey
	reactors []*Agreements
	switches []*p2p.Switch
}

func newTable(t *testing.T, n int, decide func(i int) func(context.Context, []byte) (string, error)) *table {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	b := &table{T: t, ctx: ctx, keys: map[string]ed25519.PrivateKey{}}
	for i := range n {
		b.keys[fmt.Sprintf("o%d", i)] = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
	}
	for i := range n {
		name := fmt.Sprintf("o%d", i)
		r, err := NewAgreements(AgreementOptions{
			ChainID: "test", Organisation: name, Key: func() crypto.Signer { return b.keys[name] }, Limit: testLimit,
			Decide: func(ctx context.Context, tx []byte, _ func() int64) (string, error) { return decide(i)(ctx, tx) },
			GatewayKey: func(organisation string) (ed25519.PublicKey, bool) {
				key, known := b.keys[organisation]
				if !known {
					return nil, false
				}
				return key.Public().(ed25519.PublicKey), true
			},
			Ever: everOf(b.keys), Conduct: NewConduct(slog.New(slog.DiscardHandler)),
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		b.reactors = append(b.reactors, r)
	}
	b.switches = p2p.MakeConnectedSwitches(comet.TestP2PConfig(), n, func(i int, s *p2p.Switch) *p2p.Switch {
		s.AddReactor(AgreementName, b.reactors[i])
		return s
	}, p2p.Connect2Switches)
	for i, s := range b.switches {
		b.reactors[i].opt.NodeID = string(s.NodeInfo().ID())
		t.Cleanup(func() { _ = s.Stop() })
	}
	return b
}

// proposal makes a transaction of an organisation's client.
func proposal(organisation string, nonce uint64) (wire.TxID, []byte) {
	raw := wire.Encode(&wire.Proposal{
		ChainId: "test", Client: &wire.Client{Organisation: organisation, Role: "app"}, Nonce: nonce,
		ValidUntilHeight: 9, Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1",
	})
	return wire.TxIDOf(raw), wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: raw}})
}

// ask asks as o0, for so long.
func (b *table) ask(limit time.Duration, id wire.TxID, tx []byte, organisations ...string) map[string]Reply {
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return b.reactors[0].Ask(ctx, id, tx, organisations, func(map[string]Reply) bool { return false })
}

func TestOrganisationsAnswerWhatTheyDecide(t *testing.T) {
	b := newTable(t, 4, func(i int) func(context.Context, []byte) (string, error) {
		return func(context.Context, []byte) (string, error) {
			switch i {
			case 1:
				return "", nil
			case 2:
				return "too dear", nil
			}
			return "", errors.New("the database is down")
		}
	})
	id, tx := proposal("o0", 1)
	got := b.ask(testLimit, id, tx, "o1", "o2", "o3")
	for name, want := range map[string]string{"o1": "", "o2": "too dear", "o3": "its database could not be asked"} {
		r, ok := got[name]
		key := b.keys[name].Public().(ed25519.PublicKey)
		if !ok || r.Reason != want || r.Agreement.Yes != (want == "") || !wire.VerifyAnswer(key, "test", id, r.Agreement) {
			t.Errorf("%s answers %v, want %q", name, r, want)
		}
	}
}

// A silent organisation is not waited for once those that answered are enough, which is looked at
// once for what came.
func TestTheSilentAreNotWaitedForWhenOthersAreEnough(t *testing.T) {
	b := newTable(t, 4, func(i int) func(context.Context, []byte) (string, error) {
		return func(ctx context.Context, _ []byte) (string, error) {
			if i > 1 {
				<-ctx.Done()
			}
			return "", nil
		}
	})
	id, tx := proposal("o0", 1)
	looks := 0
	for _, enough := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(b.ctx, map[bool]time.Duration{true: testLimit, false: 10 * enoughLook}[enough])
		got := b.reactors[0].Ask(ctx, id, tx, []string{"o1", "o2", "o3"}, func(some map[string]Reply) bool {
			looks++
			return enough && some["o1"].Agreement.Yes
		})
		if len(got) != 1 || !got["o1"].Agreement.Yes || (ctx.Err() == nil) != enough {
			t.Errorf("answers %v, %v", got, ctx.Err())
		}
		cancel()
	}
	if looks != 2 {
		t.Errorf("looked %d times at two answers", looks)
	}
	for _, r := range b.reactors {
		r.cancel() // the silent end
	}
}

// Only an organisation itself asks for its clients, of the node it signed for; nobody else finds
// out what a check says. A peer that tries is disconnected.
func TestOnlyTheClientsOrganisationIsAnswered(t *testing.T) {
	decided := make(chan string, 10)
	decide := func(int) func(context.Context, []byte) (string, error) {
		return func(_ context.Context, tx []byte) (string, error) {
			decided <- string(tx)
			return "", nil
		}
	}
	const short = 200 * time.Millisecond // nothing comes: however long it is
	for name, try := range map[string]struct {
		client, asked string
		elsewhere     bool // signed for another node than the one asked
	}{
		"a client of another organisation": {"o1", "o2", false},
		"a stranger":                       {"stranger", "o1", false},
		"a signature for another node":     {"o0", "o1", true},
	} {
		b := newTable(t, 3, decide)
		if try.elsewhere {
			b.reactors[0].opt.NodeID = b.reactors[2].opt.NodeID
		}
		id, tx := proposal(try.client, 1)
		if got := b.ask(short, id, tx, try.asked); len(got) > 0 {
			t.Errorf("%s: answered %v", name, got)
		}
		b.apart(map[string]int{"o1": 1, "o2": 2}[try.asked])
	}
	if len(decided) > 0 {
		t.Error("a check was called for nothing")
	}
	b := newTable(t, 3, decide)
	id, tx := proposal("o0", 1)
	if got := b.ask(testLimit, id, tx, "o1"); len(got) != 1 || len(decided) != 1 {
		t.Errorf("answers %v, %d decisions", got, len(decided))
	}
}

// apart waits until o0 and another are not connected.
func (b *table) apart(other int) {
	b.Helper()
	for b.switches[other].Peers().Has(b.switches[0].NodeInfo().ID()) {
		select {
		case <-b.ctx.Done():
			b.Fatalf("o0 and o%d stay connected", other)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	gate := make(chan struct{})
	b := newTable(t, 2, func(int) func(context.Context, []byte) (string, error) {
		return func(ctx context.Context, _ []byte) (string, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return "", nil
		}
	})
	answers := make(chan map[string]Reply, answersAtOnce/2+1)
	for i := range answersAtOnce/2 + 1 {
		id, tx := proposal("o0", uint64(i))
		go func() { answers <- b.ask(testLimit, id, tx, "o1") }()
	}
	// One finds no place and is told so; the others wait for the gate.
	if first := <-answers; !strings.Contains(first["o1"].Reason, "too many questions") || first["o1"].Agreement.Yes {
		t.Errorf("answered %v", first)
	}
	close(gate)
	for range answersAtOnce / 2 {
		if got := <-answers; !got["o1"].Agreement.Yes {
			t.Errorf("answered %v", got)
		}
	}
}

func TestAForgedAnswerCountsNothing(t *testing.T) {
	b := newTable(t, 3, func(i int) func(context.Context, []byte) (string, error) {
		return func(ctx context.Context, _ []byte) (string, error) {
			if i == 1 { // silent
				<-ctx.Done()
			}
			return "", nil
		}
	})
	b.reactors[2].opt.Organisation = "o1" // signs with its own key in the other's name
	id, tx := proposal("o0", 1)
	if got := b.ask(300*time.Millisecond, id, tx, "o1"); len(got) > 0 {
		t.Errorf("taken for an answer of o1: %v", got)
	}
	b.apart(2)
	b.reactors[1].cancel()
}

func TestAMalformedQuestionEndsTheConnection(t *testing.T) {
	b := newTable(t, 2, func(int) func(context.Context, []byte) (string, error) {
		return func(context.Context, []byte) (string, error) { return "", nil }
	})
	peer := b.switches[0].Peers().Get(b.switches[1].NodeInfo().ID())
	peer.Send(p2p.Envelope{ChannelID: AgreementChannel, Message: &types.BytesValue{Value: []byte{0xff}}})
	for b.switches[1].Peers().Size() > 0 {
		select {
		case <-b.ctx.Done():
			t.Fatal("the connection stays")
		case <-time.After(time.Millisecond):
		}
	}
}
