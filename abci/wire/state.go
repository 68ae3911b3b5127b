package wire

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Bounds of spec/state-transfer.md.
const (
	StateMessageBytesMax = 1 << 20
	StatePageBytesMax    = 256 << 10
	StateRangesMax       = 8_192
	StateTablesMax       = 16_384
	RangeBitsMax         = 24
	tableNameBytesMax    = 2*NameBytesMax + 1
	refusalBytesMax      = 1_000
)

// StateSignBytes returns what an organisation signs to be told the rows of a block: whose node
// asks, and which it asks.
func StateSignBytes(chainID, asking, asked string, block uint64, hash []byte) []byte {
	out := append([]byte("chainify/state/1"), lp(chainID)...)
	out = append(append(out, lp(asking)...), lp(asked)...)
	return append(binary.BigEndian.AppendUint64(out, block), hash...)
}

// SignState signs a StateOpen with the gateway key of its organisation.
func SignState(key crypto.Signer, chainID, asking, asked string, o *StateOpen) (err error) {
	o.Signature, err = Sign(key, StateSignBytes(chainID, asking, asked, o.Block, o.Hash))
	return err
}

// VerifyState reports whether the gateway key signed the request for these nodes, by the same rule
// as votes.
func VerifyState(key ed25519.PublicKey, chainID, asking, asked string, o *StateOpen) bool {
	return VerifyVote(key, StateSignBytes(chainID, asking, asked, o.Block, o.Hash), o.Signature)
}

// tablesSignBytes returns the bytes that an organisation signs when it sends its tables. They name
// the asking node and its question.
func tablesSignBytes(chainID, asking, asked string, o *StateOpen, t *StateTables) []byte {
	told := sha256.Sum256(Encode(&StateTables{Organisation: t.Organisation, Tables: t.Tables}))
	out := append([]byte("chainify/state-tables/1"), lp(chainID)...)
	out = append(append(out, lp(asking)...), lp(asked)...)
	return append(append(binary.BigEndian.AppendUint64(out, o.Block), o.Hash...), told[:]...)
}

// SignTables signs the answer to a StateOpen with the gateway key of the organisation that tells.
func SignTables(key crypto.Signer, chainID, asking, asked string, o *StateOpen, t *StateTables) (err error) {
	t.Signature, err = Sign(key, tablesSignBytes(chainID, asking, asked, o, t))
	return err
}

// VerifyTables reports whether the gateway key signed the answer, by the same rule as votes.
func VerifyTables(key ed25519.PublicKey, chainID, asking, asked string, o *StateOpen, t *StateTables) bool {
	return VerifyVote(key, tablesSignBytes(chainID, asking, asked, o, t), t.Signature)
}

// StateHead is what stands at the beginning of a message, read without decoding it.
type StateHead struct {
	Asks, Answers, Opens, Closes bool
	Request                      uint64
}

// PeekState reads the head of a message, whatever follows.
func PeekState(raw []byte) StateHead {
	if body := peek(raw, 2); body != nil {
		return StateHead{Answers: true, Request: peekNumber(body, 1)}
	}
	body := peek(raw, 1)
	return StateHead{Asks: body != nil, Opens: peek(body, 2) != nil, Closes: peek(body, 6) != nil, Request: peekNumber(body, 1)}
}

// DecodeStateMessage reads a message of another node, and checks every count and length in it.
func DecodeStateMessage(raw []byte) (*StateMessage, error) {
	m := &StateMessage{}
	if err := decodeStrict("state message", raw, StateMessageBytesMax, stateShape, m); err != nil {
		return nil, err
	}
	switch body := m.Body.(type) {
	case *StateMessage_Request:
		return m, checkStateRequest(body.Request)
	case *StateMessage_Response:
		return m, checkStateResponse(body.Response)
	default:
		return nil, fieldErrorf("state message", "neither asks nor answers")
	}
}

