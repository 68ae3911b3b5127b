package gateway

import (
	"net"
	"net/netip"
	"sync"
)

// shareOf is one client's share of a resource: a quarter.
func shareOf(all int) int { return max(1, all/4) }

// clientPlaces count what each client holds at once.
type clientPlaces struct {
	each int // at most

	mu   sync.Mutex // guards held
	held map[string]int
}

func newClientPlaces(all int) *clientPlaces {
	return &clientPlaces{each: shareOf(all), held: map[string]int{}}
}

func (s *clientPlaces) enter(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[who] >= s.each {
		return false
	}
	s.held[who]++
	return true
}

func (s *clientPlaces) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[who]--; s.held[who] == 0 {
		delete(s.held, who)
	}
}

// blockPlaces bound the blocks that are read at once, of all clients and of each.
type blockPlaces struct {
	all slots
	of  *clientPlaces
}

func newBlockPlaces(all int) *blockPlaces {
	return &blockPlaces{newSlots(all), newClientPlaces(all)}
}

func (b *blockPlaces) enter(who string) error {
	if !b.of.enter(who) {
		return tooManyRequests(b.of.each, "for blocks, of one client,")
	}
	if !b.all.enter() {
		b.of.leave(who)
		return tooManyRequests(cap(b.all), "for blocks")
	}
	return nil
}

func (b *blockPlaces) leave(who string) {
	b.all.leave()
	b.of.leave(who)
}

// addressOf returns the client that an address stands for. All addresses of an IPv6 /64 network are
// one client, since its owner can choose among them.
func addressOf(remote string) string {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "address " + remote
	}
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is6() {
		return "address " + netip.PrefixFrom(ip, 64).Masked().String()
	}
	return "address " + ip.String()
}

// byAddress is a listener that closes connections beyond the limit of their client's address.
type byAddress struct {
	net.Listener
	places *clientPlaces
}

// Accept implements net.Listener.
func (l byAddress) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who := addressOf(c.RemoteAddr().String())
		if l.places.enter(who) {
			return &counted{Conn: c, left: sync.OnceFunc(func() { l.places.leave(who) })}, nil
		}
		_ = c.Close()
	}
}

// counted is a connection that leaves its place when it is closed.
type counted struct {
	net.Conn
	left func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.left()
	return c.Conn.Close()
}
