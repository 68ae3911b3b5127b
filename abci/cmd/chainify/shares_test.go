package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A limit that a proposal does not name stays as it is; 0 takes a limit away.
func TestSharesOfABlockAreProposed(t *testing.T) {
	d := openDoor(t)
	d.members = &wire.RegistryResponse{ChainId: "trade", Changes: 3, Consent: 1, DefaultConsent: true, Approvals: 1, DefaultApprovals: true, Organisations: []*wire.Member{
		{Organisation: "acme", GatewayKey: make([]byte, 32), Validators: []*wire.ValidatorPower{{Key: append(make([]byte, 31), 1), Power: 1}}},
	}}
	d.members.BlockShares = &wire.BlockShares{Client: 100}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--block-organisation-max 2000", exitOK, "a block accepts 100 transactions of a client, 2000 transactions of an organisation"},
		{"--block-client-max 1", exitOK, "a block accepts 1 transaction of a client, as many as it holds of an organisation"},
		{"--block-client-max 0", exitOK, "a block accepts as many as it holds of a client, as many as it holds of an organisation"},
		{"--block-keys-max 50", exitOK, "a block accepts 100 transactions of a client, as many as it holds of an organisation, EFFECTS transactions of 50 rows"},
		{"--block-client-max 1000001", exitUsage, "block_shares: 1000001 and 0 transactions and 0 rows, want at most 1000000"},
		{"--block-organisation-max -1", exitUsage, "is not a number in decimal digits"},
		{"", exitUsage, "--block-client-max, --block-organisation-max, --block-keys-max, --snapshot-every and --protocol-version is needed"},
		{"--snapshot-every 500", exitOK, "snapshots of the order: every 500 order blocks"},
		{"--snapshot-every 0", exitOK, "snapshots of the order: none"},
		{"--snapshot-every 3", exitUsage, "snapshot_every: 3, want 10 to 1000000, or 0 for no snapshots"},
	} {
		code, out, errs := call("", append([]string{"governance", "propose", "--socket", d.path}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("propose %s: code %d, want %d: %s%s", c.args, code, c.code, out, errs)
		}
	}
	if code, out, errs := call("", "governance", "status", "--socket", d.path); code != exitOK || !strings.Contains(out, "a block accepts   100 transactions of a client, as many as it holds of an organisation\n") {
		t.Error(code, out, errs)
	}
	_, out, _ := call("", "governance", "status", "--socket", d.path, "--json")
	var s governanceStatus
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.ClientMax != 100 || s.ShareMax != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A new chain has shares of a block, snapshots, and nodes whose disks are bounded; the free ways
// are options.
func TestANewChainIsBounded(t *testing.T) {
	for _, c := range []struct {
		options              []string
		client, organisation int
		snapshots            int
		orderBlocks          int64
	}{
		{nil, 2500, 5000, 1000, 1_000_000},
		{[]string{"--block-client-max", "0", "--block-organisation-max", "0", "--snapshot-every", "0", "--order-blocks", "0"}, 0, 0, 0, 0},
	} {
		dir := filepath.Join(t.TempDir(), "net")
		args := append([]string{"testnet", "--organisations", "acme,bolt", "--dir", dir, "--base-port", "30000"}, c.options...)
		if code, _, errs := call("", args...); code != exitOK {
			t.Fatalf("code %d: %s", code, errs)
		}
		home := config.Home(filepath.Join(dir, "acme"))
		_, founded, err := home.LoadGenesis()
		must.Do(t, err)
		kept, err := config.Load(string(home))
		if err != nil {
			t.Fatal(err)
		}
		if p := founded.Parameters; p.BlockClientMax != c.client || p.BlockOrganisationMax != c.organisation || p.SnapshotEvery != c.snapshots || kept.Retention.OrderBlocks != c.orderBlocks {
			t.Errorf("%q: parameters %+v, order blocks %d, want %+v", c.options, p, kept.Retention.OrderBlocks, c)
		}
	}
}
