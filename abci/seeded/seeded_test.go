package seeded

import (
	"testing"
	"time"
)

func TestTheSeedIsTheDaysOrAsGiven(t *testing.T) {
	if got := ofTheDay(time.Date(2026, 12, 2, 0, 30, 0, 0, time.FixedZone("", 3600))); got != 2078800000 {
		t.Errorf("the seed of 1 December in UTC is %d", got)
	}
	t.Setenv(variable, "7")
	if got := Seed(t); got != 7 {
		t.Errorf("seed %d in place of 7", got)
	}
	if got := here(); got != "abci/seeded" {
		t.Errorf("this package is in %s", got)
	}
}
