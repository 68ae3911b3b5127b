package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/wire"
)

// rehearsing is a database in which b and c have to agree, or only one of them when enough is 1;
// and the others' answers to it. A DEPLOY asks for asks.
type rehearsing struct {
	asks     []string
	policies bool
	looks    int
	trips    int // rehearsals asked for at once count as one
	enough   int
	first    backend.Rehearsal // instead, for a transaction without agreements
	failing  error
	says     map[string]string // "" is yes; who is missing does not answer
	asked    []string
	cut      bool // the others were waited for until the limit
}

func (r *rehearsing) HasPolicies(context.Context) (bool, error) {
	r.looks++
	return r.policies, r.failing
}

func (r *rehearsing) Rehearse(_ context.Context, txs [][]byte) ([]backend.Rehearsal, error) {
	r.trips++
	return each(txs, r.rehearse)
}

// each rehearses transactions one by one.
func each(txs [][]byte, rehearse func([]byte) (backend.Rehearsal, error)) (list []backend.Rehearsal, err error) {
	for _, tx := range txs {
		found, err := rehearse(tx)
		if err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, nil
}

func (r *rehearsing) rehearse(raw []byte) (backend.Rehearsal, error) {
	tx, err := wire.DecodeChainedTx(raw)
	if err != nil || r.failing != nil {
		return backend.Rehearsal{}, errors.Join(err, r.failing)
	}
	agreements := tx.Chained.Agreements
	if r.asks != nil {
		return backend.Rehearsal{Wanted: r.asks}, nil
	}
	if len(agreements) == 0 && (r.first.SQLState != "" || r.first.Refusal != "") {
		return r.first, nil
	}
	if len(agreements) >= r.enough {
		return backend.Rehearsal{}, nil
	}
	var missing []string
	for _, name := range []string{"b", "c"} {
		if len(agreements) == 0 || agreements[0].Organisation != name {
			missing = append(missing, name)
		}
	}
	return backend.Rehearsal{Wanted: missing}, nil
}

func (r *rehearsing) Ask(ctx context.Context, id wire.TxID, _ []byte, organisations []string, enough func(map[string]peers.Reply) bool) map[string]peers.Reply {
	r.asked = organisations
	out := map[string]peers.Reply{}
	for name, reason := range r.says {
		out[name] = peers.Reply{Agreement: made(wire.Answer(testKey, name, "test", id, reason == "")), Reason: reason}
	}
	if r.cut = len(out) < len(organisations) && !enough(out); r.cut {
		<-ctx.Done()
	}
	return out
}

func TestAgreementsAreGatheredBeforeATransactionIsQueued(t *testing.T) {
	for _, c := range []struct {
		name       string
		database   rehearsing
		kind       wire.Kind
		agreements int
		cut        bool // the silent are waited for
		state      string
		says       []string
	}{
		{name: "no policies", database: rehearsing{enough: 2}},
		{
			name: "no table has a policy, a deployment needs others", kind: wire.Kind_KIND_DEPLOY, agreements: 2,
			database: rehearsing{asks: []string{"b", "c"}, says: map[string]string{"b": "", "c": ""}},
		},
		{name: "no table has a policy, a deployment needs nobody", kind: wire.Kind_KIND_DEPLOY, database: rehearsing{asks: []string{}, says: map[string]string{"b": ""}}},
		{name: "nobody is wanted", database: rehearsing{policies: true}},
		{name: "both agree", database: rehearsing{policies: true, enough: 2, says: map[string]string{"b": "", "c": ""}}, agreements: 2},
		{name: "one is enough", database: rehearsing{policies: true, enough: 1, says: map[string]string{"b": "no", "c": ""}}, agreements: 1},
		{name: "one is enough, one is silent", database: rehearsing{policies: true, enough: 1, says: map[string]string{"c": ""}}, agreements: 1},
		{
			name: "one refuses", database: rehearsing{policies: true, enough: 2, says: map[string]string{"b": "too dear", "c": ""}},
			state: "CH009", says: []string{"b does not agree: too dear"},
		},
		{
			name: "one refuses, one is silent", database: rehearsing{policies: true, enough: 2, says: map[string]string{"b": "too dear"}},
			state: "CH009", says: []string{"b does not agree: too dear", "c did not answer within 1s"},
		},
		{name: "its own check refuses", database: rehearsing{policies: true, enough: 2, first: backend.Rehearsal{Refusal: "too cheap"}}, state: "CH009", says: []string{"this organisation", "too cheap"}},
		{name: "it fails by itself", database: rehearsing{policies: true, enough: 2, first: backend.Rehearsal{SQLState: "23505"}}},
		{name: "the database is down", database: rehearsing{policies: true, failing: errors.New("no connection")}, state: StateCannotOrder, says: []string{"could not be found out"}},
		{
			name: "more than two thirds approved a deployment, one is silent", kind: wire.Kind_KIND_DEPLOY, agreements: 2,
			database: rehearsing{policies: true, asks: []string{"b", "c", "d"}, says: map[string]string{"b": "", "d": ""}},
		},
		{
			name: "two thirds approved a deployment, one is silent", kind: wire.Kind_KIND_DEPLOY, agreements: 1, cut: true,
			database: rehearsing{policies: true, asks: []string{"b", "c"}, says: map[string]string{"b": ""}},
		},
		{
			name: "too few approved a deployment, one is silent", kind: wire.Kind_KIND_DEPLOY, agreements: 1, cut: true,
			database: rehearsing{policies: true, asks: []string{"b", "c", "d"}, says: map[string]string{"b": "not approved", "d": ""}},
		},
		{name: "a deployment goes on with who approved it", kind: wire.Kind_KIND_DEPLOY, database: rehearsing{policies: true, enough: 2, says: map[string]string{"b": "not approved", "c": ""}}, agreements: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			database := c.database
			f := newFixture(t, func(o *Options) {
				o.Agreements = &Agreements{Database: &database, Others: &database, Limit: time.Second}
			})
			statement := sql("SELECT 1")
			if c.kind != 0 {
				statement.Kind = c.kind
			}
			ids, err := f.g.SubmitAgreed(context.Background(), "app", []*wire.Statement{statement})
			if c.state != "" {
				var e *Error
				if !errors.As(err, &e) || e.SQLState != c.state || f.g.Stats().Accepted != 0 {
					t.Fatalf("%v, %d accepted", err, f.g.Stats().Accepted)
				}
				for _, want := range c.says {
					if !strings.Contains(e.Message, want) {
						t.Errorf("%q lacks %q", e.Message, want)
					}
				}
				return
			}
			if err != nil || len(ids) != 1 {
				t.Fatal(ids, err)
			}
			f.g.step(context.Background())
			tx := f.mempool.bundles[0].Transactions[0]
			if database.cut != c.cut {
				t.Errorf("waited for who is silent: %t, want %t", database.cut, c.cut)
			}
			if len(tx.Agreements) != c.agreements {
				t.Errorf("ordered with %d agreements, want %d", len(tx.Agreements), c.agreements)
			}
		})
	}
}

