package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// A transaction that saw a row which a committed one has changed since is refused by the node and
// gets into no block. Databases give such a session up by themselves where they can, so the test
// speaks to the node.
func TestStaleTransactionIsNotOrdered(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	old := rowOfChecking(ctx, t, acme)
	run(ctx, t, plainSession(ctx, t, bolt), "UPDATE checking SET balance = balance + 1 WHERE custid = 1")
	tip, err := bolt.Tip(ctx)
	must(t, err)
	reaches(ctx, t, acme, tip.Number, catchUpLimit)

	node, err := gateway.Dial(ctx, acme.Socket())
	must(t, err)
	t.Cleanup(func() { node.Close() })
	_, err = node.Submit(ctx, "bank", &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: old.Encode()})
	var refused *gateway.Error
	if !errors.As(err, &refused) || refused.SQLState != "40001" || refused.Message != `row (1) of table "public.checking" is not as the transaction saw it` || !strings.HasSuffix(refused.Detail, " was not ordered.") {
		t.Fatalf("a stale transaction: %#v", err)
	}
	fresh := rowOfChecking(ctx, t, acme)
	ids, err := node.Submit(ctx, "bank", &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: fresh.Encode()})
	must(t, err)
	outcomes, err := node.Wait(ctx, 30_000, ids...)
	must(t, err)
	if len(outcomes) != 1 || !outcomes[0].Succeeded || outcomes[0].Block != tip.Number+1 {
		t.Errorf("one that saw the row as it is: %v, want success in block %d", outcomes, tip.Number+1)
	}
}

// rowOfChecking is a write set that changes nothing and saw the row of customer 1, as the
// database has it now.
func rowOfChecking(ctx context.Context, t *testing.T, o *harness.Organisation) *wire.WriteSet {
	t.Helper()
	var hash []byte
	conn, err := o.Cluster.Connect(ctx, database, "postgres")
	must(t, err)
	defer conn.Close(ctx)
	must(t, conn.QueryRow(ctx, "SELECT chainify.row_hash(c) FROM checking c WHERE custid = 1").Scan(&hash))
	tip, err := o.Tip(ctx)
	must(t, err)
	key := binary.BigEndian.AppendUint64([]byte{0, 1, 0, 1, 2, 0, 0, 0, 8}, 1)
	return &wire.WriteSet{Snapshot: tip.Number, Isolation: wire.ReadCommitted, Tables: []string{"public.checking"}, Seen: []wire.RowSeen{{Key: key, Present: true, Hash: wire.Hash(hash)}}}
}
