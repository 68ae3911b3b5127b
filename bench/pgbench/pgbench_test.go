package pgbench

import (
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsPrintedIsRead(t *testing.T) {
	const printed = `transaction type: multiple scripts
number of transactions actually processed: 12345
number of failed transactions: 3 (0.024%)
initial connection time = 3.210 ms
tps = 6172.500000 (without initial connection time)
SQL script 1: balance.sql
 - 100 transactions (16.6% of total, tps = 1000.000000)
`
	// 2 s of it were the lead, in which new sessions made a third of the transactions that they
	// make later.
	if r, err := read(strings.Replace(printed, "6172.5", "3086.25", 1), 1600); err != nil || r.Processed != 10745 || r.Led != 1600 || r.Failed != 3 || math.Abs(r.Rate-5372.5) > 0.01 {
		t.Errorf("%+v, %v", r, err)
	}
	tried := strings.Replace(strings.Replace(printed, "6172.5", "3086.25", 1), "initial", "number of transactions retried: 7 (0.057%)\ntotal number of retries: 21\ninitial", 1)
	if r, err := read(tried, 1600); err != nil || r.Retries != 21 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{
		"", strings.Replace(printed, "12345", "0", 1), strings.Replace(printed, "tps = 6172.500000", "tps = 0.000000", 1), printed, // which is no longer than the lead
	} {
		if _, err := read(bad, 1600); err == nil {
			t.Errorf("read a result in %q", bad)
		}
	}
	if _, err := read(strings.Replace(printed, "6172.5", "3086.25", 1), 0); err == nil {
		t.Error("read a result of a run whose lead was not told")
	}
	if n, is := progress("progress: 2.0 s, 800.5 tps, lat 9.9 ms stddev 1.0, 0 failed"); !is || n != 1601 {
		t.Errorf("the lead had %d, %v", n, is)
	}
	if _, is := progress("tps = 800.5"); is {
		t.Error("a result was taken for progress")
	}
}

// Output is passed on while the command runs, to its end.
func TestOutputIsPassedOn(t *testing.T) {
	var lines []string
	if err := eachLine(exec.Command("sh", "-c", "echo a; echo b >&2; exit 3"), func(line string) { lines = append(lines, line) }); err == nil {
		t.Error("a command that failed did not")
	}
	if slices.Sort(lines); !slices.Equal(lines, []string{"a", "b"}) {
		t.Errorf("lines %v", lines)
	}
}
