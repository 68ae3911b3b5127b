package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// leftFree are the bytes that a take-over finds on the disk of the standby's home, one after the
// other, until it succeeds: the disk gets full at each of its steps.
const leftFree = 4096

// The disk of a standby's home is full before, at and after a take-over, and then that of the
// database. Each time the operator frees it, and repeats what failed. Nothing is half done, and
// nobody signs twice.
func TestFullDisksAtATakeOver(t *testing.T) {
	if os.Getenv("CHAINIFY_DRILLS") == "" {
		t.Skip("takes minutes: run by make soak (CHAINIFY_DRILLS=1)")
	}
	if !isolated(t) {
		return
	}
	ctx := underTest(t)
	net := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, SmallDatabases: []string{"acme"}})
	acme := net.Organisations[0]
	load := startClients(ctx, net, 1)
	defer load.stop()

	spare := smallSpare(ctx, t, acme)
	must(t, spare.FillHome(0))
	endsWithFullDisk(ctx, t, spare)
	must(t, spare.FreeHome())
	must(t, spare.StartNode())
	hasOrder(ctx, t, spare, &acme.Node, 1, 5)
	copied, err := acme.LoseNode()
	must(t, err)
	must(t, spare.StopNode())
	takesOverOnAFullDisk(ctx, t, spare, copied)

	must(t, spare.FillHome(0)) // the node that takes over meets it at its start
	must(t, acme.Succeed(ctx, spare))
	endsWithFullDisk(ctx, t, &acme.Node)
	must(t, acme.FreeHome())
	must(t, acme.StartNode())
	signs(ctx, t, acme)
	must(t, acme.FillHome(64<<10)) // and under way
	endsWithFullDisk(ctx, t, &acme.Node)
	must(t, acme.FreeHome())
	must(t, acme.StartNode())
	goesOn(ctx, t, net, load)

	// The database's disk is full at the next take-over, and again once the node has begun to work.
	spare, err = acme.AddSpare(ctx)
	must(t, err)
	hasOrder(ctx, t, spare, &acme.Node, 1, 5)
	copied = filepath.Join(net.Dir, spare.Name, "backup")
	must(t, os.CopyFS(filepath.Join(copied, "config"), os.DirFS(filepath.Join(acme.Home(), "config"))))
	lost := acme.Leave()
	lost.KillNode()
	must(t, acme.FillDatabase())
	must(t, spare.StopNode())
	_, err = spare.Run(ctx, "take-over", "--from", copied)
	must(t, err)
	must(t, acme.StartAs(spare))
	saysFullDatabase(ctx, t, acme)
	freesDatabase(ctx, t, acme)
	must(t, acme.TellSocket(ctx))
	goesOn(ctx, t, net, load)
	must(t, acme.FillDatabase())
	saysFullDatabase(ctx, t, acme)
	freesDatabase(ctx, t, acme)
	goesOn(ctx, t, net, load)

	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	allThere(ctx, t, net, answered)
	nothingIsFound(ctx, t, net)
	must(t, net.Close())
	nobodySignedTwice(t, net)
}

// smallSpare makes a standby whose home is on a small disk.
func smallSpare(ctx context.Context, t *testing.T, o *harness.Organisation) *harness.Node {
	t.Helper()
	spare, err := o.AddSpare(ctx)
	must(t, err)
	must(t, spare.StopNode())
	must(t, spare.TakeSmallDisk(ctx))
	must(t, spare.StartNode())
	hasOrder(ctx, t, spare, &o.Node, 1, 5)
	return spare
}

// endsWithFullDisk waits until a node has ended, and has said which disk is full.
func endsWithFullDisk(ctx context.Context, t *testing.T, n *harness.Node) {
	t.Helper()
	must(t, harness.Poll(ctx, takeOverLimit, "the node ends", func(context.Context) (bool, string, error) {
		return !n.NodeRunning(), n.NodeTail(3), nil
	}))
	if log := n.NodeTail(50); !strings.Contains(log, "no space left on device") || !strings.Contains(log, n.Home()) {
		t.Errorf("the log of the node does not name the full disk:\n%s", log)
	}
}

// takesOverOnAFullDisk calls take-over while more and more of the disk is free, until it succeeds.
func takesOverOnAFullDisk(ctx context.Context, t *testing.T, spare *harness.Node, copied string) {
	t.Helper()
	for free := int64(0); ; free += leftFree {
		must(t, spare.FillHome(free))
		out, err := spare.Run(ctx, "take-over", "--from", copied)
		must(t, spare.FreeHome())
		if err == nil {
			t.Logf("take-over succeeds with %d bytes", free)
			return
		}
		if !strings.Contains(out, "the disk of "+spare.Home()+" is full") || !strings.Contains(out, "free some of the disk, then call take-over again") {
			t.Fatalf("with %d bytes free: %v", free, err)
		}
		if standby, err := config.Home(spare.Home()).Standby(); !standby || err != nil {
			t.Fatalf("with %d bytes free take-over fails, and the home is no standby's any more: %v", free, err)
		}
	}
}

// saysFullDatabase waits until the node, or the end of its server, says that the disk is full.
func saysFullDatabase(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, takeOverLimit, "the database's disk is full", func(ctx context.Context) (bool, string, error) {
		text, _ := o.Run(ctx, "status")
		return strings.Contains(text, "No space left on device"), text, nil
	}))
}

// freesDatabase frees the disk, and starts the server where it ended, as a service manager does.
func freesDatabase(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, o.FreeDatabase())
	if !o.Cluster.Running() {
		must(t, o.Cluster.Start(ctx))
	}
}

// goesOn waits until the first organisation signs and serves, its votes count, and clients are
// answered.
func goesOn(ctx context.Context, t *testing.T, net *harness.Network, load *clients) {
	t.Helper()
	acme := net.Organisations[0]
	must(t, acme.WaitServing(ctx, takeOverLimit))
	signs(ctx, t, acme)
	itsVotesCount(ctx, t, net)
	load.more(ctx, t, 20)
	t.Logf("acme goes on at %s", fmt.Sprint(heightOf(ctx, &acme.Node)))
}
