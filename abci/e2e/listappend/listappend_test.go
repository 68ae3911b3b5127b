package listappend

import (
	"slices"
	"testing"
)

func appends(key, value int) Op { return Op{Append: true, Key: key, Value: value} }

func reads(key int, values ...int) Op { return Op{Key: key, Read: values} }

func txn(ops ...Op) Txn { return Txn{Ops: ops} }

func with(o Outcome, ops ...Op) Txn { return Txn{Ops: ops, Outcome: o} }

// One history for each anomaly, and what each level says of it.
func TestEachAnomalyIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		txns  []Txn
		final map[int][]int
		want  [3]string // by level; empty: nothing
	}{
		"nothing":       {[]Txn{txn(appends(1, 1)), txn(reads(1, 1), appends(1, 2), reads(1, 1, 2)), txn(reads(1))}, map[int][]int{1: {1, 2}}, [3]string{}},
		"lost append":   {[]Txn{txn(appends(1, 1)), txn(appends(1, 2))}, map[int][]int{1: {2}}, [3]string{Lost, Lost, Lost}},
		"unknown, lost": {[]Txn{with(Unknown, appends(1, 1)), txn(appends(1, 2))}, map[int][]int{1: {2}}, [3]string{}},
		"unknown, done": {[]Txn{with(Unknown, appends(1, 1)), txn(appends(1, 2))}, map[int][]int{1: {1, 2}}, [3]string{}},
		"doubled":       {[]Txn{txn(appends(1, 1))}, map[int][]int{1: {1, 1}}, [3]string{Doubled, Doubled, Doubled}},
		"of nobody":     {[]Txn{txn(appends(1, 1))}, map[int][]int{1: {1, 9}}, [3]string{Unasked, Unasked, Unasked}},
		"another list":  {[]Txn{txn(appends(1, 1)), txn(appends(1, 2)), txn(reads(1, 2))}, map[int][]int{1: {1, 2}}, [3]string{Incompatible, Incompatible, Incompatible}},
		"aborted, kept": {[]Txn{with(Aborted, appends(1, 1))}, map[int][]int{1: {1}}, [3]string{G1a, G1a, G1a}},
		"aborted, read": {[]Txn{with(Aborted, appends(1, 1)), txn(reads(1, 1))}, map[int][]int{1: nil}, [3]string{G1a, G1a, G1a}},
		"half read":     {[]Txn{txn(appends(1, 1), appends(1, 2)), txn(reads(1, 1))}, map[int][]int{1: {1, 2}}, [3]string{G1b, G1b, G1b}},
		"writes in a circle": {
			[]Txn{txn(appends(1, 1), appends(2, 2)), txn(appends(1, 3), appends(2, 4))},
			map[int][]int{1: {1, 3}, 2: {4, 2}},
			[3]string{G0, G0, G0},
		},
		"each reads the other's": {
			[]Txn{txn(appends(1, 1), reads(2, 2)), txn(appends(2, 2), reads(1, 1))},
			map[int][]int{1: {1}, 2: {2}},
			[3]string{G1c, G1c, G1c},
		},
		"skewed reads": {
			[]Txn{txn(appends(1, 1), appends(2, 2)), txn(reads(1), reads(2, 2))},
			map[int][]int{1: {1}, 2: {2}},
			[3]string{"", GSingle, GSingle},
		},
		"lost update": {
			[]Txn{txn(reads(1), appends(1, 1)), txn(reads(1), appends(1, 2))},
			map[int][]int{1: {1, 2}},
			[3]string{"", GSingle, GSingle},
		},
		"write skew": {
			[]Txn{txn(reads(1), appends(2, 2)), txn(reads(2), appends(1, 1))},
			map[int][]int{1: {1}, 2: {2}},
			[3]string{"", "", G2},
		},
	} {
		for level, want := range c.want {
			var kinds []string
			for _, a := range Check(c.txns, c.final, Level(level)) {
				kinds = append(kinds, a.Kind)
			}
			kinds = slices.Compact(kinds)
			if want == "" && len(kinds) > 0 || want != "" && !slices.Equal(kinds, []string{want}) {
				t.Errorf("%s, level %d: %q, want %q", name, level, kinds, want)
			}
		}
	}
}
