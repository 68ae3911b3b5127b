package node

import (
	"context"

	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/private"
	"github.com/chainify-db/chainify/abci/wire"
)

// decided passes a decided block on to the gateway, before effects can answer for it.
func (n *node) decided(height int64, ids []wire.TxID) {
	n.height.Store(height)
	n.gateway.Decided(height, ids)
}

// tee shows the gateway what was decided before effects acts on it, and the metrics what is decided
// and voted.
type tee struct {
	*effects.Shell
	node *node
}

// Decided implements app.Effects.
func (t tee) Decided(d wire.Decision) {
	var ids []wire.TxID
	if d.Ordered != nil {
		ids = d.Ordered.IDs
		t.node.gateway.Ordered(d.Ordered)
	}
	t.node.decided(d.Height, ids)
	t.node.metrics.Decided(d)
	t.Shell.Decided(d)
}

// Seen implements app.Effects.
func (t tee) Seen(organisation string, vote wire.EffectVote) {
	t.node.metrics.Voted(organisation, vote)
	t.Shell.Seen(organisation, vote)
}

// Vote implements app.Effects.
func (t tee) Vote(ctx context.Context, block *wire.OrderedBlock) []byte {
	raw := t.Shell.Vote(ctx, block)
	if vote, err := wire.DecodeEffectVote(raw); err == nil {
		t.node.metrics.Voted(t.node.opt.Config.Organisation, vote)
	}
	return raw
}

// outcomes shows what the database committed to what keeps private values, too.
type outcomes struct {
	*gateway.Gateway
	private *private.Keeper
}

// Committed implements effects.Outcomes.
func (o outcomes) Committed(block *wire.OrderedBlock, results []wire.TxResult) {
	o.private.Committed(block)
	o.Gateway.Committed(block, results)
}
