package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/backend/postgres"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/engines"
)

const (
	databaseLimit = 10 * time.Second
	clockApart    = time.Second
	preparedAge   = time.Minute
)

// majors are those of PostgreSQL that the tests run with. Releases are made for the first.
var majors = []int{15, 17, 18}

// facts are read from the database before any function of the extension is called.
type facts struct {
	Version                    int  // server_version_num
	Recovering                 bool // a standby
	ReadOnly                   bool
	WalLevel                   string
	Fsync, FullPageWrites      bool
	Encoding, Locale           string // Locale: LC_COLLATE where its order is not by bytes, otherwise LC_CTYPE
	Preloaded                  bool
	NodeSocket                 string
	Guard                      bool
	ScrubRate, ExecutorWorkers int
	WorkerProcesses            int
	Member                     bool
	Extension, Available       string // versions; empty: not there
	Collations                 []string
	Prepared                   int // transactions that are older than preparedAge
	ClockApart                 time.Duration
}

// factsSQL reads settings from pg_settings, which has those of the extension only when it is loaded
// at the server's start.
const factsSQL = `
SELECT current_setting('server_version_num')::integer,
       pg_is_in_recovery(),
       current_setting('default_transaction_read_only')::boolean,
       current_setting('wal_level'),
       current_setting('fsync')::boolean,
       current_setting('full_page_writes')::boolean,
       (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
       (SELECT CASE WHEN datlocprovider <> 'c' THEN 'another provider''s' WHEN datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8') THEN datctype ELSE datcollate END
        FROM pg_database WHERE datname = current_database()),
       EXISTS (SELECT FROM pg_settings WHERE name = 'chainify.scrub_rate'),
       coalesce(current_setting('chainify.node_socket', true), ''),
       coalesce(current_setting('chainify.guard', true), 'on')::boolean,
       coalesce(current_setting('chainify.scrub_rate', true), '0')::integer,
       coalesce(current_setting('chainify.executor_workers', true), '1')::integer,
       current_setting('max_worker_processes')::integer,
       coalesce((SELECT pg_has_role(current_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = 'chainify_node'), false),
       coalesce((SELECT extversion FROM pg_extension WHERE extname = 'chainify'), ''),
       coalesce((SELECT default_version FROM pg_available_extensions WHERE name = 'chainify'), ''),
       ARRAY(SELECT format('database %I', datname) FROM pg_database
             WHERE datname = current_database() AND datcollversion <> pg_database_collation_actual_version(oid)
             UNION ALL
             SELECT format('collation %I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
             WHERE c.collversion <> pg_collation_actual_version(c.oid)
               AND EXISTS (SELECT FROM pg_attribute a WHERE a.attcollation = c.oid AND a.attrelid >= 16384)),
       (SELECT count(*)::integer FROM pg_prepared_xacts WHERE database = current_database() AND prepared < now() - make_interval(secs => $1)),
       clock_timestamp()`

func examineDatabase(ctx context.Context, home config.Home, c config.Config, version string, alone bool, ownerOf func(string, uint16) (uint32, bool)) []Finding {
	const check = "database"
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	to, err := pgx.ParseConfig(c.Database.DSN)
	if err != nil {
		return []Finding{bad(check, reason(err), mendOf(err))}
	}
	primary, servers := examineServers(ctx, c.Database.DSN)
	if primary != "" {
		to = postgres.At(to, primary)
	}
	to.RuntimeParams["search_path"] = "pg_catalog, pg_temp" // whatever role and database have: X11
	to.RuntimeParams["application_name"] = "chainify doctor"
	postgres.EndWithMachine(&to.Config)
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return []Finding{bad(check, reason(err), mendOf(err))}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	f, err := readFacts(ctx, conn)
	if err != nil {
		return []Finding{bad(check, reason(err), "See the server's log.")}
	}
	findings := judge(f, home.Path(c.Clients.Socket), version)
	if uid, ok := ownerOf(to.Host, to.Port); ok {
		findings = append(findings, judgeOwner(uid, c))
	}
	findings = append(findings, examineMirrors(ctx, conn)...)
	findings = append(findings, examineRoles(ctx, conn)...)
	if !alone {
		findings = append(findings, examineLedgerRules(ctx, conn)...)
	}
	findings = append(findings, servers...)
	return append(findings, fine(check, "%s on %s, as %s", to.Database, to.Host, to.User))
}

// idleMirror is a mirrored table of which queries get no answers.
type idleMirror struct{ Table, State, Error string }

