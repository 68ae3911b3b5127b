package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/workload"
)

// shot fires one transaction.
type shot func(ctx context.Context, s workload.Statement) error

// fire has a client fire its transactions at a steady rate until the end. A client that is held up
// for less than a second catches up. Beyond that it leaves out what it missed, so fewer are fired.
func fire(ctx context.Context, m *meter, rate int, next func() workload.Statement, one shot) error {
	every := time.Second / time.Duration(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due := time.Now(); !m.over(due); due = due.Add(every) {
		now := time.Now()
		if now.Sub(due) > time.Second {
			due = now
		}
		if wait := due.Sub(now); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		m.fire(time.Now())
		if err := one(ctx, next()); err != nil {
			return err
		}
	}
	return nil
}

// simulate runs a transaction in its client's session, which submits its changes to its node: the
// relay. A transaction that loses against a block here has failed early. One that only reads would
// commit in its session, without the ledger. Fabric orders it, so its rows are noted.
func simulate(conn *pgx.Conn, m *meter, take func(*wire.Statement)) shot {
	return func(ctx context.Context, s workload.Statement) error {
		if workload.Reads(s) {
			set, err := see(ctx, conn, s.Values[0])
			if err == nil {
				take(set)
			}
			return err
		}
		_, err := conn.Exec(ctx, s.SQL, s.Arguments()...)
		var failed *pgconn.PgError
		if errors.As(err, &failed) && (failed.Code == "40001" || failed.Code == "40P01") {
			m.end(time.Now(), simulated, 1)
			return nil
		}
		return err
	}
}

const seeSQL = `SELECT $1::bigint, chainify.row_hash(k), chainify.row_hash(s), (SELECT coalesce(max(number), 0) FROM chainify.ledger)
	FROM fabric.checking k JOIN fabric.savings s USING (custid) WHERE k.custid = $1`

// see is a write set without changes that saw both accounts of a customer.
func see(ctx context.Context, conn *pgx.Conn, customer string) (*wire.Statement, error) {
	var number, block uint64
	var checking, savings []byte
	if err := conn.QueryRow(ctx, seeSQL, customer).Scan(&number, &checking, &savings, &block); err != nil {
		return nil, fmt.Errorf("see the accounts of customer %s: %w", customer, err)
	}
	// A primary key of one bigint (spec/formats.md): columns, ordinal, tag, length and value.
	key := binary.BigEndian.AppendUint64([]byte{0, 1, 0, 1, 2, 0, 0, 0, 8}, number)
	set := &wire.WriteSet{Snapshot: block, Isolation: wire.ReadCommitted, Tables: []string{"fabric.checking", "fabric.savings"}, Seen: []wire.RowSeen{
		{Table: 0, Key: key, Present: true, Hash: wire.Hash(checking)}, {Table: 1, Key: key, Present: true, Hash: wire.Hash(savings)},
	}}
	return &wire.Statement{Kind: wire.Kind_KIND_EFFECTS, Effects: set.Encode()}, nil
}

// statement is a transaction that every organisation executes.
func statement(s workload.Statement) *wire.Statement {
	out := &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: s.SQL}
	for i, v := range s.Values {
		out.Parameters = append(out.Parameters, &wire.Parameter{Type: s.Types[i], Text: v})
	}
	return out
}
