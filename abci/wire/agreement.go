package wire

import (
	"crypto"
	"crypto/ed25519"
	"fmt"
)

// Bounds of spec/agreement.md.
const (
	AgreementMessageBytesMax = 1 << 20
	askedMax                 = 1_000
	agreementReasonBytesMax  = 2_000
)

// AgreementSignBytes returns what an organisation signs to agree to a transaction, or not to:
// "chainify/agreement/1" ‖ lp(chain_id) ‖ lp(organisation) ‖ transaction id ‖ u8 yes.
func AgreementSignBytes(chainID, organisation string, id TxID, yes bool) []byte {
	out := append([]byte("chainify/agreement/1"), lp(chainID)...)
	out = append(append(out, lp(organisation)...), id[:]...)
	if yes {
		return append(out, 1)
	}
	return append(out, 0)
}

// Answer signs an organisation's answer with its gateway key.
func Answer(key crypto.Signer, organisation, chainID string, id TxID, yes bool) (*Agreement, error) {
	signature, err := Sign(key, AgreementSignBytes(chainID, organisation, id, yes))
	return &Agreement{Organisation: organisation, ProposalHash: id[:], Yes: yes, Signature: signature}, err
}

// VerifyAnswer reports whether a answers for the transaction, yes or no, signed with the gateway
// key, by the same rule as votes.
func VerifyAnswer(key ed25519.PublicKey, chainID string, id TxID, a *Agreement) bool {
	return string(a.ProposalHash) == string(id[:]) &&
		VerifyVote(key, AgreementSignBytes(chainID, a.Organisation, id, a.Yes), a.Signature)
}

// AskSignBytes returns what an organisation signs to ask: "chainify/agreement-ask/1" ‖ lp(chain_id)
// ‖ lp(id of the asking node) ‖ lp(id of the asked node) ‖ transaction id.
func AskSignBytes(chainID, asking, asked string, id TxID) []byte {
	out := append([]byte("chainify/agreement-ask/1"), lp(chainID)...)
	return append(append(append(out, lp(asking)...), lp(asked)...), id[:]...)
}

// DecodeAgreementMessage reads a message of another node. The transaction that it asks about is
// left to DecodeAsked: its signature is verified before.
func DecodeAgreementMessage(raw []byte) (*AgreementMessage, error) {
	m := &AgreementMessage{}
	if err := decodeStrict("agreement message", raw, AgreementMessageBytesMax, agreementShape, m); err != nil {
		return nil, err
	}
	switch body := m.Body.(type) {
	case *AgreementMessage_Ask:
		return m, checkAsk(body.Ask)
	case *AgreementMessage_Answer:
		return m, checkAnswer(body.Answer)
	default:
		return nil, fieldErrorf("agreement message", "neither asks nor answers")
	}
}

// PeekAnswer returns the number of the question that a message answers, false when it is no answer.
func PeekAnswer(raw []byte) (request uint64, answers bool) {
	body := peek(raw, 2)
	return peekNumber(body, 1), body != nil
}

// PeekAsked returns the id of the transaction that is asked about, its chain and its client's
// organisation, without decoding it.
func PeekAsked(a *AgreementAsk) (id TxID, chainID, organisation string) {
	proposal := peek(a.Transaction, 1, 1)
	return TxIDOf(proposal), string(peek(proposal, 1)), string(peek(proposal, 2, 1))
}

// DecodeAsked reads the transaction that is asked about.
func DecodeAsked(a *AgreementAsk) (BundledTx, error) {
	tx, err := DecodeChainedTx(a.Transaction)
	if err == nil && len(tx.Chained.Agreements) > 0 {
		err = fieldErrorf("agreements", "%d of them, want none", len(tx.Chained.Agreements))
	}
	if err != nil {
		return BundledTx{}, fmt.Errorf("agreement ask.%w", err)
	}
	return tx, nil
}

func checkAsk(a *AgreementAsk) error {
	if n := len(a.Asked); n == 0 || n > askedMax {
		return fieldErrorf("agreement ask.asked", "%d of them, want 1 to %d", n, askedMax)
	}
	for i, name := range a.Asked {
		if err := CheckOrganisation(name); err != nil {
			return fmt.Errorf("agreement ask.asked[%d].%w", i, err)
		}
		if i > 0 && a.Asked[i-1] >= name {
			return fieldErrorf(fmt.Sprintf("agreement ask.asked[%d]", i), "not after the one before")
		}
	}
	if len(a.Signature) != signatureBytes {
		return fieldErrorf("agreement ask.signature", "%d bytes, want %d", len(a.Signature), signatureBytes)
	}
	return nil
}

func checkAnswer(a *AgreementAnswer) error {
	if n := len(a.Reason); n > agreementReasonBytesMax {
		return fieldErrorf("agreement answer.reason", "%d bytes, want at most %d", n, agreementReasonBytesMax)
	}
	if err := checkText("agreement answer.reason", a.Reason); err != nil {
		return err
	}
	if a.Agreement == nil {
		return fieldErrorf("agreement answer.agreement", "missing")
	}
	if err := checkAgreement(a.Agreement); err != nil {
		return fmt.Errorf("agreement answer.agreement.%w", err)
	}
	return nil
}
