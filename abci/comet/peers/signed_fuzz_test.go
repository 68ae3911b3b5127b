package peers

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cometbft/cometbft/p2p"
	"github.com/cosmos/gogoproto/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A member that asks signs whatever it likes: only what is a transaction of a client of its own is
// looked at.
func FuzzSignedQuestion(f *testing.F) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	public := key.Public().(ed25519.PublicKey)
	var decided atomic.Pointer[[]byte]
	r, err := NewAgreements(AgreementOptions{
		ChainID: "test", Organisation: "o1", NodeID: "asked", Key: func() crypto.Signer { return key }, Limit: time.Minute,
		GatewayKey: func(string) (ed25519.PublicKey, bool) { return public, true },
		Ever:       func(_ string, fits func(ed25519.PublicKey) bool) bool { return fits(public) },
		Conduct:    NewConduct(slog.New(slog.DiscardHandler)), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Decide: func(_ context.Context, tx []byte, _ func() int64) (string, error) {
			decided.Store(&tx)
			return "", nil
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	r.Switch = silentSwitch{}
	_, tx := proposal("o0", 1)
	f.Add(tx)
	f.Add(append(tx, 0x12, 0x00))
	f.Add([]byte{0x0a, 0x02, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, tx []byte) {
		if len(tx) > wire.ProposalBytesMax {
			return
		}
		decided.Store(nil)
		r.questions = newQuestions(time.Now) // there are more inputs than questions of a member
		ask := &wire.AgreementAsk{Request: 1, Asked: []string{"o1"}, Transaction: tx}
		id, _, _ := wire.PeekAsked(ask)
		ask.Signature = ed25519.Sign(key, wire.AskSignBytes("test", "asking", "asked", id))
		r.Receive(p2p.Envelope{Src: answering{named{id: "asking"}}, ChannelID: AgreementChannel, Message: &types.BytesValue{
			Value: wire.Encode(&wire.AgreementMessage{Body: &wire.AgreementMessage_Ask{Ask: ask}}),
		}})
		r.work.Wait()
		r.opt.Conduct.of.Purge() // its bars are another test's
		if decided.Load() == nil {
			return
		}
		decoded, err := wire.DecodeChainedTx(*decided.Load())
		if err != nil || decoded.Proposal.ChainId != "test" || !bytes.Equal(*decided.Load(), tx) {
			t.Errorf("%x is looked at: %v", tx, err)
		}
	})
}

// A member that tells answers whatever it likes: answers come to who asked, pieces become the rows
// that they hold, and no more is kept than came.
func FuzzToldAnswers(f *testing.F) {
	for _, m := range []*wire.StateResponse{
		{Request: 1, Body: &wire.StateResponse_Page{Page: &wire.StatePage{Rows: []byte("\x00\x00\x00\x03abc\x00\x00\x00\x00"), Last: true}}},
		{Request: 1, Body: &wire.StateResponse_Digests{Digests: &wire.StateDigests{Ranges: []*wire.RangeDigest{{Range: 1, Rows: 2, Digest: make([]byte, 32)}}}}},
		{Request: 1, Body: &wire.StateResponse_Tables{Tables: &wire.StateTables{Organisation: "o1", Signature: make([]byte, 64)}}},
		{Request: 1, Body: &wire.StateResponse_Refusal{Refusal: &wire.StateRefusal{Reason: "busy"}}},
	} {
		f.Add(wire.Encode(&wire.StateMessage{Body: &wire.StateMessage_Response{Response: m}}))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := New(Options{
			Key: func() crypto.Signer { return nil }, GatewayKey: func(string) (ed25519.PublicKey, bool) { return nil, false }, Backend: &database{},
			Ever: func(string, func(ed25519.PublicKey) bool) bool { return true }, Conduct: NewConduct(slog.New(slog.DiscardHandler)),
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Switch = silentSwitch{}
		answer := make(chan *wire.StateResponse, 1)
		r.waiting[question{"telling", 1}] = answer
		r.Receive(p2p.Envelope{Src: answering{named{id: "telling"}}, ChannelID: Channel, Message: &types.BytesValue{Value: raw}})
		select {
		case a := <-answer:
			if _, err := wire.DecodeStateMessage(raw); err != nil || a.Request != 1 {
				t.Errorf("%x is an answer: %v", raw, err)
			}
			page := a.GetPage()
			var whole []byte
			var rows rows
			for i := 0; page != nil && i < len(page.Rows); i++ { // byte by byte: the worst there is
				if err := rows.add(page.Rows[i:i+1], func(cells []byte) error {
					whole = append(append(whole, 0, 0, byte(len(cells)>>8), byte(len(cells))), cells...)
					return nil
				}); err != nil {
					return
				}
			}
			if page != nil && !bytes.Equal(append(whole, rows.rest...), page.Rows) {
				t.Errorf("%x becomes %x and %x", page.Rows, whole, rows.rest)
			}
		default:
		}
	})
}

// Requests of a session come from a member: whatever they ask, what is told is bounded.
func FuzzAskedRequests(f *testing.F) {
	for _, q := range []*wire.StateRequest{
		{Request: 1, Body: &wire.StateRequest_Ranges{Ranges: &wire.StateRangesOf{Table: "public.a", OfBits: 2, OfRanges: []uint32{3}, Bits: 5}}},
		{Request: 2, Body: &wire.StateRequest_Rows{Rows: &wire.StateRowsOf{Table: "public.a", Bits: 5, Ranges: []uint32{24, 31}}}},
		{Request: 3, Body: &wire.StateRequest_Block{Block: &wire.StateBlockOf{Block: 7, Hash: append([]byte{2}, make([]byte, 31)...)}}},
		{Request: 4, Body: &wire.StateRequest_Next{Next: &wire.StateNext{}}},
	} {
		f.Add(wire.Encode(&wire.StateMessage{Body: &wire.StateMessage_Request{Request: q}}), false)
		f.Add(wire.Encode(&wire.StateMessage{Body: &wire.StateMessage_Request{Request: q}}), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, past bool) {
		m, err := wire.DecodeStateMessage(raw)
		if err != nil || m.GetRequest() == nil || m.GetRequest().GetOpen() != nil {
			return
		}
		d := &database{tables: []backend.TableState{{Table: "public.a"}}, rows: [][]byte{{1}, bytes.Repeat([]byte{2}, 1000)}}
		ctx, cancel := context.WithTimeout(t.Context(), testLimit)
		defer cancel()
		r := &Reactor{opt: Options{BytesPerSecond: 1 << 40, Backend: d}}
		tell := &telling{reactor: r, session: &session{ctx: ctx}, opened: &wire.StateOpen{Block: 7, Hash: append([]byte{2}, make([]byte, 31)...), Past: past}, looks: map[string]int{}}
		must.Do(t, tell.open(ctx, tell.opened))
		defer tell.close()
		for n := range 2 * scansMax {
			a, err := tell.answer(m.GetRequest())
			if err != nil {
				return
			}
			if n >= scansMax && m.GetRequest().GetNext() == nil {
				t.Fatalf("%x is answered %d times", raw, n)
			}
			if _, err := wire.DecodeStateMessage(wire.Encode(answerOf(1, a))); err != nil {
				t.Fatalf("%x is answered with what nobody takes: %v", raw, err)
			}
		}
	})
}

// answering takes whatever it is sent.
type answering struct{ named }

func (answering) Send(p2p.Envelope) bool    { return true }
func (answering) TrySend(p2p.Envelope) bool { return true }

// silentSwitch disconnects nobody.
type silentSwitch struct{ p2p.Switcher }

func (silentSwitch) StopPeerForError(p2p.Peer, any) {}
