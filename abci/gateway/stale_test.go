package gateway

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// testRow encodes integers as columns 1, 2, …
func testRow(values ...int64) []byte {
	out := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for i, v := range values {
		out = binary.BigEndian.AppendUint16(out, uint16(i+1))
		out = binary.BigEndian.AppendUint64(append(out, 2, 0, 0, 0, 8), uint64(v))
	}
	return out
}

func valueHash(v int64) wire.Hash { return wire.Hash{1, byte(v)} }

func updates(key, from, to int64) wire.RowChange {
	return wire.RowChange{Op: 'U', Before: valueHash(from), Row: testRow(key), Cells: []wire.Cell{{Ordinal: 2, Value: testRow(to)[4:]}}}
}

func deletes(key, from int64) wire.RowChange {
	return wire.RowChange{Op: 'D', Before: valueHash(from), Row: testRow(key)}
}

func inserts(key, v int64) wire.RowChange { return wire.RowChange{Op: 'I', Row: testRow(key, v)} }

func setOf(snapshot uint64, changes ...wire.RowChange) *wire.WriteSet {
	return &wire.WriteSet{Snapshot: snapshot, Isolation: wire.ReadCommitted, Tables: []string{"public.t"}, Changes: changes}
}

// chained gives a transaction with a write set; nil: with a statement.
func chained(nonce uint64, set *wire.WriteSet) (wire.TxID, []byte) {
	p := &wire.Proposal{ChainId: "test", Client: &wire.Client{Organisation: "acme", Role: "bank"}, Nonce: nonce, ValidUntilHeight: 100}
	if p.Kind, p.Sql = wire.Kind_KIND_SQL, "UPDATE t SET x = 1"; set != nil {
		p.Kind, p.Sql, p.Effects = wire.Kind_KIND_EFFECTS, "", set.Encode()
	}
	raw := wire.Encode(p)
	return wire.TxIDOf(raw), wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: raw}})
}

// writeSets makes a block of write sets; nil: a statement.
func writeSets(number uint64, sets ...*wire.WriteSet) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: number}
	var raw [][]byte
	for i, set := range sets {
		id, tx := chained(number<<8|uint64(i), set)
		b.IDs, raw = append(b.IDs, id), append(raw, tx)
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

func outcomesOf(b *wire.OrderedBlock, succeeded ...bool) (out []wire.TxResult) {
	for i, id := range b.IDs {
		out = append(out, wire.TxResult{ID: id, Block: b.Number, Index: uint32(i), Succeeded: succeeded[i]})
	}
	return out
}

func (f *fixture) submitSet(sets ...*wire.WriteSet) ([]wire.TxID, error) {
	var statements []*wire.Statement
	for _, set := range sets {
		statements = append(statements, &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: set.Encode()})
	}
	return f.g.Submit("bank", statements)
}

