package order_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// padded is a bundle of the first organisation to which empty messages of a field are added, at
// most so many, as long as it has at most a MiB. Two bytes each, they take hundreds of times as
// much memory decoded.
func padded(field protowire.Number, most int) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), ordertest.ChainID)
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), "o0")
	for i := 0; i < most && len(b) < wire.BundleBytesMax-2; i++ {
		b = protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), nil)
	}
	return b
}

// inBundle is the bundle of one transaction with these bytes.
func inBundle(chained []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(padded(4, 0), 4, protowire.BytesType), chained)
}

func repeated(field protowire.Number, bytes int) (out []byte) {
	for len(out) < bytes {
		out = protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), nil)
	}
	return out
}

func forged(bundle []byte) []byte {
	return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Bundle{Bundle: &wire.SignedBundle{Bundle: bundle, Signature: make([]byte, 64)}}})
}

// hostile are transactions that cost more to decode than to send. Signed is what they come with:
// the gateway's signature or a forged one.
func hostile(most int, signed func([]byte) []byte) map[string][]byte {
	return map[string][]byte{
		"a MiB of empty transactions":             signed(padded(4, wire.BundleBytesMax)),
		"as many empty transactions as are taken": signed(padded(4, most)),
		"a MiB of an empty field of scalars":      signed(padded(3, wire.BundleBytesMax)),
		"a MiB of an unknown field":               signed(padded(9, wire.BundleBytesMax)),
		"a MiB of empty agreements":               signed(inBundle(repeated(2, 1<<20-100))),
		"a proposal of empty parameters":          signed(inBundle(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), repeated(7, 500_000))))),
		"a certificate of empty votes":            protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), repeated(4, 1<<20)),
		"a governance change of empty approvals":  protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), repeated(2, 1<<20)),
		"a governance change of empty actions": protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType),
			protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), repeated(4, 1<<16-2))),
		"bodies that replace each other": slices.Repeat(append(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil),
			protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), nil)...), 1<<18),
		"garbage": append([]byte{0xff}, make([]byte, 1<<20)...),
	}
}

// The order decodes nothing before it has verified the signature. Behind a right one it counts what
// repeats before it decodes. So no input makes more than a few objects, or more memory than some
// times its bytes.
func TestNothingIsDecodedBeforeItsSignatureAndCount(t *testing.T) {
	c := ordertest.New(4, 0)
	registry := c.Registry(t)
	for how, signed := range map[string]func([]byte) []byte{
		"forged": forged,
		"signed": func(b []byte) []byte {
			return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Bundle{Bundle: &wire.SignedBundle{Bundle: b, Signature: c.SignAs(0, wire.BundleSignBytes(ordertest.ChainID, b))}}})
		},
	} {
		for name, raw := range hostile(registry.Parameters().BlockTransactionsMax, signed) {
			if how == "signed" && strings.HasPrefix(name, "as many") {
				continue // decoded: it is as large as an honest one may be
			}
			var err error
			objects := testing.AllocsPerRun(3, func() { _, err = registry.Candidate(raw) })
			if err == nil {
				t.Errorf("%s, %s: accepted", how, name)
			}
			if objects > 200 {
				t.Errorf("%s, %s: %.0f objects made before it was refused: %v", how, name, objects, err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = registry.Candidate(raw)
			runtime.ReadMemStats(&after)
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 8<<20 {
				t.Errorf("%s, %s: %d MiB", how, name, bytes>>20)
			}
		}
	}
}

// The codes of what is refused, in their order: form and counts, chain, who it is, how many a block
// takes, signature, and then what is in it.
func TestCodesOfRefusalsAndTheirOrder(t *testing.T) {
	c := ordertest.New(4, 0)
	registry := c.Registry(t)
	signed := func(b []byte) []byte {
		return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Bundle{Bundle: &wire.SignedBundle{Bundle: b, Signature: c.SignAs(0, wire.BundleSignBytes(ordertest.ChainID, b))}}})
	}
	change := protowire.AppendVarint(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), ordertest.ChainID), 2, protowire.VarintType), 1)
	second := append(slices.Clone(change[:len(change)-1]), 2) // the sequence of a withdrawal
	approved := func(by ...int) []byte {
		return wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: c.Signed(change, by...)}})
	}
	wrong := c.Signed(change, 0, 1, 2)
	wrong.Approvals[1].Signature = make([]byte, 64)
	for name, x := range map[string]struct {
		raw  []byte
		code uint32
	}{
		"forged, too many for any bundle":     {forged(padded(4, wire.BundleTransactionsMax+1)), order.CodeMalformed},
		"forged, malformed within":            {forged(padded(4, 5)), order.CodeSignature},
		"forged, no transaction":              {forged(padded(4, 0)), order.CodeMalformed},
		"signed, malformed within":            {signed(padded(4, 5)), order.CodeMalformed},
		"signed, not in its one spelling":     {signed(append(padded(4, 0), repeated(9, 10)...)), order.CodeMalformed},
		"a change without actions, approved":  {approved(0, 1, 2), order.CodeMalformed},
		"a change without actions, too few":   {approved(0, 1), order.CodeTooFewApprove},
		"a broken withdrawal, too few":        {wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: c.Signed(second, 0, 1)}}), order.CodeTooFewApprove},
		"a broken withdrawal, approved":       {wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: c.Signed(second, 0, 1, 2)}}), order.CodeMalformed},
		"a change without actions, forged":    {wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Governance{Governance: wrong}}), order.CodeSignature},
		"a change of clients, forged, broken": {wire.Encode(&wire.OrderedTx{Body: &wire.OrderedTx_Client{Client: &wire.SignedClientChange{Change: padded(4, 0), Signature: make([]byte, 64)}}}), order.CodeSignature},
	} {
		if _, err := registry.Candidate(x.raw); err == nil || order.CodeOf(err) != x.code {
			t.Errorf("%s: %v with code %d, want %d", name, err, order.CodeOf(err), x.code)
		}
	}
}

// A refusal costs less than an honest bundle of a thousand transactions, also for several times its
// bytes. The limit is generous, since machines are busy: the cost was 28 times as much.
func TestARefusalCostsLessThanAnHonestBundle(t *testing.T) {
	c := ordertest.New(4, 0)
	registry := c.Registry(t)
	cost := func(raw []byte) time.Duration {
		best := time.Hour
		for range 15 {
			began := time.Now()
			_, _ = registry.Candidate(raw)
			best = min(best, time.Since(began))
		}
		return best
	}
	honest := cost(thousand(c, 0))
	for name, raw := range hostile(registry.Parameters().BlockTransactionsMax, forged) {
		if took := cost(raw); took > 3*honest {
			t.Errorf("%s: refused in %s, an honest bundle of a thousand takes %s", name, took, honest)
		}
	}
}

// BenchmarkRefusal tells how many times as much as an honest bundle of a thousand transactions each
// refusal costs.
func BenchmarkRefusal(b *testing.B) {
	c := ordertest.New(4, 0)
	registry := c.Registry(b)
	honest := thousand(c, 0)
	began := time.Now()
	for range 20 {
		if _, err := registry.Candidate(honest); err != nil {
			b.Fatal(err)
		}
	}
	one := time.Since(began) / 20
	for name, raw := range hostile(registry.Parameters().BlockTransactionsMax, forged) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				_, _ = registry.Candidate(raw)
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(one), "×honest")
		})
	}
}
