package workload

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

var someTPCB = TPCB{Branches: 4, Tellers: 2, Accounts: 5}

func script(t *testing.T, name string) Script {
	t.Helper()
	for _, s := range Scripts() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no script %s", name)
	return Script{}
}

// Each statement has its own parameters, numbered from 1, with the values that the call has.
func TestStatementsOfATransactionHaveItsValues(t *testing.T) {
	d := Drawn{script: script(t, "tpcb-like"), values: []string{"11", "22", "33", "44"}} // account, teller, branch, delta
	want := []string{
		"UPDATE tpcb.account SET abalance = abalance + '44'::int4 WHERE aid = '11'::int4",
		"SELECT abalance FROM tpcb.account WHERE aid = '11'::int4",
		"UPDATE tpcb.teller SET tbalance = tbalance + '44'::int4 WHERE tid = '22'::int4",
		"UPDATE tpcb.branch SET bbalance = bbalance + '44'::int4 WHERE bid = '33'::int4",
		"INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES ('22'::int4, '33'::int4, '11'::int4, '44'::int4, CURRENT_TIMESTAMP)",
	}
	for i, s := range d.Statements() {
		if got := s.Text(); got != want[i] {
			t.Errorf("statement %d is %s, want %s", i, got, want[i])
		}
	}
	if got := d.Call().Text(); got != "SELECT tpcb.tpcb_like('11'::int4, '22'::int4, '33'::int4, '44'::int4)" {
		t.Errorf("the call is %s", got)
	}
}

// No two transactions of different branches may meet: then write sets that were captured from the
// same state all apply.
func TestTransactionsOfDifferentBranchesShareNoRow(t *testing.T) {
	random := seeded.Random(t)
	for _, s := range Scripts() {
		owner := map[string]int{} // by column and row
		for range 400 {
			branch := 1 + random.IntN(someTPCB.Branches)
			d := someTPCB.Draw(s, branch, random)
			for i, name := range s.parameters {
				if name == "delta" || name == "number" {
					continue
				}
				place := name + d.values[i]
				if s.function == "tpcb.write_only" { // all of one table
					place = d.values[i]
				}
				if other, known := owner[place]; known && other != branch {
					t.Fatalf("%s: branches %d and %d share %s", s.Name, other, branch, place)
				}
				owner[place] = branch
				if n, _ := strconv.Atoi(d.values[i]); n < 1 || n > someTPCB.Branches*someTPCB.Accounts {
					t.Fatalf("%s: %s is outside of the table", s.Name, place)
				}
			}
		}
	}
}

func TestScriptsOfPgbench(t *testing.T) {
	open := regexp.MustCompile(`TELLERS|ACCOUNTS|%!`)
	for _, s := range Scripts() {
		for form, text := range map[string]string{"interactive": s.Interactive(someTPCB, 9), "called": s.Called(someTPCB, 9), "together": s.Together(someTPCB, 9)} {
			if !strings.HasPrefix(text, "\\set bid :client_id + 9\n") || open.MatchString(text) {
				t.Errorf("%s, %s:\n%s", s.Name, form, text)
			}
		}
	}
	s := script(t, "simple-update")
	const draws = "\\set bid :client_id + 9\n\\set tid (:bid - 1) * 2 + random(1, 2)\n\\set aid (:bid - 1) * 5 + random(1, 5)\n\\set delta random(-5000, 5000)\n"
	for got, want := range map[string]string{
		s.Interactive(someTPCB, 9): "BEGIN;\nUPDATE tpcb.account SET abalance = abalance + :delta WHERE aid = :aid;\nSELECT abalance FROM tpcb.account WHERE aid = :aid;\n" +
			"INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nCOMMIT;\n",
		s.Called(someTPCB, 9): "SELECT 1 / outcome::int FROM chainify.execute('SELECT tpcb.simple_update($1, $2, $3, $4)', :aid::int, :tid::int, :bid::int, :delta::int);\n",
		s.Together(someTPCB, 9): "SELECT 1 / outcome::int FROM chainify.execute(format('UPDATE tpcb.account SET abalance = abalance + %4$s WHERE aid = %1$s; " +
			"SELECT abalance FROM tpcb.account WHERE aid = %1$s; INSERT INTO tpcb.history (tid, bid, aid, delta, mtime) VALUES (%2$s, %3$s, %1$s, %4$s, CURRENT_TIMESTAMP)', " +
			":aid::int, :tid::int, :bid::int, :delta::int));\n",
	} {
		if got != draws+want {
			t.Errorf("the script is\n%s\nwant\n%s", got, draws+want)
		}
	}
}

// :t is not the beginning of :tid.
func TestAParameterIsItsWholeName(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{":t", "X"}, {":tid + :t", ":tid + X"}, {"(:t, :t_)", "(X, :t_)"}, {"t", "t"}, {"", ""},
	} {
		if got := replaceParameter(c.text, "t", "X"); got != c.want {
			t.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
	}
}

func TestWriteSetsAreTransactions(t *testing.T) {
	set := (&wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"a.b"}, Reads: nil, Changes: []wire.RowChange{
		{Op: 'I', Row: []byte{0, 1, 0, 1, 1, 0, 0, 0, 1, 1}},
	}}).Encode()
	author := Author{ChainID: "bench", Organisation: "acme", Role: "bank"}
	first, err := author.WriteSets(7, [][]byte{set, set})
	if err != nil {
		t.Fatal(err)
	}
	if second, err := author.WriteSets(8, [][]byte{set, set}); err != nil || string(first) == string(second) {
		t.Errorf("other nonces give the same transactions, %v", err)
	}
	if _, err := author.WriteSets(7, [][]byte{set[:len(set)-1]}); err == nil {
		t.Error("a write set that was cut off was encoded")
	}
}
