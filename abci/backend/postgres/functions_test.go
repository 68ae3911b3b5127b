package postgres

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

// lookedAt gives each function that the lists of the rules can name, as they write it. It has an
// argument of no type internal: no query calls such a one.
const lookedAt = `
SELECT DISTINCT CASE WHEN x.extname IS NOT NULL THEN x.extname WHEN p.provolatile = 'i' THEN 'immutable' ELSE 'stable' END || '.' || p.proname
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
LEFT JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' AND p.oid >= 16384
LEFT JOIN pg_extension x ON x.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
WHERE p.prokind = 'f' AND NOT 'internal'::regtype = ANY (p.proargtypes)
  AND (p.oid < 16384 AND p.pronamespace = 'pg_catalog'::regnamespace AND p.provolatile IN ('i', 's')
       OR x.extname = ANY ($1) AND l.lanname IN ('c', 'internal') AND p.provolatile = 'i')`

// Each function of PostgreSQL 15 and of the extensions whose functions may be called is on a list:
// of those allowed, or of those looked at and refused. Nothing else is on one.
func TestEachFunctionOfPostgreSQL15IsOnAList(t *testing.T) {
	dsn := database(t, "")
	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer func() { _ = conn.Close(t.Context()) }()
	var version int
	must.Do(t, conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&version))
	if version != 15 {
		t.Skip("the lists are those of PostgreSQL 15")
	}
	listed := map[string]string{}
	extensions := map[string]bool{}
	for file, prefix := range map[string]string{"immutable": "immutable.", "stable": "stable.", "extensions": "", "refused": ""} {
		for _, word := range words(t, file) {
			word = prefix + word
			if other, found := listed[word]; found {
				t.Errorf("%s is in %s and in %s", word, file, other)
			}
			listed[word] = file
			if of, _, _ := strings.Cut(word, "."); of != "immutable" && of != "stable" {
				extensions[of] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(extensions))
	for _, extension := range names {
		if _, err := conn.Exec(t.Context(), "CREATE EXTENSION IF NOT EXISTS "+pgx.Identifier{extension}.Sanitize()+" CASCADE"); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.Query(t.Context(), lookedAt, names)
	must.Do(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.Do(t, err)
	for _, name := range found {
		if _, ok := listed[name]; !ok {
			t.Errorf("%s is on no list: allow it, or put it into refused.txt", name)
		}
		delete(listed, name)
	}
	for name, file := range listed {
		t.Errorf("%s of %s.txt: there is no such function", name, file)
	}
}

// words gives those of a list of the rules.
func words(t *testing.T, list string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "crates", "rules", "src", "functions", list+".txt"))
	must.Do(t, err)
	return strings.Fields(string(text))
}
