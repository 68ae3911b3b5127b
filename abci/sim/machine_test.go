package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/node"
)

// machine has a home and, while it runs, a node.
type machine struct {
	of     *member
	number int // in its world
	home   config.Home
	id     string
	log    tail
	clock  atomic.Int64 // how far its clock is from the others', in nanoseconds
	seen   atomic.Int64 // the newest time of an order block that it judged or decided
	behind atomic.Bool  // its node ended because its clock is behind

	cancel context.CancelFunc // nil: it does not run
	done   chan error

	mu     sync.Mutex // guards all below
	wakes  *sync.Cond
	paused bool
	dead   bool // it signs nothing, and nothing leaves it
}

func (m *machine) String() string { return fmt.Sprintf("%s (machine %d)", m.of.name, m.number) }

func (m *machine) address() string { return m.of.world.address(m.number) + ":26656" }

// tail keeps the end of a log.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailBytes = 128 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 2*tailBytes {
		t.buf.Next(t.buf.Len() - tailBytes)
	}
	return t.buf.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

// stuckAfter is how long an execution may take before its organisation votes that it does not end.
const stuckAfter = 100 * time.Millisecond

// start starts the node and waits until it takes requests. A node whose clock is behind would end.
func (m *machine) start() error {
	if time.Duration(m.clock.Load()) < -tolerance {
		return nil
	}
	c, err := config.Load(string(m.home))
	if err != nil {
		return err
	}
	c.Database.DSN = "host=a,b" // so that the database is tried again every two seconds
	c.HTTP.Listen, c.Metrics.Listen, c.Explorer.Listen = "", "", ""
	c.Network.Listen, c.Network.StrictAddresses = m.address(), false
	if c.Network.Peers, err = m.of.world.peersOf(m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	opt := node.Options{
		Home: m.home, Config: c, Version: "test", Ready: func() { close(ready) }, Backend: backendtest.Open(m.of.db, stuckAfter),
		Log:         slog.New(slog.NewTextHandler(&m.log, nil)),
		Signer:      func(inner types.PrivValidator) types.PrivValidator { return hand{inner, m} },
		Application: func(inner abci.Application) abci.Application { return watch{inner, m, cancel} },
	}
	m.behind.Store(false)
	go func() { done <- node.Run(ctx, opt) }()
	m.cancel, m.done = cancel, done
	select {
	case <-ready:
		return nil
	case err := <-done:
		return m.ended(err)
	}
}

// ended is told how the node ended.
func (m *machine) ended(err error) error {
	m.cancel()
	m.cancel = nil
	if err != nil && !m.behind.Load() {
		return fmt.Errorf("%s ended: %w", m, err)
	}
	return nil
}

// runs tells that the node runs.
func (m *machine) runs() (bool, error) {
	if m.cancel == nil {
		return false, nil
	}
	select {
	case err := <-m.done:
		return false, m.ended(errors.Join(err, errors.New("nobody stopped it")))
	default:
		return true, nil
	}
}

// stop stops the node in order, if it runs.
func (m *machine) stop() error {
	if m.cancel == nil {
		return nil
	}
	m.pause(false)
	m.cancel()
	return m.ended(<-m.done)
}

// kill ends the node as a loss of power does: from now on nothing leaves the machine, and nothing
// is signed. Its disk is that of an orderly end.
func (m *machine) kill() error {
	m.die(true)
	defer m.die(false)
	return m.stop()
}

func (m *machine) die(dead bool) {
	m.mu.Lock()
	m.dead = dead
	m.mu.Unlock()
	m.of.world.setLinks()
}

// pause stops the clock of the machine's process, as SIGSTOP does, or lets it go on.
func (m *machine) pause(paused bool) {
	m.mu.Lock()
	m.paused = paused
	m.wakes.Broadcast()
	m.mu.Unlock()
	m.of.world.setLinks()
}

// way is what the machine's links do.
func (m *machine) way() way {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.dead:
		return cut
	case m.paused:
		return held
	}
	return open
}

var errDead = errors.New("this machine is lost")

