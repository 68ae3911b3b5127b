package doctor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const version = "0.2.0"

// patient is an organisation of one: a home, and a PostgreSQL with the extension when the test has
// a tree of it.
type patient struct {
	*testing.T
	home    config.Home
	config  config.Config
	cluster *harness.Cluster
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir, err := os.MkdirTemp("", "chainify-doctor") // short: a socket's path is bounded
	must.Do(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	homes, err := config.Testnet{
		Dir: dir, Organisations: []string{"acme"}, ChainID: "test", BasePort: min(port, 60_000), DSNTemplate: "host=/nowhere dbname=bank user=chainify_login", Now: time.Now(),
	}.Create()
	must.Do(t, err)
	c, err := config.Load(string(homes[0]))
	must.Do(t, err)
	return &patient{T: t, home: homes[0], config: c}
}

// withDatabase starts a PostgreSQL as it should be.
func (p *patient) withDatabase() {
	p.Helper()
	tree := os.Getenv("CHAINIFY_TEST_PGTREE")
	if tree == "" {
		p.Skip("CHAINIFY_TEST_PGTREE is not set: a PostgreSQL with the extension; `make test` sets it")
	}
	dir, err := os.MkdirTemp("", "chainify-doctor-pg")
	p.must(err)
	p.must(os.Chmod(dir, 0o755))
	net, err := harness.New(p.Context(), harness.Config{Dir: filepath.Join(dir, "net"), PG: tree, Database: "bank", Organisations: []string{"acme"}})
	p.must(err)
	p.Cleanup(func() { p.must(net.Close()); os.RemoveAll(dir) })
	p.cluster = net.Organisations[0].Cluster
	p.must(p.cluster.Configure(map[string]string{
		"shared_preload_libraries": "chainify", "chainify.node_socket": "'" + p.home.Path(p.config.Clients.Socket) + "'",
	}))
	p.must(p.cluster.Start(p.Context()))
	p.exec("postgres", `CREATE DATABASE bank TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'`)
	p.exec("bank", `CREATE EXTENSION chainify`)
	p.exec("bank", `CREATE ROLE chainify_login LOGIN IN ROLE chainify_node`)
	p.exec("bank", `CREATE ROLE stranger LOGIN`)
	p.config.Database.DSN = p.cluster.DSN("bank", harness.NodeRole)
}

func (p *patient) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *patient) exec(database, sql string) {
	p.Helper()
	conn, err := p.cluster.Connect(p.Context(), database, "postgres")
	p.must(err)
	defer conn.Close(p.Context())
	_, err = conn.Exec(p.Context(), sql)
	p.must(err)
}

// examine gives the findings by check, and sees that every one that is not fine says how to mend
// it.
func (p *patient) examine() map[string]Finding {
	p.Helper()
	out := map[string]Finding{}
	for _, f := range Examine(p.Context(), p.home, p.config, version) {
		if (f.Level == Fine) != (f.Mend == "") || f.Found == "" {
			p.Errorf("half a finding: %+v", f)
		}
		out[f.Check] = f
	}
	return out
}

// ill expects these checks, and no others, at a level.
func ill(t *testing.T, found map[string]Finding, level Level, checks ...string) {
	t.Helper()
	for check, f := range found {
		if want := slices.Contains(checks, check); want != (f.Level == level) {
			t.Errorf("%s: %+v, want %s: %v", check, f, level, want)
		}
	}
	for _, check := range checks {
		if _, made := found[check]; !made {
			t.Errorf("no check %s was made", check)
		}
	}
}

func TestADatabaseAsItShouldBeIsWell(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	ill(t, p.examine(), Bad)
}

