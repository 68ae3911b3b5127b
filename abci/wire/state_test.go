package wire

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

func stateRequest(body isStateRequest_Body) *StateMessage {
	return &StateMessage{Body: &StateMessage_Request{Request: &StateRequest{Request: 7, Body: body}}}
}

func stateResponse(body isStateResponse_Body) *StateMessage {
	return &StateMessage{Body: &StateMessage_Response{Response: &StateResponse{Request: 7, Body: body}}}
}

func testStateMessages() []*StateMessage {
	hash, signature := make([]byte, 32), make([]byte, 64)
	return []*StateMessage{
		stateRequest(&StateRequest_Open{Open: &StateOpen{Block: 3, Hash: hash, Organisation: "acme", Signature: signature}}),
		stateRequest(&StateRequest_Ranges{Ranges: &StateRangesOf{Table: "public.a", OfBits: 1, OfRanges: []uint32{0, 1}, Bits: 13}}),
		stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Table: "public.a", Bits: 24, Ranges: []uint32{5, 1<<24 - 1}}}),
		stateRequest(&StateRequest_Open{Open: &StateOpen{Block: 3, Hash: hash, Organisation: "acme", Signature: signature, Past: true}}),
		stateRequest(&StateRequest_Block{Block: &StateBlockOf{Block: 3, Hash: hash}}),
		stateRequest(&StateRequest_Next{Next: &StateNext{}}),
		stateRequest(&StateRequest_Close{Close: &StateClose{}}),
		stateResponse(&StateResponse_Tables{Tables: &StateTables{Organisation: "bolt", Tables: []*TableState{{Table: "public.a", Rows: 2, State: hash}}, Signature: signature}}),
		stateResponse(&StateResponse_Digests{Digests: &StateDigests{Ranges: []*RangeDigest{{Range: 1, Rows: 1, Digest: hash}, {Range: 2, Rows: 9, Digest: hash}}}}),
		stateResponse(&StateResponse_Page{Page: &StatePage{Rows: make([]byte, StatePageBytesMax), Last: true}}),
		stateResponse(&StateResponse_Refusal{Refusal: &StateRefusal{Reason: "busy"}}),
	}
}

func TestStateMessagesComeBackAsTheyWent(t *testing.T) {
	for _, m := range testStateMessages() {
		got, err := DecodeStateMessage(Encode(m))
		if err != nil || string(Encode(got)) != string(Encode(m)) {
			t.Errorf("%.100v: %v", m, err)
		}
	}
}

