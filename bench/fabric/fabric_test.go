package fabric

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/relay"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/workload"
)

// Every point of the papers' figures is an experiment with a published figure of its own.
func TestExperimentsAreThoseOfThePapers(t *testing.T) {
	list := experiments(Config{Seed: 1})
	names, headlinesFound, sizes := map[string]bool{}, 0, map[string]int{}
	for _, e := range list {
		if names[e.name] = true; e.published == "" || e.size == 0 || e.stream == nil {
			t.Errorf("%s lacks something: %q, blocks of %d", e.name, e.published, e.size)
		}
		if e.headline {
			headlinesFound++
		}
		kind, _, _ := strings.Cut(e.name, " ")
		sizes[fmt.Sprint(kind, " ", e.size)]++
	}
	want := map[string]int{"Smallbank 1024": 33}
	for size := 16; size <= 2048; size *= 2 {
		want[fmt.Sprint("block ", size)] = 1 // figure 3.9
	}
	for _, size := range []int{256, 512, 1024} {
		want[fmt.Sprint("custom ", size)], want[fmt.Sprint("of ", size)] = 36, 18 // figures 11 and 16
	}
	if len(names) != len(list) || !maps.Equal(sizes, want) || headlinesFound != len(headlines) {
		t.Errorf("%d experiments with %d names, %d headlines; by kind and size %v, want %v", len(list), len(names), headlinesFound, sizes, want)
	}
	for _, h := range headlines {
		if !names[h.name] {
			t.Errorf("a promise is about %q, which is no experiment", h.name)
		}
	}
}

// All ways of an experiment get the same transactions, and the clients different ones.
func TestWaysGetTheSameTransactions(t *testing.T) {
	for _, e := range experiments(Config{Seed: 3, Only: []string{"Smallbank Pw=50% s=1.0", "custom BS=256 RW=4 HR=10% HW=5% HSS=1%"}}) {
		draw := func(w way, stream uint64) (out string) {
			next := e.stream(w, stream)
			for range 20 {
				out += fmt.Sprint(next().Values)
			}
			return out
		}
		if draw(with, 1) != draw(without, 1) || draw(with, 1) != draw(executed, 1) {
			t.Errorf("%s: the ways get different transactions", e.name)
		}
		if draw(with, 1) == draw(with, 2) {
			t.Errorf("%s: two clients get the same transactions", e.name)
		}
	}
}

// The table has a row for each experiment, with the published figure and the gain within a
// repetition.
func TestTheTableSetsPublishedFiguresBeside(t *testing.T) {
	list := experiments(Config{Seed: 1, Only: []string{"Smallbank Pw=95%"}})
	r := &report.Report{}
	for _, e := range list {
		for _, w := range e.ways {
			value := map[string]float64{with.name: 50, without.name: 20, executed.name: 500}[w.name]
			r.Add(e.series(w), float64(w.blocks(e)), "tx/s", report.Sample{Repetition: 1, Value: max(value, 1), Detail: map[string]float64{firedDetail: 600}})
		}
	}
	rows := tableOf(r, list)
	if len(rows) != len(skews) {
		t.Fatalf("%d rows of %d experiments", len(rows), len(list))
	}
	for i, row := range rows {
		if len(row) != len(tableHead) || row[0] != list[i].name || row[1] == "" {
			t.Errorf("row %q", row)
		}
		if got := strings.Join(row[2:], "|"); got != "20 of 600|50 of 600|2.50 ×|500 of 600|10.00 ×" {
			t.Errorf("%s: %s", row[0], got)
		}
	}
	if err := figures(r, list); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if f.ID == "fabric.smallbank" && (f.Value != 2.5 || f.Holds != nil) {
			t.Errorf("%+v", f)
		}
	}
	if got := r.Missed(); len(got) != 0 { // Smallbank's figure has no target
		t.Errorf("missed %v", got)
	}
}

