package harness

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/chainify-db/chainify/abci/gateway"
)

// MariaDB is a private MariaDB: data directory and Unix socket of its own, no password, no port.
type MariaDB struct {
	instance
	Socket  string
	Options []string // further ones of the server, from its next start on
}

// mariaProgram finds one of MariaDB's programs; Debian has the server's outside of most paths.
func mariaProgram(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("there is no %s: scripts/setup-mariadb installs it", name)
}

// Init makes the data directory.
func (m *MariaDB) Init(ctx context.Context) error {
	if len(m.Socket) > socketPathMax {
		return fmt.Errorf("path of the Unix socket is %d bytes long, at most %d are possible: %s", len(m.Socket), socketPathMax, m.Socket)
	}
	install, err := mariaProgram("mariadb-install-db")
	if err == nil {
		_, err = m.account.Run(ctx, m.dir, install, "--no-defaults", "--datadir="+m.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--tmpdir="+m.dir)
	}
	if err != nil {
		return fmt.Errorf("initialise MariaDB %s: %w", m.Name, err)
	}
	return nil
}

// Start runs the server and waits until it accepts connections.
func (m *MariaDB) Start(ctx context.Context) error {
	path, err := mariaProgram("mariadbd")
	if err != nil {
		return err
	}
	p, err := m.account.start(server{
		name: "mariadb-" + m.Name, dir: m.dir, log: filepath.Join(m.dir, "mariadb.log"), pids: m.pidDir, path: path,
		args: append([]string{
			"--no-defaults", "--datadir=" + m.data(), "--socket=" + m.Socket, "--pid-file=" + filepath.Join(m.dir, "pid"), "--tmpdir=" + m.dir,
			"--skip-networking", "--skip-log-bin", "--innodb-buffer-pool-size=64M", "--innodb-rollback-on-timeout=1",
			"--innodb-flush-log-at-trx-commit=1", "--max-allowed-packet=1G", "--character-set-server=utf8mb4",
		}, m.Options...),
	})
	if err != nil {
		return err
	}
	m.process = p
	return Poll(ctx, startLimit, "start MariaDB of "+m.Name, func(ctx context.Context) (bool, string, error) {
		if !p.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", p.tail(15))
		}
		if err := m.Exec(ctx, "root", "", "DO 1"); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
}

// Stop ends the server as an operator would.
func (m *MariaDB) Stop() error {
	if m.process == nil {
		return nil
	}
	return m.process.stop(syscall.SIGTERM, clusterStopLimit)
}

// StopNow ends the server as after a crash; no signal of MariaDB's own does so.
func (m *MariaDB) StopNow() error {
	m.Kill()
	return nil
}

// DSN is a connection string for a node.
func (m *MariaDB) DSN(database, user string) string {
	return fmt.Sprintf("mysql://%s@/%s?socket=%s", user, database, m.Socket)
}

// Open makes sessions of a user; the caller closes them.
func (m *MariaDB) Open(database, user string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = user, "unix", m.Socket, database
	c.MultiStatements, c.InterpolateParams, c.Timeout, c.Logger = true, true, 5*time.Second, &mysql.NopLogger{}
	c.Params = map[string]string{"sql_mode": "'ANSI_QUOTES,STRICT_ALL_TABLES'"}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// Exec runs statements, one or several, in one session of a user.
func (m *MariaDB) Exec(ctx context.Context, user, database, statements string) error {
	db, err := m.Open(database, user)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, statements)
	return err
}

// Scan reads the first row of a query as root.
func (m *MariaDB) Scan(ctx context.Context, database, query string, into ...any) error {
	db, err := m.Open(database, "root")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, query).Scan(into...); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return nil
}

// tip reads the last committed block.
func (m *MariaDB) tip(ctx context.Context, database string) (Tip, error) {
	var t Tip
	var hash []byte
	err := m.Scan(ctx, database+"_ledger", "SELECT number, hash FROM block ORDER BY number DESC LIMIT 1", &t.Number, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return Tip{}, nil
	}
	t.Hash = hex.EncodeToString(hash)
	return t, err
}

// createMariaDB starts the server and makes the database and the node's user.
func (o *Organisation) createMariaDB(ctx context.Context) error {
	if err := o.MariaDB.Start(ctx); err != nil {
		return err
	}
	return o.MariaDB.Exec(ctx, "root", "", "CREATE DATABASE "+o.net.Database+" CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin; CREATE USER "+NodeRole+"@localhost")
}

// InstallMariaDB does what an operator does: chainify install-mariadb, with roles of clients.
func (o *Organisation) InstallMariaDB(ctx context.Context, clients ...string) error {
	args := []string{"install-mariadb", "--dsn", o.MariaDB.DSN(o.net.Database, "root"), "--node", NodeRole}
	for _, client := range clients {
		args = append(args, "--client", client)
	}
	_, err := o.Tool(ctx, args...)
	return err
}

// stateOf asks the node through its socket.
func (n *Node) stateOf(ctx context.Context) (string, error) {
	client, err := gateway.Dial(ctx, n.Socket())
	if err != nil {
		return "", err
	}
	defer client.Close()
	status, err := client.Status(ctx)
	return status.GetState(), err
}
