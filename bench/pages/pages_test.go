package pages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/bench/figures"
	"github.com/chainify-db/chainify/bench/plots"
	"github.com/chainify-db/chainify/bench/targets"
)

func some() *figures.File {
	const commit = "0123456789ab"
	return &figures.File{Runs: []*figures.Run{
		{
			Name: "network", About: "four beside one", Origin: figures.Origin{Command: "go run ./bench -bench network", Commit: commit, Date: "2027-01-15"}, TookS: 61,
			Versions: map[string]string{"go": "1.25"}, Machine: map[string]any{"cores": 2.0, "cpu": "A B", "memory": "25165824 kB"},
			Settings: map[string]any{"clusters": map[string]any{"fsync": "on"}}, Notes: []string{"it rained"},
			Figures: []*figures.Figure{
				{ID: "network.four_over_baseline", Value: 5, Min: 4.5, Max: 6, Unit: "ratio", Count: 3, How: "a | b"},
				{ID: "network.one_over_baseline", Value: 3, Min: 2, Max: 4, Unit: "ratio", Count: 3, How: "how"},
				{ID: "network.one_over_standalone", Value: 3, Min: 1.5, Max: 4, Unit: "ratio", Count: 3, How: "how"},
				{ID: "network.waiting_many", Value: 1234.5, Min: 1000, Max: 2000, Unit: "tx/s", Count: 3, How: "how", Origin: figures.Origin{Command: "bench -only x", Commit: "ba9876543210", Date: "2027-02-01"}},
			},
			Series: []*figures.Series{{System: "ours", Point: 32, Value: 1234, Min: 1, Max: 2000, Unit: "tx/s", Count: 3, CPU: 800, CPUMin: 700, CPUMax: 900, Detail: map[string]float64{"p50_ms": 51.4}}},
		},
		{
			Name: "fabric", About: "reordering", Origin: figures.Origin{Commit: commit + "-dirty"}, Head: []string{"x", "y"}, Rows: [][]string{{"1", "2"}},
			Figures: []*figures.Figure{{ID: "fabric.reorder", Value: 1, Min: 1, Max: 1, Unit: "ms", Count: 1, How: "how"}},
		},
	}}
}

func TestAPageSaysWhatHeldAndWhatWasMissed(t *testing.T) {
	f := some()
	named := namedByPages()
	named["network/ours@32"] = true
	for text, wants := range map[string][]string{
		page(f.Run("network"), named): {
			"| **four_over_baseline** a \\| b | 5 × | 4.5 – 6 | ≥ 4 | holds |\n", "| **one_over_baseline** how | 3 × | 2 – 4 | ≥ 5 | **missed** |\n",
			"| **one_over_standalone** how | 3 × | 1.5 – 4 | ≥ 2 | **undecided** |\n", "| **waiting_many** how (commit `ba9876543210`, 2027-02-01) | 1,234 tx/s | 1,000 – 2,000 |  |  |\n",
			"| ours | 32 | 1,234 tx/s | 1 – 2,000 | 800 µs |\n", "`go run ./bench -bench network` on 2027-01-15, for 61 s.", "* It rained.", "![four beside one](network-clients.svg)",
		},
		page(f.Run("fabric"), named): {"**Dirty:** commit `0123456789ab-dirty`", "| **reorder** how | 1 ms | one run | ≤ 2 | holds |\n", "[fabric.csv](fabric.csv) has all 1 experiments."},
		experiments(f.Run("fabric")): {"x,y\n1,2\n"},
		targetsPage(f): {
			"| [network.one_over_standalone](network.md) | ≥ 2 | 3 × | 1.5 – 4 | one session without a ledger: (executor.no_ledger_over_pgbench_on, not measured) | **undecided** |\n",
			"2 hold, 1 are missed, 1 are undecided.", "| executor.two_workers_over_pgbench_off ≥ 2.6 |", "none, until the bound is measured |",
		},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	if text := page(f.Run("network"), namedByPages()); strings.Contains(text, "| ours |") {
		t.Error("a series that no document names is on the page")
	}
}

func TestCopiesAreFilledIn(t *testing.T) {
	c := copier{file: some(), blocks: map[string]string{"b": "| x |\n"}}
	for mark, want := range map[string]string{
		"network.waiting_many": "1,234", "network.waiting_many : range": "1,000 – 2,000", "network.waiting_many : unit": "1,234 tx/s", "network.waiting_many : /1000 .2 unit": "1.2 tx/s",
		"network.waiting_many : commit": "`ba9876543210`", "network.waiting_many : date": "2027-02-01", "network.waiting_many : min": "1,000", "network.waiting_many : max .1": "2,000",
		"network/ours@32": "1,234", "network/ours@32 : cpu /4": "200", "network/ours@32 : cpu /4 range": "175 – 225", "network/ours@32 : p50_ms .2": "51", "fabric.reorder : range": "one run",
	} {
		text, err := c.fill("a <!-- figure " + mark + " -->old<!-- / --> b")
		if err != nil || text != "a <!-- figure "+mark+" -->"+want+"<!-- / --> b" {
			t.Errorf("%s: %q, %v", mark, text, err)
		}
	}
	if text, err := c.fill("<!-- figures b -->\nold\n<!-- /figures -->\n"); err != nil || text != "<!-- figures b -->\n| x |\n<!-- /figures -->\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, wrong := range []string{
		"<!-- figure network.none --><!-- / -->", "<!-- figure network/none --><!-- / -->", "<!-- figure none/ours --><!-- / -->", "<!-- figure network/ours@x --><!-- / -->",
		"<!-- figure network.waiting_many : p50_ms --><!-- / -->", "<!-- figure network.waiting_many : /0 --><!-- / -->", "<!-- figure network.waiting_many : .x --><!-- / -->",
		"<!-- figure network.waiting_many -->", "<!-- / -->", "<!-- figures none -->\n<!-- /figures -->", "<!-- figures b -->\n",
	} {
		if _, err := c.fill(wrong); err == nil {
			t.Errorf("%s is filled in", wrong)
		}
	}
}

