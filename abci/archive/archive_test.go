package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func verified(t testing.TB, store Store) Verdict {
	t.Helper()
	v, err := Verify(t.Context(), store, chainID, authorities(t), nil)
	must.Do(t, err)
	return v
}

func TestAnArchiveHolds(t *testing.T) {
	d := newDatabase(t, 25)
	store := archived(t, d)
	v := verified(t, store)
	if len(v.Findings) > 0 || v.Ranges != 3 || v.Last != 25 || v.Changes != uint64(len(d.changes)) || v.Transactions != uint64(len(d.transactions)) {
		t.Errorf("%+v", v)
	}
	if d.head.Archived != 25 || d.head.Place != string(store) {
		t.Errorf("the database was told %+v", d.head)
	}
	if ranges := archiveAll(t, New(options(t, d, store))); ranges != 0 {
		t.Errorf("%d ranges were archived again", ranges)
	}
}

// A range ends with its rows, too.
func TestRangesEndWithTheirRows(t *testing.T) {
	d := newDatabase(t, 12)
	o := options(t, d, Directory(t.TempDir()))
	o.RowsMax = 12
	if ranges := archiveAll(t, New(o)); ranges < 4 {
		t.Errorf("%d ranges", ranges)
	}
	if v := verified(t, o.Store); len(v.Findings) > 0 || v.Last != 12 {
		t.Errorf("%+v", v)
	}
}

// broken is a store whose operation number at fails, before or after it was done, as in a crash.
type broken struct {
	Store
	at, done int
	after    bool
}

var errCrash = errors.New("crash")

func (b *broken) step(do func() error) error {
	b.done++
	if b.done == b.at && !b.after {
		return errCrash
	}
	if err := do(); err != nil {
		return err
	}
	if b.done == b.at {
		return errCrash
	}
	return nil
}

func (b *broken) Put(ctx context.Context, name string, data []byte) error {
	return b.step(func() error { return b.Store.Put(ctx, name, data) })
}

func (b *broken) Get(ctx context.Context, name string) (data []byte, err error) {
	err = b.step(func() error {
		data, err = b.Store.Get(ctx, name)
		return err
	})
	return data, err
}

// Rows of a kind go on from file to file.
func TestFilesEndWithTheirBytes(t *testing.T) {
	d := newDatabase(t, 12)
	o := options(t, d, Directory(t.TempDir()))
	a := New(o)
	a.goal, a.group = 1, 400
	archiveAll(t, a)
	v := verified(t, o.Store)
	m, err := next(t.Context(), o.Store, chainID, nil)
	if err != nil || len(v.Findings) > 0 || v.Changes != uint64(len(d.changes)) || len(m.Files) < 12 {
		t.Errorf("%d files, %+v, %v", len(m.Files), v, err)
	}
	for _, tx := range d.transactions {
		if _, err := Receipt(t.Context(), o.Store, chainID, authorities(t), Wanted{ID: tx.ID, Block: tx.Block}); err != nil {
			t.Error(err)
		}
	}
}

// memory is a store that keeps files in memory.
type memory map[string][]byte

func (m memory) String() string { return "memory" }

func (m memory) Put(_ context.Context, name string, data []byte) error {
	if kept, there := m[name]; there && !bytes.Equal(kept, data) {
		return fmt.Errorf("%s: %w", name, ErrAnother)
	}
	m[name] = bytes.Clone(data)
	return nil
}

func (m memory) Get(_ context.Context, name string) ([]byte, error) {
	data, there := m[name]
	if !there {
		return nil, os.ErrNotExist
	}
	return bytes.Clone(data), nil
}

// After a crash at any operation the next process goes on, and the archive is the same as without.
// More blocks may have been certified in between.
func TestACrashLosesNothingAndRepeatsNothing(t *testing.T) {
	whole := verified(t, archived(t, newDatabase(t, 7)))
	for at := 1; ; at++ {
		reached := false
		for _, after := range []bool{false, true} {
			if crashes(t, at, after, whole) {
				reached = true
			}
		}
		if !reached {
			if at < 20 {
				t.Errorf("the last operation is %d", at)
			}
			return
		}
	}
}

