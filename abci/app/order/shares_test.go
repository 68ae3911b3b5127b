package order_test

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

// sharing is a mempool of random bundles, with the limits of its registry and who submitted what.
type sharing struct {
	*testing.T
	random                     *rand.Rand
	consortium                 *ordertest.Consortium
	registry                   *order.Registry
	state                      *order.State
	clientMax, organisationMax int
	clients                    map[wire.TxID]string
	cut                        map[wire.TxID]bool
	nonce                      uint64
}

func newSharing(t *testing.T, random *rand.Rand) *sharing {
	s := &sharing{T: t, random: random, consortium: ordertest.New(3, 0), clients: map[wire.TxID]string{}, cut: map[wire.TxID]bool{}}
	if s.clientMax = random.IntN(6); random.IntN(4) > 0 {
		s.organisationMax = 1 + random.IntN(10)
	}
	p := &s.consortium.Genesis.Parameters
	p.BlockClientMax, p.BlockOrganisationMax = s.clientMax, s.organisationMax
	s.registry = s.consortium.Registry(t)
	s.state = s.registry.Genesis(1)
	return s
}

// offered is a bundle, with the client and id of each of its transactions.
type offered struct {
	tx      order.Tx
	clients []string
	ids     []wire.TxID
}

// bundle is one of an organisation, of few clients, some of it expired.
func (s *sharing) bundle() (b offered) {
	i := s.random.IntN(3)
	var proposals []*wire.Proposal
	for range 1 + s.random.IntN(8) {
		until := uint64(1000)
		if s.random.IntN(8) == 0 {
			until = 0
		}
		s.nonce++
		p := s.consortium.Proposal(i, s.nonce, until)
		p.Client.Role = fmt.Sprintf("role%d", s.random.IntN(3))
		id := wire.TxIDOf(wire.Encode(p))
		s.clients[id] = fmt.Sprintf("o%d/%s", i, p.Client.Role)
		b.clients, b.ids = append(b.clients, s.clients[id]), append(b.ids, id)
		proposals = append(proposals, p)
	}
	b.tx = opened(s.T, s.registry, s.consortium.Bundle(i, proposals...))
	return b
}

// within reports whether a count keeps to a limit.
func within(count, most int) bool { return most == 0 || count <= most }

// apply orders bundles and certifies them, and checks what no block may exceed.
func (s *sharing) apply(bundles []offered) error {
	s.Helper()
	b := order.Block{Height: s.state.Height() + 1, TimeMicro: s.state.Height(), Hash: wire.Hash{byte(s.state.Height())}}
	if p := s.state.Pending(); p != nil {
		var votes []*wire.ExtendedVote
		for i := range 3 {
			votes = append(votes, s.consortium.Effects(i, s.state.Height(), p.Key(), wire.Hash{1}))
		}
		c := s.state.Certificate(votes, func(wire.Key) (wire.Hash, bool) { return wire.Hash{1}, true })
		b.Txs = append(b.Txs, opened(s.T, s.registry, wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: c}})))
	}
	for _, offered := range bundles {
		b.Txs = append(b.Txs, offered.tx)
	}
	next, result, err := s.state.Apply(b)
	if err != nil {
		return err
	}
	next.Settle()
	s.state = next
	for _, r := range result.Refused {
		if r.SQLState == "53400" {
			s.cut[r.ID] = true
		}
	}
	count := map[string]int{}
	if result.Ordered != nil {
		for _, id := range result.Ordered.IDs {
			count[s.clients[id]]++
			count[s.clients[id][:2]]++
		}
	}
	for name, n := range count {
		if !within(n, s.limitOf(name)) {
			s.Fatalf("a block accepts %d transactions of %s, its limit is %d", n, name, s.limitOf(name))
		}
	}
	return nil
}

// fits is the rule written down without regard to cost: a bundle behind others of its organisation
// may stand when it keeps to the limits together with all of them.
func (s *sharing) fits(before []offered, b offered) bool {
	held, more := map[string]int{}, counted(b)
	for _, earlier := range before {
		for name, n := range counted(earlier) {
			held[name] += n
		}
	}
	for name, n := range more {
		if held[name] > 0 && !within(held[name]+n, s.limitOf(name)) {
			return false
		}
	}
	return true
}

