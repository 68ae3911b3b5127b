package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A transaction does not end, and the time of a block is long. Three of four operators give it up:
// it is quarantined in all organisations, its client is suspended, another one goes on.
func TestOperatorsEndATransactionEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	execute(t, clients[0], "UPDATE t SET x = 1")
	eventually(t, patience, "all have the block", func() bool {
		for _, r := range nodes {
			if len(r.db.Hashes()) != 1 {
				return false
			}
		}
		return true
	})
	for _, r := range nodes {
		r.db.Delay(time.Hour)
	}
	ids, err := clients[0].Submit(context.Background(), "bank", sql("UPDATE t SET x = 2"))
	must.Do(t, err)
	for _, c := range clients {
		eventually(t, patience, "executing", func() bool {
			s, err := c.Status(context.Background())
			return err == nil && s.State == "executing" && s.LastOrdered == 2
		})
	}
	var refused *gateway.Error
	if _, err := clients[0].Cancel(context.Background(), &wire.CancelRequest{Block: 1}); !errors.As(err, &refused) || refused.SQLState != gateway.StateRefused {
		t.Fatalf("giving up a transaction that is committed: %v", err)
	}
	for _, r := range nodes {
		r.db.Delay(0) // for what is executed next
	}
	for i, which := range []*wire.CancelRequest{{Block: 2}, {Id: ids[0]}, {Block: 2, Index: 0}} {
		done, err := clients[i].Cancel(context.Background(), which)
		if err != nil || done.Block != 2 || done.Index != 0 {
			t.Fatalf("%v: %v", done, err)
		}
		if _, err := clients[i].Cancel(context.Background(), which); i < 2 && !errors.As(err, &refused) {
			t.Fatalf("giving up twice: %v", err)
		}
	}
	out, err := clients[0].Wait(context.Background(), uint32(patience.Milliseconds()), ids...)
	if err != nil || len(out) != 1 || out[0].Sqlstate != "CH001" || out[0].Block != 2 {
		t.Fatalf("outcomes %v, %v, want CH001 in block 2", out, err)
	}
	if _, err := clients[0].Submit(context.Background(), "bank", sql("UPDATE t SET x = 3")); !errors.As(err, &refused) || refused.SQLState != gateway.StateFull {
		t.Fatalf("its client submits again: %v", err)
	}
	if out := execute(t, clients[1], "UPDATE t SET x = 4"); !out.Succeeded {
		t.Fatalf("the next transaction: %v", out)
	}
}