// examineMirrors asks the analytics worker, where tables are mirrored.
func examineMirrors(ctx context.Context, conn *pgx.Conn) []Finding {
	var wanted int
	if err := conn.QueryRow(ctx, `SELECT count(*)::integer FROM chainify.mirrored_tables`).Scan(&wanted); err != nil || wanted == 0 {
		return nil // an extension of before, or no mirrors
	}
	rows, err := conn.Query(ctx, `SELECT m."table", m.state, coalesce(m.error, '') FROM chainify.mirrors m WHERE m.state <> 'serving' ORDER BY m."table" COLLATE "C"`)
	if err != nil {
		return []Finding{bad("mirrors", reason(err), "See the server's log.")}
	}
	idle, err := pgx.CollectRows(rows, pgx.RowToStructByPos[idleMirror])
	if err != nil {
		return []Finding{bad("mirrors", reason(err), "See the server's log.")}
	}
	return []Finding{judgeMirrors(wanted, idle)}
}

// examineRoles looks for the roles that the ledger's definitions name.
func examineRoles(ctx context.Context, conn *pgx.Conn) []Finding {
	const check = "roles of the ledger"
	rows, err := conn.Query(ctx, `SELECT chainify_node.missing_roles()`)
	var missing []string
	if err == nil {
		missing, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	var failed *pgconn.PgError
	switch {
	case errors.As(err, &failed) && slices.Contains([]string{"3F000", "42883", "42501"}, failed.Code):
		return nil // an extension of before, none, or a role that is no member: other checks say so
	case err != nil:
		return []Finding{bad(check, reason(err), "See the server's log.")}
	case len(missing) == 0:
		return []Finding{fine(check, "are there")}
	}
	return []Finding{bad(check, "missing: "+strings.Join(missing, ", "),
		"CREATE ROLE each of them, NOLOGIN if nobody uses it. The ledger keeps names of roles for good: a block that names a missing one fails in this database alone.")}
}

func judgeMirrors(wanted int, idle []idleMirror) Finding {
	if len(idle) == 0 {
		return fine("mirrors", "%d of %d give answers", wanted, wanted)
	}
	first := idle[0]
	found := fmt.Sprintf("%d of %d give no answers; %s: %s", len(idle), wanted, first.Table, first.State)
	if first.Error != "" {
		found += " (" + first.Error + ")"
	}
	mend := "chainify.mirrors tells of all. docs/operator/analytics.md says what each state asks for."
	if first.State == "no worker" {
		mend = "Start chainify-analytics, or take tables off with chainify.unmirror."
	}
	return Finding{Warn, "mirrors", found, mend}
}

func readFacts(ctx context.Context, conn *pgx.Conn) (facts, error) {
	var f facts
	var clock time.Time
	before := time.Now()
	err := conn.QueryRow(ctx, factsSQL, preparedAge.Seconds()).Scan(&f.Version, &f.Recovering, &f.ReadOnly, &f.WalLevel, &f.Fsync, &f.FullPageWrites,
		&f.Encoding, &f.Locale, &f.Preloaded, &f.NodeSocket, &f.Guard, &f.ScrubRate, &f.ExecutorWorkers, &f.WorkerProcesses, &f.Member, &f.Extension, &f.Available,
		&f.Collations, &f.Prepared, &clock)
	// The server read its clock between the two looks at ours.
	if early := before.Sub(clock); early > 0 {
		f.ClockApart = early
	} else if late := clock.Sub(time.Now()); late > 0 {
		f.ClockApart = late
	}
	return f, err
}

// rule is one check of the facts; it holds or is broken.
type rule struct {
	check  string
	broken bool
	level  Level
	found  string
	mend   string
}

// judge applies the rules; version is the node's.
func judge(f facts, socket, version string) []Finding {
	if !slices.Contains(majors, f.Version/10000) {
		return []Finding{bad("PostgreSQL", fmt.Sprintf("version is %d.%d", f.Version/10000, f.Version%10000), "Chainify needs PostgreSQL 15, or 17 or 18 with the extension built for it.")}
	}
	return append([]Finding{fine("PostgreSQL", "%d.%d", f.Version/10000, f.Version%10000)}, apply(rules(f, socket, version))...)
}

func apply(rules []rule) (findings []Finding) {
	for _, r := range rules {
		if r.broken {
			findings = append(findings, Finding{r.level, r.check, r.found, r.mend})
		} else {
			findings = append(findings, fine(r.check, "as it should be"))
		}
	}
	return findings
}

func rules(f facts, socket, version string) []rule {
	needed := 5 + f.ExecutorWorkers // both of the extension, logical replication's launcher, and room for parallel queries
	return []rule{
		{"primary", f.Recovering, Bad, "the server is a standby", "Point database.dsn at the primary."},
		{"read only", f.ReadOnly, Warn, "default_transaction_read_only is on; blocks are written all the same", "Where an alarm about a full disk set it, make room. Then ALTER SYSTEM, ALTER DATABASE or ALTER ROLE … RESET default_transaction_read_only"},
		{
			"preload", !f.Preloaded, Bad, "the extension's library is not loaded at the server's start",
			"Add chainify to shared_preload_libraries in postgresql.conf and restart PostgreSQL.",
		},
		{"extension", f.Extension == "" && f.Available != "", Bad, "the database has no extension chainify", "As superuser in that database: CREATE EXTENSION chainify"},
		{"extension files", f.Available == "", Bad, "the server has no files of the extension", `Run "make install" on the database server, or install the package.`},
		{
			"extension version", f.Extension != "" && f.Available != "" && f.Extension != f.Available, Bad,
			fmt.Sprintf("the database has %s, the server's files are of %s", f.Extension, f.Available), "Stop the node, as superuser: ALTER EXTENSION chainify UPDATE; start it",
		},
		{
			"node version", f.Available != "" && f.Available != version, Warn, fmt.Sprintf("the node is of version %s, the server's extension of %s", version, f.Available),
			"Install the same version of both.",
		},
		{"role", !f.Member, Bad, "the node's role is no member of chainify_node", "As superuser: GRANT chainify_node TO " + "the role in database.dsn"},
		{
			"node socket", f.Preloaded && f.NodeSocket != socket, Bad, fmt.Sprintf("chainify.node_socket is '%s', the node's socket is '%s'", f.NodeSocket, socket),
			fmt.Sprintf("chainify.node_socket = '%s' in postgresql.conf, then SELECT pg_reload_conf(); or clients.socket in %s.", socket, config.FileName),
		},
		{"guard", !f.Guard, Bad, "chainify.guard is off for the node's role: ledger tables can be changed behind the ledger", "Remove chainify.guard from postgresql.conf, ALTER ROLE and ALTER DATABASE."},
		{"fsync", !f.Fsync, Bad, "fsync is off: a crash may leave a database that cannot be repaired", "fsync = on in postgresql.conf"},
		{"full_page_writes", !f.FullPageWrites, Bad, "full_page_writes is off: a crash may leave torn pages", "full_page_writes = on in postgresql.conf"},
		{"wal_level", f.WalLevel == "minimal", Warn, "wal_level is minimal: no physical backup can be made", "wal_level = replica in postgresql.conf, then restart"},
		{"encoding", f.Encoding != "UTF8", Warn, "the database's encoding is " + f.Encoding, "Every organisation must have the same; UTF8 is what is tested."},
		{
			"locale", f.Locale != "C.UTF-8" && f.Locale != "C.utf8", Warn,
			"the database's locale is " + f.Locale + ": organisations with another one do not agree on tables",
			"Compare chainify.environment() of all organisations. LOCALE 'C.UTF-8' TEMPLATE template0 is what is tested, and refuses least.",
		},
		{
			"collation versions", len(f.Collations) > 0, Bad, "sort orders changed since " + strings.Join(f.Collations, ", ") + " was made",
			"REINDEX what uses them, then ALTER … REFRESH COLLATION VERSION (ALTER COLLATION … REFRESH VERSION): organisations that sort differently execute differently.",
		},
		{
			"worker processes", f.WorkerProcesses < needed, Warn, fmt.Sprintf("max_worker_processes is %d, with chainify.executor_workers %d it should be %d", f.WorkerProcesses, f.ExecutorWorkers, needed),
			fmt.Sprintf("max_worker_processes = %d in postgresql.conf, then restart", needed),
		},
		{"scrubber", f.Preloaded && f.ScrubRate == 0, Warn, "chainify.scrub_rate is 0: rows that no block touches are never looked at", "Remove chainify.scrub_rate from postgresql.conf."},
		{
			"prepared transactions", f.Prepared > 0, Warn, fmt.Sprintf("%d are open for more than a minute: one may be in a block's way", f.Prepared),
			"COMMIT PREPARED or ROLLBACK PREPARED what pg_prepared_xacts lists.",
		},
		{"clocks", f.ClockApart > clockApart, Warn, fmt.Sprintf("the database's clock is %s from the node's", f.ClockApart.Round(time.Millisecond)), "Keep both machines' clocks right (NTP)."},
	}
}

// examineExplorer: the explorer can read as chainify_reader, and nobody reaches it unasked.
func examineExplorer(ctx context.Context, home config.Home, c config.Config) Finding {
	const check = "explorer"
	setting, dsn := "explorer.dsn", c.Explorer.DSN
	if dsn == "" {
		setting, dsn = "database.dsn", c.Database.DSN
	}
	ctx, cancel := context.WithTimeout(ctx, databaseLimit)
	defer cancel()
	if found, has := engines.ExaminePages(ctx, dsn); has {
		if Level(found.Level) == Fine && !c.Explorer.Loopback() {
			return judgeVisitors(home, c)
		}
		return Finding{Level(found.Level), check, found.Found, found.Mend}
	}
	to, err := pgx.ParseConfig(dsn)
	if err != nil {
		return bad(check, setting+": "+reason(err), strings.ReplaceAll(mendOf(err), "database.dsn", setting))
	}
	postgres.EndWithMachine(&to.Config)
	conn, err := pgx.ConnectConfig(ctx, to)
	if err != nil {
		return bad(check, setting+": "+reason(err), strings.ReplaceAll(mendOf(err), "database.dsn", setting))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var reads bool
	err = conn.QueryRow(ctx, `SELECT coalesce((SELECT pg_catalog.pg_has_role(current_user, oid, 'MEMBER') FROM pg_catalog.pg_roles WHERE rolname = 'chainify_reader'), false)`).Scan(&reads)
	switch {
	case err != nil:
		return bad(check, setting+": "+reason(err), "See the server's log.")
	case !reads:
		return bad(check, fmt.Sprintf("role %q of %s is no member of chainify_reader", conn.Config().User, setting), "As superuser: GRANT chainify_reader TO the role.")
	case !c.Explorer.Loopback():
		return judgeVisitors(home, c)
	}
	return fine(check, "reads as %s", conn.Config().User)
}

// judgeVisitors: a token opens an explorer beyond loopback.
func judgeVisitors(home config.Home, c config.Config) Finding {
	const check = "explorer"
	somebody, err := access.AnyToken(home.Path(c.HTTP.TokensFile), config.ReaderRole, time.Now())
	switch {
	case err != nil:
		return bad(check, err.Error(), "Correct the file of http.tokens_file.")
	case !somebody:
		return bad(check, "listens at "+c.Explorer.Listen+", and no token opens it", fmt.Sprintf("Make one: chainify client token add --home %s --role %s NAME; or listen on loopback.", home, config.ReaderRole))
	}
	return fine(check, "tokens of role %s open it at %s", config.ReaderRole, c.Explorer.Listen)
}

// judgeOwner: PostgreSQL's operating-system user may speak to the node's socket.
func judgeOwner(uid uint32, c config.Config) Finding {
	const check = "socket users"
	uids, err := c.AllowedUIDs()
	if err != nil {
		return bad(check, err.Error(), "Correct clients.users in "+config.FileName+".")
	}
	if !slices.Contains(uids, uid) {
		return bad(check, fmt.Sprintf("PostgreSQL runs as user %d, who is not among clients.users", uid), "Add the user to clients.users in "+config.FileName+" and restart the node.")
	}
	return fine(check, "PostgreSQL's user may connect")
}

// ownerOfServerSocket tells as whom a PostgreSQL on this machine runs.
func ownerOfServerSocket(host string, port uint16) (uint32, bool) {
	if !strings.HasPrefix(host, "/") {
		return 0, false
	}
	info, err := os.Stat(filepath.Join(host, fmt.Sprintf(".s.PGSQL.%d", port)))
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return stat.Uid, true
}

// reason is an error's cause in one line, without the connection string, which may hold a password.
func reason(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// mendOf says what to do when the database cannot be reached.
func mendOf(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return "Is PostgreSQL running, and host and port in database.dsn right? May this user connect (pg_hba.conf)?"
	}
	switch e.Code {
	case "3D000":
		return "Create the database, or correct dbname in database.dsn."
	case "28000", "28P01":
		return "Create the role: CREATE ROLE chainify_login LOGIN IN ROLE chainify_node; let it in (pg_hba.conf); correct user and password in database.dsn."
	case "53300":
		return "Raise max_connections, or end sessions."
	}
	return "See the server's log."
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
