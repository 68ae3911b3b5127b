package workload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// tpcbSQL makes schema tpcb: tables, fill(branches, tellers, accounts), and the transactions as
// functions.
//
//go:embed tpcb.sql
var tpcbSQL string

// TPCB are the tables of pgbench's own scripts, and of sysbench's oltp_write_only, in sizes of
// their own. Transactions of different branches share no row.
type TPCB struct {
	Branches int
	Tellers  int // of a branch
	Accounts int // of a branch, and as many rows of oltp_write_only
}

// SequenceTable is the ledger's own table of the values of sequences.
const SequenceTable = "chainify_ledger.sequence"

// HotRows are the rows of table tpcb.hot, for transactions that are to meet.
const HotRows = 10

// Schema is all of the tables, filled.
func (t TPCB) Schema() Schema {
	return Schema{
		Name: "tpcb", SQL: tpcbSQL, Fill: fmt.Sprintf("SELECT tpcb.fill(%d, %d, %d)", t.Branches, t.Tellers, t.Accounts),
		Tables: []string{"tpcb.branch", "tpcb.teller", "tpcb.account", "tpcb.history", "tpcb.sbtest", "tpcb.hot"},
	}
}

// Script is a transaction of several statements, for one client after the other.
type Script struct {
	Name       string
	function   string
	parameters []string // of the function, by name, in the order of $1, $2 …
	draws      string   // how pgbench draws them; TELLERS and ACCOUNTS are those of a branch
	statements []string // with :name for a parameter
}

// ID is the name as a part of a figure's.
func (s Script) ID() string { return strings.ReplaceAll(s.Name, "-", "_") }

// Scripts are the transactions: tpcb-like and simple-update of pgbench, and oltp_write_only of
// sysbench. The program of sysbench is not needed: pgbench sends the same statements.
func Scripts() []Script {
	const account = "UPDATE tpcb.account SET abalance = abalance + :delta WHERE aid = :aid"
	const balance = "SELECT abalance FROM tpcb.account WHERE aid = :aid"
	const history = "INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP)"
	const draws = "\\set tid (:bid - 1) * TELLERS + random(1, TELLERS)\n\\set aid (:bid - 1) * ACCOUNTS + random(1, ACCOUNTS)\n\\set delta random(-5000, 5000)\n"
	return []Script{
		{"tpcb-like", "tpcb.tpcb_like", []string{"aid", "tid", "bid", "delta"}, draws, []string{
			account, balance, "UPDATE tpcb.teller SET tbalance = tbalance + :delta WHERE tid = :tid",
			"UPDATE tpcb.branch SET bbalance = bbalance + :delta WHERE bid = :bid", history,
		}},
		{"simple-update", "tpcb.simple_update", []string{"aid", "tid", "bid", "delta"}, draws, []string{account, balance, history}},
		{
			"oltp_write_only", "tpcb.write_only",
			[]string{"one", "two", "three", "number"},
			"\\set one (:bid - 1) * ACCOUNTS + random(1, ACCOUNTS)\n\\set two (:bid - 1) * ACCOUNTS + random(1, ACCOUNTS)\n\\set three (:bid - 1) * ACCOUNTS + random(1, ACCOUNTS)\n\\set number random(1, 1000000)\n",
			[]string{
				"UPDATE tpcb.sbtest SET k = k + 1 WHERE id = :one", "UPDATE tpcb.sbtest SET c = tpcb.digits(:number, 10) WHERE id = :two",
				"DELETE FROM tpcb.sbtest WHERE id = :three",
				"INSERT INTO tpcb.sbtest VALUES (:three, :number, tpcb.digits(:number, 10), tpcb.digits(:number, 5))",
			},
		},
	}
}

// head draws the parameters. Each client of pgbench has a branch of its own, from the first of
// this pgbench on.
func (s Script) head(t TPCB, first int) string {
	draws := strings.NewReplacer("TELLERS", strconv.Itoa(t.Tellers), "ACCOUNTS", strconv.Itoa(t.Accounts)).Replace(s.draws)
	return fmt.Sprintf("\\set bid :client_id + %d\n", first) + draws
}

// Interactive is the script of pgbench that sends BEGIN, each statement, and COMMIT.
func (s Script) Interactive(t TPCB, first int) string {
	return s.head(t, first) + "BEGIN;\n" + strings.Join(s.statements, ";\n") + ";\nCOMMIT;\n"
}

// Called is the script of pgbench that runs the function by one call of chainify.execute. A
// transaction that fails ends pgbench.
func (s Script) Called(t TPCB, first int) string {
	places, values := make([]string, len(s.parameters)), make([]string, len(s.parameters))
	for i, name := range s.parameters {
		places[i], values[i] = fmt.Sprintf("$%d", i+1), ":"+name+"::int"
	}
	return s.head(t, first) + fmt.Sprintf("SELECT 1 / outcome::int FROM chainify.execute('SELECT %s(%s)', %s);\n", s.function, strings.Join(places, ", "), strings.Join(values, ", "))
}

// Together is the script of pgbench that runs the statements as one text by one call of
// chainify.execute.
func (s Script) Together(t TPCB, first int) string {
	text := strings.Join(s.statements, "; ")
	var values []string
	for i, name := range s.parameters {
		text = replaceParameter(text, name, fmt.Sprintf("%%%d$s", i+1))
		values = append(values, ":"+name+"::int")
	}
	return s.head(t, first) + fmt.Sprintf("SELECT 1 / outcome::int FROM chainify.execute(format('%s', %s));\n", text, strings.Join(values, ", "))
}

// replaceParameter puts something in the place of :name, where that is the whole name.
func replaceParameter(text, name, by string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, ":"+name)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if after != "" && (after[0] == '_' || after[0] >= 'a' && after[0] <= 'z') {
			out.WriteString(":" + name)
		} else {
			out.WriteString(by)
		}
		text = after
	}
}

// Drawn is one transaction of a script with its values.
type Drawn struct {
	script Script
	values []string // of the parameters
}

// Draw draws a transaction at a branch. Two of different branches share no row.
func (t TPCB) Draw(script Script, branch int, random *rand.Rand) Drawn {
	row := func() int { return (branch-1)*t.Accounts + 1 + random.IntN(t.Accounts) }
	values := []int{row(), row(), row(), 1 + random.IntN(1_000_000)}
	if script.parameters[0] == "aid" {
		values = []int{row(), (branch-1)*t.Tellers + 1 + random.IntN(t.Tellers), branch, random.IntN(10_001) - 5_000}
	}
	d := Drawn{script: script}
	for _, v := range values {
		d.values = append(d.values, strconv.Itoa(v))
	}
	return d
}

// Call is the transaction as one call of its function.
func (d Drawn) Call() Statement {
	places, types := make([]string, len(d.values)), make([]string, len(d.values))
	for i := range d.values {
		places[i], types[i] = fmt.Sprintf("$%d", i+1), "int4"
	}
	return Statement{SQL: "SELECT " + d.script.function + "(" + strings.Join(places, ", ") + ")", Types: types, Values: d.values}
}

// Statements are those of the transaction, one by one, each with the parameters that it has.
func (d Drawn) Statements() []Statement {
	out := make([]Statement, len(d.script.statements))
	for i, text := range d.script.statements {
		s := &out[i]
		s.SQL = text
		for j, name := range d.script.parameters {
			if replaced := replaceParameter(s.SQL, name, fmt.Sprintf("$%d", len(s.Values)+1)); replaced != s.SQL {
				s.SQL, s.Types, s.Values = replaced, append(s.Types, "int4"), append(s.Values, d.values[j])
			}
		}
	}
	return out
}
