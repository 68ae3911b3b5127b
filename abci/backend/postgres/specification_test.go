package postgres

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

// spec/sql-api.md is all there is for users and nodes: it names every function and view of their
// schemas, with every column of a view.
func TestTheSpecificationNamesEveryObject(t *testing.T) {
	dsn := database(t, setup)
	raw, err := os.ReadFile("../../../spec/sql-api.md")
	must.Do(t, err)
	words := map[string]bool{}
	for _, word := range regexp.MustCompile(`[A-Za-z_]+`).FindAllString(string(raw), -1) {
		words[word] = true
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `
		SELECT n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('chainify', 'chainify_node')
		UNION SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'chainify'
		UNION SELECT n.nspname || '.' || c.relname || '.' || a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
			JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'chainify' AND a.attnum > 0
		UNION SELECT 'setting.' || s.name FROM pg_settings s WHERE s.name LIKE 'chainify.%' ORDER BY 1`)
	must.Do(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 100 {
		t.Fatalf("%d objects, %v", len(names), err)
	}
	for _, name := range names {
		if last := name[strings.LastIndexByte(name, '.')+1:]; !words[last] {
			t.Errorf("spec/sql-api.md does not name %s", name)
		}
	}
}
