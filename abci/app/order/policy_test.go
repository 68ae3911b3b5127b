package order_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// deviation is how the deviating organisations differ from the others.
type deviation struct {
	name string
	// variant of organisation i, which deviates, beside 0, that of the others.
	variant func(i int) byte
	// cured: it is about transaction 1 alone, so that without it all agree.
	cured bool
}

var deviations = []deviation{
	{"all the same, about one transaction", func(int) byte { return 1 }, true},
	{"each its own, about one transaction", func(i int) byte { return byte(1 + i) }, true},
	{"all the same, about everything", func(int) byte { return 1 }, false},
	{"each its own, about everything", func(i int) byte { return byte(1 + i) }, false},
}

// The test tries every n, every c from Any-1 to All, and every number of deviating organisations up
// to all. Where c agree, the block is certified at once with what they agree about. Where no c
// agree, the transaction that differs is quarantined, and all certify the rest. Where nothing
// helps, the order declares the block without consensus and certifies nothing.
func TestEveryPolicyWithEveryNumberOfDeviating(t *testing.T) {
	for n := 1; n <= 5; n++ {
		consortiums := make([]*ordertest.Consortium, n+1)
		for c := 1; c <= n; c++ {
			consortiums[c] = ordertest.New(n, c)
		}
		for c := 1; c <= n; c++ {
			for deviating := 0; deviating <= n; deviating++ {
				for _, d := range deviations {
					t.Run(fmt.Sprintf("n=%d c=%d deviating=%d %s", n, c, deviating, d.name), func(t *testing.T) {
						playDeviating(t, consortiums[c], n, c, deviating, d)
					})
				}
			}
		}
	}
}

func playDeviating(t *testing.T, consortium *ordertest.Consortium, n, c, deviating int, d deviation) {
	registry := consortium.Registry(t)
	state := registry.Genesis(1)
	apply := func(raw ...[]byte) *order.Result {
		t.Helper()
		b := order.Block{Height: state.Height() + 1, TimeMicro: state.Height() * 1000, Hash: wire.Hash{byte(state.Height())}}
		for _, r := range raw {
			tx, err := registry.Open(r)
			must.Do(t, err)
			b.Txs = append(b.Txs, tx)
		}
		next, result, err := state.Apply(b)
		must.Do(t, err)
		next.Settle()
		state = next
		return result
	}
	var proposals []*wire.Proposal
	for nonce := range uint64(3) {
		proposals = append(proposals, consortium.Proposal(0, nonce, 100))
	}
	apply(consortium.Bundle(0, proposals...))

	variants := map[byte]int{}
	variant := make([]byte, n)
	for i := range deviating {
		variant[i] = d.variant(i)
	}
	largest := 0
	for _, v := range variant {
		variants[v]++
		largest = max(largest, variants[v])
	}
	for range 40 {
		p := state.Pending()
		var votes []*wire.ExtendedVote
		var hashes []wire.Hash
		for i := range n {
			v := variant[i]
			if d.cured && (slices.Contains(p.Quarantined, 1) || p.QuarantineAll) {
				v = 0
			}
			effects := []wire.Hash{{9}, {v}, {9}}
			if !d.cured {
				effects = []wire.Hash{{v}, {v}, {v}}
			}
			hash := wire.Hash{1, v, byte(len(p.Quarantined)), byte(p.Round)}
			hashes = append(hashes, hash)
			vote := wire.NewEffectsVote(p.Key(), fmt.Sprintf("o%d", i), hash)
			if p.Round > 0 {
				vote.Parts = wire.Suspects{List: p.Suspects, Count: p.TxCount}.Hashes(effects)
			}
			votes = append(votes, consortium.Sign(i, state.Height(), vote))
		}
		turn := int(state.Height()) % n
		certificate := state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return hashes[turn], true })
		var result *order.Result
		if certificate == nil {
			result = apply()
		} else {
			result = apply(wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}}))
		}
		if result.Certified != nil {
			checkCertified(t, result.Certified, p, largest, n, c, d)
			return
		}
	}
	p := state.Pending()
	if largest >= c || d.cured || !p.QuarantineAll {
		t.Fatalf("not certified: round %d, quarantined %v, all %t; %d agree, want %d", p.Round, p.Quarantined, p.QuarantineAll, largest, c)
	}
}

func checkCertified(t *testing.T, got *wire.Certificate, p *order.Pending, largest, n, c int, d deviation) {
	t.Helper()
	switch {
	case len(got.Votes) < c:
		t.Fatalf("certified with %d votes, want %d", len(got.Votes), c)
	case largest >= c && (got.Round != 0 || len(p.Quarantined) > 0 || p.QuarantineAll):
		t.Fatalf("%d agreed, want %d; certified in round %d, quarantined %v", largest, c, got.Round, p.Quarantined)
	case largest < c && (!d.cured || len(got.Votes) != n || !slices.Equal(p.Quarantined, []uint32{1}) || got.Round != 2):
		t.Fatalf("%d agreed, want %d; certified in round %d by %d, quarantined %v", largest, c, got.Round, len(got.Votes), p.Quarantined)
	}
}
