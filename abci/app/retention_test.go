package app

import (
	"errors"
	"testing"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestWhatGoesIsOldExecutedAndAged(t *testing.T) {
	for _, c := range []struct {
		name                       string
		oldest, last, keep, needed int64
		aged                       int64 // the newest that is aged
		want                       int64
	}{
		{"all are kept", 1, 10_000, 0, 9_000, 9_000, 0},
		{"the newest 2000 stay", 7_900, 10_000, 2_000, 9_990, 9_990, 8_001},
		{"the database has not executed them", 1, 10_000, 2_000, 500, 9_990, 500},
		{"they may be evidence", 1, 10_000, 2_000, 9_990, 700, 701},
		{"not many at a time", 1, 1_000_000, 2_000, 999_990, 999_990, 1_001},
		{"few would go", 7_950, 10_000, 2_000, 9_990, 9_990, 0},
		{"few are aged", 1, 10_000, 2_000, 9_990, 99, 0},
		{"as many as go at a time", 1, 10_000, 2_000, 9_990, 100, 101},
	} {
		got := pruneTo(c.oldest, c.last, c.keep, c.needed, func(h int64) bool { return h <= c.aged })
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestWhatIsNeededNeverGoes(t *testing.T) {
	random, went := seeded.Random(t), 0
	for range 100_000 {
		last := 1 + random.Int64N(5000)
		oldest, needed, aged := 1+random.Int64N(last), 1+random.Int64N(last), random.Int64N(last+1)
		keep := 1 + random.Int64N(last)
		to := pruneTo(oldest, last, keep, needed, func(h int64) bool { return h <= aged })
		if to == 0 {
			continue
		}
		went++
		if to > needed || last-to+1 < keep || to > aged+1 || to-oldest < pruneStep || to-oldest > pruneMost {
			t.Fatalf("blocks %d to %d, %d kept, from %d on needed, to %d aged: all below %d go", oldest, last, keep, needed, aged, to)
		}
	}
	if went < 1000 {
		t.Errorf("something went in %d cases", went)
	}
}

func TestARecordGoesWithItsBlockAndIsMissedByName(t *testing.T) {
	s := NewStore(dbm.NewMemDB())
	w := &writer{batch: s.db.NewBatch()}
	for n := uint64(1); n <= 9; n++ {
		w.json(numberKey('b', n), &ledgerRecord{Height: int64(10 * n)})
		w.json(numberKey('c', n), &wire.Certificate{})
	}
	w.json(numberKey('r', 1), order.RegistryRecord{})
	must.Do(t, errors.Join(w.err, w.batch.Write(), s.prune(41)))
	for n := uint64(1); n <= 10; n++ {
		_, err := s.ledgerBlock(n)
		_, errCertificate := s.Certificate(n)
		switch {
		case n <= 4:
			if !errors.Is(err, wire.ErrPruned) || !errors.Is(errCertificate, wire.ErrPruned) {
				t.Errorf("block %d: %v, %v", n, err, errCertificate)
			}
		case n == 10:
			if err == nil || errors.Is(err, wire.ErrPruned) || errCertificate == nil || errors.Is(errCertificate, wire.ErrPruned) {
				t.Errorf("block %d, which never was: %v, %v", n, err, errCertificate)
			}
		case err != nil || errCertificate != nil:
			t.Errorf("block %d: %v, %v", n, err, errCertificate)
		}
	}
	// A database of an old backup needs what went already; the order goes on without it.
	for executed, want := range map[uint64]int64{0: 0, 2: 0, 4: 0, 5: 50, 9: 90} {
		if got, err := s.neededFrom(executed); err != nil || got != want {
			t.Errorf("after block %d: %d, %v, want %d", executed, got, err, want)
		}
	}
	if _, err := s.neededFrom(10); err == nil {
		t.Error("a block that never was is needed")
	}
	if kept, err := s.registries(); err != nil || len(kept) != 1 {
		t.Errorf("registries %v, %v", kept, err)
	}
}
