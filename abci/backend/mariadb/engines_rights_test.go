package mariadb_test

import (
	"os"
	"testing"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A write set needs the same rights in both engines, of its changes and of the rows that it looked
// for.
func TestEnginesAgreeOnRightsOfWriteSets(t *testing.T) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	for _, e := range engines {
		e.commit(t, enginesBlock(1, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.items ENCODING 2"}))
	}
	encode := func(columns ...canonical.Column) []byte {
		raw, err := canonical.AppendRow(nil, columns)
		must.Do(t, err)
		return raw
	}
	id := func(n int64) canonical.Column {
		return canonical.Column{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: n}}
	}
	name := func(s string) canonical.Column {
		return canonical.Column{Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: s}}
	}
	first := wire.RowHash("public.items", encode(id(1), name("first")))
	seen := map[string][]wire.RowSeen{
		"nothing":    nil,
		"a row":      {{Key: encode(id(1)), Present: true, Hash: first}},
		"no row":     {{Key: encode(id(1000))}},
		"other rows": {{Key: encode(id(1)), Present: true, Hash: wire.Hash{1}}},
	}
	n := uint64(2)
	for _, role := range []string{"engines_ops", "engines_keys", "engines_write", "engines_none"} {
		for looked, rows := range seen {
			s := wire.WriteSet{
				Isolation: wire.RepeatableRead, Snapshot: n - 1, Tables: []string{"public.items"}, Seen: rows,
				Changes: []wire.RowChange{{Op: 'I', Row: encode(id(int64(100+n)), name("x"))}},
			}
			p := func() *wire.Proposal {
				return &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode(), Client: &wire.Client{Organisation: "a", Role: role}}
			}
			a, b := engines[0].commit(t, enginesBlock(n, p())), engines[1].commit(t, enginesBlock(n, p()))
			if a.Hash != b.Hash {
				t.Fatalf("%s saw %s: PostgreSQL %+v, MariaDB %+v", role, looked, a.Results[0], b.Results[0])
			}
			reads := role == "engines_ops" || role == "engines_keys" || looked == "nothing"
			if want := looked != "other rows" && reads && role != "engines_none"; b.Results[0].Succeeded != want {
				t.Errorf("%s saw %s: %+v", role, looked, b.Results[0])
			}
			n++
		}
	}
}
