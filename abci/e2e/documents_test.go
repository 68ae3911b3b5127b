package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
)

const (
	tutorial = "tutorial-trades.md"  // run by TestTutorialTrades
	setUp    = "operator/install.md" // its SQL prepares a database
)

// sqlBlock is SQL of a document, with the comment before it that says as which role it runs, and
// what has to be there:
//
//	<!-- as ROLE -->  or  <!-- as ROLE, after: SQL of the superuser -->
type sqlBlock struct{ document, role, before, sql string }

var sqlBlocks = regexp.MustCompile("(?s)(<!--[^>]*?-->\n)?```sql\n(.*?)```")

var links = regexp.MustCompile(`\]\(([A-Za-z/-]+\.md)\)`)

// reading lists the documents in the order in which the index links to them, which is the order in
// which a reader meets their SQL.
func reading(t *testing.T, docs string) (documents []string) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	must(t, err)
	for _, link := range links.FindAllStringSubmatch(string(index), -1) {
		if !slices.Contains(documents, link[1]) {
			documents = append(documents, link[1])
		}
	}
	must(t, filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(docs, path)
		if filepath.Ext(path) == ".md" && name != "README.md" && !slices.Contains(documents, name) {
			t.Errorf("docs/README.md has no link to %s", name)
		}
		return err
	}))
	return documents
}

// documentedSQL gives the blocks of all documents, README first, and then in the order of the
// index.
func documentedSQL(t *testing.T) (blocks []sqlBlock) {
	t.Helper()
	docs := filepath.Join("..", "..", "docs")
	saysHow := regexp.MustCompile(`(?s)^<!-- as (\w+)(?:, after:(.*))?\s-->\n$`)
	for _, document := range append([]string{"../README.md"}, reading(t, docs)...) {
		if document == tutorial {
			continue
		}
		text, err := os.ReadFile(filepath.Join(docs, document))
		must(t, err)
		for _, found := range sqlBlocks.FindAllStringSubmatch(string(text), -1) {
			how := saysHow.FindStringSubmatch(found[1])
			if how == nil {
				t.Errorf("%s: no comment <!-- as ROLE --> says who runs\n%s", document, found[2])
				continue
			}
			blocks = append(blocks, sqlBlock{document, how[1], how[2], found[2]})
		}
	}
	return blocks
}

// Every block of SQL in the documents runs, one after the other, and none of its transactions
// fails.
func TestTheSQLOfTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	blocks := documentedSQL(t)
	if len(blocks) < 10 {
		t.Fatalf("the documents have %d blocks of SQL", len(blocks))
	}
	net := emptyNetwork(ctx, t, harness.Config{Organisations: []string{"acme"}})
	acme := net.Organisations[0]
	bank := smallbank.Bank{Scripts: filepath.Join("..", "..", "scripts", "smallbank"), Customers: customers}
	// The documents ask for rows of an early block: the base of the checkpoints stays before it.
	must(t, acme.Cluster.Configure(map[string]string{"chainify.checkpoints_kept": "100"}))
	must(t, net.StartDatabases(ctx))
	must(t, bank.Create(ctx, acme))
	// How the extension comes into a database is in the documents as well; here that is an empty
	// one.
	must(t, acme.Exec(ctx, "postgres", "CREATE DATABASE another"))
	must(t, net.EnableChainify(ctx))
	must(t, acme.Exec(ctx, "postgres", "CREATE ROLE dba LOGIN IN ROLE chainify_admin, chainify_reader; GRANT ALL ON accounts, savings, checking TO dba; GRANT CREATE ON SCHEMA public TO dba"))
	must(t, acme.Exec(ctx, "postgres", "ALTER ROLE "+harness.NodeRole+" RENAME TO the_nodes"))
	for _, b := range blocks {
		if b.document == setUp {
			must(t, b.run(ctx, acme, "another"))
		}
	}
	must(t, acme.Exec(ctx, "postgres", "DROP ROLE "+harness.NodeRole+"; ALTER ROLE the_nodes RENAME TO "+harness.NodeRole))
	must(t, net.InitNodes(ctx))
	must(t, net.StartNodes(ctx, readyLimit))
	for _, b := range blocks {
		if b.document != setUp {
			must(t, b.run(ctx, acme, database))
		}
	}
	var failed string
	must(t, acme.Scan(ctx, "SELECT coalesce(string_agg(sql || ': ' || error, E'\n'), '') FROM chainify.transactions WHERE NOT outcome", &failed))
	if failed != "" {
		t.Errorf("transactions of the documents fail:\n%s", failed)
	}
	checkVerified(ctx, t, acme)
}

// run hands the block to psql.
func (b sqlBlock) run(ctx context.Context, o *harness.Organisation, database string) error {
	for _, step := range []struct{ role, sql string }{{"postgres", b.before}, {b.role, b.sql}} {
		psql := exec.CommandContext(ctx, o.Cluster.Bin("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", o.Cluster.DSN(database, step.role))
		psql.Stdin = strings.NewReader(step.sql)
		if out, err := psql.CombinedOutput(); err != nil {
			return fmt.Errorf("%s, as %s: %w\n%s\n%s", b.document, step.role, err, step.sql, out)
		}
	}
	return nil
}