// crashes archives with a crash at an operation, and goes on after it; false: there are fewer
// operations.
func crashes(t *testing.T, at int, after bool, want Verdict) bool {
	t.Helper()
	d := newDatabase(t, 7)
	d.head.Certified = 5
	store := memory{}
	o := options(t, d, store)
	o.RangeBlocks = 4
	crashing := o
	crashing.Store = &broken{Store: store, at: at, after: after}
	a := New(crashing)
	err := a.Run(t.Context(), 0, func(*Manifest) {})
	if err != nil && !errors.Is(err, errCrash) && !errors.Is(err, ErrFalse) {
		t.Fatal(err)
	}
	d.head.Certified = 7
	archiveAll(t, New(o))
	if v := verified(t, store); len(v.Findings) > 0 || v.Changes != want.Changes || v.Hash != want.Hash || d.head.Archived != 7 {
		t.Fatalf("crash at %d, after %t: %+v, %+v, want %+v", at, after, v, d.head, want)
	}
	return err != nil
}

// A run ends with the blocks that were certified when it began, though more are certified while a
// range is written.
func TestARunEndsWhileTheChainGrows(t *testing.T) {
	d := newDatabase(t, 9)
	d.head.Certified = 3
	a := New(options(t, d, memory{}))
	grows := func(last *[]uint64) func(*Manifest) {
		return func(m *Manifest) {
			*last = append(*last, m.Last)
			d.head.Certified = min(9, d.head.Certified+2)
		}
	}
	for _, want := range []uint64{3, 5, 7, 9} {
		var last []uint64
		if err := a.Run(t.Context(), 0, grows(&last)); err != nil || !slices.Equal(last, []uint64{want}) {
			t.Fatalf("a run archived up to %d, want one range up to %d: %v", last, want, err)
		}
	}
	must.Do(t, a.Run(t.Context(), 0, func(m *Manifest) { t.Errorf("blocks up to %d are archived twice", m.Last) }))
}

