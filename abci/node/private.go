package node

import (
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/private"
)

// assemblePrivate opens what keeps private values on their way.
func (n *node) assemblePrivate() (err error) {
	n.private, err = private.New(private.Options{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Disk: nodestore.Private{DB: n.store},
		TakesPart: func(organisation string) bool { _, votes := n.gatewayKeyOf(organisation); return votes },
		Height:    n.height.Load,
		Current:   func() bool { return n.effects.Status().LastCommitted >= n.app.LastOrdered() },
		Log:       n.log.With("part", "private"),
	})
	return err
}

// attachPrivate connects it with the database and the other organisations, where there are ways to
// them.
func (n *node) attachPrivate() error {
	if n.backend == nil {
		return nil
	}
	database, _ := n.backend.(backend.Private)
	if n.opt.Beside {
		n.private.Attach(database, nil)
		return nil
	}
	nodeKey, err := n.opt.Home.NodeKey()
	if err != nil {
		return err
	}
	n.carrying, err = peers.NewPrivate(peers.PrivateOptions{
		ChainID: n.founded.ChainID(), Organisation: n.opt.Config.Organisation, Key: n.keys.Gateway, NodeID: string(nodeKey.ID()),
		GatewayKey: n.gatewayKeyOf, Ever: n.everKey, Conduct: n.conduct, Take: n.private.Take, Give: n.private.Give, Log: n.log.With("part", "private"),
	})
	if err == nil {
		n.private.Attach(database, n.carrying)
	}
	return err
}