// Transactions submitted together are rehearsed together, and asked for one by one: all of it is
// queued, or nothing.
func TestWhatIsSubmittedTogetherIsRehearsedTogether(t *testing.T) {
	statements := slices.Repeat([]*wire.Statement{sql("SELECT 1")}, 40)
	database := &rehearsing{policies: true, enough: 2, says: map[string]string{"b": "", "c": ""}}
	f := newFixture(t, func(o *Options) { o.Agreements = &Agreements{Database: database, Others: database, Limit: time.Second} })
	if ids, err := f.g.SubmitAgreed(context.Background(), "app", statements); err != nil || len(ids) != len(statements) || database.trips != 1 {
		t.Fatalf("%d of %d were submitted after asking the database %d times, want once: %v", len(ids), len(statements), database.trips, err)
	}
	f.g.step(context.Background())
	for i, tx := range f.mempool.bundles[0].Transactions {
		if len(tx.Agreements) != 2 {
			t.Errorf("transaction %d is ordered with %d agreements, want 2", i, len(tx.Agreements))
		}
	}
	database.first = backend.Rehearsal{Refusal: "too cheap"}
	database.asked = nil
	_, err := f.g.SubmitAgreed(context.Background(), "app", statements)
	wantState(t, err, stateLacksAgreement)
	if database.asked != nil || f.g.Stats().Accepted != uint64(len(statements)) {
		t.Errorf("others were asked (%v) about what is refused here, %d are accepted", database.asked, f.g.Stats().Accepted)
	}
}

func TestPoliciesAreLookedForOnceABlock(t *testing.T) {
	database := &rehearsing{}
	var ordered []wire.TxID
	f := newFixture(t, func(o *Options) {
		o.Agreements = &Agreements{Database: database, Limit: time.Second, Ordered: func(ids []wire.TxID) { ordered = append(ordered, ids...) }}
	})
	for block := range 3 {
		for range 4 {
			if _, err := f.g.SubmitAgreed(context.Background(), "app", []*wire.Statement{sql("SELECT 1")}); err != nil {
				t.Fatal(err)
			}
		}
		if database.looks != block+1 {
			t.Fatalf("looked %d times in block %d", database.looks, block)
		}
		f.g.Committed(&wire.OrderedBlock{IDs: []wire.TxID{{byte(block)}}}, nil)
	}
	if len(ordered) != 3 || ordered[2] != (wire.TxID{2}) {
		t.Errorf("told that %x are ordered, want those of three blocks", ordered)
	}
}

// Submissions that wait for agreement are bounded, and those of one role leave others room.
func TestRoundsOfAgreementAreBounded(t *testing.T) {
	a := &Agreements{Database: &rehearsing{policies: true}, Limit: time.Second}
	of := func(role string) []*entry {
		return []*entry{{role: role, tx: &wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: wire.Encode(&wire.Proposal{
			ChainId: "c", Client: &wire.Client{Organisation: "o", Role: role}, Kind: wire.Kind_KIND_SQL, Sql: "SELECT 1",
		})}}}}
	}
	for range roundsMax / 2 {
		if !a.shares().Take("greedy", 1) {
			t.Fatal("alone, a role has less than half")
		}
	}
	var e *Error
	if err := a.gather(context.Background(), of("greedy")); !errors.As(err, &e) || e.SQLState != StateFull || e.Hint == "" {
		t.Fatal(err)
	}
	for i := range 2 * roundsMax { // each leaves its place again
		if err := a.gather(context.Background(), of("other")); err != nil {
			t.Fatal(fmt.Errorf("round %d: %w", i, err))
		}
	}
}

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
