package postgres

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

const referencePath = "../../../docs/sql-reference.md"

// Each query of referenceParts gives a table of the page; a cell that is NULL is something without
// a comment.
var referenceParts = []struct{ heading, columns, sql string }{
	{"Functions", "function | returns |", `
		SELECT format('**%s**(%s)', p.proname, pg_get_function_arguments(p.oid)), pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc')
		FROM pg_proc p WHERE p.pronamespace = 'chainify'::regnamespace ORDER BY p.proname, 1`},
	{"Views", "view | columns |", `
		SELECT format('**%s**', c.relname), (SELECT string_agg(format('%s %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY a.attnum)
			FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), obj_description(c.oid, 'pg_class')
		FROM pg_class c WHERE c.relnamespace = 'chainify'::regnamespace AND c.relkind = 'v' ORDER BY 1`},
	{"Settings", "setting | default; who may set it |", `
		SELECT format('**%s**', s.name), format('%s; %s', CASE WHEN s.boot_val = '' THEN 'empty' ELSE s.boot_val || coalesce(' ' || s.unit, '') END, s.context),
			concat_ws(' ', s.short_desc, s.extra_desc)
		FROM pg_settings s WHERE s.name LIKE 'chainify.%' AND s.name NOT IN ('chainify.crash_point', 'chainify.debug_parts', 'chainify.debug_turns', 'chainify.panic_in') ORDER BY 1`},
	{"Schemas", "schema |", `
		SELECT format('**%s**', n.nspname), obj_description(n.oid, 'pg_namespace') FROM pg_namespace n WHERE n.nspname LIKE 'chainify%' ORDER BY 1`},
}

// docs/sql-reference.md is what the catalog says. UPDATE_EXPECTED=1 writes it.
func TestTheSQLReferenceIsOfTheCatalog(t *testing.T) {
	conn, err := pgx.Connect(t.Context(), database(t, setup))
	must.Do(t, err)
	defer conn.Close(t.Context())
	var page strings.Builder
	page.WriteString("# SQL reference\n<!-- Made from the catalog's comments (extension/sql/90_comments.sql) by TestTheSQLReferenceIsOfTheCatalog: what is changed here is lost. -->\n\n" +
		"The installed functions, views and settings, in the words that `\\df+` and `\\dv+` of psql show. Their use: [user guide](user/README.md). Errors, bounds and every column: [spec/sql-api.md](../spec/sql-api.md).\n")
	for _, part := range referenceParts {
		fmt.Fprintf(&page, "\n## %s\n| %s |\n|%s\n", part.heading, part.columns, strings.Repeat("---|", strings.Count(part.columns, "|")+1))
		rows, err := conn.Query(t.Context(), part.sql)
		must.Do(t, err)
		for rows.Next() {
			cells, err := rows.Values()
			must.Do(t, err)
			for _, cell := range cells {
				text, is := cell.(string)
				if !is || strings.TrimSpace(text) == "" {
					t.Errorf("%v has no comment", cells[0])
				}
				page.WriteString("| " + strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(text) + " ")
			}
			page.WriteString("|\n")
		}
		must.Do(t, rows.Err())
	}
	if os.Getenv("UPDATE_EXPECTED") != "" {
		must.Do(t, os.WriteFile(referencePath, []byte(page.String()), 0o644))
	}
	kept, err := os.ReadFile(referencePath)
	if err != nil || string(kept) != page.String() {
		t.Errorf("%s is not what the catalog says (%v); UPDATE_EXPECTED=1 rewrites it", referencePath, err)
	}
}
