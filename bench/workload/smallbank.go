// Package workload makes the transactions that a benchmark runs: the same ones for every system,
// from a seed.
package workload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// SmallbankSQL makes schema smallbank: tables, fill(customers), one function for each
// transaction, and the block without a ledger.
//
//go:embed smallbank.sql
var SmallbankSQL string

// SmallbankSchema is Smallbank with some customers.
func SmallbankSchema(customers int) Schema {
	return Schema{
		Name: "smallbank", SQL: SmallbankSQL, Fill: fmt.Sprintf("SELECT smallbank.fill(%d)", customers),
		Tables: []string{"smallbank.accounts", "smallbank.savings", "smallbank.checking"},
	}
}

// argument names what a transaction takes: c and d are different customers, v is an amount.
type argument byte

var typeOf = map[argument]string{'c': "bigint", 'd': "bigint", 'v': "numeric"}

// kind is one of the six transactions. The statements do what the function does, for systems that
// are sent SQL.
type kind struct {
	name       string
	arguments  []argument // $1, $2 … of function and statements
	statements string
	vMin, vMax int64
}

// kinds in the order that smallbank.run_block numbers them.
var kinds = []kind{
	{name: "balance", arguments: []argument{'c'}, statements: `SELECT s.balance + k.balance FROM smallbank.savings s JOIN smallbank.checking k USING (custid) WHERE s.custid = $1`},
	{name: "deposit_checking", arguments: []argument{'c', 'v'}, vMin: 1, vMax: 500, statements: `UPDATE smallbank.checking SET balance = balance + $2 WHERE custid = $1`},
	{name: "transact_savings", arguments: []argument{'c', 'v'}, vMin: -1000, vMax: 1000, statements: `UPDATE smallbank.savings SET balance = balance + $2 WHERE custid = $1 AND balance + $2 >= 0`},
	{name: "amalgamate", arguments: []argument{'c', 'd'}, statements: `UPDATE smallbank.checking SET balance = balance + (SELECT s.balance + k.balance FROM smallbank.savings s JOIN smallbank.checking k USING (custid) WHERE s.custid = $1) WHERE custid = $2; ` +
		`UPDATE smallbank.savings SET balance = 0 WHERE custid = $1; UPDATE smallbank.checking SET balance = 0 WHERE custid = $1`},
	{name: "write_check", arguments: []argument{'c', 'v'}, vMin: 1, vMax: 700, statements: `UPDATE smallbank.checking k SET balance = k.balance - CASE WHEN k.balance + s.balance < $2 THEN $2 + 1 ELSE $2 END FROM smallbank.savings s WHERE k.custid = $1 AND s.custid = $1`},
	{name: "send_payment", arguments: []argument{'c', 'd', 'v'}, vMin: 1, vMax: 500, statements: `WITH paid AS (UPDATE smallbank.checking SET balance = balance - $3 WHERE custid = $1 AND balance >= $3 RETURNING custid) ` +
		`UPDATE smallbank.checking SET balance = balance + $3 WHERE custid = $2 AND EXISTS (SELECT FROM paid)`},
}

// Call is one transaction: a kind and its arguments.
type Call struct {
	Kind    int // index of smallbank.run_block
	C, D, V int64
}

// Smallbank draws transactions: every kind equally often, customers from 1 to the given number.
type Smallbank struct {
	random    *rand.Rand
	customers int64
	zipf      *rand.Zipf // of the first customer; nil: uniformly
	of        []int      // kinds that it draws; nil: all
}

// NewSmallbank starts a stream. The same seed, stream and customers give the same transactions;
// customers is at least 2.
func NewSmallbank(seed, stream uint64, customers int64) *Smallbank {
	return &Smallbank{random: rand.New(rand.NewPCG(seed, stream)), customers: customers}
}

