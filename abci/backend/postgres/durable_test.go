package postgres

import (
	"syscall"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
)

// Rows of a block that a reader has seen are there after the server was killed, whatever it kept in
// memory; with synchronous_commit = off it is executed again.
func TestWhatWasSeenStaysAfterACrash(t *testing.T) {
	for _, c := range []struct {
		name, setting string
		workers       int
		stays         bool
	}{
		{"alone", "", 1, true},
		{"parts", "", 3, true},
		{"local", "local", 1, true},
		{"off", "off", 1, false},
		{"off_parts", "off", 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Nobody else writes to the disk what is in memory: a commit of the maintenance worker
			// would take the block along.
			server, cluster := crashCluster(t, map[string]string{
				"autovacuum": "off", "bgwriter_lru_maxpages": "0", "checkpoint_timeout": "'1h'",
				"chainify.scrub_rate": "0", "synchronous_commit": "off",
			})
			dsn, first := crashDatabase(t, server, "seen", c.workers)
			run(t, dsn, "CHECKPOINT")
			var writer int
			query(t, dsn, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'", &writer)
			signal(t, writer, syscall.SIGSTOP)

			b, err := New(Config{
				DSN: dsn + " user=effects_node", ChainID: "test", Organisation: "a", StuckAfter: time.Minute, SynchronousCommit: c.setting,
			})
			must.Do(t, err)
			t.Cleanup(func() { _ = b.Close() })
			connected(t, b)
			var second backend.Execution
			for try := range 10 { // on a busy machine parts wait too long for each other, and the leader runs the block alone
				if second, err = b.Execute(t.Context(), crashBlock(2), first.Hash); err != nil {
					t.Fatal(err)
				}
				if c.workers == 1 || !alone(t, dsn) {
					break
				}
				if try == 9 {
					t.Fatal("ten executions in the leader alone")
				}
			}
			must.Do(t, b.Commit(t.Context()))
			const seen = "SELECT (SELECT max(number) FROM chainify.ledger), (SELECT string_agg(p::text, '' ORDER BY id) FROM parts p)"
			var number, after int64
			var rows, rowsAfter string
			query(t, dsn, seen, &number, &rows)
			if number != 2 {
				t.Fatalf("block %d is the last one, want 2", number)
			}
			cluster.Kill()
			must.Do(t, cluster.Start(t.Context()))
			query(t, dsn, seen, &after, &rowsAfter)
			if stays := after == number && rows == rowsAfter; stays != c.stays {
				t.Errorf("block %d was seen, and after the crash it is block %d, with the same rows: %v", number, after, rows == rowsAfter)
			}
			b = steady(t, dsn)
			at := connected(t, b)
			if at.Number == 1 { // it comes again from the order
				again, err := b.Execute(t.Context(), crashBlock(2), first.Hash)
				if err == nil {
					err = b.Commit(t.Context())
				}
				if err != nil || again.Hash != second.Hash {
					t.Fatalf("executed again it is %x, want %x: %v", again.Hash, second.Hash, err)
				}
			} else if at.Hash != second.Hash {
				t.Errorf("block 2 is %x, want %x", at.Hash, second.Hash)
			}
			query(t, dsn, seen, &after, &rowsAfter)
			if after != 2 || rowsAfter != rows {
				t.Errorf("at last it is block %d with the same rows: %v", after, rows == rowsAfter)
			}
		})
	}
}
