package workload

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// mixSQL makes schema mix: one table of accounts, fill(accounts), and the transaction.
//
//go:embed mix.sql
var mixSQL string

// Mix are the parameters of the custom workload of Fabric++ (Sharma et al., "Blurring the Lines
// between Blockchains and Database Systems", SIGMOD 2019, section 6.2). Each transaction reads some
// accounts and writes some, and both meet more often in a hot set.
type Mix struct {
	Accounts int     // N
	Each     int     // RW: accounts that a transaction reads, and as many that it writes
	HotRead  float64 // HR: the chance that one read is of the hot set
	HotWrite float64 // HW: that one written is
	HotShare float64 // HSS: the hot set's share of the accounts
}

// DefaultMix is the paper's with the most conflicts: N 10,000, RW 8, HR 40 %, HW 10 %, HSS 1 %.
var DefaultMix = Mix{Accounts: 10_000, Each: 8, HotRead: 0.4, HotWrite: 0.1, HotShare: 0.01}

// Schema is the mix's table, filled.
func (m Mix) Schema() Schema {
	return Schema{Name: "mix", SQL: mixSQL, Fill: fmt.Sprintf("SELECT mix.fill(%d)", m.Accounts), Tables: []string{"mix.account"}}
}

// The functions of a mix: ReadWrite as a block runs it, and SeeAndWrite for a session, which locks
// what it reads, so that the rows read are compared like those written.
const (
	ReadWrite   = "mix.read_write"
	SeeAndWrite = "mix.see_and_write"
)

// Stream draws transactions, calls of a function; the same seed and stream give the same.
func (m Mix) Stream(seed, stream uint64, function string) func() Statement {
	random := rand.New(rand.NewPCG(seed, stream))
	hot := max(int(m.HotShare*float64(m.Accounts)), 1)
	account := func(chance float64) int {
		if random.Float64() < chance {
			return 1 + random.IntN(hot)
		}
		return 1 + hot + random.IntN(m.Accounts-hot)
	}
	accounts := func(chance float64) string {
		ids := make([]string, m.Each)
		for i := range ids {
			ids[i] = strconv.Itoa(account(chance))
		}
		return "{" + strings.Join(ids, ",") + "}"
	}
	return func() Statement {
		return Statement{
			SQL: "SELECT " + function + "($1, $2)", Types: []string{"bigint[]", "bigint[]"}, Values: []string{accounts(m.HotRead), accounts(m.HotWrite)},
		}
	}
}
