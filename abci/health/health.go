// Package health derives findings for an operator from a node's status answer.
package health

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Wrong lists what is wrong, the worst first; nothing when all is well.
func Wrong(s *wire.StatusResponse) []string {
	var wrong []string
	if s.Outside {
		wrong = append(wrong, fmt.Sprintf("organisation %q takes no part in the consortium, or not with this node's gateway key (\"chainify org list\")", s.Organisation))
	}
	switch s.State {
	case "serving", "executing", "ordering_only", "standby":
	case "database_down":
		wrong = append(wrong, "the database cannot be reached; the node orders and waits for it")
	case "catching_up":
		wrong = append(wrong, "the node is catching up with the other organisations; it takes no transactions yet")
	case "recovering":
		wrong = append(wrong, "the database deviated and is being put right (chainify.deviations)"+after(s.Reason))
	case "failing":
		wrong = append(wrong, "this machine cannot execute a block that the other organisations agree on"+after(s.Reason))
	case "signed_elsewhere":
		wrong = append(wrong, "this node signs nothing until an operator acts"+after(s.Reason)+"; stop the other process for good, then \"chainify sign-again\" here")
	case "excluded":
		wrong = append(wrong, "excluded: the database is beyond repair by itself ("+s.Reason+"); nothing is executed, reads are stale (operator guide; then \"chainify rejoin\")")
	default:
		wrong = append(wrong, fmt.Sprintf("the node is in state %q", s.State))
	}
	if s.Organisations > 1 && s.Peers == 0 {
		wrong = append(wrong, "no other node is connected")
	}
	if behind := int64(s.LastOrdered) - int64(s.LastCommitted); behind > 1 && (s.State == "serving" || s.State == "executing") {
		wrong = append(wrong, fmt.Sprintf("the database is %d blocks behind the order", behind))
	}
	return append(wrong, upgrade(s.Protocol)...)
}

// upgrade lists those that do not know the version of the protocol that comes, or may not know it.
func upgrade(p *wire.ProtocolStatus) (wrong []string) {
	if p.GetNext() == 0 {
		return nil
	}
	if p.Known < p.Next {
		wrong = append(wrong, fmt.Sprintf("version %d of the protocol comes into force at height %d, and this program knows versions up to %d: the node stops there; install a release that knows it", p.Next, p.NextHeight, p.Known))
	}
	late, silent := Unready(p)
	for _, o := range late {
		wrong = append(wrong, fmt.Sprintf("version %d of the protocol comes into force at height %d, and the program of %s knows versions up to %d", p.Next, p.NextHeight, o.Organisation, o.Version))
	}
	if len(silent) > 0 {
		wrong = append(wrong, fmt.Sprintf("version %d of the protocol comes into force at height %d, and these were not heard to know it: %s", p.Next, p.NextHeight, strings.Join(silent, ", ")))
	}
	return wrong
}

// Unready tells the other organisations of which a node does not know the version of the protocol
// that comes, and those of which no node is connected. Both are empty when none comes.
func Unready(p *wire.ProtocolStatus) (late []*wire.ProtocolStatus_Knows, silent []string) {
	if p.GetNext() == 0 {
		return nil, nil
	}
	for _, o := range p.Organisations {
		switch {
		case o.Version == 0:
			silent = append(silent, o.Organisation)
		case o.Version < p.Next:
			late = append(late, o)
		}
	}
	return late, silent
}

// OthersLeanOn says how environments of other organisations differ, by name; empty: not at all.
func OthersLeanOn(differences []*wire.EnvironmentDifference) string {
	list := make([]string, len(differences))
	for i, d := range differences {
		list[i] = fmt.Sprintf("%s: %s of %s, %s here", d.Name, cmp.Or(d.Other, "none"), d.Organisation, cmp.Or(d.Own, "none"))
	}
	return strings.Join(list, "; ")
}

func after(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
