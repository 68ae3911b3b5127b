package comet

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
)

// Peers cannot fill the log: CometBFT writes the same message a bounded number of times, and
// others beside it. The end of its consensus is told however much was written.
func TestCometBFTsLinesAreBounded(t *testing.T) {
	out, failed := &strings.Builder{}, ""
	log := newLog(slog.New(slog.NewTextHandler(out, nil)), slog.LevelInfo, &atomic.Bool{}, func(why string) { failed = why })
	for range 10 * linesAtOnce {
		log.With("height", 1).Error("failed to process message")
	}
	log.Error("another")
	if n := strings.Count(out.String(), "failed to process"); n < linesAtOnce || n > 2*linesAtOnce {
		t.Errorf("%d lines, want about %d", n, linesAtOnce)
	}
	if !strings.Contains(out.String(), "another") {
		t.Error("another message is not written")
	}
	for range 2 * linesAtOnce {
		failed = ""
		log.Error(consensusFailure, "err", "test")
	}
	if failed != "test" {
		t.Errorf("a failure is told as %q", failed)
	}
}

func TestAConsensusFailureIsTold(t *testing.T) {
	failed := make(chan string, 1)
	var log bytes.Buffer
	var stopping atomic.Bool
	l := newLog(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelError, &stopping, func(why string) { failed <- why })
	l.With("module", "consensus").Error(consensusFailure, "err", errors.New("apply block 7"), "stack", "…")
	if why := <-failed; why != "apply block 7" {
		t.Errorf("reason %q", why)
	}
	l.Info("not shown")
	l.Error("shown", "height", 3)
	stopping.Store(true)
	l.Error("a closed connection")
	if s := log.String(); strings.Contains(s, "not shown") || !strings.Contains(s, "height=3") || strings.Contains(s, "closed") {
		t.Errorf("log:\n%s", s)
	}
}
