package node

import (
	"context"
	"errors"
	"testing"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
)

// An organisation that cannot show its rows any more gets them from another, over CometBFT's
// connections.
func TestRowsComeFromAnotherOrganisation(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	odd := nodes[3].db
	execute(t, clients[0], "UPDATE t SET x = 1")
	eventually(t, patience, "all have the block", func() bool { return len(odd.Hashes()) == 1 })
	odd.TamperHistory("a row")
	execute(t, clients[0], "UPDATE t SET x = 2")
	eventually(t, patience, "cured", func() bool { return len(odd.Deviations()) == 1 })
	if got := odd.Deviations()[0]; got != "state" {
		t.Fatalf("cured by %q", got)
	}
	if got, want := odd.Hashes(), nodes[0].db.Hashes(); len(got) != 2 || got[1] != want[1] {
		t.Fatalf("committed %x, want %x", got, want)
	}
}

func TestExcludedOrganisationRejoinsWhenTold(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	for _, r := range nodes {
		r.start()
	}
	c, odd := nodes[0].dial(), nodes[3]
	atOdd := odd.dial()
	eventually(t, patience, "serving with three peers", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && s.State == "serving" && s.Peers == 3
	})
	execute(t, c, "UPDATE t SET x = 1")
	eventually(t, patience, "all have the block", func() bool { return len(odd.db.Hashes()) == 1 })
	odd.db.TamperAll("a row")
	execute(t, c, "UPDATE t SET x = 2")
	state := func() string {
		s, err := atOdd.Status(context.Background())
		must.Do(t, err)
		return s.State
	}
	eventually(t, patience, "excluded", func() bool { return state() == "excluded" })
	odd.stop()
	odd.db.RestoreHistory()
	odd.start() // a restart is not the operator's word
	atOdd = odd.dial()
	eventually(t, patience, "still excluded", func() bool {
		s, err := atOdd.Status(context.Background())
		return err == nil && s.State == "excluded" && s.Reason != "" && s.LastCommitted == 1
	})
	must.Do(t, atOdd.Rejoin(context.Background()))
	eventually(t, patience, "serving again", func() bool { return state() == "serving" && len(odd.db.Hashes()) == 2 })
	var refused *gateway.Error
	if err := atOdd.Rejoin(context.Background()); !errors.As(err, &refused) || refused.SQLState != gateway.StateRefused {
		t.Fatalf("rejoining without an exclusion: %v", err)
	}
	odd.stop()
	odd.start()
	atOdd = odd.dial()
	eventually(t, patience, "serving after a restart", func() bool { return state() == "serving" })
}
