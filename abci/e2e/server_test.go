package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// besideComet makes four organisations whose CometBFT is its own program in a process of its own.
func besideComet(ctx context.Context, t *testing.T) *harness.Network {
	t.Helper()
	comet := os.Getenv("CHAINIFY_E2E_COMETBFT")
	if comet == "" {
		comet = filepath.Join(filepath.Dir(os.Getenv("CHAINIFY_E2E_BIN")), "cometbft")
	}
	if _, err := os.Stat(comet); err != nil && os.Getenv("CHAINIFY_E2E") != "" {
		t.Fatalf("CometBFT's own program is missing, make build-cometbft makes it: %v", err)
	}
	return networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, CometBFT: comet})
}

// Four organisations with "chainify app" and CometBFT's own program execute Smallbank, and all have
// the same.
func TestCometBFTsOwnProgramOrders(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := besideComet(ctx, t)
	for _, o := range net.Organisations {
		deposits(ctx, t, o, 3)
	}
	amalgamate(ctx, t, net.Organisations[1], 20)
	must(t, net.Organisations[3].StopNode()) // three of four are needed, and live votes decide
	deposits(ctx, t, net.Organisations[0], 3)
	// The fourth comes back with CometBFT in its process, among three whose CometBFT is beside it.
	net.Organisations[3].TakeComet(true)
	must(t, net.Organisations[3].StartNode())
	caughtUp(ctx, t, net, net.Organisations[3])
	must(t, net.Organisations[3].WaitServing(ctx, readyLimit))
	deposits(ctx, t, net.Organisations[3], 3)
	must(t, net.Organisations[2].StopNode()) // its votes count
	deposits(ctx, t, net.Organisations[3], 3)
	must(t, net.Organisations[2].StartNode())
	agreeAndVerify(ctx, t, net)
}

// CometBFT, then the application, are killed under way. A service manager would start them again;
// the application stays while CometBFT comes back.
func TestEitherProcessIsKilled(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := besideComet(ctx, t)
	acme, bolt := net.Organisations[0], net.Organisations[1]
	deposits(ctx, t, acme, 2)
	app := acme.NodePID()
	for range 3 {
		must(t, acme.KillComet())
		deposits(ctx, t, bolt, 2)
		must(t, acme.StartComet())
		must(t, acme.WaitServing(ctx, readyLimit))
		deposits(ctx, t, acme, 2)
	}
	if now := acme.NodePID(); now != app || !acme.NodeRunning() {
		t.Fatalf("the application did not outlive CometBFT:\n%s", acme.NodeTail(15))
	}
	for range 3 {
		acme.KillNode() // CometBFT ends by itself
		deposits(ctx, t, bolt, 2)
		must(t, acme.StartNode())
		must(t, acme.WaitServing(ctx, readyLimit))
		deposits(ctx, t, acme, 2)
	}
	agreeAndVerify(ctx, t, net)
}

// CometBFT is killed in the middle of heights that do not end, since two organisations are away. It
// loses its own log, and asks for signatures again. Nobody gets evidence against its organisation.
func TestACometBFTThatEndsInAHeightSignsNothingTwice(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := besideComet(ctx, t)
	acme := net.Organisations[0]
	ordersAgain := func() { // a node refuses at once while it takes the order for one that stands still
		for _, o := range net.Organisations {
			must(t, harness.Poll(ctx, catchUpLimit, o.Name+" orders", func(ctx context.Context) (bool, string, error) {
				err := o.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')")
				return err == nil, fmt.Sprint(err), nil
			}))
		}
	}
	for range 3 {
		ordersAgain()
		bank, refused := patient(ctx, t, acme), make(chan error, 1)
		go func() { // acme is in a height with transactions when the others go
			for {
				if _, err := bank.Exec(ctx, "SELECT chainify.submit('SELECT 1')"); err != nil {
					refused <- err
					return
				}
			}
		}()
		for _, o := range net.Organisations[2:] {
			must(t, o.StopNode())
		}
		if err := <-refused; !strings.Contains(err.Error(), "57P03") {
			t.Fatalf("acme goes on without half of the organisations: %v", err)
		}
		bank.Close(ctx)
		must(t, acme.KillComet())
		must(t, os.RemoveAll(filepath.Join(acme.Home(), "data", "cs.wal")))
		must(t, acme.StartComet())
		for _, o := range net.Organisations[2:] {
			must(t, o.StartNode())
		}
	}
	ordersAgain()
	for _, o := range net.Organisations {
		if out, err := o.Run(ctx, "evidence"); err != nil {
			t.Errorf("evidence at %s: %v\n%s", o.Name, err, out)
		}
	}
	agreeAndVerify(ctx, t, net)
}

// amalgamate moves all of some customers' savings to their checking accounts.
func amalgamate(ctx context.Context, t *testing.T, o *harness.Organisation, customers int) {
	t.Helper()
	for i := 1; i <= customers; i++ {
		must(t, o.Exec(ctx, "bank", fmt.Sprintf(
			"SELECT chainify.execute('UPDATE checking SET balance = balance + (SELECT balance FROM savings WHERE custid = %d) WHERE custid = %d; UPDATE savings SET balance = 0 WHERE custid = %d')", i, i, i)))
	}
}

// agreeAndVerify waits until all have the same last block, and compares what they have.
func agreeAndVerify(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}
