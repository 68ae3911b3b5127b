package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/must"
)

// A local session's lock on a row holds up a block in parts for as long as the grace, and not
// longer, whichever process waits for it. Then the session loses its statement, or between
// statements its connection.
func TestALockedRowHoldsUpABlockInPartsForTheGrace(t *testing.T) {
	const grace, limit = 500 * time.Millisecond, 5 * time.Minute
	server := crashServer(t, map[string]string{"chainify.conflict_grace": "-1"})
	want, wantContents := undisturbed(t, server)
	setGrace := func(change string) {
		t.Helper()
		run(t, server+" dbname=postgres", "ALTER SYSTEM "+change)
		run(t, server+" dbname=postgres", "SELECT pg_reload_conf()")
	}
	share := fmt.Sprintf("SELECT FROM parts WHERE id = %d FOR SHARE", waitingRow)
	for _, lock := range []struct {
		name    string
		sql     []string // of one session each
		idle    bool     // afterwards
		nested  bool     // then in a subtransaction: a cancel does not end the transaction with the lock
		inParts bool     // a worker waits; otherwise a part gives up at once, and the leader waits when it runs the block alone
	}{
		{"idle", []string{fmt.Sprintf("SELECT FROM parts WHERE id = %d FOR UPDATE", waitingRow)}, true, false, true},
		{"shared", []string{share, share}, false, false, true},
		{"nested", []string{share}, false, true, true},
		{"alone", []string{"UPDATE parts SET n = 0 WHERE id = 4"}, true, false, false},
	} {
		t.Run(lock.name, func(t *testing.T) {
			r := newPartsRun(t, server, lock.name)
			next := func(conn *pgx.Conn, sql string, ended chan error) {
				_, err := conn.Exec(t.Context(), sql)
				ended <- err
			}
			var conns []*pgx.Conn
			ended := make(chan error, len(lock.sql))
			for _, sql := range lock.sql {
				conns = append(conns, r.hold(sql))
				if lock.nested {
					if _, err := conns[len(conns)-1].Exec(t.Context(), "SAVEPOINT s"); err != nil {
						t.Fatal(err)
					}
				}
				if !lock.idle {
					go next(conns[len(conns)-1], "SELECT pg_sleep(60)", ended)
				}
			}
			if lock.inParts {
				r.startUntil(waitingWorker)
			} else {
				r.start()
				r.process(waitingLeader)
				r.closed()
			}

			began := time.Now()
			setGrace(fmt.Sprintf("SET chainify.conflict_grace = '%d ms'", grace.Milliseconds()))
			defer setGrace("RESET chainify.conflict_grace")
			select {
			case err := <-r.executed:
				must.Do(t, err)
			case <-time.After(limit):
				t.Fatalf("held up for more than %v, the grace is %v", limit, grace)
			}
			if took := time.Since(began); took < grace {
				t.Errorf("held up for %v, want no less than the grace of %v", took, grace)
			}
			if _, inParts := r.processOr(anyWorker, leaderReady); inParts != lock.inParts {
				t.Errorf("executed in parts: %v, want %v", inParts, lock.inParts)
			}
			for _, conn := range conns {
				if lock.idle { // the server has closed the connection
					next(conn, "COMMIT", ended)
				}
				if lock.nested { // first its statement, then its connection
					if err := <-ended; sqlState(err) != "CH007" {
						t.Errorf("the statement in a subtransaction ended with %v", err)
					}
					next(conn, "ROLLBACK TO s", ended)
				}
				if err := <-ended; (lock.idle || lock.nested) != conn.IsClosed() || !conn.IsClosed() && sqlState(err) != "CH007" {
					t.Errorf("the session goes on, closed %v: %v", conn.IsClosed(), err)
				}
			}
			r.finish(true, want, wantContents)
		})
	}
}
