package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// Each target states what holds for every input: no panic, and what is accepted has one spelling
// only.

func FuzzDecodeOrderedTx(f *testing.F) {
	f.Add(SignBundle(testKey(1), testBundle()))
	f.Add(Encode(&OrderedTx{Body: &OrderedTx_Certificate{Certificate: &EffectCertificate{Block: 1, Votes: []*ExtendedVote{testExtendedVote()}}}}))
	f.Add(Encode(&OrderedTx{Body: &OrderedTx_Governance{Governance: signedChange(testChange(), "acme", "bolt")}}))
	f.Add(Encode(&OrderedTx{Body: &OrderedTx_Client{Client: made(SignClientChange(testKey(1), testClientChange()))}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tx, err := DecodeOrderedTx(raw); err == nil && !bytes.Equal(Encode(tx), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(tx))
		}
	})
}

func FuzzDecodeBundle(f *testing.F) {
	f.Add(Encode(testBundle()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bundle, txs, err := DecodeBundle(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(Encode(bundle), raw) || len(txs) != len(bundle.Transactions) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(bundle))
		}
		for i, tx := range txs {
			if again, err := DecodeChainedTx(tx.Raw); err != nil || again.ID != tx.ID {
				t.Errorf("transaction %d: alone %+v, %v", i, again, err)
			}
		}
	})
}

func FuzzDecodeChainedTx(f *testing.F) {
	f.Add(Encode(chain(testProposal())))
	for _, tx := range signTogether(f, testKey(1), 3, 0) {
		f.Add(Encode(tx.Chained))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tx, err := DecodeChainedTx(raw); err == nil && !bytes.Equal(Encode(tx.Chained), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(tx.Chained))
		}
	})
}

func FuzzDecodeProposal(f *testing.F) {
	f.Add(Encode(testProposal()))
	effects := testProposal()
	effects.Kind, effects.Sql, effects.Parameters, effects.Effects = Kind_KIND_EFFECTS, "", nil, testWriteSet().Encode()
	f.Add(Encode(effects))
	f.Add(Encode(testPlan()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, err := DecodeProposal(raw); err == nil && !bytes.Equal(Encode(p), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(p))
		}
	})
}

func FuzzDecodeEffectVote(f *testing.F) {
	f.Add(NewEffectsVote(Key{Number: 1}, "acme", Hash{1}).Encode())
	f.Add(NewStuckVote(Key{Number: 1}, 3).Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := DecodeEffectVote(raw); err == nil && !bytes.Equal(v.Encode(), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, v.Encode())
		}
	})
}

func FuzzDecodeHeader(f *testing.F) {
	h := &Header{ChainID: "bank", Number: 2, OrderHeight: 3, Outcomes: NewOutcomes(9)}
	f.Add(h.Encode())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if h, err := DecodeHeader(raw); err == nil && !bytes.Equal(h.Encode(), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, h.Encode())
		}
	})
}

func FuzzSplitTransactions(f *testing.F) {
	f.Add(EncodeTransactions([][]byte{{1}, {}, {2, 3}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if txs, err := SplitTransactions(raw); err == nil && !bytes.Equal(EncodeTransactions(txs), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, EncodeTransactions(txs))
		}
	})
}

func FuzzNodeMessages(f *testing.F) {
	for _, m := range []proto.Message{
		&NodeRequest{Request: 1, Body: &NodeRequest_Status{Status: &StatusRequest{}}},
		&NodeRequest{Request: 2, Body: &NodeRequest_Submit{Submit: &SubmitRequest{Role: "a", Statements: []*Statement{{Kind: Kind_KIND_SQL, Sql: "b"}}}}},
		&NodeRequest{Request: 3, Body: &NodeRequest_SubmitSigned{SubmitSigned: &SubmitSignedRequest{Proposals: []*SignedProposal{SignProposal(testKey(1), testProposal())}}}},
		&NodeRequest{Request: 4, Body: &NodeRequest_Governance{Governance: &GovernanceRequest{Change: signedChange(testChange(), "acme")}}},
		&NodeRequest{Request: 5, Body: &NodeRequest_Client{Client: &ClientChangeRequest{Change: made(SignClientChange(testKey(1), testClientChange()))}}},
		&NodeResponse{Request: 6, Body: &NodeResponse_Wait{Wait: &WaitResponse{Outcomes: []*Outcome{{Id: make([]byte, 32), Block: 1}}}}},
	} {
		var frame bytes.Buffer
		if err := WriteMessage(&frame, m); err != nil {
			f.Fatal(err)
		}
		f.Add(frame.Bytes())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		message, err := ReadFrame(bytes.NewReader(raw))
		if err != nil {
			return
		}
		if m, err := DecodeNodeRequest(message); err == nil && !bytes.Equal(Encode(m), message) {
			t.Errorf("request %x is accepted and encodes as %x", message, Encode(m))
		}
		if m, err := DecodeNodeResponse(message); err == nil && !bytes.Equal(Encode(m), message) {
			t.Errorf("response %x is accepted and encodes as %x", message, Encode(m))
		}
	})
}

