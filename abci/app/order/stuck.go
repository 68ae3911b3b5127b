package order

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// Stuck votes (spec/effect-consensus.md, "A block's time"). Organisations whose machines are not
// alike name different transactions of one client that sent many slow ones, so votes are counted by
// client.

// budgetGrowthMax bounds by how many times rounds that decided nothing make the budget of a block
// larger.
const budgetGrowthMax = 60

// perTransaction is what a block's budget has for each of its transactions beside what is agreed:
// many quick ones are not slow.
const perTransaction = time.Millisecond

// clientOf names a client: its organisation and role, or its organisation and key. No
// organisation's name holds what stands between.
func clientOf(c *wire.Client) string {
	if len(c.Key) > 0 {
		return c.Organisation + "#" + hex.EncodeToString(c.Key)
	}
	return c.Organisation + "/" + c.Role
}

// organisationOf is whose client that is; of an organisation itself.
func organisationOf(client string) string {
	if i := strings.IndexAny(client, "/#"); i >= 0 {
		return client[:i]
	}
	return client
}

// clients says whose each transaction of a block is: names, and runs of u varint place of the name
// ‖ u varint transactions.
type clients struct {
	Names []string `json:"names"`
	Runs  []byte   `json:"runs"`
}

// clientsMaker makes clients, one transaction after the other.
type clientsMaker struct {
	clients
	places map[string]int
	last   string // whose the run is that is not in Runs yet
	count  uint64 // of its transactions
}

func (m *clientsMaker) add(client string) {
	if client != m.last {
		m.endRun()
		m.last = client
	}
	m.count++
}

func (m *clientsMaker) endRun() {
	if m.count == 0 {
		return
	}
	place, known := m.places[m.last]
	if !known {
		if m.places == nil {
			m.places = map[string]int{}
		}
		place = len(m.Names)
		m.places[m.last] = place
		m.Names = append(m.Names, m.last)
	}
	m.Runs = binary.AppendUvarint(m.Runs, uint64(place))
	m.Runs = binary.AppendUvarint(m.Runs, m.count)
	m.count = 0
}

// made is whose all transactions added are.
func (m *clientsMaker) made() clients {
	m.endRun()
	return m.clients
}

// each visits the runs: whose the transactions from first on, before end, are.
func (c clients) each(visit func(client string, first, end uint32)) {
	first := uint32(0)
	for runs := c.Runs; len(runs) > 0; {
		place, n := binary.Uvarint(runs)
		count, m := binary.Uvarint(runs[n:])
		runs = runs[n+m:]
		visit(c.Names[place], first, first+uint32(count))
		first += uint32(count)
	}
}

func (c clients) submitters() (list []wire.Submitter) {
	c.each(func(name string, first, end uint32) {
		list = append(list, wire.Submitter{Organisation: organisationOf(name), Client: name, Transactions: end - first})
	})
	return list
}

// Submitting are the organisations that have transactions in the block.
func (p *Pending) Submitting() map[string]bool {
	out := map[string]bool{}
	for _, name := range p.Clients.Names {
		out[organisationOf(name)] = true
	}
	return out
}

// of is whose a transaction is.
func (c clients) of(index uint32) (client string) {
	c.each(func(name string, first, end uint32) {
		if index >= first && index < end {
			client = name
		}
	})
	return client
}

// from lists the transactions of some clients that do not stand before index.
func (c clients) from(index uint32, theirs func(client string) bool) (list []uint32) {
	c.each(func(name string, first, end uint32) {
		for i := max(first, index); i < end && theirs(name); i++ {
			list = append(list, i)
		}
	})
	return list
}

// Budget is how long executing the block in this round may take. It grows where organisations did
// not come together: the slow ones then have the time that they need.
func (p *Pending) Budget() wire.Budget {
	run := time.Duration(0)
	if !p.QuarantineAll {
		run = time.Duration(int(p.TxCount) - len(p.Quarantined))
	}
	grown := time.Duration(min(1+p.Undecided, budgetGrowthMax))
	return wire.Budget{
		Statements: time.Duration(p.TimeMaxMS)*time.Millisecond*grown + run*perTransaction,
		Deploys:    time.Duration(p.DeployTimeMaxMS) * time.Millisecond * grown,
	}
}

// stuckVotes are those of a round.
type stuckVotes struct {
	all    int      // how many there are
	client string   // that most of them name; of equals the one with the smallest transaction named
	at     []uint32 // the transactions of that client they name, ascending
}

func (p *Pending) stuckVotes() (s stuckVotes) {
	at := map[string][]uint32{}
	for _, v := range p.Votes {
		if index, stuck := v.vote.StuckAt(); stuck {
			client := p.Clients.of(index)
			at[client] = append(at[client], index)
			s.all++
		}
	}
	for client, list := range at {
		slices.Sort(list)
		if n := len(list) - len(s.at); n > 0 || n == 0 && list[0] < s.at[0] {
			s.client, s.at = client, list
		}
	}
	return s
}

// enoughStuck is how many of c stuck votes have to name one client: more than those that may lie.
func enoughStuck(n, c int) int { return min(c, n-c+1) }

// reach reports whether the stuck votes, with so many more, quarantine something.
func (s stuckVotes) reach(more, n, c int) bool {
	return s.all+more >= c && len(s.at)+more >= enoughStuck(n, c)
}

// stuckClientsMax is of how many clients of one organisation a block ends transactions; then it
// ends all of the organisation's.
const stuckClientsMax = 2

// end is what c stuck votes end: transactions, or all of the block.
type end struct {
	list   []uint32
	all    bool
	client string // whose fault it is
	whole  bool   // its organisation's as well
}

// ends says what c stuck votes quarantine. A client ends two rounds at most: first the one
// transaction that enough votes name, or its transactions from the first one named on; the second
// time all of them. With the third client of an organisation all of that end. So an organisation
// ends 2·stuckClientsMax + 1 rounds at most, and whoever is named beyond that ends the block.
func (p *Pending) ends(s stuckVotes, n, c int) end {
	organisation, times, others := organisationOf(s.client), 0, map[string]bool{}
	for _, before := range p.Stuck {
		switch {
		case before == organisation:
			return end{all: true, client: s.client}
		case before == s.client:
			times++
		case organisationOf(before) == organisation:
			others[before] = true
		}
	}
	its := func(client string) bool { return client == s.client }
	switch {
	case len(others) >= stuckClientsMax:
		theirs := func(client string) bool { return organisationOf(client) == organisation }
		return end{list: p.Clients.from(0, theirs), client: s.client, whole: true}
	case times >= 2:
		return end{all: true, client: s.client}
	case times == 1:
		return end{list: p.Clients.from(0, its), client: s.client}
	}
	for i, last := 0, enoughStuck(n, c)-1; i+last < len(s.at); i++ {
		if s.at[i] == s.at[i+last] {
			return end{list: s.at[i : i+1], client: s.client}
		}
	}
	return end{list: p.Clients.from(s.at[0], its), client: s.client}
}
