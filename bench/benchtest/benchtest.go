// Package benchtest has what the tests of the benchmarks share.
package benchtest

import (
	"os"
	"testing"
)

// Places gives the PostgreSQL tree that the environment names, and a directory that the servers'
// user can reach.
func Places(t *testing.T) (tree, dir string) {
	t.Helper()
	tree = os.Getenv("CHAINIFY_TEST_PGTREE")
	if tree == "" {
		t.Skip("CHAINIFY_TEST_PGTREE names no PostgreSQL tree (make test-go)")
	}
	dir, err := os.MkdirTemp("", "chainify-bench.")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // the servers' user has to reach it
		t.Fatal(err)
	}
	return tree, dir
}

// Long skips a test of whole networks where tests are to be short (go test -short).
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes: make test-bench WHOLE=1")
	}
}
