package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const (
	emptyStock = `CREATE TABLE stock (id bigint PRIMARY KEY, item varchar(40) NOT NULL, pieces bigint NOT NULL);
		GRANT SELECT, INSERT, UPDATE, DELETE ON stock TO clerk; ALTER TABLE stock OWNER TO dba`
	otherTakePG = "CREATE PROCEDURE public.take(nr bigint, wanted bigint) LANGUAGE sql AS 'DELETE FROM stock WHERE id = nr AND pieces < wanted'"
)

// sold is how many pieces were taken by calls.
type sold struct{ calls int64 }

// take has every organisation that is named call the procedure so many times.
func (s *sold) take(ctx context.Context, t *testing.T, times int, at ...*harness.Organisation) {
	t.Helper()
	for i := range times {
		for _, o := range at {
			succeeds(ctx, t, o, "clerk", sqlStatement(fmt.Sprintf("CALL take(%d, 1)", i%10+1)))
			s.calls++
		}
	}
}

// agrees expects all organisations to have the same last block, and the pieces that are left.
func (s *sold) agrees(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		if got, want := pieces(ctx, t, o), shopRows*100-s.calls; got != want {
			t.Errorf("%s has %d pieces, want %d", o.Name, got, want)
		}
	}
}

// says waits until the status of a node has all of these texts.
func says(ctx context.Context, t *testing.T, o *harness.Organisation, texts ...string) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "the status of "+o.Name, func(ctx context.Context) (bool, string, error) {
		out, _ := o.Run(ctx, "status") // it fails when it has a problem to tell of
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return false, fmt.Sprintf("it does not say %q: %s", text, out), nil
			}
		}
		return true, "", nil
	}))
}

// An organisation lost database and order blocks and joins by a snapshot, one goes back to a dump
// of before, one takes the dump of another, and one executes all blocks again. Each has to have the
// procedure of the ledger, in the words that were agreed, or is told what is missing.
func TestEnginesJoinALedgerWithAProcedure(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, 2*testLimit)
	net := shopNetworkOf(ctx, t, harness.Config{MariaDB: []string{"cargo", "delta"}, SnapshotEvery: 10})
	acme, bolt, cargo, delta := net.Organisations[0], net.Organisations[1], net.Organisations[2], net.Organisations[3]
	attachStock(ctx, t, net)
	caughtUp(ctx, t, net, delta)
	early := dumped(t, delta)
	must(t, net.Each(func(o *harness.Organisation) error { return makeTake(ctx, o) }))
	attachTake(ctx, t, net)
	var s sold
	s.take(ctx, t, 8, net.Organisations...)
	s.agrees(ctx, t, net)

	postgresJoins(ctx, t, net, bolt, &s)
	mariaDBRestores(ctx, t, delta, early)
	s.take(ctx, t, 1, net.Organisations...)
	s.agrees(ctx, t, net)
	takesADump(ctx, t, net, cargo, delta, &s)
	startsOver(ctx, t, net, acme, &s)
}

// postgresJoins gives an organisation an empty database and has it join.
func postgresJoins(ctx context.Context, t *testing.T, net *harness.Network, o *harness.Organisation, s *sold) {
	t.Helper()
	must(t, o.StopNode())
	must(t, emptied(ctx, o))
	must(t, o.Exec(ctx, "postgres", emptyStock))
	s.take(ctx, t, 3, net.Organisations[0])
	joinsEmpty(ctx, t, net, o, "--drop-order")
	s.take(ctx, t, 1, net.Organisations[0]) // there is a block since the snapshot
	says(ctx, t, o, "public.take", "It does not exist", "as they were agreed")
	must(t, o.Exec(ctx, "postgres", otherTakePG))
	says(ctx, t, o, "public.take", "Its digest is", "as they were agreed")
	must(t, o.Exec(ctx, "postgres", "DROP PROCEDURE public.take;"+takePG))
	must(t, o.WaitServing(ctx, catchUpLimit))
	s.take(ctx, t, 1, net.Organisations...)
	s.agrees(ctx, t, net)
	must(t, o.Exec(ctx, "postgres", "DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM chainify.verify_ledger() v WHERE v.what <> 'certificate missing'); END $$"))
}

// dumped writes both databases of a MariaDB to a file, with their routines.
func dumped(t *testing.T, o *harness.Organisation) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), o.Name+".sql")
	command(t, "mariadb-dump", "--no-defaults", "--socket="+o.MariaDB.Socket, "-u", "root", "--single-transaction",
		"--databases", database, database+"_ledger", "--triggers", "--routines", "--add-drop-database", "--result-file="+path)
	return path
}

func loaded(ctx context.Context, t *testing.T, o *harness.Organisation, path string) {
	t.Helper()
	out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--socket="+o.MariaDB.Socket, "-u", "root", "-e", "source "+path).CombinedOutput()
	if err != nil {
		t.Fatalf("load the dump of %s: %v\n%s", o.Name, err, out)
	}
}

// mariaDBRestores takes a MariaDB back to before the procedure was made.
func mariaDBRestores(ctx context.Context, t *testing.T, o *harness.Organisation, early string) {
	t.Helper()
	must(t, o.StopNode())
	loaded(ctx, t, o, early)
	must(t, o.StartNode())
	state(ctx, t, o, "excluded")
	says(ctx, t, o, "transaction 0 fails: procedure public.take", "it does not exist")
	must(t, makeTake(ctx, o))
	_, err := o.Run(ctx, "rejoin")
	must(t, err)
	must(t, o.WaitServing(ctx, catchUpLimit))
}

// takesADump has an organisation that lost database and order blocks go on with another one's dump.
func takesADump(ctx context.Context, t *testing.T, net *harness.Network, donor, o *harness.Organisation, s *sold) {
	t.Helper()
	must(t, o.StopNode())
	late := dumped(t, donor)
	loaded(ctx, t, o, late)
	must(t, o.MariaDB.Exec(ctx, "root", database+"_ledger", fmt.Sprintf("UPDATE chain SET organisation = '%s'", o.Name)))
	s.take(ctx, t, 2, donor)
	joinsEmpty(ctx, t, net, o, "--drop-order")
	must(t, o.WaitServing(ctx, catchUpLimit))
	s.take(ctx, t, 1, net.Organisations...)
	s.agrees(ctx, t, net)
}

// startsOver leaves nothing of a PostgreSQL that says what was agreed: it executes all blocks
// again.
func startsOver(ctx context.Context, t *testing.T, net *harness.Network, odd *harness.Organisation, s *sold) {
	t.Helper()
	nobodyTells(ctx, t, net, odd)
	damage(ctx, t, odd, "UPDATE stock SET pieces = pieces + 7 WHERE id <= 3; UPDATE chainify_history.stock SET pieces = pieces + 7 WHERE id = 1;"+
		"UPDATE chainify_checkpoint.stock SET pieces = pieces + 7 WHERE id IN (1, 7);"+damageHeaders)
	s.take(ctx, t, 2, net.Organisations[1])
	cured(ctx, t, odd, "full")
	state(ctx, t, odd, "serving")
	s.agrees(ctx, t, net)
	ledgerVerifies(ctx, t, odd)
}
