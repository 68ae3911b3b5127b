package effects

import (
	"context"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// ask asks other organisations one after the other, in the order that askingOrder and inquiry
// decide. open starts reading from a node, and use applies the data.
func ask[From interface{ Close() }](
	ctx context.Context, s *Shell, q inquiry, number uint64, hash wire.Hash,
	open func(ctx context.Context, node string, number uint64, hash wire.Hash) (string, From, error),
	use func(ctx context.Context, organisation string, from From) error,
) error {
	for _, node := range s.asking.order(s.opt.Others.Nodes()) {
		organisation, from, err := open(ctx, node, number, hash)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.log.Info("nothing told by another node", "peer", node, "block", number, "reason", err)
			s.asking.wasNoHelp(node) // it may be cut off, and each question to it would take the full time limit
			continue
		}
		err = use(ctx, organisation, from)
		from.Close()
		switch q.answered(organisation, err) {
		case enough:
			return s.inquired(&q, number)
		case broken:
			s.asking.wasNoHelp(node) // it was not its fault, and the next round begins with another
			return err
		case lied:
			s.accuse(accuse.FalseTold(organisation, number, err))
		case next:
			s.log.Warn("what another organisation told was not taken", "block", number, "organisation", organisation, "error", err)
		}
		s.asking.wasNoHelp(node)
	}
	return s.inquired(&q, number)
}

// inquired ends a round.
func (s *Shell) inquired(q *inquiry, number uint64) error {
	liars, err := q.ended()
	for _, organisation := range liars {
		s.accuse(accuse.RefutedBy(organisation, number, q.helper))
	}
	return err
}

// restore takes the rows that differ from another organisation.
func (s *Shell) restore(ctx context.Context, a Repair) (rows []backend.RowDeviation, err error) {
	if s.opt.Others == nil {
		return nil, fmt.Errorf("%w: none can be asked", backend.ErrBeyondRepair)
	}
	err = ask(ctx, s, inquiry{}, a.Number, a.Certified, s.opt.Others.Read, func(ctx context.Context, organisation string, from backend.Reading) (err error) {
		if rows, err = s.opt.Backend.Restore(ctx, from, a.Number, a.Certified, a.Deviating, a.Found); err == nil {
			s.log.Warn("took rows from another organisation", "block", a.Number, "organisation", organisation, "rows", len(rows))
		}
		return err
	})
	return rows, err
}

// restoreBlock takes a block from another organisation. Each organisation gets a part of the time,
// so that a slow one leaves some for the next.
func (s *Shell) restoreBlock(ctx context.Context, a RestoreBlock) error {
	if s.opt.Others == nil {
		return fmt.Errorf("%w: none can be asked", backend.ErrNoHelp)
	}
	block, err := s.source.Ordered(a.Number)
	if errors.Is(err, wire.ErrPruned) {
		return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	if err != nil {
		return err
	}
	certificate, err := s.source.Certificate(a.Number)
	if err != nil {
		return err
	}
	return ask(ctx, s, inquiry{past: true}, a.Number, certificate.Hash, s.opt.Others.ReadPast, func(ctx context.Context, _ string, from backend.Past) error {
		err := limited(ctx, s.opt.PastEach, func(ctx context.Context) error {
			return s.opt.Backend.RestoreBlock(ctx, from, block, certificate.Hash)
		})
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		return err
	})
}

// adopt takes a block's effects from another organisation, and leaves them open.
func (s *Shell) adopt(ctx context.Context, a Adopt) (x backend.Execution, err error) {
	if s.opt.Others == nil {
		return x, &backend.Obstacle{Why: "no other organisation can be asked", Err: errors.New("adopt")}
	}
	err = ask(ctx, s, inquiry{past: true, adopts: true}, a.Block.Number, a.Certified, s.opt.Others.ReadPast, func(ctx context.Context, organisation string, from backend.Past) error {
		err := limited(ctx, adoptEach, func(ctx context.Context) (err error) {
			x, err = s.opt.Backend.Adopt(ctx, from, a.Block, a.Previous, a.Certified)
			return err
		})
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
		if err == nil && x.Hash != a.Certified {
			err = fmt.Errorf("%w: the block adopted has the hash %x", backend.ErrFalse, x.Hash[:8])
		}
		if err == nil {
			s.log.Warn("took the effects of a block from another organisation", "block", a.Block.Number, "organisation", organisation)
		}
		return err
	})
	return x, err
}

// accuse reports an organisation that sent false data, where there is a proof.
func (s *Shell) accuse(a accuse.Accusation, proven bool) {
	if !proven {
		return
	}
	a.Log(s.log)
	s.mu.Lock()
	s.accused = a
	s.mu.Unlock()
	if s.opt.Watch != nil {
		s.opt.Watch.Accused(a)
	}
}
