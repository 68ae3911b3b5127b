package wire

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// BundledTx is one transaction of a decoded bundle.
type BundledTx struct {
	ID       TxID
	Raw      []byte // its ChainedTx bytes as received, a slice of the bundle
	Chained  *ChainedTx
	Proposal *Proposal
}

// TxIDOf returns H("chainify/tx/1" ‖ proposal bytes).
func TxIDOf(proposal []byte) TxID { return hashOf("chainify/tx/1", proposal) }

// hashOf returns the SHA-256 of its parts in a row.
func hashOf(domain string, parts ...[]byte) (out Hash) {
	h := sha256.New()
	h.Write([]byte(domain))
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(out[:0])
	return out
}

// lp returns u32 length ‖ x.
func lp(x string) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(x)), uint32(len(x))), x...)
}

// DecodeOrderedTx reads one transaction of a CometBFT block. Of a certificate it checks everything
// but signatures; what organisations sign is left as it is, for DecodeBundle,
// DecodeGovernanceChange and DecodeClientChange: its signature is verified before.
func DecodeOrderedTx(raw []byte) (*OrderedTx, error) {
	tx := &OrderedTx{}
	if err := decodeStrict("ordered transaction", raw, signedBundleBytesMax, orderedShape, tx); err != nil {
		return nil, err
	}
	switch body := tx.Body.(type) {
	case *OrderedTx_Certificate:
		return tx, checkCertificate(body.Certificate)
	case *OrderedTx_Bundle:
		return tx, checkSignedBundle(body.Bundle)
	case *OrderedTx_Governance:
		return tx, checkApprovals(body.Governance)
	case *OrderedTx_Client:
		return tx, checkSignedClientChange(body.Client)
	default:
		return nil, fieldErrorf("ordered transaction", "has neither a certificate nor a bundle nor a change")
	}
}

func checkSignedBundle(b *SignedBundle) error {
	if len(b.Signature) != signatureBytes {
		return fieldErrorf("signed bundle.signature", "%d bytes, want %d", len(b.Signature), signatureBytes)
	}
	if len(b.Bundle) == 0 || len(b.Bundle) > BundleBytesMax {
		return fieldErrorf("signed bundle.bundle", "%d bytes, want 1 to %d", len(b.Bundle), BundleBytesMax)
	}
	return nil
}

// DecodeBundle reads the bytes a gateway signed, with all its transactions. Every transaction must
// be of the bundle's chain and organisation.
func DecodeBundle(raw []byte) (*Bundle, []BundledTx, error) {
	b := &Bundle{}
	if err := decodeStrict("bundle", raw, BundleBytesMax, bundleShape, b); err != nil {
		return nil, nil, err
	}
	if err := CheckChainID(b.ChainId); err != nil {
		return nil, nil, fmt.Errorf("bundle.%w", err)
	}
	if err := CheckOrganisation(b.Organisation); err != nil {
		return nil, nil, fmt.Errorf("bundle.%w", err)
	}
	if n := len(b.Transactions); n == 0 || n > BundleTransactionsMax {
		return nil, nil, fieldErrorf("bundle.transactions", "%d of them, want 1 to %d", n, BundleTransactionsMax)
	}
	txs := make([]BundledTx, len(b.Transactions))
	slices := rawTransactions(raw, len(txs))
	for i, chained := range b.Transactions {
		tx, err := checkChainedTx(chained)
		if err == nil {
			err = belongs(tx.Proposal, b)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("bundle.transactions[%d].%w", i, err)
		}
		tx.Raw = slices[i]
		txs[i] = tx
	}
	return b, txs, nil
}

func belongs(p *Proposal, b *Bundle) error {
	if p.ChainId != b.ChainId {
		return fieldErrorf("proposal.chain_id", "%q, the bundle's is %q", p.ChainId, b.ChainId)
	}
	if p.Client.Organisation != b.Organisation {
		return fieldErrorf("proposal.client.organisation", "%q, the bundle's is %q", p.Client.Organisation, b.Organisation)
	}
	return nil
}

// transactionsField is that of a Bundle's transactions.
const transactionsField = 4

