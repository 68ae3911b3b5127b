package effects

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// How long operations may take. An execution is bounded by the block's budget, unless consent was given to it (StuckError).
const (
	positionLimit = 15 * time.Second
	commitLimit   = 2 * time.Minute
	rollbackLimit = 15 * time.Second
	repairLimit   = 6 * time.Hour // rewrites tables of any size
	recordLimit   = 30 * time.Second
	pastLimit     = time.Minute // a block may wait for it
)

type operation struct {
	action Action
	ctx    context.Context
	done   context.CancelFunc
}

// work runs the operations one after the other, so that the event loop never waits for a database.
func (s *Shell) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case op := <-s.ops:
			began := time.Now()
			ended := s.perform(op)
			if s.opt.Watch != nil {
				s.opt.Watch.Ended(name(op.action), time.Since(began), failureOf(ended.event))
			}
			s.put(ended)
			op.done()
		}
	}
}

func (s *Shell) perform(op operation) item {
	switch a := op.action.(type) {
	case Execute:
		return s.execute(op.ctx, a)
	case Commit:
		// A COMMIT on its way is let through when the node stops: its outcome should be known if it can be.
		err := limited(context.WithoutCancel(op.ctx), commitLimit, s.opt.Backend.Commit)
		return item{event: Committed{Failure: s.failure(a, err)}}
	case Rollback:
		err := limited(op.ctx, rollbackLimit, s.opt.Backend.Rollback)
		return item{event: RolledBack{Failure: s.failure(a, err)}}
	case Repair:
		return item{event: s.repair(op.ctx, a)}
	case StoreCertificate:
		err := limited(op.ctx, recordLimit, func(ctx context.Context) error {
			return s.opt.Backend.StoreCertificate(ctx, a.Certificate)
		})
		return item{event: CertificateStored{Failure: s.failure(a, err)}}
	case RecordDeviation:
		took := time.Duration(a.TookMS) * time.Millisecond
		err := limited(op.ctx, recordLimit, func(ctx context.Context) error {
			return s.opt.Backend.RecordDeviation(ctx, a.Number, a.Expected, a.Found, a.CuredBy, took)
		})
		return item{event: DeviationRecorded{Failure: s.failure(a, err)}}
	case RestoreBlock:
		err := limited(op.ctx, pastLimit, func(ctx context.Context) error { return s.restoreBlock(ctx, a) })
		if op.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		return item{event: BlockRestored{Failure: s.failure(a, err)}}
	case ReadPosition:
		var at backend.Position
		err := limited(op.ctx, positionLimit, func(ctx context.Context) (err error) {
			at, err = s.opt.Backend.Position(ctx)
			return err
		})
		return item{event: DatabaseAt{Position: at, Failure: s.failure(a, err)}}
	case FetchOrdered:
		return item{event: s.fetch(a)}
	}
	panic("effects: the core asks for an operation that the worker does not know")
}

