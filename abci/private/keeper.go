package private

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// DeliverLimit bounds how long a submission waits for other members.
	DeliverLimit = 5 * time.Second
	// heightsAhead is how far another node's last decided block may be beyond this one's.
	heightsAhead = 1_000
	queryLimit   = 10 * time.Second
	// sealedWait bounds how long a value waits for the block that seals its column, and sealedPoll
	// is how often it is looked for.
	sealedWait = 2 * time.Second
	sealedPoll = 20 * time.Millisecond
)

// Errors of a delivery, beside those of values that are wrong.
var (
	// ErrNotKnown: the database has not told yet who may hold what.
	ErrNotKnown = errors.New("who may hold private values is not known yet")
	// ErrNoDatabase: the organisation's database cannot hold private values.
	ErrNoDatabase = errors.New("the organisation's database holds no private values: it takes a PostgreSQL")
)

// UndeliveredError says that too few members hold the values of a transaction (K3).
type UndeliveredError struct{ Why string }

func (e *UndeliveredError) Error() string { return "private values not delivered: " + e.Why }

// Others reaches nodes of other organisations.
type Others interface {
	// Deliver sends each organisation its values, for a transaction, until enough holds of those
	// that confirmed, all have answered, or ctx ends. It returns the answers: "" confirms, else it
	// is why not.
	Deliver(ctx context.Context, tx wire.TxID, validUntil uint64, to map[string][]*wire.SealedValue, enough func(holds func(string) bool) bool) map[string]string
	// Ask asks an organisation's nodes for values. The values may be wrong.
	Ask(ctx context.Context, organisation string, names []*wire.SealedName) ([]*wire.SealedValue, error)
}

// ErrNoChannel: the node has no way to other nodes but CometBFT's own.
var ErrNoChannel = errors.New("a node whose CometBFT is a process of its own carries no private values")

// Options configures a Keeper.
type Options struct {
	ChainID, Organisation string
	Disk                  Disk
	// TakesPart reports whether an organisation is one with a database.
	TakesPart func(organisation string) bool
	// Height is that of the last decided block. Current reports whether the database has all blocks
	// up to there.
	Height  func() int64
	Current func() bool
	Log     *slog.Logger
}

// Keeper keeps private values on their way: from a client or another member until the database has
// them. It fetches those that the database lacks. It is safe for concurrent use.
type Keeper struct {
	opt      Options
	database backend.Private
	others   Others
	store    *store
	circles  atomic.Pointer[Circles] // nil: not known
	wake     chan struct{}

	// paces and untold are of Run alone. untold is how often in turn the database did not tell who
	// may hold what.
	paces  paces
	untold int

	mu     sync.Mutex  // guards all below
	stale  bool        // definitions may have changed
	unheld bool        // the database did not take values of a block
	done   []wire.TxID // executed
}

// New opens the store. Attach has to follow.
func New(opt Options) (*Keeper, error) {
	k := &Keeper{opt: opt, wake: make(chan struct{}, 1), stale: true, paces: paces{}}
	var err error
	k.store, err = openStore(opt.Disk)
	return k, err
}

// Attach gives it the database and the other organisations, before anybody else calls it. nil: the
// database holds no private values; there is no way to the others.
func (k *Keeper) Attach(database backend.Private, others Others) {
	k.database, k.others = database, others
}

// Deliver has the values of a client's transaction at enough members when it returns nil (K3): on
// this node's disk, and at one more member of each circle that has one. Other errors than the named
// ones say what is wrong with the values.
func (k *Keeper) Deliver(ctx context.Context, id wire.TxID, validUntil uint64, effects []byte, values []*wire.SealedValue) error {
	circles, err := k.fitting(ctx, values, k.opt.Organisation)
	if err != nil {
		return err
	}
	if err := Written(effects, values); err != nil {
		return err
	}
	if err := k.store.keep(&wire.PrivateValues{Organisation: k.opt.Organisation, Transaction: id[:], ValidUntilHeight: validUntil, Values: values}); err != nil {
		return k.unkept(k.opt.Organisation, err)
	}
	to := circles.Deliveries(k.opt.Organisation, values, k.opt.TakesPart)
	if len(to) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, DeliverLimit)
	defer cancel()
	replies := k.others.Deliver(ctx, id, validUntil, to, func(holds func(string) bool) bool {
		return len(circles.Lacking(values, to, holds)) == 0
	})
	holds := func(organisation string) bool {
		refusal, answered := replies[organisation]
		return answered && refusal == ""
	}
	if lacking := circles.Lacking(values, to, holds); len(lacking) > 0 {
		return errors.Join(&UndeliveredError{silent(lacking, replies, DeliverLimit.String())}, k.store.forget(id))
	}
	return nil
}

