package private

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// disk is one that a test breaks.
type disk struct {
	mu     sync.Mutex
	kept   map[string][]byte
	broken error
}

func (d *disk) Each(each func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(d.kept)) {
		if err := each([]byte(key), d.kept[key]); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) Get(key []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[string(key)], nil
}

func (d *disk) Put(key, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken == nil {
		d.kept[string(key)] = value
	}
	return d.broken
}

func (d *disk) Delete(key []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.kept, string(key))
	return nil
}

// holding is a database.
type holding struct {
	mu      sync.Mutex
	circles backend.Circles
	missing []*wire.SealedName
	has     []*wire.SealedValue
}

func (h *holding) Circles(context.Context) (backend.Circles, error) { return h.circles, nil }

func (h *holding) Hold(_ context.Context, values []*wire.SealedValue) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.has, h.missing = append(h.has, values...), without(h.missing, values)
	return nil
}

func (h *holding) Missing(context.Context, int) ([]*wire.SealedName, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.missing, nil
}

func (h *holding) Held(_ context.Context, names []*wire.SealedName) (held []*wire.SealedValue, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.has {
		if len(within([]*wire.SealedName{nameOf(v)}, names)) > 0 {
			held = append(held, v)
		}
	}
	return held, nil
}

func (h *holding) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.has)
}

func nameOf(v *wire.SealedValue) *wire.SealedName {
	return &wire.SealedName{Table: v.Table, Column: v.Column, Commitment: v.Commitment}
}

// members are the other organisations.
type members struct {
	sent    map[string][]*wire.SealedValue
	replies map[string]string
	gives   map[string][]*wire.SealedValue
}

func (m *members) Deliver(_ context.Context, _ wire.TxID, _ uint64, to map[string][]*wire.SealedValue, _ func(func(string) bool) bool) map[string]string {
	m.sent = to
	return m.replies
}

func (m *members) Ask(_ context.Context, organisation string, _ []*wire.SealedName) ([]*wire.SealedValue, error) {
	return m.gives[organisation], nil
}

type fixture struct {
	*Keeper
	disk     *disk
	database *holding
	members  *members
	height   int64
}

func newFixture(t *testing.T, organisation string, d *disk) *fixture {
	t.Helper()
	f := &fixture{disk: d, database: &holding{circles: testCircles()}, members: &members{}, height: 10}
	k, err := New(Options{
		ChainID: "test", Organisation: organisation, Disk: d, TakesPart: func(string) bool { return true },
		Height: func() int64 { return f.height }, Current: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	})
	must.Do(t, err)
	f.Keeper = k
	k.Attach(f.database, f.members)
	k.circles.Store(NewCircles(f.database.circles))
	return f
}

func newDisk() *disk { return &disk{kept: map[string][]byte{}} }

// K3: a delivery succeeds when one more member of each circle confirmed.
func TestADeliveryTakesOneMoreMemberOfEachCircle(t *testing.T) {
	price, weight := sealed("price", "12.50"), sealed("weight", "8 t")
	for _, test := range []struct {
		replies map[string]string
		lacks   string // in the error
	}{
		{map[string]string{"bolt": ""}, ""},
		{map[string]string{"bolt": "", "cargo": "no"}, ""},
		{map[string]string{"cargo": ""}, "bolt did not answer within 5s"},
		{map[string]string{"cargo": "", "bolt": "its disk is full"}, "bolt refused them: its disk is full"},
		{nil, "bolt did not answer within 5s; cargo did not answer within 5s"},
	} {
		f := newFixture(t, "acme", newDisk())
		f.members.replies = test.replies
		id := wire.TxID{1}
		err := f.Deliver(context.Background(), id, 20, writes(price, weight), []*wire.SealedValue{price, weight})
		var few *UndeliveredError
		if test.lacks == "" {
			if err != nil || len(f.Values(id)) != 2 {
				t.Errorf("%v: %v, kept %v", test.replies, err, f.Values(id))
			}
		} else if !errors.As(err, &few) || !strings.HasSuffix(few.Why, test.lacks) || f.Values(id) != nil {
			t.Errorf("%v: %v, want %q; kept %v", test.replies, err, test.lacks, f.Values(id))
		}
		if len(f.members.sent["cargo"]) != 1 || f.members.sent["delta"] != nil {
			t.Errorf("sent %v", f.members.sent)
		}
	}
}

