package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// promoteLimit bounds how long a standby takes to accept changes.
const promoteLimit = 5 * time.Minute

// AddStandby copies the organisation's running server and starts the copy, which follows it by
// streaming replication, asynchronously. The organisation's node has both servers in its DSN from
// its next start on. Close ends the standby, too.
func (o *Organisation) AddStandby(ctx context.Context) (*Cluster, error) {
	port, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s-standby-%d", o.Name, len(o.Standbys)+1)
	of := o.Cluster
	s := &Cluster{
		instance: instance{Name: name, account: of.account, dir: filepath.Join(o.net.Dir, name), pidDir: of.pidDir}, Port: port, SocketDir: of.SocketDir, bin: of.bin,
	}
	if err := o.net.mkdir(name); err != nil {
		return nil, err
	}
	o.Standbys = append(o.Standbys, s)
	// pg_rewind reads the older WAL, should this server be left behind.
	if err := of.Configure(map[string]string{"wal_keep_size": "'256MB'"}); err != nil {
		return nil, err
	}
	if err := o.Exec(ctx, "postgres", "SELECT pg_reload_conf()"); err != nil {
		return nil, err
	}
	if _, err := of.account.Run(ctx, s.dir, of.Bin("pg_basebackup"), append(of.flags(), "-D", s.data(), "-X", "stream", "-c", "fast")...); err != nil {
		return nil, err
	}
	if err := s.Follow(of); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, o.configureNode()
}

// Follow makes a server that does not run a standby of another one from its next start on.
func (c *Cluster) Follow(primary *Cluster) error {
	if c.Running() {
		return fmt.Errorf("%s follows %s: it runs", c.Name, primary.Name)
	}
	signal := filepath.Join(c.data(), "standby.signal")
	if err := errors.Join(os.WriteFile(signal, nil, 0o600), c.account.Own(signal)); err != nil {
		return err
	}
	return c.Configure(map[string]string{
		"port":                     fmt.Sprint(c.Port), // it may be the copy of another server
		"primary_conninfo":         quote(primary.DSN("postgres", "postgres") + " application_name=" + c.Name),
		"recovery_target_timeline": "latest",
	})
}

// Promote ends the recovery of a standby, which is a primary then.
func (c *Cluster) Promote(ctx context.Context) error {
	if _, err := c.account.Run(ctx, c.dir, c.Bin("pg_ctl"), "promote", "-D", c.data(), "-t", fmt.Sprint(int(promoteLimit.Seconds()))); err != nil {
		return fmt.Errorf("promote %s: %w", c.Name, err)
	}
	return nil
}

// Rewind takes a former primary that does not run back to where a promoted standby left it, and
// has it follow that one.
func (c *Cluster) Rewind(ctx context.Context, primary *Cluster) error {
	// pg_rewind reads the timeline of the last checkpoint, which may be of before the promotion.
	conn, err := primary.Connect(ctx, "postgres", "postgres")
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CHECKPOINT")
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	if _, err := c.account.Run(ctx, c.dir, c.Bin("pg_rewind"), "-D", c.data(), "--source-server="+primary.DSN("postgres", "postgres")); err != nil {
		return fmt.Errorf("rewind %s: %w", c.Name, err)
	}
	return c.Follow(primary)
}

// PromoteTo promotes a standby and goes on with it.
func (o *Organisation) PromoteTo(ctx context.Context, standby *Cluster) error {
	if err := standby.Promote(ctx); err != nil {
		return err
	}
	o.GoOnWith(standby)
	return nil
}

// GoOnWith has the harness look at another server of the organisation from now on. The former one
// stays among the standbys.
func (o *Organisation) GoOnWith(server *Cluster) {
	for i, s := range o.Standbys {
		if s == server {
			o.Standbys[i], o.Cluster = o.Cluster, server
			return
		}
	}
}

// ScanStandby reads the first row of a query as the superuser, on one of the standbys.
func (o *Organisation) ScanStandby(ctx context.Context, standby *Cluster, sql string, into ...any) error {
	return standby.look(ctx, o.net.Database, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(ctx, sql).Scan(into...); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%s: %w", standby.Name, err)
		}
		return nil
	})
}
