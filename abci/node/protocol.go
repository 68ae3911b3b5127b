package node

import (
	"cmp"

	"github.com/chainify-db/chainify/abci/app"
	"github.com/chainify-db/chainify/abci/wire"
)

// knows is the newest version of the protocol that this program knows.
func (n *node) knows() wire.Protocol { return cmp.Or(n.opt.Knows, wire.ProtocolVersion) }

// newerProtocol says that the next order block is made by a version of the protocol that this
// program does not know; nil: it knows it.
func (n *node) newerProtocol() error {
	if n.app == nil {
		return nil
	}
	return n.app.Newer()
}

// stopForNewer has the node stop, since a newer version of the protocol is in force.
func (n *node) stopForNewer(why error) {
	select {
	case n.newer <- why:
	default:
	}
}

// protocol is the node's knowledge of the versions of the protocol, by organisation the oldest
// program among its connected nodes.
func (n *node) protocol(order app.Status) *wire.ProtocolStatus {
	out := &wire.ProtocolStatus{InForce: order.Protocol, Known: n.knows().Version()}
	if u := order.Upgrade; u != nil {
		out.Next, out.NextHeight = u.Version, uint64(u.Height)
	}
	oldest := n.order.Programs()
	for _, o := range n.registry().Record().Organisations {
		if o.Name != n.opt.Config.Organisation {
			out.Organisations = append(out.Organisations, &wire.ProtocolStatus_Knows{Organisation: o.Name, Version: oldest[o.Name]})
		}
	}
	return out
}
