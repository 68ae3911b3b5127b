package gateway

import (
	"encoding/hex"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// The JSON of openapi.yaml; the test compares field by field.

type submission struct {
	SQL        string          `json:"sql,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Parameters []jsonParameter `json:"parameters,omitempty"`
	Plan       *PlanWords      `json:"plan,omitempty"`
	WaitMS     int64           `json:"wait_ms,omitempty"`
}

type signedSubmission struct {
	Proposal  string `json:"proposal"`
	Signature string `json:"signature"`
	WaitMS    int64  `json:"wait_ms,omitempty"`
}

func (s *signedSubmission) proposal() (*wire.SignedProposal, error) {
	raw, err := hex.DecodeString(s.Proposal)
	if err != nil {
		return nil, malformed("proposal: not hexadecimal digits")
	}
	signature, err := hex.DecodeString(s.Signature)
	if err != nil {
		return nil, malformed("signature: not hexadecimal digits")
	}
	return &wire.SignedProposal{Proposal: raw, Signature: signature}, nil
}

type jsonParameter struct {
	Type  string  `json:"type,omitempty"`
	Value *string `json:"value"`
}

func (s *submission) statement() (*wire.Statement, error) {
	out := &wire.Statement{Sql: s.SQL}
	switch s.Kind {
	case "", "sql":
		out.Kind = wire.Kind_KIND_SQL
	case "deploy":
		out.Kind = wire.Kind_KIND_DEPLOY
	case "plan":
		out.Kind = wire.Kind_KIND_PLAN
	default:
		return nil, malformed("kind: %q is not \"sql\", \"deploy\" or \"plan\"", s.Kind)
	}
	if s.Plan != nil {
		var err error
		if out.Plan, err = s.Plan.Plan(); err != nil {
			return nil, malformed("plan.%v", err)
		}
	}
	for _, p := range s.Parameters {
		q := &wire.Parameter{Type: p.Type, Null: p.Value == nil}
		if p.Value != nil {
			q.Text = *p.Value
		}
		out.Parameters = append(out.Parameters, q)
	}
	return out, nil
}

type accepted struct {
	ID string `json:"id"`
}

// Transaction is an outcome, for machines: GET /v1/transactions/{id} and "chainify submit --json".
type Transaction struct {
	ID        string `json:"id"`
	Block     uint64 `json:"block"`
	Index     uint32 `json:"index"`
	Succeeded bool   `json:"succeeded"`
	Rows      int64  `json:"rows"`
	SQLState  string `json:"sqlstate,omitempty"`
	Message   string `json:"message,omitempty"`
}

// TransactionOf makes the JSON form of an outcome.
func TransactionOf(r wire.TxResult) Transaction {
	return Transaction{
		ID: hex.EncodeToString(r.ID[:]), Block: r.Block, Index: r.Index, Succeeded: r.Succeeded, Rows: r.Rows,
		SQLState: r.SQLState, Message: r.Message,
	}
}

type block struct {
	Number         uint64       `json:"number"`
	OrderHeight    int64        `json:"order_height"`
	Time           string       `json:"time"`
	OrderHash      string       `json:"order_hash"`
	EffectRound    uint32       `json:"effect_round"`
	Quarantined    []uint32     `json:"quarantined"`
	QuarantinedAll bool         `json:"quarantined_all"`
	Transactions   []string     `json:"transactions"`
	Certificate    *certificate `json:"certificate"`
}

func blockOf(b *wire.OrderedBlock) block {
	out := block{
		Number: b.Number, OrderHeight: b.Height, OrderHash: hex.EncodeToString(b.OrderHash[:]),
		Time:        time.UnixMicro(b.TimeMicro).UTC().Format(time.RFC3339Nano),
		EffectRound: b.Round, Quarantined: append([]uint32{}, b.Quarantined...), QuarantinedAll: b.QuarantineAll,
		Transactions: make([]string, len(b.IDs)),
	}
	for i, id := range b.IDs {
		out.Transactions[i] = hex.EncodeToString(id[:])
	}
	return out
}

type certificate struct {
	EffectRound     uint32          `json:"effect_round"`
	LedgerBlockHash string          `json:"ledger_block_hash"`
	Votes           []wire.VoteJSON `json:"votes"`
}

func certificateOf(c *wire.Certificate) *certificate {
	return &certificate{EffectRound: c.Round, LedgerBlockHash: hex.EncodeToString(c.Hash[:]), Votes: wire.VotesJSON(c.Votes)}
}

// Status is how a node stands, for machines: GET /v1/status and "chainify status --json".
type Status struct {
	Organisation  string `json:"organisation"`
	ChainID       string `json:"chain_id"`
	Version       string `json:"version"`
	State         string `json:"state"`
	Height        int64  `json:"height"`
	LastOrdered   uint64 `json:"last_ordered"`
	LastCertified uint64 `json:"last_certified"`
	LastCommitted uint64 `json:"last_committed"`
	Peers         uint32 `json:"peers"`
	Organisations uint32 `json:"organisations"`
	Consent       uint32 `json:"consent"`
	Reason        string `json:"reason,omitempty"` // of an exclusion

	Protocol *Protocol `json:"protocol,omitempty"`
	// Environment lists facts on which results may depend, and that differ between this database
	// and another organisation's.
	Environment []EnvironmentDifference `json:"environment,omitempty"`

	// Evidence is how many pieces of evidence against organisations the node keeps.
	Evidence uint64 `json:"evidence"`

	Gateway *Queue `json:"gateway,omitempty"`
}

// Protocol is which versions of the protocol are in force, known and to come.
type Protocol struct {
	InForce       uint32            `json:"in_force"`
	Known         uint32            `json:"known"`                 // the newest that the node's program knows
	Next          uint32            `json:"next,omitempty"`        // that comes
	NextHeight    uint64            `json:"next_height,omitempty"` // order height before which it is not in force
	Organisations map[string]uint32 `json:"organisations"`         // what the programs of the others know; 0: not connected
}

func protocolOf(p *wire.ProtocolStatus) *Protocol {
	if p == nil {
		return nil
	}
	out := &Protocol{p.InForce, p.Known, p.Next, p.NextHeight, map[string]uint32{}}
	for _, o := range p.Organisations {
		out.Organisations[o.Organisation] = o.Version
	}
	return out
}

// EnvironmentDifference is such a fact of another organisation's database; empty: there is none.
type EnvironmentDifference struct {
	Organisation string `json:"organisation"`
	Name         string `json:"name"`
	Own          string `json:"own"`
	Other        string `json:"other"`
}

func environmentOf(list []*wire.EnvironmentDifference) (out []EnvironmentDifference) {
	for _, d := range list {
		out = append(out, EnvironmentDifference{d.Organisation, d.Name, d.Own, d.Other})
	}
	return out
}

// Queue is how the gateway stands.
type Queue struct {
	Pending   int    `json:"pending"`
	Unordered int    `json:"unordered"`
	Accepted  uint64 `json:"accepted"`
	Refused   uint64 `json:"refused"`
	Bundles   uint64 `json:"bundles"`
	Stalled   bool   `json:"stalled"`
}

// StatusOf makes the JSON form of a status.
func StatusOf(s *wire.StatusResponse, g Stats) Status {
	out := StatusOfNode(s)
	out.Gateway = &Queue{
		Pending: g.Pending, Unordered: g.Unordered, Accepted: g.Accepted, Refused: g.Refused, Bundles: g.Bundles, Stalled: g.Stalled,
	}
	return out
}

// StatusOfNode is StatusOf without the gateway's part, which the socket does not carry.
func StatusOfNode(s *wire.StatusResponse) Status {
	return Status{
		Organisation: s.Organisation, ChainID: s.ChainId, Version: s.Version, State: s.State, Height: s.Height,
		LastOrdered: s.LastOrdered, LastCertified: s.LastCertified, LastCommitted: s.LastCommitted,
		Peers: s.Peers, Organisations: s.Organisations, Consent: s.Consent, Reason: s.Reason, Protocol: protocolOf(s.Protocol),
		Environment: environmentOf(s.Environment), Evidence: s.Evidence,
	}
}

type health struct {
	OK      bool   `json:"ok"`
	State   string `json:"state"`
	Stalled bool   `json:"stalled"`
	ChainID string `json:"chain_id"`
	Height  int64  `json:"height"`
}

type failure struct {
	Error failureBody `json:"error"`
}

type failureBody struct {
	SQLState string `json:"sqlstate"`
	Message  string `json:"message"`
	Detail   string `json:"detail,omitempty"`
	Hint     string `json:"hint,omitempty"`
}
