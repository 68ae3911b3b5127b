package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var clerkKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32))

// registerClerk registers clerkKey for role clerk.
func registerClerk(o *Options) {
	o.ClientRole = func(key []byte) (string, bool) {
		return "clerk", bytes.Equal(key, clerkKey.Public().(ed25519.PublicKey))
	}
}

// signed is a proposal of the clerk's, changed and then signed.
func signed(key ed25519.PrivateKey, change func(*wire.Proposal)) *wire.SignedProposal {
	p := &wire.Proposal{
		ChainId: "test", Client: &wire.Client{Organisation: "acme", Role: "clerk"}, Nonce: 1, ValidUntilHeight: 12,
		Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1",
	}
	change(p)
	return wire.SignProposal(key, p)
}

func unchanged(*wire.Proposal) {}

// submitSigned submits one.
func (f *fixture) submitSigned(s *wire.SignedProposal) (wire.TxID, error) {
	ids, err := f.g.SubmitSigned(context.Background(), []*wire.SignedProposal{s})
	if err != nil {
		return wire.TxID{}, err
	}
	return ids[0], nil
}

// A proposal that its client signed is queued once, with its own expiry; what the order would
// refuse is refused at once.
func TestSubmitSigned(t *testing.T) {
	f := newFixture(t, registerClerk)
	f.submit("bank", 1) // expires later, and was accepted before
	id, err := f.submitSigned(signed(clerkKey, unchanged))
	must.Do(t, err)
	if again, err := f.submitSigned(signed(clerkKey, unchanged)); err != nil || again != id {
		t.Errorf("submitted again: %x, %v, want %x", again, err, id)
	}
	f.step()
	f.wantSizes(2)
	forged := signed(clerkKey, unchanged)
	forged.Signature[0] ^= 1
	for name, c := range map[string]struct {
		signed *wire.SignedProposal
		state  string
	}{
		"forged":               {forged, StateNotRegistered},
		"another key":          {signed(testKey, unchanged), StateNotRegistered},
		"another role":         {signed(clerkKey, func(p *wire.Proposal) { p.Client.Role = "dba" }), StateNotRegistered},
		"another organisation": {signed(clerkKey, func(p *wire.Proposal) { p.Client.Organisation = "bolt" }), StateMalformed},
		"another chain":        {signed(clerkKey, func(p *wire.Proposal) { p.ChainId = "other" }), StateMalformed},
		"expired":              {signed(clerkKey, func(p *wire.Proposal) { p.ValidUntilHeight = 10 }), StateMalformed},
		"too far ahead":        {signed(clerkKey, func(p *wire.Proposal) { p.ValidUntilHeight = 2011 }), StateMalformed},
		"nothing":              {nil, StateMalformed},
	} {
		var e *Error
		if _, err := f.submitSigned(c.signed); !errors.As(err, &e) || e.SQLState != c.state {
			t.Errorf("%s: %v, want %s", name, err, c.state)
		}
	}
	for range 2 {
		f.decide()
	}
	if r, settled := f.outcome(id); !settled || r.SQLState != StateExpired {
		t.Errorf("after its height: %v, %t, though one that was accepted before it lives on", r, settled)
	}
}

// clerks are n proposals that the clerk signed together, the nonces from one on.
func clerks(n int, nonce uint64) []*wire.SignedProposal {
	proposals := make([]*wire.Proposal, n)
	for i := range proposals {
		proposals[i] = &wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "acme", Role: "clerk"}, Nonce: nonce + uint64(i), ValidUntilHeight: 12,
			Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1",
		}
	}
	return wire.SignProposals(clerkKey, proposals)
}

// Many that one client signed are queued in one go, all or none, each once whatever it came with;
// signed together or one by one.
func TestSubmitManySigned(t *testing.T) {
	f := newFixture(t, func(o *Options) { registerClerk(o); o.Limits.ClientRate, o.Limits.ClientBurst = 1, 12 })
	ctx := context.Background()
	some := clerks(5, 1)
	wrong := clerks(5, 11)
	wrong[3].Signature[80] ^= 1
	others := signed(testKey, unchanged)
	others.Signature = nil
	for name, c := range map[string]struct {
		signed []*wire.SignedProposal
		state  string
		says   string
	}{
		"none":             {nil, StateMalformed, "proposals: at least one"},
		"a forged one":     {wrong, StateNotRegistered, "proposals[3]: the signature"},
		"another client":   {append(clerks(2, 21), signed(testKey, unchanged)), StateMalformed, "proposals[2]: proposal.client: another"},
		"one not signed":   {append(clerks(2, 21), others), StateMalformed, "proposals[2]: proposal.signature"},
		"an expired one":   {append(clerks(2, 21), signed(clerkKey, func(p *wire.Proposal) { p.ValidUntilHeight = 1 })), StateMalformed, "proposals[2]: proposal.valid_until_height"},
		"too many":         {make([]*wire.SignedProposal, statementsMax+1), StateBound, "number of proposals"},
		"beyond its burst": {clerks(13, 31), StateBound, "at once"},
	} {
		var e *Error
		if _, err := f.g.SubmitSigned(ctx, c.signed); !errors.As(err, &e) || e.SQLState != c.state || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %v, want %s and %q", name, err, c.state, c.says)
		}
	}
	if n := f.g.Stats().Accepted; n != 0 {
		t.Fatalf("%d of refused requests are queued", n)
	}
	f.now = f.now.Add(time.Minute) // what was refused for its expiry counted against the rate
	want := [][]byte{idOf(some[4]), idOf(some[0]), idOf(some[4])}
	submit := func(signed ...*wire.SignedProposal) {
		t.Helper()
		path, _ := serveSocket(t, f, nil)
		if ids, err := dial(t, path).SubmitSigned(ctx, signed...); err != nil || !slices.EqualFunc(ids, want, bytes.Equal) {
			t.Errorf("ids %x, want %x: %v", ids, want, err)
		}
	}
	submit(some[4], some[0], some[4])
	want = nil
	for _, s := range some {
		want = append(want, idOf(s))
	}
	submit(some...)
	if n := f.g.Stats().Accepted; n != 5 {
		t.Errorf("%d are queued, want 5", n)
	}
	_, err := f.g.SubmitSigned(ctx, clerks(5, 41))
	wantState(t, err, StateFull) // 3 and 5 of 12 are used up
}

