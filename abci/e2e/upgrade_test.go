package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	heightsToVersion = 300 // from the change to the next version of the protocol, in order blocks
	exitNewer        = 4   // of a node that does not know the version of the protocol
	blocksMeanwhile  = 3   // that the others commit at least while one is away
	pollProgress     = 10 * time.Millisecond

	// pauseMost bounds the time in which the others commit no block while one is upgraded. It is
	// below the time of a restart, six seconds, and many times the wait for a proposer that is
	// away.
	pauseMost = 5 * time.Second
)

// Four organisations under load get the next release one after the other: real programs, of which
// the next knows a version of the protocol more, and real databases. Three approve that version.
// The fourth stops before it, gets the release and catches up. The others go on meanwhile, nothing
// answered is lost, and the next release verifies a receipt of version 1. The extension has no
// synthetic version, so version 2 is tested elsewhere: certificates by
// TestFourOrganisationsAreUpgradedOneByOne, receipts by TestReceiptsOfBothVersionsHold.
func TestAnUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, 2*testLimit)
	net := newNetwork(ctx, t)
	next := nextRelease(ctx, t)
	acme, late := net.Organisations[0], net.Organisations[3]
	load := startClients(ctx, net, 2)
	load.more(ctx, t, 50)
	before := receiptOfLast(ctx, t, acme)
	for _, o := range net.Organisations[:3] {
		upgrade(ctx, t, net, o, next)
		load.more(ctx, t, 20)
	}
	var height uint64
	must(t, acme.Scan(ctx, "SELECT max(order_height) FROM chainify.ledger", &height))
	approve(ctx, t, net.Organisations[:3], acme, "governance", "propose", "--protocol-version", "2", "--from-height", fmt.Sprint(height+heightsToVersion))
	must(t, harness.Poll(ctx, progressLimit, "the end of the node that does not know version 2", func(context.Context) (bool, string, error) {
		code, ended := late.NodeExit()
		return ended && code == exitNewer, fmt.Sprintf("ended %t with exit code %d", ended, code), nil
	}))
	others := net.Organisations[:3]
	load.more(ctx, t, 50)
	must(t, late.Use(next))
	must(t, late.StartNode())
	must(t, late.WaitServing(ctx, readyLimit))
	caughtUp(ctx, t, net, late)
	load.more(ctx, t, 20)
	answered := load.stop()
	waitSame(ctx, t, others, 1)
	caughtUp(ctx, t, net, late)
	allThere(ctx, t, net, answered)
	checkSameTransactions(ctx, t, net)
	holds(ctx, t, next, "verify-receipt", file(t, before), "--genesis", filepath.Join(acme.Home(), "config", "genesis.json"))
}

// heightsToWithdrawn are from the change to the version that is withdrawn, in order blocks.
const heightsToWithdrawn = 60

// Three of four organisations approve the next version of the protocol, and the fourth does not
// know it. All see that before the version comes into force, also while the fourth is away. One
// organisation alone does not withdraw the version. The fourth does together with one of those that
// approved it. Order goes on beyond the version's height, with the fourth and its program.
func TestAVersionIsWithdrawnBeforeItComesIntoForce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	next := nextRelease(ctx, t)
	acme, late := net.Organisations[0], net.Organisations[3]
	for _, o := range net.Organisations[:3] {
		must(t, o.StopNode())
		must(t, o.Use(next))
		must(t, o.StartNode())
		must(t, o.WaitServing(ctx, readyLimit))
	}
	deposits(ctx, t, late, 3)
	var height uint64
	must(t, acme.Scan(ctx, "SELECT max(order_height) FROM chainify.ledger", &height))
	height += heightsToWithdrawn
	approve(ctx, t, net.Organisations[:3], acme, "governance", "propose", "--protocol-version", "2", "--from-height", fmt.Sprint(height))
	inForce(ctx, t, net, governanceStatus{Waiting: true}) // and no transaction makes an order block
	announced := fmt.Sprintf("version 2 of the protocol comes into force at height %d", height)
	for _, o := range net.Organisations[:3] {
		statusSays(ctx, t, o, announced+", and the program of "+late.Name+" knows versions up to 1")
	}
	statusSays(ctx, t, late, announced+", and this program knows versions up to 1")
	if out, err := acme.Run(ctx, "governance", "withdraw"); err != nil {
		t.Error(out, err)
	} else if out, err = late.Run(ctx, "governance", "sign", file(t, out)); err != nil {
		t.Error(out, err)
	} else if out, err = acme.Run(ctx, "governance", "submit", file(t, out)); err == nil {
		t.Errorf("one organisation withdraws a version: %s", out)
	}
	must(t, late.StopNode())
	statusSays(ctx, t, acme, announced+", and these were not heard to know it: "+late.Name)
	must(t, late.StartNode())
	must(t, late.WaitServing(ctx, readyLimit))
	approve(ctx, t, net.Organisations[2:], acme, "governance", "withdraw")
	inForce(ctx, t, net, governanceStatus{Changes: 2})
	for passed := uint64(0); passed <= height+blocksMeanwhile; {
		deposits(ctx, t, late, 5)
		must(t, late.Scan(ctx, "SELECT max(order_height) FROM chainify.ledger", &passed))
	}
	for _, o := range net.Organisations {
		out, err := o.Run(ctx, "status")
		if err != nil || strings.Contains(out, "version 2 of the protocol") {
			t.Errorf("%s after the version's height: %v\n%s", o.Name, err, out)
		}
		deposits(ctx, t, o, 1)
	}
	_, err := harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	checkSameTransactions(ctx, t, net)
}

