package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend/mariadb"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	takePG = `CREATE PROCEDURE public.take(nr bigint, wanted bigint) LANGUAGE plpgsql AS $$
		DECLARE found bigint;
		BEGIN
			SELECT pieces INTO found FROM stock WHERE id = nr;
			IF found IS NULL OR found < wanted THEN
				RAISE EXCEPTION 'too few pieces';
			END IF;
			UPDATE stock SET pieces = pieces - wanted WHERE id = nr;
		END $$`
	takeMariaDB = mariadb.ProcedureSettings + `;
		CREATE PROCEDURE take(nr BIGINT, wanted BIGINT) SQL SECURITY INVOKER
		BEGIN
			DECLARE found BIGINT;
			SELECT pieces INTO found FROM stock WHERE id = nr;
			IF found IS NULL OR found < wanted THEN
				SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too few pieces';
			END IF;
			UPDATE stock SET pieces = pieces - wanted WHERE id = nr;
		END;
		GRANT EXECUTE ON PROCEDURE take TO clerk`
)

func makeTake(ctx context.Context, o *harness.Organisation) error {
	if o.MariaDB == nil {
		return o.Exec(ctx, "postgres", takePG)
	}
	return o.MariaDB.Exec(ctx, "root", database, takeMariaDB)
}

// attachTake puts the procedure on the ledger, in the words of the first organisation and the
// third, whose digests it gives.
func attachTake(ctx context.Context, t *testing.T, net *harness.Network) (here, there string) {
	t.Helper()
	there, err := net.Organisations[0].ProcedureDigest(ctx, "take", "bigint, bigint")
	must(t, err)
	here, err = net.Organisations[2].ProcedureDigest(ctx, "take", "bigint, bigint")
	must(t, err)
	attachProcedure(ctx, t, net, "take", "bigint, bigint")
	return here, there
}

// attachProcedure puts a procedure on the ledger, in the words of the first organisation with each
// engine.
func attachProcedure(ctx context.Context, t *testing.T, net *harness.Network, name, types string) {
	t.Helper()
	text, err := net.ProcedureAttached(ctx, name, types)
	must(t, err)
	succeeds(ctx, t, net.Organisations[0], "dba", &wire.Statement{Kind: wire.Kind_KIND_DEPLOY, Sql: text})
}

// Two organisations with a PostgreSQL and two with a MariaDB call a procedure, which each has in
// words of its own. One without it is excluded at the block that attaches it. It goes on once it
// has the procedure, and an operator has it rejoin.
func TestEnginesCallProcedures(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := shopNetwork(ctx, t, "cargo", "delta")
	attachStock(ctx, t, net)
	late := net.Organisations[3]
	must(t, net.Each(func(o *harness.Organisation) error {
		if o == late {
			return nil
		}
		return makeTake(ctx, o)
	}))
	here, there := attachTake(ctx, t, net)
	for i, o := range net.Organisations[:3] {
		succeeds(ctx, t, o, "clerk", sqlStatement(fmt.Sprintf("CALL take(%d, 2)", i+1)))
	}
	time.Sleep(2 * time.Second)
	if got := pieces(ctx, t, late); got != shopRows*100 {
		t.Errorf("%s has %d pieces without the procedure", late.Name, got)
	}
	must(t, makeTake(ctx, late))
	_, err := late.Run(ctx, "rejoin")
	must(t, err)
	waitSame(ctx, t, net.Organisations, 5)
	for _, o := range net.Organisations {
		outcomes, err := submitted(ctx, o, "clerk", sqlStatement("CALL take(1, 1000)"), sqlStatement("CALL take(10, 1)"), sqlStatement("CALL take('10', 1)"))
		must(t, err)
		if outcomes[0].Sqlstate != "P0001" || !outcomes[1].Succeeded || outcomes[2].Sqlstate != "CH011" {
			t.Errorf("%s: %+v", o.Name, outcomes)
		}
	}
	waitSame(ctx, t, net.Organisations, 6)
	for _, o := range net.Organisations {
		if got := pieces(ctx, t, o); got != shopRows*100-10 {
			t.Errorf("%s has %d pieces, want %d", o.Name, got, shopRows*100-10)
		}
	}
	for _, o := range []*harness.Organisation{net.Organisations[0], late} {
		pagesSay(ctx, t, o, map[string][]string{"/": {"Procedures on the ledger", "public.take", here, there}})
	}
}
