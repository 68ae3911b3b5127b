package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// deskFake is a database with requests, and what their clients were told.
type deskFake struct {
	asked     []backend.Asked
	withdrawn uint64
	told      map[uint64]backend.Answer
	err       error
}

func (f *deskFake) Asked(_ context.Context, most int) ([]backend.Asked, error) {
	return f.asked[:min(len(f.asked), most)], f.err
}

func (f *deskFake) Take(_ context.Context, answers []backend.Answer) (taken []uint64, err error) {
	for _, a := range answers {
		if a.Number != f.withdrawn {
			f.told[a.Number], taken = a, append(taken, a.Number)
		}
	}
	f.asked = nil
	return taken, f.err
}

func (f *deskFake) Change(_ context.Context, a backend.Answer) error {
	f.told[a.Number] = a
	return f.err
}

// Requests become transactions of their role. A client knows the id of its transaction before it is
// queued, and the reason when it is not. A withdrawn request is not submitted.
func TestDeskSubmitsWhatClientsAsk(t *testing.T) {
	h := newFixture(t, nil).g
	f := &deskFake{told: map[uint64]backend.Answer{}, withdrawn: 3}
	d := &Desk{Database: f, Gateway: h, Now: h.opt.Now, waiting: map[wire.TxID]fromDesk{}}
	look := func(asked ...backend.Asked) {
		t.Helper()
		f.asked = asked
		if n, err := d.look(t.Context()); err != nil || n != len(asked) {
			t.Fatal(n, err)
		}
	}
	look(
		backend.Asked{Number: 1, Role: "clerk", Kind: "sql", SQL: "UPDATE t SET a = $1", Parameters: `[7, "x", null, true]`},
		backend.Asked{Number: 2, Role: "clerk", Kind: "sql", SQL: "SELECT $1", Parameters: `[[1]]`},
		backend.Asked{Number: 3, Role: "clerk", Kind: "sql", SQL: "SELECT 3"},
		backend.Asked{Number: 4, Role: "owner", Kind: "deploy", SQL: "ATTACH TABLE public.t ENCODING 2"},
		backend.Asked{Number: 5, Role: "clerk", Kind: "other", SQL: "SELECT 5"},
		backend.Asked{Number: 6, Role: "clerk", Kind: "sql", SQL: "SELECT 6", Parameters: `[1] [2]`},
	)
	for number, want := range map[uint64]string{1: "", 2: StateMalformed, 4: "", 5: StateMalformed, 6: StateMalformed} {
		if a := f.told[number]; a.SQLState != want || (a.Transaction == wire.TxID{}) != (want != "") {
			t.Errorf("request %d: %+v, want %q", number, a, want)
		}
	}
	first := h.entries[f.told[1].Transaction]
	if len(h.entries) != 2 || first == nil || first.role != "clerk" {
		t.Fatalf("%d transactions are queued, the first %+v", len(h.entries), first)
	}
	p, err := wire.DecodeProposal(first.tx.Proposal.Proposal)
	if err != nil || len(p.Parameters) != 4 || p.Parameters[0].Text != "7" || p.Parameters[1].Text != "x" || !p.Parameters[2].Null || p.Parameters[3].Text != "true" {
		t.Errorf("%+v %v", p, err)
	}
	h.Refused([]wire.TxResult{{ID: f.told[1].Transaction, SQLState: StateExpired, Message: "expired"}})
	look()
	if a := f.told[1]; a.SQLState != StateExpired || a.Transaction != first.id || len(d.waiting) != 1 {
		t.Errorf("after a refusal: %+v, %d wait", a, len(d.waiting))
	}
	h.Close()
	look(backend.Asked{Number: 7, Role: "clerk", Kind: "sql", SQL: "SELECT 7"})
	if a := f.told[7]; a.SQLState != StateCannotOrder || !strings.Contains(a.Message, "stopping") {
		t.Errorf("at the end: %+v", a)
	}
	f.err = errors.New("gone")
	if _, err := d.look(t.Context()); err == nil {
		t.Error("a database that does not answer")
	}
}
