package harness

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/e2e/isolated"
	"github.com/chainify-db/chainify/abci/must"
)

// Hosts reach each other, those of other parts do not, and all do again when the network is whole.
// Run in a network namespace of its own, so that nothing of this machine's network changes.
func TestDividedNetworkLetsNothingThrough(t *testing.T) {
	if !isolated.Network(t) {
		return
	}
	names := []string{"a", "b", "c"}
	l, err := NewLan(names)
	if errors.Is(err, exec.ErrNotFound) || err != nil && strings.Contains(err.Error(), "not supported") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// One of an earlier run that did not end is in nobody's way.
	other, err := NewLan(names)
	must.Do(t, err)
	reaches := func(from, to string) bool {
		err := l.host(from).within(func() error {
			return exec.Command("bash", "-c", "exec 2>/dev/null; timeout 0.3 bash -c 'echo >/dev/tcp/"+l.host(to).address+"/9'; test $? != 124").Run()
		})
		return err == nil // refused at once: the host is there
	}
	check := func(when string, want func(from, to string) bool) {
		t.Helper()
		for _, from := range names {
			for _, to := range names {
				if from == to {
					continue
				}
				if want(from, to) {
					if err := Poll(t.Context(), 20*time.Second, when+": "+from+" reaches "+to, func(context.Context) (bool, string, error) {
						return reaches(from, to), "no answer", nil
					}); err != nil {
						t.Error(err)
					}
				} else if reaches(from, to) {
					t.Errorf("%s: %s reaches %s", when, from, to)
				}
			}
		}
	}
	all := func(string, string) bool { return true }
	check("at first", all)
	must.Do(t, l.Divide([]string{"b"}))
	check("divided", func(from, to string) bool { return from != "b" && to != "b" })
	must.Do(t, l.Divide())
	check("joined again", all)
	must.Do(t, errors.Join(other.Close(), l.Close()))
	if left, err := exec.Command("ip", "-brief", "link", "show", "type", "veth").CombinedOutput(); err != nil || len(left) > 0 {
		t.Errorf("left behind: %s, %v", left, err)
	}
}

// A connection between distant hosts takes a message there and one back before it is made.
func TestDistantHostsReachEachOtherLater(t *testing.T) {
	l, err := NewDistantLan([]string{"a", "b"})
	if errors.Is(err, unix.EPERM) || errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := &Network{lan: l}
	a, b := &Node{Name: "a", net: n}, l.host("b")
	var listener net.Listener
	if err := b.within(func() (err error) {
		listener, err = net.Listen("tcp", b.address+":0")
		return err
	}); err != nil {
		t.Fatal(errors.Join(err, l.Close()))
	}
	for _, distance := range []time.Duration{0, 50 * time.Millisecond} {
		l.SetDistance(distance)
		begun := time.Now()
		conn, err := a.Dial(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(errors.Join(err, l.Close()))
		}
		if took := time.Since(begun); took < 2*distance {
			t.Errorf("connected after %v, though the hosts are %v from each other", took, distance)
		}
		_ = conn.Close()
	}
	if err := errors.Join(listener.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}
