package gateway

import (
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	waitMax = 10 * time.Minute // spec/node-socket.md

	// statementsMax and waitIDsMax bound one request; lookupsMax the ids whose outcome the database
	// is asked for later.
	statementsMax = 10_000
	waitIDsMax    = 10_000
	// idsWaitedMax bounds the ids of all waits: about 150 bytes each.
	idsWaitedMax = 1_000_000
	lookupsMax   = 100_000

	// bundleOverhead is more than the bytes of a bundle beside its transactions;
	// transactionOverhead more than a ChainedTx's field header and length.
	bundleOverhead      = 256
	transactionOverhead = 8
)

// checkStatements refuses statements that no organisation would accept, before anything is queued.
// Messages name the field.
func checkStatements(role string, statements []*wire.Statement) error {
	if err := checkText("role", role); err != nil {
		return err
	}
	if len(role) > wire.NameBytesMax {
		return beyondBound("length of the role in bytes", len(role), wire.NameBytesMax)
	}
	if len(statements) == 0 {
		return malformed("statements: at least one is needed")
	}
	if len(statements) > statementsMax {
		return beyondBound("number of statements", len(statements), statementsMax)
	}
	sealed := 0
	for _, s := range statements {
		if s.GetValidUntilHeight() != 0 && len(statements) > 1 {
			return malformed("valid_until_height: there though the submission has several statements")
		}
		if err := checkStatement(s); err != nil {
			return err
		}
		if sealed += len(s.GetSealed()); sealed > wire.SealedMax {
			return beyondBound("number of sealed values", sealed, wire.SealedMax)
		}
	}
	return nil
}

func checkStatement(s *wire.Statement) error {
	if s.GetNonce() != 0 && s.GetValidUntilHeight() == 0 {
		return malformed("nonce: there without valid_until_height")
	}
	if s.GetPlan() != nil && s.GetKind() != wire.Kind_KIND_PLAN {
		return malformed("plan: there though the transaction is of another kind")
	}
	if len(s.GetSealed()) > 0 && s.GetKind() != wire.Kind_KIND_EFFECTS {
		return malformed("sealed: there though the transaction is of another kind than EFFECTS")
	}
	switch s.GetKind() {
	case wire.Kind_KIND_SQL, wire.Kind_KIND_DEPLOY:
		if len(s.GetEffects()) > 0 {
			return malformed("effects: not empty though the transaction has statements")
		}
	case wire.Kind_KIND_EFFECTS:
		return checkEffects(s)
	case wire.Kind_KIND_PLAN:
		return checkPlan(s)
	case wire.Kind_KIND_GOVERNANCE:
		return &Error{SQLState: StateUnsupported, Message: "transactions of kind " + s.GetKind().String() + " are not supported yet"}
	default:
		return malformed("kind: %d is not a kind of transaction", s.GetKind())
	}
	if err := checkText("sql", s.GetSql()); err != nil {
		return err
	}
	if n := len(s.GetParameters()); n > wire.ParametersMax {
		return beyondBound("number of parameters", n, wire.ParametersMax)
	}
	for i, p := range s.GetParameters() {
		if !utf8.ValidString(p.GetType()) || !utf8.ValidString(p.GetText()) ||
			strings.ContainsRune(p.GetType(), 0) || strings.ContainsRune(p.GetText(), 0) {
			return malformed("parameters[%d]: not UTF-8 text without zero bytes", i)
		}
		if p.GetNull() && p.GetText() != "" {
			return malformed("parameters[%d]: null with a text", i)
		}
	}
	return nil
}

func checkEffects(s *wire.Statement) error {
	if n := len(s.GetEffects()); n > wire.WriteSetBytesMax {
		return beyondBound("size of the write set in bytes", n, wire.WriteSetBytesMax)
	}
	if err := wire.CheckEffects(s); err != nil {
		return malformed("%v", err)
	}
	if err := wire.CheckSealed(s.GetSealed()); err != nil {
		return malformed("%v", err)
	}
	return nil
}

func checkPlan(s *wire.Statement) error {
	if n := wire.PlannedBytes(s); n > wire.PlannedBytesMax {
		return beyondBound("size of a planned transaction in bytes", n, wire.PlannedBytesMax)
	}
	if n := len(s.GetParameters()); n > wire.ParametersMax {
		return beyondBound("number of parameters", n, wire.ParametersMax)
	}
	if err := wire.CheckPlan(s); err != nil {
		return malformed("%v", err)
	}
	return nil
}

func checkText(field, text string) error {
	switch {
	case text == "":
		return malformed("%s: empty", field)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return malformed("%s: not UTF-8 text without zero bytes", field)
	}
	return nil
}

// places gives a statement its nonce and its last height. g.mu is held.
func (g *Gateway) places(s *wire.Statement) (nonce, validUntil uint64, err error) {
	height := uint64(max(g.height, 0))
	if chosen := s.GetValidUntilHeight(); chosen != 0 {
		if !acceptable(chosen, height) {
			return 0, 0, notAcceptable("valid_until_height", chosen, height)
		}
		return s.GetNonce(), chosen, nil
	}
	g.nonce++
	return g.nonce, height + g.opt.Limits.ValidityBlocks, nil
}

// acceptable tells whether the order accepts a transaction with this last height after a height.
func acceptable(validUntil, height uint64) bool {
	return validUntil > height && validUntil <= height+wire.ValidityHeightsMax
}

func notAcceptable(field string, validUntil, height uint64) *Error {
	return malformed("%s: %d, want %d to %d", field, validUntil, height+1, height+wire.ValidityHeightsMax)
}

// propose makes the transactions of one submission. g.mu is held.
func (g *Gateway) propose(role string, statements []*wire.Statement, now time.Time) ([]*entry, error) {
	client := &wire.Client{Organisation: g.opt.Organisation, Role: role}
	made := make([]*entry, len(statements))
	for i, s := range statements {
		nonce, validUntil, err := g.places(s)
		if err != nil {
			return nil, err
		}
		proposal := wire.Encode(&wire.Proposal{
			ChainId: g.opt.ChainID, Client: client, Nonce: nonce, ValidUntilHeight: validUntil,
			Kind: s.GetKind(), Sql: s.GetSql(), Parameters: s.GetParameters(), Effects: s.GetEffects(), Plan: s.GetPlan(),
		})
		if len(proposal) > wire.ProposalBytesMax {
			return nil, beyondBound("size of the transaction in bytes", len(proposal), wire.ProposalBytesMax)
		}
		tx := &wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}
		e := &entry{
			id: wire.TxIDOf(proposal), role: role, validUntil: validUntil, queuedAt: now,
			size: proto.Size(tx) + transactionOverhead, tx: tx, deploys: s.GetKind() == wire.Kind_KIND_DEPLOY,
		}
		g.setEffects(e, s.GetKind(), s.GetEffects())
		made[i] = e
	}
	return made, nil
}
