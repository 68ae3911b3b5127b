package mariadb

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const things = `CREATE TABLE %.things (id BIGINT PRIMARY KEY, name VARCHAR(40)); INSERT INTO %.things VALUES (1, 'first');
	GRANT SELECT, INSERT, UPDATE, DELETE ON %.things TO effects_ops`

func attachOf(tables string) proposal {
	return proposal{kind: wire.Kind_KIND_DEPLOY, sql: "ATTACH TABLE " + tables + " ENCODING 2"}
}

// writes tells whether an application's own write passes.
func (o *organisation) writes(t *testing.T, table string) bool {
	t.Helper()
	_, err := o.root.ExecContext(t.Context(), "UPDATE "+o.name+"."+table+" SET name = name")
	if err != nil && errorNumber(err) != errNoSuchTable {
		t.Fatal(err)
	}
	return err == nil
}

// session is a connection of an administrator's, closed at the end.
func (o *organisation) session(t *testing.T, statements ...string) *sql.Conn {
	t.Helper()
	conn, err := o.root.Conn(t.Context())
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), strings.ReplaceAll(statement, "%", o.name)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return conn
}

// A transaction that attaches nothing leaves the tables that it names to their writers.
func TestTablesAreGuardedOnceTheyAreAttached(t *testing.T) {
	o := fresh(t, items, things)
	clerk := o.name + "_clerk"
	must.Do(t, Install(t.Context(), strings.Replace(o.dsn, o.name+"@", "root@", 1), o.name+"@localhost", clerk))
	t.Cleanup(func() { o.run(t, "DROP ROLE "+clerk) })
	c := o.chain(t)
	byClerk := attachOf("public.items")
	byClerk.role = clerk
	for _, failing := range []proposal{byClerk, attachOf("public.items, public.nothing"), attachOf("public.items, public.items")} {
		if x := c.commit(failing).Results[0]; x.Succeeded || !o.writes(t, "items") {
			t.Errorf("%s as %s: %+v, or its table is guarded", failing.sql, failing.role, x)
		}
	}
	b := blockOf(c.at.Number+1, attachOf("public.items"))
	if _, err := c.b.Execute(t.Context(), b, c.at.Hash); err != nil || o.writes(t, "items") {
		t.Fatalf("a block that attaches: %v, or its table is not guarded", err)
	}
	must.Do(t, c.b.Rollback(t.Context()))
	b.QuarantineAll = true // organisations have agreed on it in this form
	x, err := c.b.Execute(t.Context(), b, c.at.Hash)
	if err == nil {
		err = c.b.Commit(t.Context())
	}
	if err != nil || x.Results[0].Succeeded || !o.writes(t, "items") {
		t.Fatalf("quarantined: %+v %v, or its table is guarded", x.Results, err)
	}
	c.at.Number, c.at.Hash = c.at.Number+1, x.Hash
	if x := c.commit(byClerk, attachOf("public.items"), attachOf("public.items, public.things"), attachOf("public.things")).Results; x[0].Succeeded ||
		!x[1].Succeeded || x[2].Succeeded || !x[3].Succeeded || o.writes(t, "items") || o.writes(t, "things") {
		t.Errorf("attached: %+v, or a table is not guarded", x)
	}
}

// A reader who leaves a transaction open makes an attachment fail for the moment, and stays alone:
// others read meanwhile. A detachment does not wait.
func TestOpenReadersHoldUpNobodyElse(t *testing.T) {
	o := fresh(t, items, things)
	c := o.chain(t)
	c.attach("public.things")
	reader := o.session(t, "BEGIN", "SELECT id FROM %.items UNION SELECT id FROM %.things")
	began := time.Now()
	b := blockOf(c.at.Number+1, attachOf("public.items"))
	if _, err := c.b.Execute(t.Context(), b, c.at.Hash); err == nil || time.Since(began) > 10*time.Minute {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	o.session(t, "SELECT * FROM %.items")
	began = time.Now()
	if x := c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH TABLE public.things"}).Results[0]; !x.Succeeded || time.Since(began) > 10*time.Minute {
		t.Fatalf("%+v after %v", x, time.Since(began))
	}
	if _, err := reader.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	c.attach("public.items")
	if !o.writes(t, "things") || o.writes(t, "items") {
		t.Error("a table that is not on the ledger is guarded, or one that is there is not")
	}
}

