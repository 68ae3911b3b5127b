package order

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// Result codes of CheckTx and, the first two, of FinalizeBlock.
const (
	CodeOK              uint32 = 0
	CodeNothingLive     uint32 = 1 // every transaction is expired, too far ahead, replayed or over the block's bound
	CodeMalformed       uint32 = 2
	CodeUnknown         uint32 = 3 // organisation not in the registry, or one that only orders
	CodeSignature       uint32 = 4
	CodeNotABundle      uint32 = 5 // certificates come from proposers, never from the mempool
	CodeTooManyForBlock uint32 = 6 // more transactions than a block may hold
	CodeTooFewApprove   uint32 = 7 // a governance change that fewer organisations approve than have to
	CodeOverdrawn       uint32 = 8 // its gateway signed too many bundles with forged signatures of clients of late
)

// Refusal is why a transaction of CometBFT is refused, with its result code.
type Refusal struct {
	Code uint32
	Err  error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(code uint32, format string, args ...any) error {
	return &Refusal{Code: code, Err: fmt.Errorf(format, args...)}
}

// CodeOf returns the result code of an error of Open.
func CodeOf(err error) uint32 {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r.Code
	}
	return CodeMalformed
}

// Tx is one opened transaction of CometBFT. It is a certificate, whose votes are not checked yet,
// or a bundle or governance change, whose form, organisations and signatures are checked. Only Open
// and Candidate make it. Candidate leaves the signatures of clients to be checked.
type Tx struct {
	certificate *wire.EffectCertificate
	bundle      *Bundle
	change      *change
	client      *clientChange
}

// IsGovernance reports whether the transaction is a governance change.
func (t Tx) IsGovernance() bool { return t.change != nil }

// IsClient reports whether the transaction is a change of clients.
func (t Tx) IsClient() bool { return t.client != nil }

// Bundle returns the transaction's bundle, nil for a certificate.
func (t Tx) Bundle() *Bundle { return t.bundle }

// Organisation returns whose bundle or change of clients the transaction is, "" for others.
func (t Tx) Organisation() string {
	switch {
	case t.bundle != nil:
		return t.bundle.organisation
	case t.client != nil:
		return t.client.change.Organisation
	}
	return ""
}

// Bundle holds what the order needs of an organisation's bundle.
type Bundle struct {
	organisation string
	transactions []transaction
}

// Len returns the number of transactions.
func (b *Bundle) Len() int { return len(b.transactions) }

type transaction struct {
	id         wire.TxID
	validUntil uint64
	raw        []byte // ChainedTx bytes
	keys       []key  // of an EFFECTS transaction: the rows that it names
	client     string // who is asked when it does not end (Pending.Clients)
	// Of a client that signs itself, the signature checked; key is empty where the gateway vouches.
	organisation, role string
	key                []byte
}

// Candidate is a transaction of CometBFT of which all is checked but the signatures of clients in
// its bundle, which are verified with those of others (VerifyClients). Its gateway, which signed
// the bundle, answers for them until then.
type Candidate struct {
	Tx     Tx
	bundle []wire.BundledTx // some with signatures of clients to be verified; nil: there are none
}

// Signs reports whether clients' signatures are to be verified.
func (c Candidate) Signs() bool { return c.bundle != nil }

// Open decodes one transaction of CometBFT and checks all that does not depend on the state. With
// the same registry the answer never changes, so that callers may cache it by the bytes' hash. An
// error is a *Refusal.
func (r *Registry) Open(raw []byte) (Tx, error) {
	c, err := r.Candidate(raw)
	if err == nil {
		errs, _ := r.VerifyClients(c)
		err = errs[0]
	}
	if err != nil {
		return Tx{}, err
	}
	return c.Tx, nil
}

// Candidate is Open without the signatures of clients. Cost: for a bundle one Ed25519 verification,
// and one SHA-256 for each transaction.
func (r *Registry) Candidate(raw []byte) (Candidate, error) {
	ordered, err := wire.DecodeOrderedTx(raw)
	if err != nil {
		return Candidate{}, &Refusal{CodeMalformed, err}
	}
	var tx Tx
	switch body := ordered.Body.(type) {
	case *wire.OrderedTx_Certificate:
		tx.certificate = body.Certificate
	case *wire.OrderedTx_Governance:
		tx, err = r.openGovernance(body.Governance)
	case *wire.OrderedTx_Client:
		tx, err = r.openClient(body.Client)
	default:
		return r.bundle(ordered.GetBundle())
	}
	return Candidate{Tx: tx}, err
}