// Functions that stand in front of PostgreSQL's are a user's: the doctor calls none of them,
// whatever path its role has (invariant X11).
func TestTheDoctorCallsNothingOfAUser(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	for _, f := range []string{"clock_timestamp() RETURNS timestamptz", "pg_encoding_to_char(integer) RETURNS name", "current_setting(text, boolean) RETURNS text"} {
		p.exec("bank", "CREATE FUNCTION public."+f+` LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trap'; END $$`)
	}
	p.exec("bank", `ALTER ROLE chainify_login SET search_path = public, pg_catalog`)
	ill(t, p.examine(), Bad)
}

func TestBrokenSettingsOfTheDatabaseAreFound(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	p.exec("bank", `CREATE TABLE t (x text COLLATE "und-x-icu" PRIMARY KEY)`)
	p.exec("bank", `UPDATE pg_collation SET collversion = '1.0' WHERE collname = 'und-x-icu'`)
	p.exec("bank", `UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'chainify'`)
	p.exec("bank", `ALTER ROLE chainify_login SET chainify.guard = off`)
	p.exec("bank", `ALTER ROLE chainify_login SET default_transaction_read_only = on`)
	p.must(p.cluster.Stop())
	p.must(p.cluster.Configure(map[string]string{
		"fsync": "off", "full_page_writes": "off", "wal_level": "minimal", "max_wal_senders": "0", "max_worker_processes": "3",
		"chainify.node_socket": "'/elsewhere/node.sock'", "chainify.scrub_rate": "0",
	}))
	p.must(p.cluster.Start(p.Context()))
	p.config.Clients.Users = []string{"4242"}
	found := p.examine()
	ill(t, found, Bad, "fsync", "full_page_writes", "node socket", "guard", "collation versions", "extension version", "socket users")
	for _, check := range []string{"wal_level", "worker processes", "scrubber", "read only"} {
		if found[check].Level != Warn {
			t.Errorf("%s: %+v", check, found[check])
		}
	}
	p.must(p.cluster.Stop())
	p.must(p.cluster.Configure(map[string]string{"shared_preload_libraries": "''"}))
	p.must(p.cluster.Start(p.Context()))
	if f := p.examine()["preload"]; f.Level != Bad {
		t.Errorf("not preloaded: %+v", f)
	}
}

func TestADatabaseThatCannotBeUsedIsExplained(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	for _, broken := range []struct{ dsn, check, mend string }{
		{p.cluster.DSN("bank", "nobody"), "database", "CREATE ROLE"},
		{p.cluster.DSN("nothing", harness.NodeRole), "database", "Create the database"},
		{p.cluster.DSN("bank", "stranger"), "role", "GRANT chainify_node"},
		{p.cluster.DSN("postgres", harness.NodeRole), "extension", "CREATE EXTENSION chainify"},
		{"host=" + t.TempDir() + " dbname=bank", "database", "Is PostgreSQL running"},
	} {
		p.config.Database.DSN = broken.dsn
		if f := p.examine()[broken.check]; f.Level != Bad || !strings.Contains(f.Mend, broken.mend) {
			t.Errorf("%s: %+v, want %q", broken.dsn, f, broken.mend)
		}
	}
}

func TestAHomeThatIsBrokenIsFound(t *testing.T) {
	p := newPatient(t)
	p.config.Database.DSN = ""
	if f := p.examine()["genesis"]; f.Level != Warn {
		t.Errorf("an organisation without its database: %+v", f)
	}
	p.must(os.Chmod(p.home.Path(config.FileName), 0o644))
	if f := checkPermissions(p.home, p.config); f.Level != Fine {
		t.Errorf("a configuration without a password: %+v", f)
	}
	for _, dsn := range []string{"host=db password=x", "postgres://node:x@db/bank"} {
		if f := checkPermissions(p.home, config.Config{Database: config.Database{DSN: dsn}}); f.Level != Bad {
			t.Errorf("a configuration with a password: %+v", f)
		}
	}
	p.must(os.Chmod(p.home.Path("config", "gateway_key.json"), 0o644))
	p.config.Organisation = "bolt"
	p.config.Clients.Socket = "/" + strings.Repeat("x", socketPathMax)
	taken, err := net.Listen("tcp", p.config.HTTP.Listen)
	p.must(err)
	defer taken.Close()
	found := p.examine()
	ill(t, found, Bad, "permissions", "genesis", "socket", "ports")
	if !strings.Contains(found["ports"].Found, "http.listen") {
		t.Errorf("ports: %+v", found["ports"])
	}
	p.must(os.Remove(p.home.Path("config", "gateway_key.json")))
	p.must(os.Remove(p.home.Genesis()))
	ill(t, p.examine(), Bad, "permissions", "genesis", "socket", "ports")
}

