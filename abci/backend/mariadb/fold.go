package mariadb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// pieceOf is how many of these blocks make up to so many changes together; the first one whatever
// it makes.
func pieceOf(links []link, changesMax int) int {
	changes := 0
	for i, l := range links {
		if changes += l.changes; changes > changesMax {
			return max(i, 1)
		}
	}
	return len(links)
}

// piece folds the next blocks, and tells how many. 0: what was known of the bases counts for
// nothing, and it has to be asked again.
func (f *folder) piece(ctx context.Context, after uint64, links []link) (int, error) {
	p, err := f.read(ctx, after, links[:pieceOf(links[:min(len(links), pieceBlocksMax)], f.changesMax)])
	if err != nil {
		return 0, err
	}
	if p.root() != p.header.StateRoot {
		if !p.known {
			err = &falseBase{p.to}
		}
		f.bases = nil
		return 0, err
	}
	if err := f.write(ctx, p); err != nil {
		return 0, err
	}
	for _, t := range p.tables {
		f.bases[t.id] = base{t.state, f.bases[t.id].read}
	}
	return int(p.to - after), nil
}

// piece is the blocks that one transaction folds.
type piece struct {
	after, to uint64
	header    *wire.Header                   // of the last block
	rows      map[int64]map[wire.Hash][]byte // by table and key, at the end; nil: gone
	tables    []*table                       // on the ledger at the end, by number, with their states then
	states    []canonical.Named              // of procedures
	known     bool                           // the base of a table was not read for it
}

// read reads the blocks, and computes what they make of the bases, all of one moment.
func (f *folder) read(ctx context.Context, after uint64, links []link) (*piece, error) {
	conn, err := f.b.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	r := &reading{conn: conn, name: f.b.name}
	defer r.Close()
	p := &piece{after: after, to: after, rows: map[int64]map[wire.Hash][]byte{}}
	if err = r.snapshot(ctx); err == nil {
		err = p.take(ctx, r, links, f.bytesMax)
	}
	if err == nil {
		err = f.advance(ctx, r, p)
	}
	return p, err
}

// take reads the blocks, one at a time, and expects each to be as agreed. So many bytes make it
// stop before the last one.
func (p *piece) take(ctx context.Context, r *reading, links []link, bytesMax int) error {
	bytes := 0
	for _, l := range links {
		number := p.to + 1
		k, err := keptBlock(ctx, r.conn, r.name, number)
		if err == nil {
			err = k.readIDs(ctx, r.conn, r.name, number)
		}
		if err == nil {
			p.header, err = k.check(number, l.hash)
		}
		var why *backend.Obstacle
		if errors.As(err, &why) {
			return &falsePast{number, why.Why}
		}
		if err != nil {
			return err
		}
		for i := range k.changes {
			c := &k.changes[i]
			if number > c.table.baseAfter {
				bytes += p.change(c)
			}
		}
		if p.to = number; bytes >= bytesMax {
			return nil
		}
	}
	return nil
}

func (p *piece) change(c *change) int {
	rows := p.rows[c.table.id]
	if rows == nil {
		rows = map[wire.Hash][]byte{}
		p.rows[c.table.id] = rows
	}
	row := c.row
	if c.Op == 'D' {
		row = nil
	}
	rows[sha256.Sum256(c.Key)] = row
	return len(row)
}

// advance computes the states that the tables have at the end of the piece, from those of their
// bases and the rows that change.
func (f *folder) advance(ctx context.Context, r *reading, p *piece) error {
	tables, err := attachedTables(ctx, r.conn, r.name, p.to)
	if err != nil {
		return err
	}
	procedures, err := readProcedures(ctx, r.conn, f.b.pool, r.name, p.to)
	if err != nil {
		return err
	}
	p.states = procedures.agreed()
	p.tables = slices.SortedFunc(maps.Values(tables), byNumber)
	for _, t := range p.tables {
		if t.baseAfter < p.after || t.baseAfter > p.to {
			return errGaveWay
		}
		known, err := f.baseOf(ctx, r, t)
		if err == nil {
			err = t.replace(ctx, r, p.rows[t.id])
		}
		if err != nil {
			return err
		}
		p.known = p.known || known
	}
	return nil
}

// byNumber is the order in which rows of ledger_table are locked.
func byNumber(a, b *table) int { return int(a.id - b.id) }

func (p *piece) root() wire.Hash {
	states := p.states
	for _, t := range p.tables {
		states = append(states, canonical.Named{Name: t.Name, State: t.stateHash()})
	}
	return canonical.StateRoot(states)
}

