package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// An organisation archives while blocks come, drops what is archived, and goes on, also after a
// restart. Its archive holds in Go and in Python, and so do receipts made from it.
func TestAnOrganisationArchivesAndDrops(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	o := net.Organisations[1]
	place := filepath.Join(o.Home(), "archive")
	must(t, os.Mkdir(place, 0o700))
	must(t, os.Chmod(place, 0o777)) // the node may run as another user
	must(t, o.Cluster.Configure(map[string]string{"chainify.checkpoint_interval": "10", "chainify.checkpoints_kept": "2"}))
	must(t, o.StopNode())
	must(t, o.Cluster.Stop())
	must(t, o.Cluster.Start(ctx))
	must(t, o.Configure(map[string]any{"archive": "archive", "archive_every": "1s"}))
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	deposits(ctx, t, net.Organisations[0], 40)
	dropped := drops(ctx, t, o, 5)

	checkVerified(ctx, t, o)
	deposits(ctx, t, o, 5)
	receiptsHold(ctx, t, o, place, dropped)
	must(t, o.StopNode())
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	deposits(ctx, t, o, 30)
	if again := drops(ctx, t, o, 5); again <= dropped {
		t.Errorf("dropped up to %d, before the restart up to %d", again, dropped)
	}
	checkVerified(ctx, t, o)
	waitSame(ctx, t, net.Organisations, 1)
	for _, command := range [][]string{
		{os.Getenv("CHAINIFY_E2E_BIN"), "archive", "verify", place, "--genesis", filepath.Join(o.Home(), "config", "genesis.json"), "--to", fmt.Sprint(dropped)},
		{"python3", "../../audit/audit.py", "--genesis", filepath.Join(o.Home(), "config", "genesis.json"), place},
	} {
		holds(ctx, t, command...)
	}
}

// holds runs a command that has to say that something holds, as soon as the archive's newest range
// is whole.
func holds(ctx context.Context, t *testing.T, command ...string) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, strings.Join(command, " "), func(ctx context.Context) (bool, string, error) {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		switch {
		case err == nil && strings.Contains(string(out), "holds"):
			return true, "", nil
		case strings.Contains(string(out), "a range is unfinished"):
			return false, string(out), nil
		}
		return false, "", fmt.Errorf("%w: %s", err, out)
	}))
}

// drops waits until the archive has the last block of now, and has the database drop all but the
// newest blocks. It returns the last block dropped.
func drops(ctx context.Context, t *testing.T, o *harness.Organisation, keep uint64) (dropped uint64) {
	t.Helper()
	tip, err := o.Tip(ctx)
	must(t, err)
	must(t, harness.Poll(ctx, catchUpLimit, "the archive goes on", func(ctx context.Context) (bool, string, error) {
		var block uint64
		if err := o.Scan(ctx, "SELECT coalesce(max(block), 0) FROM chainify_ledger.archived", &block); err != nil {
			return false, err.Error(), nil
		}
		return block+1 >= tip.Number, fmt.Sprintf("at %d of %d", block, tip.Number), nil
	}))
	must(t, harness.Poll(ctx, catchUpLimit, "blocks are dropped", func(ctx context.Context) (bool, string, error) {
		sql := fmt.Sprintf("SELECT chainify_node.drop_archived(%d, 100)", keep)
		if err := o.Exec(ctx, "postgres", sql); err != nil {
			return false, err.Error(), nil
		}
		if err := o.Scan(ctx, "SELECT dropped FROM chainify_ledger.archived", &dropped); err != nil {
			return false, err.Error(), nil
		}
		return dropped+40 > tip.Number, fmt.Sprintf("up to %d of %d", dropped, tip.Number), nil
	}))
	return dropped
}

// receiptsHold: the receipt of a transaction that the database dropped comes from the archive.
func receiptsHold(ctx context.Context, t *testing.T, o *harness.Organisation, place string, dropped uint64) {
	t.Helper()
	genesis := filepath.Join(o.Home(), "config", "genesis.json")
	chainify := os.Getenv("CHAINIFY_E2E_BIN")
	out, err := exec.CommandContext(ctx, chainify, "archive", "fetch", place, "--genesis", genesis, "--kind", "transactions", "--from", fmt.Sprint(dropped), "--to", fmt.Sprint(dropped)).Output()
	must(t, err)
	var row struct{ ID string }
	must(t, json.NewDecoder(strings.NewReader(string(out))).Decode(&row))
	var here int
	must(t, o.Scan(ctx, fmt.Sprintf(`SELECT count(*)::int FROM chainify.transactions WHERE id = '\x%s'`, row.ID), &here))
	if here != 0 {
		t.Errorf("transaction %s of block %d is in the database", row.ID, dropped)
	}
	receipt, err := exec.CommandContext(ctx, chainify, "archive", "receipt", place, row.ID, "--genesis", genesis).Output()
	must(t, err)
	file := filepath.Join(t.TempDir(), "receipt.json")
	must(t, os.WriteFile(file, receipt, 0o600))
	holds(ctx, t, chainify, "verify-receipt", file, "--genesis", genesis)
	holds(ctx, t, "python3", "../../audit/audit.py", "--genesis", genesis, file)
}
