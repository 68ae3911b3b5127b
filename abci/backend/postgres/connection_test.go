package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var databases atomic.Int64

// database makes a fresh database on the server of CHAINIFY_TEST_PG and returns its connection
// string.
func database(t *testing.T, setup string) string {
	t.Helper()
	server := os.Getenv("CHAINIFY_TEST_PG")
	if server == "" {
		t.Skip("CHAINIFY_TEST_PG is not set: it names a server with the extension, for a superuser; `make test` sets it")
	}
	name := fmt.Sprintf("effects_%d_%d", os.Getpid(), databases.Add(1))
	run(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { run(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	dsn := server + " dbname=" + name
	run(t, dsn, setup)
	return dsn
}

// run executes statements on a connection of its own.
func run(t *testing.T, dsn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
		_ = conn.Close(ctx)
	}
	if err != nil {
		t.Fatalf("%.60s: %v", sql, err)
	}
}

func open(t *testing.T, dsn string) *Backend {
	t.Helper()
	b, err := New(Config{DSN: dsn, ChainID: "test", Organisation: "a", StuckAfter: time.Second})
	must.Do(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// connected polls until the backend reaches its database, at most ten seconds.
func connected(t *testing.T, b *Backend) backend.Position {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		p, err := b.Position(t.Context())
		if err == nil {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestALostConnectionRollsBackAndComesBack(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn)
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	run(t, dsn, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", b.former.pid))
	if err := b.Commit(t.Context()); err == nil || errors.Is(err, backend.ErrNothingOpen) {
		t.Fatalf("commit on a lost connection: %v", err)
	}
	if p := connected(t, b); p.Number != 0 {
		t.Fatalf("position %+v, want 0", p)
	}
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	must.Do(t, b.Commit(t.Context()))
}

// Between two blocks nothing is sent over the connection that holds the node's lock.
func TestAConnectionLostAtRestComesBackWithThePosition(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn)
	connected(t, b)
	former := b.former.pid
	run(t, dsn, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", former))
	connected(t, b)
	if b.former.pid == former {
		t.Errorf("the connection is still that of process %d, which was ended", former)
	}
}

// A session of ours that outlives its socket must not COMMIT after the position was read.
func TestALostConnectionIsEndedBeforeThePositionIsRead(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn)
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), extensionBlock(1), at.Hash); err != nil {
		t.Fatal(err)
	}
	lost := b.conn // still alive at the server, as behind a broken network
	b.conn, b.open = nil, false
	if p := connected(t, b); p.Number != 0 {
		t.Fatalf("position %+v, want 0", p)
	}
	if _, err := lost.Exec(t.Context(), "COMMIT"); err == nil {
		t.Fatal("the lost session can still commit")
	}
}

func TestASecondNodeIsToldWhoHoldsTheDatabase(t *testing.T) {
	dsn := database(t, setup)
	first, second := open(t, dsn), open(t, dsn)
	connected(t, first)
	_, err := second.Position(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another node works on this database: process ") {
		t.Fatalf("%v", err)
	}
}

func TestAnotherChainIsRefused(t *testing.T) {
	dsn := database(t, setup+`; SELECT chainify_node.init('other', 'a')`)
	_, err := open(t, dsn).Position(t.Context())
	if err == nil || !strings.Contains(err.Error(), `this database belongs to organisation "a" of chain "other"`) {
		t.Fatalf("%v", err)
	}
}

// A transaction that brings every execution down is voted stuck after the limit, not retried for
// ever; before that, each one that fails first has the limit anew.
func TestATransactionThatKeepsFailingIsStuck(t *testing.T) {
	b := &Backend{cfg: Config{StuckAfter: time.Minute}}
	fails := func(tx int) bool {
		return b.keepsFailing(1, &pgconn.PgError{Code: "53200", Detail: fmt.Sprintf("chainify block 1 tx %d", tx)})
	}
	for _, step := range []struct {
		tx    int
		later time.Duration
		want  bool
	}{{3, 0, false}, {3, 59 * time.Second, false}, {5, 2 * time.Second, false}, {5, 59 * time.Second, false}, {5, 2 * time.Second, true}, {5, 2 * time.Second, false}} {
		b.failing.since = b.failing.since.Add(-step.later)
		if got := fails(step.tx); got != step.want {
			t.Errorf("transaction %d, %s later: %t", step.tx, step.later, got)
		}
	}
}

func TestNoServerIsAnErrorInTime(t *testing.T) {
	b := open(t, "host=/nonexistent user=nobody dbname=none")
	if _, err := b.Position(t.Context()); err == nil {
		t.Fatal("connected to nothing")
	}
	for what, do := range map[string]func() error{
		"execute": func() error { _, err := b.Execute(t.Context(), extensionBlock(1), wire.Hash{}); return err },
		"retry": func() error {
			_, err := b.Retry(t.Context(), extensionBlock(1), wire.Hash{}, wire.Hash{1})
			return err
		},
		"repair": func() error {
			_, err := b.Repair(t.Context(), backend.Rows, 1, wire.Hash{}, 1, wire.Hash{})
			return err
		},
		"restore": func() error { _, err := b.Restore(t.Context(), nil, 1, wire.Hash{}, 1, wire.Hash{}); return err },
		"adopt": func() error {
			_, err := b.Adopt(t.Context(), nil, extensionBlock(1), wire.Hash{}, wire.Hash{})
			return err
		},
		"restore block": func() error { return b.RestoreBlock(t.Context(), nil, extensionBlock(1), wire.Hash{}) },
	} {
		if err := do(); !errors.Is(err, errNotConnected) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
