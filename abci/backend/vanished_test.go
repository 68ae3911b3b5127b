package backend

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chainify-db/chainify/abci/must"
)

// The kernel was told all limits of a connection over TCP. One over a Unix socket has none.
func TestDialSetsTheLimitsOfAConnection(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		address := map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"}[network]
		l, err := net.Listen(network, address)
		must.Do(t, err)
		defer l.Close()
		conn, err := Dial(t.Context(), network, l.Addr().String())
		must.Do(t, err)
		defer conn.Close()
		over, ok := conn.(*net.TCPConn)
		if !ok {
			continue
		}
		raw, err := over.SyscallConn()
		must.Do(t, err)
		for _, option := range []struct {
			name              string
			level, of, wanted int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(KeepAlive.Idle.Seconds())},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(KeepAlive.Interval.Seconds())},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, KeepAlive.Count},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(SilenceMax.Milliseconds())},
		} {
			var found int
			var failed error
			if err := raw.Control(func(fd uintptr) { found, failed = unix.GetsockoptInt(int(fd), option.level, option.of) }); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if found != option.wanted {
				t.Errorf("%s is %d, want %d", option.name, found, option.wanted)
			}
		}
	}
}
