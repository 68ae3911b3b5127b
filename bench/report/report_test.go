package report

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

func TestMedianAndRange(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9, 3}},
		{[]float64{4, 1, 2, 8}, Spread{3, 1, 8, 4}},
	} {
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
	values := []float64{2, 1}
	Median(values)
	if values[0] != 2 {
		t.Error("Median sorts its caller's slice")
	}
}

// Half of the repetitions ran on a machine half as fast: the ratio is the same in each, that of
// the medians is not.
func TestRatiosAreTakenWithinARepetition(t *testing.T) {
	got, err := Ratios([]float64{100, 50, 98}, []float64{50, 25, 49})
	if err != nil || Median(got) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := Ratios([]float64{1}, []float64{1, 2}); err == nil {
		t.Error("ratio of unequal counts")
	}
	if _, err := Ratios([]float64{1}, []float64{0}); err == nil {
		t.Error("ratio to zero")
	}
}

func TestSeriesAndSamplesAreOrdered(t *testing.T) {
	var r Report
	r.Add("b", 0, "tx/s", Sample{})
	r.Add("a", 8, "tx/s", Sample{Repetition: 2, Value: 20})
	r.Add("a", 8, "tx/s", Sample{Repetition: 1, Value: 10})
	r.Add("a", 16, "tx/s", Sample{Repetition: 1, Value: 30})
	if v := r.Find("a", 8).Values(); v[0] != 10 || v[1] != 20 {
		t.Errorf("values %v", v)
	}
	if b := r.Best("a"); b.Point != 16 {
		t.Errorf("best is at %v", b.Point)
	}
	if len(r.Series) != 3 || r.Series[0].Point != 8 || r.Series[2].System != "b" {
		t.Errorf("series %+v", r.Series)
	}
	if r.Find("b", 8) != nil || r.Best("c") != nil {
		t.Error("found a system that was not measured")
	}
}

func TestFiguresAreJudgedByTheirMedian(t *testing.T) {
	var r Report
	for _, c := range []struct {
		id     string
		target Target
		text   string
		holds  any
	}{
		{"enough", AtLeast(2), ">= 2", true},
		{"too little", AtLeast(2.5), ">= 2.5", false},
		{"low enough", AtMost(2), "<= 2", true},
		{"too much", AtMost(1), "<= 1", false},
		{"no promise", Target{}, "", nil},
	} {
		if err := r.AddFigure(c.id, []float64{1, 2, 9}, "x", c.target, "how"); err != nil {
			t.Fatal(err)
		}
		f := r.Figures[len(r.Figures)-1]
		var holds any
		if f.Holds != nil {
			holds = *f.Holds
		}
		if f.Value != 2 || f.Min != 1 || f.Max != 9 || f.Target != c.text || holds != c.holds {
			t.Errorf("%s: %+v holds %v", c.id, f, holds)
		}
	}
	if got := strings.Join(r.Missed(), ","); got != "too little,too much" {
		t.Errorf("missed %s", got)
	}
	if err := r.AddFigure("nothing", nil, "x", AtMost(1), ""); err == nil {
		t.Error("a figure without a value was kept")
	}
	if err := r.AddRatio("odd", []float64{1}, nil, Target{}, ""); err == nil {
		t.Error("a ratio without a base was kept")
	}
	if AtLeast(0).Holds(math.NaN()) {
		t.Error("a value that is no number meets a target")
	}
}

