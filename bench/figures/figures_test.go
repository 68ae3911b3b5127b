package figures

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/bench/report"
)

func sample(t *testing.T, name, commit, command string, value float64) *report.Report {
	t.Helper()
	r := &report.Report{
		Name: name, About: "four beside one", Command: command, Started: time.Unix(1_800_000_000, 0).UTC(), TookS: 61,
		Versions: map[string]string{"chainify": commit}, Machine: map[string]any{"cores": 2.0},
	}
	for i := range 3 {
		r.Add("ours", 32, "tx/s", report.Sample{Repetition: i, Value: value + float64(i), ServerCPUUS: 7, Detail: map[string]float64{"p50_ms": 1.23456789}})
	}
	if err := r.AddFigure(name+".rate", []float64{value, value + 1, value + 2}, "tx/s", report.AtLeast(2), "a < b"); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAFileReadsBackAsItWasWritten(t *testing.T) {
	var f File
	r := sample(t, "network", "0123456789ab", "bench", 1000)
	for i := range 500 {
		r.Add("over time", 0, "MB", report.Sample{Repetition: i, Value: float64(i)})
	}
	table := sample(t, "fabric", "0123456789ab-dirty", "bench", 1)
	table.Table = &report.Table{Head: []string{"a"}, Rows: [][]string{{"x"}, {"y"}}}
	for _, one := range []*report.Report{r, table} {
		if err := f.Take(Of(one)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := f.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n" + `{"id":"network.rate","value":1001,"min":1000,"max":1002,"unit":"tx/s","count":3,"how":"a < b"}` + "\n",
		"\n" + `{"system":"ours","point":32,"value":1001,"min":1000,"max":1002,"unit":"tx/s","count":3,"cpu_us":7,"cpu_min_us":7,"cpu_max_us":7,"detail":{"p50_ms":1.23457}}` + ",\n",
		"\n[\"x\"],\n[\"y\"]\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*back, f) {
		t.Errorf("read %+v, written %+v", back.Runs[0], f.Runs[0])
	}
	again, err := back.Text()
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("%v, written again:\n%s", err, again)
	}
	if points := len(back.Run("network").Find("over time", 0).Curve); points != curveMax {
		t.Errorf("a curve of %d points", points)
	}
	if !back.Run("fabric").Dirty() || back.Run("network").Dirty() {
		t.Error("the run of uncommitted changes is not known")
	}
}

// A part that is measured again takes the place of its figures alone.
func TestAPartReplacesItsFigures(t *testing.T) {
	var f File
	r := sample(t, "network", "0123456789ab", "bench", 1000)
	if err := r.AddFigure("network.kept", []float64{1}, "", report.Target{}, "stays"); err != nil {
		t.Fatal(err)
	}
	part := sample(t, "network", "ba9876543210", `bench -only "ours"`, 2000)
	if err := part.AddFigure("network.more", []float64{1}, "", report.Target{}, "comes"); err != nil {
		t.Fatal(err)
	}
	for _, one := range []*report.Report{r, part} {
		if err := f.Take(Of(one)); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]string{"network.rate": "ba9876543210", "network.kept": "0123456789ab", "network.more": "ba9876543210"} {
		figure, run := f.Figure(id)
		if figure == nil || run.Of(figure).Commit != want {
			t.Errorf("%s is %+v", id, figure)
		}
	}
	if s := f.Run("network").Find("ours", 32); len(f.Runs) != 1 || s.Value != 2001 {
		t.Errorf("%d runs, the series %+v", len(f.Runs), s)
	}
	if err := f.Take(Of(sample(t, "network", "ba9876543210", "bench -short", 1))); err == nil || !strings.Contains(err.Error(), "-short") {
		t.Errorf("a short run: %v", err)
	}
	if err := f.Take(Of(sample(t, "network", "fedcba987654", "bench", 1))); err != nil || len(f.Run("network").Figures) != 1 {
		t.Errorf("%v; a whole run leaves %+v", err, f.Run("network"))
	}
}
