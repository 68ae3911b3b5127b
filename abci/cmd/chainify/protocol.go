package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// protocolOf says which version of the protocol is in force, and which ones the program knows.
func protocolOf(inForce, known uint32) string {
	if inForce == known {
		return fmt.Sprintf("version %d", inForce)
	}
	return fmt.Sprintf("version %d; the node's program knows %d", inForce, known)
}

// protocolLine adds the version that comes; empty when the node does not tell.
func protocolLine(p *wire.ProtocolStatus) string {
	if p == nil {
		return ""
	}
	line := protocolOf(p.InForce, p.Known)
	if p.Next > 0 {
		line += fmt.Sprintf("; version %d comes into force at height %d", p.Next, p.NextHeight)
	}
	return line
}

// othersKnow lists the versions that the other organisations' nodes know; empty while all know
// what this one does and none comes.
func othersKnow(p *wire.ProtocolStatus) string {
	same := func(o *wire.ProtocolStatus_Knows) bool { return o.Version == p.Known || o.Version == 0 }
	if p == nil || p.Next == 0 && !slices.ContainsFunc(p.Organisations, func(o *wire.ProtocolStatus_Knows) bool { return !same(o) }) {
		return ""
	}
	list := make([]string, len(p.Organisations))
	for i, o := range p.Organisations {
		if list[i] = fmt.Sprintf("%s %d", o.Organisation, o.Version); o.Version == 0 {
			list[i] = o.Organisation + " is not connected"
		}
	}
	return strings.Join(list, ", ")
}
