package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// An organisation lost the order blocks of its node and kept its database: it joins by a snapshot,
// and goes on where its database stands.
func TestAnOrganisationJoinsByASnapshot(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, SnapshotEvery: 10})
	good, odd := net.Organisations[0], net.Organisations[3]
	deposits(ctx, t, good, 30)
	caughtUp(ctx, t, net, odd)
	must(t, odd.StopNode())
	deposits(ctx, t, good, 5)

	trust, err := os.ReadFile(filepath.Join(good.Home(), "data", "trust"))
	must(t, err)
	block := strings.TrimSpace(string(trust))
	if _, err := odd.Run(ctx, "join", "--trust", block); err == nil || !strings.Contains(err.Error(), "join with --drop-order") {
		t.Errorf("joining with order blocks: %v", err)
	}
	_, err = odd.Run(ctx, "join", "--trust", block, "--drop-order")
	must(t, err)
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, catchUpLimit))
	caughtUp(ctx, t, net, odd)
	deposits(ctx, t, odd, 3)
	agreesAgain(ctx, t, net, odd)
}
