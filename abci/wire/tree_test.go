package wire

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// signTogether makes n transactions that one client signed together.
func signTogether(t testing.TB, key ed25519.PrivateKey, n int, nonce uint64) []BundledTx {
	proposals := make([]*Proposal, n)
	for i := range proposals {
		proposals[i] = testProposal()
		proposals[i].Nonce = nonce + uint64(i)
	}
	out := make([]BundledTx, n)
	for i, signed := range signTrees(key, proposals, SignedTogetherMax) {
		var err error
		if out[i], err = DecodeSignedProposal(signed); err != nil {
			t.Fatalf("%d of %d: %v", i, n, err)
		}
	}
	return out
}

// with is a transaction with another signature.
func with(tx BundledTx, signature []byte) BundledTx {
	tx.Chained = &ChainedTx{Proposal: &SignedProposal{Proposal: tx.Chained.Proposal.Proposal, Signature: signature}}
	return tx
}

func verifies(chainID string, tx BundledTx) bool { return VerifyProposals(chainID, []BundledTx{tx}) }

// Each of several that a client signed together is right by itself and with the others, with
// exactly its signature. This holds at every place of every shape of tree. One alone is signed as
// ever.
func TestWhatIsSignedTogetherIsVerifiedAlone(t *testing.T) {
	for _, n := range append([]int{SignedTogetherMax, SignedTogetherMax + 1}, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17) {
		txs := signTogether(t, testKey(1), n, 0)
		if claims, want := len(claimsOf("bank", txs)), (n-1)/SignedTogetherMax+1; !VerifyProposals("bank", txs) || claims != want {
			t.Errorf("%d together: wrong, or %d signatures, want %d", n, claims, want)
		}
		for i, tx := range txs {
			if !verifies("bank", tx) || verifies("bond", tx) {
				t.Errorf("%d of %d: wrong, or right for another chain", i, n)
			}
			if n < 20 || i%100 == 0 {
				refusesOthers(t, txs, i)
			}
		}
	}
	if one := signTogether(t, testKey(1), 1, 0); len(one[0].Chained.Proposal.Signature) != signatureBytes || !VerifyProposals("bank", one) {
		t.Errorf("one alone: %x", one[0].Chained.Proposal.Signature)
	}
}

// refusesOthers changes the signature of transaction i in each way that leaves its length as it has
// to be.
func refusesOthers(t *testing.T, txs []BundledTx, i int) {
	t.Helper()
	tx := txs[i]
	right := tx.Chained.Proposal.Signature
	wrong := func(what string, change func(s []byte) []byte) {
		t.Helper()
		s := change(bytes.Clone(right))
		if checkClientSignature(s) == nil && verifies("bank", with(tx, s)) {
			t.Errorf("%d of %d: right with %s", i, len(txs), what)
		}
	}
	index, size := placeOf(right)
	for other := range uint32(20) {
		if other != index {
			wrong("another index", func(s []byte) []byte { binary.BigEndian.PutUint32(s[64:], other); return s })
		}
		if other != size {
			wrong("another size", func(s []byte) []byte { binary.BigEndian.PutUint32(s[68:], other); return s })
		}
	}
	for at := range right {
		wrong("a bit changed", func(s []byte) []byte { s[at] ^= 1 << (at % 8); return s })
	}
	wrong("two hashes of the path swapped", func(s []byte) []byte {
		if len(s) < 72+64 {
			return s[:0]
		}
		return slices.Concat(s[:72], s[104:136], s[72:104], s[136:])
	})
	wrong("another's path", func([]byte) []byte { return txs[(i+1)%int(size)].Chained.Proposal.Signature })
	wrong("the root's signature alone", func(s []byte) []byte { return s[:64] })
	if verifies("bank", BundledTx{ID: txs[(i+1)%len(txs)].ID, Proposal: tx.Proposal, Chained: tx.Chained}) {
		t.Errorf("%d of %d: right for another transaction", i, len(txs))
	}
}

