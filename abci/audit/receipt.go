package audit

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Version is that of the format.
const Version = 1

// Bounds of what is read (spec/receipt.md).
const (
	BytesMax     = 64 << 20
	pathMax      = 64
	addressBytes = 20
)

// Receipt is a receipt, or a digest, which has neither transaction nor change, as read: nothing in
// it is checked but its form.
type Receipt struct {
	Version     int          `json:"chainify_receipt"`
	ChainID     string       `json:"chain_id"`
	Block       Block        `json:"block"`
	Hash        hash         `json:"hash"`
	Certificate Certificate  `json:"certificate"`
	Transaction *Transaction `json:"transaction,omitempty"`
	Change      *Change      `json:"change,omitempty"`
}

// Block is the header of a LedgerBlock.
type Block struct {
	Number       uint64   `json:"number"`
	OrderHeight  uint64   `json:"order_height"`
	BlockTime    int64    `json:"block_time"` // microseconds since the Unix epoch
	TxRoot       hash     `json:"tx_root"`
	TxCount      uint32   `json:"tx_count"`
	Outcomes     hexBytes `json:"outcomes"`
	EffectsRoot  hash     `json:"effects_root"`
	EffectsCount uint32   `json:"effects_count"`
	StateRoot    hash     `json:"state_root"`
	Previous     hash     `json:"previous"`
}

// Certificate is the votes that certified the block.
type Certificate struct {
	EffectRound uint32 `json:"effect_round"`
	Votes       []Vote `json:"votes"`
}

// Vote is one organisation's.
type Vote struct {
	Organisation string   `json:"organisation"`
	Validator    hexBytes `json:"validator"`
	Height       int64    `json:"height"`
	Round        int32    `json:"round"`
	Extension    hexBytes `json:"extension"`
	Signature    hexBytes `json:"signature"`
}

// Transaction is a transaction of the block.
type Transaction struct {
	Index   uint32   `json:"index"`
	ID      hash     `json:"id"`
	Outcome bool     `json:"outcome"`
	Body    hexBytes `json:"body"` // ChainedTx
	Path    []hash   `json:"path"`
}

// Change is a change of a row by the transaction.
type Change struct {
	Table  string   `json:"table"`
	Key    hexBytes `json:"key"`
	Row    hexBytes `json:"row"` // after the change, or before a deletion
	Serial uint32   `json:"serial"`
	Op     string   `json:"op"`
	Leaf   uint32   `json:"leaf"`
	Path   []hash   `json:"path"`
}

// SetPath sets a path, the hashes from the leaf up.
func SetPath(path *[]hash, hashes []wire.Hash) {
	*path = make([]hash, len(hashes))
	for i, h := range hashes {
		(*path)[i] = hash(h)
	}
}

// Parse reads a receipt or digest. Errors name the field; fields that there are none of are errors.
func Parse(text []byte) (*Receipt, error) {
	r := &Receipt{}
	if err := read(text, r); err != nil {
		return nil, err
	}
	if err := r.checkForm(); err != nil {
		return nil, err
	}
	return r, checkSpelling(r, text)
}

// read reads one JSON document that has no fields that there are none of.
func read(text []byte, into any) error {
	if len(text) > BytesMax {
		return fmt.Errorf("%d bytes, want at most %d", len(text), BytesMax)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return explain(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more text after its end")
	}
	return nil
}

func explain(err error) error {
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) && typ.Field != "" {
		return fmt.Errorf("%s: no value of this field", typ.Field)
	}
	return err
}

// checkSpelling compares a text with what was read of it: whatever was left out, is null, or is
// spelt otherwise than in lower-case hexadecimal of the right length differs.
func checkSpelling(was any, text []byte) error {
	again, err := json.Marshal(was)
	if err != nil {
		return err
	}
	given, err := generic(text)
	if err != nil {
		return err
	}
	written, err := generic(again)
	if err != nil {
		return err
	}
	if field := difference("", given, written); field != "" {
		return fmt.Errorf("%s: missing, or no value of this field", field)
	}
	return nil
}

func generic(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// difference returns the first place, by name, at which two JSON documents differ.
func difference(at string, given, read any) string {
	switch read := read.(type) {
	case map[string]any:
		given, ok := given.(map[string]any)
		if !ok {
			return at
		}
		for _, name := range slices.Sorted(maps.Keys(read)) {
			field := strings.TrimPrefix(at+"."+name, ".")
			value, there := given[name]
			if !there {
				return field
			}
			if where := difference(field, value, read[name]); where != "" {
				return where
			}
		}
		if len(given) != len(read) {
			return cmp.Or(at, "receipt")
		}
	case []any:
		given, ok := given.([]any)
		if !ok || len(given) != len(read) {
			return at
		}
		for i := range read {
			if where := difference(fmt.Sprintf("%s[%d]", at, i), given[i], read[i]); where != "" {
				return where
			}
		}
	default:
		if given != read || given == nil {
			return at
		}
	}
	return ""
}

func (r *Receipt) checkForm() error {
	if r.Version != Version {
		return fmt.Errorf("chainify_receipt: version %d, want %d", r.Version, Version)
	}
	if n := len(r.Certificate.Votes); n > wire.CertificateVotesMax {
		return fmt.Errorf("certificate.votes: %d of them, want at most %d", n, wire.CertificateVotesMax)
	}
	if t := r.Transaction; t != nil && len(t.Path) > pathMax {
		return fmt.Errorf("transaction.path: %d hashes, want at most %d", len(t.Path), pathMax)
	}
	if c := r.Change; c != nil {
		if len(c.Path) > pathMax {
			return fmt.Errorf("change.path: %d hashes, want at most %d", len(c.Path), pathMax)
		}
		if c.Op != "I" && c.Op != "U" && c.Op != "D" {
			return fmt.Errorf("change.op: %q is none of I, U, D", c.Op)
		}
	}
	return nil
}

func (b *Block) header(chainID string) (*wire.Header, error) {
	outcomes, err := wire.DecodeOutcomes(b.TxCount, b.Outcomes)
	if err != nil {
		return nil, err
	}
	h := &wire.Header{
		ChainID: chainID, Number: b.Number, OrderHeight: b.OrderHeight, BlockTime: b.BlockTime, TxRoot: wire.Hash(b.TxRoot), Outcomes: outcomes,
		EffectsRoot: wire.Hash(b.EffectsRoot), EffectsCount: b.EffectsCount, StateRoot: wire.Hash(b.StateRoot), Previous: wire.Hash(b.Previous),
	}
	_, err = wire.DecodeHeader(h.Encode())
	return h, err
}

// hash is 32 bytes in hexadecimal.
type hash wire.Hash

// UnmarshalText implements encoding.TextUnmarshaler. Bytes that are no hash are read as zeros,
// which checkSpelling tells.
func (h *hash) UnmarshalText(text []byte) error {
	*h = hash{}
	if hex.DecodedLen(len(text)) == len(h) {
		_, _ = hex.Decode(h[:], text)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// hexBytes is bytes in hexadecimal.
type hexBytes []byte

// UnmarshalText implements encoding.TextUnmarshaler. Text that is not hexadecimal is read as no
// bytes, which checkSpelling tells.
func (b *hexBytes) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if *b = raw; err != nil {
		*b = nil
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (b hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }
