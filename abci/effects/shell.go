package effects

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Outcomes receives the outcomes of transactions, in block order. Its methods must not wait: the
// event loop calls them.
type Outcomes interface {
	// Committed: the organisation's database holds the block, with these results.
	Committed(block *wire.OrderedBlock, results []wire.TxResult)
	// Refused: the order refused these transactions; they were never executed.
	Refused(results []wire.TxResult)
}

// Others reaches the databases of the other organisations. After an operation that fails, another
// organisation is asked.
type Others interface {
	// Nodes are those that can be asked now.
	Nodes() []string
	// Read opens a node's tables as of the end of the block with this hash, for reading. It returns
	// the organisation that signs for the node.
	Read(ctx context.Context, node string, number uint64, hash wire.Hash) (organisation string, from backend.Reading, err error)
	// ReadPast opens a node's stored blocks, for reading.
	ReadPast(ctx context.Context, node string, number uint64, hash wire.Hash) (organisation string, from backend.Past, err error)
}

// Memory keeps an exclusion over restarts, since only the operator ends it. Reason is never empty.
type Memory interface {
	Excluded() (reason string, err error) // empty: not excluded
	Exclude(reason string) error
	Rejoin() error
}

// Watch receives what a shell does, for logs and metrics. Its methods must not wait.
type Watch interface {
	// Ended reports an operation on the database or the store, its time and its result.
	Ended(operation string, took time.Duration, failure Failure)
	// Happened receives each report that is logged.
	Happened(r Report)
	// Accused reports an organisation that sent false data for recovery.
	Accused(a accuse.Accusation)
}

// Options configures a shell.
type Options struct {
	Config   Config
	Backend  backend.Backend // nil: the organisation only orders and votes nothing
	Outcomes Outcomes
	Others   Others // nil: recovery does without
	Memory   Memory // nil: an exclusion ends with the process
	Watch    Watch  // nil: nobody measures
	// Ran receives the number of executed transactions, their time, and for each organisation by
	// how much its transactions exceeded quick ones. It must not wait. nil: not called.
	Ran      func(transactions int, took time.Duration, slow map[string]time.Duration)
	PastEach time.Duration // of one organisation for a block as it is kept; 0: a quarter of what the block may take
	Logger   *slog.Logger
}

// Status is the state of the effect consensus, for people.
type Status struct {
	State string // as StatusResponse.state in spec/proto/node.proto
	// Reason explains the state: the cause of an exclusion or of this machine's failure, the next
	// step of recovery, the adopted block, or the organisation that sent false data.
	Reason        string
	LastOrdered   uint64
	LastCertified uint64
	LastCommitted uint64
	CommittedHash wire.Hash
	// Stored is the block up to which the database holds certificates. Known tells that the
	// database was asked where it stands, and answered.
	Stored     uint64
	Known      bool
	Blocks     uint64 // committed since the start
	Deviations uint64 // since the start, cured or ended in exclusion
}

// Shell runs a Core: events come from the application and from the operations that the worker ends,
// actions go to the database, the order's store and the waiting clients. Its methods may be called
// from any goroutine.
type Shell struct {
	opt    Options
	source wire.Source
	log    *slog.Logger
	start  time.Time

	inbox  chan struct{} // holds a token while items wait
	jobs   chan job
	ended  chan struct{} // closed when the loop has ended
	asking *askingOrder  // the worker's

	mu      sync.Mutex // guards all below; held for moments only
	core    *Core
	items   []item
	voted   []wire.EffectVote // before the start
	accused accuse.Accusation // of the last organisation that sent false data
	// trouble is the reason of the last failure of this database or its machine.
	trouble string
	taking  taking // while a ledger is taken over

	// Owned by the event loop.
	questions []question
	cancel    map[wire.Key]context.CancelFunc
	last      backend.Execution // of the newest execution, for its answer
	lastKey   wire.Key
	blocks    uint64
}

