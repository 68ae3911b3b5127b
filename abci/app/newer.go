package app

import (
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// Newer says that the next order block is made by a version of the protocol that this program does
// not know; nil: it knows it. The node has to stop before it votes on that block.
func (a *App) Newer() error {
	state, err := a.current()
	if err != nil {
		return nil // InitChain and OpenSnapshot see to it
	}
	return a.newer(state)
}

func (a *App) newer(state *order.State) error {
	if p := state.Registry().Protocol(); p > a.opt.Knows {
		return &wire.NewerProtocolError{Version: p.Version(), Height: state.Height() + 1, Known: a.opt.Knows}
	}
	return nil
}

// refuse keeps a block of a newer version from being judged or applied. It holds CometBFT until the
// node stops.
func (a *App) refuse(state *order.State) error {
	err := a.newer(state)
	if err != nil && a.opt.Hold != nil {
		a.opt.Hold()
	}
	return err
}
