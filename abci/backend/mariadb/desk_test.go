package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const thieves = "effects_thieves" // a second role of clients

// clientOf is a session of a login that has a role of clients, and waits for so many milliseconds.
func (o *organisation) clientOf(t *testing.T, login, role string, waitMS int) *sql.Conn {
	t.Helper()
	o.run(t, strings.NewReplacer("%L", login, "%R", role).Replace(`CREATE USER IF NOT EXISTS %L@localhost; GRANT %R TO %L@localhost; SET DEFAULT ROLE %R FOR %L@localhost`))
	c, err := mysql.ParseDSN(strings.Replace(os.Getenv("CHAINIFY_TEST_MARIADB"), "root@", login+"@", 1) + o.name)
	must.Do(t, err)
	c.MultiStatements, c.Logger = true, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	must.Do(t, err)
	pool := sql.OpenDB(connector)
	conn, err := pool.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), fmt.Sprintf("SET @chainify_wait_timeout = %d", waitMS))
	}
	must.Do(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = pool.Close()
		o.run(t, "DROP USER IF EXISTS "+login+"@localhost")
	})
	return conn
}

// told is a row that a client is told.
type told struct {
	id           string
	block, place int64
	outcome      bool
	rows         int64
	state, text  sql.NullString
}

func call(ctx context.Context, c *sql.Conn, statement string, arguments ...any) (r told, err error) {
	err = c.QueryRowContext(ctx, "CALL "+statement, arguments...).Scan(&r.id, &r.block, &r.place, &r.outcome, &r.rows, &r.state, &r.text)
	return r, err
}

func stateOf(err error) string {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return ""
	}
	return string(e.SQLState[:])
}

// answering takes requests as a node does until there is one, at most ten seconds.
func answering(t *testing.T, b *Backend, a backend.Answer) backend.Asked {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		asked, err := b.Asked(t.Context(), 10)
		if err != nil || len(asked) > 1 || time.Now().After(deadline) {
			t.Fatal(asked, err)
		}
		if len(asked) == 1 {
			a.Number = asked[0].Number
			if taken, err := b.Take(t.Context(), []backend.Answer{a}); err != nil || len(taken) != 1 {
				t.Fatal(taken, err)
			}
			return asked[0]
		}
	}
}

// A client of chainify_execute is told the outcome of its transaction, or why there is none.
func TestClientsSubmitBySQL(t *testing.T) {
	o := fresh(t, items)
	b := o.open(t)
	c := &chain{t, b, connected(t, b)}
	c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH TABLE public.items ENCODING 2"})
	client := o.clientOf(t, "desk_till", operators, 10_000)
	type answer struct {
		told
		error
	}
	ask := func(statement string, arguments ...any) chan answer {
		out := make(chan answer, 1)
		go func() {
			r, err := call(t.Context(), client, statement, arguments...)
			out <- answer{r, err}
		}()
		return out
	}
	insert := proposal{kind: wire.Kind_KIND_SQL, sql: "INSERT INTO items (id, name) VALUES (7, 'it''s é')"}
	next := block(c.at.Number+1, insert.kind, insert.sql)
	waits := ask("chainify_execute(?, ?)", insert.sql, "[7]")
	a := answering(t, b, backend.Answer{Transaction: next.IDs[0]})
	if a.Role != operators || a.Kind != "sql" || a.SQL != insert.sql || a.Parameters != "[7]" {
		t.Errorf("asked: %+v", a)
	}
	c.commit(insert)
	if r := <-waits; r.error != nil || r.id != fmt.Sprintf("%x", next.IDs[0]) || r.block != 2 || !r.outcome || r.rows != 1 || r.state.Valid {
		t.Errorf("told %+v", r)
	}
	if r, err := call(t.Context(), client, "chainify_wait(?)", fmt.Sprintf("%x", next.IDs[0])); err != nil || r.block != 2 {
		t.Errorf("asked again: %+v %v", r, err)
	}
	waits = ask("chainify_deploy('x')")
	if a = answering(t, b, backend.Answer{SQLState: "53400", Message: `it's \ full`}); a.Kind != "deploy" {
		t.Errorf("asked: %+v", a)
	}
	if r := <-waits; stateOf(r.error) != "53400" || !strings.Contains(r.Error(), `it"s / full`) {
		t.Errorf("told %v", r.error)
	}
	waits = ask("chainify_execute('x', NULL)")
	a = answering(t, b, backend.Answer{Transaction: wire.TxID{9}})
	must.Do(t, b.Change(t.Context(), backend.Answer{Number: a.Number, Transaction: wire.TxID{9}, SQLState: "40001", Message: "expired"}))
	if r := <-waits; r.error != nil || r.block != 0 || r.outcome || r.state.String != "40001" || r.text.String != "expired" {
		t.Errorf("told %+v", r)
	}
	var left int
	if err := o.root.QueryRow("SELECT (SELECT count(*) FROM " + o.name + "_ledger.request) + (SELECT count(*) FROM " + o.name + "_ledger.answer)").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d requests and answers are left (%v)", left, err)
	}
}

