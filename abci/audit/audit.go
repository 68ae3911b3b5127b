// Package audit checks receipts and digests (spec/receipt.md) against the genesis alone, without
// node, database or network. It is pure: its result is a function of the receipt and of the keys
// that may sign.
package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Authority is whose votes count, and how many are needed. It comes from the genesis and the
// governance record (Founding), never from what is checked.
type Authority struct {
	ChainID string
	// FromBlock is the first block it is for; FromHeight what the change that made it says: it is
	// in force in no order block before.
	FromBlock, FromHeight uint64
	// Consent is c: how many organisations have to agree about a block.
	Consent    int
	Validators []Validator
	// GatewayKeys are those of all organisations, by name.
	GatewayKeys map[string][]byte
}

// Validator is a consensus key and the organisation it votes for.
type Validator struct {
	Organisation string
	Key          []byte // Ed25519
}

// Finding is one thing wrong: which field of the receipt, and how.
type Finding struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func (f Finding) String() string { return f.Field + ": " + f.Detail }

// findings collects what is wrong, in the order in which it is looked at.
type findings []Finding

func (f *findings) add(field, format string, args ...any) {
	*f = append(*f, Finding{field, fmt.Sprintf(format, args...)})
}

// Check returns everything wrong with a receipt or digest; nothing when it holds. Cost: a signature
// verification per vote and a hash for each level of a proof.
func (r *Receipt) Check(a Authority) []Finding {
	var out findings
	if r.ChainID != a.ChainID {
		out.add("chain_id", "it is of chain %q, the genesis is of %q", r.ChainID, a.ChainID)
	}
	header, err := r.Block.header(r.ChainID)
	if err != nil {
		out.add("block", "%v", err)
		return out
	}
	hash := header.Hash()
	if hash != wire.Hash(r.Hash) {
		out.add("hash", "the block's fields give %x, it says %x", hash, r.Hash)
	}
	if r.Block.OrderHeight < a.FromHeight {
		out.add("block.order_height", "%d, but who may sign from block %d on may do so from order height %d on", r.Block.OrderHeight, a.FromBlock, a.FromHeight)
	}
	r.checkCertificate(hash, a, &out)
	r.checkTransaction(header, &out)
	r.checkChange(header, &out)
	return out
}

// checkCertificate counts organisations. Every vote has to count: one that does not was put there
// for show.
func (r *Receipt) checkCertificate(hash wire.Hash, a Authority, out *findings) {
	var order *wire.Hash
	agreeing := map[string]bool{}
	for i, v := range r.Certificate.Votes {
		named, err := r.checkVote(v, hash, a, order, agreeing)
		if err != nil {
			out.add(fmt.Sprintf("certificate.votes[%d]", i), "vote of %s: %v", v.Organisation, err)
			continue
		}
		agreeing[v.Organisation], order = true, &named
	}
	if want := max(a.Consent, 1); len(agreeing) < want {
		out.add("certificate", "%d organisations agree, want %d", len(agreeing), want)
	}
}

// checkVote returns the order block that a vote which counts names.
func (r *Receipt) checkVote(v Vote, hash wire.Hash, a Authority, order *wire.Hash, agreeing map[string]bool) (wire.Hash, error) {
	at := slices.IndexFunc(a.Validators, func(k Validator) bool {
		address := sha256.Sum256(k.Key)
		return string(address[:addressBytes]) == string(v.Validator)
	})
	if at < 0 {
		return wire.Hash{}, fmt.Errorf("validator %x is none of those for this block; keys that came later are in the governance record", []byte(v.Validator))
	}
	validator := a.Validators[at]
	if validator.Organisation != v.Organisation {
		return wire.Hash{}, fmt.Errorf("the validator belongs to %s", validator.Organisation)
	}
	said, err := wire.DecodeEffectVote(v.Extension)
	switch {
	case err != nil:
		return wire.Hash{}, err
	case said.Number != r.Block.Number:
		return wire.Hash{}, fmt.Errorf("it is for block %d", said.Number)
	case said.Round != r.Certificate.EffectRound:
		return wire.Hash{}, fmt.Errorf("it is of effect round %d, the certificate of %d", said.Round, r.Certificate.EffectRound)
	case order != nil && said.OrderHash != *order:
		return wire.Hash{}, fmt.Errorf("it names another order block than the votes before")
	case !said.IsFor(v.Organisation, hash):
		return wire.Hash{}, fmt.Errorf("it is not for the effects of this block")
	case !wire.VerifyVote(validator.Key, wire.ExtensionSignBytes(r.ChainID, v.Height, v.Round, v.Extension), v.Signature):
		return wire.Hash{}, fmt.Errorf("the signature does not fit")
	case agreeing[v.Organisation]:
		return wire.Hash{}, fmt.Errorf("the organisation has voted already")
	}
	return said.OrderHash, nil
}

