package e2e

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	shopRows   = 300
	shopAttach = "ATTACH TABLE public.stock ENCODING 2"
)

// shopOrganisations are those of shopNetwork.
var shopOrganisations = []string{"acme", "bolt", "cargo", "delta"}

// shopNetwork makes four organisations with a filled table, that is not on the ledger yet. Those
// named keep a MariaDB, the others a PostgreSQL.
func shopNetwork(ctx context.Context, t *testing.T, mariaDB ...string) *harness.Network {
	t.Helper()
	return shopNetworkOf(ctx, t, harness.Config{MariaDB: mariaDB})
}

func shopNetworkOf(ctx context.Context, t *testing.T, cfg harness.Config) *harness.Network {
	t.Helper()
	cfg.Organisations = shopOrganisations
	net := emptyNetwork(ctx, t, cfg)
	must(t, net.StartDatabases(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return createStock(ctx, o) }))
	must(t, net.EnableChainify(ctx))
	must(t, net.Each(func(o *harness.Organisation) error { return createClients(ctx, o) }))
	must(t, net.InitNodes(ctx))
	must(t, net.StartNodes(ctx, readyLimit))
	return net
}

func createStock(ctx context.Context, o *harness.Organisation) error {
	if o.MariaDB == nil {
		return o.Exec(ctx, "postgres", fmt.Sprintf(`CREATE TABLE stock (id bigint PRIMARY KEY, item varchar(40) NOT NULL, pieces bigint NOT NULL);
			INSERT INTO stock SELECT i, 'item ' || i, 100 FROM generate_series(1, %d) i`, shopRows))
	}
	return o.MariaDB.Exec(ctx, "root", database, fmt.Sprintf(`CREATE TABLE stock (id BIGINT PRIMARY KEY, item VARCHAR(40) NOT NULL, pieces BIGINT NOT NULL);
		INSERT INTO stock SELECT seq, concat('item ', seq), 100 FROM seq_1_to_%d`, shopRows))
}

// createClients makes the role clerk of clients, whom a login of the same name has in MariaDB, and
// the role dba.
func createClients(ctx context.Context, o *harness.Organisation) error {
	if o.MariaDB == nil {
		return o.Exec(ctx, "postgres", "CREATE ROLE clerk LOGIN IN ROLE chainify_client; GRANT SELECT, INSERT, UPDATE, DELETE ON stock TO clerk; CREATE ROLE dba LOGIN IN ROLE chainify_admin; GRANT ALL ON stock TO dba; ALTER TABLE stock OWNER TO dba")
	}
	return errors.Join(o.InstallMariaDB(ctx, "clerk", "dba"), o.MariaDB.Exec(ctx, "root", database, `GRANT SELECT, INSERT, UPDATE, DELETE ON stock TO clerk; GRANT bank_admin TO dba;
		CREATE USER till@localhost; GRANT clerk TO till@localhost; SET DEFAULT ROLE clerk FOR till@localhost`))
}

// submitted has statements executed through a node's socket, and gives their outcomes.
func submitted(ctx context.Context, o *harness.Organisation, role string, statements ...*wire.Statement) ([]*wire.Outcome, error) {
	client, err := gateway.Dial(ctx, o.Socket())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ids, err := client.Submit(ctx, role, statements...)
	if err != nil {
		return nil, err
	}
	outcomes, err := client.Wait(ctx, uint32(catchUpLimit.Milliseconds()), ids...)
	if err == nil && len(outcomes) < len(ids) {
		err = fmt.Errorf("%d outcomes of %d transactions", len(outcomes), len(ids))
	}
	return outcomes, err
}

// succeeds has one statement executed, which must succeed.
func succeeds(ctx context.Context, t *testing.T, o *harness.Organisation, role string, s *wire.Statement) {
	t.Helper()
	outcomes, err := submitted(ctx, o, role, s)
	must(t, err)
	if !outcomes[0].Succeeded {
		t.Fatalf("%s: %s: %s %s", o.Name, s.Sql, outcomes[0].Sqlstate, outcomes[0].Message)
	}
}

