package effects

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// others are two organisations: one that breaks off, and one that tells the truth once it is willing.
type others struct {
	truth   backend.Backend
	willing atomic.Bool
	asked   atomic.Int32
}

func (o *others) Each(ctx context.Context, number uint64, hash wire.Hash, use func(string, backend.Reading) (bool, error)) error {
	o.asked.Add(1)
	from, err := o.truth.Read(ctx, number, hash)
	if err != nil {
		return nil
	}
	defer from.Close()
	if more, err := use("b", brokenOff{from}); !more || err != nil {
		return err
	}
	if !o.willing.Load() {
		return nil
	}
	_, err = use("c", from)
	return err
}

type brokenOff struct{ backend.Reading }

func (brokenOff) Digests(context.Context, string, backend.Ranges, uint32) ([]backend.RangeDigest, error) {
	return nil, errors.New("connection lost")
}

func TestRowsComeFromAnotherOrganisation(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.until("the others are asked again", func() bool { return reached.asked.Load() > 1 })
	reached.willing.Store(true)
	b.committed(2)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "state" {
		t.Fatalf("cured by %q", got)
	}
}

func TestWhoGetsNoHelpIsExcluded(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{HelpAttempts: 3}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.state("excluded")
	if got := reached.asked.Load(); got != 3 {
		t.Fatalf("asked %d times, want 3", got)
	}
}

func TestStepsLeftOutAreNotTaken(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	reached.willing.Store(true)
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{Steps: []backend.Step{backend.Rebase, backend.Rows}}})
	b.play()
	b.committed(1)
	b.db.TamperHistory("all")
	b.play()
	b.state("excluded")
	if got := reached.asked.Load(); got != 0 {
		t.Fatalf("asked %d times", got)
	}
}
