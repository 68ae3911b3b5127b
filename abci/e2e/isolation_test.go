package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

type level int

const (
	readCommitted level = iota
	repeatableRead
	serializable
)

func (l level) String() string {
	return [...]string{"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[l]
}

// anomaly is a script of sessions, each with one transaction. The names are those of Adya's thesis
// (1999) and of Martin Kleppmann's Hermitage, whose scripts for PostgreSQL these follow.
//
// Below level preventedFrom the script brings the anomaly about, and it must, or the detector would
// be blind. From that level on no run may show it.
type anomaly struct {
	name          string
	preventedFrom level
	steps         []string // number of the session, and its statement
	// happened finds the anomaly. Without it the anomaly is that no serial order of the committed
	// transactions explains the results and the rows left.
	happened func(history) bool
	// shown is what the steps give when the anomaly comes about, and the rows left. It proves that
	// the detector sees an anomaly that no level lets come about.
	shown string
}

// isolationRows are in the table at the start of each script.
const isolationRows = "INSERT INTO test VALUES (1, 10), (2, 20)"

var anomalies = []anomaly{
	{"G0", readCommitted, []string{
		"1 UPDATE test SET value = 11 WHERE id = 1", "2 UPDATE test SET value = 12 WHERE id = 1",
		"1 UPDATE test SET value = 21 WHERE id = 2", "1 COMMIT",
		"2 UPDATE test SET value = 22 WHERE id = 2", "2 COMMIT",
	}, nil, "UPDATE 1; UPDATE 1; UPDATE 1; UPDATE 1 -> 1 11, 2 22"},
	{"G0 crosswise", readCommitted, []string{
		"1 UPDATE test SET value = 11 WHERE id = 1", "2 UPDATE test SET value = 22 WHERE id = 2",
		"1 UPDATE test SET value = 21 WHERE id = 2", "2 UPDATE test SET value = 12 WHERE id = 1", "1 COMMIT", "2 COMMIT",
	}, nil, "UPDATE 1; UPDATE 1; UPDATE 1; UPDATE 1 -> 1 12, 2 21"},
	{"G1a", readCommitted, []string{
		"1 UPDATE test SET value = 101 WHERE id = 1", "2 SELECT value FROM test WHERE id = 1",
		"1 ROLLBACK", "2 SELECT value FROM test WHERE id = 1", "2 COMMIT",
	}, nil, "UPDATE 1; 101; 10 -> 1 10, 2 20"},
	{"G1b", readCommitted, []string{
		"1 UPDATE test SET value = 101 WHERE id = 1", "2 SELECT value FROM test WHERE id = 1",
		"1 UPDATE test SET value = 11 WHERE id = 1", "1 COMMIT",
		"2 SELECT value FROM test WHERE id = 1", "2 COMMIT",
	}, func(h history) bool { return slices.Contains(h.results[2], "101") }, "UPDATE 1; 101; UPDATE 1; 11 -> 1 11, 2 20"},
	{"G1c", readCommitted, []string{
		"1 UPDATE test SET value = 11 WHERE id = 1", "2 UPDATE test SET value = 22 WHERE id = 2",
		"1 SELECT value FROM test WHERE id = 2", "2 SELECT value FROM test WHERE id = 1", "1 COMMIT", "2 COMMIT",
	}, func(h history) bool {
		return slices.Contains(h.results[1], "22") && slices.Contains(h.results[2], "11")
	}, "UPDATE 1; UPDATE 1; 22; 11 -> 1 11, 2 22"},
	{"OTV", readCommitted, []string{
		"1 UPDATE test SET value = 11 WHERE id = 1", "1 UPDATE test SET value = 19 WHERE id = 2",
		"2 UPDATE test SET value = 12 WHERE id = 1", "1 COMMIT", "3 SELECT value FROM test WHERE id = 1",
		"2 UPDATE test SET value = 18 WHERE id = 2", "3 SELECT value FROM test WHERE id = 2", "2 COMMIT",
		"3 SELECT value FROM test WHERE id = 2", "3 SELECT value FROM test WHERE id = 1", "3 COMMIT",
	}, vanishes, "UPDATE 1; UPDATE 1; UPDATE 1; 12; UPDATE 1; 19; 18; 12 -> 1 12, 2 18"},
	// The second transaction succeeds this time, and changes what the third has read.
	{"OTV later", readCommitted, []string{
		"1 UPDATE test SET value = 11 WHERE id = 1", "1 UPDATE test SET value = 19 WHERE id = 2", "1 COMMIT",
		"3 SELECT value FROM test WHERE id = 1", "2 UPDATE test SET value = 12 WHERE id = 1",
		"2 UPDATE test SET value = 18 WHERE id = 2", "3 SELECT value FROM test WHERE id = 2", "2 COMMIT",
		"3 SELECT value FROM test WHERE id = 2", "3 SELECT value FROM test WHERE id = 1", "3 COMMIT",
	}, vanishes, "UPDATE 1; UPDATE 1; 11; UPDATE 1; UPDATE 1; 18; 19; 12 -> 1 12, 2 18"},
	{"PMP", repeatableRead, []string{
		"1 SELECT * FROM test WHERE value = 30", "2 INSERT INTO test VALUES (3, 30)", "2 COMMIT",
		"1 SELECT * FROM test WHERE value % 3 = 0", "1 COMMIT",
	}, nil, ""},
	{"PMP write", readCommitted, []string{
		"1 UPDATE test SET value = value + 10", "2 SELECT * FROM test WHERE value = 20",
		"2 DELETE FROM test WHERE value = 20", "1 COMMIT", "2 SELECT * FROM test WHERE value = 20", "2 COMMIT",
	}, nil, "UPDATE 2; 2 20; DELETE 0; 1 20 -> 1 20, 2 30"},
	{"PMP write, a row comes", repeatableRead, []string{
		"2 DELETE FROM test WHERE value = 20", "1 UPDATE test SET value = 20 WHERE id = 1", "1 COMMIT",
		"2 SELECT * FROM test WHERE value = 20", "2 COMMIT",
	}, nil, ""},
	{"P4", repeatableRead, []string{
		"1 SELECT value FROM test WHERE id = 1", "2 SELECT value FROM test WHERE id = 1",
		"1 UPDATE test SET value = 11 WHERE id = 1", "1 COMMIT",
		"2 UPDATE test SET value = 12 WHERE id = 1", "2 COMMIT",
	}, nil, ""},
	{"P4 at once", readCommitted, []string{
		"1 SELECT value FROM test WHERE id = 1", "2 SELECT value FROM test WHERE id = 1",
		"1 UPDATE test SET value = 11 WHERE id = 1", "2 UPDATE test SET value = 12 WHERE id = 1", "1 COMMIT", "2 COMMIT",
	}, nil, "10; 10; UPDATE 1; UPDATE 1 -> 1 12, 2 20"},
	{"P4 in a statement", readCommitted, []string{
		"1 UPDATE test SET value = value + 1 WHERE id = 1", "2 UPDATE test SET value = value + 1 WHERE id = 1",
		"1 COMMIT", "2 COMMIT",
	}, nil, "UPDATE 1; UPDATE 1 -> 1 11, 2 20"},
	{"P4 FOR UPDATE", readCommitted, []string{
		"1 SELECT value FROM test WHERE id = 1 FOR UPDATE", "2 SELECT value FROM test WHERE id = 1 FOR UPDATE",
		"1 UPDATE test SET value = 11 WHERE id = 1", "1 COMMIT",
		"2 UPDATE test SET value = 12 WHERE id = 1", "2 COMMIT",
	}, nil, "10; 10; UPDATE 1; UPDATE 1 -> 1 12, 2 20"},
	{"G-single", repeatableRead, []string{
		"1 SELECT value FROM test WHERE id = 1", "2 SELECT * FROM test",
		"2 UPDATE test SET value = 12 WHERE id = 1", "2 UPDATE test SET value = 18 WHERE id = 2", "2 COMMIT",
		"1 SELECT value FROM test WHERE id = 2", "1 COMMIT",
	}, nil, ""},
	{"G-single dependencies", repeatableRead, []string{
		"1 SELECT value FROM test WHERE id = 1", "2 UPDATE test SET value = 12 WHERE id = 1",
		"2 UPDATE test SET value = 18 WHERE id = 2", "2 COMMIT",
		"1 UPDATE test SET value = value + 1 WHERE id = 2", "1 COMMIT",
	}, nil, ""},
	{"G-single predicates", repeatableRead, []string{
		"1 SELECT * FROM test WHERE value % 5 = 0", "2 UPDATE test SET value = 12 WHERE value = 10", "2 COMMIT",
		"1 SELECT * FROM test WHERE value % 3 = 0", "1 COMMIT",
	}, nil, ""},
	{"G-single write", repeatableRead, []string{
		"1 SELECT value FROM test WHERE id = 1", "2 SELECT * FROM test",
		"2 UPDATE test SET value = 12 WHERE id = 1", "2 UPDATE test SET value = 18 WHERE id = 2", "2 COMMIT",
		"1 DELETE FROM test WHERE value = 20", "1 SELECT value FROM test WHERE id = 2", "1 COMMIT",
	}, nil, ""},
	{"G2-item", serializable, []string{
		"1 SELECT * FROM test", "2 SELECT * FROM test", "1 UPDATE test SET value = 11 WHERE id = 1",
		"2 UPDATE test SET value = 21 WHERE id = 2", "1 COMMIT", "2 COMMIT",
	}, nil, ""},
	{"G2-item FOR SHARE", readCommitted, []string{
		"1 SELECT * FROM test FOR SHARE", "2 SELECT * FROM test FOR SHARE", "1 UPDATE test SET value = 11 WHERE id = 1",
		"2 UPDATE test SET value = 21 WHERE id = 2", "1 COMMIT", "2 COMMIT",
	}, nil, "1 10, 2 20; 1 10, 2 20; UPDATE 1; UPDATE 1 -> 1 11, 2 21"},
	{"G2", serializable, []string{
		"1 SELECT * FROM test WHERE value % 3 = 0", "2 SELECT * FROM test WHERE value % 3 = 0",
		"1 INSERT INTO test VALUES (3, 30)", "2 INSERT INTO test VALUES (4, 42)", "1 COMMIT", "2 COMMIT",
	}, nil, ""},
	// A transaction that only reads closes the circle.
	{"G2 two edges", serializable, []string{
		"1 SELECT * FROM test", "2 UPDATE test SET value = value + 5 WHERE id = 2", "2 COMMIT",
		"3 SELECT * FROM test", "3 COMMIT", "1 UPDATE test SET value = 0 WHERE id = 1", "1 COMMIT",
	}, nil, ""},
}

// vanishes says whether session 3 saw a change of session 2 and, later, a row without it.
func vanishes(h history) bool {
	seen := false
	for _, result := range h.results[3] {
		of2 := result == "12" || result == "18"
		if seen && !of2 {
			return true
		}
		seen = seen || of2
	}
	return false
}

// No anomaly that a level excludes comes about between sessions of different organisations, nor
// between those of one. An anomaly that a level leaves possible comes about, so the suite sees it.
func TestIsolation(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	letDefine(ctx, t, net)
	must(t, net.Organisation("acme").Exec(ctx, "dba", "SELECT chainify.deploy('CREATE TABLE test (id int PRIMARY KEY, value int NOT NULL); GRANT ALL ON test TO bank')"))
	seen := watched(ctx, t, net)
	oracle := newSerialOracle(ctx, t, net.Organisations[0])
	same := func(int) *harness.Organisation { return net.Organisations[0] }
	different := func(session int) *harness.Organisation { return net.Organisations[session-1] }
	for _, a := range anomalies {
		checkDetector(ctx, t, oracle, a)
	}
	for l := readCommitted; l <= serializable; l++ {
		for _, a := range anomalies {
			t.Run(l.String()+"/"+a.name+"/of different organisations", func(t *testing.T) {
				checkAnomaly(ctx, t, seen, oracle, a, l, different)
			})
			t.Run(l.String()+"/"+a.name+"/of one organisation", func(t *testing.T) {
				checkAnomaly(ctx, t, seen, oracle, a, l, same)
			})
		}
	}
	checkReads(ctx, t, seen)
	checkTables(ctx, t, net)
}

// found says whether the anomaly is in what became of the script, and whether a serial order
// explains that.
func (a anomaly) found(ctx context.Context, t *testing.T, oracle serialOracle, h history) (happened, serial bool) {
	t.Helper()
	serial = oracle.explains(ctx, t, h)
	if a.happened != nil {
		return a.happened(h), serial
	}
	return !serial, serial
}

// A detector that no level gives work sees the anomaly that it is shown.
func checkDetector(ctx context.Context, t *testing.T, oracle serialOracle, a anomaly) {
	t.Helper()
	if a.preventedFrom > readCommitted {
		return // READ COMMITTED shows it
	}
	results, left, _ := strings.Cut(a.shown, " -> ")
	if happened, serial := a.found(ctx, t, oracle, invented(a.steps, strings.Split(results, "; "), left)); !happened || serial {
		t.Errorf("the detector of %s finds: %t, and a serial order: %t", a.name, happened, serial)
	}
}

func checkAnomaly(ctx context.Context, t *testing.T, net *isolationNet, oracle serialOracle, a anomaly, l level, at func(int) *harness.Organisation) {
	resetIsolation(ctx, t, net)
	h := playScript(ctx, t, net, a.steps, l, at)
	for i, o := range net.Organisations {
		rows, err := resultOf(ctx, net.eyes[o], "SELECT * FROM test")
		must(t, err)
		if i > 0 && rows != h.left {
			t.Errorf("%s has the rows %s, and %s has %s", o.Name, rows, net.Organisations[0].Name, h.left)
		}
		h.left = rows
	}
	happened, serial := a.found(ctx, t, oracle, h)
	switch {
	case len(h.committed) == 0:
		t.Errorf("no transaction succeeded: %v", h)
	case happened && serial:
		t.Errorf("the anomaly is found in what a serial order explains: %v", h)
	case happened && l >= a.preventedFrom:
		t.Errorf("the anomaly came about: %v", h)
	case !happened && l < a.preventedFrom:
		t.Errorf("the anomaly did not come about, which this script brings about at the level: %v", h)
	case l == serializable && !serial:
		t.Errorf("no serial order explains the run: %v", h)
	}
}

// docs/consistency.md says of each anomaly what the suite shows.
func TestConsistencyPageHasTheAnomalies(t *testing.T) {
	page, err := os.ReadFile("../../docs/consistency.md")
	must(t, err)
	cells := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		columns := strings.Split(line, " | ")
		if len(columns) < 5 {
			continue
		}
		for name := range strings.SplitSeq(strings.Trim(columns[len(columns)-1], " |\n"), "; ") {
			cells[name] = columns[2:]
		}
	}
	for _, a := range anomalies {
		row := cells[a.name]
		if row == nil {
			t.Errorf("docs/consistency.md lacks %s", a.name)
			continue
		}
		for l := readCommitted; l <= serializable; l++ {
			if prevented := strings.HasPrefix(row[l], "no"); prevented != (l >= a.preventedFrom) {
				t.Errorf("%s at %s: docs/consistency.md says %q, the suite says prevented: %t", a.name, l, row[l], l >= a.preventedFrom)
			}
		}
	}
}

