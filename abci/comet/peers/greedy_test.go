package peers

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var rowsAsked = backend.Ranges{Bits: 5, List: []uint32{24, 31}}

// Two are told at once, each organisation once. An organisation that found no place goes before one
// that was told since, however quickly that one asks again.
func TestAGreedyAskerDoesNotKeepOthersFromBeingTold(t *testing.T) {
	b := newBench(t, 4, nil)
	greedy, err := b.read(0, 3, 7)
	must.Do(t, err)
	second, err := b.read(1, 3, 7)
	if err != nil {
		t.Fatalf("a second organisation finds no place beside one: %v", err)
	}
	if _, err := b.read(2, 3, 7); err == nil {
		t.Fatal("three are told at a time")
	}
	greedy.Close()
	b.until("the session ends", func() bool { return b.databases[3].open.Load() == 1 })
	b.until("the place is free", func() bool { return !b.reactors[3].tells(b.switches[3].Peers().Get(b.switches[0].NodeInfo().ID())) })
	if _, err := b.read(0, 3, 7); err == nil || !strings.Contains(err.Error(), "other organisations") {
		t.Fatalf("the one told before goes before the one that waits: %v", err)
	}
	third, err := b.read(2, 3, 7)
	if err != nil {
		t.Fatalf("whoever waited is not told: %v", err)
	}
	second.Close()
	b.until("nobody waits, and the first is told again", func() bool {
		_, err := b.read(0, 3, 7)
		return err == nil
	})
	third.Close()
}

// A session may not go on longer than is set, and not have tables looked through without end.
func TestASessionIsBoundedInTimeAndWork(t *testing.T) {
	b := newBench(t, 2, func(i int, r *Reactor) {
		if i == 1 {
			r.opt.SessionLimit = 50 * time.Millisecond
		}
	})
	b.until("a session is open", func() bool { _, err := b.read(0, 1, 7); return err == nil })
	b.until("it ends, though nobody closes it", func() bool { return b.databases[1].open.Load() == 0 })

	b = newBench(t, 2, nil)
	b.databases[1].tables = []backend.TableState{{Table: "public.a"}}
	b.databases[1].rows = [][]byte{{1}}
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	read := func() error { return from.Rows(b.ctx, "public.a", rowsAsked, func([]byte) error { return nil }) }
	for i := range scansMax {
		if err := read(); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	if read() == nil {
		t.Fatal("a table is looked through without end")
	}
	b.until("the session ends", func() bool { return b.databases[1].open.Load() == 0 })
}

// Every open is signed: one within a session as well, which nobody's signature covers.
func TestEveryOpenIsSigned(t *testing.T) {
	b := newBench(t, 2, nil)
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	_, err = from.ask(b.ctx, testLimit, &wire.StateRequest{Body: &wire.StateRequest_Open{Open: &wire.StateOpen{
		Block: 7, Hash: make([]byte, 32), Organisation: "o0", Signature: make([]byte, 64),
	}}})
	if err == nil {
		t.Fatal("an open that nobody signed is answered")
	}
	b.until("the connection ends, and the session", func() bool {
		return b.switches[1].Peers().Size() == 0 && b.databases[1].open.Load() == 0
	})
	if !b.reactors[1].opt.Conduct.Barred(from.peer.ID()) && !b.reactors[1].opt.Conduct.Barred(b.switches[0].NodeInfo().ID()) {
		t.Error("who sent it may connect again at once")
	}
}

// A teller that gives a byte now and then is given up: time is that of progress, not of the last
// answer.
func TestATellerThatDawdlesIsGivenUp(t *testing.T) {
	b := newBench(t, 2, func(i int, r *Reactor) {
		if r.stallLimit = testLimit; i == 0 {
			r.stallLimit = 300 * time.Millisecond
		}
	})
	d := b.databases[1]
	d.tables = []backend.TableState{{Table: "public.a", Rows: 1 << 40}}
	d.rows = make([][]byte, 1000)
	for i := range d.rows {
		d.rows[i] = bytes.Repeat([]byte{1}, wire.StatePageBytesMax)
	}
	b.reactors[1].opt.BytesPerSecond = 1 // a page, then the next in days
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	if err := from.Rows(b.ctx, "public.a", rowsAsked, func([]byte) error { return nil }); err == nil || b.ctx.Err() != nil {
		t.Fatalf("waited for: %v", err)
	}
}

// An organisation signs the rows that it tells. A node that tells in another's name is
// disconnected.
func TestWhoTellsInAnothersNameIsDisconnected(t *testing.T) {
	b := newBench(t, 3, func(i int, r *Reactor) {
		if i == 1 {
			r.opt.Organisation = "o2" // and signs with its own key
		}
	})
	for i, honest := range map[int]bool{1: false, 2: true} {
		organisation, from, err := b.reactors[0].Read(b.ctx, b.node(i), 7, wire.Hash{1})
		if (err == nil) != honest || honest && organisation != "o2" {
			t.Fatalf("node %d: told by %q, %v", i, organisation, err)
		}
		if honest {
			from.Close()
		}
	}
	if b.switches[0].Peers().Has(b.switches[1].NodeInfo().ID()) || !b.switches[0].Peers().Has(b.switches[2].NodeInfo().ID()) {
		t.Error("not the one that lied is disconnected")
	}
}

// Answers that nobody waits for, and what is asked outside of a session, are not decoded, however
// malformed, and spoil nothing.
func TestWhatNobodyWaitsForIsNotDecoded(t *testing.T) {
	b := newBench(t, 2, nil)
	peer := b.switches[0].Peers().Get(b.switches[1].NodeInfo().ID())
	unasked := append([]byte{0x12, 0xff, 0xff, 0x03}, make([]byte, 65535)...) // an answer of zeros
	for range 3 {
		if !peer.Send(p2p.Envelope{ChannelID: Channel, Message: &types.BytesValue{Value: unasked}}) {
			t.Fatal("not sent")
		}
	}
	if _, err := b.read(0, 1, 7); err != nil {
		t.Fatalf("behind them: %v", err)
	}
}

func TestConductBarsLongerEachTimeAndForgives(t *testing.T) {
	log := &strings.Builder{}
	c := NewConduct(testLogger(log))
	now := time.Unix(1_700_000_000, 0)
	c.now = func() time.Time { return now }
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		c.Offence(nil, named{id: "liar"}, "sent nonsense", errors.New("test"))
		if now = now.Add(want - time.Millisecond); !c.Barred("liar") {
			t.Errorf("offence %d: not barred for %s", i, want)
		}
		if now = now.Add(2 * time.Millisecond); c.Barred("liar") {
			t.Errorf("offence %d: barred for more than %s", i, want)
		}
	}
	if c.Barred("honest") || c.Offences() != 3 {
		t.Error("another one is barred, or offences are not counted")
	}
	if now = now.Add(forgivenAfter + time.Second); true {
		c.Offence(nil, named{id: "liar"}, "sent nonsense", errors.New("test"))
	}
	if now = now.Add(barredFirst); c.Barred("liar") {
		t.Error("nothing is forgiven")
	}
	for range 1000 {
		c.Offence(nil, named{id: "liar"}, "sent nonsense", errors.New("test"))
	}
	if now = now.Add(barredMax - time.Millisecond); !c.Barred("liar") {
		t.Error("not barred for as long as can be")
	}
	if now = now.Add(2 * time.Millisecond); c.Barred("liar") {
		t.Error("barred for good")
	}
	if lines := strings.Count(log.String(), "sent nonsense"); lines > linesAtOnce+3 {
		t.Errorf("%d lines about one peer", lines)
	}
	now = now.Add(lineEvery)
	c.Offence(nil, named{id: "liar"}, "sent nonsense", errors.New("test"))
	if !strings.Contains(log.String(), "lines_left_out=") {
		t.Error("what was left out is not told")
	}
}

