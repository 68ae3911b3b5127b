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
	CodeTooFewApprove   uint32 = 7 // a policy change without more than two thirds of the organisations
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

// Tx is one opened transaction of CometBFT: a certificate, whose votes are not checked yet, or a bundle or policy change,
// whose form, organisations and signatures are. Only Open makes it, so a bundle in hand is a checked one.
type Tx struct {
	certificate *wire.EffectCertificate
	bundle      *Bundle
	policy      *policyChange
}

// IsPolicy reports whether the transaction is a policy change.
func (t Tx) IsPolicy() bool { return t.policy != nil }

// Bundle returns the transaction's bundle, nil for a certificate.
func (t Tx) Bundle() *Bundle { return t.bundle }

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
}

// Open decodes one transaction of CometBFT and checks all that does not depend on the state: with the same
// registry the answer never changes, so that callers may cache it by the bytes' hash. An error is a *Refusal.
// Cost: for a bundle one Ed25519 verification and one SHA-256 for each transaction.
func (r *Registry) Open(raw []byte) (Tx, error) { return r.open(raw, true) }

// OpenDecided is Open for what CometBFT decided already: signatures are not checked again.
func (r *Registry) OpenDecided(raw []byte) (Tx, error) { return r.open(raw, false) }

func (r *Registry) open(raw []byte, verify bool) (Tx, error) {
	ordered, err := wire.DecodeOrderedTx(raw)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	if certificate := ordered.GetCertificate(); certificate != nil {
		return Tx{certificate: certificate}, nil
	}
	if policy := ordered.GetPolicy(); policy != nil {
		return r.openPolicy(policy, verify)
	}
	bundle, txs, err := wire.DecodeBundle(ordered.GetBundle().Bundle)
	if err != nil {
		return Tx{}, &Refusal{CodeMalformed, err}
	}
	if bundle.ChainId != r.chainID {
		return Tx{}, refuse(CodeMalformed, "bundle.chain_id: %q, want %q", bundle.ChainId, r.chainID)
	}
	i, known := r.byName[bundle.Organisation]
	if !known {
		return Tx{}, refuse(CodeUnknown, "bundle.organisation: %q is not in the registry", bundle.Organisation)
	}
	if r.organisations[i].orderingOnly {
		return Tx{}, refuse(CodeUnknown, "bundle.organisation: %q only orders and submits nothing", bundle.Organisation)
	}
	if len(txs) > r.parameters.BlockTransactionsMax {
		return Tx{}, refuse(CodeTooManyForBlock, "bundle.transactions: %d of them, a block takes %d", len(txs), r.parameters.BlockTransactionsMax)
	}
	if verify && !wire.VerifyBundle(r.organisations[i].gateway, r.chainID, ordered.GetBundle()) {
		return Tx{}, refuse(CodeSignature, "signed bundle.signature: not by the gateway of %q", bundle.Organisation)
	}
	return r.compact(bundle.Organisation, txs)
}

func (r *Registry) compact(organisation string, txs []wire.BundledTx) (Tx, error) {
	b := &Bundle{organisation: organisation, transactions: make([]transaction, len(txs))}
	for i, tx := range txs {
		// No registry of client keys or agreement policies exists: what nobody checks must not look checked.
		if len(tx.Chained.Proposal.Signature) > 0 || len(tx.Chained.Agreements) > 0 {
			return Tx{}, refuse(CodeMalformed, "bundle.transactions[%d]: client signatures and agreements cannot be checked", i)
		}
		b.transactions[i] = transaction{tx.ID, tx.Proposal.ValidUntilHeight, tx.Raw}
	}
	return Tx{bundle: b}, nil
}
