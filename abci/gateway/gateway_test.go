package gateway

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// fixture is a gateway with a clock that the test moves and a mempool that the test fills.
type fixture struct {
	key     ed25519.PrivateKey // that counts now
	away    error              // why it signs nothing
	t       *testing.T
	g       *Gateway
	now     time.Time
	mempool *fakeMempool
	catchUp bool
	height  int64
	block   uint64
}

type fakeMempool struct {
	mu      sync.Mutex
	bundles []*wire.Bundle
	signed  []*wire.SignedBundle // the same
	offers  int
	answer  func(*wire.Bundle) error
}

func (m *fakeMempool) Broadcast(_ context.Context, ordered []byte) error {
	var o wire.OrderedTx
	if err := proto.Unmarshal(ordered, &o); err != nil {
		return err
	}
	var b wire.Bundle
	if err := proto.Unmarshal(o.GetBundle().GetBundle(), &b); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offers++
	if m.answer != nil {
		if err := m.answer(&b); err != nil {
			return err
		}
	}
	m.bundles, m.signed = append(m.bundles, &b), append(m.signed, o.GetBundle())
	return nil
}

// signer finds the key among those of tests.
func (m *fakeMempool) signer(t *testing.T, i int) ed25519.PrivateKey {
	for seed := range byte(10) {
		key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
		if wire.VerifyBundle(key.Public().(ed25519.PublicKey), "test", m.signed[i]) {
			return key
		}
	}
	t.Fatal("signed by none of the keys")
	return nil
}

func (m *fakeMempool) sizes() []int {
	var n []int
	for _, b := range m.bundles {
		n = append(n, len(b.Transactions))
	}
	return n
}

var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))

// signer is the key that counts; nil: there is none.
func (f *fixture) signer() crypto.Signer {
	if f.key == nil {
		return nil
	}
	return awayKey{f.key, f.away}
}

// awayKey is a key in another process, which may be away.
type awayKey struct {
	ed25519.PrivateKey
	away error
}

func (k awayKey) Sign(r io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if k.away != nil {
		return nil, k.away
	}
	return k.PrivateKey.Sign(r, message, opts)
}

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{key: testKey, t: t, now: time.Unix(1_700_000_000, 0), mempool: &fakeMempool{}, height: 10}
	opt := Options{
		ChainID: "test", Organisation: "acme", Key: f.signer, Height: f.height, Broadcaster: f.mempool,
		Now: func() time.Time { return f.now }, CatchingUp: func() bool { return f.catchUp },
		Limits: Limits{PendingMax: 100, BundleTransactions: 10, BundleDelay: 5 * time.Millisecond},
	}
	if change != nil {
		change(&opt)
	}
	g, err := New(opt)
	must.Do(t, err)
	f.g = g
	return f
}

func sql(text string) *wire.Statement { return &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: text} }

func (f *fixture) submit(role string, n int) []wire.TxID {
	f.t.Helper()
	statements := make([]*wire.Statement, n)
	for i := range statements {
		statements[i] = sql(fmt.Sprintf("UPDATE t SET x = %d", i))
	}
	ids, err := f.g.Submit(role, statements)
	if err != nil {
		f.t.Fatal(err)
	}
	return ids
}

func (f *fixture) refusedWith(sqlstate, role string, n int) *Error {
	f.t.Helper()
	statements := make([]*wire.Statement, n)
	for i := range statements {
		statements[i] = sql("SELECT 1")
	}
	_, err := f.g.Submit(role, statements)
	var e *Error
	if !errors.As(err, &e) || e.SQLState != sqlstate {
		f.t.Fatalf("submit gave %v, want SQLSTATE %s", err, sqlstate)
	}
	return e
}

func (f *fixture) step() time.Time { return f.g.step(context.Background()) }

func (f *fixture) decide(ids ...wire.TxID) {
	f.height++
	f.g.Decided(f.height, ids)
}

