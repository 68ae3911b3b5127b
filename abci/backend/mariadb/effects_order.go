package mariadb

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/turns"
	"github.com/chainify-db/chainify/abci/wire"
)

// place is a row of a table, there or not.
type place struct {
	table *table
	key   string
}

// seenRows are the rows of one transaction of a run: as it saw them, and those that it writes.
type seenRows struct {
	saw     map[uint32]wire.Hash // zeros: there was no row
	writes  []uint32
	written []writtenRow
	reads   []tableRead
	covers  map[uint32]bool // rows that others write and its reads cover
}

// effectsRun numbers the rows of EFFECTS transactions that follow each other.
type effectsRun struct {
	*run
	numbers map[place]uint32
	places  []place
	seen    []seenRows
}

// turnsOf gives the order in which EFFECTS transactions of a run are applied, and those that lose.
// Cost: linear in their rows, and a look-up for each row of those that share one with another.
func (r *run) turnsOf(proposals []*wire.Proposal) (turns.Turns, *effectsRun, error) {
	e := &effectsRun{run: r, numbers: map[place]uint32{}}
	for _, p := range proposals {
		e.seen = append(e.seen, e.rowsOf(p.Effects))
	}
	e.cover()
	accesses, err := e.accesses()
	if err != nil {
		return turns.Turns{}, e, err
	}
	return turns.Of(accesses, turns.Agreed), e, nil
}

// rowsOf reads a write set. One that cannot be read has no rows, and fails by itself.
func (e *effectsRun) rowsOf(effects []byte) seenRows {
	rows := seenRows{saw: map[uint32]wire.Hash{}, covers: map[uint32]bool{}}
	s, err := wire.DecodeWriteSet(effects)
	if err == nil {
		err = canonical.CheckWriteSet(s)
	}
	if err != nil {
		return rows
	}
	tables := make([]*table, len(s.Tables))
	for i, name := range s.Tables {
		if tables[i] = e.tables[name]; tables[i] == nil {
			return rows
		}
	}
	note := func(t *table, key []byte, saw wire.Hash) uint32 {
		number := e.number(place{t, string(key)})
		if _, known := rows.saw[number]; !known {
			rows.saw[number] = saw
		}
		return number
	}
	for i := range s.Changes {
		c := &s.Changes[i]
		t, key := tables[c.Table], c.Row
		w := writtenRow{all: c.Op == 'I', nulls: map[uint16]bool{}}
		if c.Op == 'I' {
			var err error
			if w.columns, err = canonical.DecodeRow(c.Row); err == nil {
				key, err = canonical.AppendRow(nil, t.keyOfRow(w.columns))
			}
			if err != nil {
				return seenRows{covers: map[uint32]bool{}}
			}
		}
		w.take(c.Cells)
		w.place = note(t, key, c.Before)
		rows.writes, rows.written = append(rows.writes, w.place), append(rows.written, w)
	}
	for i := range s.Reads {
		rows.reads = append(rows.reads, tableRead{tables[s.Reads[i].Table], &s.Reads[i]})
	}
	for i := range s.Seen {
		note(tables[s.Seen[i].Table], s.Seen[i].Key, s.Seen[i].Hash)
	}
	return rows
}

// take reads the cells of an update.
func (w *writtenRow) take(cells []wire.Cell) {
	for _, cell := range cells {
		v, err := canonical.DecodeValue(cell.Value)
		if err != nil {
			w.nulls[cell.Ordinal] = true
			continue
		}
		w.columns = append(w.columns, canonical.Column{Ordinal: cell.Ordinal, Value: v})
	}
}

// all are the rows that the transaction saw and that its reads cover.
func (s *seenRows) all() map[uint32]bool {
	out := maps.Clone(s.covers)
	for number := range s.saw {
		out[number] = true
	}
	return out
}

func (e *effectsRun) number(p place) uint32 {
	number, known := e.numbers[p]
	if !known {
		number = uint32(len(e.places))
		e.numbers[p], e.places = number, append(e.places, p)
	}
	return number
}

// accesses are the rows that count: none of a transaction that shares no row with another, or saw a
// row that is another one by now.
func (e *effectsRun) accesses() ([]turns.Accesses, error) {
	transactions, written := make([]int, len(e.places)), make([]bool, len(e.places))
	for _, rows := range e.seen {
		for number := range rows.all() {
			transactions[number]++
		}
		for _, number := range rows.writes {
			written[number] = true
		}
	}
	now := map[uint32]wire.Hash{}
	out := make([]turns.Accesses, len(e.seen))
	for i, rows := range e.seen {
		shared, stale := false, false
		for number := range rows.all() {
			shared = shared || transactions[number] > 1 && written[number]
		}
		if !shared {
			continue
		}
		for number, saw := range rows.saw {
			hash, err := e.hashNow(number, now)
			if err != nil {
				return nil, err
			}
			stale = stale || hash != saw
		}
		if !stale {
			out[i] = turns.Accesses{Sees: slices.Sorted(maps.Keys(rows.all())), Writes: rows.writes}
		}
	}
	return out, nil
}

// unreadable is the hash of a key that the table cannot have. No row has it.
var unreadable = wire.Hash{1}

// hashNow is the hash of a row before the first turn; zeros: there is none.
func (e *effectsRun) hashNow(number uint32, known map[uint32]wire.Hash) (wire.Hash, error) {
	if hash, done := known[number]; done {
		return hash, nil
	}
	p, hash := e.places[number], wire.Hash{}
	key, err := canonical.DecodeRow([]byte(p.key))
	var row []byte
	if err == nil {
		row, err = e.rowWith(p.table, key)
	}
	switch {
	case err != nil && outcomeOf(err) != nil:
		hash = unreadable
	case err != nil:
		return hash, err
	case row != nil:
		hash = wire.RowHash(p.table.Name, row)
	}
	known[number] = hash
	return hash, nil
}

// lost words the outcome of a victim; first is the index of the run's first transaction.
func (e *effectsRun) lost(v turns.Victim, first int) *outcome {
	if v.Excess {
		return &outcome{"40001", "the transactions of the block have too many rows in common"}
	}
	p := e.places[v.Place]
	row := fmt.Sprintf("row (%s) of table %q", p.table.keyText([]byte(p.key)), p.table.Name)
	if len(v.Others) == 0 {
		return &outcome{"40001", row + " is changed by another transaction of the block"}
	}
	others := make([]string, len(v.Others))
	for i, other := range v.Others {
		others[i] = fmt.Sprint(first + other)
	}
	return &outcome{"40001", row + " is changed by others of the block: by transaction " + strings.Join(others, ", ")}
}

// endOfRun is the end of the run of EFFECTS transactions that begins at one; next after it for
// another kind. A quarantined or refused transaction ends a run.
func (r *run) endOfRun(proposals []*wire.Proposal, from int) int {
	to := from
	for to < len(proposals) && proposals[to].Kind == wire.Kind_KIND_EFFECTS && !r.quarantined(to) && r.refusals[to] == nil {
		to++
	}
	return max(to, from+1)
}
