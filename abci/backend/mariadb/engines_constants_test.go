package mariadb_test

import (
	"os"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/wire"
)

// Spellings of constants that servers read in ways of their own have one outcome, and one value.
func TestEnginesAgreeOnAwkwardConstants(t *testing.T) {
	pg, my := os.Getenv("CHAINIFY_TEST_PG"), os.Getenv("CHAINIFY_TEST_MARIADB")
	if pg == "" || my == "" {
		t.Skip("CHAINIFY_TEST_PG and CHAINIFY_TEST_MARIADB are not both set; `make test-mariadb` sets them")
	}
	engines := []*engine{openPostgres(t, pg), openMariaDB(t, my)}
	for _, e := range engines {
		e.commit(t, enginesBlock(1, &wire.Proposal{Kind: wire.Kind_KIND_DEPLOY, Sql: "ATTACH TABLE public.v, public.items, public.longest ENCODING 2"}))
	}
	var longestKey strings.Builder // characters of four bytes that no compression makes shorter
	for i := range 648 {
		longestKey.WriteRune(rune(0x20000 + i*7919%0xa000))
	}
	zeros := func(n int) string { return strings.Repeat("0", n) }
	cases := []struct {
		sql, logical, text string
		runs               bool
	}{
		{"INSERT INTO v (id, n) VALUES (1, $1)", "numeric", "123456.785e0", true},
		{"INSERT INTO v (id, n) VALUES (2, $1)", "", "-100000000.5e-1", true},
		{"INSERT INTO v (id, n) VALUES (3, $1)", "numeric", "0.004" + strings.Repeat("9", 90), true},
		{"INSERT INTO v (id, n) VALUES (4, $1)", "numeric", "0e-16384", false},
		{"INSERT INTO v (id, n) VALUES (5, $1)", "numeric", "0e1073741823", false},
		{"INSERT INTO v (id, n) VALUES (6, 1.00), (7, -1.00), (8, 0)", "", "", true},
		{"UPDATE v SET n = 0.3 WHERE id = 8", "", "", true},
		{"UPDATE v SET n = 9 WHERE n < $1 AND id = 8", "numeric", "0.30000000000000000001e0", true},
		{"UPDATE v SET n = n - $1 WHERE id = 6", "numeric", "0.005" + zeros(69) + "1", false},
		{"UPDATE v SET n = n - $1 WHERE id = 6", "numeric", "0.005" + zeros(68) + "1", true},
		{"UPDATE v SET n = n - $1 WHERE id = 6", "numeric", "0.005" + zeros(60) + "1", true},
		{"UPDATE v SET n = n + 1" + zeros(90) + " WHERE id = 100", "", "", true},
		{"UPDATE v SET i = 1 WHERE n > 0." + zeros(90) + "1", "", "", false},
		{"UPDATE v SET i = 2 WHERE n > $1", "", "1e-91", false},
		{"UPDATE v SET i = 3 WHERE n > 0." + zeros(71) + "1", "", "", true},
		{"UPDATE v SET i = i + 1 WHERE n < 1" + zeros(90) + ".5", "", "", true},
		{"INSERT INTO v (id, d) VALUES (10, $1)", "", "1_000.5", false},
		{"INSERT INTO v (id, d) VALUES (11, $1)", "double precision", "1e-400", false},
		{"INSERT INTO v (id, d) VALUES (12, $1)", "", "0x1p-1080", false},
		{"INSERT INTO v (id, d) VALUES (13, $1)", "", "0x1p-2", true},
		{"INSERT INTO v (id, d) VALUES (14, $1)", "", "3e-324", true},
		{"INSERT INTO v (id, d) VALUES (15, $1)", "", "0e-400", true},
		{"INSERT INTO v (id, ts) VALUES (16, '2024-02-29 12:00:00,5')", "", "", false},
		{"INSERT INTO v (id, tz) VALUES (17, '2024-02-29 12:00:00,5+00')", "", "", false},
		{"INSERT INTO v (id, ts) VALUES (18, '2024-02-29   1:00:00.5')", "", "", true},
		{"INSERT INTO v (id, j) VALUES (19, " + deepJSON(31) + ")", "", "", true},
		{"INSERT INTO longest (id, k) VALUES (1, $1)", "text", longestKey.String(), true},
		{"INSERT INTO v (id, j) VALUES (20, " + deepJSON(32) + ")", "", "", false},
		{"INSERT INTO v (id, j) VALUES (21, '[\"[[\\\\\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"]')", "", "", true},
	}
	for n, c := range cases {
		p := func() *wire.Proposal {
			p := &wire.Proposal{Kind: wire.Kind_KIND_SQL, Sql: c.sql}
			if c.text != "" {
				p.Parameters = []*wire.Parameter{{Type: c.logical, Text: c.text}}
			}
			return p
		}
		a, b := engines[0].commit(t, enginesBlock(uint64(n+2), p())), engines[1].commit(t, enginesBlock(uint64(n+2), p()))
		x, y := a.Results[0], b.Results[0]
		if a.Hash != b.Hash {
			t.Fatalf("%s %s: PostgreSQL %+v, MariaDB %+v", c.sql, c.text, x, y)
		}
		if x.Succeeded != c.runs || y.Succeeded != c.runs || !c.runs && (x.SQLState != "CH011" || y.SQLState != "CH011") {
			t.Errorf("%s %s: PostgreSQL %+v, MariaDB %+v", c.sql, c.text, x, y)
		}
	}
}