// NewSkewedSmallbank starts a stream in which customer c comes first with a chance that goes by c
// to the power of -s, s above 1.
func NewSkewedSmallbank(seed, stream uint64, customers int64, s float64) *Smallbank {
	random := rand.New(rand.NewPCG(seed, stream))
	return &Smallbank{random: random, customers: customers, zipf: rand.NewZipf(random, s, 1, uint64(customers-1))}
}

// Of has the stream draw transactions of these names alone, each equally often.
func (s *Smallbank) Of(names ...string) *Smallbank {
	s.of = []int{}
	for i, k := range kinds {
		if slices.Contains(names, k.name) {
			s.of = append(s.of, i)
		}
	}
	return s
}

// customer draws the first customer of a transaction.
func (s *Smallbank) customer() int64 {
	if s.zipf != nil {
		return 1 + int64(s.zipf.Uint64())
	}
	return 1 + s.random.Int64N(s.customers)
}

func (s *Smallbank) kind() int {
	if s.of == nil {
		return s.random.IntN(len(kinds))
	}
	return s.of[s.random.IntN(len(s.of))]
}

// Block draws the next n transactions.
func (s *Smallbank) Block(n int) []Call {
	out := make([]Call, n)
	for i := range out {
		k := s.kind()
		c := s.customer()
		d := 1 + (c+s.random.Int64N(s.customers-1))%s.customers
		v := kinds[k].vMin + s.random.Int64N(kinds[k].vMax-kinds[k].vMin+1)
		out[i] = Call{k, c, d, v}
	}
	return out
}

func (c Call) value(a argument) int64 {
	return map[argument]int64{'c': c.C, 'd': c.D, 'v': c.V}[a]
}

// Form is how a transaction is spelled.
type Form string

// The forms of a transaction, by what a client sends.
const (
	Function   Form = "function"   // SELECT of one function with parameters
	Parameters Form = "parameters" // the statements themselves, with parameters
	Literal    Form = "literal"    // the statements with the values in their text
)

// Statement spells the call.
func (c Call) Statement(form Form) Statement {
	k := kinds[c.Kind]
	s := Statement{SQL: k.statements}
	for _, a := range k.arguments {
		s.Types = append(s.Types, typeOf[a])
		s.Values = append(s.Values, fmt.Sprint(c.value(a)))
	}
	switch form {
	case Function:
		s.SQL = k.call(func(i int, _ argument) string { return fmt.Sprintf("$%d", i+1) })
	case Literal:
		var pairs []string
		for i, v := range s.Values {
			pairs = append(pairs, fmt.Sprintf("$%d", i+1), v)
		}
		s = Statement{SQL: strings.NewReplacer(pairs...).Replace(k.statements)}
	}
	return s
}

// FunctionText is the call of the function with the values in its text.
func (c Call) FunctionText() string {
	return kinds[c.Kind].call(func(_ int, a argument) string { return fmt.Sprint(c.value(a)) })
}

func (k kind) call(spell func(int, argument) string) string {
	arguments := make([]string, len(k.arguments))
	for i, a := range k.arguments {
		arguments[i] = spell(i, a)
	}
	return "SELECT smallbank." + k.name + "(" + strings.Join(arguments, ", ") + ")"
}

// PgbenchScripts gives one pgbench script for each transaction, by name; they want the variable
// `customers`.
func PgbenchScripts() map[string]string {
	out := map[string]string{}
	for _, k := range kinds {
		var text strings.Builder
		for _, a := range k.arguments {
			switch a {
			case 'c':
				text.WriteString("\\set c random(1, :customers)\n")
			case 'd':
				text.WriteString("\\set d 1 + (:c + random(0, :customers - 2)) % :customers\n")
			case 'v':
				fmt.Fprintf(&text, "\\set v random(%d, %d)\n", k.vMin, k.vMax)
			}
		}
		text.WriteString(k.call(func(_ int, a argument) string { return ":" + string(a) }) + ";\n")
		out[k.name+".sql"] = text.String()
	}
	return out
}
