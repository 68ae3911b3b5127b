package effects

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// bench is one organisation's shell on a database in memory, with an order that the test plays, and
// a second database that shows what the others compute.
type bench struct {
	*testing.T
	shell  *Shell
	db     *backendtest.Database
	memory *backendtest.Memory
	truth  *backendtest.Memory
	source *playedOrder
	sink   *sink
	stop   func()
}

type playedOrder struct {
	mu     sync.Mutex
	blocks []*wire.OrderedBlock
	certs  []*wire.Certificate
}

func (o *playedOrder) LastOrdered() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return uint64(len(o.blocks))
}

func (o *playedOrder) LastCertified() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return uint64(len(o.certs))
}

func (o *playedOrder) Ordered(n uint64) (*wire.OrderedBlock, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.blocks[n-1], nil
}

func (o *playedOrder) Certificate(n uint64) (*wire.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.certs[n-1], nil
}

type sink struct {
	mu        sync.Mutex
	committed []uint64
	results   []wire.TxResult
	refused   []wire.TxResult
}

func (s *sink) Committed(b *wire.OrderedBlock, results []wire.TxResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed, s.results = append(s.committed, b.Number), append(s.results, results...)
}

func (s *sink) Refused(results []wire.TxResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, results...)
}

func (s *sink) answered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.committed)
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, db: backendtest.NewDatabase(), source: &playedOrder{}, sink: &sink{}}
	b.memory = backendtest.Open(b.db, 200*time.Millisecond)
	b.truth = backendtest.Open(backendtest.NewDatabase(), time.Second)
	b.start(Options{Backend: b.memory})
	return b
}

func (b *bench) start(opt Options) {
	opt.Config.Organisation = "a"
	opt.Config.BackoffMinMS, opt.Config.BackoffMaxMS = 5, 20
	opt.Outcomes, opt.Logger = b.sink, slog.New(slog.NewTextHandler(io.Discard, nil))
	shell, err := New(opt)
	if err != nil {
		b.Fatal(err)
	}
	shell.Attach(b.source)
	shell.asking.wasNoHelp("c") // it is asked last
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- shell.Run(ctx) }()
	b.shell = shell
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("run: %v", err)
		}
	})
	b.Cleanup(b.stop)
}

// until polls, at most ten seconds.
func (b *bench) until(what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain until %s: %+v", what, b.shell.Status())
		}
	}
}

func (b *bench) state(want string) {
	b.Helper()
	b.until("the state is "+want, func() bool { return b.shell.Status().State == want })
}

func (b *bench) committed(n uint64) {
	b.Helper()
	b.until("a block is committed", func() bool { return b.shell.Status().LastCommitted == n && b.sink.answered() >= int(n) })
}

// next makes the block after the last decided one.
func (b *bench) next() *wire.OrderedBlock {
	n := b.source.LastOrdered() + 1
	return &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: n, Height: int64(2*n - 1), OrderHash: wire.Hash{byte(n)}, IDs: []wire.TxID{{byte(n)}}}
}

func (b *bench) vote(block *wire.OrderedBlock, limit time.Duration) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return b.shell.Vote(ctx, block)
}