// commit lets the database commit what was decided, all successful.
func (f *fixture) commit(ids ...wire.TxID) {
	f.block++
	results := make([]wire.TxResult, len(ids))
	for i, id := range ids {
		results[i] = wire.TxResult{ID: id, Block: f.block, Index: uint32(i), Succeeded: true, Rows: 1}
	}
	f.g.Committed(&wire.OrderedBlock{Number: f.block, IDs: ids}, results)
}

func (f *fixture) outcome(id wire.TxID) (wire.TxResult, bool) {
	f.t.Helper()
	r, err := f.g.WaitAs(context.Background(), "", []wire.TxID{id}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(r) == 0 {
		return wire.TxResult{}, false
	}
	return r[0], true
}

func (f *fixture) wantSizes(want ...int) {
	f.t.Helper()
	if got := f.mempool.sizes(); fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Fatalf("bundles of %v transactions, want %v", got, want)
	}
}

func TestIdleGatewaySendsAtOnceAndGathersUnderLoad(t *testing.T) {
	f := newFixture(t, nil)
	first := f.submit("bank", 1)
	f.step()
	f.wantSizes(1)
	f.submit("bank", 3) // the first is not ordered yet: gather
	if next := f.step(); next.Sub(f.now) != 5*time.Millisecond {
		t.Fatalf("next bundle in %v, want 5ms", next.Sub(f.now))
	}
	f.wantSizes(1)
	f.now = f.now.Add(5 * time.Millisecond)
	f.step()
	f.wantSizes(1, 3)
	f.submit("bank", 12) // more than a bundle holds: a full one at once, the rest gathers
	f.step()
	f.wantSizes(1, 3, 10)
	f.decide(first...)
	f.step()
	f.wantSizes(1, 3, 10) // two bundles are still not ordered
}

func TestOrderedBundlesMakeTheGatewayIdleAgain(t *testing.T) {
	f := newFixture(t, nil)
	ids := f.submit("bank", 2)
	f.step()
	f.submit("bank", 1)
	f.decide(ids...)
	f.step()
	f.wantSizes(2, 1)
}

// Where the order takes long, transactions gather for longer: an eighth of that, at most ten times
// the delay set.
func TestBundlesGatherLongerWhereBlocksTakeLong(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range []struct{ order, delay time.Duration }{
		{10 * time.Millisecond, 5 * time.Millisecond}, {80 * time.Millisecond, 10 * time.Millisecond}, {time.Minute, 50 * time.Millisecond},
	} {
		ids := f.submit("bank", 1)
		f.step()
		f.now = f.now.Add(c.order)
		f.decide(ids...)
		f.step()
		onItsWay := f.submit("bank", 1) // at once: nothing is on its way
		f.step()
		late := f.submit("bank", 1)
		if next := f.step(); next.Sub(f.now) != c.delay {
			t.Errorf("the order took %v: next bundle in %v, want %v", c.order, next.Sub(f.now), c.delay)
		}
		f.decide(onItsWay...)
		f.step()
		f.decide(late...)
	}
}

// Clients that were answered together submit together: the first of them does not go alone, nor
// does it wait for ever.
func TestAnIdleGatewayWaitsForThoseItJustAnswered(t *testing.T) {
	f := newFixture(t, nil)
	ids := f.submit("bank", 3)
	for _, id := range ids {
		f.g.register([]wire.TxID{id})
	}
	f.step()
	f.decide(ids...)
	f.commit(ids...)
	f.submit("bank", 2)
	if next := f.step(); next.Sub(f.now) != 5*time.Millisecond {
		t.Fatalf("two of three are due in %v, want 5ms", next.Sub(f.now))
	}
	f.wantSizes(3)
	f.submit("bank", 1)
	f.step()
	f.wantSizes(3, 3)
	f.now = f.now.Add(5 * time.Millisecond)
	f.commit() // of others alone: nobody is answered here, nobody is waited for
	f.decide(f.ordered(1)...)
	f.submit("bank", 1)
	f.step()
	f.wantSizes(3, 3, 1)
}

