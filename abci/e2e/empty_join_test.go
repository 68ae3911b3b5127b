package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// foundation is a ledger of many kinds of things, made by DEPLOY transactions alone: each string is
// one, and rows come between.
var foundation = []string{
	`CREATE SCHEMA book; GRANT USAGE ON SCHEMA book TO bank;
	 CREATE TYPE book.mood AS ENUM ('low', 'high'); CREATE DOMAIN book.amount AS numeric(12,2) CHECK (VALUE > -1000);
	 CREATE TABLE owners (id int PRIMARY KEY, name text NOT NULL UNIQUE, gone text);
	 CREATE TABLE checking (custid int PRIMARY KEY REFERENCES owners, balance book.amount NOT NULL, mood book.mood);
	 CREATE TABLE marks (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text, twice text GENERATED ALWAYS AS (note || note) STORED);
	 GRANT ALL ON owners, checking, marks TO bank, dba;
	 CREATE INDEX ON marks (note)`,
	`ALTER TABLE owners DROP COLUMN gone; ALTER TABLE owners ADD COLUMN since int NOT NULL DEFAULT 7;
	 CREATE FUNCTION book.rich(int) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT balance > 100 FROM public.checking WHERE custid = $1';
	 CREATE VIEW book.poor AS SELECT custid FROM public.checking WHERE balance < 1; GRANT SELECT ON book.poor TO bank;
	 ALTER TABLE checking ENABLE ROW LEVEL SECURITY; CREATE POLICY everybody ON checking USING (true)`,
	`CREATE TABLE book.parts (id int PRIMARY KEY, text text) PARTITION BY RANGE (id);
	 CREATE TABLE book.first PARTITION OF book.parts FOR VALUES FROM (0) TO (100);
	 CREATE TABLE book.rest PARTITION OF book.parts DEFAULT; GRANT ALL ON book.parts TO bank`,
}

func rolesOnly(ctx context.Context, o *harness.Organisation) error {
	return o.Exec(ctx, "postgres", `CREATE ROLE bank LOGIN IN ROLE chainify_client; CREATE ROLE dba LOGIN IN ROLE chainify_admin, chainify_reader;
		GRANT CREATE ON SCHEMA public TO dba; GRANT CREATE ON DATABASE `+database+` TO dba`)
}

// foundedNetwork is four organisations, whose ledger came by DEPLOY transactions alone.
func foundedNetwork(ctx context.Context, t *testing.T, settings map[string]any) *harness.Network {
	t.Helper()
	net := emptyNetwork(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, SnapshotEvery: 10, Settings: settings})
	must(t, net.StartDatabases(ctx))
	must(t, net.EnableChainify(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return rolesOnly(ctx, o) }))
	must(t, net.InitNodes(ctx))
	must(t, net.StartNodes(ctx, readyLimit))
	acme := net.Organisations[0]
	for i, statements := range foundation {
		must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy($d$"+statements+"$d$)"))
		rows := []string{
			"INSERT INTO owners SELECT n, 'owner ' || n, 'x' FROM generate_series(1, 300) n; INSERT INTO checking SELECT id, id, 'high' FROM owners",
			"INSERT INTO marks (note) SELECT 'note ' || n FROM generate_series(1, 40) n",
			"INSERT INTO book.parts SELECT n, 'part ' || n FROM generate_series(1, 200) n",
		}[i]
		for _, statement := range strings.Split(rows, "; ") {
			must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute($e$"+statement+"$e$)"))
		}
	}
	if err := acme.Exec(ctx, "dba", "SELECT chainify.deploy('DROP TABLE missing')"); err == nil {
		t.Error("a deploy of nothing succeeded")
	}
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.plan('UPDATE checking SET balance = 0', now() + interval '1 day')"))
	deposits(ctx, t, acme, 30)
	return net
}

// joinsEmpty has the home of an organisation join by a snapshot that acme tells of.
func joinsEmpty(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, options ...string) {
	t.Helper()
	trust, err := os.ReadFile(filepath.Join(net.Organisations[0].Home(), "data", "trust"))
	must(t, err)
	_, err = o.Run(ctx, "join", append([]string{"--trust", strings.TrimSpace(string(trust))}, options...)...)
	must(t, err)
	must(t, o.StartNode())
}

// isWhole checks that a database that joined has what the others have.
func isWhole(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	storesCertificates(ctx, t, o)
	for _, sql := range []string{
		"SELECT string_agg(v::text, '; ') FROM (SELECT * FROM chainify.verify_ledger() LIMIT 5) v",
		"SELECT string_agg(v::text, '; ') FROM chainify.tables t, LATERAL (SELECT * FROM chainify.verify_table(t.name::regclass) LIMIT 5) v",
	} {
		var findings *string
		must(t, o.Scan(ctx, sql, &findings))
		if findings != nil {
			t.Errorf("%s: %s", o.Name, *findings)
		}
	}
	for _, sql := range []string{
		"SELECT string_agg(d::text, ';' ORDER BY kind, identity) FROM (SELECT kind, identity, definition, since FROM chainify.definitions) d",
		"SELECT string_agg(s::text, ';' ORDER BY name) FROM chainify.sequences s",
		"SELECT string_agg(p.id::text || p.state, ';') FROM chainify.planned p",
		"SELECT string_agg(indexdef, ';' ORDER BY indexdef) FROM pg_indexes WHERE schemaname IN ('public', 'book')",
		"SELECT string_agg(m::text, ';' ORDER BY id) FROM marks m",
		"SELECT string_agg(p.tableoid::regclass::text || p::text, ';' ORDER BY id) FROM book.parts p",
	} {
		var want, found *string
		must(t, net.Organisations[0].Scan(ctx, sql, &want))
		must(t, o.Scan(ctx, sql, &found))
		if want == nil || found == nil || *want != *found {
			t.Errorf("%s: %v, want %v: %s", o.Name, found, want, sql)
		}
	}
}

