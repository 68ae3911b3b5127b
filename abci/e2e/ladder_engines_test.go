package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Nothing of the table is left that tells its rows: another organisation has to.
const (
	nothingTellsPostgres = `UPDATE stock SET pieces = pieces + 7 WHERE id <= 3; UPDATE chainify_history.stock SET pieces = pieces + 7 WHERE id = 1;
		UPDATE chainify_checkpoint.stock SET pieces = pieces + 7 WHERE id IN (1, 7)`
	nothingTellsMariaDB = `CREATE TEMPORARY TABLE bank_ledger.captured (name TEXT, op TEXT, before_row LONGBLOB, after_row LONGBLOB);
		BEGIN; UPDATE stock SET pieces = pieces + 7 WHERE id <= 3; UPDATE bank_ledger.history SET row_bytes = x'0000' WHERE op = 'U';
		UPDATE bank_ledger.base SET row_bytes = x'0000'; COMMIT`
)

// A procedure reads a fee from what nobody compares: a function, or a view. Where the fee is
// another one, calls have other effects, or fail (item 2), or do not fail (item 3).
const (
	feePostgres = `CREATE FUNCTION fee() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT %d::bigint';
		CREATE PROCEDURE public.levy(nr bigint) LANGUAGE plpgsql AS $$
		BEGIN
			IF nr = 2 AND fee() > 1 OR nr = 3 AND fee() < 2 THEN
				RAISE EXCEPTION 'refused';
			END IF;
			UPDATE stock SET pieces = pieces - fee() WHERE id = nr;
			DELETE FROM stock WHERE id = 100 * nr + fee();
			INSERT INTO stock (id, item, pieces) VALUES (1000 * nr + fee(), 'charged', 1);
		END $$`
	feeMariaDB = mariadb.ProcedureSettings + `;
		CREATE VIEW fees AS SELECT %d AS fee; GRANT SELECT ON fees TO clerk;
		CREATE PROCEDURE levy(nr BIGINT) SQL SECURITY INVOKER
		BEGIN
			DECLARE charge BIGINT;
			SET charge = (SELECT fee FROM fees);
			IF nr = 2 AND charge > 1 OR nr = 3 AND charge < 2 THEN
				SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'refused';
			END IF;
			UPDATE stock SET pieces = pieces - charge WHERE id = nr;
			DELETE FROM stock WHERE id = 100 * nr + charge;
			INSERT INTO stock (id, item, pieces) VALUES (1000 * nr + charge, 'charged', 1);
		END;
		GRANT EXECUTE ON PROCEDURE levy TO clerk`
)

// The only MariaDB among PostgreSQL has rows and blocks of those alone to be repaired from.
func TestPostgreSQLRepairsAMariaDB(t *testing.T) {
	t.Parallel()
	repairedByOtherEngine(t, "delta", "delta")
}

// The only PostgreSQL among MariaDB has rows and blocks of those alone to be repaired from.
func TestMariaDBRepairsAPostgreSQL(t *testing.T) {
	t.Parallel()
	repairedByOtherEngine(t, "acme", "bolt", "cargo", "delta")
}

// repairedByOtherEngine takes an organisation up the two steps of recovery for which it needs
// another one: state, where nothing here tells the rows, and adopt, where it executes a call
// otherwise.
func repairedByOtherEngine(t *testing.T, name string, mariaDB ...string) {
	t.Helper()
	ctx := underTest(t)
	net := shopNetworkOf(ctx, t, harness.Config{MariaDB: mariaDB, Settings: map[string]any{"scrub_interval": "2s"}})
	odd := net.Organisation(name)
	good := others(net, odd)[0]
	attachStock(ctx, t, net)
	for i, o := range net.Organisations {
		succeeds(ctx, t, o, "clerk", sqlStatement(fmt.Sprintf("UPDATE stock SET pieces = pieces - 1 WHERE id = %d", i+1)))
	}
	caughtUp(ctx, t, net, odd)
	takesState(ctx, t, net, good, odd)
	adoptsCalls(ctx, t, net, good, odd)
	must(t, odd.StopNode())
	must(t, odd.StartNode())
	must(t, odd.WaitServing(ctx, readyLimit))
	succeeds(ctx, t, odd, "clerk", sqlStatement("UPDATE stock SET pieces = pieces - 1 WHERE id = 9"))
	agreesAndVerifies(ctx, t, net, odd)
}