// item is one entry of the loop's queue: an event, a question, refused transactions, or several of
// them.
type item struct {
	event    Event
	ask      *question
	refused  []wire.TxResult
	executed *backend.Execution // of the execution with this key
	key      wire.Key
	gaveUp   chan<- bool // holds one: whether the vote of a GiveUp was cast
}

// question is a Vote that waits.
type question struct {
	ctx   context.Context
	key   wire.Key
	reply chan []byte // holds one
}

// New makes a shell. Attach gives it the order's store, then Run makes it work.
func New(opt Options) (*Shell, error) {
	if opt.PastEach == 0 {
		opt.PastEach = pastLimit / 4
	}
	opt.Config.OrderingOnly = opt.Config.OrderingOnly || opt.Backend == nil
	core, err := NewCore(opt.Config)
	if err != nil {
		return nil, err
	}
	if opt.Outcomes == nil || opt.Logger == nil {
		return nil, errors.New("effects: outcomes and logger are required")
	}
	return &Shell{
		opt: opt, core: core, log: opt.Logger, start: time.Now(),
		inbox: make(chan struct{}, 1), jobs: make(chan job, 1), ended: make(chan struct{}),
		cancel: map[wire.Key]context.CancelFunc{}, asking: newAskingOrder(rand.Uint64()),
	}, nil
}

// Attach gives the shell the stores of the order. It comes before Run; events may come earlier.
func (s *Shell) Attach(source wire.Source) { s.source = source }

// Voted tells what this organisation voted before the start on executions that may still be voted
// on (E5). It comes before Run.
func (s *Shell) Voted(votes []wire.EffectVote) { s.voted = votes }

// VotesUnknown tells on which executions this organisation may have voted by a node that is lost,
// and what the order shows of its votes (E5). It may come before Run, and again.
func (s *Shell) VotesUnknown(unknown Unknown, voted []wire.EffectVote) {
	s.put(item{event: VotesUnknown{Unknown: unknown, Voted: voted}})
}

