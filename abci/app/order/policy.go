package order

import (
	"crypto/sha256"
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// Policy is the consent policy as the order stands: how many of n organisations have to report the same effects.
//
// Invariant A5: c of a ledger block is that in force at the height of its order block, and never changes for it.
type Policy struct {
	Consent int `json:"consent"`
	// Next waits for its height; 0: nothing does.
	Next       int   `json:"next"`
	NextHeight int64 `json:"next_height"`
	// Changes accepted so far; the sequence of the next one is one more.
	Changes uint64 `json:"changes"`
	// Hash is that of the last accepted change; zeros before the first.
	Hash wire.Hash `json:"hash"`
}

// policyChange is an opened change: its approvals are checked.
type policyChange struct {
	change *wire.PolicyChange
	hash   wire.Hash
}

// openPolicy checks a change against the registry, which a change does not change: more than two thirds of the
// organisations that vote on effects approve it, and c can be reached by them.
func (r *Registry) openPolicy(s *wire.SignedPolicyChange, verify bool) (Tx, error) {
	change, err := wire.DecodePolicyChange(s.Change)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	n := len(r.voters)
	if change.ChainId != r.chainID || uint64(change.Consent) > uint64(n) {
		return Tx{}, refuse(CodeMalformed, "policy change for chain %q with consent %d, want %q and 1 to %d", change.ChainId, change.Consent, r.chainID, n)
	}
	for _, a := range s.Approvals {
		if !r.votes(a.Organisation) {
			return Tx{}, refuse(CodeUnknown, "policy.approvals: organisation %q does not vote on effects", a.Organisation)
		}
		if verify && !wire.VerifyApproval(r.organisations[r.byName[a.Organisation]].gateway, r.chainID, s.Change, a) {
			return Tx{}, refuse(CodeSignature, "policy.approvals: not by the gateway of %q", a.Organisation)
		}
	}
	if approvals := len(s.Approvals); 3*approvals <= 2*n {
		return Tx{}, refuse(CodeTooFewApprove, "policy.approvals: %d of %d organisations approve, more than two thirds are needed", approvals, n)
	}
	return Tx{policy: &policyChange{change: change, hash: sha256.Sum256(s.Change)}}, nil
}

// enforce begins a height: a change whose height has come is in force.
func (p Policy) enforce(height int64) Policy {
	if p.Next != 0 && p.NextHeight <= height {
		p.Consent, p.Next, p.NextHeight = p.Next, 0, 0
	}
	return p
}

// accepts says why a change cannot be accepted at a height, or nil. One that waits for its height is replaced by the next.
func (p Policy) accepts(c *policyChange, height int64) error {
	if c.change.Sequence != p.Changes+1 {
		return fmt.Errorf("policy change %d, want %d", c.change.Sequence, p.Changes+1)
	}
	if int64(c.change.EffectiveHeight) <= height {
		return fmt.Errorf("policy change in force from height %d, ordered at %d", c.change.EffectiveHeight, height)
	}
	return nil
}

func (p Policy) change(c *policyChange) Policy {
	p.Next, p.NextHeight = int(c.change.Consent), int64(c.change.EffectiveHeight)
	p.Changes, p.Hash = p.Changes+1, c.hash
	return p
}

// changePolicy takes the policy change that may follow the certificate, and returns the index of the first bundle. One
// that is stale, as when two were proposed, has result code 1 and changes nothing: only a block takes it out of the mempool.
func (s *State) changePolicy(b Block, first int, result *Result) int {
	if first >= len(b.Txs) || b.Txs[first].policy == nil {
		return first
	}
	if change := b.Txs[first].policy; s.policy.accepts(change, b.Height) == nil {
		s.policy = s.policy.change(change)
	} else {
		result.Codes[first] = CodeNothingLive
	}
	return first + 1
}

// Consents returns c of all ledger blocks so far, by the first block each holds for.
func (s *State) Consents() []wire.ConsentFrom { return s.consents }

// noteConsent remembers the c of the ledger block just ordered, when it is another than that of the block before.
func (s *State) noteConsent() {
	if n := len(s.consents); n == 0 || s.consents[n-1].Consent != s.policy.Consent {
		s.consents = append(s.consents[:n:n], wire.ConsentFrom{Block: s.ordered, Consent: s.policy.Consent})
	}
}