// bundle checks a bundle's gateway's signature over the bytes as they came, and then decodes them.
func (r *Registry) bundle(signed *wire.SignedBundle) (Candidate, error) {
	head, err := wire.PeekBundle(signed.Bundle)
	if err != nil {
		return Candidate{}, &Refusal{CodeMalformed, err}
	}
	if head.ChainID != r.record.ChainID {
		return Candidate{}, refuse(CodeMalformed, "bundle.chain_id: %q, want %q", head.ChainID, r.record.ChainID)
	}
	i, known := r.byName[head.Organisation]
	if !known {
		return Candidate{}, refuse(CodeUnknown, "bundle.organisation: %q is not in the registry", head.Organisation)
	}
	if r.record.Organisations[i].OrderingOnly {
		return Candidate{}, refuse(CodeUnknown, "bundle.organisation: %q only orders and submits nothing", head.Organisation)
	}
	if head.Transactions > r.record.Parameters.BlockTransactionsMax {
		return Candidate{}, refuse(CodeTooManyForBlock, "bundle.transactions: %d of them, a block takes %d", head.Transactions, r.record.Parameters.BlockTransactionsMax)
	}
	if !wire.VerifyBundle(r.record.Organisations[i].GatewayKey, r.record.ChainID, signed) {
		return Candidate{}, refuse(CodeSignature, "signed bundle.signature: not by the gateway of %q", head.Organisation)
	}
	_, txs, err := wire.DecodeBundle(signed.Bundle)
	if err != nil {
		return Candidate{}, &Refusal{CodeMalformed, err}
	}
	c := Candidate{Tx: compact(txs)}
	if slices.ContainsFunc(txs, func(tx wire.BundledTx) bool { return len(tx.Proposal.Client.Key) > 0 }) {
		c.bundle = txs
	}
	return c, nil
}

// compact keeps what the order needs. Agreements are checked where policies are known: by the
// databases, when they execute.
func compact(txs []wire.BundledTx) Tx {
	b := &Bundle{organisation: txs[0].Proposal.Client.Organisation, transactions: make([]transaction, len(txs))}
	var before *wire.Client
	for i, tx := range txs {
		client := tx.Proposal.Client
		b.transactions[i] = transaction{id: tx.ID, validUntil: tx.Proposal.ValidUntilHeight, raw: tx.Raw}
		if tx.Proposal.Kind == wire.Kind_KIND_EFFECTS {
			b.transactions[i].keys = keysOf(tx.Proposal.Effects)
		}
		if before != nil && before.Role == client.Role && bytes.Equal(before.Key, client.Key) {
			b.transactions[i].client = b.transactions[i-1].client // one string for all of them
		} else {
			b.transactions[i].client = clientOf(client)
		}
		before = client
		if len(client.Key) > 0 {
			t := &b.transactions[i]
			t.organisation, t.role, t.key = client.Organisation, client.Role, client.Key
		}
	}
	return Tx{bundle: b}
}

// OpenDecided reads the transactions of a decided order block again, without regard to who may have
// sent them. That was checked under the registry of its height, which may be another one by now.
func OpenDecided(raw [][]byte) ([]Tx, error) {
	out := make([]Tx, len(raw))
	for i := range raw {
		ordered, err := wire.DecodeOrderedTx(raw[i])
		if err == nil && ordered.GetBundle() != nil {
			out[i], err = openBundle(ordered.GetBundle())
		}
		if err != nil {
			return nil, fmt.Errorf("transaction %d: %w", i, err)
		}
	}
	return out, nil
}

func openBundle(signed *wire.SignedBundle) (Tx, error) {
	_, txs, err := wire.DecodeBundle(signed.Bundle)
	if err != nil {
		return Tx{}, err
	}
	return compact(txs), nil
}