// resetIsolation fills the table anew, in every organisation.
func resetIsolation(ctx context.Context, t *testing.T, net *isolationNet) {
	t.Helper()
	conn := plainSession(ctx, t, net.Organisations[0])
	defer conn.Close(context.WithoutCancel(ctx))
	run(ctx, t, conn, "TRUNCATE test; "+isolationRows)
	net.allReach(ctx, t, net.Organisations[0])
}

// serialOracle runs transactions one after the other, on a table of one database alone.
type serialOracle struct{ conn *pgx.Conn }

func newSerialOracle(ctx context.Context, t *testing.T, o *harness.Organisation) serialOracle {
	t.Helper()
	conn, err := o.Connect(ctx)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
	run(ctx, t, conn, "CREATE TEMP TABLE test (id int PRIMARY KEY, value int NOT NULL)")
	return serialOracle{conn}
}

// explains says whether some serial order of the committed transactions gives the same results and
// leaves the same rows. Three sessions have six orders.
func (s serialOracle) explains(ctx context.Context, t *testing.T, h history) bool {
	t.Helper()
	return anyOrder(slices.Clone(h.committed), 0, func(order []int) bool {
		tx, err := s.conn.Begin(ctx)
		must(t, err)
		defer func() { must(t, tx.Rollback(ctx)) }()
		_, err = tx.Exec(ctx, "TRUNCATE test; "+isolationRows)
		must(t, err)
		for _, session := range order {
			for i, sql := range h.statements[session] {
				if result, err := resultOf(ctx, s.conn, sql); err != nil || result != h.results[session][i] {
					return false
				}
			}
		}
		left, err := resultOf(ctx, s.conn, "SELECT * FROM test")
		must(t, err)
		return left == h.left
	})
}

// anyOrder says whether ok holds for a permutation of the sessions from index from on.
func anyOrder(sessions []int, from int, ok func([]int) bool) bool {
	if from == len(sessions) {
		return ok(sessions)
	}
	for i := from; i < len(sessions); i++ {
		sessions[from], sessions[i] = sessions[i], sessions[from]
		if anyOrder(sessions, from+1, ok) {
			return true
		}
		sessions[from], sessions[i] = sessions[i], sessions[from]
	}
	return false
}