func TestStateMessagesBeyondTheirBoundsAreRefused(t *testing.T) {
	hash := make([]byte, 32)
	for name, m := range map[string]*StateMessage{
		"nothing":                   {},
		"a request for nothing":     stateRequest(nil),
		"an answer with nothing":    stateResponse(nil),
		"a block without number":    stateRequest(&StateRequest_Open{Open: &StateOpen{Hash: hash, Organisation: "a", Signature: make([]byte, 64)}}),
		"a short hash":              stateRequest(&StateRequest_Open{Open: &StateOpen{Block: 1, Hash: hash[1:], Organisation: "a", Signature: make([]byte, 64)}}),
		"no signature":              stateRequest(&StateRequest_Open{Open: &StateOpen{Block: 1, Hash: hash, Organisation: "a"}}),
		"no organisation":           stateRequest(&StateRequest_Open{Open: &StateOpen{Block: 1, Hash: hash, Signature: make([]byte, 64)}}),
		"no block":                  stateRequest(&StateRequest_Block{Block: &StateBlockOf{Hash: hash}}),
		"a block's short hash":      stateRequest(&StateRequest_Block{Block: &StateBlockOf{Block: 1, Hash: hash[1:]}}),
		"no table":                  stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Ranges: []uint32{0}}}),
		"a long table":              stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Table: strings.Repeat("x", 128)}}),
		"ranges not ascending":      stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Table: "a", Bits: 2, Ranges: []uint32{1, 1}}}),
		"a range of more bits":      stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Table: "a", Bits: 2, Ranges: []uint32{4}}}),
		"too many bits":             stateRequest(&StateRequest_Rows{Rows: &StateRowsOf{Table: "a", Bits: 25}}),
		"too many ranges":           stateRequest(&StateRequest_Ranges{Ranges: &StateRangesOf{Table: "a", OfRanges: []uint32{0}, Bits: 14}}),
		"ranges that are not finer": stateRequest(&StateRequest_Ranges{Ranges: &StateRangesOf{Table: "a", OfBits: 3, OfRanges: []uint32{0}, Bits: 2}}),
		"a state of no hash":        stateResponse(&StateResponse_Tables{Tables: &StateTables{Organisation: "a", Tables: []*TableState{{Table: "a"}}, Signature: make([]byte, 64)}}),
		"tables nobody signed":      stateResponse(&StateResponse_Tables{Tables: &StateTables{Organisation: "a"}}),
		"a digest of no rows":       stateResponse(&StateResponse_Digests{Digests: &StateDigests{Ranges: []*RangeDigest{{Digest: hash}}}}),
		"a digest of no hash":       stateResponse(&StateResponse_Digests{Digests: &StateDigests{Ranges: []*RangeDigest{{Rows: 1}}}}),
		"digests not ascending":     stateResponse(&StateResponse_Digests{Digests: &StateDigests{Ranges: []*RangeDigest{{Range: 1, Rows: 1, Digest: hash}, {Rows: 1, Digest: hash}}}}),
		"a long piece":              stateResponse(&StateResponse_Page{Page: &StatePage{Rows: make([]byte, StatePageBytesMax+1)}}),
		"a long reason":             stateResponse(&StateResponse_Refusal{Refusal: &StateRefusal{Reason: strings.Repeat("x", 1001)}}),
	} {
		if _, err := DecodeStateMessage(Encode(m)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A signature is for the node that asks, the node asked, the block and the chain.
func TestAStateIsSignedForOneQuestion(t *testing.T) {
	key := testKey(1)
	public := key.Public().(ed25519.PublicKey)
	open := func(block uint64, first byte) *StateOpen {
		return &StateOpen{Block: block, Hash: append([]byte{first}, make([]byte, 31)...), Organisation: "acme"}
	}
	signed := open(3, 0)
	SignState(key, "chain", "asking", "asked", signed)
	if !VerifyState(public, "chain", "asking", "asked", signed) {
		t.Fatal("not valid")
	}
	other := func(block uint64, first byte) *StateOpen {
		o := open(block, first)
		o.Signature = signed.Signature
		return o
	}
	for name, valid := range map[string]bool{
		"another chain":       VerifyState(public, "other", "asking", "asked", signed),
		"another node asks":   VerifyState(public, "chain", "other", "asked", signed),
		"another node asked":  VerifyState(public, "chain", "asking", "other", signed),
		"another block":       VerifyState(public, "chain", "asking", "asked", other(4, 0)),
		"another hash":        VerifyState(public, "chain", "asking", "asked", other(3, 1)),
		"another's key":       VerifyState(testKey(2).Public().(ed25519.PublicKey), "chain", "asking", "asked", signed),
		"names moved between": VerifyState(public, "chain", "askinga", "sked", signed),
	} {
		if valid {
			t.Errorf("%s: valid", name)
		}
	}
}

// An answer is signed for the question that it answers, and for all that it says.
func TestTablesAreSignedForOneQuestion(t *testing.T) {
	key := testKey(1)
	public := key.Public().(ed25519.PublicKey)
	open := &StateOpen{Block: 3, Hash: make([]byte, 32), Organisation: "acme"}
	told := &StateTables{Organisation: "bolt", Tables: []*TableState{{Table: "public.a", Rows: 2, State: make([]byte, 32)}}}
	if got, want := fmt.Sprintf("%x", tablesSignBytes("chain", "asking", "asked", open, told)), "636861696e6966792f73746174652d7461626c65732f31"+
		"00000005636861696e"+"0000000661736b696e67"+"0000000561736b6564"+"0000000000000003"+strings.Repeat("00", 32)+
		fmt.Sprintf("%x", sha256.Sum256(append([]byte("\x0a\x04bolt\x12\x2e\x0a\x08public.a\x10\x02\x1a\x20"), make([]byte, 32)...))); got != want {
		t.Errorf("signs %s, want %s", got, want)
	}
	SignTables(key, "chain", "asking", "asked", open, told)
	if !VerifyTables(public, "chain", "asking", "asked", open, told) {
		t.Fatal("not valid")
	}
	if VerifyTables(public, "chain", "asked", "asking", open, told) || VerifyTables(public, "chain", "asking", "asked", &StateOpen{Block: 4, Hash: open.Hash}, told) {
		t.Error("valid for another question")
	}
	if told.Tables[0].Rows++; VerifyTables(public, "chain", "asking", "asked", open, told) {
		t.Error("valid for other rows")
	}
}
