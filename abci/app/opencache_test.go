package app

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

var clerkKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, 32))

// newClerk is a chain with a key registered for the first organisation's clerk.
func newClerk(t *testing.T) *chain {
	c := newChain(t, 2, 0)
	c.decide(nil, c.consortium.Client(0, &wire.ClientChange{Sequence: 1, Key: clerkKey.Public().(ed25519.PublicKey), Role: "clerk"}))
	return c
}

// signedBundle is a bundle of the first organisation with n transactions that a client signed; the
// last signature may be forged.
func (c *chain) signedBundle(nonce uint64, n int, forged bool) []byte {
	return c.signedBundleOf(0, nonce, n, forged)
}

// signedBundleOf is one of organisation i.
func (c *chain) signedBundleOf(i int, nonce uint64, n int, forged bool) []byte {
	b := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: fmt.Sprintf("o%d", i), Sequence: nonce}
	for at := range n {
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: wire.SignProposal(clerkKey, c.consortium.Proposal(i, nonce<<32+uint64(at), 100))})
	}
	if forged {
		b.Transactions[n-1].Proposal.Signature[40] ^= 1
	}
	return c.consortium.SignBundle(i, b)
}

func (c *chain) check(kind abci.CheckTxType, raw []byte) uint32 {
	c.t.Helper()
	out, err := c.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: raw, Type: kind})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.Code
}

// A bundle with a client's forged signature may get into the mempool, as long as its gateway
// answers for it. It gets into no block, spoils no other bundle, and leaves the mempool at the next
// recheck.
func TestForgedSignaturesOfClientsGetIntoNoBlock(t *testing.T) {
	c := newClerk(t)
	good, forged, later := c.signedBundle(1, 3, false), c.signedBundle(2, 3, true), c.signedBundle(3, 1, false)
	for _, raw := range [][]byte{good, forged, later} {
		if code := c.check(abci.CheckTxType_New, raw); code != order.CodeOK {
			t.Fatalf("code %d before signatures of clients are verified", code)
		}
	}
	if code := c.check(abci.CheckTxType_Recheck, forged); code != order.CodeOK {
		t.Errorf("code %d, and nothing has asked", code)
	}
	if out := c.prepare(good, forged, later); len(out) != 2 || !bytes.Equal(out[0], good) || !bytes.Equal(out[1], later) {
		t.Errorf("%d bundles proposed, want the two that are right", len(out))
	}
	if c.process(good, forged) {
		t.Error("a proposal with a forged signature is accepted")
	}
	for _, kind := range []abci.CheckTxType{abci.CheckTxType_New, abci.CheckTxType_Recheck} {
		if codes := []uint32{c.check(kind, good), c.check(kind, forged)}; !slices.Equal(codes, []uint32{order.CodeOK, order.CodeSignature}) {
			t.Errorf("codes %v once they are verified", codes)
		}
	}
	fresh := newClerk(t) // has seen none of them
	if fresh.process(forged) || !fresh.process(good, later) {
		t.Error("a validator that met the bundles in the proposal judges otherwise")
	}
}

// Signatures that wait are verified when there are verifyTogether transactions, without a proposal;
// those the own gateway has verified are not again.
func TestSignaturesOfClientsWaitForABatch(t *testing.T) {
	c := newClerk(t)
	forged := c.signedBundle(1, 1, true)
	if code := c.check(abci.CheckTxType_New, forged); code != order.CodeOK {
		t.Fatalf("code %d of a bundle alone", code)
	}
	own := c.signedBundle(2, verifyTogether, true) // forged, to see that it is not verified
	c.app.Own(own)
	if code := c.check(abci.CheckTxType_New, own); code != order.CodeOK || len(c.app.opened.wrong) > 0 {
		t.Errorf("code %d of the gateway's own bundle", code)
	}
	if code := c.check(abci.CheckTxType_New, c.signedBundle(3, verifyTogether-1, false)); code != order.CodeOK {
		t.Errorf("code %d of the bundle that fills the batch", code)
	}
	if code := c.check(abci.CheckTxType_Recheck, forged); code != order.CodeSignature {
		t.Errorf("code %d of a forged one after a batch, want %d", code, order.CodeSignature)
	}
	c.decide(nil)
	if code := c.check(abci.CheckTxType_Recheck, forged); code != order.CodeSignature {
		t.Errorf("code %d when the mempool is looked at after a block, want %d", code, order.CodeSignature)
	}
	if c.decide(nil); len(c.app.opened.wrong)+len(c.app.opened.formerly) > 0 {
		t.Error("one forged bundle has the mempool looked at again for good")
	}
}