// fitting is who may hold what, once values fit it for these organisations. A column that is not
// known to be sealed may be so in a block that is under way: that is waited for a while.
func (k *Keeper) fitting(ctx context.Context, values []*wire.SealedValue, organisations ...string) (*Circles, error) {
	ends := time.Now().Add(sealedWait)
	for {
		circles, err := k.known()
		for _, organisation := range organisations {
			if err == nil {
				err = circles.Fits(k.opt.ChainID, organisation, values)
			}
		}
		if !errors.Is(err, errNotSealed) && !errors.Is(err, ErrNotKnown) || time.Now().After(ends) {
			return circles, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(sealedPoll):
		}
	}
}

func (k *Keeper) known() (*Circles, error) {
	switch {
	case k.database == nil:
		return nil, ErrNoDatabase
	case k.others == nil:
		return nil, ErrNoChannel
	}
	circles := k.circles.Load()
	if circles == nil {
		return nil, ErrNotKnown
	}
	return circles, nil
}

// Take keeps what another member sent, or says why not. The sender has to be in the circles, too:
// who may not hold a value has none to send.
func (k *Keeper) Take(ctx context.Context, from string, m *wire.PrivateValues) (refusal string) {
	height := uint64(max(k.opt.Height(), 0))
	if m.ValidUntilHeight > height+wire.ValidityHeightsMax+heightsAhead {
		return fmt.Sprintf("valid_until_height is %d, and the last block decided %d", m.ValidUntilHeight, height)
	}
	if _, err := k.fitting(ctx, m.Values, k.opt.Organisation, from); err != nil {
		return err.Error()
	}
	if err := k.store.keep(m); err != nil {
		return k.unkept(from, err).Error()
	}
	return ""
}

// unkept is why values were not kept, for others: what the disk says is for the log alone.
func (k *Keeper) unkept(of string, err error) error {
	if errors.Is(err, ErrFull) {
		return err
	}
	k.opt.Log.Error("private values cannot be kept on the disk", "of", of, "error", err)
	return ErrDisk
}

// Give are those of the named values that this node or its database has and the asking
// organisation may hold (K1). Cost: a read of the store, and one query.
func (k *Keeper) Give(ctx context.Context, to string, names []*wire.SealedName) ([]*wire.SealedValue, error) {
	circles, err := k.known()
	if err != nil {
		return nil, err
	}
	var may []*wire.SealedName
	for _, name := range names {
		if circles.May(to, name.Table, name.Column) && circles.May(k.opt.Organisation, name.Table, name.Column) {
			may = append(may, name)
		}
	}
	found, err := k.store.find(may)
	if err != nil || len(may) == 0 {
		return nil, err
	}
	if rest := without(may, found); len(rest) > 0 {
		held, err := k.database.Held(ctx, rest)
		if err != nil {
			return nil, err
		}
		found = append(found, held...)
	}
	return bounded(found), nil
}

// without are the names of which no value was found.
func without(names []*wire.SealedName, found []*wire.SealedValue) (rest []*wire.SealedName) {
	have := make(map[string]bool, len(found))
	for _, v := range found {
		have[cellName(v.Table, v.Column, v.Commitment)] = true
	}
	for _, name := range names {
		if !have[cellName(name.Table, name.Column, name.Commitment)] {
			rest = append(rest, name)
		}
	}
	return rest
}

// bounded are the first values that one message takes.
func bounded(values []*wire.SealedValue) []*wire.SealedValue {
	bytes := 0
	for i, v := range values {
		if bytes += len(v.Value); i == wire.SealedMax || bytes > wire.SealedBytesMax {
			return values[:i]
		}
	}
	return values
}

// Values implements backend.OnTheWay.
func (k *Keeper) Values(id wire.TxID) []*wire.SealedValue {
	if !k.store.has(id) {
		return nil
	}
	values, err := k.store.values(id)
	if err != nil {
		k.opt.Log.Error("private values on their way cannot be read; others are asked for them", "error", err)
	}
	return values
}

// Unheld implements backend.OnTheWay.
func (k *Keeper) Unheld(err error) {
	k.opt.Log.Warn("the database did not take a block's private values; it gets them later", "error", err)
	k.mu.Lock()
	k.unheld = true
	k.mu.Unlock()
	k.signal()
}

// Committed says that the database has a block, with what became of its transactions. Definitions
// may have changed when it has a DEPLOY. It does not wait.
func (k *Keeper) Committed(block *wire.OrderedBlock) {
	k.mu.Lock()
	for _, id := range block.IDs {
		if k.store.has(id) {
			k.done = append(k.done, id)
		}
	}
	k.stale = k.stale || wire.Deploys(block.Transactions)
	work := k.stale || len(k.done) > 0
	k.mu.Unlock()
	if work {
		k.signal()
	}
}

func (k *Keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Status is what an operator sees.
type Status struct {
	Transactions, Bytes int // of values that are on their way
	Known               bool
}

// Status returns counts.
func (k *Keeper) Status() Status {
	transactions, bytes := k.store.size()
	return Status{transactions, bytes, k.circles.Load() != nil}
}
