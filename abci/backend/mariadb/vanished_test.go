package mariadb

import (
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

// A server that would keep the session of a vanished node is named, where the node can vanish.
func TestAServerThatKeepsAVanishedNodeIsNamed(t *testing.T) {
	for _, c := range []struct {
		name string
		is   settings
		want backend.Level
	}{
		{"as documented", settings{remote: true, idle: 5, interval: 2, probes: 3}, backend.Good},
		{"as the kernel has it", settings{remote: true}, backend.Warn},
		{"a part of it", settings{remote: true, idle: 5}, backend.Warn},
		{"after minutes", settings{remote: true, idle: 5, interval: 60, probes: 9}, backend.Warn},
		{"on this machine", settings{}, backend.Good},
	} {
		for _, f := range c.is.judge(time.Now(), time.Now()) {
			if f.Check == "a vanished node" && (f.Level != c.want || f.Level == backend.Warn && !strings.Contains(f.Mend, "tcp_keepalive_time = 5")) {
				t.Errorf("%s: %+v", c.name, f)
			}
		}
	}
	for _, c := range []struct {
		network, address string
		elsewhere        bool
	}{
		{"tcp", "db.example:3306", true},
		{"tcp", "10.0.0.7:3306", true},
		{"tcp", "[2001:db8::1]:3306", true},
		{"tcp", "127.0.0.1:3306", false},
		{"tcp", "[::1]:3306", false},
		{"tcp", "localhost:3306", false},
		{"unix", "/run/mysqld/mysqld.sock", false},
	} {
		if elsewhere(c.network, c.address) != c.elsewhere {
			t.Errorf("%s %s is elsewhere: %t", c.network, c.address, !c.elsewhere)
		}
	}
	for _, dsn := range []string{"mysql://chainify@db.example/shop", "mysql://chainify@/shop?socket=/s"} {
		if c, _, err := parseDSN(dsn); err != nil || c.DialFunc == nil {
			t.Errorf("%s: %v, without limits of its connections", dsn, err)
		}
	}
}
