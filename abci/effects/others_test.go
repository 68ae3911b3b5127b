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

func (o *others) EachPast(ctx context.Context, number uint64, hash wire.Hash, use func(string, backend.Past) (bool, error)) error {
	o.asked.Add(1)
	if !o.willing.Load() {
		return nil
	}
	from, err := o.truth.ReadPast(ctx)
	if err != nil {
		return err
	}
	defer from.Close()
	if more, err := use("b", lyingPast{from}); !more || err != nil {
		return err
	}
	_, err = use("c", from)
	return err
}

// lyingPast tells another block.
type lyingPast struct{ backend.Past }

func (lyingPast) Block(_ context.Context, _ uint64, _ wire.Hash, each func([]byte) error) error {
	return each([]byte("another"))
}

func TestBlocksKeptOtherwiseThanAgreedComeFromAnotherOrganisation(t *testing.T) {
	b := newBench(t)
	reached := &others{truth: b.truth}
	b.stop()
	b.start(Options{Backend: b.memory, Others: reached, Config: Config{LookMS: 1}})
	b.play()
	b.play()
	b.committed(2)
	b.db.FalsifyPast(1, 2)
	b.until("another is asked", func() bool { return reached.asked.Load() > 0 })
	b.play() // whom nobody helps goes on
	b.committed(3)
	reached.willing.Store(true)
	b.until("the blocks are as agreed", func() bool { return len(b.db.FalsePast()) == 0 })
	b.play()
	b.committed(4)
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

func TestAllBlocksAreExecutedAgainWhenNothingElseHelps(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.play()
	}
	b.committed(3)
	b.db.TamperUntil(backend.Full, "all")
	b.play()
	b.committed(4)
	b.until("the deviation is recorded", func() bool { return len(b.db.Deviations()) == 1 })
	if got := b.db.Deviations()[0]; got != "full" {
		t.Fatalf("cured by %q", got)
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
