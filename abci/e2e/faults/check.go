package faults

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The faults that a run can have in the end.
const (
	Lost       = "lost"       // an answered transaction is not in a ledger, or not as answered
	Duplicated = "duplicated" // a transaction is in a ledger twice, or was executed twice
	Diverged   = "diverged"   // two organisations have different blocks, outcomes or rows; or one contradicts itself
	Stuck      = "stuck"      // somebody does not go on after the last fault
	Unexpected = "unexpected" // an error or an end that no fault explains
)

// Violation is one thing that is wrong.
type Violation struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func (v Violation) String() string { return v.Kind + ": " + v.Text }

// Entry is one transaction in a ledger.
type Entry struct {
	ID        string
	Block     int64
	Index     int32
	Succeeded bool
	SQLState  string
	Client    int   // whose counter it adds to; 0: none
	Attempt   int64 // of that client at an EFFECTS transaction, or repeated; 0: it is of another kind
}

// Evidence is the contents of one organisation's database at the end.
type Evidence struct {
	Organisation string
	State        string           // of its node
	Hashes       map[int64]string // LedgerBlockHash by block
	Entries      []Entry
	Counters     map[int]int64 // executions by client
	Deposited    int64         // money that came in, by the counters
	Money        string        // in all accounts; it and the next are numbers as the database writes them
	Expected     string        // what that should be: at first, and what was deposited
	Rows         string        // a digest of all rows
	Findings     []string      // of verify_ledger and verify_table
	Deviations   int           // recorded
	Open         int           // of them not cured
}

// Check compares what the clients were told with what every organisation has. An organisation that
// is behind is stuck; what it has is judged by as far as it is.
func Check(answers []Answer, all []Evidence) []Violation {
	var v violations
	first := slices.MaxFunc(all, func(a, b Evidence) int { return cmp.Compare(a.tip(), b.tip()) })
	answers = v.placed(answers, first)
	for _, e := range all {
		judged := int64(math.MaxInt64) // answers for blocks up to this one
		behind := e.tip() < first.tip()
		if behind {
			judged = e.tip()
			v.add(Stuck, "%s is at block %d, %s at %d", e.Organisation, e.tip(), first.Organisation, first.tip())
		}
		v.checkChain(first, e)
		v.checkEntries(answers, e, judged)
		v.checkExecutions(e)
		if e.Rows != first.Rows && !behind {
			v.add(Diverged, "rows of %s differ from those of %s", e.Organisation, first.Organisation)
		}
		if e.Money != e.Expected {
			v.add(Diverged, "%s: there are %s in all accounts, want %s", e.Organisation, e.Money, e.Expected)
		}
		for _, finding := range e.Findings {
			v.add(Diverged, "%s: %s", e.Organisation, finding)
		}
		if !e.goesOn() {
			v.add(Stuck, "%s: the node is %q", e.Organisation, e.State)
		}
		if e.Open > 0 {
			v.add(Stuck, "%s: %d deviations are not cured", e.Organisation, e.Open)
		}
	}
	return v
}

// goesOn says whether the node executes what is ordered.
func (e Evidence) goesOn() bool { return e.State == "serving" || e.State == "executing" }

// tip is the last block.
func (e Evidence) tip() int64 {
	var last int64
	for number := range e.Hashes {
		last = max(last, number)
	}
	return last
}

// violationsMax bounds how many of a kind are told apart.
const violationsMax = 20

type violations []Violation

func (v *violations) add(kind, format string, args ...any) {
	n := 0
	for _, have := range *v {
		if have.Kind == kind {
			n++
		}
	}
	if n < violationsMax {
		*v = append(*v, Violation{kind, fmt.Sprintf(format, args...)})
	}
}

// checkChain compares one chain with the first, block by block.
func (v *violations) checkChain(first, e Evidence) {
	for number := int64(1); number <= e.tip(); number++ {
		hash, ok := e.Hashes[number]
		if !ok {
			v.add(Lost, "%s has no block %d", e.Organisation, number)
		} else if want := first.Hashes[number]; want != "" && hash != want {
			v.add(Diverged, "block %d is %.16s at %s and %.16s at %s", number, hash, e.Organisation, want, first.Organisation)
			return
		}
	}
}

