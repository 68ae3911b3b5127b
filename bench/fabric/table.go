package fabric

import (
	"errors"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
)

// tableHead names the columns: rates are transactions a second that succeeded, of those fired.
var tableHead = []string{"experiment", "published", "without", "with", "gain", "order-execute", "over with"}

// tableOf has a row for each experiment: the published figure, and what was measured.
func tableOf(r *report.Report, list []experiment) [][]string {
	rows := make([][]string, len(list))
	for i, e := range list {
		rate := func(w way) string {
			if s := e.find(r, w); s != nil {
				return fmt.Sprintf("%.0f of %.0f", s.Spread.Median, report.Median(s.Details(firedDetail)))
			}
			return ""
		}
		rows[i] = []string{e.name, e.published, rate(without), rate(with), e.ratio(r, with, without), rate(executed), e.ratio(r, executed, with)}
	}
	return rows
}

func (e experiment) find(r *report.Report, w way) *report.Series {
	return r.Find(e.series(w), float64(w.blocks(e)))
}

// ratios are those of two ways within each repetition; none where one has not been measured or
// nothing succeeded.
func (e experiment) ratios(r *report.Report, a, b way) []float64 {
	out, err := report.Ratios(e.find(r, a).Values(), e.find(r, b).Values())
	if err != nil {
		return nil
	}
	return out
}

func (e experiment) ratio(r *report.Report, a, b way) string {
	if found := e.ratios(r, a, b); len(found) > 0 {
		return fmt.Sprintf("%.2f ×", report.Median(found))
	}
	return ""
}

// headlines are the experiments that the promises are about.
var headlines = []struct{ name, id, about string }{
	{"Smallbank Pw=95% s=2.0", "smallbank", "Smallbank, 95 % of the transactions change something, customers by Zipf's law with 2.0"},
	{"custom " + hottest.String(), "custom", "custom workload, " + hottest.String()},
}

// figures states what the headlines gain, where they were measured, and the best gain of all.
func figures(r *report.Report, list []experiment) error {
	var errs []error
	for _, h := range headlines {
		for _, e := range list {
			if e.name == h.name {
				errs = append(errs, e.figures(r, h.id, h.about))
			}
		}
	}
	return errors.Join(append(errs, bestOf(r, list))...)
}

func (e experiment) figures(r *report.Report, id, about string) error {
	var errs []error
	for _, f := range []struct {
		id   string
		a, b way
		how  string
	}{
		{"", with, without, "reordering and early abort / neither"},
		{"_reordering", turnsOnly, without, "reordering alone / neither"},
		{"_early_abort", earlyOnly, without, "early abort alone / neither"},
		{"_own_pace", atOwnPace, without, "both, each transaction submitted at once / neither, in blocks of the papers' size"},
		{"_order_execute", executed, with, "the same transactions executed everywhere / reordering and early abort"},
		{"_order_execute_own_pace", executed, atOwnPace, "the same transactions executed everywhere / reordering and early abort, each submitted at once"},
	} {
		id := "fabric." + id + f.id
		errs = append(errs, r.AddRatio(id, e.find(r, f.a).Values(), e.find(r, f.b).Values(), targets.Of(id), about+": "+f.how+", by transactions that succeed"))
	}
	return errors.Join(errs...)
}

// bestOf states the best gain that any experiment of figures 3.10 and 3.14 has.
func bestOf(r *report.Report, list []experiment) error {
	best := map[string]float64{}
	names := map[string]string{}
	for _, e := range list {
		kind, _, _ := strings.Cut(strings.ToLower(e.name), " ")
		if found := e.ratios(r, with, without); len(found) > 0 && found[0] > best[kind] {
			best[kind], names[kind] = found[0], e.name
		}
	}
	var errs []error
	for _, kind := range []string{"custom", "smallbank"} {
		if best[kind] > 0 {
			errs = append(errs, r.AddFigure("fabric."+kind+"_best", []float64{best[kind]}, "ratio", report.Target{}, "the best gain of all experiments, in the first repetition: "+names[kind]))
		}
	}
	return errors.Join(errs...)
}