func checkStateRequest(r *StateRequest) error {
	switch body := r.Body.(type) {
	case *StateRequest_Open:
		o := body.Open
		if len(o.Hash) != len(Hash{}) || len(o.Signature) != signatureBytes || o.Block == 0 || o.Block > 1<<62 {
			return fieldErrorf("state open", "block %d, hash of %d bytes, signature of %d bytes", o.Block, len(o.Hash), len(o.Signature))
		}
		if err := CheckOrganisation(o.Organisation); err != nil {
			return fmt.Errorf("state open.%w", err)
		}
	case *StateRequest_Ranges:
		q := body.Ranges
		if err := checkRanges("state ranges", q.Table, q.OfBits, q.OfRanges); err != nil {
			return err
		}
		if q.Bits < q.OfBits || q.Bits > RangeBitsMax || uint64(len(q.OfRanges))<<(q.Bits-q.OfBits) > StateRangesMax {
			return fieldErrorf("state ranges.bits", "%d within %d ranges of %d bits, want at most %d ranges", q.Bits, len(q.OfRanges), q.OfBits, StateRangesMax)
		}
	case *StateRequest_Rows:
		return checkRanges("state rows", body.Rows.Table, body.Rows.Bits, body.Rows.Ranges)
	case *StateRequest_Block:
		if q := body.Block; len(q.Hash) != len(Hash{}) || q.Block == 0 || q.Block > 1<<62 {
			return fieldErrorf("state block", "block %d, hash of %d bytes", q.Block, len(q.Hash))
		}
	case *StateRequest_Next, *StateRequest_Close, *StateRequest_Foundation:
	default:
		return fieldErrorf("state request", "asks for nothing")
	}
	return nil
}

func checkRanges(field, table string, bits uint32, ranges []uint32) error {
	if err := checkTable(field, table); err != nil {
		return err
	}
	if bits > RangeBitsMax || len(ranges) > StateRangesMax {
		return fieldErrorf(field+".ranges", "%d ranges of %d bits, want at most %d of %d", len(ranges), bits, StateRangesMax, RangeBitsMax)
	}
	return checkAscending(field, bits, len(ranges), func(i int) uint32 { return ranges[i] })
}

func checkTable(field, table string) error {
	if len(table) == 0 || len(table) > tableNameBytesMax {
		return fieldErrorf(field+".table", "%d bytes, want 1 to %d", len(table), tableNameBytesMax)
	}
	return checkText(field+".table", table)
}

func checkAscending(field string, bits uint32, count int, rangeAt func(int) uint32) error {
	for i := range count {
		if r := rangeAt(i); r>>bits != 0 || i > 0 && r <= rangeAt(i-1) {
			return fieldErrorf(fmt.Sprintf("%s.ranges[%d]", field, i), "%d is not after the one before and of %d bits", r, bits)
		}
	}
	return nil
}

func checkStateResponse(r *StateResponse) error {
	switch body := r.Body.(type) {
	case *StateResponse_Tables:
		if err := CheckOrganisation(body.Tables.Organisation); err != nil {
			return fmt.Errorf("state tables.%w", err)
		}
		if n := len(body.Tables.Signature); n != signatureBytes {
			return fieldErrorf("state tables.signature", "%d bytes, want %d", n, signatureBytes)
		}
		for i, t := range body.Tables.Tables {
			field := fmt.Sprintf("state tables[%d]", i)
			if err := checkTable(field, t.Table); err != nil {
				return err
			}
			if len(t.State) != len(Hash{}) || t.Rows > 1<<62 {
				return fieldErrorf(field, "%d rows, state of %d bytes", t.Rows, len(t.State))
			}
		}
	case *StateResponse_Digests:
		list := body.Digests.Ranges
		for i, d := range list {
			if len(d.Digest) != len(Hash{}) || d.Rows == 0 || d.Rows > 1<<62 {
				return fieldErrorf(fmt.Sprintf("state digests[%d]", i), "%d rows, digest of %d bytes", d.Rows, len(d.Digest))
			}
		}
		return checkAscending("state digests", RangeBitsMax, len(list), func(i int) uint32 { return list[i].Range })
	case *StateResponse_Page:
		if n := len(body.Page.Rows); n > StatePageBytesMax {
			return fieldErrorf("state page", "%d bytes, want at most %d", n, StatePageBytesMax)
		}
	case *StateResponse_Refusal:
		if n := len(body.Refusal.Reason); n > refusalBytesMax {
			return fieldErrorf("state refusal", "%d bytes, want at most %d", n, refusalBytesMax)
		}
	default:
		return fieldErrorf("state response", "answers nothing")
	}
	return nil
}
