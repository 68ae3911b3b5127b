package mariadb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// rowsPerRange is how many rows a range has about when two databases compare theirs.
const (
	rowsPerRange = 64
	rangeBitsMax = 12
)

// reading tells of base and history, under the snapshot of a transaction of its own. It holds the
// rows of one table at a time; those of the last block once somebody asks for them.
type reading struct {
	conn   *sql.Conn
	name   names
	number uint64
	tables map[string]*table
	told   []backend.TableState
	at     string // table of rows
	rows   rowSet
}

// Read opens the tables as of the end of a block, for another organisation.
func (b *Backend) Read(ctx context.Context, number uint64, hash wire.Hash) (backend.Reading, error) {
	conn, err := b.pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("read block %d: connect: %w", number, err)
	}
	r := &reading{conn: conn, name: b.name, number: number}
	if err := r.begin(ctx, hash); err != nil {
		r.Close()
		return nil, fmt.Errorf("read block %d: %w", number, err)
	}
	return r, nil
}

func (r *reading) begin(ctx context.Context, hash wire.Hash) error {
	if err := r.snapshot(ctx); err != nil {
		return err
	}
	if err := hasBlock(ctx, r.conn, r.name, r.number, hash); err != nil {
		return err
	}
	p, err := readPosition(ctx, r.conn, r.name)
	if err != nil {
		return err
	}
	if r.tables, err = attachedTables(ctx, r.conn, r.name, r.number); err != nil {
		return err
	}
	oldest := uint64(0)
	for _, t := range r.tables {
		oldest = max(oldest, t.baseAfter)
	}
	if r.number < oldest && r.number < p.Number {
		return notTold(r.number, oldest)
	}
	for name, t := range r.tables {
		if p.Number == r.number { // the running states are those of the last block
			r.told = append(r.told, backend.TableState{Table: name, Rows: uint64(t.state.Rows), State: t.stateHash()})
			continue
		}
		if err := r.load(ctx, name); err != nil {
			return err
		}
		r.told = append(r.told, backend.TableState{Table: name, Rows: uint64(len(r.rows)), State: t.stateOf(r.rows)})
	}
	return nil
}

