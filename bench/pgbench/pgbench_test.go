package pgbench

import (
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
	if r, err := read(printed); err != nil || r != (Result{Rate: 6172.5, Processed: 12345, Failed: 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", strings.Replace(printed, "12345", "0", 1), strings.Replace(printed, "tps = 6172.500000", "tps = 0.000000", 1)} {
		if _, err := read(bad); err == nil {
			t.Errorf("read a result in %q", bad)
		}
	}
}