// ordered gives the ids of a bundle that was broadcast.
func (f *fixture) ordered(bundle int) (ids []wire.TxID) {
	for _, tx := range f.mempool.bundles[bundle].Transactions {
		ids = append(ids, wire.TxIDOf(tx.Proposal.Proposal))
	}
	return ids
}

func TestBundleBytesBound(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.BundleBytes, o.Limits.BundleTransactions = 1000, 1000 })
	big := strings.Repeat("x", 400)
	for range 5 {
		if _, err := f.g.Submit("bank", []*wire.Statement{sql(big)}); err != nil {
			t.Fatal(err)
		}
	}
	f.step()
	f.wantSizes(2, 2) // the fifth waits for the delay
	for _, b := range f.mempool.bundles {
		if n := proto.Size(b); n > 1000+bundleOverhead {
			t.Errorf("bundle of %d bytes", n)
		}
	}
}

// The largest proposals, in the largest configured bundle, stay under the bound of the format.
func TestLargestBundleStaysInItsBound(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.ChainID, o.Organisation = strings.Repeat("c", 50), strings.Repeat("o", 63)
		o.Limits.BundleBytes = wire.BundleBytesMax - bundleOverhead
	})
	for range 2 {
		if _, err := f.g.Submit("bank", []*wire.Statement{sql(strings.Repeat("x", wire.ProposalBytesMax-250))}); err != nil {
			t.Fatal(err)
		}
	}
	f.submit("bank", 9)
	f.now = f.now.Add(time.Second)
	f.step()
	for _, b := range f.mempool.bundles {
		if n := proto.Size(b); n > wire.BundleBytesMax {
			t.Errorf("bundle of %d bytes, at most %d are allowed", n, wire.BundleBytesMax)
		}
	}
}

func TestRolesTakeTurns(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.BundleTransactions = 4 })
	f.submit("flood", 20)
	f.submit("bank", 1)
	f.submit("desk", 1)
	f.step()
	roles := map[string]int{}
	for _, tx := range f.mempool.bundles[0].Transactions {
		var p wire.Proposal
		must.Do(t, proto.Unmarshal(tx.Proposal.Proposal, &p))
		roles[p.Client.Role]++
	}
	if roles["bank"] != 1 || roles["desk"] != 1 || roles["flood"] != 2 {
		t.Fatalf("first bundle holds %v", roles)
	}
}

func TestOrderWithinARoleIsKept(t *testing.T) {
	f := newFixture(t, nil)
	want := f.submit("bank", 25)
	f.submit("desk", 3)
	f.now = f.now.Add(time.Second)
	f.step()
	f.now = f.now.Add(time.Second)
	f.step()
	var got []wire.TxID
	for _, b := range f.mempool.bundles {
		for _, tx := range b.Transactions {
			var p wire.Proposal
			must.Do(t, proto.Unmarshal(tx.Proposal.Proposal, &p))
			if p.Client.Role == "bank" {
				got = append(got, wire.TxIDOf(tx.Proposal.Proposal))
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatal("the transactions of one role changed places")
	}
}

func TestBackPressureIsAnErrorAndNothingIsLost(t *testing.T) {
	f := newFixture(t, nil)
	ids := f.submit("bank", 40)
	f.refusedShare("bank", 11)
	f.drain()
	ids = append(ids, f.submit("bank", 10)...)
	f.drain()
	f.refusedShare("bank", 1) // half of the queue is a role's share, though it is in bundles
	f.submit("desk", 49)
	f.submit("other", 1)
	e := f.refusedWith(StateFull, "other", 1)
	if e.Hint == "" || e.Detail == "" {
		t.Error("no detail or hint")
	}
	f.drain()
	f.decide(ids...)
	f.commit(ids...)
	f.submit("bank", 40)
	total := 0
	for _, n := range f.mempool.sizes() {
		total += n
	}
	if total != 100 {
		t.Fatalf("%d transactions broadcast, want 100", total)
	}
}

func TestQueuedBytesAreBounded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.PendingBytesMax = wire.ProposalBytesMax })
	big := sql(strings.Repeat("x", wire.ProposalBytesMax-1000))
	ids, err := f.g.Submit("bank", []*wire.Statement{big})
	must.Do(t, err)
	f.refusedWith(StateFull, "desk", 20)
	f.step()
	f.refusedWith(StateFull, "desk", 20) // broadcast, but not ordered
	f.decide(ids...)
	f.submit("desk", 20)
}

