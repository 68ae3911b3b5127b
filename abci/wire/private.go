package wire

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
)

// Bounds of spec/private.md.
const (
	// SealedMax bounds the sealed values of a request, and of a message between nodes.
	SealedMax = 10_000
	// SealedBytesMax bounds the values of one transaction, without names and salts.
	SealedBytesMax = 1 << 20
	// PrivateMessageBytesMax bounds a message between nodes: values of a transaction, with names.
	PrivateMessageBytesMax = 8 << 20

	saltBytes           = 32
	sealedTypeBytesMax  = 255
	privateRefusalBytes = 1_000
)

var privateShape = shape{
	{1, "values", 0, shape{{5, "values", SealedMax, nil}}},
	{2, "held", 0, shape{}},
	{3, "ask", 0, shape{{3, "names", SealedMax, nil}}},
	{4, "give", 0, shape{{2, "values", SealedMax, nil}}},
}

// CheckSealed refuses values that break the format. It does not compute their commitments.
func CheckSealed(values []*SealedValue) error {
	if n := len(values); n > SealedMax {
		return fieldErrorf("sealed", "%d of them, want at most %d", n, SealedMax)
	}
	bytes := 0
	for i, v := range values {
		if err := checkSealed(v); err != nil {
			return fmt.Errorf("sealed[%d].%w", i, err)
		}
		bytes += len(v.Value)
	}
	if bytes > SealedBytesMax {
		return fieldErrorf("sealed", "values of %d bytes, want at most %d", bytes, SealedBytesMax)
	}
	return nil
}

func checkSealed(v *SealedValue) error {
	if err := checkCell(v.Table, v.Column, v.Commitment); err != nil {
		return err
	}
	if n := len(v.Type); n == 0 || n > sealedTypeBytesMax {
		return fieldErrorf("type", "%d bytes, want 1 to %d", n, sealedTypeBytesMax)
	}
	if n := len(v.Salt); n != saltBytes {
		return fieldErrorf("salt", "%d bytes, want %d", n, saltBytes)
	}
	if len(v.Value) == 0 {
		return fieldErrorf("value", "empty")
	}
	return checkText("type", v.Type)
}

func checkCell(table, column string, commitment []byte) error {
	if n := len(commitment); n != len(Hash{}) {
		return fieldErrorf("commitment", "%d bytes, want %d", n, len(Hash{}))
	}
	if n := len(table); n == 0 || n > tableNameBytesMax {
		return fieldErrorf("table", "%d bytes, want 1 to %d", n, tableNameBytesMax)
	}
	if n := len(column); n == 0 || n > NameBytesMax {
		return fieldErrorf("column", "%d bytes, want 1 to %d", n, NameBytesMax)
	}
	if err := checkText("table", table); err != nil {
		return err
	}
	return checkText("column", column)
}

// DecodePrivateMessage reads a message of another node about private values. Signatures and
// commitments are left to the caller.
func DecodePrivateMessage(raw []byte) (*PrivateMessage, error) {
	m := &PrivateMessage{}
	if err := decodeStrict("private message", raw, PrivateMessageBytesMax, privateShape, m); err != nil {
		return nil, err
	}
	var err error
	switch body := m.Body.(type) {
	case *PrivateMessage_Values:
		err = checkPrivateValues(body.Values)
	case *PrivateMessage_Held:
		err = checkHeld(body.Held)
	case *PrivateMessage_Ask:
		err = checkPrivateAsk(body.Ask)
	case *PrivateMessage_Give:
		err = CheckSealed(body.Give.Values)
	default:
		err = fieldErrorf("body", "missing")
	}
	if err != nil {
		return nil, fmt.Errorf("private message.%w", err)
	}
	return m, nil
}

// PeekPrivateAnswer returns the number of the request that a message answers, false when it is no
// answer.
func PeekPrivateAnswer(raw []byte) (request uint64, answers bool) {
	body := peek(raw, 2)
	if body == nil {
		body = peek(raw, 4)
	}
	return peekNumber(body, 1), body != nil
}

func checkPrivateValues(v *PrivateValues) error {
	if len(v.Values) == 0 {
		return fieldErrorf("values", "none")
	}
	if err := checkSigned(v.Organisation, v.Signature); err != nil {
		return err
	}
	if n := len(v.Transaction); n != len(TxID{}) {
		return fieldErrorf("transaction", "%d bytes, want %d", n, len(TxID{}))
	}
	return CheckSealed(v.Values)
}

func checkHeld(h *PrivateHeld) error {
	if n := len(h.Transaction); n != len(TxID{}) {
		return fieldErrorf("transaction", "%d bytes, want %d", n, len(TxID{}))
	}
	if n := len(h.Refusal); n > privateRefusalBytes {
		return fieldErrorf("refusal", "%d bytes, want at most %d", n, privateRefusalBytes)
	}
	if err := checkText("refusal", h.Refusal); err != nil {
		return err
	}
	return checkSigned(h.Organisation, h.Signature)
}

