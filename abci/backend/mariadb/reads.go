package mariadb

import (
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of what the reads of a SERIALIZABLE transaction are compared with (spec/transactions.md,
// "Reads").
const (
	readBlocksMax      = 1_000
	readChangesMax     = 65_536
	readBytesMax       = 1 << 26
	readComparisonsMax = 1 << 18
)

func tooFar(format string, args ...any) error { return &outcome{"40001", fmt.Sprintf(format, args...)} }

// checkReads fails when a read of the transaction may find other rows by now (W3). Tables are those
// of the write set. Cost: a look at the history of each table since the snapshot.
func (r *run) checkReads(s *wire.WriteSet, tables []*table, role string) error {
	last := r.block.Number - 1
	switch {
	case s.Isolation != wire.Serializable:
		return nil
	case s.Snapshot > last:
		return &outcome{"22023", fmt.Sprintf("the transaction saw block %d, and the last one is %d", s.Snapshot, last)}
	case last-s.Snapshot > readBlocksMax:
		return tooFar("the transaction began at block %d, and the last one is %d: at most %d may lie between", s.Snapshot, last, readBlocksMax)
	}
	left := readComparisonsMax
	known := map[*table][][]byte{}
	for i := range s.Reads {
		read := &s.Reads[i]
		t := tables[read.Table]
		if err := r.mayBound(t, read, role); err != nil {
			return err
		}
		if t.attachedAt > s.Snapshot {
			return tooFar("table %q has another definition since the transaction began", t.Name)
		}
		rows, there := known[t]
		if !there {
			var err error
			if rows, err = r.changedSince(t, s.Snapshot); err != nil {
				return err
			}
			known[t] = rows
		}
		for _, row := range rows {
			if left--; left < 0 {
				return tooFar("too many rows have changed since the transaction began")
			}
			if canonical.Covers(read, row) {
				return tooFar("rows of table %q that the transaction read have changed", t.Name)
			}
		}
	}
	return nil
}

// mayBound expects the right to read the columns of bounds and of the primary key. Bounds could be
// made up to learn of rows that the role does not see.
func (r *run) mayBound(t *table, read *wire.Read, role string) error {
	if len(read.Bounds) == 0 {
		return nil
	}
	columns := slices.Clone(t.PrimaryKey)
	for _, bound := range read.Bounds {
		c, err := t.column(bound.Ordinal)
		if err != nil {
			return err
		}
		columns = append(columns, c.Name)
	}
	if err := r.become(role); err != nil {
		return err
	}
	err := r.mayRead(t, columns)
	if outcomes[errorNumber(err)] == "42501" {
		return &outcome{"42501", fmt.Sprintf("permission denied for bounds of reads of table %q", t.Name)}
	}
	if err != nil {
		return err
	}
	_, err = r.conn.ExecContext(r.ctx, "SET ROLE "+r.name.role())
	return err
}

// changedSince are the rows after changes of a table, and before deletes: in the blocks after one,
// and in this block so far.
func (r *run) changedSince(t *table, snapshot uint64) ([][]byte, error) {
	rows, err := r.conn.QueryContext(r.ctx, r.name.in(`SELECT row_bytes FROM %L.history WHERE table_id = ? AND block > ? AND block < ? LIMIT ?`),
		t.id, snapshot, r.block.Number, readChangesMax+1)
	if err != nil {
		return nil, err
	}
	var changed [][]byte
	size := 0
	err = each(rows, func() error {
		var row []byte
		if err := rows.Scan(&row); err != nil {
			return err
		}
		changed = append(changed, row)
		if size += len(row); size > readBytesMax || len(changed) > readChangesMax {
			return tooFar("table %q has changed too often since the transaction began", t.Name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range r.changes {
		if r.changes[i].table == t {
			changed = append(changed, r.changes[i].row)
		}
	}
	return changed, nil
}

// writtenRow is a row that a transaction of a run writes, as far as its write set tells it.
type writtenRow struct {
	place   uint32
	columns []canonical.Column
	nulls   map[uint16]bool // cells of an update that are NULL
	all     bool            // columns that are not named are NULL
}

// mayCome tells whether the row may come to lie in a read. Of an update that changes no column with
// a bound, and of a delete, the read has found the row or has nothing to do with it.
func (w *writtenRow) mayCome(read *wire.Read) bool {
	if len(read.Bounds) == 0 {
		return true
	}
	named := func(ordinal uint16) bool {
		return w.nulls[ordinal] || canonical.KnownOf(w.columns, ordinal).Value != nil
	}
	touched := w.all
	for i := range read.Bounds {
		touched = touched || named(read.Bounds[i].Ordinal)
	}
	return touched && canonical.MayCover(read, func(ordinal uint16) canonical.Known {
		known := canonical.KnownOf(w.columns, ordinal)
		known.Unknown = !w.all && !named(ordinal)
		return known
	})
}

// coverComparisonsMax bounds the comparisons of reads with rows written in a run; later ones cover
// nothing.
const coverComparisonsMax = 1 << 20

// cover adds to the rows that each transaction sees those that its reads cover and others write.
func (e *effectsRun) cover() {
	type written struct {
		transaction int
		row         *writtenRow
	}
	byTable := map[*table][]written{}
	for i := range e.seen {
		for j := range e.seen[i].written {
			w := &e.seen[i].written[j]
			t := e.places[w.place].table
			byTable[t] = append(byTable[t], written{i, w})
		}
	}
	left := coverComparisonsMax
	for i := range e.seen {
		for _, read := range e.seen[i].reads {
			for _, other := range byTable[read.table] {
				if other.transaction == i || left == 0 {
					continue
				}
				if left--; other.row.mayCome(read.read) {
					e.seen[i].covers[other.row.place] = true
				}
			}
		}
	}
}

// tableRead is a read of a table.
type tableRead struct {
	table *table
	read  *wire.Read
}
