package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// Reasons why a node is not let in.
var (
	errStops    = errors.New("this node stops")
	errLeft     = errors.New("which is not a member") // its organisation takes no part
	errUnknown  = errors.New("a node that no member vouches for")
	errUnnamed  = errors.New("a node that neither network.peers nor network.admitted_file names")
	errLeftPeer = fmt.Errorf("a node of an organisation %w", errLeft)
)

// question is whether a node may be connected.
//
// Invariant A8: a node is connected only with nodes that a member of the registry, or one that an
// accepted change adds, vouches for, and with those that its operator names. While it is behind,
// and may not know the members of now, it is also connected with the peers of its configuration,
// except those whose organisation it has seen leave.
type question struct {
	chainID string
	id      string
	// The node shows a vouch when it connects, and may send another one later. The last valid one
	// of a configured peer is kept.
	shown, heard, kept string
	registries         []*order.Registry // that in force, and one that an accepted change leads to
	named, configured  bool              // by the operator; as a peer
	behind             func() bool       // this node is
}

// judge says why the node may not be connected; nil: it may, by the vouch if there is one.
func (q question) judge() (vouch string, err error) {
	if q.named {
		return "", nil
	}
	refused := errUnknown
	for _, text := range []string{q.shown, q.heard, q.kept} {
		vouch, err := wire.ParseVouch(text)
		if err != nil {
			continue
		}
		for _, r := range q.registries {
			keys := r.Keys(vouch.Organisation)
			if vouch.By(keys, q.chainID, q.id) {
				return text, nil
			}
			if keys == nil {
				refused = fmt.Errorf("a node of %q, %w", vouch.Organisation, errLeft)
			} else {
				refused = fmt.Errorf("a node that shows no signature by a key of %q that counts", vouch.Organisation)
			}
		}
	}
	if q.configured && q.behind() && !q.left() {
		return "", nil
	}
	return "", refused
}

// judgeID is judge where nothing but the id of the node is known.
func (q question) judgeID() error {
	switch {
	case q.named:
		return nil
	case !q.configured:
		return errUnnamed
	case q.left():
		return errLeftPeer
	}
	return nil
}

// left tells that the organisation of the kept vouch is in none of the registries.
func (q question) left() bool {
	vouch, err := wire.ParseVouch(q.kept)
	if err != nil {
		return false
	}
	for _, r := range q.registries {
		if known, _ := r.Knows(vouch.Organisation); known {
			return false
		}
	}
	return true
}

// Farewell bounds how long a node that has to go stays connected: it should get the block that says
// so, or show its new keys.
const Farewell = 5 * time.Second

// ending is when it was found that a peer may not be connected any more, and at which height.
type ending struct {
	since  time.Time
	height int64
}

// over tells that the connection ends now: a node whose organisation left has the block that says
// so, or the farewell is over.
func (e ending) over(now time.Time, why error, hasBlock bool) bool {
	return now.Sub(e.since) >= Farewell || errors.Is(why, errLeft) && hasBlock
}
