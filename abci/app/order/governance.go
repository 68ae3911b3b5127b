package order

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/chainify-db/chainify/abci/wire"
)

// Governance is how the changes of the registry stand. Another change may withdraw one that waits,
// until enforce announces it. Both use up their sequence, so that approvals given once never count
// again.
//
// Invariant A5: a ledger block is ordered, voted on and certified under one registry. A change
// comes into force only while no ledger block is pending. From when its time has come until then
// the order takes no bundle.
type Governance struct {
	// Changes accepted so far; the sequence of the next one is one more.
	Changes uint64 `json:"changes"`
	// Hash is that of the last accepted change; zeros before the first.
	Hash wire.Hash `json:"hash"`
	// Waiting is the accepted change that is not in force yet; nil: none.
	Waiting []byte `json:"waiting,omitempty"`
	// Announced is the height at which CometBFT learnt of the validators to be; 0: not yet. They
	// vote from the second height after.
	Announced int64 `json:"announced,omitempty"`
}

// validatorDelay is how many heights after an order block CometBFT uses the validators it
// announces.
const validatorDelay = 2

// effectiveHeightsMax bounds how far ahead a change may lie: while one waits there is no other.
const effectiveHeightsMax = 100_000

// change is an opened governance change: its approvals are checked, and what it makes is a
// consortium.
type change struct {
	raw       []byte
	effective int64     // not in force before
	withdraws []byte    // the hash of the change that it withdraws; nil: none
	few       bool      // fewer approve it than other changes: it withdraws a version of the protocol
	next      *Registry // of a withdrawal the registry as it is
}

// openGovernance checks a change against the registry it changes: as many organisations approve it
// as have to, and it leaves a consortium. It verifies the approvals before it decodes the change.
// Before both it refuses a change with a used sequence: anybody who heard that change may send it
// again.
func (r *Registry) openGovernance(s *wire.SignedGovernanceChange) (Tx, error) {
	head, next := wire.PeekGovernanceChange(s.Change), r.record.Changes+1
	if head.ChainID != r.record.ChainID {
		return Tx{}, refuse(CodeMalformed, "governance change.chain_id: %q, want %q", head.ChainID, r.record.ChainID)
	}
	if head.Sequence != next && head.Sequence != next+1 { // a withdrawal follows the change that waits
		return Tx{}, refuse(CodeNothingLive, "governance change.sequence: %d, want %d, or %d to withdraw", head.Sequence, next, next+1)
	}
	for _, a := range s.Approvals {
		if !r.votes(a.Organisation) {
			return Tx{}, refuse(CodeUnknown, "governance.approvals: organisation %q does not vote on effects", a.Organisation)
		}
		if !wire.VerifyApproval(r.record.Organisations[r.byName[a.Organisation]].GatewayKey, r.record.ChainID, s.Change, a) {
			return Tx{}, refuse(CodeSignature, "governance.approvals: not by the gateway of %q", a.Organisation)
		}
	}
	n := len(s.Approvals)
	few := n < r.approvals
	tooFew := refuse(CodeTooFewApprove, "governance.approvals: %d of %d organisations approve, %d are needed", n, len(r.voters), r.approvals)
	if few && (head.Sequence == next || n < r.versionApprovals().ToWithdraw()) {
		return Tx{}, tooFew
	}
	decoded, err := wire.DecodeGovernanceChange(s.Change)
	if few && (err != nil || decoded.Withdraws() == nil) {
		return Tx{}, tooFew
	}
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	if decoded.ProtocolVersion() != 0 && n < r.consent {
		return Tx{}, refuse(CodeTooFewApprove, "governance.approvals: %d of %d organisations approve, a version of the protocol needs the %d that agree on a block", n, len(r.voters), r.consent)
	}
	if decoded.Withdraws() != nil {
		next++
	}
	if decoded.Sequence != next {
		return Tx{}, refuse(CodeNothingLive, "governance change.sequence: %d, want %d", decoded.Sequence, next)
	}
	changed, err := r.After(decoded)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, fmt.Errorf("governance change.%w", err)}
	}
	return Tx{change: &change{raw: s.Change, effective: int64(decoded.EffectiveHeight), withdraws: decoded.Withdraws(), few: few, next: changed}}, nil
}

// versionApprovals are those that a version of the protocol takes.
func (r *Registry) versionApprovals() wire.VersionApprovals {
	return wire.VersionApprovals{Voters: len(r.voters), Approvals: r.approvals, Consent: r.consent}
}

