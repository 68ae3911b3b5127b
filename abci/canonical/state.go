package canonical

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// SchemaHash is the hash of a table's schema text.
func SchemaHash(text string) wire.Hash {
	return hash(appendPrefixed([]byte("chainify/schema/1"), text))
}

// TableState is the hash of a table with its rows.
func TableState(table string, schema wire.Hash, s *State) wire.Hash {
	in := append(appendPrefixed([]byte("chainify/table/1"), table), schema[:]...)
	return hash(binary.BigEndian.AppendUint64(in, s.Rows), s.Lanes.Bytes())
}

// Object is an object under the ledger that is no table of it.
type Object struct{ Kind, Identity, Definition string }

// DefinitionsState is the hash of such objects, in any order.
func DefinitionsState(objects []Object) wire.Hash {
	objects = slices.Clone(objects)
	slices.SortFunc(objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Identity, b.Identity))
	})
	in := binary.BigEndian.AppendUint32([]byte("chainify/definitions/1"), uint32(len(objects)))
	for _, o := range objects {
		in = appendPrefixed(appendPrefixed(appendPrefixed(in, o.Kind), o.Identity), o.Definition)
	}
	return hash(in)
}

// Named is a state with the name by which the state root sorts it: a table's, or "definitions".
type Named struct {
	Name  string
	State wire.Hash
}

// StateRoot is the hash of all states, in any order.
func StateRoot(states []Named) wire.Hash {
	states = slices.Clone(states)
	slices.SortFunc(states, func(a, b Named) int { return cmp.Compare(a.Name, b.Name) })
	in := []byte("chainify/state-root/1")
	for i := range states {
		in = append(in, states[i].State[:]...)
	}
	return hash(in)
}

// KeyRange is the first bits, 0 to 24, of the hash of a key.
func KeyRange(key []byte, bits uint32) uint32 {
	h := hash(key)
	return uint32(uint64(binary.BigEndian.Uint32(h[:])) >> (32 - bits))
}

// RangeSum is the digest of a range: the sum of its rows' hashes.
type RangeSum struct {
	Rows uint64
	sum  [4]uint64
}

// Add adds a row.
func (s *RangeSum) Add(row wire.Hash) {
	s.Rows++
	for i := range s.sum {
		s.sum[i] += binary.BigEndian.Uint64(row[8*i:])
	}
}

// Digest returns the sum.
func (s *RangeSum) Digest() (out wire.Hash) {
	for i, word := range s.sum {
		binary.BigEndian.PutUint64(out[8*i:], word)
	}
	return out
}

// CheckWriteSet checks the payloads of all values, which the order leaves to those who execute.
// ErrValue: one is not canonical, and the transaction fails with 22023.
func CheckWriteSet(s *wire.WriteSet) error {
	for i := range s.Changes {
		if _, err := DecodeRow(s.Changes[i].Row); err != nil {
			return err
		}
		for _, cell := range s.Changes[i].Cells {
			if cell.Value[0] == 0 { // NULL; the structure is checked
				continue
			}
			if _, err := DecodeValue(cell.Value); err != nil {
				return err
			}
		}
	}
	for i := range s.Seen {
		if _, err := DecodeRow(s.Seen[i].Key); err != nil {
			return err
		}
	}
	for _, read := range s.Reads {
		for _, bound := range read.Bounds {
			for _, end := range []wire.End{bound.Lower, bound.Upper} {
				if end.Kind == 0 {
					continue
				}
				if _, err := DecodeValue(end.Value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
