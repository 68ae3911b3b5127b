package workload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Statement is SQL with the values of $1, $2 … and their types.
type Statement struct {
	SQL    string
	Types  []string
	Values []string
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// Text spells the statement with its values in the text.
func (s Statement) Text() string {
	return parameter.ReplaceAllStringFunc(s.SQL, func(name string) string {
		n, _ := strconv.Atoi(name[1:])
		return "'" + strings.ReplaceAll(s.Values[n-1], "'", "''") + "'::" + s.Types[n-1]
	})
}

// Arguments are the values as a session passes them.
func (s Statement) Arguments() []any {
	out := make([]any, len(s.Values))
	for i, v := range s.Values {
		out[i] = v
	}
	return out
}

// Schema is what a workload needs in a database.
type Schema struct {
	Name   string
	SQL    string   // makes the schema with its tables and functions
	Fill   string   // fills the tables
	Tables []string // in the order in which they are attached
}

// Grants lets a role do what clients do.
func (s Schema) Grants(role string) string {
	return fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[1]s TO %[2]s", s.Name, role)
}

// TableList is what chainify.attach takes.
func (s Schema) TableList() string { return "'" + strings.Join(s.Tables, "', '") + "'" }

// Author is in whose name transactions are written, and the chain they are for.
type Author struct {
	ChainID, Organisation, Role string
}

// Transactions encodes statements as chainify_node.execute_block takes them. Nonces count from
// the given one: the same statement twice is two transactions.
func (a Author) Transactions(kind wire.Kind, nonce uint64, statements []Statement) ([]byte, error) {
	proposals := make([]*wire.Proposal, len(statements))
	for i, s := range statements {
		proposals[i] = &wire.Proposal{Kind: kind, Sql: s.SQL}
		for j, v := range s.Values {
			proposals[i].Parameters = append(proposals[i].Parameters, &wire.Parameter{Type: s.Types[j], Text: v})
		}
	}
	return a.encode(nonce, proposals)
}

// WriteSets encodes write sets as EFFECTS transactions, in the same form.
func (a Author) WriteSets(nonce uint64, sets [][]byte) ([]byte, error) {
	proposals := make([]*wire.Proposal, len(sets))
	for i, set := range sets {
		proposals[i] = &wire.Proposal{Kind: wire.Kind_KIND_EFFECTS, Effects: set}
	}
	return a.encode(nonce, proposals)
}

// encode completes the proposals.
func (a Author) encode(nonce uint64, proposals []*wire.Proposal) ([]byte, error) {
	raw := make([][]byte, len(proposals))
	for i, p := range proposals {
		p.ChainId, p.Client = a.ChainID, &wire.Client{Organisation: a.Organisation, Role: a.Role}
		p.Nonce, p.ValidUntilHeight = nonce+uint64(i), 1
		proposal := wire.Encode(p)
		if _, err := wire.DecodeProposal(proposal); err != nil {
			return nil, fmt.Errorf("encode transaction %d: %w", i, err)
		}
		raw[i] = wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}})
	}
	return wire.EncodeTransactions(raw), nil
}