func checkPrivateAsk(a *PrivateAsk) error {
	if len(a.Names) == 0 {
		return fieldErrorf("names", "none")
	}
	for i, name := range a.Names {
		if err := checkCell(name.Table, name.Column, name.Commitment); err != nil {
			return fmt.Errorf("names[%d].%w", i, err)
		}
	}
	return checkSigned(a.Organisation, a.Signature)
}

func checkSigned(organisation string, signature []byte) error {
	if n := len(signature); n != signatureBytes {
		return fieldErrorf("signature", "%d bytes, want %d", n, signatureBytes)
	}
	return CheckOrganisation(organisation)
}

// privateSignBytes returns what an organisation signs, for one node to send another:
// label ‖ lp(chain_id) ‖ lp(id of the sending node) ‖ lp(id of the receiving node) ‖ SHA-256 of
// the message's body without its signature.
func privateSignBytes(label, chainID, from, to string, unsigned []byte) []byte {
	of := sha256.Sum256(unsigned)
	out := append([]byte(label), lp(chainID)...)
	return append(append(append(out, lp(from)...), lp(to)...), of[:]...)
}

// PrivateSigned is a message about private values that an organisation signs with its gateway key.
type PrivateSigned interface {
	GetOrganisation() string
	signature() *[]byte
	signBytes(chainID, from, to string) []byte
}

func (v *PrivateValues) signature() *[]byte { return &v.Signature }
func (h *PrivateHeld) signature() *[]byte   { return &h.Signature }
func (a *PrivateAsk) signature() *[]byte    { return &a.Signature }

func (v *PrivateValues) signBytes(chainID, from, to string) []byte {
	return privateSignBytes("chainify/private-values/1", chainID, from, to, Encode(&PrivateValues{
		Request: v.Request, Organisation: v.Organisation, Transaction: v.Transaction, ValidUntilHeight: v.ValidUntilHeight, Values: v.Values,
	}))
}

func (h *PrivateHeld) signBytes(chainID, from, to string) []byte {
	return privateSignBytes("chainify/private-held/1", chainID, from, to, Encode(&PrivateHeld{
		Request: h.Request, Organisation: h.Organisation, Transaction: h.Transaction, Refusal: h.Refusal,
	}))
}

func (a *PrivateAsk) signBytes(chainID, from, to string) []byte {
	return privateSignBytes("chainify/private-ask/1", chainID, from, to, Encode(&PrivateAsk{Request: a.Request, Organisation: a.Organisation, Names: a.Names}))
}

// SignPrivate signs a message from one node to another.
func SignPrivate(key crypto.Signer, chainID, from, to string, m PrivateSigned) (err error) {
	*m.signature(), err = Sign(key, m.signBytes(chainID, from, to))
	return err
}

// VerifyPrivate reports whether the gateway key signed the message for these nodes, by the same
// rule as votes.
func VerifyPrivate(key ed25519.PublicKey, chainID, from, to string, m PrivateSigned) bool {
	return VerifyVote(key, m.signBytes(chainID, from, to), *m.signature())
}

// WithCommitments gives each value of 32 bytes that a change of the write set puts into a table,
// which may be a commitment, until each returns false. Cost: linear.
func (s *WriteSet) WithCommitments(each func(table string, commitment Hash) bool) {
	for i := range s.Changes {
		c := &s.Changes[i]
		table := s.Tables[c.Table]
		tell := func(value []byte) bool {
			const head = 5 // tag and length
			return len(value) != head+len(Hash{}) || each(table, Hash(value[head:]))
		}
		switch c.Op {
		case 'I':
			r := reader{rest: c.Row}
			for range r.u16("row") {
				r.u16("row")
				if value := r.value("row", false); r.err != nil || !tell(value) {
					return
				}
			}
		case 'U':
			for _, cell := range c.Cells {
				if !tell(cell.Value) {
					return
				}
			}
		}
	}
}

// DecodePrivateKept reads values of a transaction as a node keeps them, unsigned.
func DecodePrivateKept(raw []byte) (*PrivateValues, error) {
	m := &PrivateValues{}
	if err := decodeStrict("private values", raw, PrivateMessageBytesMax, shape{{5, "values", SealedMax, nil}}, m); err != nil {
		return nil, err
	}
	if len(m.Transaction) != len(TxID{}) {
		return nil, fieldErrorf("private values.transaction", "%d bytes, want %d", len(m.Transaction), len(TxID{}))
	}
	return m, CheckSealed(m.Values)
}

// Deploys reports whether a block's transactions have one of kind DEPLOY. Cost: a few fields of
// each.
func Deploys(transactions []byte) bool {
	const kindField = 5
	all, err := SplitTransactions(transactions)
	return err == nil && slices.ContainsFunc(all, func(raw []byte) bool {
		return peekNumber(peek(raw, 1, 1), kindField) == uint64(Kind_KIND_DEPLOY)
	})
}
