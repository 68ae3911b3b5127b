package order_test

import (
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// Each of these targets signs whatever it is given, as a member could that goes astray: what is
// behind a right signature is decoded.

// bounded fails when something takes more memory than some times its bytes, or long: a bundle's
// transactions and parameters may be a few bytes each.
func bounded(t *testing.T, bytes int, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	do()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 256<<10+uint64(bytes)*300 {
		t.Errorf("%d bytes took %d", bytes, made)
	}
	if took > time.Minute {
		t.Errorf("%d bytes took %s", bytes, took)
	}
}

func FuzzSignedBundle(f *testing.F) {
	c := ordertest.New(4, 0)
	registry := c.Registry(f)
	client := wire.SignProposal(clientKey(1), c.Proposal(0, 2, 100))
	for _, b := range []*wire.Bundle{
		{Organisation: "o0", Sequence: 1, Transactions: []*wire.ChainedTx{{Proposal: &wire.SignedProposal{Proposal: wire.Encode(c.Proposal(0, 1, 100))}}}},
		{Organisation: "o1", Sequence: 2, Transactions: []*wire.ChainedTx{{Proposal: client}, {Proposal: client, Agreements: []*wire.Agreement{{Organisation: "o2", ProposalHash: make([]byte, 32), Yes: true, Signature: make([]byte, 64)}}}}},
	} {
		b.ChainId = ordertest.ChainID
		f.Add(wire.Encode(b))
	}
	f.Add(padded(4, 1000))
	f.Add(inBundle(repeated(2, 1000)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > wire.BundleBytesMax {
			return
		}
		signed := &wire.SignedBundle{Bundle: raw, Signature: c.SignAs(0, wire.BundleSignBytes(ordertest.ChainID, raw))}
		ordered := wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Bundle{Bundle: signed}})
		bounded(t, len(ordered), func() {
			candidate, err := registry.Candidate(ordered)
			if err != nil {
				return
			}
			bundle, txs, err := wire.DecodeBundle(raw)
			if err != nil || string(wire.Encode(bundle)) != string(raw) || candidate.Tx.Bundle().Len() != len(txs) {
				t.Fatalf("%x is accepted: %v", raw, err)
			}
			if candidate.Tx.Organisation() != bundle.Organisation || wire.PeekOwner(ordered) != bundle.Organisation {
				t.Errorf("%x is of %q, %q, %q", raw, bundle.Organisation, candidate.Tx.Organisation(), wire.PeekOwner(ordered))
			}
			_, _ = registry.VerifyClients(candidate)
			if _, _, err := registry.Genesis(1).Apply(order.Block{Height: 1, Txs: []order.Tx{candidate.Tx}}); err != nil {
				t.Errorf("%x cannot be ordered: %v", raw, err)
			}
		})
	})
}

func FuzzSignedChanges(f *testing.F) {
	c := ordertest.New(4, 0)
	registry := c.Registry(f)
	f.Add(wire.Encode(&wire.ClientChange{ChainId: ordertest.ChainID, Organisation: "o0", Sequence: 1, Key: make([]byte, 32), Role: "clerk"}))
	f.Add(wire.Encode(&wire.GovernanceChange{ChainId: ordertest.ChainID, Sequence: 1, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Consent{Consent: 3}}, {Body: &wire.GovernanceAction_Remove{Remove: "o3"}},
	}}))
	f.Add(wire.Encode(&wire.GovernanceChange{ChainId: ordertest.ChainID, Sequence: 2, Actions: []*wire.GovernanceAction{{Body: &wire.GovernanceAction_Withdraw{Withdraw: make([]byte, 32)}}}}))
	f.Add(padded(4, 100))
	f.Fuzz(func(t *testing.T, raw []byte) {
		client := []byte(ordertest.ChainID)
		client = append(append([]byte("chainify/client/1\x00\x00\x00"), byte(len(client))), client...)
		for name, ordered := range map[string][]byte{
			"a change of clients": wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Client{Client: &wire.SignedClientChange{
				Change: raw, Signature: c.SignAs(0, append(client, raw...)),
			}}}),
			"a governance change": wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: c.Signed(raw, 0, 1, 2)}}),
		} {
			bounded(t, len(ordered), func() {
				tx, err := registry.Open(ordered)
				if err != nil {
					return
				}
				if _, _, err := registry.Genesis(1).Apply(order.Block{Height: 1, Txs: []order.Tx{tx}}); err != nil {
					t.Errorf("%s %x cannot be ordered: %v", name, raw, err)
				}
			})
		}
	})
}

// A proposer chooses from votes that validators signed: what it finds fit, everybody else does.
func FuzzSignedVotes(f *testing.F) {
	c := ordertest.New(4, 0)
	registry := c.Registry(f)
	tx, err := registry.Open(c.Bundle(0, c.Proposal(0, 1, 100)))
	if err != nil {
		f.Fatal(err)
	}
	state, _, err := registry.Genesis(1).Apply(order.Block{Height: 1, Hash: wire.Hash{1}, Txs: []order.Tx{tx}})
	if err != nil {
		f.Fatal(err)
	}
	state.Settle()
	key := state.Pending().Key()
	f.Add(wire.NewEffectsVote(key, "o0", wire.Hash{7}).Encode(), int64(1))
	f.Add(wire.NewStuckVote(key, 0).Encode(), int64(1))
	f.Fuzz(func(t *testing.T, extension []byte, height int64) {
		vote := &wire.ExtendedVote{
			ValidatorAddress: c.Address(0), Height: height, Extension: extension, Signature: c.SignVote(0, height, extension),
		}
		made := state.Certificate([]*wire.ExtendedVote{vote}, func(wire.Key) (wire.Hash, bool) { return wire.Hash{7}, true })
		if made == nil {
			return
		}
		opened, err := registry.Open(wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Certificate{Certificate: made}}))
		if err == nil {
			_, _, err = state.Apply(order.Block{Height: 2, Txs: []order.Tx{opened}})
		}
		if err != nil {
			t.Errorf("a proposer takes %x of height %d, and others do not: %v", extension, height, err)
		}
	})
}

func FuzzPeeks(f *testing.F) {
	f.Add(padded(4, 10))
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<63))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounded(t, len(raw), func() {
			_, _ = wire.PeekBundle(raw)
			_, _, _, _ = wire.PeekClientChange(raw), wire.PeekGovernanceChange(raw), wire.PeekOwner(raw), wire.PeekState(raw)
			_, _ = wire.PeekAnswer(raw)
			_, _, _ = wire.PeekAsked(&wire.AgreementAsk{Transaction: raw})
		})
		if c, err := wire.DecodeClientChange(raw); err == nil {
			if h := wire.PeekClientChange(raw); h.ChainID != c.ChainId || h.Organisation != c.Organisation || h.Sequence != c.Sequence {
				t.Errorf("%x: %+v is peeked", raw, h)
			}
		}
		if c, err := wire.DecodeGovernanceChange(raw); err == nil {
			if h := wire.PeekGovernanceChange(raw); h.ChainID != c.ChainId || h.Sequence != c.Sequence {
				t.Errorf("%x: %+v is peeked", raw, h)
			}
		}
	})
}
