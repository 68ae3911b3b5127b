package network

import (
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

const sysbenchReport = `SQL statistics:
    queries performed:
        read:                            0
    transactions:                        2108   (421.27 per sec.)
    queries:                             12660  (2530.02 per sec.)
    ignored errors:                      12     (2.40 per sec.)
    reconnects:                          0      (0.00 per sec.)

Latency (ms):
         avg:                                    9.49
         95th percentile:                       16.12
`

func TestAReportOfSysbenchIsRead(t *testing.T) {
	got, err := readSysbench(sysbenchReport)
	if want := (sysbenchResult{2108, 12, 421.27, 16.12}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, line := range []string{"transactions:", "ignored errors:", "95th percentile:"} {
		if got, err := readSysbench(strings.ReplaceAll(sysbenchReport, line, "")); err == nil {
			t.Errorf("without %q: %+v", line, got)
		}
	}
}

func TestAMachineWithoutGaleraIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := &report.Report{}
	systems, err := sysbenchSystems(t.Context(), nil, Config{}, r)
	if err != nil || len(systems) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "mariadbd") {
		t.Errorf("%d systems, %v, notes %q", len(systems), err, r.Notes)
	}
}
