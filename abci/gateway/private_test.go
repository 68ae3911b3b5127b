package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/chainify-db/chainify/abci/private"
	"github.com/chainify-db/chainify/abci/wire"
)

// delivering answers as a test says.
type delivering struct {
	err  error
	sent []wire.TxID
}

func (d *delivering) Deliver(_ context.Context, id wire.TxID, _ uint64, _ []byte, _ []*wire.SealedValue) error {
	d.sent = append(d.sent, id)
	return d.err
}

func withSealed() *wire.Statement {
	s := effects()
	s.Sealed = []*wire.SealedValue{{
		Commitment: make([]byte, 32), Table: "public.t", Column: "c", Type: "text", Salt: make([]byte, 32), Value: []byte{5, 0, 0, 0, 0},
	}}
	return s
}

// K3: nothing is ordered before enough members hold its values.
func TestNothingIsOrderedBeforeItsValuesAreHeld(t *testing.T) {
	for _, test := range []struct {
		err   error
		state string
	}{
		{nil, ""},
		{&private.UndeliveredError{Why: "bolt did not answer within 5s"}, "CH013"},
		{errors.Join(&private.UndeliveredError{}, errors.New("disk")), "CH013"},
		{private.ErrNoMember, "42501"},
		{private.ErrNoDatabase, "0A000"},
		{private.ErrNoChannel, "0A000"},
		{private.ErrNotKnown, "57P03"},
		{private.ErrDisk, "57P03"},
		{private.ErrFull, "53400"},
		{errors.New("a value is not that of its commitment"), "22023"},
	} {
		d := &delivering{err: test.err}
		f := newFixture(t, func(o *Options) { o.Private = d })
		ids, err := f.g.SubmitAgreed(context.Background(), "bank", []*wire.Statement{effects(), withSealed()})
		state := ""
		if e := (*Error)(nil); errors.As(err, &e) {
			state = e.SQLState
		}
		if state != test.state || len(d.sent) != 1 || test.err == nil && d.sent[0] != ids[1] {
			t.Errorf("%v: %v, sent %d", test.err, err, len(d.sent))
		}
		if ordered := f.g.Stats().Pending; (ordered == 2) != (test.err == nil) || ordered == 1 {
			t.Errorf("%v: %d queued", test.err, ordered)
		}
	}
}

func TestSealedValuesThatNoNodeTakes(t *testing.T) {
	f := newFixture(t, nil)
	other := sql("SELECT 1")
	other.Sealed = withSealed().Sealed
	short := withSealed()
	short.Sealed[0].Salt = []byte{1}
	many := withSealed()
	for range wire.SealedMax {
		many.Sealed = append(many.Sealed, many.Sealed[0])
	}
	for name, test := range map[string]struct {
		statement *wire.Statement
		state     string
	}{
		"no way to others": {withSealed(), StateUnsupported},
		"with SQL":         {other, StateMalformed},
		"a short salt":     {short, StateMalformed},
		"too many":         {many, StateMalformed},
	} {
		_, err := f.g.SubmitAgreed(context.Background(), "bank", []*wire.Statement{test.statement})
		if e := (*Error)(nil); !errors.As(err, &e) || e.SQLState != test.state {
			t.Errorf("%s: %v, want %s", name, err, test.state)
		}
	}
}
