package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// liar archives what a database says, without a check, as an organisation can that changed its
// program.
func liar(t *testing.T, d *database, change func(*Manifest)) Directory {
	t.Helper()
	store := Directory(t.TempDir())
	a := New(options(t, d, store))
	m, err := a.begin(d.head, 0)
	must.Do(t, err)
	must.Do(t, a.write(t.Context(), m, authorities(t), nil))
	change(m)
	m.Sign(keyOf("acme gateway"))
	must.Do(t, putManifest(t.Context(), store, m))
	return store
}

func swapNames(d *database) {
	d.columns[1].Name, d.columns[2].Name = d.columns[2].Name, d.columns[1].Name
}

// fetched are the first row of a table's changes, and why there is none.
func fetched(t *testing.T, store Store) (row Row, err error) {
	t.Helper()
	err = Fetch(t.Context(), store, chainID, authorities(t), Slice{Kind: Changes, From: 1, To: 9}, func(r *Row) error {
		row = *r
		return errEnough
	})
	return row, err
}

// An organisation that swaps the names of two columns, and signs that, is found out by the state
// root of a block that the others certified.
func TestSwappedNamesAreFound(t *testing.T) {
	d := newDatabase(t, 9)
	swapNames(d)
	if _, err := New(options(t, d, Directory(t.TempDir()))).Step(t.Context(), 0); !errors.Is(err, ErrFalse) || !strings.Contains(err.Error(), `column 2 of public.t is "paid"`) {
		t.Errorf("an honest program archives them: %v", err)
	}
	store := liar(t, d, func(*Manifest) {})
	v := verified(t, store)
	if len(v.Findings) != 1 || v.Findings[0].What != "names" || !strings.Contains(v.Findings[0].Detail, "public.t") {
		t.Errorf("%+v", v)
	}
	if row, err := fetched(t, store); !errors.Is(err, ErrFalse) {
		t.Errorf("a reader is shown %s: %v", row.Cells, err)
	}
}

// Cells by other names than the proven ones are found, though the names themselves are right.
func TestCellsByOtherNamesAreFound(t *testing.T) {
	d := newDatabase(t, 9)
	store := Directory(t.TempDir())
	m, err := New(options(t, d, store)).begin(d.head, 0)
	must.Do(t, err)
	set := &fileSet{store: store, chainID: chainID, first: 1, goal: fileBytesGoal, group: groupBytes}
	c := &checker{findings: &findings{}, authorities: authorities(t), first: 1}
	all, err := writeColumns(t.Context(), d, set, m)
	must.Do(t, err)
	called := all.tables["public.t"][0].columns
	called[2], called[3] = called[3], called[2]
	must.Do(t, errors.Join(writeBlocks(t.Context(), d, m, set, c), writeTransactions(t.Context(), d, set, c), writeChanges(t.Context(), d, set, c, all)))
	m.Files, m.Hash = set.files, d.blocks[8].Hash[:]
	m.Sign(keyOf("acme gateway"))
	must.Do(t, putManifest(t.Context(), store, m))
	if v := verified(t, store); len(v.Findings) == 0 || v.Findings[0].What != "cells" {
		t.Errorf("%+v", v)
	}
	if row, err := fetched(t, store); !errors.Is(err, ErrFalse) {
		t.Errorf("a reader is shown %s: %v", row.Cells, err)
	}
}

// Names that nothing proves are told, by verification and to readers.
func TestNamesWithoutAProofAreTold(t *testing.T) {
	for what, lies := range map[string]func(d *database, m *Manifest){
		"a manifest of version 1": func(_ *database, m *Manifest) { m.Version, m.Definitions = 1, nil },
		"an invented later version of the table": func(d *database, _ *Manifest) {
			for i := range 3 {
				again := *d.columns[i]
				again.SinceBlock = 9
				d.columns = append(d.columns, &again)
			}
			swapNames(d)
		},
		"a version behind the definitions": func(d *database, _ *Manifest) {
			for i := range 3 {
				again := *d.columns[i]
				again.SinceBlock, again.Name = 99, again.Name+" to be"
				d.columns = append(d.columns, &again)
			}
		},
		"a text with two meanings": func(d *database, m *Manifest) {
			d.states[1].Text += "\ncolumn 2 other text"
			for _, b := range d.blocks {
				root, err := Root(d.statesAt(b.Header.Number))
				must.Do(t, err)
				b.Header.StateRoot = root
			}
			rechain(d)
		},
	} {
		d := newDatabase(t, 9)
		lies(d, &Manifest{})
		store := liar(t, d, func(m *Manifest) {
			if strings.Contains(what, "manifest") {
				lies(d, m)
			}
		})
		v := verified(t, store)
		if len(v.Findings) > 0 || len(v.Unproven) != 1 || v.Unproven[0].First != 1 || !slices.Equal(v.Unproven[0].Tables, []string{"public.t"}) {
			t.Errorf("%s: %+v", what, v)
		}
		if row, err := fetched(t, store); err != nil && !errors.Is(err, errEnough) || !row.NotProven {
			t.Errorf("%s: a reader is shown %+v: %v", what, row, err)
		}
	}
	d := newDatabase(t, 9)
	store := liar(t, d, func(*Manifest) {})
	if row, err := fetched(t, store); err != nil && !errors.Is(err, errEnough) || row.NotProven || len(verified(t, store).Unproven) != 0 {
		t.Errorf("proven names: %+v, %v", row, err)
	}
}

