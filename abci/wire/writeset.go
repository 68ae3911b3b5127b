package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

const (
	writeSetVersion = 1

	// The fewest bytes of lp(name), a row, a change, a row seen, a cell and a read.
	tableBytesMin  = 4 + 3
	rowBytesMin    = 2 + 2 + 5
	changeBytesMin = 2 + 1 + 4 + rowBytesMin
	seenBytesMin   = 2 + 4 + rowBytesMin + 1
	cellBytesMin   = 2 + 5
	readBytesMin   = 2 + 2
)

// Isolation is the level at which a client's session ran its transaction.
type Isolation byte

// The levels that a write set names.
const (
	ReadCommitted  Isolation = 1
	RepeatableRead Isolation = 2
	Serializable   Isolation = 3
)

// WriteSet is the content of an EFFECTS transaction: the changes that a transaction made in its
// client's own database, with the rows that it saw (spec/formats.md, "EFFECTS transactions"). Rows,
// keys and values are encoded as there, in slices of the bytes that were decoded.
type WriteSet struct {
	Snapshot  uint64 // the last block that the first statement saw; 0 before block 1
	Isolation Isolation
	Tables    []string    // ascending; each is used
	Changes   []RowChange // in the order in which the transaction made them
	Seen      []RowSeen   // ascending by table and key
	Reads     []Read      // ascending by their bytes; of Serializable alone
}

// RowChange is a change of one row.
type RowChange struct {
	Table  uint16 // index in Tables
	Op     byte   // 'I', 'U' or 'D', as in the effects of a block
	Before Hash   // row hash of the row before; zeros for an insert
	Row    []byte // of an insert the row, else its primary key
	Cells  []Cell // of an update: the changed columns, ascending
}

// Cell is a changed column with its whole value: tag, length and payload.
type Cell struct {
	Ordinal uint16
	Value   []byte
}

// RowSeen is a row that the transaction looked for.
type RowSeen struct {
	Table   uint16
	Key     []byte
	Present bool
	Hash    Hash // the row hash; zeros when it is not present
}

// Read names the rows of a table within all bounds; without a bound it is the whole table.
type Read struct {
	Table  uint16
	Bounds []Bound // ascending by ordinal
}

// Bound holds the values of a column between two ends, of which at least one is there.
type Bound struct {
	Ordinal      uint16
	Lower, Upper End
}

// End is an end of a bound: 0 none, 1 with the value outside, 2 with the value inside.
type End struct {
	Kind  byte
	Value []byte
}

// null is the encoding of NULL in a cell.
var null = make([]byte, 5)

// DecodeWriteSet reads a write set and checks everything but the payloads of values: all that the
// order checks. Errors name the place: effects.changes[3].cells. Cost: linear in the bytes, with a
// copy of names alone.
func DecodeWriteSet(raw []byte) (*WriteSet, error) {
	if len(raw) > WriteSetBytesMax {
		return nil, fieldErrorf("effects", "%d bytes, want at most %d", len(raw), WriteSetBytesMax)
	}
	r := reader{rest: raw}
	s := r.writeSet()
	if r.err != nil {
		r.within("effects")
		return nil, r.err
	}
	if r.end("effects"); r.err != nil {
		return nil, r.err
	}
	if i := s.unused(); i >= 0 {
		return nil, fieldErrorf(fmt.Sprintf("effects.tables[%d]", i), "used by no change, no row seen and no read")
	}
	return s, nil
}

func (r *reader) writeSet() *WriteSet {
	if version := r.u8("version"); version != writeSetVersion {
		r.fail("version", "%d, want %d", version, writeSetVersion)
	}
	s := &WriteSet{Snapshot: r.u64("snapshot"), Isolation: Isolation(r.u8("isolation"))}
	if s.Isolation < ReadCommitted || s.Isolation > Serializable {
		r.fail("isolation", "%d, want %d to %d", s.Isolation, ReadCommitted, Serializable)
	}
	s.Tables = r.tables()
	s.Changes = r.changes(len(s.Tables))
	s.Seen = r.seen(len(s.Tables))
	s.Reads = r.reads(len(s.Tables))
	if len(s.Reads) > 0 && s.Isolation != Serializable {
		r.fail("reads", "there though the isolation is not SERIALIZABLE")
	}
	return s
}

// unused is the index of a table that nothing uses; -1: there is none.
func (s *WriteSet) unused() int {
	used := make([]bool, len(s.Tables))
	for i := range s.Changes {
		used[s.Changes[i].Table] = true
	}
	for i := range s.Seen {
		used[s.Seen[i].Table] = true
	}
	for i := range s.Reads {
		used[s.Reads[i].Table] = true
	}
	return slices.Index(used, false)
}