// counted are a bundle's transactions by client and by organisation.
func counted(b offered) map[string]int {
	count := map[string]int{}
	for _, client := range b.clients {
		count[client]++
		count[client[:2]]++
	}
	return count
}

// limitOf is that of a client or, where the name is no longer than an organisation's, of that.
func (s *sharing) limitOf(name string) int {
	if len(name) == 2 {
		return s.organisationMax
	}
	return s.clientMax
}

// small reports whether a bundle keeps to the limits by itself.
func (s *sharing) small(b offered) bool {
	for name, n := range counted(b) {
		if !within(n, s.limitOf(name)) {
			return false
		}
	}
	return true
}

// TestSharesOfABlock plays random mempools under random limits (A10). A block takes all that an
// honest proposer takes. Every bundle comes into some block. No block accepts more of one client or
// organisation than its limit. Only a bundle that is itself too large is cut.
func TestSharesOfABlock(t *testing.T) {
	random := seeded.Random(t)
	cut, waited := 0, 0
	for range 150 {
		s := newSharing(t, random)
		var mempool []offered
		small := map[wire.TxID]bool{}
		for range 1 + random.IntN(12) {
			b := s.bundle()
			mempool = append(mempool, b)
			for _, id := range b.ids {
				small[id] = s.small(b)
			}
		}
		waited += s.drain(mempool)
		for id := range s.cut {
			if cut++; small[id] {
				t.Fatalf("limits %d and %d: a transaction of %s is cut from a bundle that keeps to them", s.clientMax, s.organisationMax, s.clients[id])
			}
		}
	}
	if cut == 0 || waited == 0 {
		t.Errorf("%d transactions cut, %d times a bundle waited: the test tries nothing", cut, waited)
	}
}

// drain orders all bundles as proposers would, and counts how often one had to wait.
func (s *sharing) drain(mempool []offered) (waited int) {
	s.Helper()
	for blocks := 0; len(mempool) > 0; blocks++ {
		if blocks > 12 {
			s.Fatalf("%d bundles are left after %d blocks", len(mempool), blocks)
		}
		shares := s.registry.Shares()
		var taken, left []offered
		for _, b := range mempool {
			fits, err := s.fits(taken, b), shares.Take(b.tx.Bundle())
			switch {
			case (err == nil) != fits:
				s.Fatalf("limits %d and %d: a bundle is taken: %v, want %t", s.clientMax, s.organisationMax, err, fits)
			case fits:
				taken = append(taken, b)
			default:
				left = append(left, b)
			}
		}
		if len(left) > 0 {
			waited++
			if err := s.apply(append(slices.Clone(taken), left[0])); err == nil {
				s.Fatalf("limits %d and %d: a further bundle is ordered", s.clientMax, s.organisationMax)
			}
		}
		if err := s.apply(taken); err != nil {
			s.Fatalf("what a proposer takes is refused: %v", err)
		}
		mempool = left
	}
	return waited
}

// Keys are clients of their own: each has its share, whatever role they are registered for.
func TestAKeyHasAShareOfItsOwn(t *testing.T) {
	c := ordertest.New(1, 0)
	c.Genesis.Parameters.BlockClientMax = 1
	registry := c.Registry(t)
	block := order.Block{Height: 1}
	for n := range byte(2) {
		raw := c.Client(0, &wire.ClientChange{Sequence: uint64(n) + 1, Key: clientKey(n).Public().(ed25519.PublicKey), Role: "clerk"})
		block.Txs = append(block.Txs, opened(t, registry, raw))
	}
	b := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0"}
	for n := range uint64(4) { // two of each key
		signed := wire.SignProposal(clientKey(byte(n%2)), c.Proposal(0, n, 100))
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: signed})
	}
	block.Txs = append(block.Txs, opened(t, registry, c.SignBundle(0, b)))
	_, result, err := registry.Genesis(1).Apply(block)
	if err != nil || len(result.Ordered.IDs) != 2 || len(result.Refused) != 2 {
		t.Errorf("%+v, %v: want one transaction of each key", result, err)
	}
}
