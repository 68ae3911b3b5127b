package workload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// TPCCSQL makes schema tpcc: tables, fill, NewOrder and Payment as functions, and what must hold
// between them.
//
//go:embed tpcc.sql
var TPCCSQL string

// TPCCSize says how much of TPC-C there is. The specification has 100,000 items, and 3,000
// customers in each district.
type TPCCSize struct {
	Warehouses, Items int
	Customers         int // in each of a warehouse's ten districts
}

// DefaultTPCC loads within seconds: a tenth of the specification's size, with as many warehouses
// as terminals are run for.
var DefaultTPCC = TPCCSize{Warehouses: 10, Items: 10_000, Customers: 300}

// names is how many different last names customers of a district have: three customers share one,
// as in the specification.
func (s TPCCSize) names() int { return max(1, min(1000, s.Customers/3)) }

// The access that TPCCDeclare tells a ledger, and TPCCUndeclare takes back: which rows of other
// warehouses NewOrder and Payment come to. Their texts say no more than the warehouse, and the
// district.
const (
	TPCCDeclare = `SELECT chainify.declare_access('tpcc.new_order', 'tpcc.stock', rows => 'tpcc.new_order_stock'),
		chainify.declare_access('tpcc.payment', 'tpcc.customer', rows => 'tpcc.payment_customer'),
		chainify.declare_access('tpcc.payment', 'tpcc.history', rows => 'tpcc.payment_customer')`
	TPCCUndeclare = `SELECT chainify.undeclare_access('tpcc.new_order', 'tpcc.stock'), chainify.undeclare_access('tpcc.payment', 'tpcc.customer'),
		chainify.undeclare_access('tpcc.payment', 'tpcc.history')`
)

// Schema is TPC-C of this size.
func (s TPCCSize) Schema() Schema {
	return Schema{
		Name: "tpcc", SQL: TPCCSQL, Fill: fmt.Sprintf("SELECT tpcc.fill(%d, %d, %d, %d)", s.Warehouses, s.Items, s.Customers, s.names()),
		Tables: []string{
			"tpcc.warehouse", "tpcc.district", "tpcc.customer", "tpcc.history", "tpcc.orders", "tpcc.new_orders", "tpcc.item", "tpcc.stock", "tpcc.order_line",
		},
	}
}

// Ordered is Schema with an order of ten lines by every customer, so that there is something to
// read, and no plan is made for an empty table. All were entered at one time, the same in every
// database.
func (s TPCCSize) Ordered() Schema {
	schema := s.Schema()
	schema.Fill += fmt.Sprintf("; SELECT tpcc.order_all(%d); UPDATE tpcc.orders SET o_entry_d = '2026-01-01 00:00:00+00'", s.Items)
	return schema
}

// OrderStatusScripts gives pgbench's scripts of OrderStatus, each with its weight: three in five
// name the customer (clause 2.6.1.2).
func (s TPCCSize) OrderStatusScripts() map[string]int {
	const from = "\\set w random(1, %d)\n\\set d random(1, %d)\n\\set c random(1, %d)\n"
	return map[string]int{
		fmt.Sprintf(from+"SELECT tpcc.order_status(:w, :d, :c, NULL);\n", s.Warehouses, districts, s.Customers):                   2,
		fmt.Sprintf(from+"SELECT tpcc.order_status(:w, :d, NULL, tpcc.last_name(:c - 1));\n", s.Warehouses, districts, s.names()): 3,
	}
}

// Spread is how transactions fall on the warehouses.
type Spread string

// The spreads of TPC-C.
const (
	// ByTheBook: every warehouse alike; one line in a hundred comes from another warehouse, and
	// 15 payments in a hundred are of a customer of another one (clauses 2.4.1.5 and 2.5.1.2).
	ByTheBook Spread = "by the book"
	// AtHome: every warehouse alike, and no transaction leaves its own.
	AtHome Spread = "at home"
	// OneWarehouse: all transactions are of the first warehouse.
	OneWarehouse Spread = "one warehouse"
)

const (
	districts   = 10
	linesMin    = 5
	linesMax    = 15
	quantityMax = 10
	// Of 88 transactions 45 are NewOrder: the specification's 45 % to 43 % of all.
	newOrders, both = 45, 88
)

// TPCC draws transactions.
type TPCC struct {
	random *rand.Rand
	size   TPCCSize
	spread Spread
	home   int // 0: any warehouse
	// The constants C of NURand, one for each use.
	constantItem, constantCustomer, constantName int
}

// NewTPCC starts the stream of a seed. The same seed and stream give the same transactions.
func NewTPCC(seed, stream uint64, size TPCCSize, spread Spread) *TPCC {
	random := rand.New(rand.NewPCG(seed, stream))
	return &TPCC{random, size, spread, 0, random.IntN(size.Items), random.IntN(size.Customers), random.IntN(size.names())}
}

