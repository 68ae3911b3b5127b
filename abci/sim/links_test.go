package sim

import (
	"errors"
	"io"
	"net"
	"sync"
)

// way is what a link does with what it is given.
type way int

const (
	open way = iota
	held     // nothing passes, and nothing is lost
	cut      // connections break, and none is made
)

// link carries one machine's connections to another one.
type link struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu    sync.Mutex // guards all below
	free  *sync.Cond // way changed
	way   way
	conns map[net.Conn]bool
}

// newLink makes an open link from an address to another one.
func newLink(from, to string) (*link, error) {
	listener, err := net.Listen("tcp", from)
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]bool{}}
	l.free = sync.NewCond(&l.mu)
	l.all.Go(l.accept)
	return l, nil
}

func (l *link) accept() {
	for {
		here, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			l.all.Go(func() { l.carry(here) })
		}
	}
}

func (l *link) carry(here net.Conn) {
	defer l.drop(here)
	if !l.pass(here) {
		return
	}
	there, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer l.drop(there)
	if !l.pass(there) {
		return
	}
	back := make(chan struct{})
	go func() { defer close(back); l.copy(here, there) }()
	l.copy(there, here)
	<-back
}

// copy copies until either connection ends, and ends the other one.
func (l *link) copy(to, from net.Conn) {
	defer l.drop(to)
	defer l.drop(from)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n == 0 && err != nil || !l.pass(from) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil || errors.Is(err, io.EOF) {
			return
		}
	}
}

// pass waits while the link is held, and tells that it is not cut. A connection is closed when the
// link is cut.
func (l *link) pass(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.way == held {
		l.free.Wait()
	}
	l.conns[c] = true
	return l.way == open
}

func (l *link) drop(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// set changes what the link does.
func (l *link) set(w way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.way = w
	l.free.Broadcast()
	if w == cut {
		for c := range l.conns {
			c.Close()
		}
	}
}

// close ends the link and waits for it.
func (l *link) close() {
	l.listener.Close()
	l.set(cut)
	l.all.Wait()
}
