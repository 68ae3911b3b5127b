package effects

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// joining is how far a database without blocks has come, where the node's stores begin after block
// 1: the ledger comes from another organisation.
type joining struct {
	wanted bool
	failed int    // how often nobody told it, in a row
	why    string // the last time
}

func (j *joining) reason() string {
	if j.why == "" {
		return "the database is empty, and the node has no first block: the ledger comes from another organisation"
	}
	return "the database is empty, and no other organisation told the ledger yet: " + j.why
}

// joined follows an attempt. One that failed is made again, with growing pauses.
func (c *Core) joined(e Joined) {
	c.op = nil
	switch e.Failure {
	case NoHelp, BeyondRepair:
		c.joining.failed++
		c.joining.why = e.Why
		c.pause(c.joining.failed)
		if c.joining.failed == 1 {
			c.report(Report{What: NobodyTellsLedger, Reason: e.Why})
		}
	default:
		if c.went(e.Failure) {
			c.joining = joining{}
			c.known, c.proven = false, false
			c.report(Report{What: LedgerJoined, TookMS: c.nowMS - c.opMS})
		}
	}
}

// joiner is the database, where it and the other organisations can begin with a later block.
func (s *Shell) joiner() backend.Joiner {
	if s.opt.Others == nil {
		return nil
	}
	j, _ := s.opt.Backend.(backend.Joiner)
	return j
}

func (a Join) perform(ctx context.Context, s *Shell) item {
	err := limited(ctx, repairLimit, s.join)
	s.takes("", 0, 0)
	e := Joined{Failure: s.failure(a, err)}
	if err != nil {
		e.Why = err.Error()
	}
	if obstacle := (*backend.Obstacle)(nil); errors.As(err, &obstacle) {
		e.Why = obstacle.Why
	}
	return item{event: e}
}

// join takes the ledger over at the last certified block. The node has to have that block itself,
// so that the database goes on from there.
func (s *Shell) join(ctx context.Context) error {
	number := s.source.LastCertified()
	if _, err := s.source.Ordered(number); errors.Is(err, wire.ErrPruned) {
		return fmt.Errorf("%w: no block was certified since the snapshot that the node joined by", backend.ErrNoHelp)
	}
	certificate, err := s.source.Certificate(number)
	if err != nil {
		return err
	}
	var why error
	err = ask(ctx, s, inquiry{}, number, certificate.Hash, s.opt.Others.Read, func(ctx context.Context, organisation string, from backend.Reading) error {
		told, knows := from.(backend.Foundation)
		if !knows {
			return backend.ErrNoHelp
		}
		err := s.joiner().Join(ctx, told, number, certificate.Hash, s.takes)
		if err == nil {
			s.log.Info("took the ledger over", "block", number, "organisation", organisation)
		}
		why = plainer(why, err)
		return err
	})
	if err != nil && why != nil && ctx.Err() == nil {
		return why // it says more
	}
	return err
}

// taking is how many rows of a table are here, while a ledger is taken over.
type taking struct {
	table      string
	here, rows uint64
}

func (t taking) reason() string {
	if t.table == "" {
		return ""
	}
	return fmt.Sprintf("the database was empty, and takes the ledger over from another organisation: %d of %d rows of table %q are here", t.here, t.rows, t.table)
}

// takes keeps the news of a table, and logs the first of each.
func (s *Shell) takes(table string, here, rows uint64) {
	s.mu.Lock()
	another := table != s.taking.table
	s.taking = taking{table, here, rows}
	s.mu.Unlock()
	if another && table != "" {
		s.log.Info("taking rows over", "table", table, "rows", rows, "received_before", here)
	}
}

// plainer is the reason to tell of two: an obstacle in this database before an organisation that
// does not help, else the first.
func plainer(first, second error) error {
	var obstacle *backend.Obstacle
	if first == nil || !errors.As(first, &obstacle) && errors.As(second, &obstacle) {
		return second
	}
	return first
}
