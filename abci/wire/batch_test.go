package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha512"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	voi "github.com/oasisprotocol/curve25519-voi/primitives/ed25519"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
)

// signedBy is a transaction of chain "bank" with any key and signature.
func signedBy(key, signature []byte, nonce uint64) BundledTx {
	p := testProposal()
	p.Nonce, p.Client.Key = nonce, key
	return BundledTx{Proposal: p, Chained: &ChainedTx{Proposal: &SignedProposal{Proposal: Encode(p), Signature: signature}}}
}

// odd are transactions at the edges of the rule: keys and R of small order, of mixed order and in a
// second spelling, and what is none.
func odd(t testing.TB) []BundledTx {
	points := [][]byte{}
	for _, p := range curve.EIGHT_TORSION {
		points = append(points, bytes.Clone(curve.NewCompressedEdwardsY().SetEdwardsPoint(p)[:]))
	}
	second := bytes.Repeat([]byte{0xff}, 32) // y = p + 1 is 1 again
	second[0], second[31] = 0xee, 0x7f
	points = append(points, second)
	var out []BundledTx
	nonce := uint64(1000)
	zero := make([]byte, 32)
	for _, key := range points { // s = 0: right whatever is signed
		for _, r := range points {
			nonce++
			out = append(out, signedBy(key, append(bytes.Clone(r), zero...), nonce))
		}
	}
	for _, torsion := range curve.EIGHT_TORSION { // keys and R of which a part is of small order, rightly signed with what is known of both
		for _, other := range curve.EIGHT_TORSION {
			nonce++
			out = append(out, signedMixed(t, torsion, other, nonce))
		}
	}
	good := SignProposal(testKey(3), testProposal())
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	high := bytes.Clone(good.Signature)
	s := new(big.Int).SetBytes(reversed(high[32:]))
	copy(high[32:], reversed(s.Add(s, order).FillBytes(make([]byte, 32)))) // s + the order of B
	noPoint := append(append([]byte{2}, make([]byte, 31)...), zero...)
	public := testKey(3).Public().(ed25519.PublicKey)
	return append(out, signedBy(public, high, testProposal().Nonce), signedBy(public, noPoint, 7), signedBy(noPoint[:32], good.Signature, 8))
}

