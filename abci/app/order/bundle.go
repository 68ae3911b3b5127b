package order

import (
	"errors"
	"fmt"

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

// Tx is one opened transaction of CometBFT: a certificate, whose votes are not checked yet, or a bundle or governance change,
// whose form, organisations and signatures are. Only Open makes it, so a bundle in hand is a checked one.
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

// Bundle holds what the order needs of an organisation's bundle.
type Bundle struct {
	transactions []transaction
}

// Len returns the number of transactions.
func (b *Bundle) Len() int { return len(b.transactions) }

type transaction struct {
	id         wire.TxID
	validUntil uint64
	raw        []byte // ChainedTx bytes
	// Of a client that signs itself, the signature checked; key is empty where the gateway vouches.
	organisation, role string
	key                []byte
}

// Open decodes one transaction of CometBFT and checks all that does not depend on the state: with the same
// registry the answer never changes, so that callers may cache it by the bytes' hash. An error is a *Refusal.
// Cost: for a bundle one Ed25519 verification, half of one for each transaction whose client signs, and one SHA-256 for each.
func (r *Registry) Open(raw []byte) (Tx, error) {
	ordered, err := wire.DecodeOrderedTx(raw)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	if certificate := ordered.GetCertificate(); certificate != nil {
		return Tx{certificate: certificate}, nil
	}
	if governance := ordered.GetGovernance(); governance != nil {
		return r.openGovernance(governance)
	}
	if client := ordered.GetClient(); client != nil {
		return r.openClient(client)
	}
	bundle, txs, err := wire.DecodeBundle(ordered.GetBundle().Bundle)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	if bundle.ChainId != r.record.ChainID {
		return Tx{}, refuse(CodeMalformed, "bundle.chain_id: %q, want %q", bundle.ChainId, r.record.ChainID)
	}
	i, known := r.byName[bundle.Organisation]
	if !known {
		return Tx{}, refuse(CodeUnknown, "bundle.organisation: %q is not in the registry", bundle.Organisation)
	}
	if r.record.Organisations[i].OrderingOnly {
		return Tx{}, refuse(CodeUnknown, "bundle.organisation: %q only orders and submits nothing", bundle.Organisation)
	}
	if len(txs) > r.record.Parameters.BlockTransactionsMax {
		return Tx{}, refuse(CodeTooManyForBlock, "bundle.transactions: %d of them, a block takes %d", len(txs), r.record.Parameters.BlockTransactionsMax)
	}
	if !wire.VerifyBundle(r.record.Organisations[i].GatewayKey, r.record.ChainID, ordered.GetBundle()) {
		return Tx{}, refuse(CodeSignature, "signed bundle.signature: not by the gateway of %q", bundle.Organisation)
	}
	if i := wire.VerifyProposals(r.record.ChainID, txs); i >= 0 {
		return Tx{}, refuse(CodeSignature, "bundle.transactions[%d].proposal.signature: not by the client's key", i)
	}
	return compact(txs), nil
}

// compact keeps what the order needs. Agreements are checked where policies are known: by the databases, when they execute.
func compact(txs []wire.BundledTx) Tx {
	b := &Bundle{transactions: make([]transaction, len(txs))}
	for i, tx := range txs {
		b.transactions[i] = transaction{id: tx.ID, validUntil: tx.Proposal.ValidUntilHeight, raw: tx.Raw}
		if client := tx.Proposal.Client; len(client.Key) > 0 {
			t := &b.transactions[i]
			t.organisation, t.role, t.key = client.Organisation, client.Role, client.Key
		}
	}
	return Tx{bundle: b}
}

// OpenDecided reads the transactions of a decided order block again, without regard to who may have sent them: that was
// checked under the registry of its height, which may be another one by now.
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
