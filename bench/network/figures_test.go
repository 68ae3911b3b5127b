package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

// sampled adds one repetition of a system.
func sampled(r *report.Report, system string, point, rate float64, detail map[string]float64) {
	s := report.Sample{Repetition: 1, Value: rate, Detail: detail}
	if p99, is := detail["p99_ms"]; is {
		s.Latencies = []float64{detail["p50_ms"], detail["p50_ms"], p99}
	}
	r.Add(system, point, "tx/s", s)
}

// Percentiles of one client are of the answers of all repetitions, and say of how many; a
// repetition's own are the range.
func TestTailsAreOfAllRepetitionsTogether(t *testing.T) {
	r := &report.Report{}
	for repetition, longest := range []float64{20, 50} {
		l := load{count: 40}
		for range 39 {
			l.latencies = append(l.latencies, 10*time.Millisecond)
		}
		l.latencies = append(l.latencies, time.Duration(longest)*time.Millisecond)
		for system, factor := range map[string]float64{chainifySync: 1, deadOne: 2} {
			s := report.Sample{Repetition: repetition + 1, Detail: l.detail(), Latencies: l.milliseconds()}
			for i := range s.Latencies {
				s.Latencies[i] *= factor
			}
			s.Detail["p99_ms"] *= factor
			r.Add(system, 1, "tx/s", s)
		}
	}
	if err := errors.Join(tailFigures(r, r.Find(chainifySync, 1)), impairedTail(r, "dead", deadOne, "")); err != nil {
		t.Fatal(err)
	}
	want := map[string]report.Figure{
		"network.waiting_one_p99": {Value: 50, Min: 20, Max: 50}, "network.waiting_one_tail": {Value: 5, Min: 2, Max: 5}, "dead_p99": {Value: 2, Min: 2, Max: 2},
	}
	for _, f := range r.Figures {
		if w := want[f.ID]; f.Value != w.Value || f.Min != w.Min || f.Max != w.Max || f.Answers != 80 || !strings.Contains(f.How, "of 80 answers") {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
	if len(r.Figures) != len(want) || !strings.Contains(r.Notes[0], "80 of "+chainifySync) {
		t.Errorf("%d figures, notes %q", len(r.Figures), r.Notes)
	}
}

// One client is measured longer: few are answered in a second.
func TestOneClientIsMeasuredLonger(t *testing.T) {
	for _, c := range []struct{ seconds, clients, want int }{{1, 1, 5}, {3, 1, 15}, {1, 32, 1}, {3, 32, 3}} {
		if got := (Config{Seconds: c.seconds}).patient(c.clients); got != c.want {
			t.Errorf("%d clients, %d s: %d s, want %d", c.clients, c.seconds, got, c.want)
		}
		if got := (Config{Seconds: c.seconds, Hasty: true}).patient(c.clients); got != c.seconds {
			t.Errorf("%d clients, in haste, %d s: %d s", c.clients, c.seconds, got)
		}
	}
}

// Each figure sets its own two systems in proportion, and stands for nothing where one of them
// was left out.
func TestFiguresCompareWhatTheySay(t *testing.T) {
	r := &report.Report{}
	sampled(r, deadOne, 0, 90, nil)
	sampled(r, slowOne, 1, 20, map[string]float64{"p50_ms": 60, "p99_ms": 90})
	sampled(r, readsLedger, readers, 960, map[string]float64{writtenRate: 180})
	sampled(r, zipfFour, 0, 300, nil)
	sampled(r, mixPlain, oneByOnes, 500, nil)
	all := func() error {
		for _, err := range []error{impairedFigures(r, "dead", deadOne, ""), impairedFigures(r, "slow", slowOne, ""), readFigures(r), tpccFigures(r), workloadFigures(r)} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := all(); err != nil || len(r.Figures) > 0 {
		t.Fatalf("with one side of each: %+v, %v", r.Figures, err)
	}
	sampled(r, chainifyFour, 0, 120, nil)
	sampled(r, chainifySync, 1, 40, map[string]float64{"p50_ms": 40, "p99_ms": 45})
	sampled(r, readsPlain, readers, 1000, map[string]float64{writtenRate: 200})
	sampled(r, zipfPlain, oneByOnes, 200, nil)
	sampled(r, mixFour, 0, 250, nil)
	if err := all(); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"dead": 0.75, "slow_p50": 1.5, "slow_p99": 2, "network.reads_while_writing": 0.96, "network.reads_writes": 180, "network.reads_writes_standalone": 200,
		"network.zipf_over_standalone": 1.5, "network.mix_over_standalone": 0.5,
	}
	for _, f := range r.Figures {
		if f.Value != want[f.ID] {
			t.Errorf("%s is %g, want %g", f.ID, f.Value, want[f.ID])
		}
		if (f.Holds != nil) != (f.ID == "network.reads_while_writing") {
			t.Errorf("target of %+v", f)
		}
		delete(want, f.ID)
	}
	if len(want) > 0 {
		t.Errorf("no figures %v", want)
	}
}

// Four executors on two cores have half a core each; on more cores than executors none has more
// than one.
func TestExecutorsShareTheCores(t *testing.T) {
	for cores, want := range map[int]float64{1: 250, 2: 500, 4: 1000, 16: 1000} {
		if got := shared([]float64{1000}, 4, cores); len(got) != 1 || got[0] != want {
			t.Errorf("%d cores: %v, want %g", cores, got, want)
		}
	}
}

// A choice by name takes these systems and no other.
func TestSystemsAreChosenByName(t *testing.T) {
	for part, want := range map[string][]string{
		"TPC-C": {tpccFour, tpccAlone}, "OrderStatus": {readsLedger, readsPlain}, "one slow": {slowOne}, "one dead": {deadOne}, "server": {serverFour, serverSync}, "64 ": {vouchedBatch, signedBatch}, "pipelined": {pipelined},
	} {
		cfg := Config{Only: []string{part}}
		chosen := map[string]bool{}
		for _, name := range []string{chainifyFour, chainifyOne, chainifySync, standalone, deadOne, slowOne, tpccFour, tpccAlone, readsLedger, readsPlain, unsealed, serverFour, serverSync, vouched, pipelined, signed, vouchedBatch, signedBatch} {
			if cfg.wants(name) {
				chosen[name] = true
			}
		}
		for _, name := range want {
			if !chosen[name] {
				t.Errorf("%q leaves out %s", part, name)
			}
		}
		if len(chosen) != len(want) {
			t.Errorf("%q chooses %v", part, chosen)
		}
	}
}

// A run that is cut down to one system has the figures of that one, and none of the others.
func TestFiguresOfOneSystemAlone(t *testing.T) {
	for _, name := range []string{
		chainifyFour, chainifyOne, chainifySync, floorSync, standalone, baselineSingle, baselineSync, unsealed, serverFour, deadOne, slowOne, latencyMode, tpccFour, tpccAlone,
		readsLedger, readsPlain, zipfFour, mixPlain, vouched, signed, agreed, unasked, checked, echoed,
	} {
		r := &report.Report{}
		for _, point := range []float64{0, 1, many, readers} {
			sampled(r, name, point, 100, map[string]float64{"p50_ms": 10, "p99_ms": 20, databaseBytes: 3, blockBytes: 2, stateBytes: 1, walBytes: 4})
		}
		if err := figures(r, Config{Only: []string{name}, Modes: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ids := map[string]float64{}
		for _, f := range r.Figures {
			ids[f.ID] = f.Value
		}
		_, beside := ids["network.bytes_over_standalone"]
		if four := name == chainifyFour; (ids["network.four"] == 100) != four || (ids["network.bytes_per_transaction"] == 6) != four || beside {
			t.Errorf("%s: figures %v", name, ids)
		}
	}
}

// idle runs nothing; led, beside, follows another.
type (
	idle struct{ name string }
	led  struct {
		*idle
		leader running
	}
)

func (*idle) start(context.Context) error { return nil }
func (*idle) stop() error                 { return nil }
func (*idle) nodes() []int                { return nil }
func (*idle) databases() []int            { return nil }
func (l *led) after() running             { return l.leader }

// In each repetition all are measured once, in any order but for what takes a size from another.
func TestWhatFollowsIsMeasuredAfter(t *testing.T) {
	leader, other, away := &idle{"leader"}, &idle{"other"}, &idle{"away"}
	follows, alone := &led{&idle{"follower"}, leader}, &led{&idle{"alone"}, away}
	var order []string
	var systems []system
	for name, up := range map[string]running{"leader": leader, "other": other, "follower": follows, "alone": alone} {
		systems = append(systems, system{name, 0, up, func(context.Context, int) (load, error) {
			order = append(order, name)
			return load{count: 1, took: time.Second}, nil
		}})
	}
	slices.SortFunc(systems, func(a, b system) int { return strings.Compare(a.name, b.name) })
	first := map[string]bool{}
	for repetition := range 50 {
		order = nil
		if err := repeat(t.Context(), Config{Seed: 1, Progress: io.Discard}, repetition, systems, &report.Report{}); err != nil {
			t.Fatal(err)
		}
		if len(order) != len(systems) || slices.Index(order, "leader") > slices.Index(order, "follower") {
			t.Fatalf("repetition %d: %v", repetition, order)
		}
		first[order[0]] = true
	}
	if len(first) != 3 {
		t.Errorf("first was only ever one of %v", first)
	}
}

// noted writes down what is done with it.
type noted struct {
	*idle
	did *[]string
}

func (n noted) start(context.Context) error  { *n.did = append(*n.did, "start"); return nil }
func (n noted) vacuum(context.Context) error { *n.did = append(*n.did, "vacuum"); return nil }

// Systems with tables are vacuumed before each measurement, after their warming. Systems with
// transactions of its own is warmed with these.
func TestTablesAreVacuumedBeforeEachMeasurement(t *testing.T) {
	var did []string
	up := noted{&idle{"up"}, &did}
	one := func(name string) system {
		return system{name, 0, up, func(_ context.Context, repetition int) (load, error) {
			did = append(did, fmt.Sprint(name, " ", repetition))
			return load{count: 1, took: time.Second}, nil
		}}
	}
	cfg := Config{Seed: 1, Repeat: 1, WarmUp: true, Progress: io.Discard}
	if err := repeat(t.Context(), cfg, 1, []system{one("a"), one("b"), one(tpccFour)}, &report.Report{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"start", "a 3", "vacuum", "a 1", "vacuum", "b 1", tpccFour + " 3", "vacuum", tpccFour + " 1"}
	if !slices.Equal(did, want) {
		t.Errorf("did %q, want %q", did, want)
	}
}

// Both sides of what is compared are cared for alike.
func TestAllThatHasTablesIsTidied(t *testing.T) {
	for _, up := range []running{&ours{}, &impaired{}, &oneWorker{}, &theirs{}, &alone{}, single{}, &pair{}} {
		if _, is := up.(tidied); !is {
			t.Errorf("the tables of %T are never vacuumed", up)
		}
	}
}

// A started system is warm when it is measured: its first load, of transactions of its own, does
// not count.
func TestTheFirstLoadDoesNotCount(t *testing.T) {
	up := &idle{"up"}
	var loads []string
	one := func(name string) system {
		return system{name, 0, up, func(_ context.Context, repetition int) (load, error) {
			loads = append(loads, fmt.Sprint(name, repetition))
			return load{count: 1, took: time.Second}, nil
		}}
	}
	r := &report.Report{}
	for repetition := 1; repetition <= 2; repetition++ {
		if err := repeat(t.Context(), Config{Seed: 1, Repeat: 2, WarmUp: true, Progress: io.Discard}, repetition, []system{one("a"), one("b")}, r); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a4", "a1", "b1", "a5", "a2", "b2"}; !slices.Equal(loads, want) {
		t.Errorf("loads %v, want %v", loads, want)
	}
	if a := r.Find("a", 0); len(a.Samples) != 2 || a.Samples[0].Repetition != 1 {
		t.Errorf("counted %+v", a.Samples)
	}
}
