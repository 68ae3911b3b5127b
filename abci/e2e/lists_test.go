package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/listappend"
	"github.com/chainify-db/chainify/abci/seeded"
)

var listsTime = flag.Duration("lists-time", 9*time.Second, "how long sessions append to lists, for each level")

const listKeys = 6

// lists is a history in the making, of sessions of all organisations.
type lists struct {
	mu      sync.Mutex
	history []listappend.Txn
	value   int
}

func (l *lists) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value++
	return l.value
}

func (l *lists) done(t listappend.Txn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, t)
}

// session runs random transactions until the moment given. A lost connection is opened again.
func (l *lists) session(ctx context.Context, o *harness.Organisation, isolation string, random *rand.Rand, end time.Time) error {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	for time.Now().Before(end) {
		if conn == nil || conn.IsClosed() {
			if err := harness.Poll(ctx, catchUpLimit, "a session at "+o.Name, func(ctx context.Context) (bool, string, error) {
				var err error
				if conn, err = o.PlainSession(ctx, "bank"); err == nil {
					_, err = conn.Exec(ctx, "SET chainify.wait_timeout = '5s'")
				}
				return err == nil, errString(err), nil
			}); err != nil {
				return err
			}
		}
		t := listappend.Txn{Outcome: listappend.Aborted}
		err := l.transaction(ctx, conn, isolation, random, &t)
		l.done(t)
		if err != nil && conn.PgConn().TxStatus() != 'I' {
			conn.Close(ctx)
		}
	}
	return nil
}

// transaction appends to a list or two, each read before, and reads another. It reads FOR UPDATE
// the lists that it appends to, unless the level needs no locks. Its outcome is unknown from the
// COMMIT on, until that is answered.
func (l *lists) transaction(ctx context.Context, conn *pgx.Conn, isolation string, random *rand.Rand, t *listappend.Txn) error {
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL "+isolation); err != nil {
		return err
	}
	for i, key := range random.Perm(listKeys)[:1+random.IntN(3)] {
		append, lock := random.IntN(3) > 0, ""
		if append && isolation != "SERIALIZABLE" {
			lock = " FOR UPDATE"
		}
		read := listappend.Op{Key: key}
		err := conn.QueryRow(ctx, "SELECT list FROM lists WHERE id = $1"+lock, key).Scan(&read.Read)
		if t.Ops = add(t.Ops, read); err == nil && append {
			value := l.next()
			t.Ops = add(t.Ops, listappend.Op{Append: true, Key: key, Value: value})
			_, err = conn.Exec(ctx, "UPDATE lists SET list = list || $2::int WHERE id = $1", key, value)
		}
		if err != nil {
			_, _ = conn.Exec(ctx, "ROLLBACK")
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	t.Outcome = listappend.Unknown
	_, err := conn.Exec(ctx, "COMMIT")
	if err == nil {
		t.Outcome = listappend.Committed
	} else if failed, _ := harness.CommitFailed(err); failed {
		t.Outcome = listappend.Aborted
	}
	return err
}

func add(ops []listappend.Op, op listappend.Op) []listappend.Op { return append(ops, op) }

// Sessions of four organisations append to lists by plain SQL and read them, while a database and a
// node are killed and come back. The history shows no anomaly that its level excludes, no answered
// append is lost, and none is there twice.
func TestListsUnderFaults(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, testLimit+3**listsTime)
	seed := seeded.Seed(t)
	net := newNetwork(ctx, t)
	letDefine(ctx, t, net)
	acme := net.Organisation("acme")
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy($$CREATE TABLE lists (id int PRIMARY KEY, list int[] NOT NULL); GRANT ALL ON lists TO bank, dba$$)"))
	for i, level := range []struct {
		isolation string
		level     listappend.Level
	}{{"READ COMMITTED", listappend.ReadCommitted}, {"REPEATABLE READ", listappend.RepeatableRead}, {"SERIALIZABLE", listappend.Serializable}} {
		run(ctx, t, plainSession(ctx, t, acme), fmt.Sprintf("DELETE FROM lists; INSERT INTO lists SELECT i, '{}' FROM generate_series(0, %d) i", listKeys-1))
		tip, err := acme.Tip(ctx)
		must(t, err)
		waitSame(ctx, t, net.Organisations, tip.Number)
		l := &lists{}
		var sessions sync.WaitGroup
		end := time.Now().Add(*listsTime)
		for j, o := range net.Organisations {
			for k := range 2 {
				random := rand.New(rand.NewPCG(seed, uint64(i*100+j*10+k)))
				sessions.Go(func() {
					if err := l.session(ctx, o, level.isolation, random, end); err != nil {
						t.Errorf("%s: %v", o.Name, err)
					}
				})
			}
		}
		killAndRestart(ctx, t, net, end)
		sessions.Wait()
		tip, err = acme.Tip(ctx)
		must(t, err)
		waitSame(ctx, t, net.Organisations, tip.Number)
		counts := map[listappend.Outcome]int{}
		for _, txn := range l.history {
			counts[txn.Outcome]++
		}
		t.Logf("%s: %d committed, %d aborted, %d unknown", level.isolation, counts[listappend.Committed], counts[listappend.Aborted], counts[listappend.Unknown])
		if counts[listappend.Committed] < 20 {
			t.Errorf("%s: %d transactions committed: the history shows too little", level.isolation, counts[listappend.Committed])
		}
		for _, o := range net.Organisations {
			for _, a := range listappend.Check(l.history, finalLists(ctx, t, o), level.level) {
				t.Errorf("%s at %s: %s: %s", level.isolation, o.Name, a.Kind, a.Text)
			}
		}
	}
}

// killAndRestart kills a database at a quarter of the time, a node later, and starts them again.
func killAndRestart(ctx context.Context, t *testing.T, net *harness.Network, end time.Time) {
	t.Helper()
	bolt, cargo := net.Organisation("bolt"), net.Organisation("cargo")
	waits := func() {
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(end) / 4):
		}
	}
	waits()
	bolt.Cluster.Kill()
	must(t, bolt.Cluster.Start(ctx))
	waits()
	cargo.KillNode()
	must(t, cargo.StartNode())
}

func finalLists(ctx context.Context, t *testing.T, o *harness.Organisation) map[int][]int {
	t.Helper()
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	must(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT id, list FROM lists")
	must(t, err)
	final := map[int][]int{}
	for rows.Next() {
		var id int
		var list []int
		must(t, rows.Scan(&id, &list))
		final[id] = list
	}
	must(t, rows.Err())
	return final
}