// The output of the micro-benchmarks' program is read whole, or refused.
func TestTheMicroBenchmarkIsRead(t *testing.T) {
	points, err := readPoints("interleaved\t0\t1024\t512\t1024\t58.738\ninterleaved\t512\t1024\t1024\t1023\t1054.7\ncycles\t4\t1024\t512\t768\t271.5\n")
	if err != nil || len(points) != 3 {
		t.Fatalf("%v, %v", points, err)
	}
	if got := worst(points); got.ms != 1.0547 || got.valid != 1023 || got.cyclesMS != 0.2715 {
		t.Errorf("%+v", got)
	}
	rows := microRows(points)
	if got := strings.Join(rows[2], "|"); got != "micro cycles, 4 transactions a cycle|as they come half valid; reordered drawn in figure 3.7|512 valid|768 valid, 0.272 ms|1.50 ×||" {
		t.Errorf("row %s", got)
	}
	if len(rows[0]) != len(tableHead) {
		t.Errorf("%d cells, want %d", len(rows[0]), len(tableHead))
	}
	for _, text := range []string{"", "interleaved\t0\t1024\t512\n", "else\t0\t1\t1\t1\t1.0\n", "interleaved\tx\t1\t1\t1\t1.0\n"} {
		if _, err := readPoints(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// A block is cut at its size, after a second, at a bundle's bytes, and when no more comes.
// Transactions without room are dropped.
func TestBlocksAreCut(t *testing.T) {
	m := &meter{from: time.Now(), until: time.Now().Add(time.Hour)}
	o := newOrder(nil, role, 4, m)
	for range blocksQueue*4 + 3 {
		o.take(2, &wire.Statement{})
	}
	if m.ends[dropped] != 3 {
		t.Errorf("%d were dropped, want 3", m.ends[dropped])
	}
	for range blocksQueue {
		if block, more := o.cut(t.Context()); len(block) != 4 || !more {
			t.Fatalf("a block of %d, more %v", len(block), more)
		}
	}
	o.take(0, &wire.Statement{})
	if block, more := o.cut(t.Context()); len(block) != 1 || !more {
		t.Errorf("after a second: %d, more %v", len(block), more)
	}
	for range 3 {
		o.take(0, &wire.Statement{Effects: make([]byte, bytesMax/2)})
	}
	if block, _ := o.cut(t.Context()); len(block) != 2 {
		t.Errorf("by bytes: %d", len(block))
	}
	o.end()
	if block, more := o.cut(t.Context()); len(block) != 1 || more {
		t.Errorf("at the end: %d, more %v", len(block), more)
	}
}

// An ordered transaction counts by its outcome, within the time that counts.
func TestOutcomesAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	node, err := relay.New(path, func(*wire.Statement) {})
	if err != nil {
		t.Fatal(err)
	}
	client, err := gateway.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	m := &meter{from: time.Now(), until: time.Now().Add(time.Minute)}
	for _, size := range []int{3, ownPace} {
		o := newOrder([]*gateway.Client{client}, role, size, m)
		for range 5 {
			o.take(0, &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1"})
		}
		o.end()
		if err := o.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.outcome(time.Now(), &wire.Outcome{Block: 7})
	m.outcome(time.Now(), &wire.Outcome{})
	m.outcome(time.Now().Add(-time.Hour), &wire.Outcome{Succeeded: true, Block: 7})
	if m.ends != [fates]int{succeeded: 10, conflicted: 1, early: 1} {
		t.Errorf("ends %v", m.ends)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := node.Close(); err != nil {
		t.Error(err)
	}
}

// Blocks that end every 0.4 s count as many transactions a second wherever the time that counts
// begins.
func TestRatesAreOverWholeIntervalsOfBlocks(t *testing.T) {
	for offset := range 8 {
		began := time.Now()
		m := &meter{from: began.Add(time.Second), until: began.Add(2 * time.Second), blocks: blocksLeast}
		for at := time.Duration(offset) * 50 * time.Millisecond; at < 3*time.Second; at += 400 * time.Millisecond {
			m.end(began.Add(at), succeeded, 100)
			m.end(began.Add(at), conflicted, 300)
		}
		s := m.sample(1)
		if math.Abs(s.Value-250) > 1e-6 || math.Abs(s.Detail[fateNames[conflicted]]-750) > 1e-6 {
			t.Errorf("with an offset of %d: %g succeeded a second, want 250; %v", offset, s.Value, s.Detail)
		}
	}
}

// However slow its blocks are, a point is measured until some have ended, and no longer than it may
// be.
func TestTimeIsPutOffUntilBlocksEnd(t *testing.T) {
	for _, c := range []struct{ block, blocks, seconds int }{{300, 6, 2}, {700, 3, 2}, {1700, 3, 5}, {4500, 2, 10}, {60_000, 0, 10}} {
		began := time.Now()
		m := &meter{from: began.Add(time.Second), until: began.Add(3 * time.Second), before: began}
		every, at := time.Duration(c.block)*time.Millisecond, began
		for number := uint64(1); !m.over(at); at = at.Add(50 * time.Millisecond) {
			if at.Sub(began)%every == 0 && at != began {
				for range 100 {
					m.outcome(at, &wire.Outcome{Succeeded: true, Block: number})
				}
				number++
			}
		}
		if got := m.until.Sub(m.from); got != time.Duration(c.seconds)*time.Second {
			t.Errorf("blocks of %s: %s, want %d s", every, got, c.seconds)
		}
		if m.blocks != c.blocks {
			t.Errorf("blocks of %s: %d ended, want %d", every, m.blocks, c.blocks)
		}
		want := 100 / every.Seconds()
		if c.blocks == 0 {
			want = 0
		}
		if s := m.sample(1); math.Abs(s.Value-want) > 1e-6 {
			t.Errorf("blocks of %s: %g a second, want %g", every, s.Value, want)
		}
	}
}

// A client fires at its rate. The clock is the test's own, so a busy machine changes nothing.
func TestClientsFireAtTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{from: time.Now(), until: time.Now().Add(300 * time.Millisecond), blocks: blocksLeast}
		next := func() workload.Statement { return workload.Statement{} }
		err := fire(t.Context(), m, 100, next, func(context.Context, workload.Statement) error { return nil })
		if err != nil || m.fired != 30 {
			t.Errorf("%d were fired in 0.3 s at 100 a second, %v", m.fired, err)
		}
	})
}

// A write set that claims to be new is otherwise as it was. A SERIALIZABLE one is refused.
func TestUnagedWriteSetsDifferInTheirClaimAlone(t *testing.T) {
	set := &wire.WriteSet{Snapshot: 7, Isolation: wire.ReadCommitted, Tables: []string{"a.b"}, Changes: []wire.RowChange{
		{Op: 'I', Row: []byte{0, 1, 0, 1, 1, 0, 0, 0, 1, 1}},
	}}
	s := &wire.Statement{Effects: set.Encode()}
	if err := unaged(s); err != nil {
		t.Fatal(err)
	}
	got, err := wire.DecodeWriteSet(s.Effects)
	if err != nil || got.Snapshot != farAhead {
		t.Fatalf("%v, %v", got, err)
	}
	got.Snapshot = 7
	if string(got.Encode()) != string(set.Encode()) {
		t.Error("more than the claim has changed")
	}
	set.Isolation = wire.Serializable
	if unaged(&wire.Statement{Effects: set.Encode()}) == nil {
		t.Error("a SERIALIZABLE write set was changed")
	}
}
