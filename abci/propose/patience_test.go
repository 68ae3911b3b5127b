package propose

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	const most = 80 * time.Millisecond
	far := func(hurry uint) *Patience {
		p := &Patience{halvings: hurry}
		for i := range tripsKept {
			p.Came(time.Duration(100+i) * time.Millisecond)
		}
		return p
	}
	for _, c := range []struct {
		p    *Patience
		want time.Duration
	}{
		{&Patience{}, most},
		{&Patience{halvings: 1}, most / 2},
		{&Patience{halvings: halvingsMax}, most / 16},
		{far(0), most},
		{far(2), 70 * time.Millisecond},
		{far(3), 60 * time.Millisecond},
		{far(halvingsMax), most / 16}, // away again and again: they are not travelling
	} {
		if got := c.p.Limit(most); got != c.want {
			t.Errorf("in a hurry %d, %v away: waits for %v, want %v", c.p.halvings, c.p.distance(), got, c.want)
		}
	}
	for _, c := range []struct {
		p    *Patience
		came time.Duration
		want uint
	}{
		{&Patience{halvings: 2}, 40 * time.Millisecond, 1},
		{&Patience{halvings: 2}, 41 * time.Millisecond, 3},
		{&Patience{halvings: halvingsMax}, Never, halvingsMax},
		{&Patience{}, time.Millisecond, 0},
		{far(halvingsMax), 55 * time.Millisecond, 3}, // as long as the way takes
		{far(halvingsMax), 65 * time.Millisecond, halvingsMax},
	} {
		hurry := c.p.halvings
		if c.p.Learn(c.came, most); c.p.halvings != c.want {
			t.Errorf("in a hurry %d after all came in %v, want %d after %d", c.p.halvings, c.came, c.want, hurry)
		}
	}
	if p := (&Patience{}); p.distance() != 0 {
		t.Errorf("distance %v before any trip", p.distance())
	}
}
