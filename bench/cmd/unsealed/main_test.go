package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The patches fit the versions that the module is built with: others may have other functions.
func TestThePatchesFit(t *testing.T) {
	dir := t.TempDir()
	flags, err := write(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := "-overlay=" + filepath.Join(dir, "node.json"); !strings.HasPrefix(flags, want) {
		t.Errorf("flags %q, want %s first", flags, want)
	}
	module, err := os.ReadFile(filepath.Join(dir, "node.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range patches[1:] {
		if !strings.Contains(string(module), "replace "+p.module+" => "+dir) {
			t.Errorf("%s is not replaced", p.module)
		}
	}
	unknown := filepath.Join(dir, "unknown.go")
	if err := os.WriteFile(unknown, []byte("package ed25519\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if patches[0].apply(unknown, unknown) == nil {
		t.Error("a package without the functions was patched")
	}
}
