package effects

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// others are organisations by name, nodes and organisations at once: b, which breaks off or lies,
// and c, which tells the truth once it is willing. Each round of asking begins with Nodes.
type others struct {
	truth   backend.Backend
	willing atomic.Bool
	asked   atomic.Int32
}

func (o *others) Nodes() []string {
	o.asked.Add(1)
	return []string{"b", "c"}
}

func (o *others) Read(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Reading, error) {
	from, err := o.truth.Read(ctx, number, hash)
	switch {
	case err != nil:
	case node == "b":
		from = brokenOff{from}
	case !o.willing.Load():
		err = errUnwilling
	}
	return node, from, err
}

func (o *others) ReadPast(ctx context.Context, node string, _ uint64, _ wire.Hash) (string, backend.Past, error) {
	from, err := o.truth.ReadPast(ctx)
	switch {
	case err != nil:
	case !o.willing.Load():
		err = errUnwilling
	case node == "b":
		from = lyingPast{from}
	}
	return node, from, err
}

var errUnwilling = errors.New("not willing")

// lyingPast tells another block.
type lyingPast struct{ backend.Past }

func (lyingPast) Block(_ context.Context, _ uint64, _ wire.Hash, each func([]byte) error) error {
	return each([]byte("another"))
}

func TestBlocksKeptOtherwiseThanAgreedComeFromAnotherOrganisation(t *testing.T) {
	b := newBench(t)
	reached, watch := &others{truth: b.truth}, &named{}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Watch: watch, Config: Config{LookMS: 1}})
	b.play()
	b.play()
	b.committed(2)
	b.db.FalsifyPast(1, 2)
	b.until("another is asked, and the failure counted", func() bool { return watch.hasFailed("restore block: no help") })
	b.play() // whom nobody helps goes on
	b.committed(3)
	reached.willing.Store(true)
	b.until("the blocks are as agreed", func() bool { return len(b.db.FalsePast()) == 0 })
	b.play()
	b.committed(4)
}

// mute are organisations of which b tells nothing.
type mute struct {
	others
	unanswered atomic.Int32
}

func (o *mute) ReadPast(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Past, error) {
	if node == "b" {
		o.unanswered.Add(1)
		return "", nil, errUnwilling
	}
	return o.others.ReadPast(ctx, node, number, hash)
}

// A node that is cut off costs a wait for each question, during which no block is executed.
func TestANodeThatDoesNotAnswerIsAskedLastFromThenOn(t *testing.T) {
	b := newBench(t)
	reached := &mute{others: others{truth: b.truth}}
	reached.willing.Store(true)
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{LookMS: 1}})
	for range 5 {
		b.play()
	}
	b.committed(5)
	b.db.FalsifyPast(1, 2, 3, 4, 5)
	b.until("the blocks are as agreed", func() bool { return len(b.db.FalsePast()) == 0 })
	if got := reached.unanswered.Load(); got != 1 {
		t.Errorf("asked %d times, want once", got)
	}
}

type brokenOff struct{ backend.Reading }

func (brokenOff) Digests(context.Context, string, backend.Ranges, uint32) ([]backend.RangeDigest, error) {
	return nil, errors.New("connection lost")
}

func TestRowsComeFromAnotherOrganisation(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.until("the others are asked again", func() bool { return reached.asked.Load() > 1 })
	reached.willing.Store(true)
	b.committed(2)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "state" {
		t.Fatalf("cured by %q", got)
	}
}

func TestWhoGetsNoHelpIsExcluded(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{HelpAttempts: 3}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.state("excluded")
	if got := reached.asked.Load(); got != 3 {
		t.Fatalf("asked %d times, want 3", got)
	}
}

func TestAllBlocksAreExecutedAgainWhenNothingElseHelps(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.play()
	}
	b.committed(3)
	b.db.TamperUntil(backend.Full, "all")
	b.play()
	b.committed(4)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "full" {
		t.Fatalf("cured by %q", got)
	}
}

func TestStepsLeftOutAreNotTaken(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	reached.willing.Store(true)
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{Steps: []backend.Step{backend.Rebase, backend.Rows}}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.state("excluded")
	if got := reached.asked.Load(); got != 0 {
		t.Fatalf("asked %d times", got)
	}
}

// falseTeller tells what cannot be so; the database here refuses it as that.
type falseTeller struct{ backend.Reading }

func (falseTeller) Tables() []backend.TableState {
	return []backend.TableState{{Table: "public.nowhere"}}
}

// refusing calls tables that there are not a lie, as PostgreSQL's does.
type refusing struct{ backend.Backend }

func (r refusing) Restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]backend.RowDeviation, error) {
	if from.Tables()[0].Table == "public.nowhere" {
		return nil, backend.ErrFalse
	}
	return r.Backend.Restore(ctx, from, number, certified, deviating, found)
}

// dawdling never ends a block.
type dawdling struct{ backend.Past }

