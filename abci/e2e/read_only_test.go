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

// An alarm about a full disk makes all transactions of one organisation's server read-only by
// default. Its database has other defaults that would fail or end sessions. They reach no block,
// neither by a reload nor by a new connection after the server was killed. The organisation votes
// and goes on, and accuses nobody.
func TestDefaultsOfAServerReachNoBlock(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	good, away, odd := net.Organisations[0], net.Organisations[1], net.Organisations[3]
	deposits(ctx, t, good, 2)
	caughtUp(ctx, t, net, odd)

	must(t, odd.SetSystem(ctx, catchUpLimit, "default_transaction_read_only", "on"))
	withItsVote(ctx, t, net, good, away, odd)

	for setting, value := range map[string]string{
		"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on", "exit_on_error": "on", "lock_timeout": "1",
		"statement_timeout": "1", "idle_in_transaction_session_timeout": "1", "idle_session_timeout": "1", "row_security": "off", "client_encoding": "LATIN1",
	} {
		must(t, odd.Exec(ctx, "postgres", fmt.Sprintf("SET transaction_read_only = off; ALTER ROLE chainify_login IN DATABASE %s SET %s = %s", database, setting, value)))
	}
	votesAfterRestarts(ctx, t, net, good, away, odd)

	must(t, odd.SetSystem(ctx, catchUpLimit, "default_transaction_read_only", ""))
	deposits(ctx, t, good, 1)
	caughtUp(ctx, t, net, odd)
	state(ctx, t, odd, "serving")
	var failed, deviations int
	must(t, odd.Scan(ctx, "SELECT (SELECT count(*) FROM chainify.transactions WHERE NOT outcome), (SELECT count(*) FROM chainify.deviations)", &failed, &deviations))
	if failed > 0 || deviations > 0 {
		t.Errorf("%d transactions failed, and there were %d deviations", failed, deviations)
	}
	saysNothingOf(t, net, odd, "told what is false", "effects deviate", "read-only transaction", "excluded")
	checkSameTransactions(ctx, t, net)
}

// saysNothingOf looks into the log of an organisation's node.
func saysNothingOf(t *testing.T, net *harness.Network, o *harness.Organisation, accusations ...string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(net.Dir, o.Name, "node.log"))
	must(t, err)
	for _, accusation := range accusations {
		if strings.Contains(string(log), accusation) {
			t.Errorf("the log says %q", accusation)
		}
	}
}

// votesAfterRestarts kills the server of an organisation while others go on, and then restarts its
// node.
func votesAfterRestarts(ctx context.Context, t *testing.T, net *harness.Network, good, away, odd *harness.Organisation) {
	t.Helper()
	must(t, odd.Cluster.StopNow())
	deposits(ctx, t, good, 2)
	must(t, odd.Cluster.Start(ctx))
	caughtUp(ctx, t, net, odd)
	withItsVote(ctx, t, net, good, away, odd)
	must(t, odd.StopNode())
	must(t, odd.StartNode())
	withItsVote(ctx, t, net, good, away, odd)
}

// withItsVote has a block certified with the vote of an organisation: one of the four is away, and
// three are needed.
func withItsVote(ctx context.Context, t *testing.T, net *harness.Network, good, away, needed *harness.Organisation) {
	t.Helper()
	must(t, away.StopNode())
	deposits(ctx, t, good, 3)
	must(t, away.StartNode())
	caughtUp(ctx, t, net, away)
	caughtUp(ctx, t, net, needed)
}
