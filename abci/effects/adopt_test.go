package effects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// deviant executes every block otherwise.
type deviant struct{ backend.Backend }

func (d deviant) Execute(ctx context.Context, block *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	x, err := d.Backend.Execute(ctx, block, previous)
	x.Hash[0] ^= 1
	return x, err
}

func (d deviant) Retry(ctx context.Context, block *wire.OrderedBlock, previous, _ wire.Hash) (backend.Execution, error) {
	return d.Execute(ctx, block, previous)
}

// A database that executes every block otherwise adopts each, from the organisation that tells the
// truth. The one that lies is named. It never votes for what it adopted (E8).
func TestABlockExecutedOtherwiseIsAdopted(t *testing.T) {
	b := newBench(t)
	reached, watch := &others{truth: b.truth}, &named{}
	b.stop()
	b.start(Options{Backend: deviant{b.memory}, Others: reached, Watch: watch, Config: Config{HelpAttempts: 2}})
	b.play()
	b.until("nobody helps", func() bool { return watch.hasFailed("adopt: no help") && reached.asked.Load() > 5 })
	b.state("recovering")
	reached.willing.Store(true)
	b.committed(1)
	second := b.next()
	b.play()
	b.committed(2)
	b.until("both deviations are recorded", func() bool { return len(b.db.Deviations()) == 2 })
	if got := b.db.Deviations(); !slices.Equal(got, []string{"adopt", "adopt"}) {
		t.Errorf("cured by %q", got)
	}
	if watch.of("b") == 0 || watch.of("c") > 0 {
		t.Errorf("named: %v", watch.lied)
	}
	if s := b.shell.Status(); s.State != "serving" || !strings.Contains(s.Reason, "block 2 was adopted") {
		t.Errorf("status %+v", s)
	}
	hashes := b.db.Hashes()
	if vote, err := wire.DecodeEffectVote(b.vote(second, time.Minute)); err != nil || vote.IsFor("a", hashes[1]) {
		t.Errorf("vote %+v (%v) is for the block adopted", vote, err)
	}
}

func TestTheTurnOfAdopt(t *testing.T) {
	for _, c := range []struct {
		name  string
		l     ladder
		sound bool
		turn  bool
	}{
		{"a first execution", ladder{number: 7}, true, false},
		{"a retry", ladder{number: 7, step: retried}, false, false},
		{"a retry, tables sound", ladder{number: 7, step: retried}, true, true},
		{"a retry of block 1", ladder{number: 1, step: retried}, false, true},
		{"after a step in part", ladder{number: 7, step: repaired, repairs: 1}, false, false},
		{"after a step that showed all", ladder{number: 7, step: repaired, repairs: 1, sound: true}, false, true},
		{"after the last repair", ladder{number: 7, step: repaired, repairs: 3}, false, true},
		{"tried in vain", ladder{number: 7, step: repaired, sound: true, unadoptable: true}, true, false},
	} {
		l := c.l
		if got := l.adopts(3, c.sound); got != c.turn || (l.step == adopting) != c.turn {
			t.Errorf("%s: %t, %+v", c.name, got, l)
		}
	}
	for _, c := range []struct {
		name string
		l    ladder
		then string // whether it is unadoptable: at once, after a repair of nothing, after one of rows
	}{
		{"believed to be sound", ladder{number: 7}, "false false false"},
		{"shown to be sound", ladder{number: 7, sound: true}, "true true false"},
		{"block 1", ladder{number: 1}, "true true false"},
	} {
		l := c.l
		l.cannotAdopt(3, "why")
		got := fmt.Sprint(l.unadoptable)
		for _, rows := range []int{0, 1} {
			l.repaired(backend.Rows, rows)
			got += fmt.Sprint(" ", l.unadoptable)
		}
		if got != c.then || l.why != "why" || !l.sound {
			t.Errorf("%s: %s, %+v", c.name, got, l)
		}
	}
}

func TestTablesAreTakenForSoundForAWhile(t *testing.T) {
	var a adoption
	if a.sound(0) || a.reason() != "" {
		t.Error("nothing was adopted")
	}
	a.adopted(7, false, 1_000)
	if a.sound(1_000) || !strings.Contains(a.reason(), "block 7") {
		t.Errorf("%+v", a)
	}
	a.adopted(8, true, 2_000)
	a.adopted(9, false, 3_000)
	if !a.sound(601_999) || a.sound(602_000) {
		t.Errorf("%+v", a)
	}
}

// Where the step is left out, such a database is excluded.
func TestWithoutAdoptOneThatExecutesOtherwiseIsExcluded(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	reached.willing.Store(true)
	b.stop()
	b.start(Options{Backend: deviant{b.memory}, Others: reached, Config: Config{Steps: []backend.Step{backend.Rows}}})
	b.play()
	b.state("excluded")
	if _, err := NewCore(Config{Steps: []backend.Step{backend.Adopt}}); err == nil {
		t.Error("a core that cannot repair is made")
	}
}

// The operator of a database that cannot adopt a DEPLOY transaction is told why it fails there.
func TestFailedDeployTransactionsAreNamed(t *testing.T) {
	var raw [][]byte
	var results []wire.TxResult
	for i, kind := range []wire.Kind{wire.Kind_KIND_DEPLOY, wire.Kind_KIND_SQL, wire.Kind_KIND_DEPLOY, wire.Kind_KIND_DEPLOY, wire.Kind_KIND_DEPLOY, wire.Kind_KIND_DEPLOY} {
		proposal := wire.Encode(&wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: "r"}, Nonce: uint64(i), ValidUntilHeight: 1000, Kind: kind, Sql: "x",
		})
		raw = append(raw, wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}))
		results = append(results, wire.TxResult{Succeeded: i == 0, SQLState: "CH005", Message: fmt.Sprint("reason ", i)})
	}
	block := &wire.OrderedBlock{Transactions: wire.EncodeTransactions(raw)}
	const want = "transaction 2 fails: reason 2 (CH005); transaction 3 fails: reason 3 (CH005); transaction 4 fails: reason 4 (CH005)"
	if got := failedDeploys(block, results); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := failedDeploys(block, nil); got != "" { // nothing was executed
		t.Errorf("%q of no results", got)
	}
}
