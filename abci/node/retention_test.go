package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	comet "github.com/cometbft/cometbft/config"
	cometstore "github.com/cometbft/cometbft/store"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

// A node that keeps few order blocks drops the others once they are executed, starts again without
// them, and says what to do when a database needs one.
func TestOldOrderBlocksGo(t *testing.T) {
	const keep, transactions = 20, 260
	r := newNetwork(t, "acme")[0]
	r.change = func(c *config.Config) { c.Retention.OrderBlocks = keep }
	forgetEvidenceSoon(t, r.home)
	r.start()
	c := r.dial()
	for i := range transactions {
		if o := execute(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d)", i)); !o.Succeeded {
			t.Fatalf("outcome %v", o)
		}
	}
	r.stop()
	oldest, newest := blocksOf(t, r.home)
	if oldest == 1 || newest-oldest+1 < keep {
		t.Fatalf("the store has blocks %d to %d", oldest, newest)
	}

	r.start()
	c = r.dial()
	if o := execute(t, c, "INSERT INTO t VALUES (-1)"); !o.Succeeded || o.Block <= transactions {
		t.Fatalf("outcome %v after a restart", o)
	}
	r.stop()

	// As from a backup of before.
	r.backend = func() backend.Backend { return backendtest.Open(backendtest.NewDatabase(), patience) }
	r.start()
	c = r.dial()
	eventually(t, patience, "what is missing is named", func() bool {
		return strings.Contains(r.log.String(), "ledger block 1: this node dropped it ([retention] order_blocks)")
	})
	if s, err := c.Status(context.Background()); err != nil || s.LastCommitted != 0 {
		t.Errorf("status %v, %v", s, err)
	}
}

// forgetEvidenceSoon makes CometBFT take evidence of the last ten blocks alone.
func forgetEvidenceSoon(t *testing.T, home config.Home) {
	t.Helper()
	raw, err := os.ReadFile(home.Genesis())
	must.Do(t, err)
	var doc map[string]any
	must.Do(t, json.Unmarshal(raw, &doc))
	parameters, ok := doc["consensus_params"].(map[string]any)
	if !ok {
		t.Fatalf("the genesis has no parameters: %s", raw)
	}
	parameters["evidence"] = map[string]any{"max_age_num_blocks": "10", "max_age_duration": "1000000", "max_bytes": "1000"}
	if raw, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(home.Genesis(), raw, 0o600))
}

// blocksOf reads the oldest and the newest order block of a node that is stopped.
func blocksOf(t *testing.T, home config.Home) (oldest, newest int64) {
	t.Helper()
	settings := comet.DefaultConfig()
	settings.SetRoot(string(home))
	db, err := comet.DefaultDBProvider(&comet.DBContext{ID: "blockstore", Config: settings})
	must.Do(t, err)
	defer db.Close()
	blocks := cometstore.NewBlockStore(db)
	return blocks.Base(), blocks.Height()
}