func reversed(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

// signedMixed signs with the key a·B + torsion and R = r·B + other.
func signedMixed(t testing.TB, torsion, other *curve.EdwardsPoint, nonce uint64) BundledTx {
	a, r := scalar.NewFromUint64(nonce), scalar.NewFromUint64(nonce+1)
	encode := func(s *scalar.Scalar, more *curve.EdwardsPoint) []byte {
		p := curve.NewEdwardsPoint().MulBasepoint(curve.ED25519_BASEPOINT_TABLE, s)
		return bytes.Clone(curve.NewCompressedEdwardsY().SetEdwardsPoint(p.Add(p, more))[:])
	}
	key, ofR := encode(a, torsion), encode(r, other)
	tx := signedBy(key, nil, nonce)
	message := ProposalSignBytes("bank", tx.Chained.Proposal.Proposal)
	hash := sha512.Sum512(append(append(bytes.Clone(ofR), key...), message...))
	k, err := scalar.NewFromBytesModOrderWide(hash[:])
	must.Do(t, err)
	s := make([]byte, 32)
	must.Do(t, k.Add(k.Mul(k, a), r).ToBytes(s))
	tx.Chained.Proposal.Signature = append(ofR, s...)
	return tx
}

func ordinary(t testing.TB, n, keys int) []BundledTx {
	out := make([]BundledTx, n)
	for i := range out {
		p := testProposal()
		p.Nonce = uint64(i)
		var err error
		if out[i], err = DecodeSignedProposal(SignProposal(testKey(byte(i%keys)), p)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A batch, with any contents, is right exactly when each signature is right alone, by voi's rule of
// ZIP 215. The test tries all edges of the rule, in batches of one key and of many. Batches are
// below and above the sizes at which the sum is computed in another way.
func TestABatchSaysWhatEachSignatureAloneDoes(t *testing.T) {
	random := seeded.Random(t)
	edges, right := odd(t), ordinary(t, 300, 5)
	alone := make([]bool, len(edges))
	accepted := 0
	for i := range edges {
		if alone[i] = VerifyProposals("bank", edges[i:i+1]); alone[i] {
			accepted++
		}
		for _, among := range []int{1, 20, 250} { // the same edge as a batch of its own, and among others
			batch := append([]BundledTx{edges[i]}, right[:among-1]...)
			if got := together(claimsOf("bank", batch)); got != alone[i] {
				t.Errorf("edge %d among %d: %t, alone %t", i, among, got, alone[i])
			}
		}
	}
	if want := len(edges) - 3; accepted != want {
		t.Errorf("%d edges are right, want %d", accepted, want)
	}
	for range 200 {
		var batch []BundledTx
		want := true
		for range random.IntN(40) + 2 {
			i := random.IntN(len(edges))
			batch, want = append(batch, edges[i]), want && alone[i]
		}
		if got := VerifyProposals("bank", batch); got != want {
			t.Errorf("a batch of edges is %t, each alone %t", got, want)
		}
	}
}

// No bit of a signature, key or text can be changed in a batch, and no two signatures be wrong so
// that they make up for each other.
func TestABatchRefusesEveryChange(t *testing.T) {
	batch := ordinary(t, 12, 3)
	if !together(claimsOf("bank", batch)) {
		t.Fatal("a right batch is wrong")
	}
	for bit := range 64 * 8 {
		changed := append([]BundledTx{}, batch...)
		s := bytes.Clone(batch[5].Chained.Proposal.Signature)
		s[bit/8] ^= 1 << (bit % 8)
		changed[5] = BundledTx{Proposal: batch[5].Proposal, Chained: &ChainedTx{Proposal: &SignedProposal{Proposal: batch[5].Chained.Proposal.Proposal, Signature: s}}}
		if together(claimsOf("bank", changed)) {
			t.Errorf("bit %d of a signature is changed, and the batch is right", bit)
		}
	}
	swapped := append([]BundledTx{}, batch...) // of the same key: without weights the sums would be the same
	for i, other := range map[int]int{0: 3, 3: 0} {
		s := bytes.Clone(batch[i].Chained.Proposal.Signature)
		copy(s[32:], batch[other].Chained.Proposal.Signature[32:])
		swapped[i] = signedBy(batch[i].Proposal.Client.Key, s, batch[i].Proposal.Nonce)
	}
	if together(claimsOf("bank", swapped)) {
		t.Error("two signatures with each other's s are right")
	}
}

// libraryTogether is together with the batch verifier of the library.
func libraryTogether(claims []claim) bool {
	v := voi.NewBatchVerifierWithCapacity(len(claims))
	for _, c := range claims {
		v.AddWithOptions(c.key, c.message, c.signature, cofactored)
	}
	return v.VerifyBatchOnly(nil)
}

// BenchmarkBatch compares together with the library's batch verifier: signatures of all by so many
// keys.
func BenchmarkBatch(b *testing.B) {
	for _, size := range []struct{ signatures, keys int }{{2, 2}, {8, 4}, {64, 1}, {64, 4}, {64, 64}, {512, 4}, {512, 128}} {
		claims := claimsOf("bank", ordinary(b, size.signatures, size.keys))
		for name, verify := range map[string]func([]claim) bool{"ours": together, "library": libraryTogether} {
			b.Run(fmt.Sprintf("%d-by-%d/%s", size.signatures, size.keys, name), func(b *testing.B) {
				for b.Loop() {
					if !verify(claims) {
						b.Fatal("wrong")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(claims))/1000, "µs/signature")
			})
		}
	}
}

// BenchmarkVerifyProposals gives the time for one transaction, by four clients, who sign each or 64
// together.
func BenchmarkVerifyProposals(b *testing.B) {
	each := map[string][]BundledTx{}
	for _, n := range []int{1, 8, 64, 512} {
		each[fmt.Sprint(n)] = ordinary(b, n, 4)
	}
	for i := range byte(8) {
		some := signTogether(b, testKey(i%4), 64, uint64(i)<<32)
		each["64-together"] = some
		each["512-together"] = append(each["512-together"], some...)
	}
	for _, name := range slices.Sorted(maps.Keys(each)) {
		txs := each[name]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !VerifyProposals("bank", txs) {
					b.Fatal("wrong")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(txs))/1000, "µs/transaction")
		})
	}
}
