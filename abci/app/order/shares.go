package order

import (
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// Shares bounds what one organisation and one client have in an order block, by the numbers that
// governance sets (spec/effect-consensus.md, "Shares of a block"). It is for one order block, and
// not safe for concurrent use.
//
// Invariant A10: no order block accepts more of a client or of an organisation. Proposers and
// validators ask the same question of the same registry, so no honest proposal is refused for it.
type Shares struct {
	clientMax, organisationMax int            // 0: no limit beside the block's
	carried                    map[string]int // transactions of the bundles taken, by client and by organisation
	accepted                   map[string]int // those of them that the block accepted
	keys                       keysOfBlock
}

// Shares begins an order block under this registry.
func (r *Registry) Shares() *Shares {
	return &Shares{
		clientMax: r.record.Parameters.BlockClientMax, organisationMax: r.record.Parameters.BlockOrganisationMax,
		carried: map[string]int{}, accepted: map[string]int{},
		keys: newKeysOfBlock(r.record.Parameters.BlockKeysMax),
	}
}

func (s *Shares) limited() bool { return s.clientMax > 0 || s.organisationMax > 0 }

// Take takes a bundle into the block, or says why it may not stand behind those taken. An
// organisation's first bundle always may, so that every bundle gets into some block. One that is
// larger than a limit is cut, which is its gateway's fault: no proposer can have a smaller one cut.
// All transactions of a bundle count, also those that the block does not accept. Cost: one step for
// each of them, none where there are no limits.
func (s *Shares) Take(b *Bundle) error {
	added, err := s.keys.fits(b)
	if err == nil && s.limited() {
		err = s.takeTransactions(b)
	}
	if err == nil {
		s.keys.carry(added)
	}
	return err
}

// takeTransactions is Take where transactions are limited.
func (s *Shares) takeTransactions(b *Bundle) error {
	if n := len(b.transactions); s.exceeds(b.organisation, n, s.organisationMax) {
		return fmt.Errorf("a further bundle of organisation %q: %d and %d transactions, block_organisation_max is %d", b.organisation, s.carried[b.organisation], n, s.organisationMax)
	}
	more := map[string]int{}
	for i := range b.transactions {
		client := b.transactions[i].client
		if more[client]++; s.exceeds(client, more[client], s.clientMax) {
			return fmt.Errorf("a further bundle with transactions of client %q, which has %d already: block_client_max is %d", client, s.carried[client], s.clientMax)
		}
	}
	for client, n := range more {
		s.carried[client] += n
	}
	s.carried[b.organisation] += len(b.transactions) // no client has the name of an organisation
	return nil
}

// exceeds reports whether a client or organisation that has something in the block would have too
// much.
func (s *Shares) exceeds(name string, more, most int) bool {
	held := s.carried[name]
	return most > 0 && held > 0 && held+more > most
}

// cuts says of a transaction that its organisation or client has as many as it may have; live: it
// has not.
func (s *Shares) cuts(t transaction) liveness {
	switch {
	case s.organisationMax > 0 && s.accepted[organisationOf(t.client)] >= s.organisationMax:
		return overOrganisation
	case s.clientMax > 0 && s.accepted[t.client] >= s.clientMax:
		return overClient
	case s.keys.cuts(t):
		return overKeys
	default:
		return live
	}
}

// accept counts a transaction that the block remembers.
func (s *Shares) accept(t transaction) {
	if s.limited() {
		s.accepted[t.client]++
		s.accepted[organisationOf(t.client)]++
	}
	s.keys.accept(t)
}

// refusal tells the client of a cut transaction which limit it met.
func (s *Shares) refusal(t transaction, l liveness) string {
	if l == overKeys {
		return fmt.Sprintf("EFFECTS transactions of the order block name %d rows, block_keys_max is %d; submit a new one", len(s.keys.accepted), s.keys.max)
	}
	if l == overOrganisation {
		return fmt.Sprintf("order block has %d transactions of organisation %q, as many as block_organisation_max allows; submit a new one", s.organisationMax, organisationOf(t.client))
	}
	return fmt.Sprintf("order block has %d transactions of client %q, as many as block_client_max allows; submit a new one", s.clientMax, t.client)
}

// BlockShares gives the limits as a message; nil where there are none.
func (r *Registry) BlockShares() *wire.BlockShares {
	p := r.record.Parameters
	if p.BlockClientMax == 0 && p.BlockOrganisationMax == 0 && p.BlockKeysMax == 0 {
		return nil
	}
	return &wire.BlockShares{Client: uint32(p.BlockClientMax), Organisation: uint32(p.BlockOrganisationMax), Keys: uint32(p.BlockKeysMax)}
}
