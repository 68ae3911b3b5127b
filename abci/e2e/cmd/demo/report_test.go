package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestOneClaimThatDoesNotHoldFailsTheDemo(t *testing.T) {
	var out bytes.Buffer
	var c claims
	c.add(true, "grass is green")
	if !c.print(screen{w: &out}) {
		t.Error("all held, reported as failed")
	}
	c.add(false, "block %d is blue", 7)
	if c.print(screen{w: &out}) {
		t.Error("one did not hold, reported as held")
	}
	for _, want := range []string{"✓ grass is green", "✗ block 7 is blue"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	if got := (screen{}).bad("x"); got != "x" {
		t.Errorf("not a terminal: %q", got)
	}
	t.Setenv("NO_COLOR", "")
	if got := (screen{terminal: true}).bad("x"); !strings.Contains(got, "\x1b[") {
		t.Errorf("terminal: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := (screen{terminal: true}).bad("x"); got != "x" {
		t.Errorf("NO_COLOR: %q", got)
	}
}

func TestTamperingTimes(t *testing.T) {
	tampered := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := report{touched: tampered.Add(3 * time.Second)}
	r.tampering(deviation{seen: tampered.Add(3*time.Second + 100*time.Millisecond), took: 60 * time.Millisecond}, tampered)
	if r.detection != 40*time.Millisecond || r.repair != 60*time.Millisecond || r.exposed != 3100*time.Millisecond {
		t.Errorf("detection %s, repair %s, exposed %s", r.detection, r.repair, r.exposed)
	}
}

func TestSQLState(t *testing.T) {
	if got := sqlState(&pgconn.PgError{Code: "CH003"}); got != "CH003" {
		t.Error(got)
	}
	if got := sqlState(errors.New("no route")); got != "no route" {
		t.Error(got)
	}
}
