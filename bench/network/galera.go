package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// galeraPorts is how many each node has: of clients, of the group, and two for state transfers.
const galeraPorts = 4

// galera is a synchronous multi-master cluster of MariaDB, as Debian has it. Its members trust each
// other: none checks what another one tells it.
type galera struct {
	dir      string
	base     int
	members  int
	user     *user.User
	commands []*exec.Cmd
}

// missingForGalera is what this machine lacks; empty: nothing.
func missingForGalera() string {
	var missing []string
	for _, program := range []string{"mariadbd", "mariadb-install-db", "mariadb", "wsrep_sst_rsync", "rsync", "sysbench"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if _, err := os.Stat(galeraLibrary); err != nil {
		missing = append(missing, galeraLibrary)
	}
	return strings.Join(missing, ", ")
}

const galeraLibrary = "/usr/lib/galera/libgalera_smm.so"

// newGalera makes the members' directories, with the tables of sysbench at the first one. Those of
// a measurement before go.
func newGalera(ctx context.Context, dir string, members int) (_ *galera, err error) {
	g := &galera{dir: dir, members: members}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if g.base, err = harness.FreePorts(members * galeraPorts); err != nil {
		return nil, err
	}
	if g.user, err = galeraUser(); err != nil {
		return nil, err
	}
	for i := range members {
		if err := g.own(g.path(i)); err != nil {
			return nil, err
		}
		out, err := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--user="+g.user.Username, "--datadir="+g.path(i, "data"),
			"--auth-root-authentication-method=normal", "--skip-test-db").CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
		}
	}
	if err := g.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	if out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+g.path(0, "s"), "-e", "CREATE DATABASE "+database).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("create the database: %w\n%s", err, out)
	}
	return g, sysbenchPrepares(ctx, g.connection(0))
}

// galeraUser is whom the servers run as: the user of Debian's package when root measures. As root,
// rsync could not read what it transfers.
func galeraUser() (*user.User, error) {
	if os.Geteuid() == 0 {
		return user.Lookup("mysql")
	}
	return user.Current()
}

// own makes a directory that the servers' user owns.
func (g *galera) own(path string) error {
	uid, errUID := strconv.Atoi(g.user.Uid)
	gid, errGID := strconv.Atoi(g.user.Gid)
	return errors.Join(errUID, errGID, os.MkdirAll(path, 0o755), os.Chown(path, uid, gid))
}

func (g *galera) path(i int, parts ...string) string {
	return filepath.Join(append([]string{g.dir, fmt.Sprint(i)}, parts...)...)
}

func (g *galera) port(i, which int) int { return g.base + galeraPorts*i + which }

func (g *galera) group(i int) string { return fmt.Sprintf("127.0.0.1:%d", g.port(i, 1)) }

// start starts the first member, and the others once each before is a member: those get its rows.
func (g *galera) start(ctx context.Context) error {
	g.commands = nil
	for i := range g.members {
		if err := errors.Join(g.begin(i), g.joined(ctx, i)); err != nil {
			return errors.Join(err, g.stop())
		}
	}
	return nil
}

// begin starts one member. Like PostgreSQL's here, it does not wait for the disk at COMMIT.
func (g *galera) begin(i int) error {
	address := "gcomm://"
	if i > 0 {
		address += g.group(0)
	}
	args := []string{
		"--no-defaults", "--user=" + g.user.Username, "--datadir=" + g.path(i, "data"), "--socket=" + g.path(i, "s"), "--pid-file=" + g.path(i, "pid"),
		fmt.Sprintf("--port=%d", g.port(i, 0)), "--bind-address=127.0.0.1", "--skip-grant-tables", "--skip-name-resolve",
		"--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-autoinc-lock-mode=2", "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=256M",
		"--wsrep-on=ON", "--wsrep-provider=" + galeraLibrary, "--wsrep-cluster-name=bench", "--wsrep-cluster-address=" + address,
		"--wsrep-node-address=" + g.group(i), "--wsrep-sst-method=rsync", fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", g.port(i, 3)), "--wsrep-slave-threads=2",
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d;gcache.size=64M", g.group(i), g.port(i, 2)),
	}
	if i == 0 {
		args = append(args, "--wsrep-new-cluster")
		// Which member was last to stop does not matter: all have the same rows.
		state := g.path(0, "data", "grastate.dat")
		if text, err := os.ReadFile(state); err == nil {
			text = []byte(strings.Replace(string(text), "safe_to_bootstrap: 0", "safe_to_bootstrap: 1", 1))
			if err := os.WriteFile(state, text, 0o644); err != nil {
				return err
			}
		}
	}
	cmd, err := begun(g.path(i, "log"), "mariadbd", args)
	if err != nil {
		return err
	}
	g.commands = append(g.commands, cmd)
	return nil
}

func (g *galera) joined(ctx context.Context, i int) error {
	return harness.Poll(ctx, readyLimit, "member "+g.path(i), func(ctx context.Context) (bool, string, error) {
		out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+g.path(i, "s"), "-N", "-e",
			"SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment')").CombinedOutput()
		if err != nil {
			return false, string(out), nil
		}
		said := string(out)
		return strings.Contains(said, fmt.Sprintf("wsrep_cluster_size\t%d\n", i+1)) && strings.Contains(said, "\tSynced\n"), said, nil
	})
}

func (g *galera) stop() error {
	err := ended(g.commands)
	g.commands = nil
	return err
}

func (g *galera) nodes() []int { return nil }

func (g *galera) databases() (out []int) {
	for _, cmd := range g.commands {
		out = append(out, cmd.Process.Pid)
	}
	return out
}

func (g *galera) connection(i int) connection {
	return connection{options: []string{"--db-driver=mysql", "--mysql-socket=" + g.path(i, "s"), "--mysql-user=root", "--mysql-db=" + database}}
}
