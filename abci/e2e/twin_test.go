package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// copyKeys makes a copy of a node's keys, as an operator has one under lock and key.
func copyKeys(t *testing.T, net *harness.Network, o *harness.Organisation) (copied string) {
	t.Helper()
	copied = filepath.Join(net.Dir, o.Name, "backup")
	must(t, os.CopyFS(filepath.Join(copied, "config"), os.DirFS(filepath.Join(o.Home(), "config"))))
	return copied
}

// A volume is lost, and the node starts with its key alone, while it is needed for the next order
// block: it signs nothing there. When the others go on it comes back, and nobody signed twice.
func TestALostVolumeSignsNothingTwice(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt, delta := net.Organisations[0], net.Organisations[1], net.Organisations[3]
	deposits(ctx, t, bolt, 5)
	waitSame(ctx, t, net.Organisations, 1)
	must(t, acme.StopNode())
	must(t, delta.StopNode())
	must(t, acme.LoseData())
	load := startClients(ctx, net, 1)
	defer load.stop()
	must(t, acme.StartNode())
	must(t, harness.Poll(ctx, takeOverLimit, "acme says that it signs nothing", func(ctx context.Context) (bool, string, error) {
		text, _ := acme.Run(ctx, "status")
		return strings.Contains(text, "signs nothing yet") && strings.Contains(text, "delta") && heightOf(ctx, &acme.Node)+2 > heightOf(ctx, &bolt.Node), text, nil
	}))
	before := heightOf(ctx, &bolt.Node)

	must(t, delta.StartNode())
	must(t, harness.Poll(ctx, takeOverLimit, "acme signs", func(ctx context.Context) (bool, string, error) {
		text, err := acme.Run(ctx, "status") // fails while the node is behind for a moment
		return err == nil && !strings.Contains(text, "signs nothing yet"), fmt.Sprintf("%v\n%s", err, text), nil
	}))
	if h := heightOf(ctx, &acme.Node); h <= before {
		t.Errorf("acme signs at height %d, and may have signed up to %d before", h, before+1)
	}
	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	allThere(ctx, t, net, answered)
	if log := acme.NodeTail(10_000); strings.Contains(log, "conflicting vote from ourselves") {
		t.Error("CometBFT found a vote of acme that contradicts its own")
	}
	must(t, bolt.StopNode()) // three of four are needed: acme's votes count
	deposits(ctx, t, delta, 2)
}

// A node is paused, its standby takes over with a backup of the keys, and the first goes on. At
// least one of the two stops for good, and says so after a restart, too.
func TestAPausedTwinStops(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisations[0], net.Organisations[1]
	spare, err := acme.AddSpare(ctx)
	must(t, err)
	deposits(ctx, t, bolt, 3)
	hasOrder(ctx, t, spare, &acme.Node, 1, 2)
	copied := copyKeys(t, net, acme)
	must(t, acme.PauseNode())
	must(t, spare.StopNode())
	_, err = spare.Run(ctx, "take-over", "--from", copied)
	must(t, err)
	must(t, spare.StartNode())
	conn := patient(ctx, t, bolt)
	defer conn.Close(ctx)
	goOn := func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')")
		return err
	}
	must(t, harness.Poll(ctx, takeOverLimit, "the standby signs", func(ctx context.Context) (bool, string, error) {
		text, _ := spare.Run(ctx, "status") // it waits for the database, which the paused node holds
		return strings.Contains(text, "chain ") && !strings.Contains(text, "signs nothing yet"), text, goOn(ctx)
	}))
	for range 3 {
		must(t, goOn(ctx))
	}

	must(t, acme.ResumeNode())
	var stopped *harness.Node
	must(t, harness.Poll(ctx, takeOverLimit, "one of the two has stopped", func(ctx context.Context) (bool, string, error) {
		for _, n := range []*harness.Node{&acme.Node, spare} {
			kept, err := config.Home(n.Home()).Signing()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, "", err
			}
			if kept.Elsewhere != nil {
				t.Logf("%s stopped by block %d", n.Name, kept.Elsewhere.Height)
				stopped = n
			}
		}
		return stopped != nil, "neither", goOn(ctx)
	}))
	evidence, err := bolt.Run(ctx, "evidence")
	t.Logf("evidence: %v\n%s", err, evidence)
	must(t, stopped.StopNode())
	must(t, stopped.StartNode())
	must(t, harness.Poll(ctx, catchUpLimit, "it says so after a restart", func(ctx context.Context) (bool, string, error) {
		text, err := stopped.Run(ctx, "status")
		return err != nil && strings.Contains(text+err.Error(), "another process signs"), fmt.Sprintf("%v\n%s", err, text), nil
	}))
	out, err := stopped.Run(ctx, "doctor")
	if err == nil || !strings.Contains(out+err.Error(), "another process signs") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}
