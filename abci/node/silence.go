package node

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// clockMargin is by how much the clocks of validators may differ from this node's.
const clockMargin = 10 * time.Second

// silence keeps a node that took the validator key of a lost one over from contradicting what that
// one signed last, which nobody knows.
//
// Invariant A14: such a node signs nothing until an order block was decided whose time is after
// the take-over. The time of a block is a median of the times at which validators signed for the
// block before it (CometBFT's BFT time). So this block was proposed after the take-over, and the
// lost node, which had ended by then, signed for no later height.
type silence struct {
	memory memory
	log    *slog.Logger

	mu    sync.Mutex // guards since
	since time.Time  // of the take-over; zero: the node may sign
}

// errSilent is why a node that took over signs nothing yet.
var errSilent = errors.New("the order has no block yet that is later than the take-over: what the lost node signed last is not known")

func newSilence(m memory, log *slog.Logger) (*silence, error) {
	since, err := m.TakenOver()
	if err == nil && !since.IsZero() {
		log.Info("the node signs nothing before the others have decided a block after the take-over", "since", since)
	}
	return &silence{memory: m, log: log, since: since}, err
}

// check is errSilent, or nil.
func (s *silence) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return nil
	}
	return errSilent
}

// decided takes the time of a decided order block, in microseconds since the Unix epoch.
func (s *silence) decided(micro int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || !time.UnixMicro(micro).After(s.since.Add(clockMargin)) {
		return
	}
	if err := s.memory.TakeOver(time.Time{}); err != nil {
		s.log.Error("the node signs nothing yet", "error", err)
		return
	}
	s.since = time.Time{}
	s.log.Info("the node signs from now on")
}

// silent is why the node may sign nothing; nil: it may.
func (n *node) silent() error {
	if err := n.newerProtocol(); err != nil {
		return err
	}
	return n.silence.check()
}
