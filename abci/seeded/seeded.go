// Package seeded gives random tests their random numbers, and prints the seed. Only tests import
// it.
package seeded

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

const variable = "CHAINIFY_TEST_SEED"

// Random is a source of its own for one test, by its Seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Seed is new for each test, or that of the environment variable CHAINIFY_TEST_SEED, and stands in
// the test's log.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Logf("%s=%d repeats this", variable, seed)
	return seed
}
