package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

// newDatabases makes a network of PostgreSQL clusters alone, from the system's own tree.
func newDatabases(t *testing.T, dir string, organisations ...string) *Network {
	t.Helper()
	if _, err := os.Stat("/usr/lib/postgresql/15/bin/postgres"); err != nil {
		t.Skip("PostgreSQL 15 is not installed in /usr/lib/postgresql/15")
	}
	net, err := New(context.Background(), Config{Dir: dir, PG: "/usr", Chainify: "/bin/true", Database: "bank", Organisations: organisations})
	must.Do(t, err)
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	return net
}

// serverDir is a temporary directory that the account of the servers can reach, unlike t.TempDir.
func serverDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chainify-harness-")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	return filepath.Join(dir, "net")
}

func TestKilledClusterComesBackWithItsRows(t *testing.T) {
	ctx := context.Background()
	net := newDatabases(t, serverDir(t), "acme")
	acme := net.Organisation("acme")
	must.Do(t, net.StartDatabases(ctx))
	must.Do(t, acme.Exec(ctx, "postgres", "CREATE TABLE t (a int); INSERT INTO t VALUES (7)"))
	kids := children(acme.Cluster.process.PID())
	if len(kids) == 0 {
		t.Fatal("a running postmaster has no children")
	}
	acme.Cluster.Kill()
	for _, pid := range kids {
		if s, ok := readStat(pid); ok && s.lives() {
			t.Errorf("child %d outlived the kill", pid)
		}
	}
	if err := acme.Exec(ctx, "postgres", "SELECT 1"); err == nil {
		t.Fatal("a killed cluster answers")
	}
	must.Do(t, acme.Cluster.Start(ctx))
	conn, err := acme.Connect(ctx)
	must.Do(t, err)
	defer conn.Close(ctx)
	var a int
	if err := conn.QueryRow(ctx, "SELECT a FROM t").Scan(&a); err != nil || a != 7 {
		t.Fatalf("a = %d, %v", a, err)
	}
}

func TestNextRunEndsWhatAnEarlierOneLeft(t *testing.T) {
	ctx := context.Background()
	dir := serverDir(t)
	left := newDatabases(t, dir, "acme")
	must.Do(t, left.StartDatabases(ctx))
	newDatabases(t, dir, "acme")
	if err := Poll(ctx, 10*time.Second, "leftover ends", func(context.Context) (bool, string, error) {
		return !left.Organisations[0].Cluster.Running(), "postmaster still runs", nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDirectoryIsNotEmptied(t *testing.T) {
	dir := serverDir(t)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "precious"), 0o755))
	_, err := New(context.Background(), Config{Dir: dir, PG: "/usr", Chainify: "/bin/true"})
	if err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Fatal(err)
	}
}

func TestProcessIdOfAnotherProcessIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	account, err := ServerAccount()
	must.Do(t, err)
	cmd := account.Command(context.Background(), "/", "sleep", "60")
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	path := filepath.Join(dir, "sleeper")
	must.Do(t, writePid(path, cmd.Process.Pid))
	text, err := os.ReadFile(path)
	must.Do(t, err)
	if err := os.WriteFile(path, append(text[:len(text)-1], "0\n"...), 0o600); err != nil { // another start time
		t.Fatal(err)
	}
	must.Do(t, killLeftovers(dir))
	if _, ok := readStat(cmd.Process.Pid); !ok {
		t.Fatal("a process with another start time was killed")
	}
}

func TestPollSaysWhatItLastSaw(t *testing.T) {
	err := Poll(context.Background(), 80*time.Millisecond, "the sea", func(context.Context) (bool, string, error) {
		return false, "still wet", nil
	})
	if err == nil || !strings.Contains(err.Error(), "still wet") || !strings.Contains(err.Error(), "the sea") {
		t.Fatalf("error %v", err)
	}
}

func TestPollTellsItsLimitFromAnError(t *testing.T) {
	err := Poll(context.Background(), 60*time.Millisecond, "the sea", func(ctx context.Context) (bool, string, error) {
		select {
		case <-ctx.Done(): // as a query does that the limit interrupts
			return false, "", ctx.Err()
		case <-time.After(40 * time.Millisecond):
			return false, "still wet", nil
		}
	})
	if err == nil || !strings.Contains(err.Error(), "not within") || !strings.Contains(err.Error(), "still wet") {
		t.Fatalf("error %v", err)
	}
}

// With one other tree every second organisation has it; with two, three majors are in one network.
func TestTheOrganisationsTakeTheTreesInTurn(t *testing.T) {
	for others, want := range map[string]string{"": "15 15 15 15", "17": "15 17 15 17", "17:18": "15 17 18 15"} {
		cfg, got := Config{PG: "15", OtherPG: filepath.SplitList(others)}, make([]string, 4)
		for i := range got {
			got[i] = cfg.tree(i)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("beside %q they have %v, want %s", others, got, want)
		}
	}
}