func TestFullMempoolIsTriedAgainUntilExpiry(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.ValidityBlocks, o.Limits.StallAfter = 5, time.Hour })
	f.mempool.answer = func(*wire.Bundle) error { return fmt.Errorf("checktx: %w", ErrFull) }
	ids := f.submit("bank", 1)
	wait := time.Duration(0)
	for i := range 10 {
		next := f.step()
		if d := next.Sub(f.now); d <= wait && d != retryMax {
			t.Fatalf("try %d: next in %v after %v, want a growing back-off", i, d, wait)
		} else {
			wait = d
		}
		f.now = next
	}
	if wait != retryMax {
		t.Fatalf("back-off ends at %v, want %v", wait, retryMax)
	}
	if f.mempool.offers != 10 {
		t.Fatalf("%d offers, want 10", f.mempool.offers)
	}
	f.step() // the eleventh offer; the next is due in a second
	f.submit("bank", 3)
	f.now = f.now.Add(100 * time.Millisecond)
	f.step()
	if f.mempool.offers != 11 {
		t.Fatal("new bundles are made while the mempool is full")
	}
	for range 4 {
		f.decide()
	}
	if _, done := f.outcome(ids[0]); done {
		t.Fatal("refused before its expiry")
	}
	f.decide() // height 15: the next block could not hold it
	r, done := f.outcome(ids[0])
	if !done || r.Block != 0 || r.Succeeded || r.SQLState != StateExpired {
		t.Fatalf("outcome %+v %v, want expired", r, done)
	}
	f.mempool.answer = nil
	f.now = f.now.Add(time.Minute)
	f.step()
	f.wantSizes() // the other three expired too: nothing is left to send
}

func TestRejectedBundleIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	f.mempool.answer = func(*wire.Bundle) error { return &RejectedError{Code: 3, Log: "unknown organisation"} }
	ids := f.submit("bank", 2)
	f.step()
	for _, id := range ids {
		r, done := f.outcome(id)
		if !done || r.SQLState != StateRefused || !strings.Contains(r.Message, "unknown organisation") {
			t.Fatalf("outcome %+v %v", r, done)
		}
	}
	if s := f.g.Stats(); s.Pending != 0 || s.Unordered != 0 || s.Refused != 2 {
		t.Fatalf("stats %+v", s)
	}
}

// G2: a bundle that waits too long is offered again; that the order then calls it a replay proves
// nothing.
func TestRebroadcastNeverRefusesWhatIsOrdered(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.StallAfter = time.Hour })
	ids := f.submit("bank", 1)
	next := f.step()
	if next.Sub(f.now) != 5*time.Second {
		t.Fatalf("rebroadcast in %v, want 5s", next.Sub(f.now))
	}
	f.mempool.answer = func(*wire.Bundle) error { return &RejectedError{Code: 1, Log: "replayed"} }
	f.now = next
	f.step()
	if f.mempool.offers != 2 {
		t.Fatalf("%d offers, want 2", f.mempool.offers)
	}
	if _, done := f.outcome(ids[0]); done {
		t.Fatal("refused although it may be in a block")
	}
	f.decide(ids...)
	f.g.Refused([]wire.TxResult{{ID: ids[0], SQLState: "55000", Message: "replayed"}})
	f.commit(ids...)
	if r, _ := f.outcome(ids[0]); !r.Succeeded {
		t.Fatalf("outcome %+v, want success", r)
	}
}

