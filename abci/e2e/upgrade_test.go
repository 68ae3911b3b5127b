package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
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
