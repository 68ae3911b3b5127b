package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// takeOverLimit bounds how long an organisation is away whose node's machine was lost.
const takeOverLimit = 5 * time.Minute

var heightLine = regexp.MustCompile(`(?m)^height +(\d+)$`)

// heightOf is the height of the order that a node's status tells, 0 when it tells none.
func heightOf(ctx context.Context, n *harness.Node) int64 {
	text, _ := n.Run(ctx, "status") // it fails, too, when it has a problem to tell of
	found := heightLine.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	height, _ := strconv.ParseInt(found[1], 10, 64)
	return height
}

// hasOrder waits until a standby is beyond a height, and fewer than behind order blocks after the
// organisation's node.
func hasOrder(ctx context.Context, t *testing.T, spare, node *harness.Node, beyond, behind int64) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "the standby has the order", func(ctx context.Context) (bool, string, error) {
		if !spare.NodeRunning() {
			return false, "", fmt.Errorf("it ended:\n%s", spare.NodeTail(15))
		}
		own, of := heightOf(ctx, spare), heightOf(ctx, node)
		return own > beyond && own+behind > of, fmt.Sprintf("it is at height %d of %d", own, of), nil
	}))
}

// The machine of a node is lost under load, but for a copy of its keys. Its standby takes over: the
// organisation is back within a minute, votes again, and nothing answered is lost.
func TestAStandbyNodeTakesOver(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisations[0], net.Organisations[1]
	spare, err := acme.AddSpare(ctx)
	must(t, err)
	load := startClients(ctx, net, 1)
	defer load.stop()
	hasOrder(ctx, t, spare, &acme.Node, 5, 5)

	copied, err := acme.LoseNode()
	must(t, err)
	before, err := acme.Tip(ctx)
	must(t, err)
	began := time.Now()
	must(t, acme.TakeOver(ctx, spare, copied))
	must(t, harness.Poll(ctx, takeOverLimit, "acme's next block", func(ctx context.Context) (bool, string, error) {
		now, err := acme.Tip(ctx)
		return now.Number > before.Number+1, "none yet", err
	}))
	back := time.Since(began)
	must(t, acme.WaitServing(ctx, takeOverLimit))
	signs(ctx, t, acme)
	t.Logf("acme was back after %s, and votes after %s", back, time.Since(began))
	itsVotesCount(ctx, t, net)
	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	allThere(ctx, t, net, answered)
	checkVerified(ctx, t, acme)
	checkSameTransactions(ctx, t, net)
	if out, err := bolt.Run(ctx, "evidence"); err != nil {
		t.Errorf("evidence: %v\n%s", err, out)
	}
}