func TestWhoSawAReplacedRowIsNotOrdered(t *testing.T) {
	old := setOf(4, updates(1, 10, 30))
	first := writeSets(5, setOf(4, updates(1, 10, 20)))
	seen := setOf(4, inserts(9, 1))
	seen.Seen = []wire.RowSeen{{Key: testRow(1), Present: true, Hash: valueHash(10)}}
	for name, c := range map[string]struct {
		history func(g *Gateway)
		set     *wire.WriteSet
		refused bool
	}{
		"changed":                      {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, true)) }, old, true},
		"changed and locked":           {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, true)) }, seen, true},
		"another value":                {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, true)) }, setOf(4, updates(1, 20, 30)), false},
		"another row":                  {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, true)) }, setOf(4, updates(2, 10, 30)), false},
		"began later":                  {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, true)) }, setOf(5, updates(1, 10, 30)), false},
		"began between":                {staleAfter(first, writeSets(6, setOf(5, updates(2, 20, 10)))), setOf(5, updates(1, 10, 30)), false},
		"not committed":                {func(g *Gateway) { g.Ordered(first) }, old, false},
		"failed":                       {func(g *Gateway) { g.Ordered(first); g.Committed(first, outcomesOf(first, false)) }, old, false},
		"outcomes unknown":             {func(g *Gateway) { g.Ordered(first); g.Committed(first, nil) }, old, false},
		"not told what was decided":    {func(g *Gateway) { g.Committed(first, outcomesOf(first, true)) }, old, false},
		"a statement before":           {staleAfter(writeSets(5, nil, setOf(4, updates(1, 10, 20)))), old, true},
		"a statement behind":           {staleAfter(writeSets(5, setOf(4, updates(1, 10, 20)), nil)), old, false},
		"changed twice in one":         {staleAfter(writeSets(5, setOf(4, updates(1, 10, 20), updates(1, 20, 10)))), old, false},
		"changed twice in one block":   {staleAfter(writeSets(5, setOf(4, updates(1, 10, 20)), setOf(4, updates(1, 20, 10)))), old, false},
		"changed again":                {staleAfter(first, writeSets(6, setOf(5, updates(1, 20, 10)))), old, false},
		"other rows changed since":     {staleAfter(first, writeSets(6, setOf(5, updates(2, 20, 10)))), old, true},
		"a statement since":            {staleAfter(first, writeSets(6, nil)), old, false},
		"changed again, not committed": {func(g *Gateway) { staleAfter(first)(g); g.Ordered(writeSets(6, setOf(5, updates(1, 20, 10)))) }, old, false},
		"changed again before it was committed": {func(g *Gateway) {
			g.Ordered(first)
			g.Ordered(writeSets(6, setOf(5, updates(1, 20, 10))))
			g.Committed(first, outcomesOf(first, true))
		}, old, false},
		"gone":                          {staleAfter(writeSets(5, setOf(4, deletes(1, 10)))), old, true},
		"gone after changes":            {staleAfter(writeSets(5, setOf(4, updates(1, 10, 20), deletes(1, 20)))), old, true},
		"gone, and perhaps there again": {staleAfter(writeSets(5, setOf(4, deletes(1, 10), inserts(1, 10)))), old, false},
		"gone, and perhaps there since": {staleAfter(writeSets(5, setOf(4, deletes(1, 10))), writeSets(6, setOf(5, inserts(1, 10)))), old, false},
	} {
		f := newFixture(t, nil)
		f.g.stale.committed = 4
		c.history(f.g)
		_, err := f.submitSet(c.set)
		var e *Error
		switch {
		case !c.refused && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.refused && (!errors.As(err, &e) || e.SQLState != "40001" || e.Message != `row (1) of table "public.t" is not as the transaction saw it` || !strings.HasPrefix(e.Detail, "Block 5 changed it. Transaction ") || !strings.HasSuffix(e.Detail, " was not ordered.")):
			t.Errorf("%s: %#v", name, err)
		case c.refused && (f.g.Stats().EarlyAborts != 1 || f.g.Stats().Pending != 0):
			t.Errorf("%s: %+v", name, f.g.Stats())
		}
	}
}

func staleAfter(blocks ...*wire.OrderedBlock) func(g *Gateway) {
	return func(g *Gateway) {
		for _, b := range blocks {
			g.Ordered(b)
			all := make([]bool, len(b.IDs))
			for i := range all {
				all[i] = true
			}
			g.Committed(b, outcomesOf(b, all...))
		}
	}
}

// A transaction that waits in the queue while its row changes gets its outcome there. Others of its
// submission go on.
func TestWhoBecameStaleInTheQueueIsNotOrdered(t *testing.T) {
	f := newFixture(t, nil)
	f.g.stale.committed = 4
	f.submit("bank", 1)
	f.step() // what follows gathers
	ids, err := f.submitSet(setOf(4, updates(1, 10, 30)), setOf(4, updates(2, 10, 30)))
	must.Do(t, err)
	staleAfter(writeSets(5, setOf(4, updates(1, 10, 20))))(f.g)
	f.now = f.now.Add(time.Second)
	f.step()
	if got := f.ordered(len(f.mempool.bundles) - 1); len(got) != 1 || got[0] != ids[1] {
		t.Errorf("ordered %x, want %x", got, ids[1])
	}
	r, known := f.outcome(ids[0])
	if !known || r.SQLState != "40001" || r.Block != 0 || r.Message != `row (1) of table "public.t" is not as the transaction saw it: block 5 changed it; the transaction was not ordered` {
		t.Errorf("outcome %+v, %v", r, known)
	}
	if s := f.g.Stats(); s.EarlyAborts != 1 || s.Pending != 2 {
		t.Errorf("%+v", s)
	}
}

