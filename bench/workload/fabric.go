package workload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
)

// fabricSQL makes schema fabric: tables, fill(customers), one function for each transaction.
//
//go:embed fabric.sql
var fabricSQL string

// FabricSchema is the Smallbank of Fabric++ with some customers.
func FabricSchema(customers int) Schema {
	return Schema{
		Name: "fabric", SQL: fabricSQL, Fill: fmt.Sprintf("SELECT fabric.fill(%d)", customers),
		Tables: []string{"fabric.savings", "fabric.checking"},
	}
}

// FabricBank draws the Smallbank transactions of Fabric++ (Sharma, dissertation, section 3.6.2).
type FabricBank struct {
	random *rand.Rand
	writes float64
	zipf   *Zipf
}

// NewFabricBank starts a stream: with the chance writes (Pw) one of the five transactions that
// change something, each alike, else the one that reads. Customers come by the distribution.
func NewFabricBank(seed, stream uint64, writes float64, customers *Zipf) *FabricBank {
	return &FabricBank{rand.New(rand.NewPCG(seed, stream)), writes, customers}
}

// Reads tells whether a transaction of the bank only reads the accounts of the customer that is its
// first value.
func Reads(s Statement) bool { return strings.HasPrefix(s.SQL, "SELECT fabric."+fabricQuery+"(") }

const (
	fabricQuery     = "query"
	fabricAmountMax = 500
	otherTries      = 20
)

// Next draws a transaction.
func (b *FabricBank) Next() Statement {
	if b.random.Float64() >= b.writes {
		return b.call(fabricQuery, b.zipf.Draw(b.random))
	}
	c, v := b.zipf.Draw(b.random), 1+b.random.Int64N(fabricAmountMax)
	switch b.random.IntN(5) {
	case 0:
		return b.call("transact_savings", c, v)
	case 1:
		return b.call("deposit_checking", c, v)
	case 2:
		return b.call("write_check", c, v)
	case 3:
		return b.call("send_payment", c, b.other(c), v)
	default:
		return b.call("amalgamate", c, b.other(c))
	}
}

// other is another customer by the same distribution. One that is drawn over and over has its
// neighbour.
func (b *FabricBank) other(c int64) int64 {
	for range otherTries {
		if d := b.zipf.Draw(b.random); d != c {
			return d
		}
	}
	return c%int64(len(b.zipf.upTo)) + 1
}

func (b *FabricBank) call(function string, values ...int64) Statement {
	s := Statement{SQL: "SELECT fabric." + function + "("}
	for i, v := range values {
		if i > 0 {
			s.SQL += ", "
		}
		s.SQL += fmt.Sprintf("$%d", i+1)
		s.Types, s.Values = append(s.Types, "bigint"), append(s.Values, fmt.Sprint(v))
	}
	s.SQL += ")"
	return s
}