func sqlStatement(sql string) *wire.Statement {
	return &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: sql}
}

func attachStock(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	succeeds(ctx, t, net.Organisations[0], "dba", &wire.Statement{Kind: wire.Kind_KIND_DEPLOY, Sql: shopAttach})
}

// sellEffects is an EFFECTS transaction that takes one piece of an item of which there are so many.
func sellEffects(t *testing.T, id, pieces int64) *wire.Statement {
	t.Helper()
	number := func(ordinal uint16, n int64) canonical.Column {
		return canonical.Column{Ordinal: ordinal, Value: canonical.Value{Tag: canonical.Integer, Number: n}}
	}
	item := canonical.Column{Ordinal: 2, Value: canonical.Value{Tag: canonical.Text, Text: fmt.Sprintf("item %d", id)}}
	key, err := canonical.AppendRow(nil, []canonical.Column{number(1, id)})
	must(t, err)
	row, err := canonical.AppendRow(nil, []canonical.Column{number(1, id), item, number(3, pieces)})
	must(t, err)
	value := number(3, pieces-1).Value
	cell, err := value.Append(nil)
	must(t, err)
	s := &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.stock"}, Changes: []wire.RowChange{{
		Op: 'U', Row: key, Before: wire.RowHash("public.stock", row), Cells: []wire.Cell{{Ordinal: 3, Value: cell}},
	}}}
	return &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: s.Encode()}
}

// pieces reads the sum of all pieces at an organisation.
func pieces(ctx context.Context, t *testing.T, o *harness.Organisation) (sum int64) {
	t.Helper()
	must(t, o.Scan(ctx, "SELECT CAST(sum(pieces) AS decimal(20)) FROM stock", &sum))
	return sum
}

// Four organisations attach a filled table and execute statements and write sets that come over a
// socket, from the command line and over HTTP. Their blocks have the same hashes. A client that
// writes outside of a block is refused.
func TestMariaDBOrganisationsAgree(t *testing.T) {
	t.Parallel()
	engineAgrees(t, shopOrganisations...)
}

// Two organisations keep a PostgreSQL, and two a MariaDB.
func TestEnginesAgree(t *testing.T) {
	t.Parallel()
	engineAgrees(t, "cargo", "delta")
}

func engineAgrees(t *testing.T, mariaDB ...string) {
	t.Helper()
	ctx := underTest(t)
	net := shopNetwork(ctx, t, mariaDB...)
	acme := net.Organisations[0]
	attachStock(ctx, t, net)

	for i, o := range net.Organisations {
		succeeds(ctx, t, o, "clerk", sqlStatement(fmt.Sprintf("UPDATE stock SET pieces = pieces - 1 WHERE id = %d", i+1)))
	}
	succeeds(ctx, t, acme, "clerk", sellEffects(t, 10, 100))
	outcomes, err := submitted(ctx, net.Organisations[1], "clerk", sellEffects(t, 10, 100))
	var early *gateway.Error // or the block refuses it
	if stale := errors.As(err, &early) && early.SQLState == "40001"; !stale && (err != nil || outcomes[0].Sqlstate != "40001") {
		t.Errorf("a write set that saw a row as it is no more: %v %v", outcomes, err)
	}
	out, err := acme.Run(ctx, "submit", "--role", "clerk", "--wait", "UPDATE stock SET pieces = pieces - 1 WHERE id = 20")
	if err != nil || !strings.Contains(out, "committed in block") {
		t.Errorf("command line: %v %s", err, out)
	}
	overHTTP(ctx, t, acme)
	tip, err := harness.WaitSame(ctx, net.Organisations, 8, catchUpLimit)
	must(t, err)
	t.Logf("block %d, %s everywhere", tip.Number, tip.Hash)
	for _, o := range net.Organisations {
		if got := pieces(ctx, t, o); got != shopRows*100-7 {
			t.Errorf("%s has %d pieces, want %d", o.Name, got, shopRows*100-7)
		}
	}
	for _, o := range net.Organisations {
		refusesAtOnce(ctx, t, o)
		refusesWrites(ctx, t, o)
		submitsBySQL(ctx, t, o)
		toolsSpeakOf(ctx, t, o)
	}
	pagesSay(ctx, t, net.Organisations[3], map[string][]string{
		"/":                       {"No deviation found", "acme", "bolt", "public.stock", "keeps no list of members"},
		"/rows?table=stock&key=1": {"public.stock / 1", "<strong>delta</strong>", "updated"},
		"/analytics":              {"has no analytics worker"},
	})
	waitSame(ctx, t, net.Organisations, tip.Number)
}

