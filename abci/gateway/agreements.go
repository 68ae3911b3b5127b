package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// stateLacksAgreement is the SQLSTATE of a transaction to which an organisation does not agree
// (spec/sql-api.md).
const stateLacksAgreement = "CH009"

// roundsMax bounds submissions that wait for agreement. One role alone may have half of them.
const roundsMax = 64

// Agreements finds the organisations that have to agree to a transaction, and asks them
// (spec/agreement.md).
type Agreements struct {
	Database backend.Rehearser
	Others   interface {
		Ask(ctx context.Context, id wire.TxID, tx []byte, organisations []string, enough func(map[string]peers.Reply) bool) map[string]peers.Reply
	}
	Limit time.Duration // for one transaction
	// Ordered is told which transactions are in a block; nil: nobody is.
	Ordered func(ids []wire.TxID)

	mu     sync.Mutex
	rounds *fair.Shares[string] // by role; nil before the first
	// blocks counts blocks committed here; known is whether there were policies when it was
	// knownAt.
	blocks, knownAt uint64
	known           bool
}

// committed says that a block is committed here: policies may be others now.
func (a *Agreements) committed(block *wire.OrderedBlock) {
	a.mu.Lock()
	a.blocks++
	a.mu.Unlock()
	if a.Ordered != nil {
		a.Ordered(block.IDs)
	}
}

// needed reports whether any table has a policy. Cost: one look into the database for each block.
func (a *Agreements) needed(ctx context.Context) (bool, error) {
	a.mu.Lock()
	at, fresh, known := a.blocks+1, a.knownAt == a.blocks+1, a.known
	a.mu.Unlock()
	if fresh {
		return known, nil
	}
	known, err := a.Database.HasPolicies(ctx)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.knownAt, a.known = at, known
	return known, nil
}

// gather asks for the agreements of each transaction, where tables have policies, and puts them
// into it. The database says of each DEPLOY whether others have to agree. Errors are *Error.
func (a *Agreements) gather(ctx context.Context, made []*entry) error {
	needed, err := a.needed(ctx)
	if err != nil {
		return notAsked(err)
	}
	if !needed {
		made = slices.DeleteFunc(slices.Clone(made), func(e *entry) bool { return !e.deploys })
	}
	if len(made) == 0 {
		return nil
	}
	role, rounds := made[0].role, a.shares()
	if !rounds.Take(role, 1) {
		return &Error{
			StateFull, "too many transactions wait for the agreement of others",
			fmt.Sprintf("At most %d submissions may, and of one role as many as are free beside it.", roundsMax), "Submit again later.",
		}
	}
	defer rounds.Give(role, 1)
	ctx = backend.For(ctx, "role "+role)
	ctx, cancel := context.WithTimeout(ctx, a.Limit)
	defer cancel()
	raw := make([][]byte, len(made))
	for i, e := range made {
		raw[i] = wire.Encode(e.tx)
	}
	found, err := a.Database.Rehearse(ctx, raw)
	if err != nil {
		return notAsked(err)
	}
	for i, e := range made {
		if err := a.round(ctx, e, raw[i], found[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agreements) shares() *fair.Shares[string] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rounds == nil {
		a.rounds = fair.New[string](roundsMax)
	}
	return a.rounds
}

// round gathers agreements to one transaction, of which found was shown. One that fails by itself
// is submitted as it is: its failure is an outcome like any other.
func (a *Agreements) round(ctx context.Context, e *entry, raw []byte, found backend.Rehearsal) error {
	switch {
	case found.SQLState != "":
		return nil
	case found.Refusal != "":
		return &Error{stateLacksAgreement, "this organisation does not agree to the transaction: " + found.Refusal, "", "It is its own agreement check that says so."}
	case len(found.Wanted) == 0:
		return nil
	}
	replies := a.Others.Ask(ctx, e.id, raw, found.Wanted, func(some map[string]peers.Reply) bool {
		if e.deploys {
			return enoughForDeploy(found.Wanted, some)
		}
		missing, err := a.missing(ctx, e.tx, found.Wanted, some)
		return err == nil && len(missing) == 0
	})
	agreements := agreed(found.Wanted, replies)
	// A DEPLOY is not run here: who approved it has said so, and whether that is enough shows when
	// it runs.
	if len(agreements) < len(found.Wanted) && !e.deploys {
		missing, err := a.missing(context.WithoutCancel(ctx), e.tx, found.Wanted, replies)
		switch {
		case err != nil:
			return notAsked(err)
		case len(missing) > 0:
			return refused(missing, replies, a.Limit)
		}
	}
	e.tx.Agreements = agreements
	e.size = proto.Size(e.tx) + transactionOverhead
	return nil
}

// enoughForDeploy reports whether more than two thirds of the organisations with a database agree,
// those asked and this one, which submits. With them it may change any policy and any table that
// has one (C3), and nothing takes more.
func enoughForDeploy(asked []string, replies map[string]peers.Reply) bool {
	n := len(asked) + 1
	return len(agreed(asked, replies))+1 >= 2*n/3+1
}

// agreed are the agreements of those that said yes.
func agreed(asked []string, replies map[string]peers.Reply) (out []*wire.Agreement) {
	for _, name := range asked {
		if r, ok := replies[name]; ok && r.Agreement.Yes {
			out = append(out, r.Agreement)
		}
	}
	return out
}

// missing are those asked whose agreement the policies still lack, or may take, with that of those
// that said yes; none when they are satisfied.
func (a *Agreements) missing(ctx context.Context, tx *wire.ChainedTx, asked []string, replies map[string]peers.Reply) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Limit)
	defer cancel()
	found, err := a.Database.Rehearse(ctx, [][]byte{wire.Encode(&wire.ChainedTx{Proposal: tx.Proposal, Agreements: agreed(asked, replies)})})
	if err != nil || found[0].SQLState != "" {
		return nil, err // one that fails now is submitted as it is
	}
	return slices.DeleteFunc(found[0].Wanted, func(name string) bool { return !slices.Contains(asked, name) }), nil
}

// refused names the organisations that do not agree, with the reasons, and those that did not
// answer.
func refused(missing []string, replies map[string]peers.Reply, limit time.Duration) *Error {
	var no, silent []string
	for _, name := range missing {
		if r, ok := replies[name]; ok {
			no = append(no, fmt.Sprintf("%s does not agree: %s", name, printable(r.Reason)))
		} else {
			silent = append(silent, fmt.Sprintf("%s did not answer within %s", name, limit))
		}
	}
	hint := "Nothing was submitted."
	if len(silent) > 0 {
		hint += " Submit again when all that have to agree are connected."
	}
	return &Error{stateLacksAgreement, "the transaction lacks an agreement: " + strings.Join(append(no, silent...), "; "), "", hint}
}

func notAsked(err error) *Error {
	return &Error{StateCannotOrder, "who has to agree to the transaction could not be found out", err.Error() + ".", "Submit again."}
}
