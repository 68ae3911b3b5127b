package mariadb

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/isolated"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
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

// vanishedLimit is far above the limits of a session, and far below the two hours of the kernel.
const vanishedLimit = time.Minute

// A node's machine vanishes: its link is cut, so that no connection is closed. A server with the
// settings of docs/operator/mariadb.md gives its lock and its open block up, and another node
// executes the same block. The node finds out as well.
//
// Run in a network namespace of its own, so that nothing of this machine's network changes.
func TestAVanishedMachineFreesTheDatabase(t *testing.T) {
	if os.Getenv("CHAINIFY_TEST_MARIADB") == "" {
		t.Skip("CHAINIFY_TEST_MARIADB is not set: where it is, a MariaDB is installed; `make test-mariadb` sets it")
	}
	if !isolated.Network(t) {
		return
	}
	lan, err := harness.NewLan([]string{"node"})
	if errors.Is(err, exec.ErrNotFound) || err != nil && strings.Contains(err.Error(), "not supported") {
		t.Skip(err)
	}
	must.Do(t, err)
	t.Cleanup(func() { _ = lan.Close() })
	address, err := lan.Join()
	must.Do(t, err)
	t.Setenv("CHAINIFY_TEST_MARIADB", serve(t, address))
	dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if network == "unix" {
			return backend.Dial(ctx, network, address)
		}
		err = lan.Within("node", func() error {
			conn, err = backend.Dial(ctx, network, address)
			return err
		})
		return conn, err
	}
	o, node, first := vanishing(t, address)
	was, err := node.Execute(t.Context(), itemsBlock(2), first)
	must.Do(t, err)
	must.Do(t, acknowledged(t.Context()))
	must.Do(t, lan.Divide([]string{"node"}))
	found := make(chan error, 1)
	go func() { found <- node.Commit(context.Background()) }()
	if hash := takesOver(t, o, first); hash != was.Hash {
		t.Errorf("the block has hash %x, it had %x", hash, was.Hash)
	}
	tells(t, found)
}

// vanishing is a node on a machine of the Lan, whose database has block 1.
func vanishing(t *testing.T, address string) (o *organisation, node *Backend, first wire.Hash) {
	t.Helper()
	o = fresh(t, items)
	remote := o.name + "@'%'"
	o.run(t, "CREATE USER "+remote)
	t.Cleanup(func() { o.run(t, "DROP USER "+remote) })
	must.Do(t, Install(t.Context(), os.Getenv("CHAINIFY_TEST_MARIADB")+o.name, o.name+"@%", operators))
	node, err := New(Config{DSN: fmt.Sprintf("%s@tcp(%s:%d)/%s", o.name, address, vanishedPort, o.name), ChainID: "test", Organisation: "a", StuckAfter: time.Hour})
	must.Do(t, err)
	t.Cleanup(func() { _ = node.Close() })
	connected(t, node)
	x, err := node.Execute(t.Context(), itemsBlock(1), wire.Hash{})
	if err == nil {
		err = node.Commit(t.Context())
	}
	must.Do(t, err)
	return o, node, x.Hash
}

// takesOver waits until another node gets the database, and has it execute and commit block 2.
func takesOver(t *testing.T, o *organisation, first wire.Hash) wire.Hash {
	t.Helper()
	other := o.open(t)
	must.Do(t, harness.Poll(t.Context(), vanishedLimit, "take the database over", func(ctx context.Context) (bool, string, error) {
		_, err := other.Position(ctx)
		return err == nil, fmt.Sprint(err), nil
	}))
	x, err := other.Execute(t.Context(), itemsBlock(2), first)
	if err == nil {
		err = other.Commit(t.Context())
	}
	must.Do(t, err)
	return x.Hash
}

// tells: the vanished node has an error of its own, and does not wait on.
func tells(t *testing.T, found <-chan error) {
	t.Helper()
	select {
	case err := <-found:
		if err == nil {
			t.Error("the node of the vanished machine has an answer of the database")
		}
	case <-time.After(vanishedLimit):
		t.Errorf("the node waits for the database for more than %s", vanishedLimit)
	}
}

const vanishedPort = 3306 // of a network of its own

// quietLooks is how many looks in a row find nothing that is not acknowledged.
const quietLooks = 20

// acknowledged waits until the node's machine has acknowledged all that the server sent. After that
// the server's kernel looks after the connection as tcp_keepalive_time says. Until then it sends
// again, for as long as net.ipv4.tcp_retries2 says.
func acknowledged(ctx context.Context) error {
	local, quiet := fmt.Sprintf(":%04X", vanishedPort), 0
	return harness.Poll(ctx, vanishedLimit, "have all acknowledged", func(context.Context) (bool, string, error) {
		table, err := os.ReadFile("/proc/net/tcp")
		for _, line := range strings.Split(string(table), "\n") {
			if f := strings.Fields(line); len(f) > 4 && strings.HasSuffix(f[1], local) && !strings.HasPrefix(f[4], "00000000:") {
				quiet = 0
				return false, line, err
			}
		}
		quiet++
		return quiet == quietLooks, "the last look found nothing", err
	})
}

// serve runs a MariaDB with the settings of docs/operator/mariadb.md, and returns its data source
// name for an administrator.
func serve(t *testing.T, address string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "chainify-mariadb") // short: a socket's path is bounded
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if out, err := exec.Command("chown", "mysql", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	if out, err := exec.Command("mariadb-install-db", "--no-defaults", "--user=mysql", "--datadir="+dir+"/data", "--tmpdir="+dir,
		"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := exec.Command("mariadbd", "--no-defaults", "--user=mysql", "--datadir="+dir+"/data", "--socket="+dir+"/socket", "--pid-file="+dir+"/pid", "--tmpdir="+dir,
		"--bind-address="+address, fmt.Sprintf("--port=%d", vanishedPort), "--skip-name-resolve", "--tcp-keepalive-time=5", "--tcp-keepalive-interval=2", "--tcp-keepalive-probes=3",
		"--skip-log-bin", "--max-allowed-packet=1G", "--innodb-buffer-pool-size=64M", "--innodb-rollback-on-timeout=1", "--character-set-server=utf8mb4")
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	must.Do(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
		if t.Failed() {
			t.Logf("the server's log:\n%s", &log)
		}
	})
	dsn := "root@unix(" + dir + "/socket)/"
	pool, err := sql.Open("mysql", dsn)
	must.Do(t, err)
	defer pool.Close()
	if err := harness.Poll(t.Context(), vanishedLimit, "start MariaDB", func(ctx context.Context) (bool, string, error) {
		err := pool.PingContext(ctx)
		return err == nil, fmt.Sprint(err), nil
	}); err != nil {
		t.Fatal(err)
	}
	return dsn
}
