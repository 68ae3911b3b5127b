package takeover

import (
	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/effects"
)

// Loss is a node's knowledge of the votes on effects that an earlier node of its organisation gave,
// and whose log this node does not have (E5). It is kept over a restart.
//
// Before its own first signature beyond the heights that the earlier node signed for, a node votes
// on nothing. Then it abstains from the executions that were pending by then, but for votes that
// the order shows. The earlier node voted in precommits. A key whose last signature is lost signs
// for none of their heights (A14). Of a key whose last signature is kept, here or by a signer of
// its own, the heights up to that one are such.
type Loss struct {
	All     bool             `json:"all,omitempty"`   // it is not known how far the lost node came
	After   int64            `json:"after,omitempty"` // All ends with a signature beyond this height
	Unknown *effects.Unknown `json:"unknown,omitempty"`
	Voted   [][]byte         `json:"voted,omitempty"` // votes of the lost node, from its disk
	// Known is the height up to which Voted has all votes, by the log on that disk.
	Known int64 `json:"known,omitempty"`
}

// doubt has the node vote on nothing before it signs for a height beyond after.
func (l Loss) doubt(after int64) Loss {
	l.All, l.After, l.Unknown = true, max(l.After, after), nil
	return l
}

// misses tells that the log of this node's own votes is lost, where its keys signed for heights up
// to last.
func (l Loss) misses(own votelog.Own, last int64) bool { return own.Lost(last) && last > l.Known }

// signed follows a signature of this node for a height. Again: another process keeps the last
// signature, and may have given one of the same height before. Votes: the node votes from now on,
// but on what is pending.
func (l Loss) signed(height int64, again bool, pending func() effects.Unknown) (next Loss, votes bool) {
	if !l.All {
		return l, false
	}
	if again && l.After == 0 {
		l.After = height
	}
	if height <= l.After {
		return l, false
	}
	unknown := pending()
	l.All, l.After, l.Unknown = false, 0, &unknown
	return l, true
}