// Organisations that have to agree to a transaction are asked, with each kind of signature. Their
// signatures go beside the proposal.
func TestASignedProposalGathersAgreements(t *testing.T) {
	for name, c := range map[string]struct {
		says       map[string]string
		agreements int
		state      string
	}{
		"all agree":      {says: map[string]string{"b": "", "c": ""}, agreements: 2},
		"one does not":   {says: map[string]string{"b": "", "c": "too dear"}, state: stateLacksAgreement},
		"one is missing": {says: map[string]string{"b": ""}, state: stateLacksAgreement},
	} {
		database := &rehearsing{policies: true, enough: 2, says: c.says}
		f := newFixture(t, func(o *Options) {
			registerClerk(o)
			o.Agreements = &Agreements{Database: database, Others: database, Limit: 100 * time.Millisecond}
		})
		id, err := f.submitSigned(signed(clerkKey, unchanged))
		if c.state != "" {
			wantState(t, err, c.state)
			if f.g.Stats().Accepted != 0 {
				t.Errorf("%s: it is queued", name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.step()
		tx := f.mempool.bundles[0].Transactions[0]
		if n := len(tx.Agreements); n != c.agreements || wire.TxIDOf(tx.Proposal.Proposal) != id || len(tx.Proposal.Signature) == 0 {
			t.Errorf("%s: %d agreements, want %d, beside the signed proposal", name, n, c.agreements)
		}
	}
}

// Two that submit the same proposal while others are asked make one transaction.
func TestASignedProposalSubmittedTwiceWhileAskingIsQueuedOnce(t *testing.T) {
	var f *fixture
	database := &rehearsing{policies: true}
	again := func(ctx context.Context) {
		if _, err := f.g.SubmitSigned(ctx, []*wire.SignedProposal{signed(clerkKey, unchanged)}); err != nil {
			t.Error(err)
		}
	}
	f = newFixture(t, func(o *Options) {
		registerClerk(o)
		o.Agreements = &Agreements{Database: &interrupted{rehearsing: database, once: again}, Others: database, Limit: time.Second}
	})
	if _, err := f.submitSigned(signed(clerkKey, unchanged)); err != nil {
		t.Fatal(err)
	}
	if n := f.g.Stats().Accepted; n != 1 {
		t.Errorf("%d transactions are queued, want 1", n)
	}
}

// interrupted does something else once, in the midst of a rehearsal.
type interrupted struct {
	*rehearsing
	once func(context.Context)
}

func (i *interrupted) Rehearse(ctx context.Context, txs [][]byte) ([]backend.Rehearsal, error) {
	if do := i.once; do != nil {
		i.once = nil
		do(ctx)
	}
	return i.rehearsing.Rehearse(ctx, txs)
}

func TestHTTPSubmitSigned(t *testing.T) {
	f := newFixture(t, registerClerk)
	a := newAPI(t, f, "")
	a.OpenReads = false // beyond loopback, too, the signature says who it is
	body := func(s *wire.SignedProposal, more string) string {
		return fmt.Sprintf(`{"proposal":"%x","signature":"%x"%s}`, s.GetProposal(), s.GetSignature(), more)
	}
	right := signed(clerkKey, unchanged)
	forged := signed(clerkKey, unchanged)
	forged.Signature[0] ^= 1
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"forged":       {body(forged, ""), 403},
		"unregistered": {body(signed(testKey, unchanged), ""), 403},
		"expired":      {body(signed(clerkKey, func(p *wire.Proposal) { p.ValidUntilHeight = 1 }), ""), 400},
		"not signed":   {body(&wire.SignedProposal{Proposal: right.Proposal}, ""), 400},
		"no digits":    {`{"proposal":"x","signature":"00"}`, 400},
		"no JSON":      {"x", 400},
		"unknown":      {body(right, `,"role":"dba"`), 400},
	} {
		if r := a.ask("POST", "/v1/transactions/signed", "", c.body); r.code != c.code {
			t.Errorf("%s: %d %s, want %d", name, r.code, r.body, c.code)
		}
	}
	if n := f.g.Stats().Accepted; n != 0 {
		t.Fatalf("%d refused proposals are queued", n)
	}
	for range 2 { // the second time it is the same transaction
		r := a.ask("POST", "/v1/transactions/signed", "", body(right, ""))
		var ok accepted
		if err := json.Unmarshal([]byte(r.body), &ok); err != nil || r.code != 202 || ok.ID != hex.EncodeToString(idOf(right)) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if r := a.ask("POST", "/v1/transactions/signed", "", body(clerks(3, 1)[2], "")); r.code != 202 || f.g.Stats().Accepted != 2 {
		t.Errorf("one of several signed together: %+v", r)
	}
	f.decide(wire.TxID(idOf(right)))
	f.commit(wire.TxID(idOf(right)))
	if r := a.ask("POST", "/v1/transactions/signed", "", body(right, `,"wait_ms":1000`)); r.code != 200 || f.g.Stats().Accepted != 2 {
		t.Errorf("asked again for its outcome: %+v", r)
	}
}

func idOf(s *wire.SignedProposal) []byte {
	id := wire.TxIDOf(s.Proposal)
	return id[:]
}
