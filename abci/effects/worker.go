package effects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// How long operations may take. An execution is bounded by the block's budget, unless consent was
// given to it (StuckError).
const (
	positionLimit = 15 * time.Second
	commitLimit   = 2 * time.Minute
	rollbackLimit = 15 * time.Second
	repairLimit   = 6 * time.Hour // rewrites tables of any size
	recordLimit   = 30 * time.Second
	pastLimit     = time.Minute // a block may wait for it
	adoptLimit    = 10 * time.Minute
	adoptEach     = adoptLimit / 4 // of one organisation
)

// operation is an Action that the worker performs, one at a time (E4).
type operation interface {
	Action
	title() (name string, block uint64) // in logs and metrics; block 0: about none
	perform(ctx context.Context, s *Shell) item
}

// outcome is an Event that ends an operation.
type outcome interface {
	Event
	failure() Failure
}

// The names of the operations, and the blocks that they are about.
func (a Execute) title() (string, uint64)          { return "execute", a.Block.Number }
func (a Commit) title() (string, uint64)           { return "commit", a.Number }
func (a Rollback) title() (string, uint64)         { return "roll back", a.Number }
func (a Repair) title() (string, uint64)           { return "repair", a.Number }
func (a Adopt) title() (string, uint64)            { return "adopt", a.Block.Number }
func (a StoreCertificate) title() (string, uint64) { return "store certificate", a.Certificate.Number }
func (a RecordDeviation) title() (string, uint64)  { return "record deviation", a.Number }
func (a RestoreBlock) title() (string, uint64)     { return "restore block", a.Number }
func (a Join) title() (string, uint64)             { return "join", 0 }
func (a ReadPosition) title() (string, uint64)     { return "read position", 0 }
func (a FetchOrdered) title() (string, uint64)     { return "fetch ordered block", a.Number }

func (e Executed) failure() Failure          { return e.Failure }
func (e Committed) failure() Failure         { return e.Failure }
func (e RolledBack) failure() Failure        { return e.Failure }
func (e Repaired) failure() Failure          { return e.Failure }
func (e Adopted) failure() Failure           { return e.Failure }
func (e CertificateStored) failure() Failure { return e.Failure }
func (e DeviationRecorded) failure() Failure { return e.Failure }
func (e BlockRestored) failure() Failure     { return e.Failure }
func (e Joined) failure() Failure            { return e.Failure }
func (e DatabaseAt) failure() Failure        { return e.Failure }
func (e Fetched) failure() Failure           { return e.Failure }

// job is an operation under way.
type job struct {
	operation
	ctx  context.Context
	done context.CancelFunc
}

// work runs the operations one after the other, so that the event loop never waits for a database.
func (s *Shell) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-s.jobs:
			began := time.Now()
			ended := j.perform(j.ctx, s)
			if s.opt.Watch != nil {
				name, _ := j.title()
				s.opt.Watch.Ended(name, time.Since(began), ended.event.(outcome).failure())
			}
			s.put(ended)
			j.done()
		}
	}
}

// isRetry reports whether the block had other effects than certified at its last execution.
func (a Execute) isRetry() bool { return a.Certified != wire.Hash{} }

func (a Execute) perform(ctx context.Context, s *Shell) item {
	var x backend.Execution
	var err error
	block, began := *a.Block, time.Now()
	if a.Agreed {
		block.Budget = wire.Budget{}
	}
	e := Executed{Key: a.Block.Key()}
	if a.isRetry() {
		x, err = s.opt.Backend.Retry(ctx, &block, a.Previous, a.Certified)
		e.Why = failedDeploys(&block, x.Results)
	} else {
		x, err = s.opt.Backend.Execute(ctx, &block, a.Previous)
	}
	e.Hash = x.Hash
	if a.Block.Round > 0 {
		e.Parts = a.Block.InQuestion().Hashes(x.Effects)
	}
	var stuck *backend.StuckError
	switch {
	case err == nil:
		if s.opt.Ran != nil {
			s.opt.Ran(len(block.IDs), time.Since(began), x.Slow)
		}
		return item{event: e, executed: &x, key: e.Key}
	case errors.As(err, &stuck):
		e.Failure, e.StuckAt, e.Why = Stuck, stuck.Index, err.Error()
	case ctx.Err() != nil:
		e.Failure = Cancelled
	default:
		e.Failure = s.failure(a, err)
	}
	return item{event: e}
}

// A COMMIT on its way is let through when the node stops: its outcome should be known if it can be.
func (a Commit) perform(ctx context.Context, s *Shell) item {
	err := limited(context.WithoutCancel(ctx), commitLimit, s.opt.Backend.Commit)
	return item{event: Committed{Failure: s.failure(a, err)}}
}

func (a Rollback) perform(ctx context.Context, s *Shell) item {
	err := limited(ctx, rollbackLimit, s.opt.Backend.Rollback)
	return item{event: RolledBack{Failure: s.failure(a, err)}}
}

