package wire

import (
	"bytes"
	"encoding/binary"
)

const headerDomain = "chainify/ledger-block/1"

// Header is the header of a LedgerBlock; its hash is the LedgerBlockHash (spec/formats.md,
// "LedgerBlock").
type Header struct {
	ChainID      string
	Number       uint64
	OrderHeight  uint64
	BlockTime    int64 // microseconds since the Unix epoch
	TxRoot       Hash
	Outcomes     Outcomes
	EffectsRoot  Hash
	EffectsCount uint32
	StateRoot    Hash
	Previous     Hash
}

// Outcomes holds one bit for each transaction of a ledger block: whether it succeeded.
type Outcomes struct {
	count uint32
	bits  []byte
}

// NewOutcomes returns the outcomes of a block in which nothing succeeded yet.
func NewOutcomes(count uint32) Outcomes {
	return Outcomes{count: count, bits: make([]byte, (uint64(count)+7)/8)}
}

// DecodeOutcomes reads a bitmap for count transactions; unused bits must be 0.
func DecodeOutcomes(count uint32, raw []byte) (Outcomes, error) {
	if want := (uint64(count) + 7) / 8; uint64(len(raw)) != want {
		return Outcomes{}, fieldErrorf("outcomes", "%d bytes, want %d", len(raw), want)
	}
	if used := count % 8; used != 0 && raw[len(raw)-1]>>used != 0 {
		return Outcomes{}, fieldErrorf("outcomes", "unused bits are set")
	}
	return Outcomes{count: count, bits: bytes.Clone(raw)}, nil
}

// Len returns the number of transactions.
func (o Outcomes) Len() uint32 { return o.count }

// Set marks transaction i as succeeded.
func (o Outcomes) Set(i uint32) { o.bits[i/8] |= 1 << (i % 8) }

// Succeeded reports whether transaction i succeeded.
func (o Outcomes) Succeeded(i uint32) bool { return o.bits[i/8]&(1<<(i%8)) != 0 }

// Bytes returns the bitmap: transaction i is bit 1 << (i mod 8) of byte i/8.
func (o Outcomes) Bytes() []byte { return o.bits }

// Encode returns the bytes that are hashed.
func (h *Header) Encode() []byte {
	out := append(make([]byte, 0, 320+len(h.Outcomes.bits)), headerDomain...)
	out = append(out, lp(h.ChainID)...)
	out = binary.BigEndian.AppendUint64(out, h.Number)
	out = binary.BigEndian.AppendUint64(out, h.OrderHeight)
	out = binary.BigEndian.AppendUint64(out, uint64(h.BlockTime))
	out = append(out, h.TxRoot[:]...)
	out = binary.BigEndian.AppendUint32(out, h.Outcomes.count)
	out = append(out, h.Outcomes.bits...)
	out = append(out, h.EffectsRoot[:]...)
	out = binary.BigEndian.AppendUint32(out, h.EffectsCount)
	out = append(out, h.StateRoot[:]...)
	return append(out, h.Previous[:]...)
}

// Hash returns the LedgerBlockHash.
func (h *Header) Hash() Hash { return HeaderHash(h.Encode()) }

// HeaderHash returns the LedgerBlockHash of encoded header bytes.
func HeaderHash(header []byte) Hash { return hashOf("", header) }

// DecodeHeader reads header bytes; encoding the result gives them again.
func DecodeHeader(raw []byte) (*Header, error) {
	r := reader{rest: raw}
	if string(r.take("domain", len(headerDomain))) != headerDomain {
		r.fail("domain", "want %q", headerDomain)
	}
	h := &Header{}
	h.ChainID = string(r.take("chain_id", r.length("chain_id", ChainIDBytesMax)))
	h.Number = r.u64("number")
	h.OrderHeight = r.u64("order_height")
	h.BlockTime = int64(r.u64("block_time"))
	h.TxRoot = r.hash("tx_root")
	count := r.u32("tx_count")
	bits := r.take("outcomes", int((uint64(count)+7)/8))
	h.EffectsRoot = r.hash("effects_root")
	h.EffectsCount = r.u32("effects_count")
	h.StateRoot = r.hash("state_root")
	h.Previous = r.hash("previous")
	r.end("end")
	if r.err != nil {
		r.within("header")
		return nil, r.err
	}
	var err error
	if h.Outcomes, err = DecodeOutcomes(count, bits); err != nil {
		return nil, err
	}
	return h, h.check()
}

func (h *Header) check() error {
	if err := CheckChainID(h.ChainID); err != nil {
		return err
	}
	if h.Number == 0 {
		return fieldErrorf("header.number", "0, want 1 or more")
	}
	if h.Number == 1 && h.Previous != (Hash{}) {
		return fieldErrorf("header.previous", "not zeros, though block 1 is the first")
	}
	if h.Outcomes.count == 0 {
		return fieldErrorf("header.tx_count", "0, want 1 or more")
	}
	if h.Number == 1 && h.Previous != (Hash{}) {
		return fieldErrorf("header.previous", "not zeros for block 1")
	}
	return nil
}
