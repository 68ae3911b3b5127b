package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chainify-db/chainify/abci/wire"
)

// Scrubber and verification find nothing while blocks drop tables with sequences, indexes, views
// and functions. PostgreSQL prints an object as of now, and runs a query around it as of its
// snapshot.
func TestWhatIsBeingDroppedIsNoFinding(t *testing.T) {
	const lasts = 10 * time.Second
	server := crashServer(t, map[string]string{"chainify.scrub_rate": "0", "autovacuum": "off"})
	dsn := newLedger(t, server, "dropped")
	b := steady(t, dsn)
	at := connected(t, b)
	const many = 20
	hash := executed(t, b, orderedBlock(1, wire.Kind_KIND_DEPLOY, "CREATE TABLE public.stays (id bigint PRIMARY KEY)"), at.Hash, time.Minute)

	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	beside.Go(func() {
		findsNothing(ctx, t, dsn, "SELECT findings::text FROM chainify_node.scrub('public.stays') WHERE findings > 0")
	})
	beside.Go(func() { findsNothing(ctx, t, dsn, "SELECT v::text FROM chainify.verify_table('public.stays') v") })
	beside.Go(func() {
		findsNothing(ctx, t, dsn, "SELECT v::text FROM chainify.verify_ledger() v WHERE what <> 'certificate missing'")
	})
	blocks := 0
	for n := uint64(2); ctx.Err() == nil; n += 2 {
		var sql, gone string
		for i := range many {
			sql += fmt.Sprintf("CREATE TABLE public.t%[1]d (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial UNIQUE, of bigint REFERENCES stays); "+
				"CREATE VIEW public.v%[1]d AS SELECT id FROM t%[1]d; ", i)
			gone += fmt.Sprintf("DROP TABLE public.t%d CASCADE; ", i)
		}
		hash = executed(t, b, orderedBlock(n, wire.Kind_KIND_DEPLOY, sql), hash, time.Minute)
		hash = executed(t, b, orderedBlock(n+1, wire.Kind_KIND_DEPLOY, gone), hash, time.Minute)
		blocks += 2
	}
	t.Logf("%d blocks", blocks)
}

// findsNothing runs a query that gives what it finds wrong, over and over until the context ends. A
// query in the way of a block is cancelled; it runs again.
func findsNothing(ctx context.Context, t *testing.T, dsn, sql string) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	ended := 0
	for ctx.Err() == nil {
		rows, err := conn.Query(ctx, sql)
		var found []string
		if err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		var failed *pgconn.PgError
		switch {
		case err == nil:
			ended++
		case errors.As(err, &failed) && failed.Code == "CH007":
			continue
		case ctx.Err() == nil:
			t.Errorf("%.60s: %v", sql, err)
			return
		}
		if len(found) > 0 {
			t.Errorf("%.60s: %.300s", sql, found)
			return
		}
	}
	t.Logf("%.60s ended %d times", sql, ended) // few times where blocks take long: they cancel it
}