// placed finds the places of EFFECTS transactions in the longest ledger. An answered COMMIT names
// neither id nor place, but the ledger has the attempt. It leaves out those that failed, which have
// no place.
func (v *violations) placed(answers []Answer, e Evidence) (placed []Answer) {
	type attempt struct {
		client int
		number int64
	}
	succeeded := map[attempt]Entry{}
	for _, entry := range e.Entries {
		if entry.Attempt == 0 || !entry.Succeeded {
			continue
		}
		if entry.Attempt == repeated {
			v.add(Duplicated, "transaction %x repeats an attempt of client %d that had succeeded", entry.ID, entry.Client)
			continue
		}
		its := attempt{entry.Client, entry.Attempt}
		if before, twice := succeeded[its]; twice {
			v.add(Duplicated, "attempt %d of client %d succeeded as transactions %x and %x", its.number, its.client, before.ID, entry.ID)
		}
		succeeded[its] = entry
	}
	for _, a := range answers {
		entry, is := succeeded[attempt{a.Client, a.Attempt}]
		switch {
		case a.Attempt == 0 || a.ID != nil:
			placed = append(placed, a)
		case a.Succeeded && !is:
			v.add(Lost, "attempt %d of client %d, whose COMMIT %s answered, succeeded in no ledger", a.Attempt, a.Client, a.Organisation)
		case a.Succeeded:
			a.ID, a.Block, a.Index = []byte(entry.ID), entry.Block, entry.Index
			placed = append(placed, a)
		case is:
			v.add(Lost, "attempt %d of client %d was answered by %s as failed %s, and succeeded as transaction %x", a.Attempt, a.Client, a.Organisation, a.SQLState, entry.ID)
		}
	}
	return placed
}

// checkEntries looks every answer up in the ledger, which holds every transaction once.
func (v *violations) checkEntries(answers []Answer, e Evidence, judged int64) {
	ledger := make(map[string]Entry, len(e.Entries))
	for _, entry := range e.Entries {
		if _, twice := ledger[entry.ID]; twice {
			v.add(Duplicated, "%s: transaction %x is in the ledger twice", e.Organisation, entry.ID)
		}
		ledger[entry.ID] = entry
	}
	for _, a := range answers {
		want := Entry{string(a.ID), a.Block, a.Index, a.Succeeded, a.SQLState, a.Client, a.Attempt}
		got, ok := ledger[want.ID]
		switch {
		case a.Block == 0 && !ok: // refused by the order, in which it therefore is not
		case a.Block > judged: // stuck
		case !ok:
			v.add(Lost, "%s: transaction %x answered by %s for block %d is not in the ledger", e.Organisation, a.ID, a.Organisation, a.Block)
		case got != want:
			v.add(Lost, "%s: transaction %x is in the ledger as %+v, but was answered by %s as %+v", e.Organisation, a.ID, got, a.Organisation, want)
		}
	}
}

// checkExecutions compares each client's counter with the transactions of his that succeeded.
func (v *violations) checkExecutions(e Evidence) {
	succeeded := map[int]int64{}
	for _, entry := range e.Entries {
		if entry.Succeeded && entry.Client > 0 {
			succeeded[entry.Client]++
		}
	}
	for _, client := range sortedKeys(e.Counters) {
		switch n, want := e.Counters[client], succeeded[client]; {
		case n > want:
			v.add(Duplicated, "%s: client %d has %d transactions that succeeded and %d executions", e.Organisation, client, want, n)
		case n < want:
			v.add(Lost, "%s: client %d has %d transactions that succeeded and %d executions", e.Organisation, client, want, n)
		}
	}
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// count says how many violations are of a kind.
func count(v []Violation, kind string) int {
	n := 0
	for _, one := range v {
		if one.Kind == kind {
			n++
		}
	}
	return n
}

// kindsFrom is how many answers it takes that each kind of outcome is among them for certain: the
// rarest is one in ten. EFFECTS transactions have others, and fewer.
const (
	kindsFrom   = 400
	effectsFrom = 100
)

// checkKinds expects that the load failed in all ways that it is meant to.
func checkKinds(mix []transaction, answers []Answer) []Violation {
	var v violations
	got, effects := outcomes(answers), 0
	for _, a := range answers {
		if a.Attempt > 0 {
			effects++
		}
	}
	for _, t := range mix {
		if len(answers)-effects >= kindsFrom && got[t.ends] == 0 {
			v.add(Unexpected, "none of %d transactions %s", len(answers)-effects, t.ends)
		}
	}
	for _, ends := range []string{succeeded, conflict} {
		if effects >= effectsFrom && got[ofEffects+ends] == 0 {
			v.add(Unexpected, "none of %d EFFECTS transactions %s", effects, ends)
		}
	}
	return v
}

// partsFrom is how many blocks it takes that an organisation with several workers has executed some
// in parts for certain.
const partsFrom = 100

// checkParts expects that each organisation with several workers was seen to use them.
func checkParts(m Manifest, blocks uint64, inParts map[string]int) []Violation {
	var v violations
	for _, name := range m.organisations() {
		if m.workers(name) > 1 && blocks >= partsFrom && inParts[name] == 0 {
			v.add(Unexpected, "%s executed none of %d blocks in parts", name, blocks)
		}
	}
	return v
}

// ofEffects begins the names of outcomes of EFFECTS transactions.
const ofEffects = "effects "

// outcomes counts answers by how they ended, for the report.
func outcomes(answers []Answer) map[string]int {
	kinds := map[string]int{}
	for _, a := range answers {
		kind := succeeded
		if !a.Succeeded {
			kind = strings.TrimSpace("failed " + a.SQLState)
		}
		if a.Attempt > 0 {
			kind = ofEffects + kind
		}
		kinds[kind]++
	}
	return kinds
}
