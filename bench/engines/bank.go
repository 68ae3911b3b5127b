package engines

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Smallbank's transactions that change rows. The sixth, a query, is none on a ledger.
const (
	depositChecking = iota
	transactSavings
	writeCheck
	amalgamate
	sendPayment
	kindsCount
)

// statements are the transactions that one statement of the common subset says. They take an amount
// and a customer, of the types of their columns. The second takes the negated amount too, and an
// overdraft costs nothing.
var statements = []string{
	depositChecking: "UPDATE checking SET balance = balance + $1 WHERE custid = $2",
	transactSavings: "UPDATE savings SET balance = balance + $1 WHERE custid = $2 AND balance >= $3",
	writeCheck:      "UPDATE checking SET balance = balance - $1 WHERE custid = $2",
}

// The tables, in the order of a write set's names.
const (
	checking = iota
	savings
	tablesCount
)

var tables = []string{checking: "checking", savings: "savings"}

const attach = "ATTACH TABLE public.checking, public.savings ENCODING 2"

// Balances at the start, of a customer.
const (
	checkingStart = 500
	savingsStart  = 5_000
)

// single is a transaction of one statement.
type single struct{ kind, amount, customer int }

func drawSingle(random *rand.Rand, customers int) single {
	s := single{kind: random.IntN(len(statements)), amount: 1 + random.IntN(500), customer: 1 + random.IntN(customers)}
	if s.kind == transactSavings && random.IntN(2) == 0 {
		s.amount = -s.amount
	}
	return s
}

// statement draws a transaction of one statement.
func statement(random *rand.Rand, customers int) *wire.Statement {
	d := drawSingle(random, customers)
	s := &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: statements[d.kind], Parameters: []*wire.Parameter{
		{Text: fmt.Sprint(d.amount)}, {Text: fmt.Sprint(d.customer)},
	}}
	if d.kind == transactSavings {
		s.Parameters = append(s.Parameters, &wire.Parameter{Text: fmt.Sprint(-d.amount)})
	}
	return s
}

// balances are a customer's, as the client knows them.
type balances [tablesCount]int64

// till is a client with customers of its own: nobody else changes their rows. A customer is in at
// most one transaction without an outcome, since the client states the rows that it saw.
type till struct {
	random *rand.Rand
	known  map[int64]balances
	free   []int64
}

func newTill(random *rand.Rand, known map[int64]balances) *till {
	t := &till{random: random, known: known}
	for customer := range known {
		t.free = append(t.free, customer)
	}
	slices.Sort(t.free)
	random.Shuffle(len(t.free), func(i, j int) { t.free[i], t.free[j] = t.free[j], t.free[i] })
	return t
}

// next gives a transaction as a write set, and its customers, who are free again when it has an
// outcome. It needs two customers that are free.
func (t *till) next() (*wire.Statement, []int64, error) {
	kind, amount := t.random.IntN(kindsCount), int64(1+t.random.IntN(500))
	involved := slices.Clone(t.free[:1])
	c, d := t.free[0], t.free[1]
	if kind == amalgamate && t.known[c] == (balances{}) {
		kind = depositChecking // nothing to move, and a write set changes something
	}
	if kind == amalgamate || kind == sendPayment {
		involved = append(involved, d)
	}
	t.free = t.free[len(involved):]
	mine, other := t.known[c], t.known[d]
	before, beforeOther := mine, other
	switch kind {
	case depositChecking:
		mine[checking] += amount
	case transactSavings:
		mine[savings] += amount
	case writeCheck:
		mine[checking] -= amount
	case amalgamate:
		other[checking] += mine[checking] + mine[savings]
		mine = balances{}
	case sendPayment:
		mine[checking] -= amount
		other[checking] += amount
	}
	set := &wire.WriteSet{Isolation: wire.ReadCommitted}
	for table, name := range tables {
		for _, row := range []struct {
			customer    int64
			before, now int64
		}{{c, before[table], mine[table]}, {d, beforeOther[table], other[table]}} {
			if row.before == row.now {
				continue
			}
			if err := change(set, "public."+name, row.customer, row.before, row.now); err != nil {
				return nil, nil, err
			}
		}
	}
	t.known[c], t.known[d] = mine, other
	return &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: set.Encode()}, involved, nil
}

// change adds an update of a balance to a write set.
func change(set *wire.WriteSet, table string, customer, before, now int64) error {
	id := canonical.Column{Ordinal: 1, Value: canonical.Value{Tag: canonical.Integer, Number: customer}}
	key, err := canonical.AppendRow(nil, []canonical.Column{id})
	if err != nil {
		return err
	}
	row, err := canonical.AppendRow(nil, []canonical.Column{id, {Ordinal: 2, Value: amountOf(before)}})
	if err != nil {
		return err
	}
	value := amountOf(now)
	cell, err := value.Append(nil)
	if err != nil {
		return err
	}
	if len(set.Tables) == 0 || set.Tables[len(set.Tables)-1] != table {
		set.Tables = append(set.Tables, table)
	}
	set.Changes = append(set.Changes, wire.RowChange{
		Table: uint16(len(set.Tables) - 1), Op: 'U', Row: key, Before: wire.RowHash(table, row), Cells: []wire.Cell{{Ordinal: 2, Value: cell}},
	})
	return nil
}

func amountOf(n int64) canonical.Value {
	return canonical.Value{Tag: canonical.Numeric, Text: fmt.Sprint(n)}
}