func TestTheMachineIsJudged(t *testing.T) {
	c := config.Default("acme")
	c.Network.Peers = []string{strings.Repeat("0", 40) + "@bolt.example:26656"}
	for name, try := range map[string]struct {
		machine machine
		check   string
		want    Level
	}{
		"a clock that nothing keeps": {machine{}, "clock", Warn},
		"a clock that is kept":       {machine{clockSynced: true}, "clock", Fine},
		"a disk nearly full":         {machine{diskFree: 1 << 30}, "disk", Warn},
		"a disk full":                {machine{diskFree: 1 << 20}, "disk", Bad},
		"no data directory":          {machine{diskError: os.ErrNotExist}, "disk", Bad},
		"a peer away":                {machine{unreachable: map[string]error{"bolt.example:26656": errors.New("refused")}}, "peers", Warn},
		"a node that runs":           {machine{running: true}, "node", Fine},
		"a socket not ours":          {machine{socketError: os.ErrPermission}, "node", Warn},
		"no version comes":           {machine{protocol: &wire.ProtocolStatus{InForce: 1, Known: 1}}, "protocol", Fine},
		"a version comes":            {coming(2, 2), "protocol", Fine},
		"nobody heard from another":  {coming(2, 0), "protocol", Warn},
		"a version comes to others":  {coming(2, 1), "protocol", Warn},
		"a version not known here":   {coming(1, 2), "protocol", Bad},
		"nobody tells another one":   {machine{protocol: &wire.ProtocolStatus{}}, "environment", Fine},
		"another library elsewhere":  {machine{protocol: &wire.ProtocolStatus{}, environment: []*wire.EnvironmentDifference{{Organisation: "bolt", Name: "icu", Own: "72", Other: "76"}}}, "environment", Warn},
	} {
		for _, f := range judgeMachine(try.machine, c) {
			if f.Check == try.check && f.Level != try.want {
				t.Errorf("%s: %+v, want %s", name, f, try.want)
			}
		}
	}
}

// coming is a machine that is told of version 2, and another organisation's node.
func coming(known, theirs uint32) machine {
	others := []*wire.ProtocolStatus_Knows{{Organisation: "bolt", Version: theirs}}
	return machine{protocol: &wire.ProtocolStatus{InForce: 1, Known: known, Next: 2, NextHeight: 90, Organisations: others}}
}

// The findings that no server on this machine can be made to show.
func TestFactsAreJudged(t *testing.T) {
	well := facts{
		Version: 150020, WalLevel: "replica", Fsync: true, FullPageWrites: true, Encoding: "UTF8", Locale: "C.UTF-8", Preloaded: true, NodeSocket: "/s", Guard: true,
		ScrubRate: 1, ExecutorWorkers: 1, WorkerProcesses: 8, Member: true, Extension: version, Available: version,
	}
	upgraded := well
	for _, upgraded.Version = range []int{170004, 180001} {
		if f := judge(upgraded, "/s", version)[0]; f.Level != Fine {
			t.Errorf("PostgreSQL %d: %+v", upgraded.Version, f)
		}
	}
	for check, breaks := range map[string]func(*facts){
		"": func(*facts) {}, "PostgreSQL": func(f *facts) { f.Version = 160001 }, "primary": func(f *facts) { f.Recovering = true },
		"encoding": func(f *facts) { f.Encoding = "LATIN1" }, "locale": func(f *facts) { f.Locale = "C" }, "extension files": func(f *facts) { f.Available, f.Extension = "", "" },
		"node version":          func(f *facts) { f.Available, f.Extension = "0.0.9", "0.0.9" },
		"prepared transactions": func(f *facts) { f.Prepared = 1 }, "clocks": func(f *facts) { f.ClockApart = time.Minute },
		"worker processes": func(f *facts) { f.ExecutorWorkers = 4 },
	} {
		f := well
		breaks(&f)
		for _, finding := range judge(f, "/s", version) {
			if (finding.Level == Fine) == (finding.Check == check) {
				t.Errorf("%q broken: %+v", check, finding)
			}
		}
	}
}