func (dawdling) Block(ctx context.Context, _ uint64, _ wire.Hash, _ func([]byte) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// liars are organisations that lie or dawdle, and c, which tells the truth once it is willing;
// always, of the past.
type liars struct{ others }

func (o *liars) Nodes() []string {
	o.asked.Add(1)
	return []string{"liar", "dawdler", "c"}
}

func (o *liars) Read(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Reading, error) {
	from, err := o.truth.Read(ctx, number, hash)
	switch {
	case err != nil:
	case node == "liar":
		from = falseTeller{from}
	case node == "dawdler", !o.willing.Load():
		err = errUnwilling
	}
	return node, from, err
}

func (o *liars) ReadPast(ctx context.Context, node string, _ uint64, _ wire.Hash) (string, backend.Past, error) {
	from, err := o.truth.ReadPast(ctx)
	switch {
	case err != nil:
	case node == "liar":
		from = lyingPast{from}
	case node == "dawdler":
		from = dawdling{from}
	}
	return node, from, err
}

// named notes who lied, and which operations failed.
type named struct {
	Watch
	mu     sync.Mutex
	lied   map[string]int
	failed []string
}

func (n *named) Accused(a accuse.Accusation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lied == nil {
		n.lied = map[string]int{}
	}
	n.lied[a.Organisation()]++
}

func (n *named) Ended(operation string, _ time.Duration, f Failure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f != Fine {
		n.failed = append(n.failed, operation+": "+f.String())
	}
}

func (n *named) Happened(Report) {}

func (n *named) hasFailed(how string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.failed, how)
}

func (n *named) of(organisation string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lied[organisation]
}

// An organisation that tells what cannot be so is named, does not take recovery to a further step,
// and does not keep the next one from being asked.
func TestWhoToldFalselyIsNamedAndTheNextOneAsked(t *testing.T) {
	b := newBench(t)
	reached, watch := &liars{others{truth: b.truth}}, &named{}
	b.stop()
	b.start(Options{Backend: refusing{b.memory}, Others: reached, Watch: watch, Config: Config{Steps: []backend.Step{backend.Rows, backend.State, backend.Full}, HelpAttempts: 1000}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.until("it is asked again, and goes no further", func() bool { return reached.asked.Load() > 2 && watch.of("liar") > 2 })
	if s := b.shell.Status(); s.State != "recovering" || !strings.Contains(s.Reason, `"liar"`) {
		t.Errorf("status %+v", s)
	}
	reached.willing.Store(true)
	b.committed(2)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "state" || watch.of("c") > 0 {
		t.Fatalf("cured by %q, and an honest one was named %d times", got, watch.of("c"))
	}
}

// One that dawdles has a part of the time that a block may take, and the next one is asked within
// the rest.
func TestOneThatDawdlesLeavesTimeForTheNext(t *testing.T) {
	b := newBench(t)
	reached, watch := &liars{others{truth: b.truth}}, &named{}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Watch: watch, PastEach: 20 * time.Millisecond, Config: Config{LookMS: 1}})
	b.play()
	b.committed(1)
	b.db.FalsifyPast(1)
	b.until("the block is as agreed", func() bool { return len(b.db.FalsePast()) == 0 })
	if watch.of("liar") == 0 || watch.of("dawdler") > 0 {
		t.Errorf("named: %v", watch.lied)
	}
}

// failing is a database that takes nothing in, for a reason of its own.
type failing struct {
	backend.Backend
	heals *atomic.Bool
}

var errReadOnly = errors.New("cannot execute INSERT in a read-only transaction (SQLSTATE 25006)")

func (f failing) Restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]backend.RowDeviation, error) {
	if !f.heals.Load() {
		return nil, errReadOnly
	}
	return f.Backend.Restore(ctx, from, number, certified, deviating, found)
}

// A failure of this database is told as that, names nobody, and is tried again.
func TestAFailureOfThisDatabaseAccusesNobody(t *testing.T) {
	b := newBench(t)
	reached, watch, heals := &others{truth: b.truth}, &named{}, &atomic.Bool{}
	reached.willing.Store(true)
	b.stop()
	b.start(Options{Backend: failing{b.memory, heals}, Others: truthful{reached}, Watch: watch, Config: Config{Steps: []backend.Step{backend.State}, HelpAttempts: 2}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.until("it is asked again and again, and says why", func() bool {
		return reached.asked.Load() > 3 && strings.Contains(b.shell.Status().Reason, "this organisation's database cannot go on") &&
			strings.Contains(b.shell.Status().Reason, errReadOnly.Error())
	})
	heals.Store(true)
	b.committed(2)
	if len(watch.lied) > 0 {
		t.Errorf("named: %v", watch.lied)
	}
}

// truthful are organisations that all tell the truth.
type truthful struct{ *others }

func (o truthful) Read(ctx context.Context, node string, number uint64, hash wire.Hash) (string, backend.Reading, error) {
	from, err := o.truth.Read(ctx, number, hash)
	return node, from, err
}