// baseOf gives a table the state of its base. It is read again once in Scrubbing.Every, as fast as
// the scrubber reads, so that rows of it that change are found.
func (f *folder) baseOf(ctx context.Context, r *reading, t *table) (known bool, err error) {
	s := f.b.cfg.Scrubbing
	of, known := f.bases[t.id]
	if known = known && (s.RowsPerSecond <= 0 || time.Since(of.read) < s.Every); known {
		t.state = of.state
		return true, nil
	}
	t.state = canonical.State{}
	rows, err := r.conn.QueryContext(ctx, r.name.in("SELECT row_bytes FROM %L.base WHERE table_id = ?"), t.id)
	if err != nil {
		return false, err
	}
	err = throttled(ctx, rows, s.RowsPerSecond, func(row sql.RawBytes) error {
		t.hasher.Add(&t.state, row)
		return nil
	})
	if err != nil {
		return false, err
	}
	if f.bases == nil {
		f.bases = map[int64]base{}
	}
	f.bases[t.id] = base{t.state, time.Now()}
	return false, nil
}

// replace brings the state of a base along: rows with these keys go, and the new ones come.
func (t *table) replace(ctx context.Context, r *reading, rows map[wire.Hash][]byte) error {
	for keys := range slices.Chunk(slices.Collect(maps.Keys(rows)), keysPage) {
		found, err := r.conn.QueryContext(ctx, r.name.in(fmt.Sprintf("SELECT row_bytes FROM %%L.base WHERE table_id = %d AND key_hash IN (%s)", t.id, keyList(keys))))
		if err != nil {
			return err
		}
		err = throttled(ctx, found, 0, func(row sql.RawBytes) error {
			t.hasher.Sub(&t.state, row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, row := range rows {
		if row != nil {
			t.hasher.Add(&t.state, row)
		}
	}
	return nil
}

func keyList(keys []wire.Hash) string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = hexLiteral(key[:])
	}
	return strings.Join(texts, ",")
}

// write moves the bases, all at once. Blocks wait for nothing but its last step: no block changes
// rows of a base. They lock the rows of ledger_table in the same order.
func (f *folder) write(ctx context.Context, p *piece) error {
	if !f.b.bases.TryLock() {
		return errGaveWay
	}
	defer f.b.bases.Unlock()
	ctx, cancel := context.WithTimeout(ctx, foldLimit)
	defer cancel()
	tx, err := f.b.pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
	for _, t := range p.tables {
		if err := p.writeRows(ctx, tx, f.b.name, t.id); err != nil {
			return gaveWay(err)
		}
	}
	for _, t := range p.tables {
		done, err := tx.ExecContext(ctx, f.b.name.in(patiently+"UPDATE %L.ledger_table SET base_after = ? WHERE id = ? AND base_after = ?"), p.to, t.id, t.baseAfter)
		if err != nil {
			return gaveWay(err)
		}
		if moved, err := done.RowsAffected(); err != nil || moved != 1 {
			return errors.Join(errGaveWay, err)
		}
	}
	return tx.Commit()
}

// patiently bounds how long a statement waits for locks.
var patiently = fmt.Sprintf("SET STATEMENT innodb_lock_wait_timeout = %d FOR ", foldWait)

func (p *piece) writeRows(ctx context.Context, tx *sql.Tx, name names, table int64) error {
	var gone []wire.Hash
	in := inserter{ctx: ctx, q: tx, head: name.in(patiently + "REPLACE INTO %L.base (table_id, key_hash, row_bytes) VALUES ")}
	for key, row := range p.rows[table] {
		if row == nil {
			gone = append(gone, key)
		} else if err := in.add(fmt.Sprintf("(%d, x'%x', x'%x')", table, key, row)); err != nil {
			return err
		}
	}
	for keys := range slices.Chunk(gone, keysPage) {
		text := fmt.Sprintf("DELETE FROM %%L.base WHERE table_id = %d AND key_hash IN (%s)", table, keyList(keys))
		if _, err := tx.ExecContext(ctx, name.in(patiently+text)); err != nil {
			return err
		}
	}
	return in.flush()
}

// gaveWay makes errors about locks errGaveWay.
func gaveWay(err error) error {
	if number := errorNumber(err); number == errLockWait || number == errDeadlock {
		return fmt.Errorf("%w: %w", errGaveWay, err)
	}
	return err
}
