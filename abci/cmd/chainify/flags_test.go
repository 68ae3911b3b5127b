package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

// noHomes hides the homes that this machine may have.
func noHomes(t *testing.T) (folder string) {
	t.Helper()
	t.Setenv(homeVariable, "")
	was := homesFolder
	t.Cleanup(func() { homesFolder = was })
	homesFolder = t.TempDir()
	return homesFolder
}

func TestTheHomeThatNobodyNames(t *testing.T) {
	folder := noHomes(t)
	make := func(name string) string {
		home := filepath.Join(folder, name)
		must.Do(t, os.MkdirAll(home, 0o755))
		must.Do(t, os.WriteFile(filepath.Join(home, config.FileName), []byte("organisation = 1"), 0o600))
		return home
	}
	for _, step := range []struct{ home, want string }{
		{"", "there is no home below " + folder},
		{"acme", filepath.Join(folder, "acme", config.FileName)}, // whose settings are wrong
		{"bolt", "are the homes acme, bolt"},
	} {
		if step.home != "" {
			make(step.home)
		}
		for _, command := range []string{"start", "status"} {
			if code, _, errs := call("", command); code == exitOK || !strings.Contains(errs, step.want) {
				t.Errorf("%s with home %q: code %d, %s; want %q", command, step.home, code, errs, step.want)
			}
		}
	}
	t.Setenv(homeVariable, filepath.Join(folder, "bolt"))
	if code, _, errs := call("", "status"); code == exitOK || !strings.Contains(errs, filepath.Join(folder, "bolt")) {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := call("", "status", "--socket", filepath.Join(folder, "none.sock")); code != exitUnreachable || strings.Contains(errs, "bolt") {
		t.Errorf("a socket beside the variable: code %d, %s", code, errs)
	}
}

func TestATimeBehindWait(t *testing.T) {
	for given, want := range map[string]string{
		"submit --wait 1m SQL":         "submit --wait=1m SQL",
		"submit --wait SQL":            "submit --wait SQL",
		"submit SQL --wait":            "submit SQL --wait",
		"submit --wait=5s SQL":         "submit --wait=5s SQL",
		"submit -- --wait 1m":          "submit -- --wait 1m",
		"submit --wait 250ms --wait 2": "submit --wait=250ms --wait 2",
		"":                             "",
	} {
		if got := joinWait(strings.Fields(given)); got == nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}
