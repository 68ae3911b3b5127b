package effects

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/seeded"
)

func TestWhoWasOfNoHelpIsAskedLast(t *testing.T) {
	seed := seeded.Seed(t)
	asking := newAskingOrder(seed)
	nodes := []string{"a", "b", "c", "d"}
	firsts := map[string]int{}
	for range 200 {
		order := asking.order(nodes)
		firsts[order[0]]++
		if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, nodes) {
			t.Fatalf("seed %d: %v", seed, order)
		}
	}
	if got := slices.Sorted(maps.Keys(firsts)); !slices.Equal(got, nodes) {
		t.Errorf("seed %d: asked first: %v", seed, firsts)
	}
	asking.wasNoHelp("c")
	asking.wasNoHelp("a")
	asking.wasNoHelp("c")
	for range 20 {
		if order := asking.order(nodes); !slices.Equal(order[2:], []string{"a", "c"}) {
			t.Errorf("seed %d: those of no help are not last: %v", seed, order)
		}
	}
	for i := range askedKept {
		asking.wasNoHelp(fmt.Sprint(i))
	}
	if _, known := asking.noHelp["c"]; known || len(asking.noHelp) != askedKept {
		t.Errorf("%d are known, the oldest too: %t", len(asking.noHelp), known)
	}
}

func TestWhatBecomesOfAnInquiry(t *testing.T) {
	lost := errors.New("connection lost")
	for _, c := range []struct {
		name     string
		past     bool
		answers  []error
		verdicts []verdict
		liars    string
		ended    error
	}{
		{"nobody is there", false, nil, nil, "[]", backend.ErrNoHelp},
		{"the first helps", false, []error{nil}, []verdict{enough}, "[]", nil},
		{"the second helps", false, []error{backend.ErrNoHelp, nil}, []verdict{next, enough}, "[]", nil},
		{"rows of no use", false, []error{backend.ErrBeyondRepair}, []verdict{next}, "[]", backend.ErrBeyondRepair},
		{"rows of no use, as another shows", false, []error{backend.ErrBeyondRepair, nil}, []verdict{next, enough}, "[o0]", nil},
		{"a lie is no reason to go further", false, []error{fmt.Errorf("row: %w", backend.ErrFalse)}, []verdict{lied}, "[]", backend.ErrNoHelp},
		{"a block that does not fit, as another shows", true, []error{backend.ErrBeyondRepair, backend.ErrFalse, backend.ErrUnfit, nil}, []verdict{next, lied, next, enough}, "[o0 o2]", nil},
		{"no block fits: the fault may be here", true, []error{backend.ErrUnfit, backend.ErrBeyondRepair}, []verdict{next, next}, "[]", backend.ErrNoHelp},
		{"no rows fit: the fault may be here", false, []error{backend.ErrUnfit, backend.ErrUnfit}, []verdict{next, next}, "[]", backend.ErrNoHelp},
		{"the database is lost in the middle", true, []error{backend.ErrUnfit, lost}, []verdict{next, broken}, "[]", backend.ErrNoHelp},
		{"a local error beside a proof names nobody", false, []error{fmt.Errorf("%w: %w", backend.ErrFalse, &fs.PathError{Op: "write", Err: syscall.ENOSPC})}, []verdict{broken}, "[]", backend.ErrNoHelp},
		{"the database is lost", false, []error{backend.ErrNoHelp, lost}, []verdict{next, broken}, "[]", backend.ErrNoHelp},
	} {
		q := inquiry{past: c.past}
		for i, answer := range c.answers {
			if got := q.answered(fmt.Sprintf("o%d", i), answer); got != c.verdicts[i] {
				t.Errorf("%s: answer %d: %d, want %d", c.name, i, got, c.verdicts[i])
			}
		}
		liars, err := q.ended()
		if fmt.Sprint(liars) != c.liars || !errors.Is(err, c.ended) {
			t.Errorf("%s: liars %v, %v", c.name, liars, err)
		}
	}
}
