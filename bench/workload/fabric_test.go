package workload

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// The share of the first number is what the law says, from no skew to the strongest of Fabric++.
func TestZipfFollowsItsLaw(t *testing.T) {
	const seed, n, draws = 7, 1000, 200_000
	t.Logf("seed %d", seed)
	for _, s := range []float64{0, 0.2, 1, 2} {
		sum := 0.0
		for k := 1; k <= n; k++ {
			sum += math.Pow(float64(k), -s)
		}
		zipf, random := NewZipf(n, s), rand.New(rand.NewPCG(seed, 1))
		found := map[int64]int{}
		for range draws {
			k := zipf.Draw(random)
			if k < 1 || k > n {
				t.Fatalf("s %g: drew %d of %d", s, k, n)
			}
			found[k]++
		}
		for _, k := range []int64{1, 2, 10, n} {
			want := math.Pow(float64(k), -s) / sum * draws
			if got := float64(found[k]); math.Abs(got-want) > 6*math.Sqrt(want)+1 {
				t.Errorf("s %g: %d came %g times, want %.0f", s, k, got, want)
			}
		}
	}
	if got := NewZipf(1, 2).Draw(rand.New(rand.NewPCG(seed, 1))); got != 1 {
		t.Errorf("of one number %d was drawn", got)
	}
}

// Pw of the transactions change something, each of the five kinds alike, and none names one
// customer twice.
func TestFabricBankKeepsItsMix(t *testing.T) {
	const seed, draws = 7, 50_000
	t.Logf("seed %d", seed)
	for _, writes := range []float64{0.05, 0.5, 0.95} {
		bank := NewFabricBank(seed, 1, writes, NewZipf(1000, 2))
		found := map[string]int{}
		for range draws {
			s := bank.Next()
			name := strings.TrimPrefix(strings.SplitN(s.SQL, "(", 2)[0], "SELECT fabric.")
			found[name]++
			if (name == "send_payment" || name == "amalgamate") && s.Values[0] == s.Values[1] {
				t.Fatalf("%s with itself: %v", name, s.Values)
			}
		}
		for name, share := range map[string]float64{
			"query": 1 - writes, "transact_savings": writes / 5, "deposit_checking": writes / 5, "write_check": writes / 5, "send_payment": writes / 5, "amalgamate": writes / 5,
		} {
			want := share * draws
			if got := float64(found[name]); math.Abs(got-want) > 6*math.Sqrt(want) {
				t.Errorf("Pw %g: %g of %d are %s, want %.0f", writes, got, draws, name, want)
			}
		}
	}
}

// A transaction of the mix draws its reads and its writes from the hot set with the chances that it
// is told.
func TestMixKeepsItsShares(t *testing.T) {
	const seed, draws = 7, 5_000
	t.Logf("seed %d", seed)
	m := Mix{Accounts: 10_000, Each: 4, HotRead: 0.4, HotWrite: 0.1, HotShare: 0.02}
	next := m.Stream(seed, 1, SeeAndWrite)
	hot := [2]int{}
	for range draws {
		s := next()
		for i, list := range s.Values {
			ids := strings.Split(strings.Trim(list, "{}"), ",")
			if len(ids) != m.Each {
				t.Fatalf("%v names %d accounts, want %d", s.Values, len(ids), m.Each)
			}
			for _, id := range ids {
				if len(id) < 3 || len(id) == 3 && id <= "200" {
					hot[i]++
				}
			}
		}
	}
	for i, share := range []float64{m.HotRead, m.HotWrite} {
		want := share * draws * float64(m.Each)
		if got := float64(hot[i]); math.Abs(got-want) > 6*math.Sqrt(want) {
			t.Errorf("%g of %d accounts are hot, want %.0f", got, draws*m.Each, want)
		}
	}
}