// snapshot begins a transaction that sees one moment.
func (r *reading) snapshot(ctx context.Context) error {
	for _, statement := range []string{
		"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
	} {
		if _, err := r.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// hasBlock is ErrOutOfTurn unless the block is here with that hash.
func hasBlock(ctx context.Context, q querier, name names, number uint64, hash wire.Hash) error {
	var here []byte
	err := q.QueryRowContext(ctx, name.in(`SELECT hash FROM %L.block WHERE number = ?`), number).Scan(&here)
	if errors.Is(err, sql.ErrNoRows) || err == nil && string(here) != string(hash[:]) {
		return fmt.Errorf("%w: no such block", backend.ErrOutOfTurn)
	}
	return err
}

func (r *reading) load(ctx context.Context, name string) error {
	t := r.tables[name]
	if t == nil {
		return fmt.Errorf("table %q is not on the ledger", name)
	}
	if r.at == name {
		return nil
	}
	rows, err := rowsAt(ctx, r.conn, r.name, t, r.number)
	r.at, r.rows = name, rows
	return err
}

// Tables are all tables on the ledger.
func (r *reading) Tables() []backend.TableState { return r.told }

// Digests returns the digests of ranges of keys.
func (r *reading) Digests(ctx context.Context, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	if err := r.load(ctx, table); err != nil {
		return nil, fmt.Errorf("digests of %s: %w", table, err)
	}
	return digests(table, r.rows, within, bits), nil
}

// rangeOf is KeyRange of a key with this hash.
func rangeOf(hash wire.Hash, bits uint32) uint32 {
	head := uint64(hash[0])<<24 | uint64(hash[1])<<16 | uint64(hash[2])<<8 | uint64(hash[3])
	return uint32(head >> (32 - bits))
}

func digests(table string, rows rowSet, within backend.Ranges, bits uint32) []backend.RangeDigest {
	sums := map[uint32]*canonical.RangeSum{}
	for key, row := range rows {
		if _, ok := slices.BinarySearch(within.List, rangeOf(key, within.Bits)); !ok {
			continue
		}
		at := rangeOf(key, bits)
		if sums[at] == nil {
			sums[at] = &canonical.RangeSum{}
		}
		sums[at].Add(wire.RowHash(table, row))
	}
	out := make([]backend.RangeDigest, 0, len(sums))
	for at, sum := range sums {
		out = append(out, backend.RangeDigest{Range: at, Rows: sum.Rows, Digest: sum.Digest()})
	}
	slices.SortFunc(out, func(a, b backend.RangeDigest) int { return int(a.Range) - int(b.Range) })
	return out
}

// Rows returns the rows of ranges, in the encoding for other organisations.
func (r *reading) Rows(ctx context.Context, table string, in backend.Ranges, each func(cells []byte) error) error {
	if err := r.load(ctx, table); err != nil {
		return fmt.Errorf("rows of %s: %w", table, err)
	}
	t := r.tables[table]
	for key, row := range r.rows {
		if _, ok := slices.BinarySearch(in.List, rangeOf(key, in.Bits)); !ok {
			continue
		}
		columns, err := canonical.DecodeRow(row)
		if err != nil {
			return fmt.Errorf("rows of %s: %w", table, err)
		}
		if err := each(canonical.AppendCells(nil, t.cells(columns, t.byName()))); err != nil {
			return err
		}
	}
	return nil
}

// byName are the columns in the order in which rows travel.
func (t *table) byName() []canonical.ColumnType {
	columns := slices.Clone(t.Columns)
	slices.SortFunc(columns, func(a, b canonical.ColumnType) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return columns
}

func (t *table) cells(row []canonical.Column, columns []canonical.ColumnType) []*string {
	cells := make([]*string, len(columns))
	for i, c := range columns {
		if at := indexOf(row, c.Ordinal); at >= 0 {
			text := canonical.FormatText(c.Type, &row[at].Value)
			cells[i] = &text
		}
	}
	return cells
}

// rowOf encodes a row from another organisation, and its key.
func (t *table) rowOf(raw []byte, columns []canonical.ColumnType) (row, key []byte, err error) {
	cells, err := canonical.DecodeCells(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: row of %s: %w", backend.ErrUnfit, t.Name, err)
	}
	values, err := t.columnsOf(cells, columns)
	if err != nil {
		return nil, nil, err
	}
	if row, err = canonical.AppendRow(nil, values); err == nil {
		key, err = canonical.AppendRow(nil, t.keyOf(values))
	}
	return row, key, err
}

// columnsOf reads the cells of these columns. ErrUnfit: they are none.
func (t *table) columnsOf(cells []*string, columns []canonical.ColumnType) ([]canonical.Column, error) {
	if len(cells) != len(columns) {
		return nil, fmt.Errorf("%w: row of %s: %d columns, want %d", backend.ErrUnfit, t.Name, len(cells), len(columns))
	}
	var values []canonical.Column
	for i, c := range columns {
		if cells[i] == nil {
			continue
		}
		v, err := canonical.ParseText(c.Type, *cells[i])
		if err != nil {
			return nil, fmt.Errorf("%w: row of %s: %w", backend.ErrUnfit, t.Name, err)
		}
		values = append(values, canonical.Column{Ordinal: c.Ordinal, Value: v})
	}
	slices.SortFunc(values, func(a, b canonical.Column) int { return int(a.Ordinal) - int(b.Ordinal) })
	return values, nil
}

// Close ends the transaction.
func (r *reading) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	_, _ = r.conn.ExecContext(ctx, "ROLLBACK") // nothing was written
	_ = r.conn.Close()
}

// Restore takes the rows in which the tables differ from another organisation's reading.
func (b *Backend) Restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, out wire.Hash) (found []backend.RowDeviation, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	err = b.repairing(ctx, number, certified, func(r *repair) error {
		want, err := r.taken(from)
		if err != nil {
			return err
		}
		if !r.certain(want) {
			return beyond("the rows told do not give the state root of block %d", number)
		}
		if found, err = r.put(want); err != nil {
			return err
		}
		if err = r.takeBase(want); err == nil {
			err = r.note(backend.State, deviating, out, found)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("restore at block %d: %w", number, err)
	}
	return found, nil
}

// taken returns the rows of this database, with the ranges that differ replaced by those of the
// reading.
func (r *repair) taken(from backend.Reading) (map[string]rowSet, error) {
	want := map[string]rowSet{}
	for _, told := range from.Tables() {
		t := r.tables[told.Table]
		if t == nil || want[told.Table] != nil {
			return nil, beyond("table %q was told, which is not on the ledger here, or told twice", told.Table)
		}
		rows, err := readRows(r.ctx, r.q, r.name, t)
		if err == nil {
			err = r.take(from, t, told, rows)
		}
		if err != nil {
			return nil, err
		}
		want[told.Table] = rows
	}
	return want, nil
}

// take replaces the rows that differ by the received ones. It fails when there are more than the
// state has.
func (r *repair) take(from backend.Reading, t *table, told backend.TableState, rows rowSet) error {
	few := min(rangeBitsMax, bits.Len64(told.Rows/rowsPerRange))
	theirs, err := from.Digests(r.ctx, t.Name, backend.All(), uint32(few))
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	mine := digests(t.Name, rows, backend.All(), uint32(few))
	differ := backend.Ranges{Bits: uint32(few)}
	for at := range uint32(1) << few {
		if digestAt(theirs, at) != digestAt(mine, at) {
			differ.List = append(differ.List, at)
		}
	}
	if len(differ.List) == 0 {
		return nil
	}
	for key := range rows {
		if _, ok := slices.BinarySearch(differ.List, rangeOf(key, differ.Bits)); ok {
			delete(rows, key)
		}
	}
	columns := t.byName()
	err = from.Rows(r.ctx, t.Name, differ, func(cells []byte) error {
		row, key, err := t.rowOf(cells, columns)
		if err != nil {
			return err
		}
		if rows[sha256.Sum256(key)] = row; uint64(len(rows)) > told.Rows {
			return fmt.Errorf("%w: more than %d rows of %s", backend.ErrUnfit, told.Rows, t.Name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, backend.ErrUnfit) {
		return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	return err
}

// digestAt returns the digest of a range from a list; zeros where the list has none.
func digestAt(list []backend.RangeDigest, at uint32) backend.RangeDigest {
	i := slices.IndexFunc(list, func(d backend.RangeDigest) bool { return d.Range == at })
	if i < 0 {
		return backend.RangeDigest{}
	}
	return list[i]
}
