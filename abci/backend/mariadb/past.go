package mariadb

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// falseBlocksMax is how many damaged blocks a position names at most.
const falseBlocksMax = 64

// past reads stored blocks for another organisation, each under the snapshot of one statement.
type past struct {
	pool *sql.DB
	name names
}

// ReadPast opens the stored blocks for another organisation.
func (b *Backend) ReadPast(context.Context) (backend.Past, error) { return past{b.pool, b.name}, nil }

// Close ends it.
func (past) Close() {}

// Block returns a block as it is stored here: its header, then its changes.
func (p past) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	if err := hasBlock(ctx, p.pool, p.name, number, hash); err != nil {
		return fmt.Errorf("tell block %d: %w", number, err)
	}
	k, err := keptBlock(ctx, p.pool, p.name, number)
	if err != nil {
		return fmt.Errorf("tell block %d: %w", number, err)
	}
	if err := each(k.header); err != nil {
		return err
	}
	for i := range k.changes {
		c := &k.changes[i]
		columns, err := canonical.DecodeRow(c.row)
		if err != nil {
			return fmt.Errorf("tell block %d: %w", number, err)
		}
		travelling := canonical.Travelling{Change: c.Change, Cells: c.table.cells(columns, c.table.Columns)}
		if err := each(travelling.Append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// kept is a block as this database stores it, or as another organisation sent it.
type kept struct {
	header  []byte
	changes []change // in canonical order
	ids     []wire.TxID
	tables  map[string]*table
}

// keptBlock reads a stored block without trusting it. It uses the definitions that tables had at
// the time of the block.
func keptBlock(ctx context.Context, q querier, name names, number uint64) (*kept, error) {
	k := &kept{}
	err := q.QueryRowContext(ctx, name.in(`SELECT header FROM %L.block WHERE number = ?`), number).Scan(&k.header)
	if err != nil {
		return nil, err
	}
	if k.tables, err = tablesSince(ctx, q, name, number); err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, name.in(`SELECT t.name, h.tx, h.serial, h.op, h.row_hash, h.key_bytes, h.row_bytes FROM %L.history h
		JOIN %L.ledger_table t ON t.id = h.table_id WHERE h.block = ? ORDER BY h.place`), number)
	if err != nil {
		return nil, err
	}
	return k, each(rows, func() error {
		var c change
		var op string
		var hash []byte
		if err := rows.Scan(&c.Table, &c.Tx, &c.Serial, &op, &hash, &c.Key, &c.row); err != nil {
			return err
		}
		var err error
		c.Op, c.table = op[0], k.tables[c.Table]
		if c.Hash, err = hashOf(hash); err == nil && c.table == nil {
			err = fmt.Errorf("table %s was not on the ledger then", c.Table)
		}
		k.changes = append(k.changes, c)
		return err
	})
}

// tablesSince are the tables that were on the ledger in a block or just before it.
func tablesSince(ctx context.Context, q querier, name names, number uint64) (map[string]*table, error) {
	tables, err := attachedTables(ctx, q, name, number)
	if err != nil {
		return nil, err
	}
	before, err := attachedTables(ctx, q, name, number-1)
	for name, t := range before {
		if tables[name] == nil {
			tables[name] = t
		}
	}
	return tables, err
}

// check verifies that a block's contents give the roots in its header, and that the header has the
// hash.
func (k *kept) check(number uint64, hash wire.Hash) (*wire.Header, error) {
	if wire.HeaderHash(k.header) != hash {
		return nil, beyond("the header of block %d has another hash", number)
	}
	header, err := wire.DecodeHeader(k.header)
	if err != nil || header.Number != number || header.TxRoot != wire.TxRoot(k.ids) || int(header.Outcomes.Len()) != len(k.ids) {
		return nil, beyond("the transactions of block %d are not those of its header (%v)", number, err)
	}
	changes, outcomes := make([]canonical.Change, len(k.changes)), make([]bool, len(k.ids))
	for i := range k.changes {
		c := &k.changes[i]
		columns, err := canonical.DecodeRow(c.row)
		if err != nil || int(c.Tx) >= len(outcomes) || wire.RowHash(c.Table, c.row) != c.Hash {
			return nil, beyond("change %d of block %d has another row (%v)", i, number, err)
		}
		key, err := canonical.AppendRow(nil, c.table.keyOfRow(columns))
		if err != nil || string(key) != string(c.Key) {
			return nil, beyond("change %d of block %d has another key (%v)", i, number, err)
		}
		changes[i] = c.Change
	}
	order := canonical.Sort(changes)
	for i := range changes {
		if order[i] != uint32(i) || changes[i].Serial != k.changes[i].Serial {
			return nil, beyond("changes of block %d are in another order", number)
		}
	}
	if canonical.EffectsOf(changes, order, outcomes).Root != header.EffectsRoot || int(header.EffectsCount) != len(changes) {
		return nil, beyond("the changes of block %d are not those of its header", number)
	}
	return header, nil
}

// Audit verifies at most this many stored blocks from a number on, and notes the damaged ones,
// which Position names. It returns the next number, 0 at the end.
func (b *Backend) Audit(ctx context.Context, from uint64, most int) (uint64, error) {
	next, _, err := b.auditFrom(ctx, from, most)
	return next, err
}

// audited is the result of an audit: the number of changes read, and the damaged blocks.
type audited struct {
	read  int
	noted map[uint64]bool
}

func (b *Backend) auditFrom(ctx context.Context, from uint64, most int) (next uint64, done audited, err error) {
	done.noted = map[uint64]bool{}
	p, err := readPosition(ctx, b.pool, b.name)
	for number := max(from, 1); err == nil && number <= p.Number; number++ {
		if most--; most < 0 {
			return number, done, nil
		}
		err = b.auditBlock(ctx, number, &done)
	}
	if err != nil {
		return 0, done, fmt.Errorf("audit: %w", err)
	}
	return 0, done, nil
}

func (b *Backend) auditBlock(ctx context.Context, number uint64, done *audited) error {
	var raw []byte
	err := b.pool.QueryRowContext(ctx, b.name.in(`SELECT hash FROM %L.block WHERE number = ?`), number).Scan(&raw)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = beyond("block %d is not there", number)
	case err == nil:
		err = b.auditKept(ctx, number, raw, done)
	}
	if errors.Is(err, backend.ErrBeyondRepair) {
		done.noted[number] = true
		_, err = b.pool.ExecContext(ctx, b.name.in(`INSERT IGNORE INTO %L.false_block (number) VALUES (?)`), number)
	}
	return err
}