// refusesAtOnce submits what engines execute otherwise than each other. The caller sees that no
// block has it.
func refusesAtOnce(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	_, err := submitted(ctx, o, "clerk", sqlStatement("UPDATE stock SET name = lower(name)"))
	var refused *gateway.Error
	if !errors.As(err, &refused) || refused.SQLState != "CH011" || !strings.Contains(refused.Message, "lower") {
		t.Errorf("%s: a function that engines compute otherwise: %v, want CH011 at once", o.Name, err)
	}
}

// toolsSpeakOf asks doctor, verify and metrics about a MariaDB.
func toolsSpeakOf(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	if o.MariaDB == nil {
		return
	}
	out, err := o.Tool(ctx, "verify", "--dsn", o.MariaDB.DSN(database, harness.NodeRole), "--genesis", filepath.Join(o.Home(), "config", "genesis.json"))
	if err != nil || !strings.Contains(out, "the ledger holds") {
		t.Errorf("%s: verify: %v %s", o.Name, err, out)
	}
	out, _ = o.Run(ctx, "doctor") // of the machine it may find what this test does not care for
	if !strings.Contains(out, "bank at "+o.MariaDB.Socket) || strings.Contains(out, "PostgreSQL") {
		t.Errorf("%s: doctor: %s", o.Name, out)
	}
	listen := regexp.MustCompile(`(?s)\[metrics\].*?\nlisten = "([^"]+)"`).FindStringSubmatch(readFile(t, filepath.Join(o.Home(), config.FileName)))
	client := &httpClient{url: "http://" + listen[1], http: http.DefaultClient}
	_, figures := client.do(ctx, t, http.MethodGet, "/metrics", "", "")
	for _, want := range []string{"chainify_database_up 1", "chainify_deviations_open 0", "chainify_scrub_interval_seconds 600"} {
		if !strings.Contains(figures, want) {
			t.Errorf("%s: the metrics do not say %q", o.Name, want)
		}
	}
	if out, err := o.Tool(ctx, "accept-server", "--home", o.Home()); err == nil || !strings.Contains(out, "needs PostgreSQL") {
		t.Errorf("%s: accept-server: %v %s", o.Name, err, out)
	}
}

// overHTTP takes one piece over HTTP.
func overHTTP(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	token, err := o.Tool(ctx, "client", "token", "add", "--home", o.Home(), "--role", "clerk", "till")
	must(t, err)
	listen := regexp.MustCompile(`(?s)\[http\].*?\nlisten = "([^"]+)"`).FindStringSubmatch(readFile(t, filepath.Join(o.Home(), config.FileName)))
	client := &httpClient{url: "http://" + listen[1], http: http.DefaultClient}
	code, answer := client.post(ctx, t, "", strings.TrimSpace(token), `{"sql":"UPDATE stock SET pieces = pieces - 1 WHERE id = 30","wait_ms":30000}`)
	if code != http.StatusOK || !strings.Contains(answer, `"succeeded":true`) {
		t.Errorf("HTTP: %d %s", code, answer)
	}
}

// refusesWrites lets a client of a MariaDB with all rights on the table write outside of a block.
func refusesWrites(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	if o.MariaDB == nil {
		return
	}
	for _, statement := range []string{
		"UPDATE stock SET pieces = 0 WHERE id = 1", "DELETE FROM stock", "INSERT INTO stock VALUES (0, 'x', 1)",
		"REPLACE INTO stock VALUES (1, 'x', 1)", "CREATE TEMPORARY TABLE bank_ledger.captured (seq INT)", "TRUNCATE stock",
	} {
		var refused *mysql.MySQLError
		if err := o.MariaDB.Exec(ctx, "till", database, statement); !errors.As(err, &refused) {
			t.Errorf("%s: %s: %v", o.Name, statement, err)
		}
	}
}

