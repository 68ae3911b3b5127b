package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// socketPathMax is what sockaddr_un holds on Linux, less the terminating zero.
	socketPathMax    = 107
	startLimit       = 5 * time.Minute
	connectWithin    = " connect_timeout=5" // seconds
	clusterStopLimit = 3 * time.Minute
)

// Cluster is a private PostgreSQL: data directory, Unix socket and loopback port of its own, trust
// authentication, fsync on.
type Cluster struct {
	instance
	Port      int
	SocketDir string
	bin       string
	kept      kept
}

// Bin is the path of one of PostgreSQL's programs in the tree that this cluster runs from.
func (c *Cluster) Bin(program string) string { return filepath.Join(c.bin, program) }

// Init makes the data directory.
func (c *Cluster) Init(ctx context.Context) error {
	if _, err := c.account.Run(ctx, c.dir, c.Bin("initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust",
		"--locale=C.UTF-8", "-E", "UTF8", "--no-sync"); err != nil {
		return fmt.Errorf("initialise cluster %s: %w", c.Name, err)
	}
	return c.configureFirst()
}

// InitAs makes the data directory as a copy of another cluster's that never started, with its
// system identifier. A copy takes a quarter of the processor time of Init.
func (c *Cluster) InitAs(ctx context.Context, other *Cluster) error {
	if _, err := c.account.Run(ctx, c.dir, "cp", "-a", other.data(), c.data()); err != nil {
		return fmt.Errorf("initialise cluster %s: %w", c.Name, err)
	}
	return c.configureFirst()
}

// configureFirst gives a new data directory the settings that all clusters have.
func (c *Cluster) configureFirst() error {
	if socket := filepath.Join(c.SocketDir, fmt.Sprintf(".s.PGSQL.%d", c.Port)); len(socket) > socketPathMax {
		return fmt.Errorf("path of the Unix socket is %d bytes long, at most %d are possible: %s", len(socket), socketPathMax, socket)
	}
	return c.Configure(map[string]string{
		"listen_addresses":           "'127.0.0.1'",
		"port":                       fmt.Sprint(c.Port),
		"unix_socket_directories":    quote(c.SocketDir),
		"fsync":                      "on",
		"shared_buffers":             "'64MB'",
		"max_connections":            "100",
		"max_wal_size":               "'512MB'",
		"wal_log_hints":              "on", // pg_rewind asks for it
		"log_min_messages":           "warning",
		"log_line_prefix":            "'%m [%p] %q%u@%d %a: '",
		"lock_timeout":               "0",
		"max_prepared_transactions":  "0",
		"checkpoint_timeout":         "'15min'",
		"dynamic_shared_memory_type": "posix",
	})
}

// Configure appends settings to postgresql.conf; the last one of a name counts. They hold after the
// next start.
func (c *Cluster) Configure(settings map[string]string) error {
	var text strings.Builder
	for name, value := range settings {
		fmt.Fprintf(&text, "%s = %s\n", name, value)
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("configure cluster %s: %w", c.Name, err)
	}
	defer f.Close()
	if _, err := f.WriteString(text.String()); err != nil {
		return fmt.Errorf("configure cluster %s: %w", c.Name, err)
	}
	return f.Close()
}

// admit lets hosts of a Lan connect, from the next start on.
func (c *Cluster) admit() error {
	f, err := os.OpenFile(filepath.Join(c.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all 10.77.0.0/24 trust\n")
	return errors.Join(err, f.Close(), c.Configure(map[string]string{"listen_addresses": "'*'"}))
}

// Start runs the postmaster and waits until it accepts connections.
func (c *Cluster) Start(ctx context.Context) error {
	p, err := c.account.start(server{
		name: "postgres-" + c.Name, dir: c.dir, log: filepath.Join(c.dir, "postgres.log"), pids: c.pidDir,
		path: c.Bin("postgres"), args: []string{"-D", c.data()},
	})
	if err != nil {
		return err
	}
	c.process = p
	return Poll(ctx, startLimit, "start PostgreSQL of "+c.Name, func(ctx context.Context) (bool, string, error) {
		if !p.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", p.tail(15))
		}
		conn, err := c.Connect(ctx, "postgres", "postgres")
		if err != nil {
			return false, err.Error(), nil
		}
		return true, "", conn.Close(ctx)
	})
}

// Stop ends the cluster as an operator would: sessions are cut, data written.
func (c *Cluster) Stop() error {
	c.kept.forget()
	if c.process == nil {
		return nil
	}
	return c.process.stop(syscall.SIGINT, clusterStopLimit)
}

// StopNow ends the cluster as after a crash: nothing is written, the next start recovers.
func (c *Cluster) StopNow() error { return c.process.stop(syscall.SIGQUIT, clusterStopLimit) }

// BackUp copies the data directory with pg_basebackup, as an operator does while the cluster works.
func (c *Cluster) BackUp(ctx context.Context) error {
	if err := os.RemoveAll(c.copied()); err != nil {
		return err
	}
	_, err := c.account.Run(ctx, c.dir, c.Bin("pg_basebackup"), append(c.flags(), "-D", c.copied(), "-X", "stream", "-c", "fast")...)
	return err
}

// Dump writes a database with pg_dump, with further options, and restores it under another name in
// a cluster, giving up at the first error.
func (c *Cluster) Dump(ctx context.Context, database string, into *Cluster, restored string, options ...string) error {
	file := filepath.Join(c.dir, database+".dump")
	for _, step := range [][]string{
		slices.Concat([]string{"pg_dump", "-Fc", "-f", file}, options, c.flags(), []string{database}),
		slices.Concat([]string{"createdb", "-T", "template0"}, into.flags(), []string{restored}),
		slices.Concat([]string{"pg_restore", "--exit-on-error", "-d", restored}, into.flags(), []string{file}),
	} {
		if _, err := c.account.Run(ctx, c.dir, c.Bin(step[0]), step[1:]...); err != nil {
			return err
		}
	}
	return os.Remove(file)
}

// flags tell PostgreSQL's programs where the cluster is.
func (c *Cluster) flags() []string {
	return []string{"-h", c.SocketDir, "-p", fmt.Sprint(c.Port), "-U", "postgres"}
}

// ReplaceDatabase drops a database, even one in use, and gives its name to another one.
func (c *Cluster) ReplaceDatabase(ctx context.Context, database, by string) error {
	conn, err := c.Connect(ctx, "postgres", "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{"DROP DATABASE %[1]s WITH (FORCE)", "ALTER DATABASE %[2]s RENAME TO %[1]s"} {
		if _, err := conn.Exec(ctx, fmt.Sprintf(statement, database, by)); err != nil {
			return err
		}
	}
	return nil
}

// DSN is a connection string in keyword form, through the Unix socket.
func (c *Cluster) DSN(database, role string) string {
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s", c.SocketDir, c.Port, database, role)
}

// Psql is the command line with which a person looks around.
func (c *Cluster) Psql(database, role string) string {
	return fmt.Sprintf("%s -h %s -p %d -U %s %s", c.Bin("psql"), c.SocketDir, c.Port, role, database)
}

// Connect opens a session.
func (c *Cluster) Connect(ctx context.Context, database, role string) (*pgx.Conn, error) {
	return pgx.Connect(ctx, c.DSN(database, role)+connectWithin)
}

// quote makes a value for postgresql.conf.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