// MayHold says why the next order block may not hold a transaction, or nil. That is a change of the
// registry that too few approve: fewer than approve other changes may withdraw a version of the
// protocol that waits, and nothing else. A stale change may stand in a block.
//
// Programs that know no versions refuse a block with such a withdrawal. They accept no version
// either, so none waits on their chain.
func (s *State) MayHold(tx Tx) error {
	c := tx.change
	if c == nil || !c.few {
		return nil
	}
	if version, _ := s.Upgrade(); version != 0 && bytes.Equal(c.withdraws, s.governance.Hash[:]) {
		return nil
	}
	return refuse(CodeTooFewApprove, "governance.approvals: %d are needed to withdraw anything but a version of the protocol that waits", s.registry.approvals)
}

// After is the registry that a change makes of this one, but for the block it begins with.
func (r *Registry) After(c *wire.GovernanceChange) (*Registry, error) {
	record, err := r.record.change(c.Actions)
	if err != nil {
		return nil, err
	}
	record.Changes = c.Sequence
	return record.Open()
}

// CheckChange says why no approvals can make this change of the registry; nil: they can.
func (r *Registry) CheckChange(c *wire.GovernanceChange) error {
	_, err := r.After(c)
	return err
}

// accepts says why a change cannot be accepted at a height, or nil.
func (g Governance) accepts(c *change, height int64) error {
	switch earliest := height + validatorDelay; {
	case c.withdraws != nil:
		return g.acceptsWithdrawal(c.withdraws)
	case g.Waiting != nil:
		return fmt.Errorf("governance change %d waits to come into force", g.Changes)
	case c.effective != 0 && c.effective < earliest:
		return fmt.Errorf("governance change in force from height %d, the earliest is %d", c.effective, earliest)
	case c.effective > height+effectiveHeightsMax:
		return fmt.Errorf("governance change in force from height %d, more than %d ahead", c.effective, effectiveHeightsMax)
	}
	return nil
}

// acceptsWithdrawal says why the change with this hash cannot be withdrawn, or nil. Once CometBFT
// knows its validators, they will vote.
func (g Governance) acceptsWithdrawal(hash []byte) error {
	switch {
	case g.Waiting == nil:
		return errors.New("no governance change waits")
	case !bytes.Equal(hash, g.Hash[:]):
		return fmt.Errorf("governance change %d, which waits, is another one", g.Changes)
	case g.Announced != 0:
		return fmt.Errorf("governance change %d comes into force", g.Changes)
	}
	return nil
}

// takeChange takes the change that may follow the certificate, and returns the index of the first
// bundle. One that is stale, as when two were proposed, has result code 1 and changes nothing: only
// a block takes it out of the mempool.
func (s *State) takeChange(b Block, first int, result *Result) int {
	if first >= len(b.Txs) || b.Txs[first].change == nil {
		return first
	}
	c := b.Txs[first].change
	if s.governance.accepts(c, b.Height) != nil {
		result.Codes[first] = CodeNothingLive
		return first + 1
	}
	s.governance = Governance{Changes: s.governance.Changes + 1, Hash: sha256.Sum256(c.raw)}
	if c.withdraws != nil { // in force at once: but for its number of changes, the registry stays
		s.registry, s.next, s.effective = c.next, nil, 0
	} else {
		s.governance.Waiting, s.next, s.effective = c.raw, c.next, c.effective
	}
	return first + 1
}

// settles tells that a change comes into force as soon as nothing is pending: the order block of
// this height holds no bundles.
func (s *State) settles(height int64) bool {
	return s.next != nil && height+validatorDelay >= s.effective
}

// enforce ends a height. It announces the validators of a change whose time has come when nothing
// is pending. Two heights later it has the change in force, for the order blocks that follow.
func (s *State) enforce(result *Result) {
	switch {
	case s.next == nil:
	case s.governance.Announced == 0 && s.pending == nil && s.settles(s.height):
		s.governance.Announced = s.height
		result.Validators = s.registry.updates(s.next)
	case s.governance.Announced != 0 && s.governance.Announced+validatorDelay == s.height+1:
		s.registry = s.next.from(s.ordered + 1)
		s.clients = s.clients.staying(s.registry)
		s.governance.Waiting, s.governance.Announced = nil, 0
		s.next, s.effective = nil, 0
	}
}

// from is the registry with the ledger block it begins with.
func (r *Registry) from(block uint64) *Registry {
	begun := *r
	begun.record.FromBlock = block
	return &begun
}

// restoreChange opens the change that waits again.
func (s *State) restoreChange() error {
	if s.governance.Waiting == nil {
		return nil
	}
	c, err := wire.DecodeGovernanceChange(s.governance.Waiting)
	if err != nil {
		return err
	}
	s.next, err = s.registry.After(c)
	s.effective = int64(c.EffectiveHeight)
	return err
}