func TestOrderedTransactionsNeverExpire(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.ValidityBlocks = 2 })
	ids := f.submit("bank", 2)
	f.step()
	f.decide(ids[0])
	for range 5 {
		f.decide()
	}
	if _, done := f.outcome(ids[0]); done {
		t.Fatal("an ordered transaction has an outcome before the database committed it")
	}
	if r, done := f.outcome(ids[1]); !done || r.SQLState != StateExpired {
		t.Fatal("the other one did not expire")
	}
	f.commit(ids[0])
	if r, done := f.outcome(ids[0]); !done || !r.Succeeded {
		t.Fatal("no outcome")
	}
}

func TestRefusalOfTheOrderReachesTheClient(t *testing.T) {
	f := newFixture(t, nil)
	ids := f.submit("bank", 1)
	f.step()
	f.decide()
	f.g.Refused([]wire.TxResult{{ID: ids[0], SQLState: "40001", Message: "expired"}, {ID: wire.TxID{9}}})
	if r, done := f.outcome(ids[0]); !done || r.SQLState != "40001" || r.Block != 0 {
		t.Fatalf("outcome %+v", r)
	}
	if _, done := f.outcome(wire.TxID{9}); done {
		t.Fatal("a refusal of another organisation's transaction became an outcome")
	}
}

func TestCannotOrder(t *testing.T) {
	f := newFixture(t, nil)
	f.catchUp = true
	f.refusedWith(StateCannotOrder, "bank", 1)
	f.catchUp = false
	f.now = f.now.Add(time.Hour) // a quiet network makes no blocks: that is no stall
	ids := f.submit("bank", 1)
	f.submit("bank", 1)
	f.step()
	f.now = f.now.Add(3*time.Second + time.Millisecond)
	if e := f.refusedWith(StateCannotOrder, "bank", 1); !strings.Contains(e.Detail, "3s") {
		t.Errorf("detail %q", e.Detail)
	}
	if !f.g.Stats().Stalled {
		t.Error("not stalled")
	}
	f.decide()
	f.submit("bank", 1) // blocks are made again
	f.decide(ids...)
	f.g.Close()
	f.refusedWith(StateCannotOrder, "bank", 1)
}

func TestNoncesAndSequencesDoNotRepeatAfterARestart(t *testing.T) {
	a, b := newFixture(t, nil), newFixture(t, nil)
	if a.submit("bank", 1)[0] == b.submit("bank", 1)[0] {
		t.Fatal("two runs made the same transaction")
	}
	a.step()
	b.step()
	if a.mempool.bundles[0].Sequence == b.mempool.bundles[0].Sequence {
		t.Fatal("two runs use the same sequence")
	}
}

