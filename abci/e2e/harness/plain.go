package harness

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// PlainSession opens a session of a role whose own changes of ledger tables go through the ledger.
func (o *Organisation) PlainSession(ctx context.Context, role string) (*pgx.Conn, error) {
	conn, err := o.Cluster.Connect(ctx, o.net.Database, role)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET chainify.writes = 'effects'"); err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return conn, nil
}

// CommitFailed says whether an error of COMMIT, in a session of plain SQL, tells that the
// transaction failed (docs/consistency.md, "Waiting and unknown outcomes"). Otherwise its outcome
// is unknown, and can be asked for if the error has an id.
func CommitFailed(err error) (failed bool, id []byte) {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false, nil
	}
	id, named := notInTime(pg.Detail)
	if !named {
		id = nil
	}
	if strings.Contains(pg.Detail, "failed in block") || strings.Contains(pg.Detail, "refused by the order") {
		return true, id
	}
	switch pg.Code {
	case "40001":
		return true, id
	case "57P03", "53400", "08001", "CH009", "CH013", "54000": // without an id it was not queued
		return !named, id
	}
	return false, id
}