// submitsBySQL lets a client of a MariaDB submit by its driver and by the mariadb program, and read
// its own changes.
func submitsBySQL(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	if o.MariaDB == nil {
		return
	}
	db, err := o.MariaDB.Open(database, "till")
	must(t, err)
	defer db.Close()
	type row struct {
		id                  string
		block, place, count int64
		outcome             bool
		state, message      *string
	}
	call := func(statement, parameters string) (r row) {
		t.Helper()
		must(t, db.QueryRowContext(ctx, "CALL chainify_execute(?, ?)", statement, parameters).Scan(&r.id, &r.block, &r.place, &r.outcome, &r.count, &r.state, &r.message))
		return r
	}
	var before, after int64
	must(t, db.QueryRowContext(ctx, "SELECT pieces FROM stock WHERE id = 80").Scan(&before))
	if r := call("UPDATE stock SET pieces = pieces - $1 WHERE id = $2", "[1, 80]"); !r.outcome || r.count != 1 {
		t.Errorf("%s: %+v", o.Name, r)
	}
	must(t, db.QueryRowContext(ctx, "SELECT pieces FROM stock WHERE id = 80").Scan(&after))
	if after != before-1 {
		t.Errorf("%s: %d pieces after the answer, want %d", o.Name, after, before-1)
	}
	if r := call("INSERT INTO stock (id, item, pieces) VALUES (1, 'again', 1)", "[]"); r.outcome || r.block == 0 || r.state == nil || *r.state != "23505" {
		t.Errorf("%s: a key that is there: %+v", o.Name, r)
	}
	out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+o.MariaDB.Socket, "-u", "till", "-E", database,
		"-e", "CALL chainify_execute('UPDATE stock SET pieces = pieces - 1 WHERE id = 81', NULL); SELECT pieces AS have FROM stock WHERE id = 81").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "outcome: 1") || !strings.Contains(string(out), "rows: 1") || !strings.Contains(string(out), "have: ") {
		t.Errorf("%s: mariadb: %v %s", o.Name, err, out)
	}
}

// answered are the transactions that clients were told of as done.
type answered struct {
	sync.Mutex
	ids []string
}

// sell takes pieces one by one at an organisation until ctx ends, and keeps what was answered.
func (a *answered) sell(ctx context.Context, o *harness.Organisation, id int) {
	for ctx.Err() == nil {
		outcomes, err := submitted(ctx, o, "clerk", sqlStatement(fmt.Sprintf("UPDATE stock SET pieces = pieces - 1 WHERE id = %d", id)))
		if err == nil && outcomes[0].Succeeded {
			a.Lock()
			a.ids = append(a.ids, hex.EncodeToString(outcomes[0].Id))
			a.Unlock()
		}
	}
}

func (a *answered) count() int {
	a.Lock()
	defer a.Unlock()
	return len(a.ids)
}

// A MariaDB that is killed under load comes back with every transaction that was answered, and
// executes what it missed. A row that root changed is found by the block that touches it, or by the
// scrubber. It is put right while the others go on, after its history was folded as well.
func TestMariaDBComesBack(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := shopNetwork(ctx, t, "cargo", "delta")
	attachStock(ctx, t, net)
	odd := net.Organisations[3]
	done := killedUnderLoad(ctx, t, net, odd)
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		hasAll(ctx, t, o, done.ids)
	}
	state(ctx, t, odd, "serving")
	tamperedRowComesBack(ctx, t, net, odd, 50, "touch")
	must(t, odd.StopNode())
	must(t, odd.Configure(map[string]any{"scrub_interval": "1s", "checkpoint_interval": 5}))
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, readyLimit))
	tamperedRowComesBack(ctx, t, net, odd, 60, "scrubber")
	must(t, harness.Poll(ctx, catchUpLimit, "history is folded", func(ctx context.Context) (bool, string, error) {
		var base uint64
		err := odd.MariaDB.Scan(ctx, database+"_ledger", "SELECT min(base_after) FROM ledger_table", &base)
		return base >= 5, fmt.Sprintf("the base is that of block %d", base), err
	}))
	tamperedRowComesBack(ctx, t, net, odd, 51, "touch")
}

