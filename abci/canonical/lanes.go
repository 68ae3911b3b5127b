package canonical

import (
	"encoding/binary"

	"lukechampine.com/blake3"
)

// LaneBytes is the length of lanes as they are stored and hashed.
const LaneBytes = 2 * laneCount

const laneCount = 1024

// Lanes is the LtHash16 of a set of rows (spec/formats.md, "State"). The zero value is that of no
// row.
type Lanes [laneCount]uint16

// DecodeLanes reads stored lanes.
func DecodeLanes(raw []byte) (l Lanes, err error) {
	if len(raw) != LaneBytes {
		return l, wrong("lanes of %d bytes", len(raw))
	}
	for i := range l {
		l[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return l, nil
}

// Bytes returns the lanes as they are stored.
func (l *Lanes) Bytes() []byte {
	out := make([]byte, 0, LaneBytes)
	for _, lane := range l {
		out = binary.LittleEndian.AppendUint16(out, lane)
	}
	return out
}

// State is a set of rows of one table: their number and lanes. Both wrap, so a row may go before it
// comes.
type State struct {
	Rows  uint64
	Lanes Lanes
}

// LaneHasher adds rows of one table to states.
type LaneHasher struct {
	prefix []byte
	hash   *blake3.Hasher
	row    [LaneBytes]byte
}

// NewLaneHasher is for rows of a table, schema.name unquoted. One goroutine at a time uses it.
func NewLaneHasher(table string) *LaneHasher {
	return &LaneHasher{prefix: appendPrefixed([]byte("chainify/state/1"), table), hash: blake3.New(len(Lanes{}), nil)}
}

// Add adds an encoded row. Cost: 2048 bytes of BLAKE3's output.
func (h *LaneHasher) Add(s *State, row []byte) {
	h.read(row)
	s.Rows++
	for i := range s.Lanes {
		s.Lanes[i] += binary.LittleEndian.Uint16(h.row[2*i:])
	}
}

// Sub takes an encoded row away.
func (h *LaneHasher) Sub(s *State, row []byte) {
	h.read(row)
	s.Rows--
	for i := range s.Lanes {
		s.Lanes[i] -= binary.LittleEndian.Uint16(h.row[2*i:])
	}
}

func (h *LaneHasher) read(row []byte) {
	h.hash.Reset()
	_, _ = h.hash.Write(h.prefix) // a hash takes everything
	_, _ = h.hash.Write(row)
	out := h.hash.XOF() // without an end
	for at := 0; at < len(h.row); at += readSize {
		_, _ = out.Read(h.row[at : at+readSize])
	}
}

// readSize is read at a time: the library begins goroutines for more.
const readSize = 1024