// takesState changes rows and all that could tell them, and has a block touch one. Rows come from
// another organisation, and so do the blocks whose history was changed.
func takesState(ctx context.Context, t *testing.T, net *harness.Network, good, odd *harness.Organisation) {
	t.Helper()
	started := time.Now()
	if odd.MariaDB != nil {
		must(t, odd.Administer(ctx, nothingTellsMariaDB))
	} else {
		damage(ctx, t, odd, nothingTellsPostgres)
	}
	succeeds(ctx, t, good, "clerk", sqlStatement("UPDATE stock SET pieces = pieces - 1 WHERE id = 1"))
	caughtUp(ctx, t, net, odd)
	cured(ctx, t, odd, "state")
	t.Logf("%s has rows of another engine after %s", odd.Name, time.Since(started).Round(time.Millisecond))
	agreesAndVerifies(ctx, t, net, odd)
	t.Logf("and blocks after %s", time.Since(started).Round(time.Millisecond))
}

// adoptsCalls attaches a procedure that the odd organisation executes otherwise, and calls it.
func adoptsCalls(ctx context.Context, t *testing.T, net *harness.Network, good, odd *harness.Organisation) {
	t.Helper()
	must(t, net.Each(func(o *harness.Organisation) error {
		words, fee := feePostgres, 1
		if o.MariaDB != nil {
			words = feeMariaDB
		}
		if o == odd {
			fee = 2
		}
		return o.Administer(ctx, fmt.Sprintf(words, fee))
	}))
	attachProcedure(ctx, t, net, "levy", "bigint")
	for call, want := range map[string]string{"CALL levy(1)": "", "CALL levy(2)": "", "CALL levy(3)": "P0001"} {
		started := time.Now()
		outcomes, err := submitted(ctx, good, "clerk", sqlStatement(call))
		must(t, err)
		if outcomes[0].Sqlstate != want {
			t.Errorf("%s: %+v", call, outcomes[0])
		}
		caughtUp(ctx, t, net, odd)
		cured(ctx, t, odd, "adopt")
		t.Logf("%s was adopted after %s", call, time.Since(started).Round(time.Millisecond))
	}
	query := "SELECT count(*) FROM chainify.deviations WHERE cured_by = 'adopt'"
	if odd.MariaDB != nil {
		query = "SELECT count(*) FROM bank_ledger.deviation WHERE cured_by = 'adopt'"
	}
	// A cure is recorded after its block.
	must(t, harness.Poll(ctx, catchUpLimit, odd.Name+" adopts three blocks", func(ctx context.Context) (bool, string, error) {
		var adopted int
		err := odd.Scan(ctx, query, &adopted)
		return adopted == 3, fmt.Sprint(adopted), err
	}))
	says(ctx, t, odd, "executes transactions otherwise")
	agreesAndVerifies(ctx, t, net, odd)
}

// agreesAndVerifies expects one organisation to have what the others have, and a ledger that holds.
func agreesAndVerifies(ctx context.Context, t *testing.T, net *harness.Network, odd *harness.Organisation) {
	t.Helper()
	waitSame(ctx, t, net.Organisations, 1)
	state(ctx, t, odd, "serving")
	for _, o := range net.Organisations {
		if got, want := pieces(ctx, t, o), pieces(ctx, t, odd); got != want {
			t.Errorf("%s has %d pieces, %s %d", o.Name, got, odd.Name, want)
		}
	}
	must(t, harness.Poll(ctx, catchUpLimit, "a ledger that verifies at "+odd.Name, func(ctx context.Context) (bool, string, error) {
		findings, err := odd.Verify(ctx)
		return err == nil && len(findings) == 0, strings.Join(findings, "; "), err
	}))
}
