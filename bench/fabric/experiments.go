package fabric

import (
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/bench/workload"
)

// kind is how a transaction reaches the other organisations.
type kind int

const (
	effects kind = iota // simulated in its client's database, its write set ordered: Fabric's way
	sql                 // ordered as a statement, which every organisation executes
)

// way is one of what is compared.
type way struct {
	name              string
	kind              kind
	turns, earlyAbort bool // Fabric++'s reordering within a block, and its early abort
	ownPace           bool // blocks are not cut: each transaction is submitted at once
}

var (
	without   = way{name: "without"}
	with      = way{name: "with", turns: true, earlyAbort: true}
	turnsOnly = way{name: "reordering alone", turns: true}
	earlyOnly = way{name: "early abort alone", earlyAbort: true}
	atOwnPace = way{name: "with, own pace", turns: true, earlyAbort: true, ownPace: true}
	executed  = way{name: "order-execute", kind: sql, ownPace: true}
)

// blocks is the size at which blocks of an experiment are cut.
func (w way) blocks(e experiment) int {
	if w.ownPace {
		return ownPace
	}
	return e.size
}

// experiment is one point of a figure of the papers.
type experiment struct {
	name      string
	size      int    // of a block
	published string // what the papers say in numbers; most points are only drawn
	headline  bool   // measured in every repetition, others in the first
	ways      []way
	// stream starts a client's transactions; all ways get the same.
	stream func(w way, stream uint64) func() workload.Statement
}

func (e experiment) series(w way) string { return e.name + ": " + w.name }

const blockDefault = 1024 // dissertation, table 3.6

var (
	shares = []float64{0.95, 0.5, 0.05}                                 // Pw: dissertation, table 3.7
	skews  = []float64{0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8, 2} // s of Zipf's law
)

// The dissertation's text on figure 3.10, section 3.6.4.
var smallbankPublished = map[string]string{
	"Pw=95% s=2.0": "30 → 370 tx/s, 12.61 ×",
	"Pw=5% s=2.0":  "at least 2.68 ×",
	"Pw=50% s=2.0": "2.68 to 12.61 ×",
	"s=1.0":        "1.15 to 1.37 ×",
	"s=0.0":        "about 900 → 1,000 tx/s",
	"s=0.2":        "about 900 → 1,000 tx/s",
	"s=0.4":        "about 900 → 1,000 tx/s",
	"s=0.6":        "about 900 → 1,000 tx/s",
}

// bankStream draws for all ways of an experiment.
func bankStream(seed uint64, writes float64, zipf *workload.Zipf) func(way, uint64) func() workload.Statement {
	return func(_ way, stream uint64) func() workload.Statement {
		return workload.NewFabricBank(seed, stream, writes, zipf).Next
	}
}

// smallbank are the 33 points of figure 3.10.
func smallbank(seed uint64) []experiment {
	var out []experiment
	for _, s := range skews {
		zipf := workload.NewZipf(customers, s)
		for _, writes := range shares {
			point := fmt.Sprintf("Pw=%.0f%% s=%.1f", 100*writes, s)
			published := smallbankPublished[point]
			if published == "" {
				published = smallbankPublished[fmt.Sprintf("s=%.1f", s)]
			}
			if published == "" {
				published = "1 to 12.61 ×, drawn in figure 3.10"
			}
			e := experiment{
				name: "Smallbank " + point, size: blockDefault, published: published, ways: []way{without, with, executed},
				stream: bankStream(seed, writes, zipf),
			}
			if point == "Pw=95% s=2.0" {
				e.headline, e.ways = true, []way{without, turnsOnly, earlyOnly, with, atOwnPace, executed}
			}
			out = append(out, e)
		}
	}
	return out
}

// sizes are the 8 points of figure 3.9: blocks of 16 to 2,048 transactions.
func sizes(seed uint64) []experiment {
	zipf := workload.NewZipf(customers, 0)
	var out []experiment
	for size := 16; size <= bundleMax; size *= 2 {
		out = append(out, experiment{
			name: fmt.Sprintf("block size BS=%d", size), size: size, published: "Pw=95% s=0.0: both grow with BS, the gain too; drawn in figure 3.9",
			ways: []way{without, with}, stream: bankStream(seed, 0.95, zipf),
		})
	}
	return out
}

// configuration is one of the custom workload.
type configuration struct {
	accounts                    int     // N
	block, each                 int     // BS, RW
	hotRead, hotWrite, hotShare float64 // HR, HW, HSS
}

func mixOf(c configuration) workload.Mix {
	return workload.Mix{Accounts: c.accounts, Each: c.each, HotRead: c.hotRead, HotWrite: c.hotWrite, HotShare: c.hotShare}
}

// hottest is the configuration in which Fabric++ gains most.
var hottest = configuration{accounts, 1024, 8, 0.4, 0.1, 0.01}

// configurations are those of table 7 of the paper with so many accounts and accesses: 54 for each
// number of accesses.
func configurations(accounts int, accesses ...int) []configuration {
	var out []configuration
	for _, block := range []int{256, 512, 1024} {
		for _, each := range accesses {
			for _, read := range []float64{0.1, 0.2, 0.4} {
				for _, write := range []float64{0.05, 0.1} {
					for _, share := range []float64{0.01, 0.02, 0.04} {
						out = append(out, configuration{accounts, block, each, read, write, share})
					}
				}
			}
		}
	}
	return out
}

func (c configuration) String() string {
	return fmt.Sprintf("BS=%d RW=%d HR=%.0f%% HW=%.0f%% HSS=%.0f%%", c.block, c.each, 100*c.hotRead, 100*c.hotWrite, 100*c.hotShare)
}

// custom are the 108 experiments of figure 11 of the paper (3.14 of the dissertation), and the 54
// of figure 16, which have twice the accounts. Blocks do not matter to statements, which run beside
// the largest ones alone.
func custom(seed uint64) []experiment {
	var out []experiment
	for _, c := range slices.Concat(configurations(accounts, 4, 8), configurations(accountsMore, 2)) {
		e := experiment{
			name: "custom " + c.String(), size: c.block, published: "1 to 3 ×, drawn in figure 3.14", ways: []way{without, with},
			stream: func(w way, stream uint64) func() workload.Statement {
				function := map[kind]string{effects: workload.SeeAndWrite, sql: workload.ReadWrite}[w.kind]
				return mixOf(c).Stream(seed, stream, function)
			},
		}
		if c.accounts == accountsMore {
			e.name, e.published = fmt.Sprintf("of %d accounts, %s", c.accounts, c), "fewer conflicts than with RW=4; drawn in the paper's figure 16"
		}
		if c.block == blockDefault {
			e.ways = append(e.ways, executed)
		}
		if c == hottest {
			e.headline, e.published = true, "100 → 220 tx/s; either alone 150; about 3 ×"
			e.ways = []way{without, turnsOnly, earlyOnly, with, atOwnPace, executed}
		}
		out = append(out, e)
	}
	return out
}

func experiments(cfg Config) []experiment {
	all := slices.Concat(smallbank(cfg.Seed), sizes(cfg.Seed), custom(cfg.Seed))
	return slices.DeleteFunc(all, func(e experiment) bool { return !cfg.wants(e.name) })
}
