package effects

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestPausesGrowToTheirLimit(t *testing.T) {
	for _, c := range []struct {
		inARow int
		want   int64
	}{{1, 1050}, {2, 1100}, {3, 1200}, {8, 7400}, {9, 11_000}, {21, 11_000}, {math.MaxInt, 11_000}} {
		var p pauses
		p.failed(1_000, c.inARow, 50, 10_000)
		if p.resumeMS != c.want || p.failures != c.inARow {
			t.Errorf("after %d in a row until %d, want %d", c.inARow, p.resumeMS, c.want)
		}
		if p.over(); p.failures != 0 || p.resumeMS != c.want {
			t.Errorf("over: %+v", p)
		}
	}
}

func TestAClimbTakesTheStepsInTheirOrder(t *testing.T) {
	repairs := keep(backend.Steps(), func(s backend.Step) bool { return s != backend.Adopt })
	for _, c := range []struct {
		steps []backend.Step
		full  bool
		want  string // the steps after the first one; a star where Full is passed over
	}{
		{repairs, true, "reindex rows replay rebase state full"},
		{repairs, false, "reindex rows replay rebase state *"},
		{[]backend.Step{backend.Rows}, true, ""},
		{[]backend.Step{backend.Rows, backend.Full, backend.State}, true, "full state"},
		{[]backend.Step{backend.Rows, backend.Full, backend.State}, false, "*state"},
	} {
		var at climb
		var got strings.Builder
		for more := true; more; {
			if at.passesFull(c.steps, c.full) {
				got.WriteString(" *")
			}
			if more = at.next(c.steps, c.full); more {
				fmt.Fprintf(&got, " %s", c.steps[at.by])
			}
		}
		if got := strings.ReplaceAll(strings.TrimSpace(got.String()), "* ", "*"); got != c.want {
			t.Errorf("of %v, full %t: %q, want %q", c.steps, c.full, got, c.want)
		}
	}
}

func TestAClimbWaitsForHelpAndKeepsTheFirstReason(t *testing.T) {
	var at climb
	for attempt, more := range []bool{true, true, false} {
		if got := at.noHelp(3); got != more {
			t.Errorf("attempt %d: %t", attempt, got)
		}
	}
	at.failed("")
	at.failed("first")
	at.failed("second")
	if at.why != "first" || at.unhelped != 0 {
		t.Errorf("%+v", at)
	}
}

func TestTheLadderOfABlock(t *testing.T) {
	a, b := wire.Hash{1}, wire.Hash{2}
	deviates := func(l *ladder) string {
		what, more := l.deviates(b, 2)
		return fmt.Sprintf("%s, more %t, repair %t", what, more, l.needRepair)
	}
	retry := "effects deviate, more true, repair false"
	repair := "effects deviate again, more true, repair true"
	end := "excluded from effect consensus, more false, repair false"
	for _, c := range []struct {
		name string
		l    ladder
		want []string
	}{
		{"retry, two repairs, excluded", ladder{number: 7}, []string{retry, repair, repair, end}},
		{"nothing is to be repaired before block 1", ladder{number: 1}, []string{retry, end}},
		{"a deviation is told once", ladder{number: 7, deviated: true}, []string{"effects deviate again, more true, repair false", repair}},
	} {
		l := c.l
		for i, want := range c.want {
			if got := deviates(&l); got != want {
				t.Errorf("%s: %d: %s, want %s", c.name, i, got, want)
			}
			if l.needRepair {
				l.by = 3
				l.repaired(backend.Rows, 1)
			}
		}
	}

	for _, c := range []struct {
		name   string
		number uint64
		own    *ballot
		repair bool
		found  wire.Hash
	}{
		{"said nothing", 7, nil, true, wire.Hash{}},
		{"voted on effects", 7, &ballot{hash: a, known: true}, true, a},
		{"voted before a restart", 7, &ballot{hash: a}, true, wire.Hash{}},
		{"was stuck", 7, &ballot{vote: wire.EffectVote{Kind: wire.VoteStuck}}, false, wire.Hash{}},
		{"block 1", 1, &ballot{hash: a, known: true}, false, a},
	} {
		l := ladder{number: c.number, step: repaired, deviated: true}
		l.round(c.own)
		if l.needRepair != c.repair || l.found != c.found || l.step != untried || l.deviated {
			t.Errorf("a further round of one that %s: %+v", c.name, l)
		}
		if l.recovers(c.number) != c.repair || l.recovers(c.number+1) {
			t.Errorf("one that %s recovers: %t", c.name, l.recovers(c.number))
		}
	}

	for _, c := range []struct {
		name string
		l    ladder
		want string
	}{
		{"did not deviate", ladder{number: 7}, ""},
		{"another block", ladder{number: 6, rows: 1}, ""},
		{"found what is certified", ladder{number: 7, deviated: true, found: a}, ""},
		{"retried", ladder{number: 7, deviated: true, found: b, sinceMS: 10}, "retry"},
		{"repaired", ladder{number: 7, rows: 2, helped: backend.State, sinceMS: 10}, "state"},
	} {
		r, deviated := c.l.cure(7, a, 15)
		if deviated != (c.want != "") || r.CuredBy != c.want || deviated && (r.TookMS != 5 || r.Expected != a || r.Found != c.l.found) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func TestWhatNoStepCuresIsLeftAlone(t *testing.T) {
	f := finding{climb: climb{by: 4, unhelped: 2, why: "gone"}}
	if !f.due(0) {
		t.Error("the first attempt waits")
	}
	for round, pause := range []int64{60_000, 120_000, 240_000, 480_000, 960_000, 1_920_000, 3_600_000, 3_600_000} {
		f.climb = climb{by: 4, unhelped: 2, why: "gone"}
		why, first := f.uncured(1_000)
		if why != "gone" || first != (round == 0) || f.climb != (climb{}) || f.due(999+pause) || !f.due(1_000+pause) {
			t.Errorf("round %d: %q %t %+v", round, why, first, f)
		}
	}
}

func TestBlocksOfThePastTakeTurns(t *testing.T) {
	var p past
	next := func(nowMS int64, certified uint64) uint64 {
		n, due := p.next(nowMS, []uint64{3, 5}, certified)
		if !due {
			return 0
		}
		return n
	}
	if _, due := p.next(0, nil, 9); due {
		t.Error("none is kept falsely")
	}
	if got := next(0, 2); got != 0 {
		t.Errorf("%d is asked for before it is certified", got)
	}
	for round, want := range []uint64{3, 5, 3, 5} {
		now := p.afterMS
		if got := next(now, 9); got != want {
			t.Errorf("round %d: %d, want %d", round, got, want)
		}
		if p.untold(now) != (round == 0) || next(now+(1_000<<round)-1, 9) != 0 || next(now+1_000<<round, 9) == 0 {
			t.Errorf("round %d: %+v", round, p)
		}
	}
	if p.told(); p != (past{}) {
		t.Errorf("told: %+v", p)
	}
	for tookMS, want := range map[int64]int64{0: 1_050, 10: 1_050, 100: 1_300} {
		if p.leaves(1_000, tookMS); p.turnMS != want {
			t.Errorf("after %d ms until %d, want %d", tookMS, p.turnMS, want)
		}
	}
}
