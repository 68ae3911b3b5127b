package wire

import "crypto/sha256"

// MerkleRoot is MTH of RFC 9162, section 2.1.1, over leaf hashes. It does not change leaves. Cost: one SHA-256 per
// leaf; memory grows with the logarithm of their number.
func MerkleRoot(leaves []Hash) Hash {
	if len(leaves) == 0 {
		return sha256.Sum256(nil)
	}
	// A stack of complete subtrees, largest first, as in counting up in binary: leaf i closes as many subtrees as
	// i+1 has trailing zero bits. What is left is folded from the right, which splits at the largest power of two.
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
		leaves[i] = sha256.Sum256(append([]byte{0}, ids[i][:]...))
	}
	return MerkleRoot(leaves)
}

// VerifyInclusion reports whether path leads from leaf, number index of size, to root (RFC 9162, section 2.1.3.2).
func VerifyInclusion(leaf Hash, index, size uint64, path []Hash, root Hash) bool {
	if index >= size {
		return false
	}
	hash, at := leaf, 0
	for last := size - 1; last > 0; index, last = index/2, last/2 {
		if index%2 == 0 && index == last {
			continue // a node without a right neighbour moves up as it is
		}
		if at == len(path) {
			return false
		}
		if index%2 == 1 {
			hash = merkleNode(path[at], hash)
		} else {
			hash = merkleNode(hash, path[at])
		}
		at++
	}
	return at == len(path) && hash == root
}

// RowHash is the hash of a row's encoding.
func RowHash(table string, row []byte) Hash { return hashOf("chainify/row/1", lp(table), row) }
