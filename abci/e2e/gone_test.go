package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// One of four organisations is gone, killed or paused with its connections. Its turns to propose
// are not waited for, but for the first. Back, it gets its turns again, and uses them.
func TestTurnsOfAGoneOrganisationAreSkipped(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	rest, gone := net.Organisations[:3], net.Organisations[3]
	usesItsTurns(ctx, t, rest)
	for _, c := range []struct {
		name       string
		away, back func() error
	}{
		{"killed", func() error { gone.KillNode(); return nil }, gone.StartNode},
		{"paused", gone.PauseNode, gone.ResumeNode},
	} {
		before := make([]turns, len(rest))
		for i, o := range rest {
			before[i] = turnsAt(t, o)
		}
		must(t, c.away())
		deposits(ctx, t, rest[0], 40)
		for i, o := range rest {
			now := turnsAt(t, o)
			blocks, missed, skipped := now.height-before[i].height, now.missed-before[i].missed, now.skipped-before[i].skipped
			t.Logf("%s: %s made %d blocks meanwhile, missed %d turns and skipped %d", c.name, o.Name, blocks, missed, skipped)
			// Every fourth height begins with its turn, of which the first is waited for.
			if blocks < 40 || skipped < blocks/4-3 {
				t.Errorf("%s: %s skipped %d turns in %d blocks", c.name, o.Name, skipped, blocks)
			}
		}
		must(t, c.back())
		must(t, gone.WaitServing(ctx, catchUpLimit))
		usesItsTurns(ctx, t, rest)
	}
	waitSame(ctx, t, net.Organisations, 1)
	checkSameTransactions(ctx, t, net)
}

// usesItsTurns waits until every organisation proposes in its turn.
func usesItsTurns(ctx context.Context, t *testing.T, at []*harness.Organisation) {
	t.Helper()
	first := turnsAt(t, at[0]).height
	must(t, harness.Poll(ctx, catchUpLimit, "turns are used", func(ctx context.Context) (bool, string, error) {
		var before []turns
		for _, o := range at {
			before = append(before, turnsAt(t, o))
		}
		deposits(ctx, t, at[0], 8)
		for i, o := range at {
			if now := turnsAt(t, o); now.missed != before[i].missed || now.skipped != before[i].skipped {
				return false, fmt.Sprintf("at %s %+v became %+v", o.Name, before[i], now), nil
			}
		}
		t.Logf("every turn is used from block %d on, %d after the first look", before[0].height, before[0].height-first)
		return true, "", nil
	}))
}

// turns is what a node tells of turns to propose, at a height.
type turns struct{ height, missed, skipped int }

func turnsAt(t *testing.T, o *harness.Organisation) turns {
	t.Helper()
	figure := func(name string) int {
		value, err := strconv.ParseFloat(metric(t, o, name), 64)
		must(t, err)
		return int(value)
	}
	return turns{
		height:  figure("chainify_height"),
		missed:  figure(`chainify_lane_turns_total{kind="missed"}`),
		skipped: figure(`chainify_lane_turns_total{kind="skipped"}`),
	}
}
