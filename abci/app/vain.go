package app

import (
	"errors"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// A gateway answers for the signatures of its clients: it verifies them before it signs a bundle.
// Where one is wrong, what this node verified in vain is charged to the gateway's organisation, in
// units of order.Work. The charge is local and passes: it decides what this node's mempool takes,
// and no block.
//
// While an organisation owes something, its bundles are verified apart from others'. While it has
// nothing left, its bundles are refused unopened. So one member has this node verify in vain 10,000
// units once, what one further batch takes, and 1,000 units a second. A unit takes 10 to 30 µs,
// hence that is 1 to 3 % of one processor.
const (
	vainMax  = 10_000
	vainEach = time.Millisecond
)

var errOverdrawn = &order.Refusal{Code: order.CodeOverdrawn, Err: errors.New("its gateway signed too many bundles with forged signatures of clients; offer it again later")}

func newVain(now func() time.Time) *fair.Budget[string] {
	return fair.NewBudget[string](vainMax, vainEach, wire.OrganisationsMax, now)
}

// owes reports whether an organisation's gateway signed forged signatures of late.
func (c *openCache) owes(organisation string) bool { return !c.vain.Full(organisation) }

// overdrawn reports whether nothing of an organisation is opened for now.
func (c *openCache) overdrawn(organisation string) bool { return c.vain.Left(organisation) <= 0 }

// charge charges the work of a batch to each organisation that has a wrong bundle in it.
func (c *openCache) charge(batch []*openedTx, wrong []error, work order.Work) {
	charged := map[string]bool{}
	for i, o := range batch {
		if organisation := o.Tx.Organisation(); wrong[i] != nil && !charged[organisation] {
			charged[organisation] = true
			c.vain.Spend(organisation, int64(work))
		}
	}
}