// A bundle that is refused at once, or found wrong after it was admitted, does not have a node open
// what waits in its mempool. That would cost all nodes seconds for each block.
func TestAForgedBundleDoesNotHaveTheMempoolOpened(t *testing.T) {
	for name, admit := range map[string]bool{"refused at once": false, "admitted": true} {
		c := newClerk(t)
		waits := [][]byte{c.signedBundle(1, 3, false), c.signedBundle(2, 3, false)}
		for _, raw := range waits {
			c.check(abci.CheckTxType_New, raw)
		}
		forged, want := c.signedBundle(3, verifyTogether, true), order.CodeSignature
		if admit {
			forged, want = c.signedBundle(3, 1, true), order.CodeOK
		}
		if code := c.check(abci.CheckTxType_New, forged); code != want {
			t.Errorf("%s: code %d, want %d", name, code, want)
		}
		if c.process(append(waits, forged)...) {
			t.Errorf("%s: it gets into a block", name)
		}
		if met := len(c.app.opened.wrong) > 0; met != admit {
			t.Errorf("%s: remembered: %t", name, met)
		}
		c.decide(nil)
		c.app.opened.byKey.Purge()
		for _, raw := range waits {
			if code := c.check(abci.CheckTxType_Recheck, raw); code != order.CodeOK {
				t.Errorf("%s: code %d of one that is right", name, code)
			}
		}
		if code := c.check(abci.CheckTxType_Recheck, forged); admit && code != order.CodeSignature {
			t.Errorf("%s: code %d when the mempool is looked at", name, code)
		}
		if n := c.app.opened.byKey.Len(); n > 0 {
			t.Errorf("%s: %d bundles were opened again", name, n)
		}
	}
}

// The memory of forged bundles has a bound.
func TestForgedBundlesRememberedAreBounded(t *testing.T) {
	c := newClerk(t)
	for i := range uint64(wrongsMax) {
		c.app.opened.wrong[i] = [32]byte{}
	}
	c.check(abci.CheckTxType_New, c.signedBundle(1, 1, true))
	c.check(abci.CheckTxType_New, c.signedBundle(2, verifyTogether, false))
	if n := len(c.app.opened.wrong); n != wrongsMax {
		t.Errorf("%d are remembered, want %d", n, wrongsMax)
	}
}

// A bundle is decoded, and its clients' signatures are verified, once on its way from the mempool
// into a block.
func TestABundleIsOpenedOnce(t *testing.T) {
	c := newClerk(t)
	raw := c.signedBundle(1, 3, false)
	known := func() *openedTx {
		o, _ := c.app.opened.byKey.Peek(keyOf(c.app.state.Registry(), raw))
		return o
	}
	if code := c.check(abci.CheckTxType_New, raw); code != order.CodeOK || known() == nil || known().verified {
		t.Fatalf("code %d, remembered as %+v, want one whose clients' signatures wait", code, known())
	}
	first := known()
	bundle := first.Tx.Bundle()
	if out := c.prepare(raw); len(out) != 1 || !first.verified {
		t.Fatalf("%d bundles proposed, verified: %t", len(out), first.verified)
	}
	if code := c.check(abci.CheckTxType_New, raw); code != order.CodeOK || !c.process(raw) {
		t.Fatalf("code %d once it is verified", code)
	}
	if o := known(); o != first || o.Tx.Bundle() != bundle {
		t.Error("it was opened anew")
	}
	if len(c.app.opened.groups([]*openedTx{first})) > 0 {
		t.Error("it would be verified anew")
	}
}

// The memory of bundles holds those that wait for a block, however long the chain is.
func TestBundlesOfDecidedBlocksAreForgotten(t *testing.T) {
	c := newClerk(t)
	ordered, waits := [][]byte{c.bundle(1), c.signedBundle(2, 3, false)}, c.bundle(3)
	for _, raw := range append(ordered, waits) {
		c.check(abci.CheckTxType_New, raw)
	}
	c.decide(nil, ordered...)
	if n, bytes := c.app.opened.byKey.Len(), c.app.opened.bytes; n != 1 || bytes != len(waits) {
		t.Errorf("%d bundles of %d bytes remembered, want the one of %d that waits", n, bytes, len(waits))
	}
}