func TestSubmissionsAreChecked(t *testing.T) {
	parameters := func(n int) []*wire.Parameter {
		p := make([]*wire.Parameter, n)
		for i := range p {
			p[i] = &wire.Parameter{Text: "1"}
		}
		return p
	}
	for name, c := range map[string]struct {
		role  string
		s     *wire.Statement
		state string
	}{
		"no role":          {"", sql("SELECT 1"), StateMalformed},
		"long role":        {strings.Repeat("r", 64), sql("SELECT 1"), StateBound},
		"zero byte":        {"bank", sql("SELECT 1\x00"), StateMalformed},
		"not UTF-8":        {"bank", sql("SELECT '\xff'"), StateMalformed},
		"no SQL":           {"bank", sql(""), StateMalformed},
		"no kind":          {"bank", &wire.Statement{Sql: "SELECT 1"}, StateMalformed},
		"reserved kind":    {"bank", &wire.Statement{Kind: wire.Kind_KIND_GOVERNANCE, Sql: "x"}, StateUnsupported},
		"unknown kind":     {"bank", &wire.Statement{Kind: 5, Sql: "x"}, StateMalformed},
		"many parameters":  {"bank", &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "x", Parameters: parameters(1001)}, StateBound},
		"large":            {"bank", sql(strings.Repeat("x", wire.ProposalBytesMax)), StateBound},
		"null with a text": {"bank", &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "x", Parameters: []*wire.Parameter{{Null: true, Text: "1"}}}, StateMalformed},
	} {
		f := newFixture(t, nil)
		_, err := f.g.Submit(c.role, []*wire.Statement{sql("SELECT 1"), c.s})
		var e *Error
		if !errors.As(err, &e) || e.SQLState != c.state {
			t.Errorf("%s: %v, want SQLSTATE %s", name, err, c.state)
		}
		if s := f.g.Stats(); s.Pending != 0 {
			t.Errorf("%s: %d transactions of a refused submission are queued", name, s.Pending)
		}
	}
}

func TestBundlesAreSignedOverWhatIsSent(t *testing.T) {
	f := newFixture(t, nil)
	signed := make(chan *wire.SignedBundle, 1)
	f.g.opt.Broadcaster = broadcastFunc(func(raw []byte) error {
		var o wire.OrderedTx
		if err := proto.Unmarshal(raw, &o); err != nil {
			return err
		}
		signed <- o.GetBundle()
		return nil
	})
	f.submit("bank", 2)
	f.step()
	b := <-signed
	if !ed25519.Verify(testKey.Public().(ed25519.PublicKey), wire.BundleSignBytes("test", b.Bundle), b.Signature) {
		t.Fatal("signature does not verify")
	}
}

type broadcastFunc func([]byte) error

func (f broadcastFunc) Broadcast(_ context.Context, raw []byte) error { return f(raw) }

// While its key is away the gateway offers nothing and refuses nothing. The transactions go once
// the key signs again.
func TestTransactionsWaitForAKeyThatIsAway(t *testing.T) {
	f := newFixture(t, nil)
	f.away = errors.New("the token is away")
	waiting := f.submit("bank", 3)
	f.step()
	f.now = f.now.Add(2 * time.Second)
	f.step()
	f.wantSizes()
	if r, settled := f.outcome(waiting[0]); settled {
		t.Errorf("a transaction that waits for the key has an outcome: %v", r)
	}
	f.away = nil
	f.now = f.now.Add(2 * time.Second)
	f.step()
	f.wantSizes(3)
	f.mempool.signer(t, 0)
}

// When its key is replaced, the gateway signs again what waits to be ordered and offers that at
// once. It does the same with what the order refused for its old signature a moment before the
// gateway knew.
func TestAReplacedKeySignsAgainWhatWaits(t *testing.T) {
	f := newFixture(t, nil)
	f.submit("bank", 3)
	f.step()
	f.wantSizes(3)
	f.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32))
	f.decide()
	f.step()
	f.wantSizes(3, 3)
	if f.mempool.signer(t, 0).Equal(f.mempool.signer(t, 1)) {
		t.Error("offered again with the signature of the key that was replaced")
	}
	former := f.key
	f.mempool.answer = func(*wire.Bundle) error {
		if f.key.Equal(former) {
			f.key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))
			return &RejectedError{Code: 4, Log: "not by the gateway"}
		}
		return nil
	}
	late := f.submit("bank", 1)
	f.now = f.now.Add(time.Second)
	f.step()
	f.wantSizes(3, 3, 1)
	if r, settled := f.outcome(late[0]); settled {
		t.Errorf("a transaction whose bundle only has to be signed again is refused: %v", r)
	}
	f.key = nil
	f.refusedWith(StateRefused, "bank", 1)
}
