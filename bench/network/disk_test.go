package network

import (
	"testing"

	"github.com/chainify-db/chainify/bench/report"
)

// Of what is on disk only what is kept counts, for each transaction and organisation.
func TestWhatATransactionPutsOnDiskIsToldByPart(t *testing.T) {
	before := disk{databaseBytes: 1000, blockBytes: 500, stateBytes: 0, walBytes: 10, orderLogBytes: 0}
	after := disk{databaseBytes: 9000, blockBytes: 2500, stateBytes: 400, walBytes: 16010, orderLogBytes: 4000}
	ours := []map[string]float64{after.each(before, 10, 4)}
	r := &report.Report{}
	if err := diskFigures(r, "network", ours, []map[string]float64{{databaseBytes: 20, walBytes: 80}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"network.bytes_per_transaction": 260, "network.bytes_database": 200, "network.bytes_blocks": 50, "network.bytes_state": 10,
		"network.bytes_logs": 500, "network.bytes_standalone": 100, "network.bytes_over_standalone": 2.6, "network.bytes_ours_over_standalone": 2.1,
	}
	for _, f := range r.Figures {
		if f.Value != want[f.ID] {
			t.Errorf("%s is %g, want %g", f.ID, f.Value, want[f.ID])
		}
		delete(want, f.ID)
	}
	if len(want) > 0 {
		t.Errorf("no figures %v", want)
	}
}

func TestWhatCryptographyCostsIsWhatGoesWithoutIt(t *testing.T) {
	r := &report.Report{}
	r.Add("with", 0, "tx/s", report.Sample{Repetition: 1, Value: 100, ServerCPUUS: 500})
	r.Add("without", 0, "tx/s", report.Sample{Repetition: 1, Value: 125, ServerCPUUS: 475})
	if err := sealFigures(r, r.Find("with", 0), r.Find("without", 0)); err != nil {
		t.Fatal(err)
	}
	if got := r.Figures[0]; got.Value < 0.0499 || got.Value > 0.0501 || got.Holds == nil || !*got.Holds {
		t.Errorf("%+v, want 0.05", got)
	}
	if got := r.Figures[1].Value; got != 1.25 {
		t.Errorf("rates: %g, want 1.25", got)
	}
}
