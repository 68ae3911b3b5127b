package signer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
)

func four() Powers { return Powers{Key: 10, Others: map[string]int64{"a": 10, "b": 10, "c": 10}} }

// A look counts once organisations with more than two thirds of all votes have reported, without
// the key's own. The highest claims beyond these do not count.
func TestReachNeedsTwoThirdsOfTheOthers(t *testing.T) {
	seven := Powers{Key: 1, Others: map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1}}
	for name, c := range map[string]struct {
		powers Powers
		look   map[string]int64
		want   int64
	}{
		"nobody":                    {four(), nil, 0},
		"two of three":              {four(), map[string]int64{"a": 7, "b": 7}, 0},
		"one that says nothing":     {four(), map[string]int64{"a": 7, "b": 7, "c": 0}, 0},
		"one without votes":         {four(), map[string]int64{"a": 7, "b": 7, "x": 7}, 0},
		"all":                       {four(), map[string]int64{"a": 7, "b": 9, "c": 8}, 9},
		"a claim beyond two thirds": {seven, map[string]int64{"a": 7, "b": 7, "c": 8, "d": 7, "e": 7, "f": 1 << 60}, 8},
		"two others cannot":         {Powers{Key: 1, Others: map[string]int64{"a": 1, "b": 1}}, map[string]int64{"a": 7, "b": 7}, 0},
		"alone":                     {Powers{Key: 1}, nil, 0},
	} {
		var r Reports
		r.Take(c.look)
		if got := r.Reach(c.powers); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	var r Reports
	r.Take(map[string]int64{"a": 5, "b": 5})
	r.Take(map[string]int64{"a": 6})
	if got := r.Missing(four()); !slices.Equal(got, []string{"c"}) {
		t.Errorf("missing: %v", got)
	}
	r.Take(map[string]int64{"c": 5})
	if got := r.Reach(four()); got != 6 {
		t.Errorf("two looks: %d, want 6", got)
	}
}