func limited(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

func (s *Shell) execute(ctx context.Context, a Execute) item {
	var x backend.Execution
	var err error
	block, began := *a.Block, time.Now()
	if a.Agreed {
		block.Budget = wire.Budget{}
	}
	if a.Certified == (wire.Hash{}) {
		x, err = s.opt.Backend.Execute(ctx, &block, a.Previous)
	} else {
		x, err = s.opt.Backend.Retry(ctx, &block, a.Previous, a.Certified)
	}
	e := Executed{Key: a.Block.Key(), Hash: x.Hash}
	if a.Block.Round > 0 {
		e.Parts = a.Block.InQuestion().Hashes(x.Effects)
	}
	var stuck *backend.StuckError
	switch {
	case err == nil:
		if s.opt.Ran != nil {
			s.opt.Ran(len(block.IDs), time.Since(began), x.Slow)
		}
		return item{event: e, executed: &x}
	case errors.As(err, &stuck):
		e.Failure, e.StuckAt = Stuck, stuck.Index
	case ctx.Err() != nil:
		e.Failure = Cancelled
	default:
		e.Failure = s.failure(a, err)
	}
	return item{event: e}
}

func (s *Shell) repair(ctx context.Context, a Repair) Event {
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
	e := Repaired{Rows: len(rows), Failure: s.failure(a, err)}
	if obstacle := (*backend.Obstacle)(nil); errors.As(err, &obstacle) {
		e.Why = obstacle.Why
	}
	return e
}

const deviationsLogged = 20

// holdsAll reports an error when blocks cannot be executed from the first one again: stores lose, if any, the oldest.
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

// restore asks the other organisations one after the other, until one has told the rows that differ. One that tells what cannot be so is no reason to go on to a further
// step: it is named, and those that did not answer are asked again.
func (s *Shell) restore(ctx context.Context, a Repair) ([]backend.RowDeviation, error) {
	if s.opt.Others == nil {
		return nil, fmt.Errorf("%w: none can be asked", backend.ErrBeyondRepair)
	}
	var rows []backend.RowDeviation
	var useless []string // whose word may be at fault, or something here
	help := backend.ErrNoHelp
	err := s.opt.Others.Each(ctx, a.Number, a.Certified, func(organisation string, from backend.Reading) (more bool, err error) {
		rows, err = s.opt.Backend.Restore(ctx, from, a.Number, a.Certified, a.Deviating, a.Found)
		switch {
		case err == nil:
			s.log.Warn("took rows from another organisation", "block", a.Number, "organisation", organisation, "rows", len(rows))
			help = nil
			return false, nil
		case errors.Is(err, backend.ErrFalse):
			s.lies(organisation, a.Number, err)
			return true, nil
		case errors.Is(err, backend.ErrBeyondRepair):
			help, useless = backend.ErrBeyondRepair, append(useless, organisation)
		case !errors.Is(err, backend.ErrNoHelp):
			return false, err
		}
		s.log.Warn("no help from another organisation", "block", a.Number, "organisation", organisation, "error", err)
		return true, nil
	})
	if help == nil {
		for _, organisation := range useless { // what another one told of the same block was right
			s.lies(organisation, a.Number, backend.ErrBeyondRepair)
		}
	}
	if err == nil {
		err = help
	}
	return rows, err
}

// lies names an organisation that told what is false.
func (s *Shell) lies(organisation string, block uint64, err error) {
	s.log.Error("another organisation told what is false", "organisation", organisation, "block", block, "error", err)
	s.mu.Lock()
	s.liar = organisation
	s.mu.Unlock()
	if s.opt.Watch != nil {
		s.opt.Watch.Lied(organisation)
	}
}

// restoreBlock asks the other organisations one after the other, until one has told the block. None has all the time: whoever dawdles leaves some for the next.
func (s *Shell) restoreBlock(ctx context.Context, a RestoreBlock) error {
	if s.opt.Others == nil {
		return fmt.Errorf("%w: none can be asked", backend.ErrNoHelp)
	}
	block, err := s.source.Ordered(a.Number)
	if err != nil {
		return err
	}
	certificate, err := s.source.Certificate(a.Number)
	if err != nil {
		return err
	}
	help := backend.ErrNoHelp
	err = s.opt.Others.EachPast(ctx, a.Number, certificate.Hash, func(organisation string, from backend.Past) (more bool, err error) {
		err = limited(ctx, s.opt.PastEach, func(ctx context.Context) error {
			return s.opt.Backend.RestoreBlock(ctx, from, block, certificate.Hash)
		})
		switch {
		case err == nil:
			help = nil
			return false, nil
		case errors.Is(err, backend.ErrFalse), errors.Is(err, backend.ErrBeyondRepair):
			s.lies(organisation, a.Number, err) // header, transactions and history follow from the certified hash
			return true, nil
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		case !errors.Is(err, backend.ErrNoHelp):
			return false, err
		}
		s.log.Warn("no help from another organisation", "block", a.Number, "organisation", organisation, "error", err)
		return true, nil
	})
	if err == nil {
		err = help
	}
	return err
}

func (s *Shell) fetch(a FetchOrdered) Event {
	e := Fetched{Number: a.Number}
	b, err := s.source.Ordered(a.Number)
	if err == nil && a.Number <= s.source.LastCertified() {
		e.Certificate, err = s.source.Certificate(a.Number)
	}
	e.Block, e.Failure = b, s.failure(a, err)
	return e
}

// failure sorts an error; it is logged here, where it is handled.
func (s *Shell) failure(a Action, err error) Failure {
	f := Unavailable
	switch {
	case err == nil:
		return Fine
	case errors.Is(err, backend.ErrOutOfTurn):
		f = OutOfTurn
	case errors.Is(err, backend.ErrBeyondRepair):
		f = BeyondRepair
	case errors.Is(err, backend.ErrNoHelp), errors.Is(err, backend.ErrFalse):
		f = NoHelp
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	s.log.Warn("operation on the database failed", "operation", name(a), "block", numberOf(a), "error", err)
	return f
}

// failureOf says how the operation ended that an event tells of.
func failureOf(e Event) Failure {
	switch e := e.(type) {
	case Executed:
		return e.Failure
	case Committed:
		return e.Failure
	case RolledBack:
		return e.Failure
	case Repaired:
		return e.Failure
	case CertificateStored:
		return e.Failure
	case DeviationRecorded:
		return e.Failure
	case DatabaseAt:
		return e.Failure
	case Fetched:
		return e.Failure
	}
	return Fine
}

func name(a Action) string {
	switch a.(type) {
	case Execute:
		return "execute"
	case Commit:
		return "commit"
	case Rollback:
		return "roll back"
	case Repair:
		return "repair"
	case StoreCertificate:
		return "store certificate"
	case RecordDeviation:
		return "record deviation"
	case RestoreBlock:
		return "restore block"
	case ReadPosition:
		return "read position"
	case FetchOrdered:
		return "fetch ordered block"
	}
	return "unknown"
}

func numberOf(a Action) uint64 {
	switch a := a.(type) {
	case Execute:
		return a.Block.Number
	case Commit:
		return a.Number
	case Rollback:
		return a.Number
	case Repair:
		return a.Number
	case StoreCertificate:
		return a.Certificate.Number
	case RecordDeviation:
		return a.Number
	case RestoreBlock:
		return a.Number
	case FetchOrdered:
		return a.Number
	}
	return 0
}

var _ interface {
	Proposed(*wire.OrderedBlock, *wire.Certificate)
	Vote(context.Context, *wire.OrderedBlock) []byte
	Seen(string, wire.EffectVote)
	Decided(wire.Decision)
	Hash(wire.Key) (wire.Hash, bool)
} = (*Shell)(nil)