func (a Adopt) perform(ctx context.Context, s *Shell) item {
	var x backend.Execution
	err := limited(ctx, adoptLimit, func(ctx context.Context) (err error) {
		x, err = s.adopt(ctx, a)
		return err
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	e := Adopted{Key: a.Block.Key(), Hash: x.Hash, Failure: s.failure(a, err), Why: obstacleOf(err)}
	if e.Failure != Fine {
		return item{event: e}
	}
	return item{event: e, executed: &x, key: e.Key}
}

// deploysNamed is how many failed DEPLOY transactions are named.
const deploysNamed = 3

// failedDeploys names the DEPLOY transactions of a block that failed, with their reasons: where one
// succeeded elsewhere, something that it needs is missing here.
func failedDeploys(b *wire.OrderedBlock, results []wire.TxResult) string {
	raw, err := wire.SplitTransactions(b.Transactions)
	if err != nil || len(raw) != len(results) {
		return ""
	}
	var named []string
	for i, r := range results {
		if r.Succeeded || len(named) == deploysNamed {
			continue
		}
		tx, err := wire.DecodeChainedTx(raw[i])
		if err == nil && tx.Proposal.GetKind() == wire.Kind_KIND_DEPLOY {
			named = append(named, fmt.Sprintf("transaction %d fails: %s (%s)", i, r.Message, r.SQLState))
		}
	}
	return strings.Join(named, "; ")
}

func (a StoreCertificate) perform(ctx context.Context, s *Shell) item {
	err := limited(ctx, recordLimit, func(ctx context.Context) error {
		return s.opt.Backend.StoreCertificate(ctx, a.Certificate)
	})
	return item{event: CertificateStored{Failure: s.failure(a, err)}}
}

func (a RecordDeviation) perform(ctx context.Context, s *Shell) item {
	took := time.Duration(a.TookMS) * time.Millisecond
	err := limited(ctx, recordLimit, func(ctx context.Context) error {
		return s.opt.Backend.RecordDeviation(ctx, a.Number, a.Expected, a.Found, a.CuredBy, took)
	})
	return item{event: DeviationRecorded{Failure: s.failure(a, err)}}
}

func (a RestoreBlock) perform(ctx context.Context, s *Shell) item {
	err := limited(ctx, pastLimit, func(ctx context.Context) error { return s.restoreBlock(ctx, a) })
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	return item{event: BlockRestored{Failure: s.failure(a, err)}}
}

func (a ReadPosition) perform(ctx context.Context, s *Shell) item {
	var at backend.Position
	err := limited(ctx, positionLimit, func(ctx context.Context) (err error) {
		at, err = s.opt.Backend.Position(ctx)
		return err
	})
	return item{event: DatabaseAt{Position: at, Failure: s.failure(a, err)}}
}

func (a FetchOrdered) perform(_ context.Context, s *Shell) item {
	e := Fetched{Number: a.Number}
	b, err := s.source.Ordered(a.Number)
	if a.Number == 1 && errors.Is(err, wire.ErrPruned) && s.joiner() != nil {
		e.Failure = Gone
		return item{event: e}
	}
	if err == nil && a.Number <= s.source.LastCertified() {
		e.Certificate, err = s.source.Certificate(a.Number)
	}
	e.Block, e.Failure = b, s.failure(a, err)
	return item{event: e}
}

func (a Repair) perform(ctx context.Context, s *Shell) item {
	var rows []backend.RowDeviation
	err := limited(ctx, repairLimit, func(ctx context.Context) (err error) {
		if a.Step == backend.State {
			rows, err = s.restore(ctx, a)
			return err
		}
		if a.Step == backend.Full {
			if err := s.holdsAll(a.Number); err != nil {
				return fmt.Errorf("%w: %w", backend.ErrBeyondRepair, err)
			}
		}
		rows, err = s.opt.Backend.Repair(ctx, a.Step, a.Number, a.Certified, a.Deviating, a.Found)
		return err
	})
	for i, r := range rows {
		if i == deviationsLogged {
			s.log.Warn("further rows differed; chainify.deviations has them", "block", a.Number, "rows", len(rows))
			break
		}
		s.log.Warn("row differed from the certified state", "block", a.Number, "table", r.Table,
			"key", string(r.Key), "expected", string(r.Expected), "found", string(r.Found))
	}
	return item{event: Repaired{Rows: len(rows), Failure: s.failure(a, err), Why: obstacleOf(err)}}
}

// obstacleOf returns the database's reason for an ErrBeyondRepair.
func obstacleOf(err error) string {
	if obstacle := (*backend.Obstacle)(nil); errors.As(err, &obstacle) {
		return obstacle.Why
	}
	return ""
}

const deviationsLogged = 20

// holdsAll returns an error when the store no longer has the first blocks, so that the chain cannot
// be executed again. A store drops its oldest blocks first.
func (s *Shell) holdsAll(number uint64) error {
	for _, n := range []uint64{1, number} {
		if _, err := s.source.Ordered(n); err != nil {
			return err
		}
		if _, err := s.source.Certificate(n); err != nil {
			return err
		}
	}
	return nil
}

func limited(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// failure classifies an error, and logs it.
func (s *Shell) failure(a operation, err error) Failure {
	f := Unavailable
	switch {
	case err == nil:
		return Fine
	case errors.Is(err, backend.ErrOutOfTurn):
		f = OutOfTurn
	case errors.Is(err, backend.ErrBeyondRepair):
		f = BeyondRepair
	case errors.Is(err, backend.ErrNoHelp), errors.Is(err, backend.ErrFalse), errors.Is(err, backend.ErrUnfit):
		f = NoHelp
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	if f == Unavailable {
		s.mu.Lock()
		s.trouble = err.Error()
		s.mu.Unlock()
	}
	name, block := a.title()
	s.log.Warn("operation on the database failed", "operation", name, "block", block, "error", err)
	return f
}

var _ interface {
	Proposed(*wire.OrderedBlock, *wire.Certificate)
	Vote(context.Context, *wire.OrderedBlock) []byte
	Seen(string, wire.EffectVote)
	Decided(wire.Decision)
	Hash(wire.Key) (wire.Hash, bool)
} = (*Shell)(nil)