// A target that must never be missed is judged by the repetition that missed it, not by the median.
func TestWhatMustAlwaysHoldIsJudgedByTheWorst(t *testing.T) {
	var r Report
	for id, values := range map[string][]float64{"kept": {0.95, 1, 1.1}, "broken once": {0.949, 1.03, 1.1}} {
		if err := r.AddFigure(id, values, "ratio", NeverBelow(0.95), ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range r.Figures {
		if *f.Holds != (f.ID == "kept") || f.Target != ">= 0.95, always" {
			t.Errorf("%+v holds %v", f, *f.Holds)
		}
	}
}

// A percentile of few answers is taken of all repetitions' together; the range stays that of the
// repetitions.
func TestPooledFiguresAreOfAllRepetitionsTogether(t *testing.T) {
	var r Report
	r.Add("a", 1, "tx/s", Sample{Repetition: 1, Latencies: []float64{1, 2, 90}})
	r.Add("a", 1, "tx/s", Sample{Repetition: 2, Latencies: []float64{1, 2, 3}})
	all := r.Find("a", 1).Latencies()
	if got := Quantile(all, 0.5); len(all) != 6 || got != 2 || Quantile(all, 0.99) != 90 || Quantile(nil, 0.5) != 0 {
		t.Errorf("%v: median %v", all, got)
	}
	if err := r.AddPooled("tail", 90, len(all), []float64{90, 3}, "ms", AtMost(50), ""); err != nil {
		t.Fatal(err)
	}
	if f := r.Figures[0]; f.Value != 90 || f.Min != 3 || f.Max != 90 || f.Answers != 6 || *f.Holds {
		t.Errorf("%+v", f)
	}
	if err := r.AddPooled("nothing", 90, 1, nil, "ms", Target{}, ""); err == nil {
		t.Error("a pooled figure without repetitions was kept")
	}
}

func TestReportIsWrittenWithTheFieldsOthersRead(t *testing.T) {
	r := Report{Name: "some"}
	r.Add("a", 1, "tx/s", Sample{Value: 1})
	if err := r.AddFigure("some.figure", []float64{1234567}, "tx/s", AtLeast(5), "how"); err != nil {
		t.Fatal(err)
	}
	path, err := r.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Figures []struct {
			ID, Unit, Target, How string
			Value                 float64
			Holds                 *bool
		}
		Series []struct{ System string }
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Figures) != 1 || back.Figures[0].ID != "some.figure" || back.Figures[0].Holds == nil || !*back.Figures[0].Holds || len(back.Series) != 1 {
		t.Errorf("%+v", back)
	}
	var text strings.Builder
	if err := r.Print(&text); err != nil || !strings.Contains(text.String(), "1,234,567") || !strings.Contains(text.String(), "yes") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.2345: "1.23", 999: "999", 1000: "1,000", -12345.6: "-12,346", 1e6: "1,000,000"} {
		if got := Number(v); got != want {
			t.Errorf("%v prints %s, want %s", v, got, want)
		}
	}
}

// A value that rounds to its target shows on which side it is.
func TestAValueCloseToItsTargetHasMoreDigits(t *testing.T) {
	for _, c := range []struct {
		value, least, most float64
		target             Target
		want               [3]string
	}{
		{1.3032, 1.3020, 1.3037, AtMost(1.3), [3]string{"1.303", "1.302", "1.304"}},
		{0.94999, 0.9, 1, AtLeast(0.95), [3]string{"0.94999", "0.9", "1"}},
		{1.3, 1.29, 1.31, AtMost(1.3), [3]string{"1.3", "1.29", "1.31"}},
		{1.234, 1, 2, AtMost(1.3), [3]string{"1.23", "1", "2"}},
		{0.94999, 0.9, 1, NeverBelow(0.95), [3]string{"0.94999", "0.9", "1"}},
		{999.96, 1, 2000, Target{}, [3]string{"1e+03", "1", "2,000"}},
		{299_999.7, 1, 2, AtLeast(300_000), [3]string{"300,000", "1", "2"}},
	} {
		f := Figure{Value: c.value, Min: c.least, Max: c.most, Target: c.target.String()}
		if value, least, most := f.shown(); [3]string{value, least, most} != c.want {
			t.Errorf("%g of %q prints %s, %s to %s, want %v", c.value, f.Target, value, least, most, c.want)
		}
	}
}

// A range on one side of the target decides; one that spans it does not.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		target             Target
		value, least, most float64
		want               string
	}{
		{Target{}, 1, 1, 1, ""},
		{AtLeast(2), 3, 2, 4, "holds"},
		{AtLeast(2), 3, 1.9, 4, "undecided"},
		{AtLeast(2), 1, 0, 1.9, "missed"},
		{AtMost(2), 1, 0, 2, "holds"},
		{AtMost(2), 1, 0, 3, "undecided"},
		{AtMost(2), 3, 2.1, 4, "missed"},
		{AtMost(2), 4, 1, 2, "undecided"}, // a value of all repetitions together may be beyond their range
		{NeverBelow(1), 2, 1, 3, "holds"},
		{NeverBelow(1), 2, 0.9, 3, "missed"},
	} {
		if got := c.target.Verdict(c.value, c.least, c.most); got != c.want {
			t.Errorf("%s, %g from %g to %g: %q, want %q", c.target, c.value, c.least, c.most, got, c.want)
		}
	}
}
