package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Two of four organisations are gone: nothing can be ordered, so a submission is refused in bounded
// time, with the SQLSTATE that says "later", while reads go on. When one is back, submissions
// succeed again.
func TestWithoutQuorumSubmissionsAreRefusedInTime(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	const deposit = "SELECT outcome FROM chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')"
	const answerLimit = 5 * time.Minute
	alive, gone := net.Organisations[0], net.Organisations[2:]
	for _, o := range gone {
		must(t, o.StopNode())
	}
	conn, err := alive.Cluster.Connect(ctx, database, "bank")
	must(t, err)
	defer conn.Close(ctx)

	started := time.Now()
	call, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	_, err = conn.Exec(call, deposit)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P03" {
		t.Errorf("without quorum a submission gives %v, want SQLSTATE 57P03", err)
	} else {
		t.Logf("without quorum: %s after %s (detail: %s)", pg.Message, time.Since(started).Round(time.Millisecond), pg.Detail)
	}
	var balance string
	must(t, conn.QueryRow(ctx, "SELECT balance::text FROM checking WHERE custid = 1").Scan(&balance))

	must(t, gone[0].StartNode())
	must(t, harness.Poll(ctx, catchUpLimit, "a submission succeeds again", func(ctx context.Context) (bool, string, error) {
		var succeeded bool
		if err := conn.QueryRow(ctx, deposit).Scan(&succeeded); err != nil {
			if errors.As(err, &pg) && pg.Code != "57P03" {
				return false, "", err
			}
			return false, err.Error(), nil
		}
		return succeeded, "the deposit failed", nil
	}))
}