// statusSays waits until an organisation's status says so.
func statusSays(ctx context.Context, t *testing.T, o *harness.Organisation, want string) {
	t.Helper()
	must(t, harness.Poll(ctx, progressLimit, fmt.Sprintf("%s at %s", want, o.Name), func(ctx context.Context) (bool, string, error) {
		out, _ := o.Run(ctx, "status") // which fails where something is wrong
		return strings.Contains(out, want), out, nil
	}))
}

// nextRelease builds the program with the synthetic next version of the protocol.
func nextRelease(ctx context.Context, t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "chainify-next")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "synthetic_next", "-o", program, "../cmd/chainify")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next release: %v\n%s", err, out)
	}
	return program
}

// upgrade gives one organisation's node another program. The others commit blocks while it is away.
// The longest time in which they committed none is bounded; the log tells it, and how long the node
// was away.
func upgrade(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, program string) {
	t.Helper()
	other := others(net, o)[0]
	began := time.Now()
	must(t, o.StopNode())
	must(t, o.Use(program))
	pause := longestPause(ctx, t, other, func() {
		tip, err := other.Tip(ctx)
		must(t, err)
		reaches(ctx, t, other, tip.Number+blocksMeanwhile, progressLimit)
		must(t, o.StartNode())
		must(t, o.WaitServing(ctx, readyLimit))
		caughtUp(ctx, t, net, o)
	})
	t.Logf("%s was away for %s; the others' longest time without a block was %s", o.Name, time.Since(began).Round(pollProgress), pause.Round(pollProgress))
	if pause > pauseMost {
		t.Errorf("while %s was away the others committed no block for %s, want at most %s", o.Name, pause, pauseMost)
	}
}

// longestPause is the longest time in which an organisation committed no block while work ran.
func longestPause(ctx context.Context, t *testing.T, o *harness.Organisation, work func()) time.Duration {
	t.Helper()
	watching, end := context.WithCancel(ctx)
	longest := make(chan time.Duration)
	go func() {
		var most time.Duration
		var last uint64
		since := time.Now()
		for watching.Err() == nil {
			if tip, err := o.Tip(watching); err == nil && tip.Number > last {
				most, last, since = max(most, time.Since(since)), tip.Number, time.Now()
			}
			select {
			case <-watching.Done():
			case <-time.After(pollProgress):
			}
		}
		longest <- max(most, time.Since(since))
	}()
	work()
	end()
	return <-longest
}

// receiptOfLast is the receipt of the last transaction that succeeded in a certified block.
func receiptOfLast(ctx context.Context, t *testing.T, o *harness.Organisation) (receipt string) {
	t.Helper()
	must(t, o.Scan(ctx, "SELECT chainify.receipt(id)::text FROM chainify.transactions JOIN chainify.ledger ON number = block WHERE outcome AND certified ORDER BY block DESC, index LIMIT 1", &receipt))
	return receipt
}
