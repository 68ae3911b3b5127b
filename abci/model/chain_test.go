package model

import (
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// chain is the order up to one block. It does not change, so that worlds share it; it is made once
// for each history.
type chain struct {
	of       *chains
	before   *chain
	length   int
	state    *order.State
	accepted []order.Accepted
	body     *order.Body // of the last ledger block
	result   *order.Result
	decision wire.Decision
	next     map[string]*chain
	live     map[*wire.ExtendedVote]*liveVote
}

// liveVote is what a node at this point takes a signed vote for; nil: for nothing.
type liveVote struct {
	organisation string
	vote         wire.EffectVote
}

// chains are all orders of one consortium that were met, with the signatures made for them.
type chains struct {
	consortium *ordertest.Consortium
	registry   *order.Registry
	root       *chain
	signed     map[string]*wire.ExtendedVote
	saw        map[wire.TxID]wire.Hash // the row that an EFFECTS transaction saw
	states     int
}

func newChains(consortium *ordertest.Consortium, registry *order.Registry) *chains {
	c := &chains{consortium: consortium, registry: registry, signed: map[string]*wire.ExtendedVote{}, saw: map[wire.TxID]wire.Hash{}}
	c.root = &chain{of: c, state: registry.Genesis(1), next: map[string]*chain{}, live: map[*wire.ExtendedVote]*liveVote{}}
	return c
}

func (c *chain) back(n int) *chain {
	for range n {
		c = c.before
	}
	return c
}

// pending is the block voted on after this order block, nil when there is none.
func (c *chain) pending() *wire.OrderedBlock {
	p := c.state.Pending()
	if p == nil {
		return nil
	}
	return p.Block(c.body)
}

// stored is ledger block k in its last round, and its certificate, as the stores of a node at this
// point hold them.
func (c *chain) stored(k uint64) (b *wire.OrderedBlock, certificate *wire.Certificate) {
	for at := c; at.before != nil && (b == nil || certificate == nil); at = at.before {
		if o := at.decision.Ordered; b == nil && o != nil && o.Number == k {
			b = o
		}
		if t := at.decision.Certificate; certificate == nil && t != nil && t.Number == k {
			certificate = t
		}
	}
	return b, certificate
}

// sign is a vote as a proposer sees it: from a precommit of the last height.
func (c *chains) sign(i int, at *chain, v wire.EffectVote) *wire.ExtendedVote {
	key := fmt.Sprintf("%d %d %x", i, at.length, v.Encode())
	if c.signed[key] == nil {
		c.signed[key] = c.consortium.Sign(i, at.state.Height(), v)
	}
	return c.signed[key]
}

// forged is organisation i's vote of sign under the address of another, as CometBFT shows it before
// it has looked whose it is.
func (c *chains) forged(as, i int, at *chain, v wire.EffectVote) *wire.ExtendedVote {
	key := fmt.Sprintf("%d as %d %d %x", i, as, at.length, v.Encode())
	if c.signed[key] == nil {
		signed := c.consortium.Sign(i, at.state.Height(), v)
		signed.ValidatorAddress = c.consortium.Address(as)
		c.signed[key] = signed
	}
	return c.signed[key]
}

// counts is order.State.LiveVote, asked once for each vote.
func (c *chain) counts(signed *wire.ExtendedVote) *liveVote {
	known, asked := c.live[signed]
	if !asked {
		if organisation, vote, err := c.state.LiveVote(signed); err == nil {
			known = &liveVote{organisation, vote}
		}
		c.live[signed] = known
	}
	return known
}

// extend makes the next order block as PrepareProposal does, and applies it.
func (c *chain) extend(votes []*wire.ExtendedVote, known func(wire.Key) (wire.Hash, bool), nowMS int64, asks bool) *chain {
	var raw [][]byte
	if known != nil {
		if certificate := c.state.Certificate(votes, known); certificate != nil {
			raw = append(raw, wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: certificate}}))
		}
	}
	key := fmt.Sprintf("%d %v %x", nowMS, asks, raw)
	if made := c.next[key]; made != nil {
		return made
	}
	block := order.Block{Height: c.state.Height() + 1, TimeMicro: nowMS * 1000, Hash: wire.Hash{byte(c.length + 1)}}
	for _, r := range raw {
		block.Txs = append(block.Txs, c.open(r))
	}
	next, result, err := c.state.Apply(block)
	if err == nil && next.Pending() == nil && asks {
		first := uint64(10 * c.length)
		bundle := c.of.consortium.Bundle(0, c.of.consortium.Proposal(0, first, 1000), c.of.effects(first+1))
		block.Txs = append(block.Txs, c.open(bundle))
		next, result, err = c.state.Apply(block)
	}
	if err != nil {
		panic(fmt.Sprintf("a proposal made by the rules is refused: %v", err))
	}
	made := &chain{of: c.of, before: c, length: c.length + 1, result: result, body: c.body, next: map[string]*chain{}, live: map[*wire.ExtendedVote]*liveVote{}}
	made.accepted = append(c.accepted[:len(c.accepted):len(c.accepted)], next.Added()...)
	made.state = c.of.copied(next, made.accepted)
	if result.Ordered != nil {
		made.body = result.Ordered
	}
	made.decision = wire.Decision{Height: block.Height, Certificate: result.Certified}
	if result.Ordered != nil || result.Advanced {
		made.decision.Ordered = made.pending()
	}
	c.next[key] = made
	c.of.states++
	return made
}

// effects is an EFFECTS transaction that saw one row as it is where nobody tampered.
func (c *chains) effects(nonce uint64) *wire.Proposal {
	p := c.consortium.Proposal(0, nonce, 1000)
	key := []byte{0, 1, 0, 1, 1, 0, 0, 0, 1, 1} // a boolean
	set := &wire.WriteSet{Isolation: wire.RepeatableRead, Tables: []string{"public.t"}, Seen: []wire.RowSeen{{Key: key, Present: true, Hash: row(false)}}}
	p.Kind, p.Sql, p.Effects = wire.Kind_KIND_EFFECTS, "", set.Encode()
	c.saw[wire.TxIDOf(wire.Encode(p))] = set.Seen[0].Hash
	return p
}

// copied gives a state a replay window of its own: worlds that branch off share the state before.
func (c *chains) copied(s *order.State, accepted []order.Accepted) *order.State {
	record, err := s.Record()
	if err != nil {
		panic(err)
	}
	out, err := order.Restore(record, s.Registries(), s.Clients(), slices.Values(accepted))
	if err != nil {
		panic(err)
	}
	return out
}

func (c *chain) open(raw []byte) order.Tx {
	tx, err := c.of.registry.Open(raw)
	if err != nil {
		panic(err)
	}
	return tx
}
