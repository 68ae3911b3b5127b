package postgres

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

// former is the released version that updates start from. Its objects are in
// extension/tests/upgrade.
const former = "0.1.0"

// Columns of these tables are in another order after an update. Nothing reads them by position.
var reordered = []string{"chainify_ledger.scrubbed"}

// unzipped reads a file of extension/tests/upgrade.
func unzipped(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("../../../extension/tests/upgrade", name+".gz"))
	must.Do(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must.Do(t, err)
	text, err := io.ReadAll(z)
	must.Do(t, err)
	return string(text)
}

// offersFormer lets the server make the extension in its former version. It returns the statements
// for that, for a database without it.
func offersFormer(t *testing.T) string {
	t.Helper()
	tree := os.Getenv("CHAINIFY_TEST_PGTREE")
	if tree == "" {
		t.Skip("CHAINIFY_TEST_PGTREE is not set: the tree of the server, for the script of a version; `make test` sets it")
	}
	shared, err := filepath.Glob(filepath.Join(tree, "share/postgresql/*/extension"))
	if err != nil || len(shared) != 1 {
		t.Fatalf("where extensions are: %v, %v", shared, err)
	}
	script := filepath.Join(shared[0], "chainify--"+former+".sql")
	must.Do(t, os.WriteFile(script, []byte(unzipped(t, filepath.Base(script))), 0o644))
	t.Cleanup(func() { _ = os.Remove(script) })
	// The library may have lost functions since.
	return "SET check_function_bodies = off; CREATE EXTENSION chainify VERSION '" + former + "'; RESET check_function_bodies"
}

// catalogue describes everything about the extension in a database, a line each.
func catalogue(t *testing.T, dsn string) []string {
	t.Helper()
	sql, err := os.ReadFile("testdata/catalog.sql")
	must.Do(t, err)
	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SET search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), string(sql), reordered)
	must.Do(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Do(t, err)
	return lines
}

// An update leaves what a new database has: an update script that forgets something is found here.
func TestAnUpdateGivesTheObjectsOfANewDatabase(t *testing.T) {
	updated := database(t, offersFormer(t))
	run(t, updated, "ALTER EXTENSION chainify UPDATE")
	made := database(t, "CREATE EXTENSION chainify")
	has, want := catalogue(t, updated), catalogue(t, made)
	if len(want) < 1000 || slices.ContainsFunc(want, func(line string) bool { return strings.HasPrefix(line, "extension "+former) }) {
		t.Fatalf("%d lines of a new database: %q", len(want), want[0])
	}
	for _, line := range want {
		if !slices.Contains(has, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range has {
		if !slices.Contains(want, line) {
			t.Errorf("surplus: %s", line)
		}
	}
}

// A node whose database waits for its update says what to do, and goes on by itself afterwards.
func TestANodeWaitsForTheUpdate(t *testing.T) {
	dsn := database(t, strings.Replace(setup, "CREATE EXTENSION chainify", offersFormer(t), 1))
	b := open(t, dsn+" user=effects_node")
	if _, err := b.Position(t.Context()); err == nil || !strings.Contains(err.Error(), "ALTER EXTENSION chainify UPDATE") {
		t.Fatalf("before the update: %v", err)
	}
	run(t, dsn, "ALTER EXTENSION chainify UPDATE")
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	must.Do(t, b.Commit(t.Context()))
}
