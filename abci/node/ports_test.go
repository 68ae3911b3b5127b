package node

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// portsGiven are all ports below the ones that freePorts gives next.
var portsGiven = struct {
	sync.Mutex
	until int
}{until: 20_000 + os.Getpid()%20_000}

// freePorts finds consecutive ports that are free now. It gives no port twice: a node that is
// stopped keeps its own.
func freePorts(t testing.TB, count int) int {
	t.Helper()
	portsGiven.Lock()
	defer portsGiven.Unlock()
	for portsGiven.until+count < 60_000 {
		base := portsGiven.until
		portsGiven.until += count
		free := true
		for p := base; p < base+count && free; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if free = err == nil; free {
				l.Close()
			}
		}
		if free {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}
