package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/cometbft/cometbft/p2p"
)

// We dial a peer that ends connections as soon as they are made ever more rarely, up to every 7 s.
// At every look we dial one that is out of reach. A connection that lasted makes all well again.
func TestAPeerThatEndsConnectionsIsDialledMoreRarely(t *testing.T) {
	small, great := p2p.ID(strings.Repeat("1", 40)), p2p.ID(strings.Repeat("a", 40))
	dialled := func(r *redial, looks int, err error) (at []int) {
		for look := range looks {
			if r.look(false, small, great) {
				at = append(at, look)
				r.dialled(err)
			}
		}
		return at
	}
	for name, c := range map[string]struct {
		err  error
		want int // dials in 200 looks
	}{
		"not reached":                 {errors.New("connection refused"), 200},
		"another key than it was":     {p2p.ErrRejected{}, 200},
		"ends the connection at once": {nil, 3 + (200-11)/15 + 1},
	} {
		r := &redial{}
		if at := dialled(r, 200, c.err); len(at) != c.want {
			t.Errorf("%s: dialled at looks %v, %d times, want %d", name, at, len(at), c.want)
		}
	}
	r := &redial{}
	dialled(r, 200, nil)
	for range lasts {
		if r.look(true, small, great) {
			t.Error("a peer that is connected is dialled")
		}
	}
	r.pause = 0
	if at := dialled(r, 2, nil); len(at) != 2 {
		t.Errorf("after a connection that lasted: dialled at looks %v, want both", at)
	}
}