// Tokens and the key of TLS are secrets like the others, where there are any.
func TestSecretsOfHTTPAreForNobodyElse(t *testing.T) {
	p := newPatient(t)
	if f := checkPermissions(p.home, p.config); f.Level != Fine {
		t.Errorf("without tokens: %+v", f)
	}
	p.config.HTTP.TLSKeyFile = "tls.key"
	for _, name := range []string{p.config.HTTP.TokensFile, p.config.HTTP.TLSKeyFile} {
		p.must(os.WriteFile(p.home.Path(name), nil, 0o604))
		if f := checkPermissions(p.home, p.config); f.Level != Bad || !strings.Contains(f.Found, name) {
			t.Errorf("%s: %+v", name, f)
		}
		p.must(os.Chmod(p.home.Path(name), 0o600))
	}
}

// A table on the ledger that is mirrored, and no worker.
func TestAWorkerThatIsNotThereIsFound(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	if f, made := p.examine()["mirrors"]; made {
		t.Errorf("without mirrors: %+v", f)
	}
	p.exec("bank", `CREATE TABLE item (id integer PRIMARY KEY)`)
	p.exec("bank", `INSERT INTO chainify_ledger.ledger_table (name, relation, history, checkpoint, schema_hash, attached_at, base_block, attached_tx)
		VALUES ('public.item', 'item', 'item', 'item', '', 1, 1, 0)`)
	p.exec("bank", `SELECT chainify.mirror('item')`)
	f := p.examine()["mirrors"]
	if f.Level != Warn || !strings.HasPrefix(f.Found, "1 of 1 give no answers; public.item: no worker (no analytics worker is configured") || !strings.Contains(f.Mend, "Start chainify-analytics") {
		t.Errorf("without a worker: %+v", f)
	}
}

func TestRolesOfTheLedgerThatAreGoneAreNamed(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	p.exec("bank", `INSERT INTO chainify_ledger.governed_role VALUES ('stranger'), ('public')`)
	if f := p.examine()["roles of the ledger"]; f.Level != Fine {
		t.Errorf("all there: %+v", f)
	}
	p.exec("bank", `INSERT INTO chainify_ledger.governed_role VALUES ('teller'), ('auditor')`)
	if f := p.examine()["roles of the ledger"]; f.Level != Bad || f.Found != "missing: auditor, teller" || !strings.Contains(f.Mend, "CREATE ROLE") {
		t.Errorf("two gone: %+v", f)
	}
}

func TestMirrorsThatGiveNoAnswersAreNamed(t *testing.T) {
	if f := judgeMirrors(2, nil); f.Level != Fine || f.Found != "2 of 2 give answers" {
		t.Errorf("%+v", f)
	}
	f := judgeMirrors(2, []idleMirror{{"public.item", "differs", "its rows at block 7 are not those agreed on"}})
	if f.Level != Warn || f.Found != "1 of 2 give no answers; public.item: differs (its rows at block 7 are not those agreed on)" {
		t.Errorf("%+v", f)
	}
	if f := judgeMirrors(1, []idleMirror{{"public.item", "no worker", ""}}); !strings.Contains(f.Mend, "Start chainify-analytics") {
		t.Errorf("%+v", f)
	}
}
