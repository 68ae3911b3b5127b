package engines

import (
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/backend/postgres"
)

func TestTheConnectionStringNamesTheEngine(t *testing.T) {
	my, err := Open(Options{DSN: "mysql://node@/shop?socket=/nonexistent", SynchronousCommit: "on"})
	if _, ok := my.(*mariadb.Backend); !ok || err != nil {
		t.Errorf("%T %v", my, err)
	}
	pg, err := Open(Options{DSN: "host=/nonexistent dbname=shop", SynchronousCommit: "off"})
	if _, ok := pg.(*postgres.Backend); !ok || err != nil {
		t.Errorf("%T %v", pg, err)
	}
	for dsn, want := range map[string]string{"mysql://node@/shop": "neither a host nor a socket", "mysql://node@/shop?socket=/x": "innodb_flush_log_at_trx_commit", "host=/x port=no": "port"} {
		commit := map[bool]string{true: "off", false: "on"}[strings.Contains(dsn, "socket")]
		if b, err := Open(Options{DSN: dsn, SynchronousCommit: commit}); b != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v, want %q", dsn, b, err, want)
		}
	}
	all, err := Offered("mysql://node@/shop?socket=/x", backend.Steps())
	if err != nil || slices.Contains(all, backend.Full) || !slices.Contains(all, backend.State) {
		t.Error(all, err)
	}
	if _, err := Offered("mysql://node@/shop?socket=/x", []backend.Step{backend.Full}); err == nil {
		t.Error("no step is left")
	}
	if err := Needs("mysql://node@/shop?socket=/x", "the explorer"); err == nil || Needs("host=/x", "the explorer") != nil {
		t.Error("what needs PostgreSQL")
	}
}
