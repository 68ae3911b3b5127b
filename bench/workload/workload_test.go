package workload

import (
	"encoding/binary"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

func TestTheSameSeedGivesTheSameTransactions(t *testing.T) {
	a, b := NewSmallbank(7, 1, 1000), NewSmallbank(7, 1, 1000)
	first := a.Block(500)
	if !reflect.DeepEqual(first, b.Block(500)) {
		t.Fatal("two streams of one seed differ")
	}
	if reflect.DeepEqual(first, a.Block(500)) {
		t.Fatal("the second block repeats the first")
	}
	for name, other := range map[string]*Smallbank{"seed": NewSmallbank(8, 1, 1000), "stream": NewSmallbank(7, 2, 1000)} {
		if reflect.DeepEqual(first, other.Block(500)) {
			t.Fatalf("another %s gives the same transactions", name)
		}
	}
}

func TestDrawsStayInTheirBoundsAndReachThem(t *testing.T) {
	const customers = 3
	seen := map[int]int{}
	reached := map[int64]bool{}
	for _, c := range NewSmallbank(1, 1, customers).Block(6000) {
		if c.C < 1 || c.C > customers || c.D < 1 || c.D > customers || c.C == c.D {
			t.Fatalf("customers of %+v", c)
		}
		if k := kinds[c.Kind]; c.V < k.vMin || c.V > k.vMax {
			t.Fatalf("amount of %+v, want %d to %d", c, k.vMin, k.vMax)
		}
		seen[c.Kind]++
		reached[c.C], reached[customers+c.D] = true, true
	}
	if len(seen) != len(kinds) || len(reached) != 2*customers {
		t.Fatalf("kinds %v, customers %v", seen, reached)
	}
	for k, n := range seen {
		if n < 850 || n > 1150 { // five standard deviations around 1000
			t.Errorf("%s was drawn %d times in 6000", kinds[k].name, n)
		}
	}
}

func TestSkewedDrawsFavourTheFirstCustomers(t *testing.T) {
	const customers, draws = 1000, 60_000
	counts := map[int64]int{}
	for _, c := range NewSkewedSmallbank(1, 1, customers, 1.1).Block(draws) {
		if c.C < 1 || c.C > customers || c.D < 1 || c.D > customers || c.C == c.D {
			t.Fatalf("customers of %+v", c)
		}
		counts[c.C]++
	}
	var all float64
	for c := 1; c <= customers; c++ {
		all += math.Pow(float64(c), -1.1)
	}
	for _, c := range []int64{1, 2, 10} {
		want := draws * math.Pow(float64(c), -1.1) / all
		if got := float64(counts[c]); math.Abs(got-want) > 5*math.Sqrt(want) {
			t.Errorf("customer %d was drawn %g times, want about %.0f", c, got, want)
		}
	}
}

func TestAStreamDrawsTheKindsThatItIsTold(t *testing.T) {
	seen := map[string]int{}
	for _, call := range NewSkewedSmallbank(1, 1, 1000, 1.1).Of("write_check", "send_payment").Block(400) {
		seen[kinds[call.Kind].name]++
	}
	if len(seen) != 2 || seen["write_check"] < 150 || seen["send_payment"] < 150 {
		t.Errorf("drew %v", seen)
	}
}

func TestTheMixIsAsHotAsItSays(t *testing.T) {
	mix := Mix{Accounts: 1000, Each: 8, HotRead: 0.4, HotWrite: 0.1, HotShare: 0.01}
	next, again := mix.Stream(7, 1, ReadWrite), mix.Stream(7, 1, ReadWrite)
	const transactions = 5000
	hot := make([]int, 2)
	for range transactions {
		s := next()
		if other := again(); !reflect.DeepEqual(s, other) {
			t.Fatalf("two streams of one seed: %+v and %+v", s, other)
		}
		for i, value := range s.Values {
			ids := strings.Split(strings.Trim(value, "{}"), ",")
			if len(ids) != mix.Each {
				t.Fatalf("%d accounts in %s", len(ids), value)
			}
			for _, text := range ids {
				id, err := strconv.Atoi(text)
				if err != nil || id < 1 || id > mix.Accounts {
					t.Fatalf("account %q, %v", text, err)
				}
				if id <= 10 {
					hot[i]++
				}
			}
		}
	}
	for i, want := range []float64{mix.HotRead, mix.HotWrite} {
		if share := float64(hot[i]) / (transactions * 8); math.Abs(share-want) > 0.015 {
			t.Errorf("%g of list %d are of the hot set, want %g", share, i, want)
		}
	}
	if text := next().Text(); !strings.HasPrefix(text, "SELECT mix.read_write('{") || !strings.HasSuffix(text, "}'::bigint[])") {
		t.Errorf("as text: %s", text)
	}
}

func TestFormsOfACall(t *testing.T) {
	call := Call{Kind: 5, C: 11, D: 22, V: 33}
	f := call.Statement(Function)
	if f.SQL != "SELECT smallbank.send_payment($1, $2, $3)" || !reflect.DeepEqual(f.Values, []string{"11", "22", "33"}) ||
		!reflect.DeepEqual(f.Types, []string{"bigint", "bigint", "numeric"}) {
		t.Errorf("function: %+v", f)
	}
	if p := call.Statement(Parameters); !strings.Contains(p.SQL, "balance - $3 WHERE custid = $1") || len(p.Values) != 3 {
		t.Errorf("parameters: %+v", p)
	}
	if l := call.Statement(Literal); !strings.Contains(l.SQL, "balance - 33 WHERE custid = 11") || strings.Contains(l.SQL, "$") || len(l.Values)+len(l.Types) != 0 {
		t.Errorf("literal: %+v", l)
	}
}

func TestEveryTransactionHasAFunctionAndAScript(t *testing.T) {
	scripts := PgbenchScripts()
	if len(scripts) != len(kinds) {
		t.Fatalf("%d scripts for %d kinds", len(scripts), len(kinds))
	}
	for _, k := range kinds {
		if !strings.Contains(SmallbankSQL, "CREATE FUNCTION smallbank."+k.name+"(") {
			t.Errorf("no function %s", k.name)
		}
		script := scripts[k.name+".sql"]
		for _, a := range k.arguments {
			if !strings.Contains(script, "\\set "+string(a)+" ") || !strings.Contains(script, ":"+string(a)) {
				t.Errorf("script of %s lacks %c:\n%s", k.name, a, script)
			}
		}
	}
}

func TestTransactionsAreDistinctAndAccepted(t *testing.T) {
	a := Author{"test", "acme", "bank"}
	s := Call{Kind: 1, C: 1, D: 2, V: 3}.Statement(Function)
	raw, err := a.Transactions(wire.Kind_KIND_SQL, 5, []Statement{s, s})
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.BigEndian.Uint32(raw); n != 2 {
		t.Fatalf("count is %d", n)
	}
	first := binary.BigEndian.Uint32(raw[4:])
	one, err := wire.DecodeChainedTx(raw[8 : 8+first])
	if err != nil {
		t.Fatal(err)
	}
	two, err := wire.DecodeChainedTx(raw[8+first+4:])
	if err != nil {
		t.Fatal(err)
	}
	if one.ID == two.ID {
		t.Fatal("the same statement twice is one transaction")
	}
	if _, err := a.Transactions(wire.Kind_KIND_SQL, 0, []Statement{{}}); err == nil {
		t.Fatal("an empty statement was encoded")
	}
}