// Names of transactions and locks are the server's: those of the node cannot be guessed.
func TestOtherLoginsDoNotKeepTheNodeOut(t *testing.T) {
	o := fresh(t, items)
	o.run(t, "CREATE USER "+o.name+"_none@localhost")
	t.Cleanup(func() { o.run(t, "DROP USER "+o.name+"_none@localhost") })
	login, err := sql.Open("mysql", strings.TrimSuffix(strings.Replace(o.dsn, o.name+"@", o.name+"_none@", 1), o.name))
	must.Do(t, err)
	t.Cleanup(func() { _ = login.Close() })
	conn, err := login.Conn(t.Context())
	must.Do(t, err)
	for _, statement := range []string{"SELECT GET_LOCK('chainify " + o.name + "', 0)", "XA START 'chainify'"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	c := o.chain(t)
	c.attach("public.items")
	other, err := New(Config{DSN: o.dsn, ChainID: "test", Organisation: "a"})
	must.Do(t, err)
	t.Cleanup(func() { _ = other.Close() })
	if _, err := other.Position(t.Context()); err == nil || !strings.Contains(err.Error(), "another node works on this database") {
		t.Errorf("a second node: %v", err)
	}
}

// A session that leaves rows locked does not stop an agreed block: it is ended.
func TestHoldersOfRowsAreEnded(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	holder := o.session(t, "BEGIN", "SELECT * FROM %.items WHERE id = 1 FOR UPDATE")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	x, err := c.b.Execute(ctx, blockOf(2, sqlOf("UPDATE items SET name = 'agreed' WHERE id = 1")), c.at.Hash)
	if err != nil || !x.Results[0].Succeeded {
		t.Fatal(x.Results, err)
	}
	if err := holder.PingContext(t.Context()); err == nil {
		t.Error("the holder goes on")
	}
	// One that waits for the block, or that nobody waits for, is left alone.
	bystander := o.session(t, "BEGIN", "SELECT * FROM mysql.proc LIMIT 1")
	time.Sleep(2 * conflictGrace)
	if err := bystander.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}

// Another definition of a table is a finding, in the next block too. Other tables are looked at all
// the same, and the node goes on.
func TestDefinitionsThatCannotBeReadAreFindings(t *testing.T) {
	for change, back := range map[string]string{
		"ALTER TABLE %.items ADD CHECK (id < 100)":                                                                                        "ALTER TABLE %.items DROP CONSTRAINT CONSTRAINT_1",
		"ALTER TABLE %.items ADD more INT":                                                                                                "ALTER TABLE %.items DROP COLUMN more",
		"ALTER TABLE %.items CHANGE name other VARCHAR(40)":                                                                               "ALTER TABLE %.items CHANGE other name VARCHAR(40)",
		"ALTER TABLE %.items MODIFY name VARCHAR(40) COLLATE utf8mb4_general_ci":                                                          "ALTER TABLE %.items MODIFY name VARCHAR(40) COLLATE utf8mb4_nopad_bin",
		"CREATE TRIGGER %.own BEFORE UPDATE ON %.items FOR EACH ROW SET NEW.name = 'owned'":                                               "DROP TRIGGER %.own",
		"ALTER TABLE %.items ADD p DATE NOT NULL DEFAULT '2024-01-01', ADD q DATE NOT NULL DEFAULT '2024-01-02', ADD PERIOD FOR pq(p, q)": "ALTER TABLE %.items DROP PERIOD FOR pq, DROP p, DROP q",
		"RENAME TABLE %.items TO %.gone":                                                                                                  "RENAME TABLE %.gone TO %.items",
	} {
		o, sound := fresh(t, items, things), fresh(t, items, things)
		c, d := o.chain(t), sound.chain(t)
		c.attach("public.items, public.things")
		d.attach("public.items, public.things")
		o.run(t, strings.ReplaceAll("ALTER TABLE %.items ADD INDEX further (name)", "%", o.name))
		insert := sqlOf("INSERT INTO things (id, name) VALUES (7, 'x')")
		if c.commit(insert).Hash != d.commit(insert).Hash {
			t.Fatal("an index makes another table")
		}
		o.run(t, strings.ReplaceAll(change, "%", o.name))
		if c.b.conn == nil {
			t.Fatal("no connection")
		}
		x, err := c.b.Execute(t.Context(), blockOf(3, sqlOf("UPDATE things SET name = 'y' WHERE id = 7")), c.at.Hash)
		if err == nil {
			err = c.b.Rollback(t.Context())
		}
		if y := d.commit(sqlOf("UPDATE things SET name = 'y' WHERE id = 7")); err != nil || x.Hash == y.Hash {
			t.Errorf("%s: the next block does not show it: %v", change, err)
		}
		o.unguarded(t, "UPDATE %D.things SET name = 'tampered' WHERE id = 1")
		found, err := c.b.scrub(t.Context(), 0)
		if err != nil || len(found) != 2 {
			t.Errorf("%s: scrubber: %+v, %v", change, found, err)
		}
		c.b.drop()
		if p := connected(t, c.b); !p.Deviates {
			t.Errorf("%s: %+v", change, p)
		}
		var says []string
		err = Verify(t.Context(), o.dsn, nil, func(f backend.Finding) error { says = append(says, f.What); return nil })
		if err != nil || !strings.Contains(strings.Join(says, " "), "table public.items table public.things") {
			t.Errorf("%s: verify: %v %v", change, says, err)
		}
		var why *backend.Obstacle
		repair := func() error {
			_, err := c.b.Repair(t.Context(), backend.Rows, c.at.Number, c.at.Hash, c.at.Number, c.at.Hash)
			return err
		}
		if err := repair(); !errors.As(err, &why) || !strings.Contains(err.Error(), "public.items has another definition") {
			t.Errorf("%s: repair: %v", change, err)
		}
		o.run(t, strings.ReplaceAll(back, "%", o.name))
		if err := repair(); err != nil || connected(t, c.b).Deviates {
			t.Errorf("%s, and back: %v", change, err)
		}
	}
}

// Old blocks are what they were, whatever became of their tables.
func TestOldBlocksAreReadAsOfTheirTime(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	hash := c.at.Hash
	c.commit(proposal{kind: wire.Kind_KIND_DEPLOY, sql: "DETACH TABLE public.items"})
	holds := func(what string) {
		t.Helper()
		var found []backend.Finding
		err := Verify(t.Context(), o.dsn, nil, func(f backend.Finding) error { found = append(found, f); return nil })
		if err != nil || found != nil {
			t.Errorf("%s: %+v, %v", what, found, err)
		}
		if next, err := c.b.Audit(t.Context(), 1, 100); err != nil || next != 0 || connected(t, c.b).FalseBlocks != nil {
			t.Errorf("%s: audit: %v", what, err)
		}
		parts := 0
		told, err := c.b.ReadPast(t.Context())
		if err == nil {
			err = told.Block(t.Context(), 2, hash, func([]byte) error { parts++; return nil })
		}
		if err != nil || parts != 2 {
			t.Errorf("%s: told: %d parts, %v", what, parts, err)
		}
	}
	holds("detached")
	o.run(t, "DROP TABLE "+o.name+".items")
	holds("dropped")
	o.run(t, strings.ReplaceAll("CREATE TABLE %.items (more INT, name VARCHAR(40) NOT NULL PRIMARY KEY, id INT)", "%", o.name))
	c.attach("public.items")
	holds("attached with another key")
}

// Many ask for the last block: nobody's question loads its tables before rows are asked for.
func TestTheLastBlockIsToldByItsRunningStates(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	c.attach("public.items")
	c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
	told := func() []backend.TableState {
		t.Helper()
		r, err := c.b.Read(t.Context(), c.at.Number, c.at.Hash)
		must.Do(t, err)
		defer r.Close()
		return r.Tables()
	}
	before := told()
	o.unguarded(t, "DELETE FROM %L.base")
	if after := told(); len(before) != 1 || len(after) != 1 || after[0] != before[0] || before[0].Rows != 2 {
		t.Errorf("told %+v, and %+v without the base", before, after)
	}
}