// Each file that is not as the figures give it is named: a copy, a page, a file that nothing makes,
// a plot that is not there.
func TestStaleFilesAreNamed(t *testing.T) {
	root, f := t.TempDir(), some()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range documents {
		if filepath.Ext(name) == "" {
			name += "/some.md"
		}
		put(name, "<!-- figure network.waiting_many --><!-- / -->\n")
	}
	put(Folder+"/network-clients.svg", "<svg/>")
	if _, err := Write(root, f); err != nil {
		t.Fatal(err)
	}
	for _, name := range plots.Of("network") { // the run has too little to draw any
		put(Folder+"/"+name+".svg", "<svg/>")
	}
	check := func(want ...string) {
		t.Helper()
		stale, err := Stale(root, f)
		if err != nil || len(stale) != len(want) {
			t.Fatalf("stale: %v, %v, want %v", stale, err, want)
		}
		for i, name := range want {
			if !strings.HasPrefix(stale[i], name+":") {
				t.Errorf("stale: %s, want %s", stale[i], name)
			}
		}
	}
	check()
	put("README.md", "<!-- figure network.waiting_many -->1,235<!-- / -->\n")
	check("README.md")
	put("README.md", "<!-- figure network.waiting_many -->1,234<!-- / -->\n")
	put(Folder+"/network.md", "old")
	put(Folder+"/other.svg", "<svg/>")
	check(Folder+"/network.md", Folder+"/other.svg")
	if _, err := Write(root, f); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, Folder, "other.svg")); err != nil {
		t.Fatal(err)
	}
	for _, name := range plots.Of("network")[1:] {
		put(Folder+"/"+name+".svg", "<svg/>")
	}
	if err := os.Remove(filepath.Join(root, Folder, plots.Of("network")[0]+".svg")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	check(Folder + "/" + plots.Of("network")[0] + ".svg")
	// A plot of the run is drawn, and then another one is in its place.
	f.Runs[0].Series = append(f.Runs[0].Series, &figures.Series{System: "chainify, 4 organisations", Value: 1, Min: 1, Max: 1, Unit: "tx/s", Count: 1})
	if _, err := Write(root, f); err != nil {
		t.Fatal(err)
	}
	put(Folder+"/network-clients.svg", "<svg/>") // nothing to draw
	check()
	put(Folder+"/network-organisations.svg", "<svg/>")
	check(Folder + "/network-organisations.svg")
}

// Each name in the lists of targets and of what users ask for is a figure of the file in the tree.
func TestNamedFiguresAreKept(t *testing.T) {
	f, err := figures.Read(filepath.Join("..", "..", filepath.FromSlash(File)))
	if err != nil || len(f.Runs) == 0 {
		t.Fatalf("%+v, %v", f, err)
	}
	c := copier{file: f}
	for _, a := range asked {
		if _, err := c.value(a.mark + " : " + a.forms); err != nil {
			t.Error(err)
		}
	}
	var names []string
	for _, one := range targets.All {
		names = append(append(names, one.ID), reference.FindAllString(one.Bound, -1)...)
	}
	for _, r := range targets.Restatements {
		names = append(names, reference.FindAllString(r.Why, -1)...)
		if r.Now != "" && !slices.ContainsFunc(targets.All, func(t targets.Target) bool { return t.ID == r.Now }) {
			t.Errorf("%s is no target", r.Now)
		}
	}
	for _, name := range names {
		if figure, _ := f.Figure(strings.Trim(name, "{}")); figure == nil {
			t.Errorf("there is no figure %s", name)
		}
	}
	for _, run := range f.Runs {
		dir := t.TempDir()
		if err := plots.Draw(dir, run); err != nil {
			t.Error(err)
		}
		for _, name := range plots.Of(run.Name) {
			if _, err := os.Stat(filepath.Join(dir, name+".svg")); err != nil && !slices.Contains(plots.Drawn[run.Name], name) {
				t.Errorf("nothing is drawn: %v", err)
			}
		}
	}
}