// Run works until ctx ends, then rolls back what is open and returns nil. It owns the worker and
// waits for it.
func (s *Shell) Run(ctx context.Context) error {
	if s.source == nil {
		return errors.New("effects: run before attach")
	}
	started := Started{Ordered: s.source.LastOrdered(), Certified: s.source.LastCertified(), Voted: s.voted}
	if s.opt.Memory != nil {
		var err error
		if started.Excluded, err = s.opt.Memory.Excluded(); err != nil {
			return err
		}
	}
	var worker sync.WaitGroup
	worker.Go(func() { s.work(ctx) })
	s.putFirst(item{event: started})
	s.loop(ctx)
	worker.Wait()
	if s.opt.Backend == nil {
		return nil
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer stop()
	if err := s.opt.Backend.Rollback(end); err != nil {
		s.log.Warn("rolling back at the end failed; the server will do it", "error", err)
	}
	return nil
}

// Proposed starts speculative execution (app.Effects).
func (s *Shell) Proposed(block *wire.OrderedBlock, certificate *wire.Certificate) {
	s.put(item{event: Proposed{Block: block, Certificate: certificate}})
}

// Vote returns this organisation's encoded vote for an execution, or nil when there is none by the
// end of ctx or when waiting is not worth it (app.Effects).
func (s *Shell) Vote(ctx context.Context, block *wire.OrderedBlock) []byte {
	if block == nil || s.opt.Backend == nil {
		return nil
	}
	q := question{ctx: ctx, key: block.Key(), reply: make(chan []byte, 1)}
	s.put(item{event: Proposed{Block: block}, ask: &q})
	select {
	case vote := <-q.reply:
		return vote
	case <-ctx.Done():
		return nil
	case <-s.ended:
		return nil
	}
}

// Seen reports a live vote of another validator (app.Effects).
func (s *Shell) Seen(organisation string, vote wire.EffectVote) {
	s.put(item{event: VoteSeen{Organisation: organisation, Vote: vote}})
}

// Decided reports what a decided order block changed (app.Effects).
func (s *Shell) Decided(d wire.Decision) {
	s.put(item{
		event:   Decided{Height: d.Height, Ordered: d.Ordered, Certificate: d.Certificate},
		refused: d.Refused,
	})
}

// Hash returns the LedgerBlockHash this node can reveal for an execution (app.Effects).
func (s *Shell) Hash(key wire.Key) (wire.Hash, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Hash(key)
}

// Rejoin lets an excluded organisation try again: its tables are repaired, then it goes on.
func (s *Shell) Rejoin() { s.put(item{event: Rejoin{}}) }

// GiveUp casts a stuck vote at once about a transaction of the pending block: the one with this id,
// or, without an id, at this index of this block. It returns the block and index once the vote is
// cast. False: the block is not being executed here, or this organisation has voted on it.
func (s *Shell) GiveUp(number uint64, index uint32, id []byte) (uint64, uint32, bool) {
	s.mu.Lock()
	if len(id) > 0 {
		number = s.core.position.Number + 1
	}
	block, may := s.core.mayGiveUp(number)
	s.mu.Unlock()
	if !may {
		return 0, 0, false
	}
	if len(id) > 0 {
		at := slices.IndexFunc(block.IDs, func(known wire.TxID) bool { return bytes.Equal(known[:], id) })
		if at < 0 {
			return 0, 0, false
		}
		index = uint32(at)
	}
	if int(index) >= len(block.IDs) {
		return 0, 0, false
	}
	gaveUp := make(chan bool, 1)
	s.put(item{event: GiveUp{Key: block.Key(), Index: index}, gaveUp: gaveUp})
	select {
	case cast := <-gaveUp:
		return number, index, cast
	case <-s.ended:
		return 0, 0, false
	}
}

// Status tells how this organisation's database stands.
func (s *Shell) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.core
	reason := c.excluded + c.announced
	if reason == "" && c.State() == "database_down" {
		reason = s.trouble
	}
	if reason == "" && c.stall.at(c.position.Number+1) {
		reason = c.stall.why
	}
	if reason == "" && c.failures > 0 && s.trouble != "" {
		reason = "this organisation's database cannot go on; it is tried again: " + s.trouble
	}
	if reason == "" {
		reason = c.adoption.reason()
	}
	if reason == "" && c.joining.wanted {
		reason = cmp.Or(s.taking.reason(), c.joining.reason())
	}
	reason = cmp.Or(reason, s.accused.Reason())
	return Status{
		State: c.State(), Reason: reason, LastOrdered: c.ordered, LastCertified: c.certified,
		LastCommitted: c.position.Number, CommittedHash: c.position.Hash, Stored: c.position.Certified, Known: c.known, Blocks: s.blocks, Deviations: c.deviations,
	}
}

func (s *Shell) put(it item) {
	s.mu.Lock()
	s.items = append(s.items, it)
	s.mu.Unlock()
	s.wake()
}

// putFirst puts an item before those that came before Run.
func (s *Shell) putFirst(it item) {
	s.mu.Lock()
	s.items = append([]item{it}, s.items...)
	s.mu.Unlock()
	s.wake()
}

func (s *Shell) wake() {
	select {
	case s.inbox <- struct{}{}:
	default:
	}
}

// loop takes the items one by one until ctx ends.
func (s *Shell) loop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, cancel := range s.cancel {
				cancel()
			}
			close(s.ended)
			return
		case <-s.inbox:
		case <-timer.C:
			s.put(item{event: Tick{}})
		}
		for _, it := range s.takeItems() {
			s.handle(ctx, it)
		}
		s.mu.Lock()
		at := s.core.DeadlineMS()
		s.mu.Unlock()
		if at > 0 {
			timer.Reset(max(0, time.Duration(at-s.nowMS())*time.Millisecond))
		} else {
			timer.Stop()
		}
	}
}

func (s *Shell) takeItems() []item {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.items
	s.items = nil
	return items
}

func (s *Shell) nowMS() int64 { return time.Since(s.start).Milliseconds() + 1 }