// killedUnderLoad kills the database of an organisation twice while clients of all sell.
func killedUnderLoad(ctx context.Context, t *testing.T, net *harness.Network, odd *harness.Organisation) *answered {
	t.Helper()
	load, stop := context.WithCancel(ctx)
	defer stop()
	var done answered
	var clients sync.WaitGroup
	for i, o := range net.Organisations {
		clients.Go(func() { done.sell(load, o, 40+i) })
	}
	more := func(count int) {
		want := done.count() + count
		must(t, harness.Poll(ctx, progressLimit, fmt.Sprintf("%d answers", want), func(context.Context) (bool, string, error) {
			return done.count() >= want, fmt.Sprintf("%d", done.count()), nil
		}))
	}
	for range 2 {
		more(40)
		odd.MariaDB.Kill()
		more(20)
		must(t, odd.MariaDB.Start(ctx))
	}
	more(40)
	stop()
	clients.Wait()
	return &done
}

// hasAll expects an organisation to hold these transactions, each once and succeeded.
func hasAll(ctx context.Context, t *testing.T, o *harness.Organisation, ids []string) {
	t.Helper()
	if o.MariaDB == nil {
		return
	}
	db, err := o.MariaDB.Open(database+"_ledger", "root")
	must(t, err)
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT lower(hex(id)) FROM "transaction" WHERE outcome`)
	must(t, err)
	defer rows.Close()
	have := map[string]int{}
	for rows.Next() {
		var id string
		must(t, rows.Scan(&id))
		have[id]++
	}
	must(t, rows.Err())
	lost := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return have[id] == 1 })
	if len(lost) > 0 {
		t.Errorf("%s does not have %d of %d answered transactions once: %v", o.Name, len(lost), len(ids), lost[0])
	}
	t.Logf("%s has all %d answered transactions", o.Name, len(ids))
}

// tamperedRowComesBack changes a row behind the ledger, as root with a list of changes of its own.
func tamperedRowComesBack(ctx context.Context, t *testing.T, net *harness.Network, odd *harness.Organisation, id int, by string) {
	t.Helper()
	good := net.Organisations[0]
	started := time.Now()
	must(t, odd.MariaDB.Exec(ctx, "root", database, fmt.Sprintf(`CREATE TEMPORARY TABLE bank_ledger.captured (name TEXT, op TEXT, before_row LONGBLOB, after_row LONGBLOB);
		UPDATE stock SET pieces = 7777 WHERE id = %d`, id)))
	if by == "touch" {
		succeeds(ctx, t, good, "clerk", sqlStatement(fmt.Sprintf("UPDATE stock SET pieces = pieces - 1 WHERE id = %d", id)))
	}
	succeeds(ctx, t, good, "clerk", sqlStatement("UPDATE stock SET pieces = pieces - 1 WHERE id = 70")) // the others go on
	must(t, harness.Poll(ctx, catchUpLimit, "the row is right", func(ctx context.Context) (bool, string, error) {
		var have, want int64
		query := fmt.Sprintf("SELECT pieces FROM stock WHERE id = %d", id)
		if err := errors.Join(odd.Scan(ctx, query, &have), good.Scan(ctx, query, &want)); err != nil {
			return false, err.Error(), nil
		}
		return have == want, fmt.Sprintf("it has %d, want %d", have, want), nil
	}))
	waitSame(ctx, t, net.Organisations, 1)
	state(ctx, t, odd, "serving")
	var cures int
	must(t, odd.MariaDB.Scan(ctx, database+"_ledger", "SELECT count(*) FROM deviation", &cures))
	t.Logf("tampered row, %s: right after %s, %d deviations recorded", by, time.Since(started).Round(time.Millisecond), cures)
}
