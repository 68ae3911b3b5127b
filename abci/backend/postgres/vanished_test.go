package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/isolated"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// vanishedLimit is far above the limits of a session, and far below the two hours of the kernel.
const vanishedLimit = time.Minute

// All sessions of the node have the server notice a machine that is gone.
func TestSessionsEndWithTheirMachine(t *testing.T) {
	c, err := pgx.ParseConfig("host=db port=1 dbname=ledger")
	must.Do(t, err)
	settle(&c.Config)
	for name, want := range map[string]string{
		"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10000", "client_connection_check_interval": "2000",
	} {
		if found := c.RuntimeParams[name]; found != want {
			t.Errorf("%s is %q, want %s", name, found, want)
		}
	}
}

// A node's machine vanishes: its link is cut, so that no connection is closed. The database gives
// its lock and its open block up, and another node executes the same block. The node finds out as
// well. Both hold while the session rests, and while a statement runs.
//
// Run in a network namespace of its own, so that nothing of this machine's network changes.
func TestAVanishedMachineFreesTheDatabase(t *testing.T) {
	if os.Getenv("CHAINIFY_TEST_PGTREE") == "" {
		t.Skip("CHAINIFY_TEST_PGTREE is not set: it names a PostgreSQL tree with the extension; `make test` sets it")
	}
	if !isolated.Network(t) {
		return
	}
	// Hosts of the two nodes whose machines vanish.
	lan, err := harness.NewLan([]string{"rests", "works"})
	if errors.Is(err, exec.ErrNotFound) || err != nil && strings.Contains(err.Error(), "not supported") {
		t.Skip(err)
	}
	must.Do(t, err)
	t.Cleanup(func() { _ = lan.Close() })
	address, err := lan.Join()
	must.Do(t, err)
	rules := filepath.Join(t.TempDir(), "pg_hba.conf")
	if err := errors.Join(os.WriteFile(rules, []byte("local all all trust\nhost all all all trust\n"), 0o644), os.Chmod(filepath.Dir(rules), 0o755),
		os.Chmod(filepath.Dir(filepath.Dir(rules)), 0o755)); err != nil {
		t.Fatal(err)
	}
	server, cluster := crashCluster(t, map[string]string{"listen_addresses": "'*'", "hba_file": "'" + rules + "'"})
	t.Run("rests", func(t *testing.T) {
		dsn := newLedger(t, server, "rests")
		node := vanishing(t, lan, "rests", fmt.Sprintf("host=%s port=%d dbname=rests sslmode=disable", address, cluster.Port))
		at := connected(t, node)
		block := orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.t (id bigint PRIMARY KEY)")
		was, err := node.Execute(t.Context(), block, at.Hash)
		must.Do(t, err)
		must.Do(t, lan.Divide([]string{"rests"}))
		found := make(chan error)
		go func() { found <- node.Commit(t.Context()) }()
		if x := takesOver(t, dsn, block); x.Hash != was.Hash {
			t.Errorf("the block has hash %x, it had %x", x.Hash, was.Hash)
		}
		tells(t, found)
	})
	t.Run("works", func(t *testing.T) {
		dsn := newLedger(t, server, "works")
		node := vanishing(t, lan, "works", fmt.Sprintf("host=%s port=%d dbname=works sslmode=disable", address, cluster.Port))
		at := connected(t, node)
		hash := executed(t, node, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.t (id bigint PRIMARY KEY)"), at.Hash, vanishedLimit)
		endless := orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO t SELECT sum(a) FROM generate_series(1, 100000000000) a")
		endless.Budget = wire.Budget{Statements: time.Hour}
		found := make(chan error)
		go func() {
			_, err := node.Execute(t.Context(), endless, hash)
			found <- err
		}()
		eventually(t, dsn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = 'works' AND state = 'active' AND application_name LIKE 'chainify block 2 tx 0%')")
		must.Do(t, lan.Divide([]string{"rests"}, []string{"works"}))
		takesOver(t, dsn, orderedBlock(2, wire.Kind_KIND_SQL, "INSERT INTO t VALUES (1)"))
		tells(t, found)
	})
}

// vanishing is a node on a host of the Lan.
func vanishing(t *testing.T, lan *harness.Lan, host, dsn string) *Backend {
	t.Helper()
	node := steady(t, dsn)
	from := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = lan.Within(host, func() error {
			conn, err = node.config.DialFunc(ctx, network, address)
			return err
		})
		return conn, err
	}
	for _, h := range node.hosts {
		h.config.DialFunc = from
	}
	return node
}

// takesOver waits until another node gets the database, and has it execute and commit a block.
func takesOver(t *testing.T, dsn string, block *wire.OrderedBlock) backend.Execution {
	t.Helper()
	other := steady(t, dsn)
	err := harness.Poll(t.Context(), vanishedLimit, "take the database over", func(ctx context.Context) (bool, string, error) {
		_, err := other.Position(ctx)
		return err == nil, fmt.Sprint(err), nil
	})
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), vanishedLimit)
	defer cancel()
	x, err := other.Execute(ctx, block, connected(t, other).Hash)
	if err == nil {
		err = other.Commit(ctx)
	}
	must.Do(t, err)
	return x
}

// tells: the vanished node has an error of its own, and does not wait on.
func tells(t *testing.T, found <-chan error) {
	t.Helper()
	select {
	case err := <-found:
		if err == nil {
			t.Error("the node of the vanished machine has an answer of the database")
		}
	case <-time.After(vanishedLimit):
		t.Errorf("the node waits for the database for more than %s", vanishedLimit)
	}
}