// A client is told what is certain: that nothing was submitted, or that the outcome is unknown.
func TestClientsAreToldWhatIsUnknown(t *testing.T) {
	o := fresh(t, items)
	b := o.open(t)
	connected(t, b)
	client := o.clientOf(t, "desk_short", operators, 60)
	if _, err := call(t.Context(), client, "chainify_execute('x', NULL)"); stateOf(err) != "08001" || !strings.Contains(err.Error(), "nothing was submitted") {
		t.Errorf("without a node: %v", err)
	}
	if asked, err := b.Asked(t.Context(), 10); err != nil || len(asked) != 0 {
		t.Errorf("a request was not withdrawn: %v %v", asked, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), client, "chainify_execute('x', NULL)")
		ended <- err
	}()
	answering(t, b, backend.Answer{Transaction: wire.TxID{0xab}})
	id := fmt.Sprintf("%x", wire.TxID{0xab})
	if err := <-ended; stateOf(err) != "57P03" || !strings.Contains(err.Error(), "CALL chainify_wait('"+id+"')") {
		t.Errorf("without an outcome: %v", err)
	}
	if _, err := call(t.Context(), client, "chainify_wait(?)", id); stateOf(err) != "57P03" {
		t.Errorf("asked again: %v", err)
	}
	o.run(t, "INSERT INTO "+o.name+"_ledger.request VALUES (1, 'x', 'y', 'sql', 'late', NULL, 4, unix_timestamp() - 1)")
	if asked, err := b.Asked(t.Context(), 10); err != nil || len(asked) != 0 {
		t.Errorf("a request whose client is gone: %v %v", asked, err)
	}
	o.run(t, "INSERT INTO "+o.name+"_ledger.answer VALUES (2, NULL, '53400', 'nobody reads it', utc_timestamp() - INTERVAL 1 HOUR)")
	var kept int
	if err := b.forget(t.Context()); err != nil || o.root.QueryRow("SELECT count(*) FROM "+o.name+"_ledger.answer").Scan(&kept) != nil || kept != 0 {
		t.Errorf("%d old answers are kept (%v)", kept, err)
	}
	if taken, err := b.Take(t.Context(), []backend.Answer{{Number: 1}}); err != nil || len(taken) != 0 {
		t.Errorf("a request that is withdrawn was taken: %v %v", taken, err)
	}
}