// A wrong signature by a key that the organisation had before, or will have, ends nothing.
func TestKeysOfBeforeAreNoOffence(t *testing.T) {
	b := newBench(t, 2, nil)
	before := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{77}, 32))
	b.reactors[0].opt.Key = func() crypto.Signer { return before }
	known := b.reactors[1].opt.Ever
	b.reactors[1].opt.Ever = func(organisation string, fits func(ed25519.PublicKey) bool) bool {
		return known(organisation, fits) || organisation == "o0" && fits(before.Public().(ed25519.PublicKey))
	}
	if _, err := b.read(0, 1, 7); err == nil || err.Error() != `refused: "not signed by an organisation"` {
		t.Fatalf("told to a key that counts no more: %v", err)
	}
	if b.switches[1].Peers().Size() != 1 {
		t.Error("disconnected for it")
	}
	b.reactors[0].opt.Key = func() crypto.Signer { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{78}, 32)) }
	behind := true
	b.reactors[1].opt.Conduct.Behind = func() bool { return behind }
	if _, err := b.read(0, 1, 7); err == nil || b.switches[1].Peers().Size() != 1 {
		t.Errorf("a node that is behind, and knows not all keys, disconnects one that is ahead: %v", err)
	}
	behind = false
	if _, err := b.read(0, 1, 7); err == nil {
		t.Fatal("told to a key that never counted")
	}
	b.until("the connection ends", func() bool { return b.switches[1].Peers().Size() == 0 })
}

// named is a peer of which only the id matters.
type named struct {
	p2p.Peer
	id p2p.ID
}

func (n named) ID() p2p.ID { return n.id }

func testLogger(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

// One organisation that asks without end leaves the others room for their questions.
func TestAGreedyAskerLeavesRoomForOthersQuestions(t *testing.T) {
	r := newTable(t, 2, func(int) func(context.Context, []byte) (string, error) {
		return func(context.Context, []byte) (string, error) { return "", nil }
	}).reactors[0]
	begins := func(organisation string) bool {
		_, refusal := r.begin(organisation, &wire.Client{Organisation: organisation, Role: "app"})
		return refusal == ""
	}
	greedy := 0
	for begins("greedy") {
		greedy++
	}
	if greedy != answersAtOnce/2 {
		t.Errorf("alone, one has %d of %d", greedy, answersAtOnce)
	}
	if !begins("second") || !begins("third") || begins("greedy") {
		t.Error("newcomers find no room, or the first one has more")
	}
	r.end(charge{organisation: "greedy"}, wire.TxID{1}, 0)
	if !begins("fourth") {
		t.Error("what is given back is nobody's")
	}
}

// A node is behind when most of its peers say that they are ahead, not when one does.
func TestOnePeerThatSaysItIsAheadIsNotBelieved(t *testing.T) {
	at := func(heights ...int64) (list []p2p.Peer) {
		for _, height := range heights {
			list = append(list, reached{height: newPool(height)})
		}
		return list
	}
	for _, x := range []struct {
		peers  []p2p.Peer
		behind bool
	}{{nil, false}, {at(10, 11, 1<<60), false}, {at(12, 12, 1), true}, {at(11, 11, 11), false}, {at(12, 10), false}} {
		if got := Ahead(x.peers, 10); got != x.behind {
			t.Errorf("%d peers: %t", len(x.peers), got)
		}
	}
}

// reached is a peer that says how far it is.
type reached struct {
	p2p.Peer
	height *pool
}

func (r reached) Get(string) any { return r.height }