func FuzzDecodeStateMessage(f *testing.F) {
	for _, m := range testStateMessages()[:7] {
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := DecodeStateMessage(raw); err == nil && !bytes.Equal(Encode(m), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(m))
		}
	})
}

func FuzzDecodeAgreementMessage(f *testing.F) {
	tx := Encode(chain(testProposal()))
	f.Add(Encode(&AgreementMessage{Body: &AgreementMessage_Ask{Ask: &AgreementAsk{Request: 1, Asked: []string{"a", "b"}, Transaction: tx, Signature: make([]byte, 64)}}}))
	f.Add(Encode(&AgreementMessage{Body: &AgreementMessage_Answer{Answer: &AgreementAnswer{Request: 1, Agreement: made(Answer(testKey(1), "a", "c", TxID{}, true)), Reason: "no"}}}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := DecodeAgreementMessage(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(Encode(m), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(m))
		}
		if m.GetAsk() == nil {
			return
		}
		id, chainID, organisation := PeekAsked(m.GetAsk())
		if tx, err := DecodeAsked(m.GetAsk()); err == nil && (tx.ID != id || tx.Proposal.ChainId != chainID || tx.Proposal.Client.Organisation != organisation) {
			t.Errorf("%x is asked about as %x of %q on %q", raw, id, organisation, chainID)
		}
	})
}

func FuzzWriteSet(f *testing.F) {
	f.Add(testWriteSet().Encode())
	few := testWriteSet()
	few.Isolation, few.Reads = ReadCommitted, nil
	f.Add(few.Encode())
	var v struct {
		Refused []struct{ Encoded hexBytes }
	}
	if raw, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", "write_sets.json")); err != nil || json.Unmarshal(raw, &v) != nil {
		f.Fatal(err)
	}
	for _, c := range v.Refused {
		f.Add([]byte(c.Encoded))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := DecodeWriteSet(raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "effects") {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, s.Encode())
		}
		if n := len(s.Tables); n < 1 || n > WriteSetTablesMax || len(s.Reads) > WriteSetReadsMax || len(s.Reads) > 0 && s.Isolation != Serializable {
			t.Errorf("%x is accepted with %d tables and %d reads", raw, n, len(s.Reads))
		}
		if !slices.IsSortedFunc(s.Tables, strings.Compare) || !slices.IsSortedFunc(s.Seen, func(a, b RowSeen) int {
			return cmp.Or(cmp.Compare(a.Table, b.Table), bytes.Compare(a.Key, b.Key))
		}) {
			t.Errorf("%x is accepted out of order", raw)
		}
		for _, c := range s.Changes {
			if int(c.Table) >= len(s.Tables) || (len(c.Cells) > 0) != (c.Op == 'U') {
				t.Errorf("%x is accepted with %+v", raw, c)
			}
		}
	})
}

func FuzzDecodePrivateMessage(f *testing.F) {
	value := &SealedValue{Commitment: make([]byte, 32), Table: "public.t", Column: "c", Type: "text", Salt: make([]byte, 32), Value: []byte{5}}
	id, signature := make([]byte, 32), make([]byte, 64)
	for _, m := range []*PrivateMessage{
		{Body: &PrivateMessage_Values{Values: &PrivateValues{Request: 1, Organisation: "acme", Transaction: id, ValidUntilHeight: 9, Values: []*SealedValue{value}, Signature: signature}}},
		{Body: &PrivateMessage_Held{Held: &PrivateHeld{Request: 1, Organisation: "acme", Transaction: id, Refusal: "no", Signature: signature}}},
		{Body: &PrivateMessage_Ask{Ask: &PrivateAsk{Request: 1, Organisation: "acme", Names: []*SealedName{{Table: "public.t", Column: "c", Commitment: id}}, Signature: signature}}},
		{Body: &PrivateMessage_Give{Give: &PrivateGive{Request: 1, Values: []*SealedValue{value}}}},
	} {
		if _, err := DecodePrivateMessage(Encode(m)); err != nil {
			f.Fatal(err)
		}
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := DecodePrivateMessage(raw)
		if err == nil && !bytes.Equal(Encode(m), raw) {
			t.Errorf("%x is accepted and encodes as %x", raw, Encode(m))
		}
	})
}
