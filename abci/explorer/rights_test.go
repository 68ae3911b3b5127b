package explorer_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/explorer"
)

// as opens the explorer of a world once more, logged in as another role.
func (w *world) as(user string) *explorer.Explorer {
	w.t.Helper()
	e := explorer.New(explorer.Options{
		Ledger: w.ledgerAs(user), Status: w.statusNow, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	w.t.Cleanup(e.Close)
	return e
}

// With each login role, a superuser or the node, pages read as chainify_reader, in time, and write
// nothing.
func TestPagesReadAsReaderAndWriteNothing(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"postgres", "explorer_node", "explorer_reader"} {
		ledger := w.ledgerAs(user)
		t.Cleanup(ledger.Close)
		err := ledger.Transaction(t.Context(), func(tx pgx.Tx) error {
			var role, readOnly, timeout string
			err := tx.QueryRow(t.Context(), `SELECT current_user, current_setting('transaction_read_only'), current_setting('statement_timeout')`).Scan(&role, &readOnly, &timeout)
			if err == nil && (role != "chainify_reader" || readOnly != "on" || timeout != "5s") {
				t.Errorf("%s reads as %s, read only %s, for %s", user, role, readOnly, timeout)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", user, err)
		}
		for statement, want := range map[string]string{
			"CREATE TABLE public.x ()": "25006", "SELECT count(*) FROM public.checking": "42501", "SELECT chainify_node.checkpoint()": "42501", "SELECT pg_sleep(20)": "57014",
		} {
			var refused *pgconn.PgError
			err := ledger.Transaction(t.Context(), func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), statement); return err })
			if !errors.As(err, &refused) || refused.Code != want {
				t.Errorf("%s: %s gives %v, want %s", user, statement, err, want)
			}
		}
	}
}

// A role without rights sees what to do, and nothing else.
func TestAStrangerSeesNothing(t *testing.T) {
	w := newWorld(t)
	handler := w.as("explorer_stranger").Handler()
	for path, want := range map[string]string{"/blocks": "has to be a member of chainify_reader", "/": "This page cannot read the database.", "/deviations": "chainify_reader"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if text := answer.Body.String(); !strings.Contains(text, want) || strings.Contains(text, "checking") {
			t.Errorf("%s: %d %s", path, answer.Code, text)
		}
	}
}

// A value of a user's type is printed: a cast to json that the type's owner made would be called
// with the reader's rights.
func TestATypesCastIsNotCalledByTheExplorer(t *testing.T) {
	w := newWorld(t)
	run(t, w.dsn, `GRANT CREATE ON SCHEMA public TO bank`)
	w.deploy(`CREATE TYPE place AS (x int, y int); CREATE TABLE placed (id int PRIMARY KEY, at place)`)
	run(t, w.dsn, `SET ROLE bank;
		CREATE FUNCTION public.json_of(place) RETURNS json LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''called as %'', current_user; END';
		CREATE CAST (place AS json) WITH FUNCTION public.json_of(place)`)
	w.execute(`INSERT INTO placed VALUES (1, '(3,4)')`)
	answer, text := w.get("/transactions/" + w.id(len(w.ids)-1, 0))
	if answer.StatusCode != http.StatusOK || !strings.Contains(text, "(3,4)") {
		t.Errorf("status %d, want the row with (3,4): %.2000s", answer.StatusCode, text)
	}
}