// A client has no way to another's requests and answers, nor to another's role, and what it asks is
// bounded.
func TestClientsAskForThemselvesAlone(t *testing.T) {
	o := fresh(t, items)
	must.Do(t, Install(t.Context(), os.Getenv("CHAINIFY_TEST_MARIADB")+o.name, o.name+"@localhost", thieves))
	b := o.open(t)
	connected(t, b)
	o.run(t, "GRANT CREATE TEMPORARY TABLES ON "+o.name+".* TO "+thieves)
	thief, ledger := o.clientOf(t, "desk_thief", thieves, 1), o.name+"_ledger"
	for _, statement := range []string{
		"SELECT * FROM %.request", "SELECT * FROM %.answer", "SELECT * FROM %.transaction", "INSERT INTO %.request (id) VALUES (1)",
		"UPDATE %.answer SET sql_state = '00000'", "DELETE FROM %.request", "CALL %.submit('" + operators + "', 'sql', 'x', NULL)",
		"CALL %.submit_" + operators + "('sql', 'x', NULL)", "CALL %.tell(NULL, NULL, NULL)", "SET ROLE " + operators, "SET ROLE " + o.name + "_chainify",
		"CREATE TEMPORARY TABLE %.request (id INT)", "ALTER PROCEDURE %.submit SQL SECURITY INVOKER", "SHOW CREATE PROCEDURE %.submit; DROP PROCEDURE %.submit",
	} {
		var refused *mysql.MySQLError
		if _, err := thief.ExecContext(t.Context(), strings.ReplaceAll(statement, "%", ledger)); !errors.As(err, &refused) || refused.Number == 1064 {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for call, want := range map[string]string{
		"BEGIN; SELECT 1 FROM DUAL; CALL chainify_execute('x', NULL)":                               "25001",
		"ROLLBACK; CALL chainify_execute(repeat('x', 524289), NULL)":                                "54000",
		"ROLLBACK; CALL chainify_execute(NULL, NULL)":                                               "22023",
		"ROLLBACK; CALL chainify_wait('x')":                                                         "22023",
		"ROLLBACK; CREATE TEMPORARY TABLE request (id INT); CALL chainify_execute('x', NULL)":       "08001",
		"ROLLBACK; SET @@completion_type = 1; SET autocommit = 0; CALL chainify_execute('x', NULL)": "08001",
	} {
		if _, err := thief.ExecContext(t.Context(), call); stateOf(err) != want {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
		_, _ = thief.ExecContext(t.Context(), "ROLLBACK; SET @@completion_type = 0; SET autocommit = 1")
	}
	full := fmt.Sprintf("INSERT INTO %s.request SELECT seq, 'desk_thief@localhost', 'y', 'sql', 'x', NULL, 1, unix_timestamp() + 1000 FROM %s.seq_1_to_%d", ledger, o.name, askedOfOneMax)
	o.run(t, full)
	if _, err := call(t.Context(), thief, "chainify_execute('x', NULL)"); stateOf(err) != "53400" {
		t.Errorf("a login with too many requests: %v", err)
	}
	other := o.clientOf(t, "desk_other", operators, 10_000)
	done := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), other, "chainify_execute('x', NULL)")
		done <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); ; {
		asked, err := b.Asked(t.Context(), 2000)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(err)
		}
		if last := asked[len(asked)-1]; len(asked) > askedOfOneMax && last.Role == operators {
			_, err := b.Take(t.Context(), []backend.Answer{{Number: last.Number, SQLState: "53400", Message: "heard"}})
			if err = errors.Join(err, <-done); stateOf(err) != "53400" || !strings.Contains(err.Error(), "heard") {
				t.Error(err)
			}
			return
		}
	}
}

// Clients that ask at once do not wait for each other in a circle, nor with the node.
func TestManyClientsAskAtOnce(t *testing.T) {
	o := fresh(t, items)
	b := o.open(t)
	connected(t, b)
	const clients, each = 8, 50
	done := make(chan error, clients*each)
	for i := range clients {
		client := o.clientOf(t, fmt.Sprintf("desk_many_%d", i), operators, 30_000)
		go func() {
			for range each {
				_, err := call(t.Context(), client, "chainify_execute('x', NULL)")
				done <- err
			}
		}()
	}
	for answered, deadline := 0, time.Now().Add(time.Minute); answered < clients*each; {
		asked, err := b.Asked(t.Context(), 100)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(answered, err)
		}
		answers := make([]backend.Answer, len(asked))
		for i := range asked {
			answers[i] = backend.Answer{Number: asked[i].Number, SQLState: "53400", Message: "heard"}
		}
		if len(answers) > 0 {
			if _, err := b.Take(t.Context(), answers); err != nil {
				t.Fatal(err)
			}
		}
		for len(done) > 0 {
			if err := <-done; stateOf(err) != "53400" {
				var kind, name, status string
				_ = o.root.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status)
				_, status, _ = strings.Cut(status, "LATEST DETECTED DEADLOCK")
				status, _, _ = strings.Cut(status, "\nTRANSACTIONS\n")
				t.Fatalf("after %d answers: %v\n%s", answered, err, status)
			}
			answered++
		}
	}
}