// Files that a crash left half written are cleared away.
func TestUnfinishedFilesGo(t *testing.T) {
	store := Directory(t.TempDir())
	left := filepath.Join(string(store), unfinished+"1")
	must.Do(t, os.WriteFile(left, []byte("half"), 0o600))
	unlock, err := store.Lock()
	must.Do(t, err)
	unlock()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A second process does not archive in the same directory.
func TestOneProcessArchivesInADirectory(t *testing.T) {
	d := Directory(t.TempDir())
	unlock, err := d.Lock()
	must.Do(t, err)
	if _, err := d.Lock(); err == nil {
		t.Error("two have it")
	}
	unlock()
	if unlock, err = d.Lock(); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
}

// A database that does not hold what was certified is not archived.
func TestAFalseDatabaseIsNotArchived(t *testing.T) {
	for what, damage := range map[string]func(d *database){
		"effects root":      func(d *database) { d.changes[5].Row = bytes.Replace(d.changes[5].Row, []byte("na"), []byte("no"), 1) },
		"effects count":     func(d *database) { d.changes = append(d.changes[:3], d.changes[4:]...) },
		"order":             func(d *database) { d.changes[0], d.changes[1] = d.changes[1], d.changes[0] },
		"transaction id":    func(d *database) { d.transactions[2].ID[0]++ },
		"transaction count": func(d *database) { d.transactions = d.transactions[:len(d.transactions)-1] },
		"outcome":           func(d *database) { d.transactions[1].Succeeded = true },
		"hash":              func(d *database) { d.blocks[3].Header.BlockTime++ },
		"certificate":       func(d *database) { d.blocks[3].Votes = d.blocks[3].Votes[:1] },
		"previous hash":     func(d *database) { d.blocks[3].Header.Previous[0]++ },
		"block":             func(d *database) { d.blocks = append(d.blocks[:3], d.blocks[4:]...) },
	} {
		d := newDatabase(t, 9)
		damage(d)
		store := Directory(t.TempDir())
		_, err := New(options(t, d, store)).Step(t.Context(), 0)
		if !errors.Is(err, ErrFalse) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := store.Get(t.Context(), ManifestName(chainID, 1)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: there is a manifest: %v", what, err)
		}
	}
}

// tamper changes one file of an archive.
func tamper(t *testing.T, store Directory, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(string(store), name)
	data, err := os.ReadFile(path)
	must.Do(t, err)
	must.Do(t, os.Remove(path))
	if data = change(data); data == nil {
		return
	}
	must.Do(t, os.WriteFile(path, data, 0o600))
}

func flip(data []byte) []byte {
	data[len(data)/2] ^= 1
	return data
}

func swap(from, to string) func([]byte) []byte {
	return func(data []byte) []byte { return bytes.Replace(data, []byte(from), []byte(to), 1) }
}

// Each kind of change to an archive is found and named.
func TestTamperingIsFound(t *testing.T) {
	first, second := chainID+".000000000001.", chainID+".000000000011."
	for _, c := range []struct {
		file   string
		change func([]byte) []byte
		what   string // that the first finding of the file says
	}{
		{first + "blocks.0001.parquet", flip, "sha256"},
		{first + "votes.0001.parquet", flip, "sha256"},
		{first + "transactions.0001.parquet", flip, "sha256"},
		{first + "changes.0001.parquet", flip, "sha256"},
		{first + "columns.0001.parquet", flip, "sha256"},
		{second + "changes.0001.parquet", func([]byte) []byte { return nil }, "file"},
		{second + "changes.0001.parquet", func(b []byte) []byte { return b[:len(b)-9] }, "sha256"},
		{first + "manifest.json", swap(`"rows": 10`, `"rows": 11`), "signature"},
		{first + "manifest.json", swap(`"organisation": "acme"`, `"organisation": "bolt"`), "signature"},
		{first + "manifest.json", swap(`"first": 1`, `"first": 2`), "manifest"},
		{second + "manifest.json", swap(`"previous": "`, `"previous": "00`), "manifest"},
		{first + "manifest.json", swap(`{`, `{"more": 1,`), "manifest"},
		{second + "manifest.json", func([]byte) []byte { return nil }, ""},
		{first + "manifest.json", func([]byte) []byte { return nil }, ""},
	} {
		store := archived(t, newDatabase(t, 25))
		tamper(t, store, c.file, c.change)
		v := verified(t, store)
		if len(v.Findings) == 0 {
			t.Errorf("%s, %s: nothing is found", c.file, c.what)
			continue
		}
		named := false
		for _, f := range v.Findings {
			named = named || f.File == c.file && f.What == c.what
		}
		if !named && c.what != "" {
			t.Errorf("%s: %v, want %s", c.file, v.Findings, c.what)
		}
	}
}

// Before blocks are dropped their ranges are read again.
func TestALostFileIsSeenBeforeBlocksAreDropped(t *testing.T) {
	d := newDatabase(t, 25)
	store := archived(t, d)
	holds := func(after, to uint64) error { return New(options(t, d, store)).Holds(t.Context(), after, to) }
	if err := holds(0, 25); err != nil {
		t.Error(err)
	}
	if err := holds(0, 26); !errors.Is(err, ErrFalse) {
		t.Error(err)
	}
	tamper(t, store, chainID+".000000000011.changes.0001.parquet", flip)
	if err := holds(0, 10); err != nil {
		t.Error(err)
	}
	if err := holds(0, 11); !errors.Is(err, ErrFalse) {
		t.Error(err)
	}
	if err := holds(20, 25); err != nil {
		t.Error(err)
	}
}

// An organisation that signs a false archive is found out by the certificates of the others.
func TestASignedLieIsFound(t *testing.T) {
	for what, lie := range map[string]func(*Manifest, *fileSet, *database) error{
		"effects root": func(_ *Manifest, set *fileSet, d *database) error {
			d.changes[5].Row = bytes.Replace(d.changes[5].Row, []byte("na"), []byte("no"), 1)
			return nil
		},
		"outcome":       func(_ *Manifest, _ *fileSet, d *database) error { d.transactions[0].Succeeded = false; return nil },
		"hash":          func(_ *Manifest, _ *fileSet, d *database) error { d.blocks[4].Header.StateRoot[0]++; return nil },
		"previous hash": func(_ *Manifest, _ *fileSet, d *database) error { d.blocks[4].Header.Previous[0]++; return nil },
	} {
		d := newDatabase(t, 10)
		store := Directory(t.TempDir())
		a := New(options(t, d, store))
		m, err := a.begin(d.head, 0)
		must.Do(t, err)
		set := &fileSet{store: store, chainID: chainID, first: 1, goal: fileBytesGoal, group: groupBytes}
		must.Do(t, lie(m, set, d))
		c := &checker{findings: &findings{}, authorities: authorities(t), first: 1}
		all, err := writeColumns(t.Context(), d, set, m)
		if err == nil {
			err = errors.Join(writeBlocks(t.Context(), d, m, set, c), writeTransactions(t.Context(), d, set, c), writeChanges(t.Context(), d, set, c, all))
		}
		must.Do(t, err)
		m.Files, m.Hash = set.files, d.blocks[9].Hash[:]
		m.Sign(keyOf("acme gateway"))
		must.Do(t, putManifest(t.Context(), store, m))
		v := verified(t, store)
		if len(v.Findings) == 0 || v.Findings[0].What != what {
			t.Errorf("%s: %v", what, v.Findings)
		}
	}
}

func TestReceiptsOfArchivedTransactionsHold(t *testing.T) {
	d := newDatabase(t, 25)
	store := archived(t, d)
	a := authorities(t)
	for _, tx := range d.transactions {
		r, err := Receipt(t.Context(), store, chainID, a, Wanted{ID: tx.ID})
		if err != nil || r.Transaction.Outcome != tx.Succeeded {
			t.Fatalf("block %d: %v", tx.Block, err)
		}
	}
	c := d.changes[len(d.changes)-1]
	w := Wanted{Block: c.Block, Table: c.Table, Key: c.Key}
	for _, tx := range d.transactions {
		if tx.Block == c.Block && tx.Index == c.Tx {
			w.ID = tx.ID
		}
	}
	r, err := Receipt(t.Context(), store, chainID, a, w)
	if err != nil || r.Change == nil || !bytes.Equal(r.Change.Row, c.Row) {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := Receipt(t.Context(), store, chainID, a, Wanted{ID: wire.TxID{1}}); !errors.Is(err, ErrNotArchived) {
		t.Error(err)
	}
	w.Key = []byte("other")
	if _, err := Receipt(t.Context(), store, chainID, a, w); !errors.Is(err, ErrNotArchived) {
		t.Error(err)
	}
}

func TestFetchGivesRowsByName(t *testing.T) {
	store := archived(t, newDatabase(t, 25))
	var got []string
	for _, kind := range []string{Blocks, Transactions, Changes} {
		n := 0
		err := Fetch(t.Context(), store, chainID, authorities(t), Slice{Kind: kind, From: 9, To: 12}, func(r *Row) error {
			if n++; kind == Changes && n == 1 {
				got = append(got, string(r.Cells))
			}
			return nil
		})
		must.Do(t, err)
		got = append(got, fmt.Sprint(kind, n))
	}
	want := []string{"blocks4", "transactions7", `{"id":0,"name":"naïve \"<&>\"","paid":9.5}`, "changes10"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