func (r *Receipt) checkTransaction(header *wire.Header, out *findings) {
	t := r.Transaction
	if t == nil {
		return
	}
	tx, err := wire.DecodeChainedTx(t.Body)
	if err != nil {
		out.add("transaction.body", "%v", err)
		return
	}
	if tx.Proposal.ChainId != r.ChainID {
		out.add("transaction.body", "it is a transaction of chain %q", tx.Proposal.ChainId)
	}
	if tx.ID != wire.TxID(t.ID) {
		out.add("transaction.id", "the body has id %x", tx.ID)
	}
	if t.Index >= header.Outcomes.Len() {
		out.add("transaction.index", "%d, the block has %d transactions", t.Index, header.Outcomes.Len())
		return
	}
	if certified := header.Outcomes.Succeeded(t.Index); certified != t.Outcome {
		out.add("transaction.outcome", "%t, the block says %t", t.Outcome, certified)
	}
	leaf := wire.Hash(sha256.Sum256(append([]byte{0}, tx.ID[:]...)))
	if !wire.VerifyInclusion(leaf, uint64(t.Index), uint64(header.Outcomes.Len()), hashes(t.Path), header.TxRoot) {
		out.add("transaction", "index and path do not lead from its id to block.tx_root")
	}
}

func (r *Receipt) checkChange(header *wire.Header, out *findings) {
	c, t := r.Change, r.Transaction
	switch {
	case c == nil:
		return
	case t == nil:
		out.add("change", "there is no transaction beside it")
		return
	case t.Index < header.Outcomes.Len() && !header.Outcomes.Succeeded(t.Index):
		out.add("change", "its transaction failed and changed nothing")
	}
	if c.Leaf >= header.EffectsCount {
		out.add("change.leaf", "%d, the block has %d changes", c.Leaf, header.EffectsCount)
		return
	}
	if !wire.VerifyInclusion(c.leafHash(t.Index), uint64(c.Leaf), uint64(header.EffectsCount), hashes(c.Path), header.EffectsRoot) {
		out.add("change", "table, key, row, serial, op, the transaction's index, leaf and path do not lead to block.effects_root")
	}
}

// leafHash is the leaf of the change among the block's effects (spec/formats.md).
func (c *Change) leafHash(transaction uint32) wire.Hash {
	row := wire.RowHash(c.Table, c.Row)
	raw := prefixed([]byte{0}, []byte(c.Table))
	raw = prefixed(raw, c.Key)
	raw = binary.BigEndian.AppendUint32(raw, c.Serial)
	raw = binary.BigEndian.AppendUint32(raw, transaction)
	raw = append(raw, c.Op...)
	return sha256.Sum256(append(raw, row[:]...))
}

func prefixed(to, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(data))), data...)
}

func hashes(path []hash) []wire.Hash {
	out := make([]wire.Hash, len(path))
	for i, h := range path {
		out[i] = wire.Hash(h)
	}
	return out
}

// Contradictions returns the contradictions between receipts or digests of one chain, each of which
// holds. They are two blocks of one number, or a block that does not follow the one before it. A
// finding's field is the number of the block.
func Contradictions(list []*Receipt) []Finding {
	byNumber := slices.Clone(list)
	slices.SortStableFunc(byNumber, func(a, b *Receipt) int { return cmp.Compare(a.Block.Number, b.Block.Number) })
	var out findings
	for i := 1; i < len(byNumber); i++ {
		before, r := byNumber[i-1], byNumber[i]
		field := fmt.Sprintf("block %d", r.Block.Number)
		switch {
		case r.Block.Number == before.Block.Number && r.Hash != before.Hash:
			out.add(field, "there are two: %x and %x", before.Hash, r.Hash)
		case r.Block.Number == before.Block.Number+1 && r.Block.Previous != before.Hash:
			out.add(field, "it follows %x, not the block before it, %x", r.Block.Previous, before.Hash)
		}
	}
	return out
}