// rawTransactions finds the bytes of each ChainedTx in a bundle that decodeStrict accepted.
func rawTransactions(bundle []byte, count int) [][]byte {
	out := make([][]byte, 0, count)
	for len(bundle) > 0 {
		field, kind, n := protowire.ConsumeTag(bundle)
		bundle = bundle[n:]
		size := protowire.ConsumeFieldValue(field, kind, bundle)
		if field == transactionsField {
			value, _ := protowire.ConsumeBytes(bundle)
			out = append(out, value)
		}
		bundle = bundle[size:]
	}
	return out
}

// DecodeChainedTx reads one transaction as the block buffer holds it.
func DecodeChainedTx(raw []byte) (BundledTx, error) {
	chained := &ChainedTx{}
	if err := decodeStrict("transaction", raw, ProposalBytesMax+chainedTransactionExtra, chainedShape, chained); err != nil {
		return BundledTx{}, err
	}
	tx, err := checkChainedTx(chained)
	if err != nil {
		return BundledTx{}, fmt.Errorf("transaction.%w", err)
	}
	tx.Raw = raw
	return tx, nil
}

func checkChainedTx(chained *ChainedTx) (BundledTx, error) {
	signed := chained.Proposal
	if signed == nil {
		return BundledTx{}, fieldErrorf("proposal", "missing")
	}
	proposal, err := DecodeProposal(signed.Proposal)
	if err != nil {
		return BundledTx{}, err
	}
	if len(proposal.Client.Key) > 0 {
		err = checkClientSignature(signed.Signature)
	} else if n := len(signed.Signature); n != 0 {
		err = fieldErrorf("proposal.signature", "%d bytes, want 0", n)
	}
	if err != nil {
		return BundledTx{}, err
	}
	if n := len(chained.Agreements); n > AgreementsMax {
		return BundledTx{}, fieldErrorf("agreements", "%d of them, want at most %d", n, AgreementsMax)
	}
	for i, a := range chained.Agreements {
		if err := checkAgreement(a); err != nil {
			return BundledTx{}, fmt.Errorf("agreements[%d].%w", i, err)
		}
	}
	return BundledTx{ID: TxIDOf(signed.Proposal), Chained: chained, Proposal: proposal}, nil
}

func checkAgreement(a *Agreement) error {
	if err := CheckOrganisation(a.Organisation); err != nil {
		return err
	}
	if len(a.ProposalHash) != len(Hash{}) {
		return fieldErrorf("proposal_hash", "%d bytes, want %d", len(a.ProposalHash), len(Hash{}))
	}
	if len(a.Signature) != signatureBytes {
		return fieldErrorf("signature", "%d bytes, want %d", len(a.Signature), signatureBytes)
	}
	return nil
}

// DecodeProposal reads a proposal and checks its bounds, and of kind EFFECTS the structure of the
// write set. The reserved kind is refused: nothing executes it.
func DecodeProposal(raw []byte) (*Proposal, error) {
	p := &Proposal{}
	if err := decodeStrict("proposal", raw, ProposalBytesMax, proposalShape, p); err != nil {
		return nil, err
	}
	if err := checkProposal(p); err != nil {
		return nil, fmt.Errorf("proposal.%w", err)
	}
	return p, nil
}

func checkProposal(p *Proposal) error {
	if err := CheckChainID(p.ChainId); err != nil {
		return err
	}
	if p.Client == nil {
		return fieldErrorf("client", "missing")
	}
	if err := CheckOrganisation(p.Client.Organisation); err != nil {
		return fmt.Errorf("client.%w", err)
	}
	if err := CheckRole(p.Client.Role); err != nil {
		return fmt.Errorf("client.%w", err)
	}
	if len(p.Client.Key) > 0 {
		if err := checkPublicKey("client.key", p.Client.Key); err != nil {
			return err
		}
	}
	return checkContent(p)
}

// Content has the fields that a client chose, of a Proposal or of a Statement that becomes one.
type Content interface {
	GetKind() Kind
	GetSql() string
	GetParameters() []*Parameter
	GetEffects() []byte
	GetPlan() *Plan
}