// A fifth organisation joins with a database that holds nothing but the extension. It follows,
// executes, and votes once it is a member.
func TestAnOrganisationJoinsWithAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, 2*testLimit)
	net := foundedNetwork(ctx, t, nil)
	founders, acme := net.Organisations[:4], net.Organisations[0]
	nothing := func(*harness.Organisation) error { return nil }
	echo, part, err := net.Outsider(ctx, "echo", nothing, func(o *harness.Organisation) error { return rolesOnly(ctx, o) })
	must(t, err)
	approve(ctx, t, founders[:3], acme, "org", "add", file(t, part), "--from-height", "50000")
	deposits(ctx, t, acme, 3)
	began := time.Now()
	joinsEmpty(ctx, t, net, echo)
	deposits(ctx, t, acme, 3) // there is a block since the snapshot
	caughtUp(ctx, t, net, echo)
	t.Logf("joined after %s", time.Since(began))
	isWhole(ctx, t, net, echo)

	approve(ctx, t, founders[1:], acme, "governance", "withdraw")
	deposits(ctx, t, acme, 1)
	govern(ctx, t, net, founders[:3], acme, "org", "add", file(t, part))
	must(t, echo.WaitServing(ctx, readyLimit))
	must(t, echo.Named(false))
	deposits(ctx, t, echo, 3)
	must(t, acme.Exec(ctx, "dba", "SELECT chainify.deploy('ALTER TABLE marks ADD COLUMN more int')"))
	must(t, echo.Exec(ctx, "bank", "SELECT chainify.execute('INSERT INTO marks (note) VALUES (''last'')')"))
	isWhole(ctx, t, net, echo)
}

// emptied gives an organisation a new database, which holds nothing but the extension.
func emptied(ctx context.Context, o *harness.Organisation) error {
	conn, err := o.Cluster.Connect(ctx, "postgres", "postgres")
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE anew")
	return errors.Join(
		err, conn.Close(ctx), o.Cluster.ReplaceDatabase(ctx, database, "anew"),
		o.Exec(ctx, "postgres", "CREATE EXTENSION chainify; GRANT CREATE ON SCHEMA public TO dba; GRANT CREATE ON DATABASE "+database+" TO dba"),
	)
}

// An organisation lost database and order blocks. Its node or its database is killed while it
// joins, several times. It joins all the same, and goes on from the rows that it received.
func TestJoiningEmptyOutlastsKills(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, 2*testLimit)
	net := foundedNetwork(ctx, t, map[string]any{"tell_rate": 1 << 20}) // each piece takes a second
	acme, odd := net.Organisations[0], net.Organisations[3]
	for _, statement := range []string{
		"INSERT INTO book.parts SELECT n, repeat('x', 1000) FROM generate_series(1001, 4000) n",
		"INSERT INTO owners SELECT n, repeat('x', 1000) || n FROM generate_series(1001, 6000) n",
	} {
		must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute($e$"+statement+"$e$)"))
	}
	caughtUp(ctx, t, net, odd)
	must(t, odd.StopNode())
	must(t, emptied(ctx, odd))
	deposits(ctx, t, acme, 3)
	joinsEmpty(ctx, t, net, odd, "--drop-order")
	stop := keepDepositing(ctx, t, acme)
	const begun = "FROM pg_stat_activity WHERE query LIKE '%chainify_node.join_%' AND pid <> pg_backend_pid()"
	path, before := filepath.Join(net.Dir, odd.Name, "node.log"), 0
	for i, at := range []string{
		begun, begun,
		"FROM chainify_ledger.received WHERE tbl = 'public.checking'", // and all of book.parts
		"FROM chainify_ledger.received WHERE tbl = 'public.owners'",
	} {
		must(t, harness.Poll(ctx, progressLimit, "it joins", func(ctx context.Context) (bool, string, error) {
			var working bool
			err := odd.Scan(ctx, "SELECT EXISTS (SELECT "+at+") OR EXISTS (SELECT FROM chainify_ledger.block)", &working)
			return err == nil && working, "not yet", nil
		}))
		if i == 2 {
			before = tookOver(t, path, "book.parts")
		}
		if i%2 == 0 {
			odd.KillNode()
			must(t, odd.StartNode())
		} else {
			odd.Cluster.Kill()
			must(t, odd.Cluster.Start(ctx))
		}
	}
	must(t, odd.WaitServing(ctx, catchUpLimit))
	if parts, owners := tookOver(t, path, "book.parts"), tookOver(t, path, "public.owners"); before == 0 || parts != before || owners < 2 {
		t.Errorf("book.parts came %d times, %d of them before all of it was there; owners %d times", parts, before, owners)
	}
	stop()
	caughtUp(ctx, t, net, odd)
	isWhole(ctx, t, net, odd)
}

// tookOver is in how many attempts to join rows of a table came, as the node's log tells.
func tookOver(t *testing.T, log, table string) int {
	t.Helper()
	return strings.Count(readFile(t, log), `msg="taking rows over" part=effects table=`+table+" ")
}
