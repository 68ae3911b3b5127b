package dial

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
	dialled := func(r *Redial, looks int, err error) (at []int) {
		for look := range looks {
			if r.Look(false, small, great) {
				at = append(at, look)
				r.Dialled(err)
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
		r := &Redial{}
		if at := dialled(r, 200, c.err); len(at) != c.want {
			t.Errorf("%s: dialled at looks %v, %d times, want %d", name, at, len(at), c.want)
		}
	}
	r := &Redial{}
	dialled(r, 200, nil)
	for range lasts {
		if r.Look(true, small, great) {
			t.Error("a peer that is connected is dialled")
		}
	}
	r.pause = 0
	if at := dialled(r, 2, nil); len(at) != 2 {
		t.Errorf("after a connection that lasted: dialled at looks %v, want both", at)
	}
}

// Of two nodes one dials; the other one only when that does not succeed.
func TestOneOfTwoNodesDials(t *testing.T) {
	small, great := p2p.ID(strings.Repeat("1", 40)), p2p.ID(strings.Repeat("a", 40))
	for apart := 1; apart <= otherSideDials; apart++ {
		if !dials(small, great, apart) || dials(great, small, apart) {
			t.Errorf("apart at %d looks: the smaller one dials %v, the other one %v", apart, dials(small, great, apart), dials(great, small, apart))
		}
	}
	if !dials(great, small, otherSideDials+1) {
		t.Error("the one that is not reached never dials")
	}
}
