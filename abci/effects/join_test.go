package effects

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
)

// A database without blocks, whose node has no first block, is filled by another organisation. The
// core asks again while nobody helps, and goes on where the database then stands.
func TestAnEmptyDatabaseJoins(t *testing.T) {
	core, err := NewCore(Config{Organisation: "a"})
	must.Do(t, err)
	now := int64(1)
	step := func(e Event, wantSuffix string) {
		t.Helper()
		var got []string
		for _, a := range core.Step(now, e) {
			if _, report := a.(Report); !report {
				got = append(got, fmt.Sprintf("%T%+v", a, a))
			}
		}
		if s := strings.Join(got, " "); !strings.HasSuffix(s, wantSuffix) || (wantSuffix == "") != (s == "") {
			t.Fatalf("after %T: %q, want %q", e, s, wantSuffix)
		}
	}
	step(Started{Ordered: 40, Certified: 40}, "ReadPosition{}")
	step(DatabaseAt{}, "FetchOrdered{Number:1}")
	step(Fetched{Number: 1, Failure: Gone}, "Join{}")
	step(Joined{Failure: NoHelp, Why: "nobody"}, "")
	if why := core.joining.reason(); !strings.Contains(why, "nobody") || core.State() != "catching_up" {
		t.Errorf("%s, because %s", core.State(), why)
	}
	now = core.DeadlineMS()
	step(Tick{}, "Join{}")
	step(Joined{Failure: BeyondRepair}, "")
	now = core.DeadlineMS()
	step(Tick{}, "Join{}")
	step(Joined{Failure: Unavailable}, "") // the connection was lost
	now = core.DeadlineMS()
	step(Tick{}, "ReadPosition{}")
	step(DatabaseAt{}, "Join{}")
	step(Joined{}, "ReadPosition{}")
	step(DatabaseAt{Position: backend.Position{Number: 40, Certified: 40}}, "FetchOrdered{Number:40}")
	if core.joining.wanted {
		t.Error("it would join again")
	}
}

// Status tells how far a table is while it is taken over, and the reason of the attempt before once
// it ended.
func TestStatusTellsHowManyRowsAreTakenOver(t *testing.T) {
	core, err := NewCore(Config{Organisation: "a"})
	must.Do(t, err)
	core.joining = joining{wanted: true, why: "nobody"}
	s := &Shell{core: core, log: slog.New(slog.DiscardHandler)}
	s.takes("public.t", 5, 9)
	s.takes("public.t", 7, 9)
	if why := s.Status().Reason; !strings.Contains(why, `7 of 9 rows of table "public.t"`) {
		t.Error(why)
	}
	s.takes("", 0, 0)
	if why := s.Status().Reason; !strings.Contains(why, "nobody") {
		t.Error(why)
	}
}

// An organisation that tells nothing, such as one with another engine, does not hide what is
// missing in this database, whichever is asked first.
func TestTheReasonOfJoiningIsAnObstacleHere(t *testing.T) {
	silent, other := fmt.Errorf("%w: refused", backend.ErrNoHelp), fmt.Errorf("%w: busy", backend.ErrNoHelp)
	missing := fmt.Errorf("join: %w", &backend.Obstacle{Why: "it does not exist", Err: errors.New("step")})
	for _, asked := range [][2]error{{silent, missing}, {missing, silent}, {nil, missing}, {missing, nil}} {
		if got := plainer(asked[0], asked[1]); got != missing {
			t.Errorf("%v: %v", asked, got)
		}
	}
	if got := plainer(silent, other); got != silent {
		t.Errorf("of two that do not help: %v", got)
	}
}
