// Package wire holds the messages that organisations and processes exchange: their one spelling,
// their bounds, their hashes. All packages of the module import it, and it imports none of them.
//
// Formats: spec/formats.md; messages: spec/proto.
package wire

import (
	"encoding/json"
	"time"
)

// Hash is a SHA-256 digest.
type Hash [32]byte

// TxID identifies a transaction: H("chainify/tx/1" ‖ proposal bytes).
type TxID = Hash

// OrderedBlock is one ledger block as the order gives it: what to execute, never what came of it.
type OrderedBlock struct {
	Number    uint64
	Height    int64 // of the order block that holds its transactions
	TimeMicro int64 // block time, microseconds since the Unix epoch
	OrderHash Hash  // CometBFT's hash of that order block
	// Organisations is n, how many vote on the effects of this block, and Consent c, how many of
	// them have to agree.
	Organisations int
	Consent       int
	// Round is the effect round to vote in; Quarantined and QuarantineAll hold for this round.
	Round         uint32
	Protocol      Protocol // under which it is voted on
	Quarantined   []uint32 // ascending transaction indexes
	QuarantineAll bool
	// Suspects are, from round 1 on, the transactions in question; nil: all of them.
	Suspects []uint32
	// Budget is agreed, and each organisation measures it by its own clock. It is no part of what
	// is hashed.
	Budget Budget
	// Submitters says whose the transactions are, in their order; nil where nothing is to be
	// measured.
	Submitters []Submitter
	IDs        []TxID
	// Transactions is u32 count ‖ lp(ChainedTx bytes)…, as chainify_node.execute_block takes it.
	Transactions []byte
}

// Budget is how long all transactions of a block together may run before an organisation votes that
// one does not end: those of kind DEPLOY, and all others. Zeros: as long as they take.
type Budget struct {
	Statements time.Duration
	Deploys    time.Duration
}

// Submitter is a client with so many transactions in a row.
type Submitter struct {
	Organisation string
	Client       string // its name among those of all organisations
	Transactions uint32
}

// Key names one execution of a ledger block: another order block or another round is another
// execution.
type Key struct {
	Number    uint64
	OrderHash Hash
	Round     uint32
	Protocol  Protocol // under which it is voted on
}

// Key returns the execution this block asks for.
func (b *OrderedBlock) Key() Key { return Key{b.Number, b.OrderHash, b.Round, b.Protocol} }

// InQuestion are the transactions that the parts of a vote are about.
func (b *OrderedBlock) InQuestion() Suspects {
	return Suspects{List: b.Suspects, Count: uint32(len(b.IDs))}
}

// Certificate is the effect certificate of a ledger block: the votes on the chain that, together,
// certified it.
type Certificate struct {
	Number uint64
	Round  uint32
	Hash   Hash // LedgerBlockHash
	Votes  []CertifiedVote
}

// CertifiedVote is one organisation's vote in a certificate, with what checking its signature
// needs.
type CertifiedVote struct {
	Organisation string
	Validator    []byte // CometBFT address
	Height       int64
	Round        int32 // CometBFT's round
	Extension    []byte
	Signature    []byte
}

// VoteJSON is a CertifiedVote in JSON, its bytes in hexadecimal.
type VoteJSON struct {
	Organisation string   `json:"organisation"`
	Validator    HexBytes `json:"validator"`
	Height       int64    `json:"height"`
	Round        int32    `json:"round"`
	Extension    HexBytes `json:"extension"`
	Signature    HexBytes `json:"signature"`
}

// VotesJSON spells the votes of a certificate for JSON.
func VotesJSON(votes []CertifiedVote) []VoteJSON {
	out := make([]VoteJSON, len(votes))
	for i, v := range votes {
		out[i] = VoteJSON{v.Organisation, v.Validator, v.Height, v.Round, v.Extension, v.Signature}
	}
	return out
}

// VotesFromJSON reads what VotesJSON spelled.
func VotesFromJSON(text []byte) ([]CertifiedVote, error) {
	var spelled []VoteJSON
	if err := json.Unmarshal(text, &spelled); err != nil {
		return nil, err
	}
	votes := make([]CertifiedVote, len(spelled))
	for i, v := range spelled {
		votes[i] = CertifiedVote{v.Organisation, v.Validator, v.Height, v.Round, v.Extension, v.Signature}
	}
	return votes, nil
}

// TxResult is the outcome of one transaction in a committed ledger block, or the order's refusal of
// it.
type TxResult struct {
	ID        TxID
	Block     uint64 // 0: refused by the order, never executed
	Index     uint32
	Succeeded bool
	Rows      int64
	SQLState  string
	Message   string
}

// TimeOf converts a block time to the microseconds that are hashed, rounding down.
func TimeOf(t time.Time) int64 { return t.UnixMicro() }
