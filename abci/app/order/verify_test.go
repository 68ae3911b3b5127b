package order_test

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// candidate is a bundle of so many transactions that their client signed, with some of the
// signatures forged.
func candidate(t testing.TB, c *ordertest.Consortium, r *order.Registry, nonce uint64, n int, forged ...int) order.Candidate {
	t.Helper()
	b := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1}
	for i := range n {
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: wire.SignProposal(clientKey(1), c.Proposal(0, nonce<<20+uint64(i), 100))})
	}
	for _, i := range forged {
		b.Transactions[i].Proposal.Signature[40] ^= 1
	}
	out, err := r.Candidate(c.SignBundle(0, b))
	must.Do(t, err)
	return out
}

// However many signatures are forged, and where, each bundle is judged as by itself. The work has a
// bound: one batch where none is forged, three times that where one is, ten times in any case.
func TestVerifyClientsJudgesEachBundle(t *testing.T) {
	random := seeded.Random(t)
	c := ordertest.New(2, 0)
	r := c.Registry(t)
	for round := range 30 {
		var list []order.Candidate
		var want []string
		signatures, wrong := 0, 0
		for i := range random.IntN(40) + 1 {
			n, text := random.IntN(8)+1, ""
			var forged []int
			if round%3 == 2 && random.IntN(2) == 0 || round%3 == 1 && wrong == 0 && random.IntN(4) == 0 {
				forged = append(forged, random.IntN(n))
				text = fmt.Sprintf("bundle.transactions[%d].proposal.signature: not by the client's key", forged[0])
				wrong++
			}
			list, want = append(list, candidate(t, c, r, uint64(i), n, forged...)), append(want, text)
			signatures += n
		}
		errs, work := r.VerifyClients(list...)
		for i, err := range errs {
			if got := fmt.Sprint(err); err == nil && want[i] != "" || err != nil && (got != want[i] || order.CodeOf(err) != order.CodeSignature) {
				t.Errorf("round %d: bundle %d is %v, want %q", round, i, err, want[i])
			}
		}
		once := order.Work(signatures) + order.BatchWork
		search := 2 * order.BatchWork * order.Work(bits.Len(uint(len(list)))+4)
		switch most := [...]order.Work{once, 3*order.Work(signatures) + search, 10*once + search}[min(wrong, 2)]; {
		case work > most, wrong == 0 && work != once:
			t.Errorf("round %d: work %d for %d signatures of which %d are wrong, want at most %d", round, work, signatures, wrong, most)
		}
	}
	const many = 512
	one, all := make([]order.Candidate, many), make([]order.Candidate, many)
	for i := range many {
		all[i] = candidate(t, c, r, uint64(i), 1, 0)
		if one[i] = all[i]; i != many/3 {
			one[i] = candidate(t, c, r, uint64(i), 1)
		}
	}
	if _, work := r.VerifyClients(one...); work > 3*many {
		t.Errorf("work %d for one wrong bundle of %d", work, many)
	}
	if _, work := r.VerifyClients(all...); work > 10*many {
		t.Errorf("work %d for %d wrong bundles", work, many)
	}
	if errs, work := r.VerifyClients(); len(errs) != 0 || work != 0 {
		t.Errorf("%v, work %d for nothing", errs, work)
	}
}

// BenchmarkVerifyClients gives the time for one unit of Work.
func BenchmarkVerifyClients(b *testing.B) {
	c := ordertest.New(2, 0)
	r := c.Registry(b)
	of := func(bundles, n int, forged func(i int) []int) (list []order.Candidate) {
		for i := range bundles {
			list = append(list, candidate(b, c, r, uint64(i), n, forged(i)...))
		}
		return list
	}
	none := func(int) []int { return nil }
	last := func(n int) func(int) []int { return func(int) []int { return []int{n - 1} } }
	for name, list := range map[string][]order.Candidate{
		"1000/right":              of(1, 1000, none),
		"1000/last forged":        of(1, 1000, last(1000)),
		"256 of 1/right":          of(256, 1, none),
		"256 of 1/one forged":     append(of(255, 1, none), of(1, 1, last(1))...),
		"256 of 1/all forged":     of(256, 1, last(1)),
		"one signature/right":     of(1, 1, none),
		"4 of 1000/each of them ": of(4, 1000, last(1000)),
	} {
		b.Run(name, func(b *testing.B) {
			var work order.Work
			for b.Loop() {
				_, one := r.VerifyClients(list...)
				work += one
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(work)/1000, "µs/unit")
		})
	}
}
