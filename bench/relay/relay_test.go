package relay

import (
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// The relay speaks as a node does: its client here is a node's.
func TestTheRelayTakesTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	var taken []*wire.Statement
	r, err := New(path, func(s *wire.Statement) { taken = append(taken, s) })
	if err != nil {
		t.Fatal(err)
	}
	client, err := gateway.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	set := (&wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"a.b"}, Changes: []wire.RowChange{
		{Op: 'I', Row: []byte{0, 1, 0, 1, 1, 0, 0, 0, 1, 1}},
	}}).Encode()
	ids, err := client.Submit(t.Context(), "bank", &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: set})
	if err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	outcomes, err := client.Wait(t.Context(), 1000, ids...)
	if err != nil || len(outcomes) != 1 || !outcomes[0].Succeeded || string(outcomes[0].Id) != string(ids[0]) {
		t.Errorf("%v, %v", outcomes, err)
	}
	if _, err := client.Status(t.Context()); err == nil {
		t.Error("it answered what it does not know")
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if len(taken) != 1 || string(taken[0].Effects) != string(set) {
		t.Errorf("took %v", taken)
	}
}
