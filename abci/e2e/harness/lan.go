package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Lan is a network of hosts of their own, joined by a switch that can be divided. A host is a Linux
// network namespace without a name: it ends with the last process in it, also when this one is
// killed.
//
// The switch is made in the network namespace of this process, which therefore should be a private
// one (CLONE_NEWNET), and needs CAP_NET_ADMIN.
//
// Its devices have names of its own: one that was not let go of yet, by processes of an earlier
// run, is in nobody's way.
type Lan struct {
	mu     sync.RWMutex // read: somebody is within a host; guards closed
	closed bool
	hosts  []*host
	parts  int    // how many switches there are
	id     string // in names of devices
	// carrier is in the place of the switch of distant hosts; nil otherwise.
	carrier *carrier
}

// lans counts those of this process.
var lans atomic.Int64

// host is one network namespace, by the file that keeps it.
type host struct {
	name    string
	address string
	file    *os.File
	joined  bool // by a port
}

// NewLan makes a host for each name, all joined. Close ends it.
func NewLan(names []string) (*Lan, error) {
	l := &Lan{id: fmt.Sprintf("%d-%d", os.Getpid(), lans.Add(1))}
	if err := l.addSwitch(); err != nil {
		return nil, err
	}
	if err := l.addHosts(names); err != nil {
		return nil, err
	}
	return l, nil
}

// NewDistantLan makes a host for each name, at no distance from each other until SetDistance. It
// cannot be divided, and leaves the network of this process as it is. Close ends it.
func NewDistantLan(names []string) (*Lan, error) {
	l := &Lan{carrier: &carrier{}}
	if err := l.addHosts(names); err != nil {
		return nil, err
	}
	l.carrier.start()
	return l, nil
}

// SetDistance has frames that are sent from now on take a time from each host of a distant Lan to
// each other one.
func (l *Lan) SetDistance(oneWay time.Duration) { l.carrier.delay.Store(int64(oneWay)) }

// addHosts makes and joins the hosts. After an error the Lan is closed.
func (l *Lan) addHosts(names []string) error {
	for _, name := range names {
		if _, err := l.Add(name); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return nil
}

// Add makes and joins one more host, and returns its address. A distant Lan that is made takes no
// host.
func (l *Lan) Add(name string) (address string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", errors.New("the Lan is closed")
	}
	h := &host{name: name, address: fmt.Sprintf("10.77.0.%d", len(l.hosts)+1)}
	if err := h.open(); err != nil {
		return "", fmt.Errorf("make network namespace of %s: %w", name, err)
	}
	l.hosts = append(l.hosts, h)
	if err := l.join(len(l.hosts) - 1); err != nil {
		return "", fmt.Errorf("connect %s: %w", name, err)
	}
	return h.address, nil
}

// A name has at most 15 bytes: seven for the process, three for how many it made.
func (l *Lan) port(i int) string   { return fmt.Sprintf("p%s-%d", l.id, i) }
func (l *Lan) bridge(i int) string { return fmt.Sprintf("s%s-%d", l.id, i) }

func (l *Lan) addSwitch() error {
	name := l.bridge(l.parts)
	if err := ip(nil, "link add "+name+" type bridge", "link set "+name+" up"); err != nil {
		return err
	}
	l.parts++
	return nil
}

// join connects host i with the first switch, or with the carrier.
func (l *Lan) join(i int) error {
	h := l.hosts[i]
	if l.carrier != nil {
		return h.within(func() error {
			tap, err := openTap()
			if err != nil {
				return err
			}
			l.carrier.taps = append(l.carrier.taps, tap)
			return h.up(fmt.Sprintf("link set %s address %s mtu %d", tapDevice, tapAddress(i), tapMTU))
		})
	}
	// the far end is handed over as a file: the namespace has no name
	if err := ip(h.file, "link add "+l.port(i)+" type veth peer name eth0 netns /proc/self/fd/3"); err != nil {
		return err
	}
	h.joined = true
	if err := ip(nil, "link set "+l.port(i)+" master "+l.bridge(0), "link set "+l.port(i)+" up"); err != nil {
		return err
	}
	return h.within(func() error { return h.up() })
}

// up brings the host's devices up after some commands; this thread is in its namespace.
func (h *host) up(first ...string) error {
	return ip(nil, append(first, "link set lo up", "address add "+h.address+"/24 dev eth0", "link set eth0 up")...)
}

// Divide splits the hosts: those of each group reach each other and nobody else; hosts that no
// group names form one more. Packets under way are lost silently, as on a cut cable. Without a
// group all are joined again.
func (l *Lan) Divide(groups ...[]string) error {
	for l.parts < len(groups)+1 {
		if err := l.addSwitch(); err != nil {
			return err
		}
	}
	var commands []string
	for i, h := range l.hosts {
		in := 1 + slices.IndexFunc(groups, func(g []string) bool { return slices.Contains(g, h.name) })
		commands = append(commands, "link set "+l.port(i)+" master "+l.bridge(in))
	}
	return ip(nil, commands...)
}

// Join gives the network of this process an address at the first switch. Hosts that no group names
// reach it while the Lan is divided. It ends with the Lan.
//
// The switch gets a hardware address of its own. Else it has that of one of its ports, and another
// switch to which that port goes would take in what is for this process.
func (l *Lan) Join() (address string, err error) {
	return joined, ip(nil, "link set lo up", "link set "+l.bridge(0)+" address 02:77:00:00:00:01", "address add "+joined+"/24 dev "+l.bridge(0))
}

// joined is the address that Join gives; hosts have those from 1 on.
const joined = "10.77.0.254"

// Within calls do on a thread in a host's network. Sockets that do opens there stay the host's. A
// driver may still close connections when a Lan is closed: it gets an error.
func (l *Lan) Within(name string, do func() error) error {
	if l == nil {
		return do()
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return errors.New("the Lan is closed")
	}
	return l.host(name).within(do)
}

// Close cuts the hosts off and lets go of them; they end with the processes in them.
func (l *Lan) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	var errs []error
	if l.carrier != nil {
		errs = append(errs, l.carrier.close())
	}
	for i, h := range l.hosts {
		if h.joined {
			errs = append(errs, ip(nil, "link delete "+l.port(i)))
		}
		errs = append(errs, h.file.Close())
	}
	for i := range l.parts {
		errs = append(errs, ip(nil, "link delete "+l.bridge(i)))
	}
	l.hosts, l.parts = nil, 0
	return errors.Join(errs...)
}

// host finds one by name; nil, where everything runs, without a Lan.
func (l *Lan) host(name string) *host {
	if l == nil {
		return nil
	}
	for _, h := range l.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// open makes the namespace.
func (h *host) open() (err error) {
	return onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		h.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
}

// within calls do on a thread in the host's namespace: processes that it starts are in it.
func (h *host) within(do func() error) error {
	if h == nil {
		return do()
	}
	return onOwnThread(func() error {
		if err := unix.Setns(int(h.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network of %s: %w", h.name, err)
		}
		return do()
	})
}

// onOwnThread calls do on a thread that ends after it, with whatever do changed of it.
func onOwnThread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- do()
	}()
	return <-done
}

// ip runs commands of iproute2's ip, with a file as descriptor 3 when there is one.
func ip(file *os.File, commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
