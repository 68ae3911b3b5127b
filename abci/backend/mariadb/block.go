package mariadb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// Execute runs the block in a transaction that stays open.
func (b *Backend) Execute(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x, err := b.execute(ctx, block, previous, nil)
	if err != nil {
		return x, fmt.Errorf("execute block %d: %w", block.Number, err)
	}
	return x, nil
}

// execute runs mend, if there is one, in the transaction before the block. A block that attaches
// tables runs again once these have triggers, which no transaction can make. By then its client had
// the right to, and nothing else spoke against it.
func (b *Backend) execute(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash, mend func(*run) error) (backend.Execution, error) {
	for {
		x, unguarded, err := b.attempt(ctx, block, previous, mend)
		if err != nil || unguarded == nil {
			return x, err
		}
		b.undo()
		if b.conn == nil {
			return x, errNotConnected
		}
		if err := b.settleTriggers(ctx, append(unguarded, b.beyond...)); err != nil {
			return x, err
		}
	}
}

// attempt is execute with the triggers that are there. unguarded are tables that the block attaches
// without triggers: its result is none.
func (b *Backend) attempt(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash, mend func(*run) error) (x backend.Execution, unguarded []string, err error) {
	if err := b.ready(); err != nil {
		return x, nil, err
	}
	r, err := b.newRun(block)
	if err != nil {
		return x, nil, err
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.ctx, r.mending, r.careful = run, mend, b.carefully == block.Number
	defer b.watch()()
	if err := r.all(b.cfg.ChainID, previous, cancel); err != nil {
		cause := context.Cause(run)
		if cause != nil || errors.Is(err, errSession) {
			b.drop() // the driver closed the socket, and the server may still be at work
		} else {
			b.undo()
		}
		index := r.at.Load()
		switch {
		case r.several && (cause == nil || errors.Is(cause, errBudget)):
			b.carefully = block.Number
			err = fmt.Errorf("several transactions were at work, and run one at a time the next time: %w", err)
		case errors.Is(cause, errBudget) && ctx.Err() == nil:
			err = &backend.StuckError{Index: index}
		case cause == nil && !errors.Is(err, backend.ErrOutOfTurn) && b.failed.keeps(block.Number, index, b.cfg.StuckAfter):
			err = fmt.Errorf("%w: %w", &backend.StuckError{Index: index}, err)
		}
		return x, nil, err
	}
	if r.unguarded != nil {
		return x, r.unguarded, nil
	}
	b.open, b.failed = r, failing{}
	x = backend.Execution{Hash: r.hash, Header: r.header, Results: r.results}
	if block.Round > 0 {
		x.Effects = r.effects.Transactions
	}
	return x, nil, nil
}

func (b *Backend) newRun(block *wire.OrderedBlock) (*run, error) {
	raw, err := wire.SplitTransactions(block.Transactions)
	if err == nil && len(raw) != len(block.IDs) {
		err = fmt.Errorf("%d transactions with %d ids", len(raw), len(block.IDs))
	}
	if err != nil {
		return nil, err
	}
	return &run{
		conn: b.conn, words: b.pool, name: b.name, xid: b.xid, session: b.session, block: block, known: b.known, guarded: b.guarded,
		deploys: map[uint32]wire.Hash{}, texts: portable.Texts{}, raw: raw,
	}, nil
}

// all executes the block up to its COMMIT.
func (r *run) all(chainID string, previous wire.Hash, cancel context.CancelCauseFunc) error {
	if err := r.begin(previous); err != nil {
		return err
	}
	if r.mending != nil {
		if err := r.mending(r); err != nil {
			return err
		}
	}
	if err := r.transactions(cancel); err != nil || r.unguarded != nil {
		return err
	}
	return r.seal(chainID, previous)
}

// failing is a transaction at which the block failed for a reason of the machine, time after time.
type failing struct {
	number uint64
	index  uint32
	since  time.Time
}

// keeps reports that the block has not got past one transaction for so long.
func (f *failing) keeps(number uint64, index uint32, long time.Duration) bool {
	now := failing{number, index, time.Now()}
	if f.number != number || f.index != index {
		*f = now
		return false
	}
	if now.since.Sub(f.since) < long {
		return false
	}
	*f = now // the next time takes as long again
	return true
}

// Commit makes the open block permanent. After an error the connection is gone, and Position reads
// what really happened.
func (b *Backend) Commit(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return backend.ErrNothingOpen
	}
	strange := b.open.detached // a trigger would refuse an owner's writes
	for _, name := range b.beyond {
		strange = strange || b.open.tables[name] == nil
	}
	b.open = nil
	if err := b.commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if strange {
		if err := b.settle(ctx); err != nil {
			b.drop() // the next connection settles them
		}
	}
	return nil
}

func (b *Backend) commit(ctx context.Context) error {
	_, err := b.conn.ExecContext(ctx, b.xid.end())
	if err == nil {
		_, err = b.conn.ExecContext(ctx, b.xid.commit())
	}
	if err != nil {
		b.drop()
	}
	return err
}

// Rollback undoes the open block, if any.
func (b *Backend) Rollback(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return nil
	}
	b.undo()
	if b.conn == nil {
		return fmt.Errorf("roll back: %w", errNotConnected)
	}
	return nil
}

func writeState(ctx context.Context, q querier, name names, t *table, s *canonical.State) error {
	_, err := q.ExecContext(ctx, name.in(`UPDATE %L.ledger_table SET row_count = ?, lanes = ? WHERE id = ?`), s.Rows, s.Lanes.Bytes(), t.id)
	return err
}