func (r *reader) tables() []string {
	n := r.u16("tables")
	if n == 0 || n > WriteSetTablesMax {
		r.fail("tables", "%d, want 1 to %d", n, WriteSetTablesMax)
	}
	names := make([]string, r.count("tables", uint32(n), tableBytesMin))
	for i := range names {
		place := fmt.Sprintf("tables[%d]", i)
		names[i] = r.tableName(place)
		if i > 0 && names[i-1] >= names[i] {
			r.fail(place, "not above the one before it")
		}
		if r.err != nil {
			return nil
		}
	}
	return names
}

// tableName reads lp(schema.name), unquoted: two names of at most 63 bytes with a dot between them.
func (r *reader) tableName(place string) string {
	name := string(r.prefixed(place))
	switch {
	case len(name) == 0 || len(name) > tableNameBytesMax:
		r.fail(place, "%d bytes, want 1 to %d", len(name), tableNameBytesMax)
	case checkText(place, name) != nil:
		r.fail(place, "is not UTF-8 or has a zero byte")
	case !strings.Contains(name[1:max(1, len(name)-1)], "."):
		r.fail(place, "has no dot between a schema and a name")
	}
	return name
}

func (r *reader) changes(tables int) []RowChange {
	changes := make([]RowChange, r.count("changes", r.u32("changes"), changeBytesMin))
	for i := range changes {
		if changes[i] = r.change(tables); r.err != nil {
			r.within(fmt.Sprintf("changes[%d]", i))
			return nil
		}
	}
	return changes
}

func (r *reader) change(tables int) RowChange {
	c := RowChange{Table: r.table(tables), Op: r.u8("op")}
	switch c.Op {
	case 'I':
		c.Row = r.row("row")
	case 'U':
		c.Before, c.Row = r.hash("before"), r.row("pk")
		c.Cells = r.cells()
	case 'D':
		c.Before, c.Row = r.hash("before"), r.row("pk")
	default:
		r.fail("op", "%d, want I, U or D", c.Op)
	}
	return c
}

func (r *reader) cells() []Cell {
	n := r.u16("cells")
	if n == 0 {
		r.fail("cells", "empty")
	}
	cells := make([]Cell, r.count("cells", uint32(n), cellBytesMin))
	last := uint16(0)
	for i := range cells {
		last = r.ordinal("cells", last)
		cells[i] = Cell{last, r.value("cells", true)}
		if r.err != nil {
			return nil
		}
	}
	return cells
}

func (r *reader) seen(tables int) []RowSeen {
	seen := make([]RowSeen, r.count("seen", r.u32("seen"), seenBytesMin))
	for i := range seen {
		seen[i] = r.rowSeen(tables)
		if r.err == nil && i > 0 && !seen[i-1].below(&seen[i]) {
			r.fail(fmt.Sprintf("seen[%d]", i), "not above the one before it")
			return nil
		}
		if r.err != nil {
			r.within(fmt.Sprintf("seen[%d]", i))
			return nil
		}
	}
	return seen
}

func (r *reader) rowSeen(tables int) RowSeen {
	s := RowSeen{Table: r.table(tables), Key: r.row("pk")}
	switch present := r.u8("present"); present {
	case 0:
	case 1:
		s.Present, s.Hash = true, r.hash("hash")
	default:
		r.fail("present", "%d, want 0 or 1", present)
	}
	return s
}

func (s *RowSeen) below(o *RowSeen) bool {
	return s.Table < o.Table || s.Table == o.Table && bytes.Compare(s.Key, o.Key) < 0
}

func (r *reader) reads(tables int) []Read {
	n := r.count("reads", r.u32("reads"), readBytesMin)
	if n > WriteSetReadsMax {
		r.fail("reads", "%d, want at most %d", n, WriteSetReadsMax)
		return nil
	}
	reads := make([]Read, n)
	var last []byte
	for i := range reads {
		whole := r.rest
		reads[i] = r.read(tables)
		if r.err != nil {
			r.within(fmt.Sprintf("reads[%d]", i))
			return nil
		}
		whole = whole[:len(whole)-len(r.rest)]
		if i > 0 && bytes.Compare(last, whole) >= 0 {
			r.fail(fmt.Sprintf("reads[%d]", i), "not above the one before it")
			return nil
		}
		last = whole
	}
	return reads
}