func checkContent(c Content) error {
	if c.GetPlan() != nil && c.GetKind() != Kind_KIND_PLAN {
		return fieldErrorf("plan", "there though the transaction is of another kind")
	}
	switch kind := c.GetKind(); kind {
	case Kind_KIND_SQL, Kind_KIND_DEPLOY:
		if len(c.GetEffects()) > 0 {
			return fieldErrorf("effects", "not empty though the transaction has statements")
		}
		return checkStatements(c.GetSql(), c.GetParameters())
	case Kind_KIND_EFFECTS:
		return CheckEffects(c)
	case Kind_KIND_PLAN:
		return CheckPlan(c)
	default:
		return fieldErrorf("kind", "%d cannot be executed, want %d to %d, or %d", kind, Kind_KIND_SQL, Kind_KIND_DEPLOY, Kind_KIND_PLAN)
	}
}

// CheckEffects checks the content of kind EFFECTS: a write set and nothing else. It checks the
// structure and not the payloads of values, of which a wrong one makes the transaction fail where
// it is executed. Cost: linear in the bytes.
func CheckEffects(c Content) error {
	if c.GetSql() != "" {
		return fieldErrorf("sql", "not empty though the transaction has effects")
	}
	if n := len(c.GetParameters()); n > 0 {
		return fieldErrorf("parameters", "%d of them though the transaction has effects", n)
	}
	if len(c.GetEffects()) == 0 {
		return fieldErrorf("effects", "empty")
	}
	_, err := DecodeWriteSet(c.GetEffects())
	return err
}

func checkStatements(sql string, parameters []*Parameter) error {
	if sql == "" {
		return fieldErrorf("sql", "empty")
	}
	if err := checkText("sql", sql); err != nil {
		return err
	}
	if n := len(parameters); n > ParametersMax {
		return fieldErrorf("parameters", "%d of them, want at most %d", n, ParametersMax)
	}
	for i, p := range parameters {
		if p.Null && p.Text != "" {
			return fieldErrorf(fmt.Sprintf("parameters[%d].text", i), "%d bytes beside null", len(p.Text))
		}
		if err := checkText(fmt.Sprintf("parameters[%d].type", i), p.Type); err != nil {
			return err
		}
		if err := checkText(fmt.Sprintf("parameters[%d].text", i), p.Text); err != nil {
			return err
		}
	}
	return nil
}

// BundleSignBytes returns what a gateway signs: "chainify/bundle/1" ‖ lp(chain_id) ‖ bundle bytes.
func BundleSignBytes(chainID string, bundle []byte) []byte {
	const domain = "chainify/bundle/1"
	out := make([]byte, 0, len(domain)+4+len(chainID)+len(bundle))
	out = append(out, domain...)
	out = append(out, lp(chainID)...)
	return append(out, bundle...)
}

// SignBundle encodes and signs a bundle with a gateway key in memory, which never fails.
func SignBundle(key ed25519.PrivateKey, b *Bundle) []byte {
	signed, err := SignEncoded(key, b.ChainId, EncodeBundle(b))
	if err != nil {
		panic(err)
	}
	return signed
}

// EncodeBundle encodes a bundle that SignEncoded makes ready for the mempool.
func EncodeBundle(b *Bundle) []byte {
	return Encode(&OrderedTx{Body: &OrderedTx_Bundle{Bundle: &SignedBundle{Bundle: Encode(b)}}})
}

// SignEncoded signs a bundle of EncodeBundle with its organisation's gateway key. A signature of
// another key, which was there before, goes.
func SignEncoded(key crypto.Signer, chainID string, encoded []byte) ([]byte, error) {
	tx := &OrderedTx{}
	if err := proto.Unmarshal(encoded, tx); err != nil {
		panic(fmt.Errorf("sign bundle: %w", err)) // EncodeBundle's own
	}
	signed := tx.GetBundle()
	var err error
	if signed.Signature, err = Sign(key, BundleSignBytes(chainID, signed.Bundle)); err != nil {
		return nil, err
	}
	return Encode(tx), nil
}

// VerifyBundle reports whether the gateway key signed the bundle for this chain.
func VerifyBundle(key ed25519.PublicKey, chainID string, b *SignedBundle) bool {
	return ed25519.Verify(key, BundleSignBytes(chainID, b.Bundle), b.Signature)
}
