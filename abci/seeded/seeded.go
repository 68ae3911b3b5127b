// Package seeded gives random tests their numbers. Only tests import it.
package seeded

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const variable = "SEED"

// Random is a source of its own for one test, by its Seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Seed is that of the environment variable SEED, or the day's in UTC. A test that fails logs the
// command that repeats it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := ofTheDay(time.Now())
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Logf("%s=%d", variable, seed)
	name := t.Name()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat this with: cd %s && %s=%d go test -count=1 -run '^%s$' .", here(), variable, seed, name)
		}
	})
	return seed
}

// ofTheDay is the number of the day since 1970, and five zeros: seeds counted on from it are no
// other day's.
func ofTheDay(now time.Time) uint64 { return uint64(now.Unix()/86_400) * 100_000 }

// here is the package's folder in the repository.
func here() string {
	at, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := at; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			if path, err := filepath.Rel(root, at); err == nil {
				return path
			}
		}
	}
	return at
}