// When all that was taken is stale, the next ones are taken at once.
func TestStaleOnesDoNotHoldUpTheQueue(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.BundleTransactions = 2 })
	f.g.stale.committed = 4
	if _, err := f.submitSet(setOf(4, updates(1, 10, 30)), setOf(4, updates(1, 10, 40))); err != nil {
		t.Fatal(err)
	}
	want := f.submit("bank", 1)
	staleAfter(writeSets(5, setOf(4, updates(1, 10, 20))))(f.g)
	f.step()
	f.wantSizes(1)
	if got := f.ordered(0); got[0] != want[0] {
		t.Errorf("ordered %x, want %x", got, want)
	}
}

func TestKnownRowsAreBounded(t *testing.T) {
	s := newStaleRows()
	for i := range int64(3 * rowsKnownMax) {
		s.learn(uint64(i), rowKeyOf("public.t", testRow(i)), rowChange{count: 1, last: 'U'})
	}
	if n := len(s.younger) + len(s.older); n > rowsKnownMax {
		t.Errorf("%d rows are known, want at most %d", n, rowsKnownMax)
	}
	for n := range uint64(3 * decidedMax) {
		s.decide(&decidedBlock{number: n + 1}, nil)
	}
	if len(s.decided) > decidedMax {
		t.Errorf("%d decided blocks are known, want at most %d", len(s.decided), decidedMax)
	}
}

// table is what the ledger holds in the random histories: values by key.
type table map[int64]int64

func (t table) copy() table {
	out := table{}
	for k, v := range t {
		out[k] = v
	}
	return out
}

// apply applies a write set when the table is as it saw it.
func (t table) apply(set *wire.WriteSet) (table, bool) {
	for _, s := range set.Seen {
		if v, there := t[keyOf(s.Key)]; there != s.Present || there && valueHash(v) != s.Hash {
			return t, false
		}
	}
	out := t.copy()
	for _, c := range set.Changes {
		k := keyOf(c.Row)
		v, there := out[k]
		if there != (c.Op != 'I') || there && valueHash(v) != c.Before {
			return t, false
		}
		switch c.Op {
		case 'I':
			out[k] = int64(c.Row[len(c.Row)-1])
		case 'U':
			out[k] = int64(c.Cells[0].Value[len(c.Cells[0].Value)-1])
		case 'D':
			delete(out, k)
		}
	}
	return out, true
}

func keyOf(row []byte) int64 { return int64(binary.BigEndian.Uint64(row[9:17])) }

// simulate makes a write set of a session that sees, row by row, one of the tables.
func simulate(random *rand.Rand, snapshot uint64, tables []table) *wire.WriteSet {
	set := setOf(snapshot)
	own := table{}
	gone := map[int64]bool{}
	touched := map[int64]bool{}
	for range 1 + random.IntN(3) {
		k := int64(random.IntN(3))
		at := tables[random.IntN(len(tables))]
		v, there := at[k]
		if touched[k] {
			v, there = own[k], !gone[k]
		}
		to := int64(random.IntN(3))
		switch {
		case !there:
			set.Changes = append(set.Changes, inserts(k, to))
		case random.IntN(3) == 0:
			set.Changes = append(set.Changes, deletes(k, v))
		case to == v:
			continue // a session records no update that changes nothing
		default:
			set.Changes = append(set.Changes, updates(k, v, to))
		}
		touched[k], own[k], gone[k] = true, to, set.Changes[len(set.Changes)-1].Op == 'D'
	}
	if k := int64(random.IntN(3)); !touched[k] && random.IntN(2) == 0 {
		at := tables[random.IntN(len(tables))]
		if v, there := at[k]; there {
			set.Seen = []wire.RowSeen{{Key: testRow(k), Present: true, Hash: valueHash(v)}}
		}
	}
	if len(set.Changes)+len(set.Seen) == 0 {
		set.Changes = []wire.RowChange{inserts(9, 1)}
	}
	return set
}

