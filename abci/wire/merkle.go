package wire

import (
	"crypto/sha256"
	"math/bits"
	"slices"
)

// MerkleRoot is MTH of RFC 9162, section 2.1.1, over leaf hashes. It does not change leaves. Cost:
// one SHA-256 per leaf; memory grows with the logarithm of their number.
func MerkleRoot(leaves []Hash) Hash {
	if len(leaves) == 0 {
		return sha256.Sum256(nil)
	}
	// A stack of complete subtrees, largest first, as in counting up in binary: leaf i closes as
	// many subtrees as i+1 has trailing zero bits. The rest is folded from the right, which splits
	// at the largest power of two.
	var stack []Hash
	for i, leaf := range leaves {
		stack = append(stack, leaf)
		for rest := i + 1; rest&1 == 0; rest >>= 1 {
			stack = foldTop(stack)
		}
	}
	for len(stack) > 1 {
		stack = foldTop(stack)
	}
	return stack[0]
}

func foldTop(stack []Hash) []Hash {
	n := len(stack)
	stack[n-2] = merkleNode(stack[n-2], stack[n-1])
	return stack[:n-1]
}

func merkleNode(left, right Hash) Hash {
	var in [1 + 2*len(Hash{})]byte
	in[0] = 1
	copy(in[1:], left[:])
	copy(in[1+len(left):], right[:])
	return sha256.Sum256(in[:])
}

// TxRoot is the tx_root of a ledger block: the Merkle root over H(00 ‖ id) in block order.
func TxRoot(ids []TxID) Hash {
	leaves := make([]Hash, len(ids))
	for i := range ids {
		leaves[i] = txLeaf(ids[i])
	}
	return MerkleRoot(leaves)
}

func txLeaf(id TxID) Hash {
	var in [1 + len(TxID{})]byte
	copy(in[1:], id[:])
	return sha256.Sum256(in[:])
}

// VerifyInclusion reports whether path leads from leaf, number index of size, to root (RFC 9162,
// section 2.1.3.2).
func VerifyInclusion(leaf Hash, index, size uint64, path []Hash, root Hash) bool {
	return index < size && len(path) == pathLength(index, size) && inclusionRoot(leaf, index, size, path) == root
}

// pathLength is the number of hashes in the path of leaf index, below size. There is one for each
// level below that on which its way joins the last leaf's. Above, there is one for each level that
// it comes to from the right.
func pathLength(index, size uint64) int {
	below := bits.Len64(index ^ (size - 1))
	return below + bits.OnesCount64(index>>below)
}

// inclusionRoot is the root to which the path of leaf index leads; index is below size, the path of
// pathLength.
func inclusionRoot(leaf Hash, index, size uint64, path []Hash) Hash {
	hash := leaf
	for last := size - 1; last > 0; index, last = index/2, last/2 {
		switch {
		case index%2 == 1:
			hash, path = merkleNode(path[0], hash), path[1:]
		case index < last:
			hash, path = merkleNode(hash, path[0]), path[1:]
		} // else a node without a right neighbour, which moves up as it is
	}
	return hash
}

// inclusionPaths returns the path of each leaf, siblings from the leaf up, and the root. Leaves
// must not be empty.
func inclusionPaths(leaves []Hash) (paths [][]Hash, root Hash) {
	paths = make([][]Hash, len(leaves))
	level := leaves
	for depth := 0; len(level) > 1; depth++ {
		for i := range paths {
			if sibling := i>>depth ^ 1; sibling < len(level) {
				paths[i] = append(paths[i], level[sibling])
			}
		}
		var above []Hash
		for pair := range slices.Chunk(level, 2) {
			above = append(above, MerkleRoot(pair))
		}
		level = above
	}
	return paths, level[0]
}

// InclusionPath returns the path of leaf index, siblings from the leaf up (RFC 9162, section
// 2.1.3.1); nil when there is no such leaf. Cost: one SHA-256 per leaf.
func InclusionPath(leaves []Hash, index int) (path []Hash) {
	if index < 0 || index >= len(leaves) {
		return nil
	}
	for len(leaves) > 1 {
		half := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
		sibling := leaves[half:]
		if index < half {
			leaves = leaves[:half]
		} else {
			sibling, leaves, index = leaves[:half], leaves[half:], index-half
		}
		path = append(path, MerkleRoot(sibling))
	}
	slices.Reverse(path)
	return path
}

// RowHash is the hash of a row's encoding.
func RowHash(table string, row []byte) Hash { return hashOf("chainify/row/1", lp(table), row) }
