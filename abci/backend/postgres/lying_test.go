package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// lying tells otherwise than the reading that it has.
type lying struct {
	backend.Reading
	tables  func([]backend.TableState) []backend.TableState
	digests func([]backend.RangeDigest) []backend.RangeDigest
	rows    func(each func([]byte) error, cells []byte) error
	more    func(each func([]byte) error) error
}

func (l lying) Tables() []backend.TableState {
	list := append([]backend.TableState{}, l.Reading.Tables()...)
	if l.tables == nil {
		return list
	}
	return l.tables(list)
}

func (l lying) Digests(ctx context.Context, table string, within backend.Ranges, bits uint32) ([]backend.RangeDigest, error) {
	list, err := l.Reading.Digests(ctx, table, within, bits)
	if l.digests == nil || err != nil {
		return list, err
	}
	return l.digests(list), nil
}

func (l lying) Rows(ctx context.Context, table string, in backend.Ranges, each func([]byte) error) error {
	err := l.Reading.Rows(ctx, table, in, func(cells []byte) error {
		if l.rows == nil {
			return each(cells)
		}
		return l.rows(each, cells)
	})
	if err == nil && l.more != nil {
		err = l.more(each)
	}
	return err
}

// A false row, table or block is refused. It is a lie of the organisation that told it where its
// bytes alone show that. It does not fit where this database has a say. Taking the
// rows over from another one helps; nothing of the lie stays.
func TestWhatAnotherOrganisationTellsFalselyIsItsLie(t *testing.T) {
	dsn, otherDSN := database(t, setup), database(t, setup)
	here, there := open(t, dsn+" user=effects_node"), open(t, otherDSN+" user=effects_node")
	var at wire.Hash
	for _, b := range []*Backend{here, there} {
		previous := connected(t, b).Hash
		for n := uint64(1); n <= 2; n++ {
			x, err := b.Execute(t.Context(), extensionBlock(n), previous)
			if err == nil {
				err = b.Commit(t.Context())
			}
			must.Do(t, err)
			previous = x.Hash
		}
		at = previous
	}
	run(t, dsn, `SET chainify.guard = off; UPDATE public.items SET name = 'tampered' WHERE id = 1;
		UPDATE chainify_history.items SET name = 'tampered'; UPDATE chainify_checkpoint.items SET name = 'tampered'`)
	reading, err := there.Read(t.Context(), 2, at)
	must.Do(t, err)
	defer reading.Close()
	endless := func(each func([]byte) error) error {
		for i := 0; ; i++ { // rows that there could be, without end
			if err := each([]byte(fmt.Sprintf("\x00\x02\x01\x00\x00\x00\x07%07d\x00", 1_000_000+i%1_000_000))); err != nil {
				return err
			}
		}
	}
	for name, l := range map[string]lying{
		"a table twice": {tables: func(list []backend.TableState) []backend.TableState { return append(list, list[0]) }},
		"more rows than a state has": {tables: func(list []backend.TableState) []backend.TableState {
			list[0].Rows = 1 << 60
			return list
		}},
		"more rows in ranges than the table has": {digests: func(list []backend.RangeDigest) []backend.RangeDigest {
			list[0].Rows = 1 << 40
			return list
		}},
		"a range that was not asked for": {digests: func(list []backend.RangeDigest) []backend.RangeDigest {
			list[0].Range = 1 << 20
			return list
		}},
		"rows without end": {more: endless},
		"a cell that is not its type": {rows: func(each func([]byte) error, _ []byte) error {
			return each([]byte("\x00\x02\x01\x00\x00\x00\x03abc\x00"))
		}},
		"a number beyond its type": {rows: func(each func([]byte) error, _ []byte) error {
			return each([]byte("\x00\x02\x01\x00\x00\x00\x1499999999999999999999\x00"))
		}},
	} {
		l.Reading = reading
		_, err := here.Restore(t.Context(), l, 2, at, 3, wire.Hash{})
		want := backend.ErrFalse
		if l.rows != nil || name == "more rows than a state has" {
			want = backend.ErrUnfit
		}
		if !errors.Is(err, want) || errors.Is(err, backend.ErrBeyondRepair) || want == backend.ErrUnfit && errors.Is(err, backend.ErrFalse) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"public.nowhere", `a"; DROP`} { // of no use, and no failure of this database's
		unknown := lying{Reading: reading, tables: func(list []backend.TableState) []backend.TableState { list[0].Table = name; return list }}
		if _, err := here.Restore(t.Context(), unknown, 2, at, 3, wire.Hash{}); !errors.Is(err, backend.ErrBeyondRepair) {
			t.Errorf("table %q: %v", name, err)
		}
	}
	malformed := lying{Reading: reading, rows: func(each func([]byte) error, _ []byte) error { return each([]byte("\xff")) }}
	if _, err := here.Restore(t.Context(), malformed, 2, at, 3, wire.Hash{}); !errors.Is(err, backend.ErrUnfit) {
		t.Errorf("a row that is none: %v", err)
	}
	other := lying{Reading: reading, rows: func(each func([]byte) error, _ []byte) error {
		return each([]byte("\x00\x02\x01\x00\x00\x00\x011\x01\x00\x00\x00\x05wrong"))
	}}
	if _, err := here.Restore(t.Context(), other, 2, at, 3, wire.Hash{}); !errors.Is(err, backend.ErrBeyondRepair) {
		t.Errorf("rows of another state: %v", err)
	}
	rows, err := here.Restore(t.Context(), reading, 2, at, 3, wire.Hash{})
	if err != nil || len(rows) == 0 {
		t.Fatalf("from one that does not lie: %d rows, %v", len(rows), err)
	}
}