// No transaction is refused that would succeed behind all decided blocks (G4). The random histories
// have three rows of three values. Sessions see any committed state. EFFECTS transactions of a
// block take turns in any order. The gateway hears of blocks as late as it may.
func TestNobodyWhoWouldSucceedIsRefused(t *testing.T) {
	seed := seeded.Seed(t)
	refused, asked := 0, 0
	for i := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, i))
		s := newStaleRows()
		states := []table{{0: 0, 1: 1}} // by block, as decided
		type told struct {
			number    uint64
			succeeded map[wire.TxID]bool
		}
		var open []told
		shown, committed := 0, 0 // blocks that the database shows, and whose outcomes are told
		for range 60 {
			switch what := random.IntN(4); {
			case what == 0 && len(states)-1-committed < 2:
				number := uint64(len(states))
				sets := make([]*wire.WriteSet, 1+random.IntN(3))
				for j := range sets {
					from := random.IntN(shown + 1)
					if sets[j] = simulate(random, uint64(from), states[from:shown+1]); random.IntN(8) == 0 {
						sets[j] = nil
					}
				}
				b := writeSets(number, sets...)
				d, inserted := readDecided(b)
				s.decide(d, inserted)
				now, succeeded := execute(random, states[len(states)-1], b, sets)
				states, open = append(states, now), append(open, told{number, succeeded})
			case what == 1 && shown < len(states)-1:
				shown++
			case what == 2 && committed < shown:
				committed++
				s.commit(open[0].number, func(id wire.TxID) bool { return open[0].succeeded[id] })
				open = open[1:]
			default:
				from := max(0, shown-random.IntN(4))
				set := simulate(random, uint64(from), states[from:shown+1])
				decoded, err := wire.DecodeWriteSet(set.Encode())
				must.Do(t, err)
				asked++
				if c := s.conflict(decoded); c != nil {
					refused++
					if _, succeeds := states[len(states)-1].apply(decoded); succeeds {
						t.Fatalf("history %d: %+v is refused for row %s, though it succeeds on %v", i, set, keyText(c.key), states[len(states)-1])
					}
				}
			}
		}
	}
	if refused < asked/100 {
		t.Errorf("%d of %d were refused: the histories show too little", refused, asked)
	}
	t.Logf("%d of %d transactions were refused", refused, asked)
}

// execute runs a block: statements do anything, runs of write sets in any order.
func execute(random *rand.Rand, now table, b *wire.OrderedBlock, sets []*wire.WriteSet) (table, map[wire.TxID]bool) {
	succeeded := map[wire.TxID]bool{}
	for i := 0; i < len(sets); {
		if sets[i] == nil {
			now, succeeded[b.IDs[i]] = now.copy(), true
			now[int64(random.IntN(3))] = int64(random.IntN(3))
			delete(now, int64(random.IntN(6)))
			i++
			continue
		}
		end := i
		for end < len(sets) && sets[end] != nil {
			end++
		}
		for _, j := range random.Perm(end - i) {
			now, succeeded[b.IDs[i+j]] = now.apply(sets[i+j])
		}
		i = end
	}
	return now, succeeded
}

func TestKeysInMessages(t *testing.T) {
	key := append(testRow(7), 0, 2, 5, 0, 0, 0, 2, 'a', 'b', 0, 3, 6, 0, 0, 0, 1, 0xfe)
	if got := keyText(key); got != `7, ab, \xfe` {
		t.Errorf("got %q", got)
	}
	long := append([]byte{0, 1, 0, 1, 5, 0, 0, 4, 0}, strings.Repeat("é", 512)...)
	if got := keyText(long); len(got) > keyTextMax+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %q", got)
	}
}

// A bundle closes before its transactions name more rows than a block may, so that none is cut. One
// that alone names more goes alone.
func TestABundleNamesNoMoreRowsThanABlockMay(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.BlockKeys = func() int { return 2 } })
	one := func(k int64) *wire.WriteSet { return setOf(4, updates(k, 1, 2)) }
	if _, err := f.submitSet(one(1), one(2), one(3), setOf(4, updates(4, 1, 2), updates(5, 1, 2), updates(6, 1, 2)), one(7)); err != nil {
		t.Fatal(err)
	}
	f.submit("bank", 1)
	for range 6 {
		f.now = f.now.Add(100 * time.Millisecond)
		f.step()
	}
	f.wantSizes(2, 1, 1, 2)
}