// wake waits while the machine is paused.
func (m *machine) wake() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.paused {
		m.wakes.Wait()
	}
	if m.dead {
		return errDead
	}
	return nil
}

// now is the time of a signature by the machine's clock, as CometBFT takes it: later than the block
// that is voted on.
func (m *machine) now() time.Time {
	now := time.Now().UTC().Add(time.Duration(m.clock.Load()))
	if least := time.Unix(0, m.seen.Load()).UTC().Add(time.Millisecond); now.Before(least) {
		return least
	}
	return now
}

// doubts tells that the machine has to sign nothing yet, elsewhere that it signs nothing any more.
func (m *machine) kept() (doubts, elsewhere bool, err error) {
	kept, err := m.home.Signing()
	return kept.DoubtSince != nil, kept.Elsewhere != nil, err
}

// client connects with the node.
func (m *machine) client(ctx context.Context) (*gateway.Client, error) {
	return gateway.Dial(ctx, m.home.Path("node.sock"))
}

// loseData removes all but keys and configuration, with a last signature as a new volume has it.
func (m *machine) loseData() error {
	ids, err := m.home.ValidatorIDs()
	if err == nil {
		err = errors.Join(os.RemoveAll(m.home.Data()), os.Mkdir(m.home.Data(), 0o700))
	}
	for _, id := range ids {
		err = errors.Join(err, os.WriteFile(filepath.Join(m.home.Data(), "priv_validator_state"+id+".json"), []byte(`{"height":"0","round":0,"step":0}`+"\n"), 0o600))
	}
	return err
}

// hand signs for a machine, by its clock and while it runs, and writes down what it signed.
type hand struct {
	types.PrivValidator
	machine *machine
}

// SignVote implements types.PrivValidator.
func (h hand) SignVote(chainID string, vote *cmtproto.Vote) error {
	if err := h.machine.wake(); err != nil {
		return err
	}
	vote.Timestamp = h.machine.now()
	err := h.PrivValidator.SignVote(chainID, vote)
	if err == nil {
		h.machine.of.world.record.vote(h.machine, vote)
	}
	return err
}

// SignProposal implements types.PrivValidator.
func (h hand) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if err := h.machine.wake(); err != nil {
		return err
	}
	err := h.PrivValidator.SignProposal(chainID, proposal)
	if err == nil {
		h.machine.of.world.record.proposal(h.machine, proposal)
	}
	return err
}

// watch is a machine's application. It stands still with the machine, and tells it the time of
// blocks.
type watch struct {
	abci.Application
	machine *machine
	end     context.CancelFunc
}

// tolerance is how far in the future CometBFT takes an order block to be, by its configuration.
const tolerance = time.Minute

// at is told the time of a block. It reports whether CometBFT would take the block, were its clock
// the machine's.
func (w watch) at(block time.Time) bool {
	_ = w.machine.wake() // a lost machine is stopped in order
	for at := block.UnixNano(); ; {
		if seen := w.machine.seen.Load(); seen >= at || w.machine.seen.CompareAndSwap(seen, at) {
			break
		}
	}
	return block.Before(time.Now().Add(time.Duration(w.machine.clock.Load()) + tolerance))
}

// PrepareProposal implements abci.Application.
func (w watch) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	w.at(req.Time)
	return w.Application.PrepareProposal(ctx, req)
}

// ProcessProposal implements abci.Application.
func (w watch) ProcessProposal(ctx context.Context, req *abci.RequestProcessProposal) (*abci.ResponseProcessProposal, error) {
	if !w.at(req.Time) {
		return &abci.ResponseProcessProposal{Status: abci.ResponseProcessProposal_REJECT}, nil
	}
	return w.Application.ProcessProposal(ctx, req)
}

// FinalizeBlock implements abci.Application. A node whose clock is behind ends, in order: CometBFT
// would end this process.
func (w watch) FinalizeBlock(ctx context.Context, req *abci.RequestFinalizeBlock) (*abci.ResponseFinalizeBlock, error) {
	if !w.at(req.Time) {
		w.machine.behind.Store(true)
		w.end()
	}
	return w.Application.FinalizeBlock(ctx, req)
}
