package gateway

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// testEffects is a write set with one insert.
func testEffects() []byte {
	row := append([]byte{0, 1, 0, 1, 2, 0, 0, 0, 8}, make([]byte, 8)...)
	set := &wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.t"}, Changes: []wire.RowChange{{Op: 'I', Row: row}}}
	return set.Encode()
}

func effects() *wire.Statement {
	return &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: testEffects()}
}

// orderedEffects checks that one transaction is bundled, as every organisation reads it.
func (f *fixture) orderedEffects() *wire.ChainedTx {
	f.t.Helper()
	f.step()
	if n := len(f.mempool.bundles); n != 1 {
		f.t.Fatalf("%d bundles", n)
	}
	chained := f.mempool.bundles[0].Transactions[0]
	tx, err := wire.DecodeChainedTx(wire.Encode(chained))
	if err != nil || tx.Proposal.Kind != wire.Kind_KIND_EFFECTS || !bytes.Equal(tx.Proposal.Effects, testEffects()) {
		f.t.Errorf("ordered %v, %v", tx.Proposal, err)
	}
	return chained
}

func TestEffectsAreQueuedWithStatements(t *testing.T) {
	f := newFixture(t, nil)
	if ids, err := f.g.Submit("bank", []*wire.Statement{effects(), sql("SELECT 1"), effects()}); err != nil || ids[0] == ids[2] {
		t.Fatal(ids, err)
	}
	f.orderedEffects()
}

// A client that chooses nonce and last height knows the id before it submits, and may submit again.
func TestNonceOfTheClientsOwn(t *testing.T) {
	f := newFixture(t, nil)
	own := effects()
	own.Nonce, own.ValidUntilHeight = 7, 12
	want := wire.TxIDOf(wire.Encode(&wire.Proposal{
		ChainId: "test", Client: &wire.Client{Organisation: "acme", Role: "bank"}, Nonce: 7, ValidUntilHeight: 12,
		Kind: wire.Kind_KIND_EFFECTS, Effects: testEffects(),
	}))
	for range 2 {
		if ids, err := f.g.Submit("bank", []*wire.Statement{own}); err != nil || ids[0] != want {
			t.Fatalf("%x, %v, want %x", ids, err, want)
		}
	}
	f.orderedEffects()
	f.wantSizes(1)
	for field, change := range map[string]func(s *wire.Statement) []*wire.Statement{
		"valid_until_height: 10, want 11 to 2010":                                func(s *wire.Statement) []*wire.Statement { s.ValidUntilHeight = 10; return []*wire.Statement{s} },
		"valid_until_height: 2011, want 11 to 2010":                              func(s *wire.Statement) []*wire.Statement { s.ValidUntilHeight = 2011; return []*wire.Statement{s} },
		"nonce: there without valid_until_height":                                func(s *wire.Statement) []*wire.Statement { s.ValidUntilHeight = 0; return []*wire.Statement{s} },
		"valid_until_height: there though the submission has several statements": func(s *wire.Statement) []*wire.Statement { return []*wire.Statement{s, effects()} },
	} {
		s := effects()
		s.Nonce, s.ValidUntilHeight = 8, 12
		_, err := f.g.Submit("bank", change(s))
		var e *Error
		if !errors.As(err, &e) || e.SQLState != StateMalformed || e.Message != field {
			t.Errorf("%v, want %q", err, field)
		}
	}
}

func TestSignedEffectsAreQueued(t *testing.T) {
	f := newFixture(t, registerClerk)
	of := func(p *wire.Proposal) { p.Kind, p.Sql, p.Effects = wire.Kind_KIND_EFFECTS, "", testEffects() }
	if _, err := f.submitSigned(signed(clerkKey, of)); err != nil {
		t.Fatal(err)
	}
	f.orderedEffects()
	cut := signed(clerkKey, func(p *wire.Proposal) { of(p); p.Effects = p.Effects[:20] })
	_, err := f.submitSigned(cut)
	var e *Error
	if !errors.As(err, &e) || e.SQLState != StateMalformed || !strings.HasPrefix(e.Message, "proposal.effects.tables[0]: ") {
		t.Errorf("a write set that is cut off: %v", err)
	}
}

func TestMalformedEffectsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*wire.Statement)
		state, message string
	}{
		"none":            {func(s *wire.Statement) { s.Effects = nil }, StateMalformed, "effects: empty"},
		"a cut write set": {func(s *wire.Statement) { s.Effects = s.Effects[:len(s.Effects)-1] }, StateMalformed, "effects.reads: "},
		"a long one":      {func(s *wire.Statement) { s.Effects = make([]byte, wire.WriteSetBytesMax+1) }, StateBound, "size of the write set"},
		"too long beside the rest": {func(s *wire.Statement) {
			payload := wire.WriteSetBytesMax - len(s.Effects)
			row := append([]byte{0, 1, 0, 1, 6, byte(payload >> 24), byte(payload >> 16), byte(payload >> 8), byte(payload)}, make([]byte, payload)...)
			s.Effects = (&wire.WriteSet{Isolation: wire.ReadCommitted, Tables: []string{"public.t"}, Changes: []wire.RowChange{{Op: 'I', Row: row}}}).Encode()
		}, StateBound, "size of the transaction"},
		"with statements":         {func(s *wire.Statement) { s.Sql = "SELECT 1" }, StateMalformed, "sql: "},
		"with parameters":         {func(s *wire.Statement) { s.Parameters = []*wire.Parameter{{Null: true}} }, StateMalformed, "parameters: "},
		"with statements, of SQL": {func(s *wire.Statement) { s.Kind, s.Sql = wire.Kind_KIND_SQL, "SELECT 1" }, StateMalformed, "effects: not empty"},
		"with statements, of DDL": {func(s *wire.Statement) { s.Kind, s.Sql = wire.Kind_KIND_DEPLOY, "SELECT 1" }, StateMalformed, "effects: not empty"},
		"of the reserved kind":    {func(s *wire.Statement) { s.Kind = wire.Kind_KIND_GOVERNANCE }, StateUnsupported, ""},
		"of no kind there is":     {func(s *wire.Statement) { s.Kind = 6 }, StateMalformed, "kind: "},
	} {
		f := newFixture(t, nil)
		s := effects()
		c.change(s)
		_, err := f.g.Submit("bank", []*wire.Statement{effects(), s})
		var e *Error
		if !errors.As(err, &e) || e.SQLState != c.state || !strings.HasPrefix(e.Message, c.message) {
			t.Errorf("%s: %v, want SQLSTATE %s and %q", name, err, c.state, c.message)
		}
		if n := f.g.Stats().Pending; n != 0 {
			t.Errorf("%s: %d transactions of a refused submission are queued", name, n)
		}
	}
}

// A database that cannot rehearse effects says so, and they are ordered without agreements: the
// execution shows whether they need any. One that can is asked as for statements.
func TestAgreementsToEffects(t *testing.T) {
	for name, c := range map[string]struct {
		database   rehearsing
		agreements int
	}{
		"not rehearsed": {rehearsing{policies: true, enough: 2, first: backend.Rehearsal{SQLState: "0A000", Wanted: []string{"b"}}}, 0},
		"rehearsed":     {rehearsing{policies: true, enough: 2, says: map[string]string{"b": "", "c": ""}}, 2},
	} {
		f := newFixture(t, func(o *Options) {
			o.Agreements = &Agreements{Database: &c.database, Others: &c.database, Limit: time.Second}
		})
		if _, err := f.g.SubmitAgreed(context.Background(), "bank", []*wire.Statement{effects()}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := len(f.orderedEffects().Agreements); n != c.agreements {
			t.Errorf("%s: ordered with %d agreements, want %d", name, n, c.agreements)
		}
		if n := len(c.database.asked); n != c.agreements {
			t.Errorf("%s: %d organisations are asked, want %d", name, n, c.agreements)
		}
	}
}
