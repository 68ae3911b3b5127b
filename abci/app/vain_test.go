package app

import (
	"crypto/ed25519"
	"crypto/sha256"
	"math/bits"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// newClerks is newClerk with a key for the second organisation's clerk, and the work that
// signatures of clients take.
func newClerks(t *testing.T) (*chain, *order.Work) {
	c := newClerk(t)
	c.decide(nil, c.consortium.Client(1, &wire.ClientChange{Sequence: 1, Key: clerkKey.Public().(ed25519.PublicKey), Role: "clerk"}))
	return c, &c.app.opened.work
}

// once is the work of a batch in which all is right. found bounds that of one with a wrong
// signature among so many bundles.
func once(signatures int) order.Work { return order.Work(signatures) + order.BatchWork }

func found(signatures, bundles int) order.Work {
	return 3*order.Work(signatures) + 3*order.BatchWork*order.Work(bits.Len(uint(bundles))+bits.Len(uint(signatures)))
}

// Of a bundle that was decided nothing is verified when it comes again, whether it is remembered or
// not. It takes no place in the cache from one that waits, and is held against nobody.
func TestNothingIsVerifiedOfADecidedBundle(t *testing.T) {
	for _, n := range []int{1, verifyTogether - 1, verifyTogether, 1000} {
		c, work := newClerks(t)
		raw := c.signedBundle(1, n, false)
		if code := c.check(abci.CheckTxType_New, raw); code != order.CodeOK {
			t.Fatalf("%d transactions: code %d", n, code)
		}
		c.decide(nil, raw)
		if *work != once(n) {
			t.Errorf("%d transactions: work %d until they are decided, want %d", n, *work, once(n))
		}
		*work = 0
		for _, remembered := range []bool{true, false} {
			if got := c.app.opened.spent.Contains(keyOf(c.app.state.Registry(), raw).bytes); got != remembered {
				t.Errorf("%d transactions: remembered: %t", n, got)
			}
			for range 2 {
				if code := c.check(abci.CheckTxType_New, raw); code != order.CodeNothingLive || c.app.NeverRight(raw, code) {
					t.Errorf("%d transactions: code %d of a decided bundle", n, code)
				}
			}
			allocations := testing.AllocsPerRun(1, func() { c.check(abci.CheckTxType_New, raw) })
			if n > 100 && remembered != (allocations < float64(n)) {
				t.Errorf("%d transactions: %f allocations, remembered: %t", n, allocations, remembered)
			}
			c.app.opened.spent.Purge()
		}
		if *work != 0 || c.app.opened.byKey.Len() != 0 {
			t.Errorf("%d transactions: work %d for a decided bundle, %d bundles in the cache", n, *work, c.app.opened.byKey.Len())
		}
	}
}

// A bundle of which a later block may accept something is not taken for a decided one.
func TestWhatMayBeLiveAgainIsNotSpent(t *testing.T) {
	c := newChain(t, 2, 0)
	raw := c.signedBundle(1, 2, false)
	c.decide(nil, raw) // its client is not registered
	if code := c.check(abci.CheckTxType_New, raw); code != order.CodeNothingLive {
		t.Errorf("code %d before the client is registered", code)
	}
	c.decide(nil, c.consortium.Client(0, &wire.ClientChange{Sequence: 1, Key: clerkKey.Public().(ed25519.PublicKey), Role: "clerk"}))
	if code := c.check(abci.CheckTxType_New, raw); code != order.CodeOK {
		t.Errorf("code %d once its client is registered", code)
	}
	ahead := c.consortium.Bundle(0, c.consortium.Proposal(0, 9, uint64(c.height)+wire.ValidityHeightsMax+2))
	c.decide(nil, ahead)
	if code := c.check(abci.CheckTxType_New, ahead); code != order.CodeOK {
		t.Errorf("code %d of a bundle that is not too far ahead any more", code)
	}
}

// After one forged signature its gateway's bundles share no batch with others', until that is
// forgotten: it spoils one batch, and nobody is charged for it but its gateway.
func TestAForgedSignatureSpoilsOneBatchOfOthers(t *testing.T) {
	c, work := newClerks(t)
	now := time.Unix(1_700_000_000, 0)
	c.app.opened.vain = newVain(func() time.Time { return now })
	nonce := uint64(0)
	next := func(i, n int, forged bool) (code uint32, took order.Work) {
		nonce++
		before := *work
		code = c.check(abci.CheckTxType_New, c.signedBundleOf(i, nonce, n, forged))
		return code, *work - before
	}
	if code, took := next(0, 1, true); code != order.CodeOK || took != 0 {
		t.Fatalf("code %d, work %d for the first forged one", code, took)
	}
	code, took := next(1, verifyTogether-1, false)
	if most := found(verifyTogether, 2); code != order.CodeOK || took <= once(verifyTogether) || took > most {
		t.Errorf("code %d, work %d for the spoilt batch, want at most %d", code, took, most)
	}
	owed := vainMax - c.app.opened.vain.Left("o0")
	if owed != int64(took) || !c.app.opened.vain.Full("o1") {
		t.Errorf("o0 owes %d, want %d; o1 has %d", owed, took, c.app.opened.vain.Left("o1"))
	}
	for range 3 {
		if code, took = next(0, 1, true); code != order.CodeSignature || took != once(1) {
			t.Errorf("code %d, work %d for a further forged one", code, took)
		}
		if code, took = next(0, 1, false); code != order.CodeOK || took != once(1) {
			t.Errorf("code %d, work %d for a right one of the same gateway", code, took)
		}
		if code, took = next(1, 1, false); code != order.CodeOK || took != 0 {
			t.Errorf("code %d, work %d for one of another gateway, which waits for its batch", code, took)
		}
	}
	if code, took = next(1, verifyTogether-3, false); code != order.CodeOK || took != once(verifyTogether) {
		t.Errorf("code %d, work %d for the others' next batch, want %d", code, took, once(verifyTogether))
	}
	now = now.Add(vainMax * vainEach)
	if code, took = next(0, 1, false); code != order.CodeOK || took != 0 {
		t.Errorf("code %d, work %d once all is forgotten", code, took)
	}
}

// A gateway that goes on signing forged signatures has nothing opened any more for a while. The
// work in vain for it has a bound, others are not refused, and blocks take its bundles.
func TestAGatewaysForgedSignaturesHaveABudget(t *testing.T) {
	c, work := newClerks(t)
	now := time.Unix(1_700_000_000, 0)
	c.app.opened.vain = newVain(func() time.Time { return now })
	const n = verifyTogether
	refused, nonce := 0, uint64(0)
	forge := func() uint32 {
		nonce++
		return c.check(abci.CheckTxType_New, c.signedBundle(nonce, n, true))
	}
	for range 40 {
		switch code := forge(); code {
		case order.CodeOverdrawn:
			refused++
		case order.CodeSignature:
			if refused > 0 {
				t.Error("opened again, and no time has passed")
			}
		default:
			t.Fatalf("code %d", code)
		}
	}
	if most := vainMax + found(n, 1); *work > most || refused == 0 {
		t.Errorf("work %d for 40 forged bundles, want at most %d; %d of them are refused unopened", *work, most, refused)
	}
	before := *work
	right := c.signedBundle(99, 1, false)
	if code := c.check(abci.CheckTxType_New, right); code != order.CodeOverdrawn || c.app.NeverRight(right, code) {
		t.Errorf("code %d of a right bundle of the same gateway", code)
	}
	if code := c.check(abci.CheckTxType_New, c.signedBundleOf(1, 1, 1, false)); code != order.CodeOK || *work != before {
		t.Errorf("code %d of another gateway's bundle", code)
	}
	if !c.process(right) {
		t.Error("a block with a right bundle is refused") // A1: the others may know nothing of it
	}
	before = *work
	left := c.app.opened.vain.Left("o0")
	if c.process(c.signedBundle(100, n, false), c.signedBundle(101, n, true)) || *work != before+once(2*n) {
		t.Errorf("a block with a forged signature took work %d, want what one without takes", *work-before)
	}
	if now := c.app.opened.vain.Left("o0"); now != left-int64(once(2*n)) {
		t.Errorf("the gateway had %d and has %d left after it", left, now)
	}
	before = *work
	if !c.process(c.signedBundle(100, n, false)) {
		t.Error("a block with a bundle that stood beside a forged one is refused")
	}
	for range 20 { // seconds
		now = now.Add(time.Second)
		for range 7 {
			forge()
		}
	}
	if most := before + once(n) + 20*order.Work(time.Second/vainEach) + found(n, 1); *work > most {
		t.Errorf("work %d after 20 seconds, want at most %d", *work, most)
	}
	if now = now.Add(2 * vainMax * vainEach); forge() != order.CodeSignature {
		t.Error("it is not forgotten")
	}
}

// BenchmarkRefused gives the time that CheckTx takes to refuse a bundle of 1,000 transactions that
// their client signed.
func BenchmarkRefused(b *testing.B) {
	c := newClerk(&testing.T{})
	forget := func() {
		c.app.opened.byKey.Purge()
		c.app.opened.spent.Purge()
		c.app.opened.vain = newVain(time.Now)
	}
	decided, forged := c.signedBundle(1, 1000, false), c.signedBundle(2, 1000, true)
	c.decide(nil, decided)
	oldKey := ordertest.New(2, 0)
	oldKey.Renew(0, 77)
	short := oldKey.Bundle(0, oldKey.Proposal(0, 1, 100))
	for name, one := range map[string]struct {
		raw    []byte
		before func()
	}{
		"decided":                  {decided, func() { forget(); c.app.opened.spent.Add(sha256.Sum256(decided), struct{}{}) }},
		"decided, not remembered":  {decided, forget},
		"forged":                   {forged, forget},
		"forged, overdrawn":        {forged, func() { forget(); c.app.opened.vain.Spend("o0", 1<<30) }},
		"of one, with another key": {short, forget},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				one.before()
				c.check(abci.CheckTxType_New, one.raw)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(one.raw)), "ns/byte")
		})
	}
}
