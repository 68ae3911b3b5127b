package order

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// key stands for a row that an EFFECTS transaction names: half a SHA-256, so that nobody can find
// two rows with one key.
type key [16]byte

// keysOf returns the rows that a write set names. Rows that it updates, deletes or saw count by
// table and primary key, an inserted row by all its values. A row that two changes name may be
// there twice. Cost: a SHA-256 for each change and each row seen.
func keysOf(effects []byte) []key {
	set, err := wire.DecodeWriteSet(effects)
	if err != nil {
		return nil // the bundle was refused for it
	}
	out := make([]key, 0, len(set.Changes)+len(set.Seen))
	for i := range set.Changes {
		out = append(out, keyOf(set, set.Changes[i].Table, set.Changes[i].Row))
	}
	for i := range set.Seen {
		out = append(out, keyOf(set, set.Seen[i].Table, set.Seen[i].Key))
	}
	return out
}

func keyOf(set *wire.WriteSet, table uint16, row []byte) key {
	name := set.Tables[table]
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(name))))
	h.Write([]byte(name))
	h.Write(row)
	return key(h.Sum(nil)[:16])
}

// keysOfBlock bounds the rows that EFFECTS transactions of a block name, and so the cost of their
// serialization order (spec/scheduling.md). The idea is that of Fabric++, section 4.1.2.
type keysOfBlock struct {
	max               int // 0: no limit beside the block's
	carried, accepted map[key]struct{}
}

func newKeysOfBlock(most int) keysOfBlock {
	return keysOfBlock{most, map[key]struct{}{}, map[key]struct{}{}}
}

// fits returns the rows that a bundle adds, or the reason why it may not follow the accepted
// bundles.
func (k *keysOfBlock) fits(b *Bundle) (added map[key]struct{}, err error) {
	if k.max == 0 {
		return nil, nil
	}
	added = map[key]struct{}{}
	names := 0
	for i := range b.transactions {
		names += len(b.transactions[i].keys)
		for _, row := range b.transactions[i].keys {
			if _, there := k.carried[row]; !there {
				added[row] = struct{}{}
			}
		}
	}
	if len(k.carried) > 0 && names > 0 && len(k.carried)+len(added) > k.max {
		return nil, fmt.Errorf("a further bundle with EFFECTS transactions: the block names %d rows, the bundle %d more, block_keys_max is %d", len(k.carried), len(added), k.max)
	}
	return added, nil
}

func (k *keysOfBlock) carry(added map[key]struct{}) {
	for row := range added {
		k.carried[row] = struct{}{}
	}
}

// cuts reports whether a transaction would make the block name too many rows. The first transaction
// never does, since it could not be ordered otherwise.
func (k *keysOfBlock) cuts(t transaction) bool {
	if k.max == 0 || len(k.accepted) == 0 {
		return false
	}
	more := map[key]struct{}{}
	for _, row := range t.keys {
		if _, there := k.accepted[row]; !there {
			more[row] = struct{}{}
		}
	}
	return len(more) > 0 && len(k.accepted)+len(more) > k.max
}

// accept counts the rows of a transaction that the block remembers.
func (k *keysOfBlock) accept(t transaction) {
	if k.max == 0 {
		return
	}
	for _, row := range t.keys {
		k.accepted[row] = struct{}{}
	}
}
