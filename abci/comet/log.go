package comet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cometbft/cometbft/libs/log"

	"github.com/chainify-db/chainify/abci/fair"
)

// consensusFailure is what CometBFT logs when an error or panic of the application, or a
// contradiction in its own state, ended its consensus routine. It goes on as a process that does
// nothing; there is no other sign of it.
const consensusFailure = "CONSENSUS FAILURE!!!"

// joinFailures are the messages that CometBFT logs, without any further action, when it cannot take
// a snapshot over.
var joinFailures = []string{"State sync failed", "Failed to bootstrap node with new state", "Failed to store last seen commit", "Failed to switch to block sync"}

// CometBFT writes each of its warnings and errors so many times at once, and then so often: it has
// an error for every vote of a peer that is wrong.
const (
	linesAtOnce, lineEvery = 200, time.Second
	linesKept              = 1_000
)

// cometLog lets CometBFT write to our logger, from a level of its own on.
type cometLog struct {
	to     *slog.Logger
	level  slog.Level
	failed func(why string)
	quiet  *atomic.Bool         // while CometBFT is told to stop: it reports its closed connections as errors
	lines  *fair.Budget[string] // of each message: peers cause some of them
	with   []any                // said with every message; spelled out when one is written, since CometBFT makes loggers far more often than it logs
}

// NewLog lets a part of CometBFT write to our logger, from a level on.
func NewLog(to *slog.Logger, level slog.Level) log.Logger {
	return newLog(to, level, new(atomic.Bool), func(string) {})
}

func newLog(to *slog.Logger, level slog.Level, quiet *atomic.Bool, failed func(why string)) log.Logger {
	lines := fair.NewBudget[string](linesAtOnce, lineEvery, linesKept, time.Now)
	return &cometLog{to: to, level: level, quiet: quiet, failed: failed, lines: lines}
}

// spares says whether a message may be written. An operator who asks for messages below the
// warnings gets them all.
func (l *cometLog) spares(level slog.Level, message string) bool {
	if level < slog.LevelWarn {
		return true
	}
	if l.lines.Left(message) <= 0 {
		return false
	}
	l.lines.Spend(message, 1)
	return true
}

func (l *cometLog) write(level slog.Level, message string, keyvals []any) {
	if l.quiet.Load() {
		return
	}
	if message == consensusFailure || slices.Contains(joinFailures, message) {
		l.failed(reason(keyvals))
	}
	if level >= l.level && l.to.Enabled(context.Background(), level) && l.spares(level, message) {
		l.to.Log(context.Background(), level, message, pairs(slices.Concat(l.with, keyvals))...)
	}
}

// pairs makes lazily printed values printable: CometBFT passes fmt.Stringers that are costly until
// someone asks.
func pairs(keyvals []any) []any {
	out := make([]any, len(keyvals))
	for i, v := range keyvals {
		if s, ok := v.(fmt.Stringer); ok && i%2 == 1 {
			v = s.String()
		}
		out[i] = v
	}
	return out
}

func reason(keyvals []any) string {
	for i := 0; i+1 < len(keyvals); i += 2 {
		if keyvals[i] == "err" {
			return fmt.Sprint(keyvals[i+1])
		}
	}
	return "no reason given"
}

func (l *cometLog) Debug(message string, keyvals ...any) { l.write(slog.LevelDebug, message, keyvals) }

func (l *cometLog) Info(message string, keyvals ...any) { l.write(slog.LevelInfo, message, keyvals) }

func (l *cometLog) Warn(message string, keyvals ...any) { l.write(slog.LevelWarn, message, keyvals) }

func (l *cometLog) Error(message string, keyvals ...any) { l.write(slog.LevelError, message, keyvals) }

func (l *cometLog) With(keyvals ...any) log.Logger {
	made := *l
	made.with = slices.Concat(l.with, keyvals)
	return &made
}
