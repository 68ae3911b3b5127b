package canonical

import (
	"encoding/binary"

	"github.com/chainify-db/chainify/abci/wire"
)

// cellsMax is the number of columns that a travelling row has at most.
const cellsMax = 1_600

// AppendCells appends a row as it travels: texts by column, nil for NULL (spec/formats.md, "Ranges,
// and rows on their way").
func AppendCells(out []byte, cells []*string) []byte {
	out = binary.BigEndian.AppendUint16(out, uint16(len(cells)))
	for _, cell := range cells {
		if cell == nil {
			out = append(out, 0)
			continue
		}
		out = appendPrefixed(append(out, 1), *cell)
	}
	return out
}

// DecodeCells reads such a row; other bytes are ErrValue.
func DecodeCells(raw []byte) ([]*string, error) {
	r := reader{rest: raw}
	cells := r.cells()
	return cells, r.end()
}

func (r *reader) cells() []*string {
	count := r.u16()
	if count > cellsMax {
		r.fail("%d columns", count)
	}
	var cells []*string
	for i := 0; i < int(count) && r.err == nil; i++ {
		switch r.u8() {
		case 0:
			cells = append(cells, nil)
		case 1:
			r.within(func(in *reader) {
				text := in.text()
				cells = append(cells, &text)
			})
		default:
			r.fail("a cell is neither there nor NULL")
		}
	}
	return cells
}

// Travelling is a change of a kept block on its way to another organisation.
type Travelling struct {
	Change // without its key
	Cells  []*string
}

// Append appends its bytes.
func (t *Travelling) Append(out []byte) []byte {
	out = binary.BigEndian.AppendUint32(appendPrefixed(out, t.Table), t.Tx)
	out = append(binary.BigEndian.AppendUint32(out, t.Serial), t.Op)
	return AppendCells(appendPrefixed(out, t.Hash[:]), t.Cells)
}

// DecodeTravelling reads such a change; other bytes are ErrValue.
func DecodeTravelling(raw []byte) (*Travelling, error) {
	r := reader{rest: raw}
	t := &Travelling{}
	r.within(func(in *reader) { t.Table = in.text() })
	t.Tx, t.Serial, t.Op = r.u32(), r.u32(), r.u8()
	if t.Op != 'I' && t.Op != 'U' && t.Op != 'D' {
		r.fail("op %d", t.Op)
	}
	r.within(func(in *reader) {
		if raw := in.take(uint64(len(wire.Hash{}))); raw != nil {
			t.Hash = wire.Hash(raw)
		}
	})
	t.Cells = r.cells()
	if err := r.end(); err != nil {
		return nil, err
	}
	return t, nil
}
