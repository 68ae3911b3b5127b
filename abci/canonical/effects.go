package canonical

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Change is one change of one row by a successful transaction of a block (spec/formats.md, "Effects
// of a block").
type Change struct {
	Table  string // schema.name, unquoted
	Key    []byte // encoding of the primary key's columns alone
	Serial uint32 // counts the changes of one key in the block; Sort sets it
	Tx     uint32 // index in the block
	Op     byte   // 'I', 'U' or 'D'
	Hash   wire.Hash
}

func hash(parts ...[]byte) (out wire.Hash) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(out[:0])
	return out
}

// Leaf is the change's leaf in the tree of effects.
func (c *Change) Leaf() wire.Hash {
	in := make([]byte, 0, 64+len(c.Table)+len(c.Key))
	in = appendPrefixed(appendPrefixed(append(in, 0), c.Table), c.Key)
	in = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(in, c.Serial), c.Tx)
	return hash(append(append(in, c.Op), c.Hash[:]...))
}

func (c *Change) compare(o *Change) int {
	if c.Table != o.Table {
		return cmp.Compare(c.Table, o.Table)
	}
	return bytes.Compare(c.Key, o.Key)
}

// Sort gives each change its serial and returns their positions in canonical order. Changes stand
// in the order in which they happened. Cost: one sort; four bytes a change.
func Sort(changes []Change) []uint32 {
	order := make([]uint32, len(changes))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(changes[a].compare(&changes[b]), cmp.Compare(a, b))
	})
	for i, at := range order {
		changes[at].Serial = 0
		if i > 0 && changes[order[i-1]].compare(&changes[at]) == 0 {
			changes[at].Serial = changes[order[i-1]].Serial + 1
		}
	}
	return order
}

// Effects are the hashes of a block's changes.
type Effects struct {
	Root         wire.Hash
	Transactions []wire.Hash // tx_effects of each transaction
}

// EffectsOf hashes changes that Sort has ordered; outcomes has an entry for each transaction, of
// which changes name no other. Cost: two SHA-256 a change.
func EffectsOf(changes []Change, order []uint32, outcomes []bool) Effects {
	leaves := make([]wire.Hash, len(order))
	of := make([][]wire.Hash, len(outcomes))
	for i, at := range order {
		c := &changes[at]
		leaves[i] = c.Leaf()
		of[c.Tx] = append(of[c.Tx], leaves[i])
	}
	e := Effects{Root: wire.MerkleRoot(leaves), Transactions: make([]wire.Hash, len(outcomes))}
	for tx, succeeded := range outcomes {
		in := binary.BigEndian.AppendUint32([]byte("chainify/tx-effects/1"), uint32(tx))
		if succeeded {
			in = append(in, 1)
		} else {
			in = append(in, 0)
		}
		root := wire.MerkleRoot(of[tx])
		e.Transactions[tx] = hash(in, root[:])
	}
	return e
}

// DeployEffects is the effects hash of a DEPLOY transaction that succeeded, with the state root
// that it left.
func DeployEffects(effects, stateRoot wire.Hash) wire.Hash {
	return hash([]byte("chainify/tx-deploy/1"), effects[:], stateRoot[:])
}