func (b *Backend) auditKept(ctx context.Context, number uint64, raw []byte, done *audited) error {
	hash, err := hashOf(raw)
	if err != nil {
		return err
	}
	k, err := keptBlock(ctx, b.pool, b.name, number)
	if err == nil {
		done.read += len(k.changes)
		err = k.readIDs(ctx, b.pool, b.name, number)
	}
	if err == nil {
		_, err = k.check(number, hash)
	}
	return err
}

func (k *kept) readIDs(ctx context.Context, q querier, name names, number uint64) error {
	rows, err := q.QueryContext(ctx, name.in(`SELECT raw FROM %L.transaction WHERE block = ? ORDER BY place`), number)
	if err != nil {
		return err
	}
	return each(rows, func() error {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return err
		}
		tx, err := wire.DecodeChainedTx(raw)
		k.ids = append(k.ids, tx.ID) // zeros, which no root has, where it is none
		if err != nil {
			return beyond("transaction %d of block %d is none", len(k.ids)-1, number)
		}
		return nil
	})
}

// RestoreBlock repairs a damaged stored block.
func (b *Backend) RestoreBlock(ctx context.Context, from backend.Past, block *wire.OrderedBlock, certified wire.Hash) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.restoreBlock(ctx, from, block, certified)
	if err != nil {
		return fmt.Errorf("restore block %d: %w", block.Number, err)
	}
	return nil
}

