package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

// Every measurement is drawn, and nothing where nothing was: a run may be of some systems only.
func TestPlotsAreOfWhatWasMeasured(t *testing.T) {
	r, dir := &report.Report{Name: "network"}, t.TempDir()
	sampled(r, chainifyFour, 0, 9000, nil)
	sampled(r, chainifySync, 8, 220, nil)
	sampled(r, chainifySync, 64, 1000, nil)
	sampled(r, latencyMode, 0, 300, nil) // nobody waits
	if err := draw(Config{Out: dir, Customers: 10}, r); err != nil {
		t.Fatal(err)
	}
	drawn := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	over, clients := drawn("network-organisations.svg"), drawn("network-clients.svg")
	if !strings.Contains(over, ">chainify<") || strings.Contains(over, ">baseline<") {
		t.Error("over organisations not chainify alone")
	}
	for text, want := range map[string]bool{">" + chainifySync + "<": true, ">8<": true, ">64<": true, ">32<": false, ">" + latencyMode + "<": false} {
		if strings.Contains(clients, text) != want {
			t.Errorf("over clients: %s is there: %t", text, !want)
		}
	}
	none := &report.Report{Name: "network"}
	sampled(none, vouched, 0, 1, nil)
	if err := draw(Config{Out: dir}, none); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "network-*")); len(found) > 0 {
		t.Errorf("of the run before there is still %v", found)
	}
}
