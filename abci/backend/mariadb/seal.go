package mariadb

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// seal computes the LedgerBlock and writes it, with history and running states, in the transaction
// of the block.
func (r *run) seal(chainID string, previous wire.Hash) error {
	changes := make([]canonical.Change, len(r.changes))
	for i := range r.changes {
		changes[i] = r.changes[i].Change
	}
	order := canonical.Sort(changes)
	outcomes, bits := make([]bool, len(r.results)), wire.NewOutcomes(uint32(len(r.results)))
	for i, result := range r.results {
		if outcomes[i] = result.Succeeded; result.Succeeded {
			bits.Set(uint32(i))
		}
	}
	r.effects = canonical.EffectsOf(changes, order, outcomes)
	for i, root := range r.deploys {
		r.effects.Transactions[i] = canonical.DeployEffects(r.effects.Transactions[i], root)
	}
	header := wire.Header{
		ChainID: chainID, Number: r.block.Number, OrderHeight: uint64(r.block.Height), BlockTime: r.block.TimeMicro, TxRoot: wire.TxRoot(r.block.IDs),
		Outcomes: bits, EffectsRoot: r.effects.Root, EffectsCount: uint32(len(changes)), StateRoot: r.stateRoot(), Previous: previous,
	}
	r.header, r.hash = header.Encode(), header.Hash()
	if err := r.writeBlock(); err != nil {
		return fmt.Errorf("write block: %w", err)
	}
	if err := r.writeHistory(changes, order); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return r.writeStates()
}

func (r *run) writeBlock() error {
	_, err := r.conn.ExecContext(r.ctx, r.name.in(`INSERT INTO %L.block (number, hash, header) VALUES (?, ?, ?)`), r.block.Number, r.hash[:], r.header)
	if err != nil {
		return err
	}
	in := inserter{ctx: r.ctx, q: r.conn, head: r.name.in("INSERT INTO %L.transaction (block, place, id, outcome, row_count, sql_state, error, raw) VALUES ")}
	for i, x := range r.results {
		err := in.add(fmt.Sprintf("(%d, %d, %s, %t, %d, '%s', _utf8mb4 %s, %s)", r.block.Number, i, hexLiteral(x.ID[:]), x.Succeeded, x.Rows, x.SQLState,
			hexLiteral([]byte(x.Message)), hexLiteral(r.raw[i])))
		if err != nil {
			return err
		}
	}
	return in.flush()
}

func (r *run) writeHistory(changes []canonical.Change, order []uint32) error {
	in := inserter{ctx: r.ctx, q: r.conn, head: r.name.in(
		"INSERT INTO %L.history (table_id, block, place, key_hash, key_bytes, tx, serial, op, row_hash, row_bytes) VALUES ")}
	for place, at := range order {
		c, full := &changes[at], &r.changes[at]
		key := sha256.Sum256(c.Key)
		err := in.add(fmt.Sprintf("(%d, %d, %d, %s, %s, %d, %d, '%c', %s, %s)", full.table.id, r.block.Number, place, hexLiteral(key[:]),
			hexLiteral(c.Key), c.Tx, c.Serial, c.Op, hexLiteral(c.Hash[:]), hexLiteral(full.row)))
		if err != nil {
			return err
		}
	}
	return in.flush()
}

func (r *run) writeStates() error {
	for _, t := range slices.SortedFunc(maps.Values(r.tables), byNumber) {
		if !t.changed {
			continue
		}
		if err := writeState(r.ctx, r.conn, r.name, t, &t.state); err != nil {
			return fmt.Errorf("write state: %w", err)
		}
	}
	return nil
}
