package backend

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// SilenceMax is for how long a machine may leave bytes without an acknowledgement. A machine that
// is gone says nothing, not even that a connection is closed. Kernels wait a quarter of an hour for
// an acknowledgement, and two hours before they look after an idle connection.
//
// Shorter would end connections that a switch of the network interrupts for some seconds; a lost
// packet is sent again after 0.2, 0.6, 1.4, 3.0 and 6.2 s. A block that is open when a connection
// ends is executed again.
const SilenceMax = 10 * time.Second

// KeepAlive looks after a connection that rests: the first look is early, and SilenceMax ends them.
var KeepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// Dial connects to a database. A connection whose other machine is gone ends within SilenceMax and
// an idle time.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: KeepAlive, Control: func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(SilenceMax.Milliseconds()))
		})
		return errors.Join(err, failed)
	}}
	return d.DialContext(ctx, network, address)
}