// A signature has one spelling: one of one as ever, a path just as long as its place says.
func TestSignaturesOfSeveralHaveOneSpelling(t *testing.T) {
	tx := signTogether(t, testKey(1), 5, 0)[2]
	placed := func(index, size uint32, hashes int) []byte {
		s := binary.BigEndian.AppendUint32(make([]byte, 64), index)
		return append(binary.BigEndian.AppendUint32(s, size), make([]byte, 32*hashes)...)
	}
	right := tx.Chained.Proposal.Signature
	for _, c := range []struct {
		signature []byte
		want      string
	}{
		{right, ""},
		{right[:len(right)-1], "167 bytes, want 168"},
		{append(bytes.Clone(right), 0), "169 bytes, want 168"},
		{append(bytes.Clone(right), make([]byte, 32)...), "200 bytes, want 168"},
		{right[:72], "72 bytes, want 168"},
		{right[:71], "71 bytes, want 64"},
		{right[:65], "65 bytes, want 64"},
		{nil, "0 bytes, want 64"},
		{placed(0, 0, 0), "of number 0 of 0"},
		{placed(0, 1, 0), "of number 0 of 1"},
		{placed(2, 2, 1), "of number 2 of 2"},
		{placed(0, SignedTogetherMax, 10), ""},
		{placed(SignedTogetherMax, SignedTogetherMax+1, 1), "of number 1024 of 1025"},
		{placed(1<<31, 1<<32-1, 31), "of number 2147483648 of 4294967295"},
	} {
		_, err := DecodeSignedProposal(with(tx, c.signature).Chained.Proposal)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), "proposal.signature: "+c.want) {
			t.Errorf("%d bytes: %v, want %q", len(c.signature), err, c.want)
		}
	}
	p := testProposal()
	if _, err := DecodeChainedTx(Encode(&ChainedTx{Proposal: &SignedProposal{Proposal: Encode(p), Signature: right}})); err == nil {
		t.Error("a signature of several without a key is accepted")
	}
}

// A batch of transactions signed in every way names the first that is wrong.
func TestBatchesOfAllSignatures(t *testing.T) {
	vouched, err := checkChainedTx(chain(testProposal()))
	must.Do(t, err)
	txs := slices.Concat(signTogether(t, testKey(1), 5, 0), ordinary(t, 4, 2), []BundledTx{vouched}, signTogether(t, testKey(2), 3, 50), signTogether(t, testKey(1), 2, 60))
	slices.Reverse(txs[3:8])
	if n := len(claimsOf("bank", txs)); !VerifyProposals("bank", txs) || FirstWrongProposal("bank", txs) != -1 || n != 1+4+1+1 {
		t.Fatalf("a right batch is wrong, or has %d signatures", n)
	}
	for i, tx := range txs {
		if len(tx.Proposal.Client.Key) == 0 {
			continue
		}
		forged := slices.Clone(txs)
		s := bytes.Clone(tx.Chained.Proposal.Signature)
		s[len(s)-1] ^= 1 // of the path, where there is one
		forged[i] = with(tx, s)
		if at := FirstWrongProposal("bank", forged); at != i || VerifyProposals("bank", forged) {
			t.Errorf("signature %d is wrong, found %d", i, at)
		}
	}
}

func TestPathsLeadToTheRoot(t *testing.T) {
	for n := 1; n <= 70; n++ {
		leaves := make([]Hash, n)
		for i := range leaves {
			leaves[i] = Hash{byte(i), 1}
		}
		paths, root := inclusionPaths(leaves)
		if root != MerkleRoot(leaves) {
			t.Errorf("%d leaves: root %x", n, root)
		}
		for i, path := range paths {
			if !VerifyInclusion(leaves[i], uint64(i), uint64(n), path, root) {
				t.Errorf("leaf %d of %d: a path of %d hashes, want %d, to another root", i, n, len(path), pathLength(uint64(i), uint64(n)))
			}
		}
	}
}

// A client that signs another's proposal among its own signs nothing for the other.
func TestNobodySignsForAnotherAmongOnesOwn(t *testing.T) {
	own, others := testProposal(), testProposal()
	own.Client.Key = testKey(1).Public().(ed25519.PublicKey)
	others.Client.Key = testKey(2).Public().(ed25519.PublicKey)
	both := []*SignedProposal{{Proposal: Encode(own)}, {Proposal: Encode(others)}}
	txs := make([]BundledTx, len(both))
	signTree(testKey(1), "bank", both)
	for i := range both {
		var err error
		if txs[i], err = DecodeSignedProposal(both[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !verifies("bank", txs[0]) || VerifyProposals("bank", txs) || FirstWrongProposal("bank", txs) != 1 {
		t.Error("one client has signed for another")
	}
}
