package wire

import "crypto/sha256"

// Parts of a ledger block in a vote (spec/formats.md, "Parts of a vote").
const (
	// PartsMax is how many parts a vote names at most.
	PartsMax = 1024
	// PartBytes is the length of a part's hash: enough against accidents and against whoever makes
	// transactions, who would have to find two sets of effects with the same one.
	PartBytes = 16
)

// Suspects are the transactions that the parts of a vote are about: those listed, or all of the
// block when there is no list.
type Suspects struct {
	List  []uint32 // ascending; nil: all
	Count uint32   // transactions of the block
}

func (s Suspects) len() int {
	if s.List == nil {
		return int(s.Count)
	}
	return len(s.List)
}

// Parts returns how many parts there are.
func (s Suspects) Parts() int { return min(s.len(), PartsMax) }

// Single reports whether each part is one transaction.
func (s Suspects) Single() bool { return s.len() <= PartsMax }

// Part returns the transactions of part i, ascending: as many as in any other part, or one fewer.
func (s Suspects) Part(i int) []uint32 {
	from, to := i*s.len()/s.Parts(), (i+1)*s.len()/s.Parts()
	if s.List != nil {
		return s.List[from:to]
	}
	all := make([]uint32, 0, to-from)
	for t := from; t < to; t++ {
		all = append(all, uint32(t))
	}
	return all
}

// Hashes returns the hashes of all parts, one after the other, for a vote. effects holds the
// effects hash of every transaction of the block; nothing is returned when it does not.
func (s Suspects) Hashes(effects []Hash) string {
	if uint64(len(effects)) != uint64(s.Count) || s.Parts() == 0 {
		return ""
	}
	out := make([]byte, 0, s.Parts()*PartBytes)
	for i := range s.Parts() {
		h := sha256.New()
		h.Write([]byte("chainify/effect-part/1"))
		for _, t := range s.Part(i) {
			h.Write(effects[t][:])
		}
		out = append(out, h.Sum(nil)[:PartBytes]...)
	}
	return string(out)
}
