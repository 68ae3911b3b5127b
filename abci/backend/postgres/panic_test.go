package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/must"
)

// A panic in a callback of PostgreSQL, through whose C code nothing may unwind, ends its session.
// The log says why. The server and the other sessions go on.
func TestAPanicInACallbackEndsItsSessionAlone(t *testing.T) {
	server, cluster := crashCluster(t, nil)
	dsn, _ := crashDatabase(t, server, "panics", 1)
	other, err := pgx.Connect(t.Context(), dsn)
	must.Do(t, err)
	defer other.Close(t.Context())
	for callback, statement := range map[string]string{
		"noting a change of a relation":      "CREATE TABLE public.other (n int)",
		"noting a change of definitions":     "CREATE FUNCTION public.other() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"a hook of the end of a transaction": "SAVEPOINT a",
		"a hook of rollback":                 "ROLLBACK",
	} {
		conn, err := pgx.Connect(t.Context(), dsn)
		must.Do(t, err)
		for _, sql := range []string{"BEGIN", "SET LOCAL chainify.panic_in = '" + callback + "'", statement, "SELECT 1"} {
			if _, err = conn.Exec(t.Context(), sql); err != nil {
				break
			}
		}
		// A client that writes at that moment finds the connection closed, and does not read why.
		var ended *pgconn.PgError
		if err == nil || errors.As(err, &ended) && (ended.Severity != "FATAL" || ended.Code != "57P01") {
			t.Errorf("%s: the session goes on, or ends by %v", callback, err)
		}
		_ = conn.Close(t.Context())
		if log, want := cluster.Tail(200), "chainify: "+callback+" failed, the session ends: a test has it panic"; !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, cluster.Tail(10))
		}
	}
	var n int
	if err := other.QueryRow(t.Context(), "SELECT count(*) FROM pg_class WHERE relname = 'other'").Scan(&n); err != nil || n != 0 {
		t.Errorf("another session finds %d tables of sessions that ended, %v", n, err)
	}
	b := steady(t, dsn)
	at := connected(t, b)
	if _, err := b.Execute(t.Context(), crashBlock(2), at.Hash); err != nil {
		t.Errorf("the next block: %v", err)
	}
	if err := b.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}
