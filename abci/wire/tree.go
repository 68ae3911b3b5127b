package wire

import (
	"crypto/ed25519"
	"encoding/binary"
	"slices"
)

// SignedTogetherMax bounds the proposals under one signature, and pathMax the hashes that each
// carries. A client with an expensive signature may want many. treeSize is the number at which
// nodes have the least cost. A larger tree saves less of the signature than its longer paths cost:
// every node receives these several times, hashes and stores them.
const (
	SignedTogetherMax = 1 << pathMax
	pathMax           = 10
	treeSize          = 8
)

// placeBytes is the length of u32 index ‖ u32 size, which stand between the signature and the path
// of a proposal.
const placeBytes = 8

// ProposalsSignBytes returns the bytes that a client signs for several proposals:
// "chainify/proposals/1" ‖ lp(chain_id) ‖ u32 size ‖ root, that of the tree of their ids, as in a
// block.
func ProposalsSignBytes(chainID string, size uint32, root Hash) []byte {
	signed := binary.BigEndian.AppendUint32(append([]byte("chainify/proposals/1"), lp(chainID)...), size)
	return append(signed, root[:]...)
}

// SignProposals is SignProposal for several proposals of one chain, with one signature for some of
// them at a time. A transaction that it returns does not depend on the others any more: each may be
// submitted without them, and in any order.
func SignProposals(key ed25519.PrivateKey, proposals []*Proposal) []*SignedProposal {
	return signTrees(key, proposals, treeSize)
}

// signTrees signs size proposals at a time.
func signTrees(key ed25519.PrivateKey, proposals []*Proposal, size int) []*SignedProposal {
	out := make([]*SignedProposal, 0, len(proposals))
	for some := range slices.Chunk(proposals, size) {
		if len(some) == 1 {
			return append(out, SignProposal(key, some[0]))
		}
		signed := make([]*SignedProposal, len(some))
		for i, p := range some {
			p.Client.Key = key.Public().(ed25519.PublicKey)
			signed[i] = &SignedProposal{Proposal: Encode(p)}
		}
		signTree(key, some[0].ChainId, signed)
		out = append(out, signed...)
	}
	return out
}

// signTree gives each proposal the common signature and its path.
func signTree(key ed25519.PrivateKey, chainID string, proposals []*SignedProposal) {
	leaves := make([]Hash, len(proposals))
	for i, p := range proposals {
		leaves[i] = txLeaf(TxIDOf(p.Proposal))
	}
	size := uint32(len(proposals))
	paths, root := inclusionPaths(leaves)
	signature := ed25519.Sign(key, ProposalsSignBytes(chainID, size, root))
	for i, p := range proposals {
		placed := binary.BigEndian.AppendUint32(slices.Clone(signature), uint32(i))
		p.Signature = binary.BigEndian.AppendUint32(placed, size)
		for _, hash := range paths[i] {
			p.Signature = append(p.Signature, hash[:]...)
		}
	}
}

// checkClientSignature checks length and place of a signature: of one proposal, or of one among
// several.
func checkClientSignature(signature []byte) error {
	want := signatureBytes
	if len(signature) >= signatureBytes+placeBytes {
		index, size := placeOf(signature)
		if size < 2 || size > SignedTogetherMax || index >= size {
			return fieldErrorf("proposal.signature", "of number %d of %d, want 0 and more of 2 to %d", index, size, SignedTogetherMax)
		}
		want += placeBytes + pathLength(uint64(index), uint64(size))*len(Hash{})
	}
	if n := len(signature); n != want {
		return fieldErrorf("proposal.signature", "%d bytes, want %d", n, want)
	}
	return nil
}

func placeOf(signature []byte) (index, size uint32) {
	return binary.BigEndian.Uint32(signature[signatureBytes:]), binary.BigEndian.Uint32(signature[signatureBytes+4:])
}

// tree is a Merkle tree over several proposals, with the client's signature of its root.
type tree struct {
	key       [ed25519.PublicKeySize]byte
	signature [signatureBytes]byte
	size      uint32
	root      Hash
}

// treeOf computes the root of the tree in which the transaction is at its place. Cost: at most
// eleven SHA-256.
func treeOf(tx BundledTx) tree {
	signature := tx.Chained.Proposal.Signature
	index, size := placeOf(signature)
	path := make([]Hash, 0, pathMax)
	for hash := range slices.Chunk(signature[signatureBytes+placeBytes:], len(Hash{})) {
		path = append(path, Hash(hash))
	}
	return tree{
		key: [ed25519.PublicKeySize]byte(tx.Proposal.Client.Key), signature: [signatureBytes]byte(signature),
		size: size, root: inclusionRoot(txLeaf(tx.ID), uint64(index), uint64(size), path),
	}
}
