package postgres

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A version that only this test knows: it changes a table of the ledger's own and adds a function,
// as an upgrade may.
const upgrade = `
ALTER TABLE chainify_ledger.scrubbed ADD COLUMN upgraded boolean;
CREATE FUNCTION chainify.upgraded() RETURNS integer LANGUAGE sql AS 'SELECT 1';
COMMENT ON FUNCTION chainify.upgraded IS 'Only there after the upgrade.';
`

// ALTER EXTENSION chainify UPDATE works on a ledger in use, with the guard on, and the ledger goes
// on and verifies.
func TestTheExtensionIsUpgradedInPlace(t *testing.T) {
	dsn := database(t, setup)
	tree := os.Getenv("CHAINIFY_TEST_PGTREE")
	if tree == "" {
		t.Skip("CHAINIFY_TEST_PGTREE is not set: the tree of the server, for an update script; `make test` sets it")
	}
	b := open(t, dsn+" user=effects_node")
	hash := connected(t, b).Hash
	execute := func(n uint64) {
		t.Helper()
		x, err := b.Execute(t.Context(), extensionBlock(n), hash)
		if err == nil {
			err = b.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range x.Results {
			if !r.Succeeded {
				t.Fatalf("block %d: %+v", n, r)
			}
		}
		hash = x.Hash
	}
	execute(1)
	execute(2)

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var from string
	if err := conn.QueryRow(t.Context(), "SELECT extversion FROM pg_extension WHERE extname = 'chainify'").Scan(&from); err != nil {
		t.Fatal(err)
	}
	shared, err := filepath.Glob(filepath.Join(tree, "share/postgresql/*/extension"))
	if err != nil || len(shared) != 1 {
		t.Fatalf("where extensions are: %v, %v", shared, err)
	}
	script := filepath.Join(shared[0], "chainify--"+from+"--upgradetest.sql")
	if err := os.WriteFile(script, []byte(upgrade), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(script)
	run(t, dsn, `ALTER EXTENSION chainify UPDATE TO 'upgradetest'`)

	execute(3)
	var version string
	var answer int
	var findings string
	err = conn.QueryRow(t.Context(), `SELECT extversion, chainify.upgraded(), (SELECT coalesce(string_agg(v::text, '; '), '') FROM chainify.verify_ledger() v
			WHERE v.what <> 'certificate missing') -- nobody votes here
		FROM pg_extension WHERE extname = 'chainify'`).Scan(&version, &answer, &findings)
	if err != nil || version != "upgradetest" || answer != 1 || findings != "" {
		t.Errorf("version %s, answer %d, findings %s, %v", version, answer, findings, err)
	}
}