// rechain hashes and certifies the blocks of a database again.
func rechain(d *database) {
	previous := wire.Hash{}
	for _, b := range d.blocks {
		b.Header.Previous = previous
		b.Hash = b.Header.Hash()
		certify(b)
		previous = b.Hash
	}
}

// Definitions hold as those of a certified block that is none before the last of the range.
func TestFalseDefinitionsAreFound(t *testing.T) {
	digest := func(change func(*audit.Receipt)) func(*Definitions) {
		return func(d *Definitions) {
			r, err := audit.Parse(d.Digest)
			must.Do(t, err)
			change(r)
			if d.Digest, err = json.Marshal(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, lie := range map[string]func(*Definitions){
		"state root":                 func(d *Definitions) { d.States[1].Rows++ },
		"they give state root":       func(d *Definitions) { d.States[1].Text += " " },
		"give state root":            func(d *Definitions) { d.States[1].State[0]++ },
		"root":                       func(d *Definitions) { d.States = d.States[1:] },
		"encoding 3":                 func(d *Definitions) { d.States[1].Encoding = 3 },
		"lanes of":                   func(d *Definitions) { d.States[1].State = d.States[1].State[1:] },
		"a hash of 31 bytes":         func(d *Definitions) { d.States[0].State = d.States[0].State[1:] },
		"not after the one before":   func(d *Definitions) { slices.Reverse(d.States) },
		"digest":                     func(d *Definitions) { d.Digest = json.RawMessage(`{}`) },
		"or of a later one":          digest(func(r *audit.Receipt) { r.Block.Number = 8 }),
		"block 9 of chain \"other\"": digest(func(r *audit.Receipt) { r.ChainID = "other" }),
		"block 9: certificate":       digest(func(r *audit.Receipt) { r.Certificate.Votes = r.Certificate.Votes[1:] }),
	} {
		store := liar(t, newDatabase(t, 9), func(m *Manifest) { lie(m.Definitions) })
		v := verified(t, store)
		if len(v.Findings) != 1 || v.Findings[0].What != "definitions" || !strings.Contains(v.Findings[0].Detail, want) || len(v.Unproven) != 1 {
			t.Errorf("%s: %+v", want, v)
		}
		if _, err := fetched(t, store); !errors.Is(err, ErrFalse) {
			t.Errorf("%s: a reader: %v", want, err)
		}
	}
}

// A manifest of version 2 has definitions, one of version 1 has none, and each is signed as such.
func TestTheVersionOfAManifestIsSigned(t *testing.T) {
	store := memory{}
	archiveAll(t, New(options(t, newDatabase(t, 9), store)))
	for want, change := range map[string]func(*Manifest){
		"signature":               func(m *Manifest) { m.Version, m.Definitions = 1, nil },
		"definitions: there true": func(m *Manifest) { m.Version = 1 },
		"there false":             func(m *Manifest) { m.Definitions = nil },
		"version 3":               func(m *Manifest) { m.Version = 3 },
	} {
		changed := maps.Clone(store)
		at := ManifestName(chainID, 1)
		m, err := ParseManifest(changed[at])
		must.Do(t, err)
		change(m)
		if changed[at], err = m.encode(); err != nil {
			t.Fatal(err)
		}
		if v := verified(t, changed); len(v.Findings) == 0 || !strings.Contains(v.Findings[0].String(), want) {
			t.Errorf("%s: %+v", want, v)
		}
	}
}

func TestColumnsOfASchemaText(t *testing.T) {
	for text, want := range map[string]string{
		schemaText: "map[1:id 2:name 3:paid]",
		"column 1 \"a \"\"b\"\"\nc\" integer\ncolumn 12 çà text\nunique btree (çà)": "map[1:a \"b\"\nc 12:çà]",
		"column 1 id bigint\ncolumn 1 other bigint":                                 "map[]",
		"column 1 id bigint\ncolumn 70000 other bigint":                             "map[]",
		"partition public.p column 1 id\ncheck (a = 'column 3 x ')\ncolumn x y z":   "map[]",
	} {
		if got := fmt.Sprint(columnsOf(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if columnsOf("column 1 a b\ncolumn 1 a b") != nil || columnsOf("x") == nil {
		t.Error("a text of two meanings is one without columns")
	}
}

func TestAttachesReadsNamesAsTheExtensionDoes(t *testing.T) {
	for sql, want := range map[string]string{
		"ATTACH TABLE public.a":                          "public.a",
		" attach  table Public . A , \"S\".\"a\"\"b\" ;": "public.a S.a\"b",
		"DETACH TABLE public.a,public.b_2;":              "public.a public.b_2",
		"ATTACH TABLE public.a, public.b ENCODING 2":     "public.a public.b",
		"ATTACH PROCEDURE public.p () ENCODING 2 …":      "",
		"CREATE TABLE attach (a int)":                    "",
		"attach":                                         "",
	} {
		if got := strings.Join(attaches(sql), " "); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}

// Names of now prove nothing of rows from before a table came on the ledger again. Nor do they of
// rows from before a column had another name.
func TestProofsEndWhereATableMayBeAnother(t *testing.T) {
	tables := func() *names {
		n := newNames()
		for _, since := range []uint64{3, 7} {
			n.add(&Column{Table: "public.t", SinceBlock: since, Ordinal: 1, Name: "id"})
		}
		n.tables["public.t"][1].proven = true
		return n
	}
	change := &Change{Table: "public.t", Block: 9}
	said := func(block uint64, name string) *agreed {
		return &agreed{block, map[string]map[uint16]string{"public.t": {1: name}}}
	}
	for what, c := range map[string]struct {
		hold   func(*names)
		proven bool
	}{
		"nothing": {func(*names) {}, true},
		"attached in the version's transaction": {func(n *names) {
			a := attachments{}
			a.take(7, 0, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.t"})
			n.holdBack(a)
		}, true},
		"attached after it": {func(n *names) {
			a := attachments{}
			a.take(7, 1, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.t"})
			n.holdBack(a)
		}, false},
		"a statement that looks so": {func(n *names) {
			a := attachments{}
			a.take(8, 1, &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: "ATTACH TABLE public.t"})
			n.holdBack(a)
		}, true},
		"the same name before":               {func(n *names) { n.holdBackRenamed(said(8, "id"), said(9, "id")) }, true},
		"another name before":                {func(n *names) { n.holdBackRenamed(said(8, "no"), said(9, "id")) }, false},
		"another name of a version before":   {func(n *names) { n.holdBackRenamed(said(6, "no"), said(9, "id")) }, true},
		"no definitions of the range before": {func(n *names) { n.holdBackRenamed(nil, said(9, "id")) }, true},
	} {
		n := tables()
		if c.hold(n); n.proves(change) != c.proven {
			t.Errorf("%s: proven %t", what, n.proves(change))
		}
	}
	if n := tables(); n.proves(&Change{Table: "public.t", Block: 5}) || n.proves(&Change{Table: "public.u", Block: 9}) {
		t.Error("a version before, or another table, is proven")
	}
}

// An archive whose table was attached again says so when it is read from its first block on.
func TestAttachmentsAreReadFromTheArchive(t *testing.T) {
	d := newDatabase(t, 9)
	tx := d.transactions[2]
	decoded, err := wire.DecodeChainedTx(tx.Body)
	if err != nil || !tx.Succeeded || tx.Block != 2 {
		t.Fatalf("%+v, %v", tx, err)
	}
	decoded.Proposal.Kind, decoded.Proposal.Sql = wire.Kind_KIND_DEPLOY, "ATTACH TABLE public.t"
	raw := wire.Encode(decoded.Proposal)
	tx.ID, tx.Body = wire.TxIDOf(raw), wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: raw}})
	var ids []wire.TxID
	for _, other := range d.transactions {
		if other.Block == tx.Block {
			ids = append(ids, other.ID)
		}
	}
	d.blocks[1].Header.TxRoot = wire.TxRoot(ids)
	rechain(d)
	if v := verified(t, liar(t, d, func(*Manifest) {})); len(v.Findings) > 0 || len(v.Unproven) != 1 {
		t.Errorf("%+v", v)
	}
}