func TestADeliveryOfWrongValuesSendsNothing(t *testing.T) {
	price := sealed("price", "12.50")
	wrong := sealed("price", "12.50")
	wrong.Salt[0]++
	for name, test := range map[string]struct {
		organisation string
		effects      []byte
		value        *wire.SealedValue
	}{
		"another salt":     {"acme", writes(price), wrong},
		"not in the row":   {"acme", writes(sealed("price", "1")), price},
		"not in a circle":  {"cargo", writes(price), price},
		"no such circle":   {"delta", writes(price), price},
		"not a write set":  {"acme", []byte{1}, price},
		"not in the table": {"acme", writes(), price},
	} {
		f := newFixture(t, test.organisation, newDisk())
		if err := f.Deliver(context.Background(), wire.TxID{1}, 20, test.effects, []*wire.SealedValue{test.value}); err == nil || f.members.sent != nil || len(f.disk.kept) > 0 {
			t.Errorf("%s: %v, sent %v, kept %d", name, err, f.members.sent, len(f.disk.kept))
		}
	}
}

// Values of another member are there after a restart, until the database has it.
func TestValuesOutliveARestart(t *testing.T) {
	price, id := sealed("price", "12.50"), wire.TxID{1}
	m := &wire.PrivateValues{Organisation: "acme", Transaction: id[:], ValidUntilHeight: 20, Values: []*wire.SealedValue{price}}
	d := newDisk()
	f := newFixture(t, "bolt", d)
	if refusal := f.Take(context.Background(), "acme", m); refusal != "" {
		t.Fatal(refusal)
	}
	f = newFixture(t, "bolt", d)
	if got := f.Values(id); len(got) != 1 || string(got[0].Value) != string(price.Value) {
		t.Fatalf("after a restart %v", got)
	}
	f.Committed(&wire.OrderedBlock{IDs: []wire.TxID{{9}, id}})
	f.forget(f.takeDone())
	if s := f.Status(); len(d.kept) != 0 || f.Values(id) != nil || s.Transactions != 0 || s.Bytes != 0 {
		t.Errorf("kept %d, %v", len(d.kept), s)
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	id := wire.TxID{1}
	take := func(organisation, from string, change func(*fixture, *wire.PrivateValues)) string {
		f := newFixture(t, organisation, newDisk())
		m := &wire.PrivateValues{Organisation: from, Transaction: id[:], ValidUntilHeight: 20, Values: []*wire.SealedValue{sealed("price", "12.50")}}
		change(f, m)
		return f.Take(context.Background(), from, m)
	}
	nothing := func(*fixture, *wire.PrivateValues) {}
	for name, test := range map[string]struct{ got, want string }{
		"right":               {take("bolt", "acme", nothing), ""},
		"for no member":       {take("cargo", "acme", nothing), "not in the circle"},
		"of no member":        {take("bolt", "cargo", nothing), "not in the circle"},
		"a wrong value":       {take("bolt", "acme", func(_ *fixture, m *wire.PrivateValues) { m.Values[0].Value[5]++ }), "not that of its commitment"},
		"kept for ever":       {take("bolt", "acme", func(_ *fixture, m *wire.PrivateValues) { m.ValidUntilHeight = 1 << 40 }), "valid_until_height"},
		"a disk that is full": {take("bolt", "acme", func(f *fixture, _ *wire.PrivateValues) { f.disk.broken = errors.New("no space") }), ErrDisk.Error()},
		"a MariaDB":           {take("bolt", "acme", func(f *fixture, _ *wire.PrivateValues) { f.Attach(nil, f.members) }), ErrNoDatabase.Error()},
	} {
		if (test.got == "") != (test.want == "") || !strings.Contains(test.got, test.want) {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
}

// K1: values are given to members of their circle alone.
func TestWhatIsGiven(t *testing.T) {
	f := newFixture(t, "acme", newDisk())
	price, weight, id := sealed("price", "12.50"), sealed("weight", "8 t"), wire.TxID{1}
	must.Do(t, f.store.keep(&wire.PrivateValues{Organisation: "acme", Transaction: id[:], Values: []*wire.SealedValue{price}}))
	f.database.has = []*wire.SealedValue{weight}
	for organisation, want := range map[string]int{"bolt": 2, "cargo": 1, "delta": 0} {
		got, err := f.Give(context.Background(), organisation, []*wire.SealedName{nameOf(price), nameOf(weight)})
		if err != nil || len(got) != want {
			t.Errorf("%s gets %d, %v, want %d", organisation, len(got), err, want)
		}
	}
}

func TestExpiredValuesAreForgotten(t *testing.T) {
	f := newFixture(t, "acme", newDisk())
	id := wire.TxID{1}
	must.Do(t, f.store.keep(&wire.PrivateValues{Organisation: "acme", Transaction: id[:], ValidUntilHeight: 20, Values: []*wire.SealedValue{sealed("price", "1")}}))
	if got := f.store.expired(20, true); len(got) != 0 {
		t.Error("forgotten before the last height")
	}
	if got := f.store.expired(21, true); !slices.Equal(got, []wire.TxID{id}) {
		t.Errorf("expired %v", got)
	}
}

// A member that tells something else than was asked for does not keep another one from giving it.
func TestMissingValuesAreFetched(t *testing.T) {
	f := newFixture(t, "acme", newDisk())
	weight, lie := sealed("weight", "8 t"), sealed("weight", "8 t")
	lie.Value[5]++
	f.database.missing = []*wire.SealedName{nameOf(weight)}
	f.members.gives = map[string][]*wire.SealedValue{"bolt": {lie, sealed("price", "1")}, "cargo": {weight}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx) }()
	for f.database.count() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if f.database.count() != 1 || f.database.has[0] != weight {
		t.Errorf("has %v", f.database.has)
	}
}

// K4: of what another member gives, values count that were asked for and fit.
func TestFetchedValuesFitTheirCommitments(t *testing.T) {
	weight, lie, price := sealed("weight", "8 t"), sealed("weight", "8 t"), sealed("price", "1")
	lie.Value[5]++
	if got := asked("test", []*wire.SealedName{nameOf(weight)}, []*wire.SealedValue{lie, price, weight, weight}); len(got) != 1 || got[0] != weight {
		t.Errorf("taken %v", got)
	}
}

// Two transactions may have one value: it is found while one of them is kept.
func TestAValueOfTwoTransactions(t *testing.T) {
	f := newFixture(t, "acme", newDisk())
	note := sealed("note", "x")
	for _, id := range []wire.TxID{{1}, {2}} {
		must.Do(t, f.store.keep(&wire.PrivateValues{Organisation: "acme", Transaction: id[:], Values: []*wire.SealedValue{note}}))
	}
	f.forget([]wire.TxID{{1}})
	if found, err := f.store.find([]*wire.SealedName{nameOf(note)}); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	f.forget([]wire.TxID{{2}})
	if found, err := f.store.find([]*wire.SealedName{nameOf(note)}); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestAStoreIsBounded(t *testing.T) {
	f := newFixture(t, "acme", newDisk())
	f.store.shares.Take("acme", storeBytesMax/2-10)
	err := f.store.keep(&wire.PrivateValues{Organisation: "acme", Transaction: make([]byte, 32), Values: []*wire.SealedValue{sealed("price", "1")}})
	if !errors.Is(err, ErrFull) || len(f.disk.kept) != 0 {
		t.Errorf("%v, kept %d", err, len(f.disk.kept))
	}
}
