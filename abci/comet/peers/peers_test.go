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
	"slices"
	"sync/atomic"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const testLimit = 5 * time.Minute

// database tells what it is made of.
type database struct {
	backend.Backend
	tables  []backend.TableState
	digests []backend.RangeDigest
	rows    [][]byte
	open    atomic.Int32
	gate    chan struct{} // not nil: Digests waits for it
}

func (d *database) Read(_ context.Context, number uint64, _ wire.Hash) (backend.Reading, error) {
	if number != 7 {
		return nil, fmt.Errorf("read: %w", backend.ErrOutOfTurn)
	}
	d.open.Add(1)
	return &told{d}, nil
}

func (d *database) ReadPast(context.Context) (backend.Past, error) {
	d.open.Add(1)
	return &told{d}, nil
}

// Block tells of block 7 what the rows are otherwise.
func (t *told) Block(_ context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	if number != 7 || hash != (wire.Hash{2}) {
		return fmt.Errorf("block: %w", backend.ErrOutOfTurn)
	}
	for _, part := range t.rows {
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

type told struct{ *database }

func (t *told) Tables() []backend.TableState { return t.tables }

func (t *told) Digests(ctx context.Context, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	if t.gate != nil {
		select {
		case <-t.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if table != "public.a" || within.Bits != 2 || len(within.List) != 1 || within.List[0] != 3 || bits != 5 {
		return nil, errors.New("something else was asked")
	}
	return t.digests, nil
}

func (t *told) Rows(_ context.Context, table string, in backend.Ranges, each func([]byte) error) error {
	if table != "public.a" || in.Bits != 5 || len(in.List) != 2 {
		return errors.New("something else was asked")
	}
	for _, row := range t.rows {
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *told) Close() { t.open.Add(-1) }

// bench is a network of organisations o0, o1, …, each with a database.
type bench struct {
	*testing.T
	ctx       context.Context
	reactors  []*Reactor
	databases []*database
	switches  []*p2p.Switch
}

func newBench(t *testing.T, n int, change func(i int, r *Reactor)) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	b := &bench{T: t, ctx: ctx}
	keys := map[string]ed25519.PrivateKey{}
	for i := range n {
		keys[fmt.Sprintf("o%d", i)] = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, ed25519.SeedSize))
	}
	for i := range n {
		name := fmt.Sprintf("o%d", i)
		d := &database{}
		r, err := New(Options{
			ChainID: "test", Organisation: name, Key: func() crypto.Signer { return keys[name] }, Backend: d, BytesPerSecond: 1 << 30,
			GatewayKey: func(organisation string) (ed25519.PublicKey, bool) {
				key, known := keys[organisation]
				if !known {
					return nil, false
				}
				return key.Public().(ed25519.PublicKey), true
			},
			Ever: everOf(keys), Conduct: NewConduct(slog.New(slog.DiscardHandler)),
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(i, r)
		}
		b.reactors, b.databases = append(b.reactors, r), append(b.databases, d)
	}
	b.switches = p2p.MakeConnectedSwitches(comet.TestP2PConfig(), n, func(i int, s *p2p.Switch) *p2p.Switch {
		s.AddReactor(Name, b.reactors[i])
		return s
	}, p2p.Connect2Switches)
	for i, s := range b.switches {
		b.reactors[i].opt.NodeID = string(s.NodeInfo().ID())
		t.Cleanup(func() { _ = s.Stop() })
	}
	return b
}

// everOf says that organisations have had no keys but these.
func everOf(keys map[string]ed25519.PrivateKey) func(string, func(ed25519.PublicKey) bool) bool {
	return func(organisation string, fits func(ed25519.PublicKey) bool) bool {
		key, known := keys[organisation]
		return known && fits(key.Public().(ed25519.PublicKey))
	}
}

// until polls, at most as long as the test may take.
func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	for !ok() {
		select {
		case <-b.ctx.Done():
			b.Fatalf("waited in vain until %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// read opens block number at the node j, asked by i.
func (b *bench) read(i, j int, number uint64) (*asking, error) {
	a := &asking{reactor: b.reactors[i], peer: b.switches[i].Peers().Get(b.switches[j].NodeInfo().ID())}
	return a, a.open(b.ctx, &wire.StateOpen{Block: number, Hash: bytes.Repeat([]byte{1}, 32)})
}

func (b *bench) node(i int) string { return string(b.switches[i].NodeInfo().ID()) }

func TestWhatIsToldIsWhatIsThere(t *testing.T) {
	b := newBench(t, 2, nil)
	d := b.databases[1]
	d.tables = []backend.TableState{{Table: "public.a", Rows: 3, State: wire.Hash{9}}, {Table: "public.b"}}
	d.digests = []backend.RangeDigest{{Range: 24, Rows: 2, Digest: wire.Hash{1}}, {Range: 31, Rows: 1, Digest: wire.Hash{2}}}
	d.rows = [][]byte{[]byte("one"), {}, bytes.Repeat([]byte("long"), wire.StatePageBytesMax), []byte("last")}
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	if got := from.Tables(); fmt.Sprint(got) != fmt.Sprint(d.tables) || from.organisation != "o1" {
		t.Fatalf("told %v by %s", got, from.organisation)
	}
	digests, err := from.Digests(b.ctx, "public.a", backend.Ranges{Bits: 2, List: []uint32{3}}, 5)
	if err != nil || fmt.Sprint(digests) != fmt.Sprint(d.digests) {
		t.Fatalf("told %v, %v", digests, err)
	}
	for range 2 { // a second time in the same session
		var rows [][]byte
		err = from.Rows(b.ctx, "public.a", backend.Ranges{Bits: 5, List: []uint32{24, 31}}, func(cells []byte) error {
			rows = append(rows, bytes.Clone(cells))
			return nil
		})
		if err != nil || len(rows) != len(d.rows) {
			t.Fatalf("told %d rows, %v", len(rows), err)
		}
		for i := range rows {
			if !bytes.Equal(rows[i], d.rows[i]) {
				t.Fatalf("row %d differs", i)
			}
		}
	}
	from.Close()
	b.until("the reading is closed", func() bool { return d.open.Load() == 0 })
}

func TestBlocksAreToldAsTheyAreThere(t *testing.T) {
	b := newBench(t, 2, nil)
	d := b.databases[1]
	d.rows = [][]byte{[]byte("header"), bytes.Repeat([]byte("long"), wire.StatePageBytesMax), []byte("last")}
	organisation, from, err := b.reactors[0].ReadPast(b.ctx, b.node(1), 7, wire.Hash{2})
	must.Do(t, err)
	for range 2 { // again in one session
		var parts [][]byte
		err := from.Block(b.ctx, 7, wire.Hash{2}, func(part []byte) error {
			parts = append(parts, bytes.Clone(part))
			return nil
		})
		if err != nil || organisation != "o1" || !slices.EqualFunc(parts, d.rows, bytes.Equal) {
			t.Fatalf("%s told %d parts: %v", organisation, len(parts), err)
		}
	}
	if from.Block(b.ctx, 8, wire.Hash{2}, func([]byte) error { return nil }) == nil {
		t.Fatal("a block that was not opened is told")
	}
	from.Close()
	b.until("the reading is closed", func() bool { return d.open.Load() == 0 })
}

// A session is for rows or for blocks.
func TestASessionTellsWhatItWasOpenedFor(t *testing.T) {
	b := newBench(t, 2, nil)
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	if err := from.Block(b.ctx, 7, wire.Hash{2}, func([]byte) error { return nil }); err == nil {
		t.Fatal("a session for rows tells a block")
	}
	b.until("the session ends", func() bool { return b.databases[1].open.Load() == 0 })
	_, past, err := b.reactors[0].ReadPast(b.ctx, b.node(1), 9, wire.Hash{1})
	must.Do(t, err)
	if err := past.(backend.Reading).Rows(b.ctx, "public.a", backend.Ranges{Bits: 5, List: []uint32{24, 31}}, func([]byte) error { return nil }); err == nil {
		t.Fatal("a session for blocks tells rows")
	}
}

func TestWhoMayNotAskIsRefused(t *testing.T) {
	b := newBench(t, 3, func(i int, r *Reactor) {
		switch i {
		case 1:
			r.opt.BytesPerSecond = 0
		case 2:
			r.opt.GatewayKey = func(string) (ed25519.PublicKey, bool) { return nil, false }
		}
	})
	for j, want := range map[int]string{1: `refused: "this node tells nothing"`, 2: `refused: "not signed by an organisation"`} {
		if _, err := b.read(0, j, 7); err == nil || err.Error() != want {
			t.Errorf("o%d: %v, want %s", j, err, want)
		}
	}
	// Signed for another node: what was sent to one serves no other.
	a := &asking{reactor: b.reactors[1], peer: b.switches[1].Peers().Get(b.switches[0].NodeInfo().ID())}
	b.reactors[1].opt.NodeID = b.reactors[2].opt.NodeID
	if err := a.open(b.ctx, &wire.StateOpen{Block: 7, Hash: make([]byte, 32)}); err == nil || b.databases[0].open.Load() != 0 {
		t.Errorf("told with the signature for another node: %v", err)
	}
	if _, err := b.read(2, 0, 8); err == nil || err.Error() != `refused: "that block cannot be told"` {
		t.Errorf("a block that is not there: %v", err)
	}
}

func TestASilentAskerLosesItsSession(t *testing.T) {
	b := newBench(t, 2, func(_ int, r *Reactor) { r.idleLimit = 20 * time.Millisecond })
	if _, err := b.read(0, 1, 7); err != nil {
		t.Fatal(err)
	}
	b.until("the session ends", func() bool { return b.databases[1].open.Load() == 0 })
}

func TestASilentTellerIsGivenUp(t *testing.T) {
	b := newBench(t, 2, func(i int, r *Reactor) { r.answerLimit = 50 * time.Millisecond })
	b.databases[1].gate = make(chan struct{})
	from, err := b.read(0, 1, 7)
	b.until("the session is open", func() bool {
		if err != nil { // a slow machine: opening took longer than the limit
			from, err = b.read(0, 1, 7)
		}
		return err == nil
	})
	if _, err := from.Digests(b.ctx, "public.a", backend.Ranges{Bits: 2, List: []uint32{3}}, 5); err == nil {
		t.Fatal("no answer is one")
	}
	b.reactors[0].mu.Lock()
	defer b.reactors[0].mu.Unlock()
	if len(b.reactors[0].waiting) != 0 {
		t.Fatal("still waits")
	}
}

func TestAPeerThatGoesEndsBothSides(t *testing.T) {
	b := newBench(t, 2, nil)
	b.databases[1].gate = make(chan struct{})
	from, err := b.read(0, 1, 7)
	must.Do(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := from.Digests(b.ctx, "public.a", backend.Ranges{Bits: 2, List: []uint32{3}}, 5)
		failed <- err
	}()
	b.until("it waits", func() bool {
		b.reactors[0].mu.Lock()
		defer b.reactors[0].mu.Unlock()
		return len(b.reactors[0].waiting) == 1
	})
	b.switches[0].StopPeerForError(from.peer, errors.New("test"))
	if err := <-failed; err == nil {
		t.Fatal("no answer is one")
	}
	b.until("the reading is closed", func() bool { return b.databases[1].open.Load() == 0 })
}

func TestAMalformedMessageEndsTheConnection(t *testing.T) {
	b := newBench(t, 2, nil)
	peer := b.switches[0].Peers().Get(b.switches[1].NodeInfo().ID())
	peer.Send(p2p.Envelope{ChannelID: Channel, Message: &types.BytesValue{Value: []byte{0xff}}})
	b.until("the connection has ended", func() bool { return b.switches[1].Peers().Size() == 0 })
}

// A node of a later version may say more; one that is malformed in every version goes.
func TestAMessageOfALaterVersionIsIgnored(t *testing.T) {
	b := newBench(t, 2, nil)
	peer := b.switches[0].Peers().Get(b.switches[1].NodeInfo().ID())
	for _, later := range [][]byte{{0x78, 1}, {0x0a, 2, 0x78, 1}} { // field 15, of the message and of a request
		if !peer.Send(p2p.Envelope{ChannelID: Channel, Message: &types.BytesValue{Value: later}}) {
			t.Fatal("not sent")
		}
	}
	if _, err := b.read(0, 1, 7); err != nil { // behind them
		t.Fatal(err)
	}
	if b.reactors[1].opt.Conduct.Offences() != 0 {
		t.Error("a later version is held against its node")
	}
}

// Nodes are those connected that speak the protocol; one that is gone, and one that tells nothing,
// is an error.
func TestNodesThatCanBeAsked(t *testing.T) {
	b := newBench(t, 4, func(i int, r *Reactor) {
		if i == 3 {
			r.opt.BytesPerSecond = 0
		}
	})
	nodes := b.reactors[0].Nodes()
	if want := []string{b.node(1), b.node(2), b.node(3)}; !slices.Equal(slices.Sorted(slices.Values(nodes)), slices.Sorted(slices.Values(want))) {
		t.Fatalf("nodes %v, want %v", nodes, want)
	}
	for i, helps := range map[int]bool{0: false, 1: true, 3: false} {
		organisation, from, err := b.reactors[0].Read(b.ctx, b.node(i), 7, wire.Hash{1})
		if (err == nil) != helps || helps && organisation != fmt.Sprintf("o%d", i) {
			t.Errorf("node %d: %q, %v", i, organisation, err)
		}
		if helps {
			from.Close()
		}
	}
}
