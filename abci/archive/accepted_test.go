package archive

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// asked is a store in memory that notes for which files it is asked, and fails when that goes on
// without end.
type asked struct {
	memory
	names []string
	// makes gives what is not there, by name; nil: nothing.
	makes func(name string) []byte
}

var errWithoutEnd = errors.New("asked without end")

func (a *asked) Get(ctx context.Context, name string) ([]byte, error) {
	if a.names = append(a.names, name); len(a.names) > 5_000 {
		return nil, errWithoutEnd
	}
	data, err := a.memory.Get(ctx, name)
	if err != nil && a.makes != nil && strings.HasSuffix(name, manifestSuffix) {
		return a.makes(name), nil
	}
	return data, err
}

// uses are all that is done with an archive, each with a new archiver.
func uses(t *testing.T, d *database) map[string]func(Store) error {
	t.Helper()
	return map[string]func(Store) error{
		"step": func(store Store) error {
			_, err := New(options(t, d, store)).Step(t.Context(), 0)
			return err
		},
		"holds": func(store Store) error { return New(options(t, d, store)).Holds(t.Context(), 0, 25) },
		"verify": func(store Store) error {
			v, err := Verify(t.Context(), store, chainID, authorities(t), nil)
			if err == nil && len(v.Findings) > 0 {
				err = ErrFalse
			}
			return err
		},
		"fetch": func(store Store) error {
			return Fetch(t.Context(), store, chainID, authorities(t), Slice{Kind: Changes, From: 1, To: 1 << 40}, func(*Row) error { return nil })
		},
		"receipt": func(store Store) error {
			_, err := Receipt(t.Context(), store, chainID, authorities(t), Wanted{ID: d.transactions[0].ID})
			return err
		},
	}
}

// forge changes a manifest in a store. Without a key it keeps its signature.
func forge(t *testing.T, m memory, first uint64, change func(*Manifest), key string) {
	t.Helper()
	forged, err := ParseManifest(m[ManifestName(chainID, first)])
	must.Do(t, err)
	change(forged)
	if key != "" {
		forged.Sign(keyOf(key))
	}
	if m[ManifestName(chainID, first)], err = forged.encode(); err != nil {
		t.Fatal(err)
	}
}

// No file is read by a manifest that is not signed, or does not follow the one before, and its
// blocks count as archived nowhere.
func TestAForgedManifestIsNotAccepted(t *testing.T) {
	for what, damage := range map[string]func(m memory){
		"unsigned":       func(m memory) { forge(t, m, 1, func(f *Manifest) { f.Files[0].SHA256[0]++ }, "") },
		"by a stranger":  func(m memory) { forge(t, m, 1, func(*Manifest) {}, "a stranger") },
		"not after none": func(m memory) { forge(t, m, 1, func(f *Manifest) { f.Previous[0]++ }, "acme gateway") },
		"no block after": func(m memory) { forge(t, m, 1, func(f *Manifest) { f.PreviousHash[0]++ }, "acme gateway") },
	} {
		d, store := newDatabase(t, 25), memory{}
		archiveAll(t, New(options(t, d, store)))
		d.head.Archived = 0
		damage(store)
		for use, do := range uses(t, d) {
			a := &asked{memory: store}
			if err := do(a); !errors.Is(err, ErrFalse) {
				t.Errorf("%s, %s: %v", what, use, err)
			}
			if len(a.names) > 2 || strings.HasSuffix(a.names[len(a.names)-1], ".parquet") || d.head.Archived != 0 {
				t.Errorf("%s, %s: %q were read, archived up to %d", what, use, a.names, d.head.Archived)
			}
		}
	}
}

// A forged range after the newest one is not archived over.
func TestAForgedManifestLeavesNoHole(t *testing.T) {
	d, store := newDatabase(t, 40), memory{}
	d.head.Certified = 25
	archiveAll(t, New(options(t, d, store)))
	d.head.Certified = 40
	m := &Manifest{Version: 1, ChainID: chainID, Organisation: "acme", First: 26, Last: 40, Previous: make([]byte, 32), PreviousHash: make([]byte, 32), Hash: d.blocks[39].Hash[:], Signature: make([]byte, 64)}
	text, err := m.encode()
	must.Do(t, err)
	store[ManifestName(chainID, 26)] = text
	if _, err := New(options(t, d, store)).Step(t.Context(), 0); !errors.Is(err, ErrFalse) || d.head.Archived != 25 {
		t.Errorf("%v, archived up to %d", err, d.head.Archived)
	}
	delete(store, ManifestName(chainID, 26))
	if archiveAll(t, New(options(t, d, store))); d.head.Archived != 40 {
		t.Errorf("without it: archived up to %d", d.head.Archived)
	}
}

// A store that has a manifest of every name is left after some, whoever signed them.
func TestAListWithoutEndIsLeft(t *testing.T) {
	for _, key := range []string{"", "acme gateway"} {
		d := newDatabase(t, 25)
		for use, do := range uses(t, d) {
			before := &Manifest{Version: 1, ChainID: chainID, Organisation: "acme", Previous: make([]byte, 32), PreviousHash: make([]byte, 32), Hash: make([]byte, 32), Signature: make([]byte, 64)}
			store := &asked{memory: memory{}, makes: func(name string) []byte {
				m := *before
				m.First, m.Last = before.Last+1, before.Last+1
				if before.Last > 0 {
					m.Previous = before.digest()
				}
				if name == ManifestName(chainID, 1) { // it may be asked for again
					m.First, m.Last, m.Previous = 1, 1, make([]byte, 32)
				}
				if key != "" {
					m.Sign(keyOf(key))
				}
				before = &m
				text, err := json.Marshal(&m)
				must.Do(t, err)
				return text
			}}
			err := do(store)
			bounded := key == "" || use == "step" || use == "holds" || use == "verify" // else it takes the signer's own word
			if bounded && (err == nil || errors.Is(err, errWithoutEnd)) {
				t.Errorf("signed by %q, %s: %v", key, use, err)
			}
		}
	}
}