// At keeps the stream at a warehouse, as a terminal of the specification: all its transactions
// begin there.
func (t *TPCC) At(warehouse int) *TPCC {
	t.home = warehouse
	return t
}

// Block draws the next n transactions, each a call of a function.
func (t *TPCC) Block(n int) []Statement {
	out := make([]Statement, n)
	for i := range out {
		if t.random.IntN(both) < newOrders {
			out[i] = t.newOrder()
		} else {
			out[i] = t.payment()
		}
	}
	return out
}

// line of an order.
type line struct{ item, supplier, quantity int }

func (t *TPCC) newOrder() Statement {
	home := t.warehouse()
	lines := make([]line, t.between(linesMin, linesMax))
	for i := range lines {
		lines[i] = line{t.item(), home, t.between(1, quantityMax)}
		if t.leaves(1) {
			lines[i].supplier = t.other(home)
		}
	}
	// One order in a hundred names an item that does not exist (clause 2.4.1.5).
	if t.random.IntN(100) == 0 {
		lines[len(lines)-1].item = t.size.Items + 1
	}
	// Rows are locked in one order, so that clients beside each other do not deadlock.
	slices.SortFunc(lines, func(a, b line) int {
		if a.supplier != b.supplier {
			return a.supplier - b.supplier
		}
		return a.item - b.item
	})
	return Statement{
		SQL:   "SELECT tpcc.new_order($1, $2, $3, $4, $5, $6)",
		Types: []string{"integer", "integer", "integer", "integer[]", "integer[]", "integer[]"},
		Values: []string{
			fmt.Sprint(home), fmt.Sprint(t.between(1, districts)), fmt.Sprint(t.customer()),
			array(lines, func(l line) int { return l.item }),
			array(lines, func(l line) int { return l.supplier }),
			array(lines, func(l line) int { return l.quantity }),
		},
	}
}

func (t *TPCC) payment() Statement {
	home, district := t.warehouse(), t.between(1, districts)
	warehouse, of := home, district
	if t.leaves(15) {
		warehouse, of = t.other(home), t.between(1, districts)
	}
	s := Statement{
		Types: []string{"integer", "integer", "integer", "integer", "numeric"},
		Values: []string{
			fmt.Sprint(home), fmt.Sprint(district), fmt.Sprint(warehouse), fmt.Sprint(of),
			fmt.Sprintf("%d.%02d", t.between(1, 4999), t.random.IntN(100)),
		},
	}
	// Three payments in five name the customer (clause 2.5.1.2).
	if t.random.IntN(5) < 3 {
		s.SQL = "SELECT tpcc.payment($1, $2, $3, $4, NULL, $6, $5)"
		s.Types, s.Values = append(s.Types, "text"), append(s.Values, t.name())
	} else {
		s.SQL = "SELECT tpcc.payment($1, $2, $3, $4, $6, NULL, $5)"
		s.Types, s.Values = append(s.Types, "integer"), append(s.Values, fmt.Sprint(t.customer()))
	}
	return s
}

func array(lines []line, of func(line) int) string {
	parts := make([]string, len(lines))
	for i, l := range lines {
		parts[i] = fmt.Sprint(of(l))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (t *TPCC) between(low, high int) int { return low + t.random.IntN(high-low+1) }

func (t *TPCC) warehouse() int {
	switch {
	case t.home > 0:
		return t.home
	case t.spread == OneWarehouse:
		return 1
	}
	return t.between(1, t.size.Warehouses)
}

// leaves says whether something of the transaction is of another warehouse.
func (t *TPCC) leaves(percent int) bool {
	return t.spread == ByTheBook && t.size.Warehouses > 1 && t.random.IntN(100) < percent
}

func (t *TPCC) other(home int) int {
	return 1 + (home+t.random.IntN(t.size.Warehouses-1))%t.size.Warehouses
}

// uneven is NURand(A, low, high) of clause 2.1.6. The specification's A is a power of two less
// one, a twelfth (items) or a third (customers, names) of the range; it follows the size here.
func (t *TPCC) uneven(share, constant, low, high int) int {
	a := 1
	for a*2 <= (high-low+1)/share+1 {
		a *= 2
	}
	return low + ((t.random.IntN(a)|t.between(low, high))+constant)%(high-low+1)
}

func (t *TPCC) item() int     { return t.uneven(12, t.constantItem, 1, t.size.Items) }
func (t *TPCC) customer() int { return t.uneven(3, t.constantCustomer, 1, t.size.Customers) }

// name is the last name of some customers of every district.
func (t *TPCC) name() string {
	syllables := [10]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
	n := t.uneven(3, t.constantName, 0, t.size.names()-1)
	return syllables[n/100] + syllables[n/10%10] + syllables[n%10]
}
