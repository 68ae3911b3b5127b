package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

const trustedBlock = "120000:5A7BDA2AEF7B0F3C3F2F0C6D7E3FBA9E1D6B0F4E9C6A4C8B5D1E2F3A4B5C6D7E"

func TestJoinPreparesAHome(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := call("", "testnet", "--organisations", "acme,bolt", "--dir", dir); code != exitOK {
		t.Fatal(errs)
	}
	home := filepath.Join(dir, "acme")
	join := func(more ...string) (int, string, string) {
		return call("", append([]string{"join", "--home", home, "--trust", trustedBlock}, more...)...)
	}
	code, out, errs := join()
	if code != exitOK || !strings.Contains(out, "from order block 120000 on") {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	j, err := config.Home(home).Joining()
	if err != nil || j == nil || j.Height != 120_000 || len(j.HashBytes()) != 32 || j.Period != config.Duration(config.TrustPeriod) {
		t.Errorf("the home joins by %+v, %v", j, err)
	}

	// Order blocks go only when they are told to, and not while a node has them open.
	db, err := dbm.NewGoLevelDB("blockstore", filepath.Join(home, "data"))
	must.Do(t, err)
	if code, _, errs = join(); code != exitFailed || !strings.Contains(errs, "join with --drop-order") {
		t.Errorf("with order blocks: code %d, %s", code, errs)
	}
	if code, _, errs = join("--drop-order"); code != exitFailed || !strings.Contains(errs, "does a node run on this home?") {
		t.Errorf("while a node runs: code %d, %s", code, errs)
	}
	must.Do(t, db.Close())
	signed, err := os.ReadFile(filepath.Join(home, "data", "priv_validator_state.json"))
	must.Do(t, err)
	if code, _, errs = join("--drop-order", "--trust-period", "1h"); code != exitOK {
		t.Errorf("code %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(home, "data", "blockstore.db")); !os.IsNotExist(err) {
		t.Errorf("the order blocks are there: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(home, "data", "priv_validator_state.json")); err != nil || string(after) != string(signed) {
		t.Errorf("the last signature is %s, %v", after, err)
	}
}

func TestJoinRefuses(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := call("", "testnet", "--organisations", "acme", "--dir", filepath.Join(dir, "alone")); code != exitOK {
		t.Fatal(errs)
	}
	for want, home := range map[string]string{
		"network.peers is empty": "alone/acme",
		"is not a node's home":   "nowhere",
	} {
		code, _, errs := call("", "join", "--home", filepath.Join(dir, home), "--trust", trustedBlock)
		if code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, %s", home, code, errs)
		}
	}
}
