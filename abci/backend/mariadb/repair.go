package mariadb

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Repair takes one step to bring the tables back to the certified state. Definitions puts the
// ledger's triggers back; MariaDB has no step Reindex and no step Full. Rows of a table are held in
// memory meanwhile.
func (b *Backend) Repair(ctx context.Context, step backend.Step, number uint64, certified wire.Hash, deviating uint64, out wire.Hash) (found []backend.RowDeviation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.repairing(ctx, number, certified, func(r *repair) error {
		switch step {
		case backend.Definitions, backend.Reindex:
			return nil
		case backend.Rows:
			found, err = r.rows()
		case backend.Rebase:
			err = r.rebase()
		case backend.Replay:
			found, err = r.replay(b)
		default:
			err = beyond("MariaDB has no step %s", step)
		}
		if err == nil {
			err = r.note(step, deviating, out, found)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("repair at block %d: %w", number, err)
	}
	return found, nil
}

// beyond is the error of a step that does not lead to the certified state.
func beyond(format string, args ...any) error {
	why := fmt.Sprintf(format, args...)
	return &backend.Obstacle{Why: why, Err: errors.New("step of repair")}
}

// repair is a step in a transaction of its own, at the position.
type repair struct {
	ctx    context.Context
	q      querier
	words  querier // for words of procedures, outside of the transaction
	name   names
	number uint64
	header *wire.Header
	tables map[string]*table
	// procedures as they were agreed: what the server has now is found by verification.
	procedures procedures
}

// repairing runs a step in a transaction; the definitions of tables are read again before. Called
// with mu held.
func (b *Backend) repairing(ctx context.Context, number uint64, certified wire.Hash, step func(*repair) error) error {
	if err := b.ready(); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	b.bases.Lock()
	defer b.bases.Unlock()
	defer b.watch()()
	if _, err := b.conn.ExecContext(ctx, b.xid.start()); err != nil {
		b.drop()
		return err
	}
	r := &repair{ctx: ctx, q: b.conn, words: b.pool, name: b.name, number: number}
	err := r.begin(certified, b.known)
	if err == nil {
		err = checkNothing.during(ctx, b.conn, func() error { return step(r) })
	}
	if err == nil {
		return b.commit(ctx)
	}
	b.undo()
	if ctx.Err() != nil {
		b.drop()
	}
	if reason := outcomeOf(err); reason != nil && ctx.Err() == nil && !isTold(err) { // rows that the table refuses
		return beyond("%s", reason.message)
	}
	return err
}

func (r *repair) begin(certified wire.Hash, known map[string]*described) error {
	p, err := readPosition(r.ctx, r.q, r.name)
	if err != nil {
		return err
	}
	if p.Number != r.number || p.Hash != certified || r.number == 0 {
		return beyond("the position is block %d, %x", p.Number, p.Hash)
	}
	if r.header, err = r.headerOf(r.number, certified); err != nil {
		return err
	}
	if r.tables, err = readTables(r.ctx, r.q, r.name, r.number, known); err == nil {
		r.procedures, err = readProcedures(r.ctx, r.q, r.words, r.name, r.number)
	}
	for name, t := range r.tables {
		if err == nil && t.altered {
			err = beyond("table %s has another definition than the attached one: put it back", name)
		}
	}
	if altered := r.procedures.altered(); err == nil && len(altered) > 0 {
		err = beyond("procedure %s is not in the words that were agreed: put it back, and SELECT %s.%s(…) tells whether it is right", altered[0], r.name.ledger(), digestFunction)
	}
	return err
}

// headerOf is the kept header of a block, when it has the hash.
func (r *repair) headerOf(number uint64, hash wire.Hash) (*wire.Header, error) {
	var raw []byte
	if err := r.q.QueryRowContext(r.ctx, r.name.in(`SELECT header FROM %L.block WHERE number = ?`), number).Scan(&raw); err != nil {
		return nil, err
	}
	if wire.HeaderHash(raw) != hash {
		return nil, beyond("the header of block %d is not the certified one", number)
	}
	return wire.DecodeHeader(raw)
}

// certain tells whether these rows of all tables give the certified state root.
func (r *repair) certain(rows map[string]rowSet) bool {
	var states []canonical.Named
	for name, t := range r.tables {
		states = append(states, canonical.Named{Name: name, State: t.stateOf(rows[name])})
	}
	return canonical.StateRoot(append(states, r.procedures.states()...)) == r.header.StateRoot
}

// rows puts right what differs from base and history, where these give the certified state.
func (r *repair) rows() ([]backend.RowDeviation, error) {
	want := map[string]rowSet{}
	for name, t := range r.tables {
		var err error
		if want[name], err = rowsAt(r.ctx, r.q, r.name, t, r.number); err != nil {
			return nil, err
		}
	}
	if !r.certain(want) {
		return nil, beyond("base and history do not give the state root of block %d", r.number)
	}
	return r.put(want)
}

// put brings all tables and running states to these rows.
func (r *repair) put(want map[string]rowSet) ([]backend.RowDeviation, error) {
	var found []backend.RowDeviation
	for name, t := range r.tables {
		have, err := readRows(r.ctx, r.q, r.name, t)
		if err != nil {
			return nil, err
		}
		some, err := put(r.ctx, r.q, r.name, t, have, want[name])
		if err == nil {
			found = append(found, some...)
			t.state = t.sum(want[name])
			err = writeState(r.ctx, r.q, r.name, t, &t.state)
		}
		if err != nil {
			return nil, err
		}
	}
	_, err := r.q.ExecContext(r.ctx, r.name.in(`UPDATE %L.chain SET deviates = FALSE`))
	return found, err
}

// rebase takes the tables as the base, when they are as certified.
func (r *repair) rebase() error {
	have := map[string]rowSet{}
	for name, t := range r.tables {
		var err error
		if have[name], err = readRows(r.ctx, r.q, r.name, t); err != nil {
			return err
		}
	}
	if !r.certain(have) {
		return beyond("the tables do not give the state root of block %d", r.number)
	}
	return r.takeBase(have)
}

// takeBase makes rows that are certain those of tables, running states and bases.
func (r *repair) takeBase(rows map[string]rowSet) error {
	if _, err := r.put(rows); err != nil {
		return err
	}
	for name, t := range r.tables {
		if err := writeBase(r.ctx, r.q, r.name, t, rows[name]); err != nil {
			return err
		}
		if _, err := r.q.ExecContext(r.ctx, r.name.in(`UPDATE %L.ledger_table SET base_after = ? WHERE id = ?`), r.number, t.id); err != nil {
			return err
		}
	}
	return nil
}

// replay takes the tables back to their oldest base, and executes the blocks since again. The hash
// chain shows that each came out as certified.
func (r *repair) replay(b *Backend) ([]backend.RowDeviation, error) {
	before := map[string]rowSet{}
	start := r.number
	for name, t := range r.tables {
		var err error
		if before[name], err = readRows(r.ctx, r.q, r.name, t); err != nil {
			return nil, err
		}
		start = min(start, t.baseAfter)
	}
	blocks, err := r.keptBlocks(start)
	if err == nil {
		err = r.reset(start)
	}
	if err != nil {
		return nil, err
	}
	p, err := readPosition(r.ctx, r.q, r.name)
	if err != nil {
		return nil, err
	}
	err = checkAll.set(r.ctx, r.q)
	for _, kept := range blocks {
		if err == nil {
			p.Hash, err = r.again(b, kept, p.Hash)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.Hash != r.header.Hash() {
		return nil, beyond("executed again, block %d has the hash %x", r.number, p.Hash)
	}
	var found []backend.RowDeviation
	for name, t := range r.tables {
		after, err := readRows(r.ctx, r.q, r.name, t)
		if err != nil {
			return nil, err
		}
		found = append(found, differences(t, before[name], after)...)
	}
	_, err = r.q.ExecContext(r.ctx, r.name.in(`UPDATE %L.chain SET deviates = FALSE`))
	return found, err
}

func differences(t *table, have, want rowSet) []backend.RowDeviation {
	all := maps.Clone(have)
	maps.Copy(all, want)
	var found []backend.RowDeviation
	for key := range all {
		if string(have[key]) != string(want[key]) {
			found = append(found, t.deviation(want[key], have[key]))
		}
	}
	return found
}

// again executes a kept block in the transaction of the repair.
func (r *repair) again(b *Backend, kept *wire.OrderedBlock, previous wire.Hash) (wire.Hash, error) {
	run, err := b.newRun(kept)
	if err != nil {
		return wire.Hash{}, err
	}
	run.ctx, run.known = r.ctx, map[string]*described{}
	maps.Copy(run.known, b.known)
	if err := run.prepare(previous); err != nil {
		return wire.Hash{}, err
	}
	if err := run.transactions(nil); err != nil {
		return wire.Hash{}, err
	}
	if run.unguarded != nil {
		return wire.Hash{}, beyond("block %d attaches table %s, which is on the ledger no more", kept.Number, run.unguarded[0])
	}
	err = run.seal(b.cfg.ChainID, previous)
	return run.hash, err
}

// keptBlocks are the blocks after start, as their transactions are kept.
func (r *repair) keptBlocks(start uint64) ([]*wire.OrderedBlock, error) {
	rows, err := r.q.QueryContext(r.ctx, r.name.in(`SELECT b.number, b.header, t.id, t.raw, t.sql_state FROM %L.block b
		JOIN %L.transaction t ON t.block = b.number WHERE b.number > ? ORDER BY b.number, t.place`), start)
	if err != nil {
		return nil, err
	}
	var blocks []*wire.OrderedBlock
	var raws [][][]byte
	err = each(rows, func() error {
		var number uint64
		var header, id, raw []byte
		var state string
		if err := rows.Scan(&number, &header, &id, &raw, &state); err != nil {
			return err
		}
		if len(blocks) == 0 || blocks[len(blocks)-1].Number != number {
			h, err := wire.DecodeHeader(header)
			if err != nil {
				return err
			}
			blocks = append(blocks, &wire.OrderedBlock{Number: number, Height: int64(h.OrderHeight), TimeMicro: h.BlockTime})
			raws = append(raws, nil)
		}
		at := len(blocks) - 1
		if state == "CH001" {
			blocks[at].Quarantined = append(blocks[at].Quarantined, uint32(len(blocks[at].IDs)))
		}
		hash, err := hashOf(id)
		blocks[at].IDs, raws[at] = append(blocks[at].IDs, hash), append(raws[at], raw)
		return err
	})
	for i := range blocks {
		blocks[i].Transactions = wire.EncodeTransactions(raws[i])
	}
	return blocks, err
}

// reset takes tables and ledger back to the end of block start.
func (r *repair) reset(start uint64) error {
	var detached int
	err := r.q.QueryRowContext(r.ctx, r.name.in(`SELECT count(*) FROM %L.ledger_table WHERE detached_at > ?`), start).Scan(&detached)
	if err == nil && detached > 0 {
		err = beyond("a table was detached after block %d, to which the bases reach back", start)
	}
	if err != nil {
		return err
	}
	for _, t := range r.tables {
		base, err := rowsAt(r.ctx, r.q, r.name, t, t.baseAfter)
		if err != nil {
			return err
		}
		have, err := readRows(r.ctx, r.q, r.name, t)
		if err == nil {
			_, err = put(r.ctx, r.q, r.name, t, have, base)
		}
		if err == nil {
			t.state = t.sum(base)
			err = writeState(r.ctx, r.q, r.name, t, &t.state)
		}
		if err != nil {
			return err
		}
	}
	for _, statement := range []string{
		`DELETE FROM %L.base WHERE table_id IN (SELECT id FROM %L.ledger_table WHERE attached_at > ?)`,
		`DELETE FROM %L.ledger_procedure WHERE attached_at > ?`, `UPDATE %L.ledger_procedure SET detached_at = NULL WHERE detached_at > ?`,
		`DELETE FROM %L.ledger_table WHERE attached_at > ?`, `DELETE FROM %L.history WHERE block > ?`,
		`DELETE FROM %L.transaction WHERE block > ?`, `DELETE FROM %L.block WHERE number > ?`,
	} {
		if _, err := r.q.ExecContext(r.ctx, r.name.in(statement), start); err != nil {
			return err
		}
	}
	return nil
}
