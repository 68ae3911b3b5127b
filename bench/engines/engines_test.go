package engines

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/benchtest"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// A client's customers are never in two write sets that are under way. All kinds of transactions
// come up.
func TestWriteSetsAreOfCustomersThatAreFree(t *testing.T) {
	known := map[int64]balances{}
	for customer := range int64(400) {
		known[customer] = balances{checkingStart, savingsStart}
		if customer%2 == 0 {
			known[customer] = balances{} // nothing to move
		}
	}
	till := newTill(seeded.Random(t), known)
	busy, kinds := map[int64]bool{}, map[int]int{}
	for len(till.free) > 1 {
		s, customers, err := till.next()
		if err != nil {
			t.Fatal(err)
		}
		set, err := wire.DecodeWriteSet(s.Effects)
		if err != nil {
			t.Fatal(err)
		}
		kinds[len(set.Changes)]++
		for _, customer := range customers {
			if busy[customer] {
				t.Errorf("customer %d is in two transactions", customer)
			}
			busy[customer] = true
		}
	}
	if kinds[1] == 0 || kinds[2] == 0 || kinds[3] == 0 {
		t.Errorf("numbers of changes: %v", kinds)
	}
}

// A call and a statement that are drawn alike do the same: the words of both differ in the names of
// their parameters alone.
func TestACallIsTheStatement(t *testing.T) {
	kinds := map[int]int{}
	for seed := range uint64(200) {
		drawn := func() *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
		d, s, c := drawSingle(drawn(), 50), statement(drawn(), 50), call(drawn(), 50)
		kinds[d.kind]++
		amount, customer, lowest := s.Parameters[0].Text, s.Parameters[1].Text, "- "+s.Parameters[0].Text
		said := strings.NewReplacer("$1", amount, "$2", customer, "$3", lowest).Replace(s.Sql)
		called := strings.NewReplacer("amount", c.Parameters[1].Text, "customer", c.Parameters[0].Text).Replace(procedures[d.kind].body)
		if c.Sql != "CALL "+procedures[d.kind].name+"($1, $2)" || said != called {
			t.Errorf("%s %v runs %s, want %s", c.Sql, c.Parameters, called, said)
		}
		if d.kind == transactSavings && s.Parameters[2].Text != fmt.Sprint(-d.amount) {
			t.Errorf("least balance %s with amount %d", s.Parameters[2].Text, d.amount)
		}
	}
	if len(kinds) != len(statements) {
		t.Errorf("kinds drawn: %v", kinds)
	}
}

// Rates and pauses are of the answers within a span, which comes in no order.
func TestRatesAndPausesOfASpan(t *testing.T) {
	answered := []time.Duration{5 * time.Second, time.Second, 2 * time.Second, 2500 * time.Millisecond, 10 * time.Second}
	if got := rate(answered, time.Second, 3*time.Second); got != 1.5 {
		t.Errorf("rate %v, want 1.5", got)
	}
	for _, c := range []struct{ from, until, want time.Duration }{
		{time.Second, 6 * time.Second, 2500 * time.Millisecond}, // between two answers
		{3 * time.Second, 5 * time.Second, 2 * time.Second},     // no answer at all
		{5 * time.Second, 9 * time.Second, 4 * time.Second},     // after the last
	} {
		if got := pauseOf(answered, c.from, c.until); got != c.want {
			t.Errorf("from %s until %s: %s, want %s", c.from, c.until, got, c.want)
		}
	}
}

// The whole benchmark, tiny, against real servers of both engines.
func TestTheBenchmarkRuns(t *testing.T) {
	benchtest.Long(t)
	tree, dir := benchtest.Places(t)
	if _, err := exec.LookPath("mariadb-install-db"); err != nil {
		t.Skip("there is no MariaDB: scripts/setup-mariadb installs it")
	}
	node := filepath.Join(dir, "chainify")
	build := exec.Command("go", "build", "-o", node, "./cmd/chainify")
	build.Dir = filepath.Join("..", "..", "abci")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the node: %v\n%s", err, out)
	}
	var progress strings.Builder
	out := t.TempDir()
	r := &report.Report{Name: "engines", Versions: map[string]string{}, Settings: map[string]any{}}
	err := Run(t.Context(), Config{
		Dir: filepath.Join(dir, "engines"), PG: tree, Chainify: node, Out: out, Seed: 1, Repeat: 1, Seconds: 1, Customers: 400, Block: 50,
		Rows: 2 * rowsKept, Clients: []int{1, 4}, Progress: &progress,
	}, r)
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	ids := map[string]bool{}
	for _, f := range r.Figures {
		ids[f.ID] = true
	}
	for _, c := range courses {
		if _, err := os.Stat(filepath.Join(out, "engines-failing-"+c.id+".svg")); err != nil {
			t.Error(err)
		}
	}
	for _, id := range targets.Under("engines") {
		if !ids[id] {
			t.Errorf("there is no figure %s", id)
		}
	}
	if len(ids) != 23 || r.Versions["mariadb"] == "" || r.Settings["postgresql"] == nil {
		t.Errorf("%v, %v, %v", ids, r.Versions, r.Settings)
	}
}