// honest is what the other organisations compute for a block; they commit it.
func (b *bench) honest(block *wire.OrderedBlock) wire.Hash {
	ctx := context.Background()
	at, err := b.truth.Position(ctx)
	if err == nil {
		_, err = b.truth.Execute(ctx, block, at.Hash)
	}
	if err == nil {
		err = b.truth.Commit(ctx)
	}
	if err == nil {
		at, err = b.truth.Position(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
	return at.Hash
}

func (b *bench) decide(block *wire.OrderedBlock) {
	b.source.mu.Lock()
	b.source.blocks = append(b.source.blocks, block)
	b.source.mu.Unlock()
	b.shell.Decided(wire.Decision{Height: block.Height, Ordered: block})
}

func (b *bench) certify(block *wire.OrderedBlock, hash wire.Hash) {
	c := &wire.Certificate{Number: block.Number, Round: block.Round, Hash: hash}
	b.source.mu.Lock()
	b.source.certs = append(b.source.certs, c)
	b.source.mu.Unlock()
	b.shell.Decided(wire.Decision{Height: block.Height + 1, Certificate: c})
}

// play orders, executes and certifies the next block, as a quiet network does.
func (b *bench) play() {
	b.Helper()
	block := b.next()
	b.shell.Proposed(block, nil)
	b.decide(block)
	b.certify(block, b.honest(block))
}

func TestLiveVotesCommitBeforeTheCertificate(t *testing.T) {
	b := newBench(t)
	b.state("serving")
	block := b.next()
	b.shell.Proposed(block, nil)
	raw := b.vote(block, time.Minute)
	hash := b.honest(block)
	if vote, err := wire.DecodeEffectVote(raw); err != nil || !vote.IsFor("a", hash) || vote.Key() != block.Key() {
		t.Fatalf("vote %x (%v), want one for %x", raw, err, hash)
	}
	b.decide(block)
	b.shell.Seen("b", wire.NewEffectsVote(block.Key(), "b", hash))
	b.shell.Seen("b", wire.NewEffectsVote(block.Key(), "b", hash)) // repeated, still one organisation
	b.state("executing")
	b.shell.Seen("c", wire.NewEffectsVote(block.Key(), "c", hash))
	b.committed(1)
	if got := b.sink.results; len(got) != 1 || got[0].ID != block.IDs[0] || !got[0].Succeeded {
		t.Fatalf("answered %+v", got)
	}
	b.certify(block, hash)
	b.until("the certificate is stored", func() bool {
		p, err := b.memory.Position(context.Background())
		return err == nil && p.Certified == 1
	})
	if got, ok := b.shell.Hash(block.Key()); !ok || got != hash {
		t.Fatalf("reveals %x, %v", got, ok)
	}
}

func TestADeviatingDatabaseRepairsItself(t *testing.T) {
	b := newBench(t)
	b.play()
	b.committed(1)
	b.db.Tamper("a row")
	b.play()
	b.committed(2)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "repair" {
		t.Fatalf("cured by %q", got)
	}
	if got := b.shell.Status(); got.Deviations != 1 || got.CommittedHash != b.source.certs[1].Hash {
		t.Fatalf("status %+v", got)
	}
}

func TestBeyondRepairExcludesUntilRejoin(t *testing.T) {
	b := newBench(t)
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.state("excluded")
	if vote := b.vote(b.next(), time.Minute); vote != nil {
		t.Fatalf("excluded, it votes %x", vote)
	}
	b.play()
	if got := b.shell.Status(); got.State != "excluded" || got.LastCommitted != 1 || got.Reason == "" {
		t.Fatalf("status %+v", got)
	}
	b.db.Tamper("all") // the operator restored the history
	b.db.RestoreHistory()
	b.shell.Rejoin()
	b.committed(3)
}

func TestADatabaseThatIsDownIsCaughtUp(t *testing.T) {
	b := newBench(t)
	b.play()
	b.committed(1)
	b.db.Down(true)
	b.play()
	b.state("database_down")
	if reason := b.shell.Status().Reason; reason == "" {
		t.Error("the status does not say why")
	}
	if vote := b.vote(b.next(), time.Minute); vote != nil {
		t.Fatalf("without a database it votes %x", vote)
	}
	for range 20 {
		b.play()
	}
	b.db.Down(false)
	b.committed(22)
	b.state("serving")
}

func TestALostAnswerToCommitIsAskedFor(t *testing.T) {
	b := newBench(t)
	b.db.LoseCommit()
	b.play()
	b.committed(1)
	b.play()
	b.committed(2)
	if got := b.sink.committed; len(got) != 2 {
		t.Fatalf("answered %v", got)
	}
}

func TestANewProposalReplacesTheOneInExecution(t *testing.T) {
	b := newBench(t)
	b.state("serving")
	b.db.Delay(time.Hour)
	first, second := b.next(), b.next()
	second.OrderHash = wire.Hash{99}
	b.shell.Proposed(first, nil)
	if vote := b.vote(first, 20*time.Millisecond); vote != nil {
		t.Fatalf("voted %x in no time", vote)
	}
	b.state("executing")
	b.db.Delay(0)
	if vote := b.vote(second, time.Minute); vote == nil {
		t.Fatal("no vote for the second proposal")
	}
}

func TestAStuckTransactionIsVoted(t *testing.T) {
	b := newBench(t)
	b.state("serving")
	b.db.StickAt(7, true)
	block := b.next()
	vote, err := wire.DecodeEffectVote(b.vote(block, time.Minute))
	must.Do(t, err)
	if i, stuck := vote.StuckAt(); !stuck || i != 7 {
		t.Fatalf("vote %+v, want stuck at 7", vote)
	}
	b.decide(block)
	b.db.StickAt(0, false)
	next := *block
	next.Round, next.Quarantined = 1, []uint32{0}
	b.shell.Decided(wire.Decision{Height: 2, Ordered: &next})
	b.until("it votes in the next round", func() bool { return b.vote(&next, time.Second) != nil })
}

func TestARestartedNodeGoesOnWhereTheDatabaseIs(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.play()
	}
	b.committed(3)
	b.stop()
	must.Do(t, b.memory.Close())
	block := b.next() // decided while the node was down
	b.source.blocks = append(b.source.blocks, block)
	b.source.certs = append(b.source.certs, &wire.Certificate{Number: 4, Hash: b.honest(block)})
	b.start(Options{Backend: backendtest.Open(b.db, time.Second)})
	b.committed(4)
}

func TestAnOrderingOnlyNodeVotesNothing(t *testing.T) {
	b := newBench(t)
	b.stop()
	b.start(Options{})
	b.state("ordering_only")
	if vote := b.vote(b.next(), time.Minute); vote != nil {
		t.Fatalf("votes %x", vote)
	}
	b.shell.Decided(wire.Decision{Refused: []wire.TxResult{{SQLState: "57014"}}})
	b.until("the refusal is told", func() bool {
		b.sink.mu.Lock()
		defer b.sink.mu.Unlock()
		return len(b.sink.refused) == 1
	})
}

func TestNothingIsLeftAfterRun(t *testing.T) {
	before := runtime.NumGoroutine()
	b := newBench(t)
	b.state("serving")
	b.db.Delay(time.Hour)
	got := make(chan []byte, 1)
	go func() { got <- b.vote(b.next(), time.Minute) }()
	b.state("executing")
	b.stop()
	if vote := <-got; vote != nil {
		t.Fatalf("votes %x", vote)
	}
	b.until("all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}
