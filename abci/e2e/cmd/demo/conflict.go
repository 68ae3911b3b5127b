package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

const depositText = "UPDATE checking SET balance = balance + 100 WHERE custid = 1"

// conflict has sessions of two organisations change one row at once, and shows what the later one
// is told. It runs its transaction again.
func (d *demo) conflict(ctx context.Context) error {
	first, second := d.net.Organisations[1], d.net.Organisations[0]
	d.out.announce("sessions of %s and %s change one row at the same time", first.Name, second.Name)
	winner, err := plainSession(ctx, first)
	if err != nil {
		return err
	}
	defer winner.Close(context.WithoutCancel(ctx))
	loser, err := plainSession(ctx, second)
	if err != nil {
		return err
	}
	defer loser.Close(context.WithoutCancel(ctx))
	if err := d.says(ctx, loser, second, "BEGIN", depositText); err != nil {
		return err
	}
	if err := d.says(ctx, winner, first, "BEGIN", depositText, "COMMIT"); err != nil {
		return err
	}
	lost := d.says(ctx, loser, second, "COMMIT")
	state := sqlState(lost)
	if lost == nil {
		state = "no error"
	}
	again := d.says(ctx, loser, second, "BEGIN", depositText, "COMMIT")
	d.claims.add(state == "40001" && again == nil, "the later COMMIT on a row that two organisations change fails with 40001 (got %s), and succeeds when run again", state)
	return again
}

func plainSession(ctx context.Context, o *harness.Organisation) (*pgx.Conn, error) {
	conn, err := o.Cluster.Connect(ctx, database, "bank")
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "SET chainify.writes = 'effects'")
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// says runs statements until one fails and shows them as psql would.
func (d *demo) says(ctx context.Context, conn *pgx.Conn, o *harness.Organisation, statements ...string) error {
	for _, sql := range statements {
		mark := ""
		if conn.PgConn().TxStatus() != 'I' {
			mark = "*"
		}
		d.out.line("  %s=%s> %s;", o.Name, mark, sql)
		_, err := conn.Exec(ctx, sql)
		var failed *pgconn.PgError
		if errors.As(err, &failed) {
			d.out.line("  %s:  %s", failed.Severity, failed.Message)
			d.out.line("  DETAIL:  %s", failed.Detail)
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", sql, o.Name, err)
		}
	}
	return nil
}
