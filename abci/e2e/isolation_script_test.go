package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// history is what became of a script. Its maps are by number of the session.
type history struct {
	statements, results map[int][]string // without BEGIN and COMMIT; results as far as they came
	committed           []int
	failed              map[int]string // the conflict's message
	left                string         // the table's rows afterwards
	excused             []string       // SQLSTATEs that a transaction may fail by
}

// invented is the history of steps with these results, without having run them.
func invented(steps, results []string, left string) history {
	h := history{statements: map[int][]string{}, results: map[int][]string{}, left: left}
	for _, step := range steps {
		number, sql := int(step[0]-'0'), step[2:]
		switch sql {
		case "COMMIT":
			h.committed = append(h.committed, number)
		case "ROLLBACK":
		default:
			h.statements[number] = append(h.statements[number], sql)
			h.results[number] = append(h.results[number], results[0])
			results = results[1:]
		}
	}
	return h
}

// actor is a session of a script. A statement that waits for another session's lock stays pending.
type actor struct {
	number  int
	at      *harness.Organisation
	conn    *pgx.Conn
	pending chan answer
	sql     string
}

type answer struct {
	result string
	err    error
}

// playScript runs the steps in turn, each transaction at the level. A step ends with its result, or
// as soon as it waits for a session of the script. After a COMMIT all organisations have its block.
// A transaction that fails must fail by 40001 (or in a deadlock within one database), and its other
// steps are left out.
func playScript(ctx context.Context, t *testing.T, n *isolationNet, steps []string, l level, at func(int) *harness.Organisation) history {
	t.Helper()
	h := history{statements: map[int][]string{}, results: map[int][]string{}, failed: map[int]string{}, excused: []string{"40001"}}
	if at(1) == at(2) {
		h.excused = append(h.excused, "40P01") // PostgreSQL's own, between sessions of one database
	}
	actors := map[int]*actor{}
	for _, step := range steps {
		number := int(step[0] - '0')
		if actors[number] == nil {
			actors[number] = &actor{number: number, at: at(number), conn: plainSession(ctx, t, at(number))}
			run(ctx, t, actors[number].conn, "BEGIN ISOLATION LEVEL "+l.String())
		}
	}
	for _, step := range steps {
		a := actors[int(step[0]-'0')]
		h.take(ctx, t, n, a)
		if h.failed[a.number] != "" {
			continue
		}
		a.send(ctx, step[2:])
		if !n.waits(ctx, t, a, actors) {
			h.take(ctx, t, n, a)
		}
	}
	for _, a := range actors {
		h.take(ctx, t, n, a)
		must(t, a.conn.Close(context.WithoutCancel(ctx)))
	}
	slices.Sort(h.committed)
	return h
}

func (a *actor) send(ctx context.Context, sql string) {
	a.sql, a.pending = sql, make(chan answer, 1)
	go func(answers chan<- answer) {
		result, err := resultOf(ctx, a.conn, sql)
		answers <- answer{result, err}
	}(a.pending)
}

// waits says whether the pending statement waits for a lock of another session of the script.
func (n *isolationNet) waits(ctx context.Context, t *testing.T, a *actor, actors map[int]*actor) (blocked bool) {
	t.Helper()
	var others []string
	for _, other := range actors {
		if other != a && other.at == a.at {
			others = append(others, fmt.Sprint(other.conn.PgConn().PID()))
		}
	}
	if len(others) == 0 {
		return false
	}
	blockers := fmt.Sprintf("SELECT pg_blocking_pids(%d) && '{%s}'", a.conn.PgConn().PID(), strings.Join(others, ","))
	soon(ctx, t, a.sql+" neither ends nor waits", func() bool {
		if len(a.pending) > 0 {
			return true
		}
		must(t, n.eyes[a.at].QueryRow(ctx, blockers).Scan(&blocked))
		return blocked
	})
	return blocked
}

// isolationNet has a connection of its own to each database, to look at it between the steps.
type isolationNet struct {
	*harness.Network
	eyes map[*harness.Organisation]*pgx.Conn
}

func watched(ctx context.Context, t *testing.T, net *harness.Network) *isolationNet {
	t.Helper()
	n := &isolationNet{net, map[*harness.Organisation]*pgx.Conn{}}
	for _, o := range net.Organisations {
		conn, err := o.Connect(ctx)
		must(t, err)
		t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
		n.eyes[o] = conn
	}
	return n
}

// allReach waits until every organisation has the last block of one.
func (n *isolationNet) allReach(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	var tip uint64
	must(t, n.eyes[o].QueryRow(ctx, "SELECT max(number) FROM chainify.ledger").Scan(&tip))
	for _, other := range n.Organisations {
		soon(ctx, t, fmt.Sprintf("%s does not reach block %d", other.Name, tip), func() (there bool) {
			must(t, n.eyes[other].QueryRow(ctx, "SELECT max(number) >= $1 FROM chainify.ledger", tip).Scan(&there))
			return there
		})
	}
}

// soon looks every other millisecond whether ok holds, until progressLimit.
func soon(ctx context.Context, t *testing.T, otherwise string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, progressLimit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s within %s", otherwise, progressLimit)
		case <-tick.C:
		}
	}
}

// take waits for the pending statement, if there is one, and notes what became of it.
func (h *history) take(ctx context.Context, t *testing.T, n *isolationNet, a *actor) {
	t.Helper()
	if a.pending == nil {
		return
	}
	got := <-a.pending // ends with ctx at the latest
	a.pending = nil
	var failed *pgconn.PgError
	switch {
	case errors.As(got.err, &failed) && slices.Contains(h.excused, failed.Code):
		h.failed[a.number] = failed.Message
		if a.conn.PgConn().TxStatus() != 'I' {
			run(ctx, t, a.conn, "ROLLBACK")
		}
	case got.err != nil:
		t.Fatalf("session %d: %s: %s, want success or one of %v", a.number, a.sql, describe(got.err), h.excused)
	case a.sql == "COMMIT":
		h.committed = append(h.committed, a.number)
		n.allReach(ctx, t, a.at)
	case a.sql != "ROLLBACK":
		h.statements[a.number] = append(h.statements[a.number], a.sql)
		h.results[a.number] = append(h.results[a.number], got.result)
	}
}

// resultOf gives the rows of a query, in the order of their text, or the tag of another statement.
func resultOf(ctx context.Context, conn *pgx.Conn, sql string) (string, error) {
	if !strings.HasPrefix(sql, "SELECT") {
		tag, err := conn.Exec(ctx, sql)
		return tag.String(), err
	}
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return "", err
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return strings.Trim(fmt.Sprint(values...), "[]"), err
	})
	slices.Sort(found)
	return strings.Join(found, ", "), err
}