func TestTheOrderBeginsWhereNobodyIsBeyond(t *testing.T) {
	for name, c := range map[string]struct {
		powers Powers
		look   map[string]int64
		want   bool
	}{
		"alone":               {Powers{Key: 1}, nil, true},
		"one of three others": {four(), map[string]int64{"a": 1}, false},
		"two":                 {four(), map[string]int64{"a": 1, "b": 1}, true},
		"one is beyond":       {four(), map[string]int64{"a": 1, "b": 1, "c": 2}, false},
	} {
		var r Reports
		r.Take(c.look)
		if got := r.Begins(1, c.powers); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A key without its last signature waits for heights that it cannot have been used for.
func TestAKeyInDoubtWaits(t *testing.T) {
	g := NewGuard(&Last{}, true, false)
	for _, c := range []struct {
		height int64
		order  Progress
		may    bool
	}{
		{1, Progress{}, false}, {9, Progress{}, false}, {9, Progress{Reach: 9}, false}, {10, Progress{Reach: 9}, false}, {11, Progress{Reach: 9}, true}, {1, Progress{First: true}, true},
	} {
		if err := g.May(c.height, c.order); (err == nil) != c.may || err != nil && !errors.Is(err, ErrSilent) {
			t.Errorf("height %d, %+v: %v", c.height, c.order, err)
		}
	}
	g.Made(Step{11, 0, stepPrevote}, []byte("one"))
	if err := g.May(12, Progress{}); err != nil || g.Doubts() {
		t.Errorf("it knows what it signed last: %v", err)
	}
	if err := NewGuard(&Last{Height: 41, Signature: []byte("x")}, false, false).May(42, Progress{}); err != nil {
		t.Errorf("a key with its last signature: %v", err)
	}
	if err := NewGuard(&Last{Height: 41, Signature: []byte("x")}, true, false).May(1, Progress{First: true}); err == nil {
		t.Error("a key that signed before begins anew")
	}
}

// Signatures made here are no news, whenever they are heard. One that was made elsewhere stops the
// key, when it cannot come from a process that ended before.
func TestSignaturesMadeElsewhereStopAKey(t *testing.T) {
	order := Progress{Reach: 20}
	used := func() *Guard {
		g := NewGuard(&Last{Height: 40, Step: stepPrecommit, Signature: []byte("last")}, false, false)
		g.Made(Step{41, 0, stepPrevote}, []byte("p41"))
		g.Made(Step{41, 0, stepPrecommit}, []byte("c41"))
		return g
	}
	for name, c := range map[string]struct {
		tell func(*Guard) bool
		news bool // and the key stops
	}{
		"the last of before":        {func(g *Guard) bool { return g.Heard(Step{40, 0, stepPrecommit}, []byte("last"), order) }, false},
		"one of long before":        {func(g *Guard) bool { return g.Heard(Step{39, 0, stepPrecommit}, []byte("?"), order) }, false},
		"an own one":                {func(g *Guard) bool { return g.Heard(Step{41, 0, stepPrevote}, []byte("p41"), order) }, false},
		"another of the same step":  {func(g *Guard) bool { return g.Heard(Step{41, 0, stepPrevote}, []byte("q41"), order) }, true},
		"another of the last":       {func(g *Guard) bool { return g.Heard(Step{40, 0, stepPrecommit}, []byte("?"), order) }, true},
		"before the others report":  {func(g *Guard) bool { return g.Heard(Step{42, 0, stepPrevote}, []byte("?"), Progress{}) }, true},
		"one of a step not signed":  {func(g *Guard) bool { return g.Heard(Step{41, 1, stepPrevote}, []byte("q41"), order) }, true},
		"a decided one of here":     {func(g *Guard) bool { return g.Decided(41, order) }, false},
		"a decided one of before":   {func(g *Guard) bool { return g.Decided(40, order) }, false},
		"a decided one, not signed": {func(g *Guard) bool { return g.Decided(42, order) }, true},
		"evidence":                  {func(g *Guard) bool { return g.Twice(41, order) }, true},
		"old evidence":              {func(g *Guard) bool { return g.Twice(39, order) }, false},
	} {
		g := used()
		if got := c.tell(g); got != c.news || g.Stopped() != c.news {
			t.Errorf("%s: news %v, stopped %v", name, got, g.Stopped())
		}
		if err := g.May(99, order); errors.Is(err, ErrElsewhere) != c.news {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A restored home learns from the order that its key was used since: it waits as a key without its
// last signature does, and signs again. Heard of before the others reported, it waits for that.
func TestARestoredHomeWaitsAndSignsAgain(t *testing.T) {
	g := NewGuard(&Last{Height: 41, Step: stepPrecommit, Signature: []byte("old")}, false, false)
	if !g.Decided(57, Progress{}) || g.Stopped() {
		t.Fatal("it is to wait until the others reported")
	}
	for height, may := range map[int64]bool{58: false, 102: false, 101 + watched: false, 102 + watched: true} {
		if err := g.May(height, Progress{Reach: 100}); (err == nil) != may {
			t.Errorf("height %d: %v", height, err)
		}
	}
	g.Made(Step{110, 0, stepPrevote}, []byte("new"))
	if g.Heard(Step{101, 0, stepPrecommit}, []byte("of before"), Progress{Reach: 100}) {
		t.Error("what was signed before is news")
	}
	if !g.Heard(Step{111, 0, stepPrevote}, []byte("elsewhere"), Progress{Reach: 100}) || !g.Stopped() {
		t.Error("a process that signs now is none of before")
	}
}

// A machine comes back whose key signs elsewhere by now. It hears of that before it signs.
func TestAMachineThatComesBackStops(t *testing.T) {
	order := Progress{Reach: 100}
	g := NewGuard(&Last{Height: 41, Step: stepPrecommit, Signature: []byte("old")}, false, false)
	g.Decided(57, order)
	// Restarted, it still waits for as long.
	again := NewGuard(&Last{Height: 41, Step: stepPrecommit, Signature: []byte("old")}, true, false)
	again.Suspect()
	for _, g := range []*Guard{g, again} {
		if err := g.May(102, order); err == nil {
			t.Error("it signs at the height at which the other process may begin")
		}
		if !g.Decided(102, order) || !g.Stopped() {
			t.Error("a process that signs now is none of before")
		}
	}
}

// A signer in a process of its own knows what it signed last: what was signed before this process
// asked it is no news.
func TestAKeyOfAnotherProcess(t *testing.T) {
	g := NewGuard(nil, false, false)
	if g.Heard(Step{7, 0, stepPrevote}, []byte("?"), Progress{Reach: 3}) || g.Decided(7, Progress{Reach: 3}) {
		t.Error("nothing is known yet")
	}
	g.Made(Step{8, 1, stepPrevote}, []byte("here"))
	if g.Heard(Step{8, 0, stepPrecommit}, []byte("?"), Progress{Reach: 3}) {
		t.Error("signed before")
	}
	if !g.Heard(Step{8, 1, stepPrecommit}, []byte("?"), Progress{Reach: 3}) {
		t.Error("signed since, and not asked for here")
	}
}

// A guard remembers a bounded number of signatures, and those that it forgot are no news.
func TestAGuardForgetsOldSignatures(t *testing.T) {
	g := NewGuard(&Last{}, false, false)
	for h := int64(1); h <= 10*madeMax; h++ {
		g.Made(Step{h, 0, stepPrevote}, fmt.Append(nil, h))
		if len(g.made) > madeMax {
			t.Fatalf("%d are remembered", len(g.made))
		}
		if h%100 == 0 && (g.Heard(Step{1 + h/7, 0, stepPrevote}, fmt.Append(nil, 1+h/7), Progress{Reach: 1}) || g.Heard(Step{h, 0, stepPrevote}, fmt.Append(nil, h), Progress{Reach: 1})) {
			t.Fatalf("height %d: an own signature is news", h)
		}
	}
}

// race is an order of random members, seen from one whose node is lost at some moment. Each other
// one is at a height of its own. member 0 is the key's.
type race struct {
	t       *testing.T
	heights []int64
	signed  []map[int64]bool // precommits by height, of each member
	used    int64            // the greatest height that the lost node signed for
}

func (r *race) decided(height int64) bool {
	votes := 0
	for _, s := range r.signed {
		if s[height] {
			votes++
		}
	}
	return 3*votes > 2*len(r.heights)
}

func name(member int) string { return fmt.Sprintf("m%02d", member) }

// A node is lost at any moment, while others are ahead, lie or come late. Its key never signs again
// for a height that the lost node signed for. It signs when the others have reported and go on.
func TestAKeyInDoubtNeverSignsAHeightTwice(t *testing.T) {
	random := seeded.Random(t)
	signedAgain := 0
	for range 3000 {
		members := 1 + random.IntN(10)
		liars := (members - 1) / 3
		r := &race{t: t, heights: make([]int64, members), signed: make([]map[int64]bool, members)}
		powers := Powers{Key: 1, Others: map[string]int64{}}
		for i := range members {
			r.heights[i], r.signed[i] = 1, map[int64]bool{}
			if i > 0 {
				powers.Others[name(i)] = 1
			}
		}
		liar := func(i int) bool { return i > 0 && i <= liars }
		step := func(i int) {
			h := r.heights[i]
			if liar(i) {
				h = 1 + random.Int64N(12)
			}
			if random.IntN(3) > 0 {
				r.signed[i][h] = true
			}
			if i == 0 {
				r.used = max(r.used, h)
			}
			if r.decided(h) {
				r.heights[i] = max(r.heights[i], h+1)
			}
		}
		for range random.IntN(40 * members) {
			step(random.IntN(members))
		}
		for range random.IntN(3) { // it is often the one that is ahead
			step(0)
		}
		// The lost node's last precommits may have reached nobody; the others' are there.
		g, reports, height := NewGuard(&Last{}, true, false), Reports{}, int64(1)
		slow := random.IntN(8) // how seldom the others go on before they have reported
		for range 60 * members {
			i := random.IntN(members)
			switch {
			case i == 0 && r.decided(height):
				height++
			case i > 0 && (random.IntN(1+slow) == 0 || reports.Reach(powers) > 0):
				step(i)
			case i > 0:
				said := r.heights[i]
				if liar(i) {
					said = random.Int64N(15)
				}
				reports.Take(map[string]int64{name(i): said})
			}
			order := Progress{Reach: reports.Reach(powers)}
			if g.May(height, order) != nil {
				continue
			}
			if height <= r.used {
				t.Fatalf("%d members, %d of them liars: the key signs for height %d, and did so up to %d before; reports %v", members, liars, height, r.used, slices.Collect(maps.Values(reports.heights)))
			}
			signedAgain++
			g.Made(Step{height, 0, stepPrecommit}, []byte{1})
			r.signed[0][height] = true
		}
	}
	if signedAgain == 0 {
		t.Error("no key ever signed again")
	}
}