func (s *Shell) handle(ctx context.Context, it item) {
	if it.executed != nil {
		s.last, s.lastKey = *it.executed, it.key
	}
	if len(it.refused) > 0 {
		s.opt.Outcomes.Refused(it.refused)
	}
	if it.ask != nil {
		s.questions = append(s.questions, *it.ask)
	}
	s.mu.Lock()
	if it.gaveUp != nil {
		key := it.event.(GiveUp).Key
		block, may := s.core.mayGiveUp(key.Number)
		it.gaveUp <- may && block.Key() == key
	}
	actions := s.core.Step(s.nowMS(), it.event)
	s.answerQuestions()
	s.mu.Unlock()
	for _, a := range actions {
		s.act(ctx, a)
	}
}

// answerQuestions replies to the Votes that need not wait any longer. Called with mu held.
func (s *Shell) answerQuestions() {
	s.questions = keep(s.questions, func(q question) bool {
		vote, more := s.core.Vote(q.key)
		if vote == nil && more {
			return q.ctx.Err() == nil
		}
		var raw []byte
		if vote != nil {
			raw = vote.Encode()
		}
		q.reply <- raw
		return false
	})
}

// act does what the core asks; an operation goes to the worker, which is free, since one runs at a
// time (E4).
func (s *Shell) act(ctx context.Context, a Action) {
	switch a := a.(type) {
	case Cancel:
		if cancel := s.cancel[a.Key]; cancel != nil {
			cancel()
		}
	case Answer:
		s.answer(a.Block)
	case Report:
		s.remember(a)
		s.write(a)
		if s.opt.Watch != nil {
			s.opt.Watch.Happened(a)
		}
	case Execute:
		clear(s.cancel)
		run, cancel := context.WithCancel(ctx)
		s.cancel[a.Block.Key()] = cancel
		s.jobs <- job{operation: a, ctx: run, done: cancel}
	case operation:
		s.jobs <- job{operation: a, ctx: ctx, done: func() {}}
	}
}

func (s *Shell) answer(b *wire.OrderedBlock) {
	s.mu.Lock()
	s.blocks++
	s.mu.Unlock()
	if s.lastKey != b.Key() {
		s.log.Error("results of a committed block are gone", "block", b.Number) // cannot happen: no block is executed between COMMIT and its answer
		return
	}
	s.opt.Outcomes.Committed(b, s.last.Results)
	s.last = backend.Execution{}
}

// remember keeps exclusions and their ends.
func (s *Shell) remember(r Report) {
	if s.opt.Memory == nil {
		return
	}
	var err error
	switch r.What {
	case NodeExcluded:
		err = s.opt.Memory.Exclude(r.Reason)
	case OperatorRejoins:
		err = s.opt.Memory.Rejoin()
	}
	if err != nil {
		s.log.Error("an exclusion or its end is forgotten at the next start", "error", err)
	}
}

// write logs an incident: a block at debug, what an operator has to see at warn or error.
func (s *Shell) write(r Report) {
	level := slog.LevelWarn
	switch r.What {
	case BlockCommitted:
		level = slog.LevelDebug
	case DatabaseBack, OperatorRejoins:
		level = slog.LevelInfo
	case NodeExcluded:
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.Uint64("block", r.Number)}
	add := func(when bool, a slog.Attr) {
		if when {
			attrs = append(attrs, a)
		}
	}
	add(r.Round > 0, slog.Uint64("effect_round", uint64(r.Round)))
	add(r.Expected != wire.Hash{}, slog.String("expected", fmt.Sprintf("%x", r.Expected[:8])))
	add(r.Found != wire.Hash{}, slog.String("found", fmt.Sprintf("%x", r.Found[:8])))
	add(r.Rows > 0, slog.Int("rows", r.Rows))
	add(r.What == TransactionStuck || r.What == MachineFails, slog.Int("transaction", int(r.Index)))
	add(r.TookMS > 0, slog.Int64("took_ms", r.TookMS))
	add(r.Reason != "", slog.String("reason", r.Reason))
	s.log.LogAttrs(context.Background(), level, string(r.What), attrs...)
}