func (r *reader) read(tables int) Read {
	read := Read{Table: r.table(tables)}
	n := r.u16("bounds")
	if n > ReadBoundsMax {
		r.fail("bounds", "%d, want at most %d", n, ReadBoundsMax)
	}
	last := uint16(0)
	for i := 0; i < int(n) && r.err == nil; i++ {
		bound := r.bound(last)
		if r.err != nil {
			r.within(fmt.Sprintf("bounds[%d]", i))
		}
		read.Bounds, last = append(read.Bounds, bound), bound.Ordinal
	}
	return read
}

func (r *reader) bound(last uint16) Bound {
	b := Bound{r.ordinal("ordinal", last), r.endOf("lower"), r.endOf("upper")}
	if b.Lower.Kind == 0 && b.Upper.Kind == 0 {
		r.fail("upper", "missing like lower")
	}
	return b
}

func (r *reader) endOf(field string) End {
	e := End{Kind: r.u8(field)}
	switch {
	case e.Kind > 2:
		r.fail(field, "%d, want 0 to 2", e.Kind)
	case e.Kind > 0:
		e.Value = r.value(field, false)
	}
	return e
}

func (r *reader) table(tables int) uint16 {
	table := r.u16("table")
	if int(table) >= tables {
		r.fail("table", "%d of %d", table, tables)
	}
	return table
}

// row reads lp(row), of at least one column.
func (r *reader) row(field string) []byte {
	row := r.prefixed(field)
	columns := reader{rest: row, err: r.err}
	n := columns.u16(field)
	if n == 0 {
		columns.fail(field, "has no column")
	}
	last := uint16(0)
	for i := 0; i < int(n) && columns.err == nil; i++ {
		last = columns.ordinal(field, last)
		columns.value(field, false)
	}
	columns.end(field)
	r.err = columns.err
	return row
}

// ordinal reads that of a column above the one before it.
func (r *reader) ordinal(field string, last uint16) uint16 {
	ordinal := r.u16(field)
	if ordinal <= last {
		r.fail(field, "ordinal %d is not above %d", ordinal, last)
	}
	return ordinal
}

// value reads a value whole, with a tag that there is, or NULL where it may stand.
func (r *reader) value(field string, nullable bool) []byte {
	whole := r.rest
	tag := r.u8(field)
	r.prefixed(field)
	whole = whole[:len(whole)-len(r.rest)]
	if !isTag(tag) && !(nullable && bytes.Equal(whole, null)) {
		r.fail(field, "tag %02x is unknown", tag)
	}
	return whole
}

// isTag reports whether values of that tag are in spec/formats.md, "Values".
func isTag(tag byte) bool { return tag >= 0x01 && tag <= 0x12 || tag == 0x7f }

// Encode returns the bytes of a write set. Those of one that breaks a rule of its fields do not
// decode. Cost: one copy.
func (s *WriteSet) Encode() []byte {
	out := binary.BigEndian.AppendUint64([]byte{writeSetVersion}, s.Snapshot)
	out = binary.BigEndian.AppendUint16(append(out, byte(s.Isolation)), uint16(len(s.Tables)))
	for _, table := range s.Tables {
		out = append(out, lp(table)...)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(s.Changes)))
	for i := range s.Changes {
		out = s.Changes[i].append(out)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(s.Seen)))
	for i := range s.Seen {
		out = s.Seen[i].append(out)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(s.Reads)))
	for i := range s.Reads {
		out = s.Reads[i].append(out)
	}
	return out
}

func (c *RowChange) append(out []byte) []byte {
	out = append(binary.BigEndian.AppendUint16(out, c.Table), c.Op)
	if c.Op != 'I' {
		out = append(out, c.Before[:]...)
	}
	out = appendPrefixed(out, c.Row)
	if c.Op != 'U' {
		return out
	}
	out = binary.BigEndian.AppendUint16(out, uint16(len(c.Cells)))
	for _, cell := range c.Cells {
		out = append(binary.BigEndian.AppendUint16(out, cell.Ordinal), cell.Value...)
	}
	return out
}

func (s *RowSeen) append(out []byte) []byte {
	out = appendPrefixed(binary.BigEndian.AppendUint16(out, s.Table), s.Key)
	if !s.Present {
		return append(out, 0)
	}
	return append(append(out, 1), s.Hash[:]...)
}

func (r *Read) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint16(out, r.Table)
	out = binary.BigEndian.AppendUint16(out, uint16(len(r.Bounds)))
	for _, b := range r.Bounds {
		out = append(binary.BigEndian.AppendUint16(out, b.Ordinal), b.Lower.Kind)
		out = append(append(out, b.Lower.Value...), b.Upper.Kind)
		out = append(out, b.Upper.Value...)
	}
	return out
}

func appendPrefixed(out, x []byte) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(x))), x...)
}
