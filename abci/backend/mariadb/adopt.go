package mariadb

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Adopt takes the effects of a block from another organisation, in a transaction that stays open
// (R15).
func (b *Backend) Adopt(ctx context.Context, from backend.Past, block *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.adopt(ctx, from, block, previous, certified)
	if err != nil {
		return backend.Execution{}, fmt.Errorf("adopt block %d: %w", block.Number, err)
	}
	b.open = r
	return backend.Execution{Hash: r.hash, Header: r.header, Results: r.results}, nil
}

func (b *Backend) adopt(ctx context.Context, from backend.Past, block *wire.OrderedBlock, previous, certified wire.Hash) (*run, error) {
	if err := b.ready(); err != nil {
		return nil, err
	}
	r, err := b.newRun(block)
	if err != nil {
		return nil, err
	}
	r.ctx = ctx
	defer b.watch()()
	var header *wire.Header
	if err = r.begin(previous); err == nil {
		header, err = r.takeTold(from, certified)
	}
	if err == nil {
		err = checkNothing.during(ctx, r.conn, func() error { return r.applyTold(header) })
	}
	if err == nil {
		return r, nil
	}
	b.undo()
	if ctx.Err() != nil {
		b.drop()
	}
	if reason := outcomeOf(err); reason != nil && ctx.Err() == nil && !isTold(err) { // rows that the table refuses
		return nil, beyond("%s", reason.message)
	}
	return nil, err
}

// isTold says that an error tells of another organisation's word, not of what is done with it.
func isTold(err error) bool {
	return errors.Is(err, backend.ErrFalse) || errors.Is(err, backend.ErrUnfit)
}

// takeTold takes the block's changes and expects them to be those of the certified header.
func (r *run) takeTold(from backend.Past, certified wire.Hash) (*wire.Header, error) {
	k := &kept{ids: r.block.IDs, tables: r.tables}
	unread := false // a change
	told, err := backend.Take(r.ctx, from, r.block, certified, func(part []byte) error {
		c, err := k.changeOf(part)
		unread = err != nil
		k.changes = append(k.changes, c)
		return err
	})
	switch {
	case unread && !errors.Is(err, errNoTable):
		return nil, fmt.Errorf("%w: %s", backend.ErrUnfit, err)
	case errors.Is(err, backend.ErrFalse), errors.Is(err, backend.ErrBeyondRepair) && !unread:
		return nil, err
	case err != nil: // of a table that is not on the ledger here: false, or made by the block
		return nil, fmt.Errorf("%w: %s", backend.ErrNoHelp, err)
	}
	k.header = told.Raw
	k.sort()
	if _, err := k.check(r.block.Number, certified); err != nil {
		return nil, fmt.Errorf("%w: %s", backend.ErrUnfit, err)
	}
	r.changes, r.hash, r.header = k.changes, certified, told.Raw
	return told.Header, nil
}

// applyTold brings the rows that the block changed to what its changes say, expects the certified
// state root, and writes the block.
func (r *run) applyTold(header *wire.Header) error {
	if err := r.putTold(); err != nil {
		return err
	}
	if r.stateRoot() != header.StateRoot {
		return beyond("with the block's changes, the tables have another state than the certified one")
	}
	if _, err := r.conn.ExecContext(r.ctx, r.name.in("DELETE FROM %L.captured")); err != nil {
		return err
	}
	for i, id := range r.block.IDs {
		x := wire.TxResult{ID: id, Block: r.block.Number, Index: uint32(i), Succeeded: header.Outcomes.Succeeded(uint32(i))}
		switch {
		case x.Succeeded:
		case r.quarantined(i):
			x.SQLState, x.Message = "CH001", "quarantined: organisations differ about its effects"
		default:
			x.SQLState, x.Message = backend.AdoptedState, "failed at the other organisations: this database adopted the block, and does not know why"
		}
		r.results = append(r.results, x)
	}
	if err := r.writeTold(); err != nil {
		return err
	}
	return r.writeStates()
}

// putTold writes the last row of each key that the block changed, and brings the running states
// along.
func (r *run) putTold() error {
	type rows struct{ have, want rowSet }
	of := map[*table]*rows{}
	for i := range r.changes {
		c := &r.changes[i]
		if of[c.table] == nil {
			of[c.table] = &rows{rowSet{}, rowSet{}}
		}
		set, hash := of[c.table], wire.Hash(sha256.Sum256(c.Key))
		if c.Op == 'D' {
			delete(set.want, hash)
		} else {
			set.want[hash] = c.row
		}
		if c.Serial > 0 {
			continue
		}
		key, err := canonical.DecodeRow(c.Key)
		if err != nil {
			return err
		}
		have, err := r.rowWith(c.table, key)
		if err != nil {
			return err
		}
		if have != nil {
			set.have[hash] = have
		}
	}
	for t, set := range of {
		if _, err := put(r.ctx, r.conn, r.name, t, set.have, set.want); err != nil {
			return err
		}
		for _, row := range set.have {
			t.hasher.Sub(&t.state, row)
		}
		for _, row := range set.want {
			t.hasher.Add(&t.state, row)
		}
		t.changed = true
	}
	return nil
}