func (b *Backend) restoreBlock(ctx context.Context, from backend.Past, block *wire.OrderedBlock, certified wire.Hash) error {
	if err := b.ready(); err != nil {
		return err
	}
	r, err := b.newRun(block)
	if err != nil {
		return err
	}
	k := &kept{ids: block.IDs}
	if k.tables, err = tablesSince(ctx, b.conn, b.name, block.Number); err != nil {
		return err
	}
	if err := from.Block(ctx, block.Number, certified, k.take); errors.Is(err, backend.ErrBeyondRepair) || isTold(err) {
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	k.sort()
	header, err := k.check(block.Number, certified)
	if err != nil {
		return err
	}
	r.ctx, r.changes = ctx, k.changes
	r.hash, r.header = certified, k.header
	defer b.watch()()
	if _, err := b.conn.ExecContext(ctx, b.xid.start()); err != nil {
		b.drop()
		return err
	}
	if err := r.replace(header); err != nil {
		b.undo()
		return err
	}
	return b.commit(ctx)
}

var errNoTable = errors.New("a change of a table that is not on the ledger, or one too many")

// take reads one message of a block from another organisation.
func (k *kept) take(part []byte) error {
	if k.header == nil {
		k.header = append([]byte{}, part...)
		return nil
	}
	c, err := k.changeOf(part)
	if err != nil {
		return err
	}
	k.changes = append(k.changes, c)
	return nil
}

// sort brings received changes into canonical order, since each database sends them in an order of
// its own.
func (k *kept) sort() {
	slices.SortFunc(k.changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), bytes.Compare(a.Key, b.Key), cmp.Compare(a.Serial, b.Serial))
	})
}

// changeOf reads the next change from another organisation.
func (k *kept) changeOf(part []byte) (change, error) {
	told, err := canonical.DecodeTravelling(part)
	if err != nil {
		return change{}, beyond("change %d: %v", len(k.changes), err)
	}
	c := change{Change: told.Change, table: k.tables[told.Table]}
	if c.table == nil || len(k.changes) == changesMax {
		return change{}, fmt.Errorf("%w: %w", errNoTable, beyond("change %d of table %q", len(k.changes), told.Table))
	}
	columns, err := c.table.columnsOf(told.Cells, c.table.Columns)
	if err == nil {
		c.row, err = canonical.AppendRow(nil, columns)
	}
	if err == nil {
		c.Key, err = canonical.AppendRow(nil, c.table.keyOfRow(columns))
	}
	if err != nil {
		return change{}, beyond("change %d: %v", len(k.changes), err)
	}
	return c, nil
}

// replace writes the block, its transactions and its changes in place of those kept. Rows, SQLSTATE
// and message of a transaction, which nothing hashes, stay.
func (r *run) replace(header *wire.Header) error {
	rows, err := r.conn.QueryContext(r.ctx, r.name.in(`SELECT id, row_count, sql_state, error FROM %L.transaction WHERE block = ?`), r.block.Number)
	if err != nil {
		return err
	}
	before := map[string]wire.TxResult{}
	err = each(rows, func() error {
		var id []byte
		var x wire.TxResult
		err := rows.Scan(&id, &x.Rows, &x.SQLState, &x.Message)
		before[string(id)] = x
		return err
	})
	if err != nil {
		return err
	}
	for i, id := range r.block.IDs {
		x := before[string(id[:])]
		x.ID, x.Block, x.Index, x.Succeeded = id, r.block.Number, uint32(i), header.Outcomes.Succeeded(uint32(i))
		r.results = append(r.results, x)
	}
	for _, statement := range []string{
		`DELETE FROM %L.history WHERE block = ?`, `DELETE FROM %L.transaction WHERE block = ?`, `DELETE FROM %L.block WHERE number = ?`,
		`DELETE FROM %L.false_block WHERE number = ?`,
	} {
		if _, err := r.conn.ExecContext(r.ctx, r.name.in(statement), r.block.Number); err != nil {
			return err
		}
	}
	return r.writeTold()
}

// writeTold writes the block with its changes, which are in canonical order.
func (r *run) writeTold() error {
	if err := r.writeBlock(); err != nil {
		return err
	}
	changes := make([]canonical.Change, len(r.changes))
	order := make([]uint32, len(r.changes))
	for i := range r.changes {
		changes[i], order[i] = r.changes[i].Change, uint32(i)
	}
	return r.writeHistory(changes, order)
}

// falseBlocks returns the first damaged blocks that Audit noted.
func falseBlocks(ctx context.Context, q querier, name names) ([]uint64, error) {
	rows, err := q.QueryContext(ctx, name.in(`SELECT number FROM %L.false_block ORDER BY number LIMIT ?`), falseBlocksMax)
	if err != nil {
		return nil, err
	}
	var found []uint64
	err = each(rows, func() error {
		var number uint64
		err := rows.Scan(&number)
		found = append(found, number)
		return err
	})
	return found, err
}
