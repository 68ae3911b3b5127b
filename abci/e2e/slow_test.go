package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// noise is what a machine that does other things as well adds to a latency. Others that waited for
// the slow statements would wait for minutes.
const noise = 5 * time.Second

// One client sends hundreds of statements that each take a while, again and again: the others'
// transactions take about as long as before, all succeed, and nobody deviates.
// CHAINIFY_SLOW_STATEMENTS is how many it sends at once (5,000 in the whole form, see
// CONTRIBUTING.md).
func TestSlowStatementsOfOneClientDoNotStallTheOthers(t *testing.T) {
	count, blockTime, calm, attack := 300, 2*time.Second, 5*time.Second, 30*time.Second
	if text := os.Getenv("CHAINIFY_SLOW_STATEMENTS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		must(t, err)
		blockTime, calm, attack = 0, 30*time.Second, 2*time.Minute // the default
	}
	ctx := underTestFor(t, testLimit+attack)
	net := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, BlockTime: blockTime})
	greedy, rest := net.Organisations[0], net.Organisations[1:]

	before := load(ctx, t, rest, calm, nil)
	during := load(ctx, t, rest, attack, func(ctx context.Context) { sendSlow(ctx, t, greedy, count) })
	t.Logf("median %s, longest %s of %d before; median %s, longest %s of %d while one client sends %d slow statements at once, again and again",
		median(before), slices.Max(before), len(before), median(during), slices.Max(during), len(during), count)
	if limit := 10*median(before) + noise; median(during) > limit {
		t.Errorf("the others' median latency is %s, want %s at most", median(during), limit)
	}

	waitSame(ctx, t, net.Organisations, 1)
	var blocks, slow, failed, deviations int
	must(t, greedy.Scan(ctx, "SELECT count(DISTINCT block), count(*) FROM chainify.transactions WHERE sqlstate = 'CH001'", &blocks, &slow))
	t.Logf("%d transactions were quarantined, in %d blocks", slow, blocks)
	if slow == 0 || blocks > 6 { // the suspension doubles from twice the time of a block on
		t.Errorf("%d transactions of %d blocks were quarantined, want some of a handful", slow, blocks)
	}
	must(t, greedy.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE NOT outcome AND sql LIKE 'UPDATE%'", &failed))
	if failed > 0 {
		t.Errorf("%d transactions of others failed", failed)
	}
	for _, o := range net.Organisations {
		must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.deviations", &deviations))
		state, err := o.State(ctx)
		must(t, err)
		if deviations > 0 || state != "serving" {
			t.Errorf("%s is %s, with %d deviations", o.Name, state, deviations)
		}
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}

// load has each organisation's client execute transactions, one after the other, while something
// else goes on, and says how long each took.
func load(ctx context.Context, t *testing.T, organisations []*harness.Organisation, d time.Duration, beside func(context.Context)) (took []time.Duration) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	if beside != nil {
		all.Go(func() { beside(limited) })
	}
	for i, o := range organisations {
		all.Go(func() {
			conn, err := o.Cluster.Connect(ctx, database, "bank")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.WithoutCancel(ctx))
			if _, err := conn.Exec(ctx, "SET chainify.wait_timeout = '3min'"); err != nil {
				t.Error(err)
				return
			}
			for limited.Err() == nil {
				began := time.Now()
				_, err := conn.Exec(ctx, fmt.Sprintf("SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = %d')", i+1))
				if err != nil {
					t.Errorf("%s: %v", o.Name, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(took) == 0 {
		t.Fatal("nothing was executed")
	}
	return took
}

func median(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)/2]
}

// sendSlow submits so many statements at once whenever the node takes them, until ctx ends.
func sendSlow(ctx context.Context, t *testing.T, o *harness.Organisation, count int) {
	conn, err := o.Cluster.Connect(context.WithoutCancel(ctx), database, "bank")
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	sent, refused := 0, 0
	for ctx.Err() == nil {
		_, err := conn.Exec(ctx, fmt.Sprintf(`SELECT chainify.submit_batch(ARRAY(
			SELECT 'SELECT count(*) FROM (SELECT generate_series(1, 4000000)) x -- ' || %d + i FROM generate_series(1, %d) i))`, sent*count, count))
		if err == nil {
			sent++
		} else if refused++; refused == 1 {
			t.Logf("refused: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
	t.Logf("%d batches taken, %d refused", sent, refused)
}

// slowRows is so many rows that counting them takes this machine about a second: well beyond what
// counts as quick.
func slowRows(ctx context.Context, t *testing.T, o *harness.Organisation) int {
	t.Helper()
	const wanted, most = 700 * time.Millisecond, 1 << 28
	rows := 1 << 20
	for {
		began, count := time.Now(), 0
		must(t, o.Scan(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT generate_series(1, %d)) x", rows), &count))
		if time.Since(began) >= wanted || rows >= most {
			return rows
		}
		rows *= 2
	}
}

// One client sends statements that each end well within the time of a block, one after the other
// without a pause. It has a part of the time, and in the rest the others' transactions take about
// as long as before.
func TestSlowStatementsThatEndLeaveTimeToTheOthers(t *testing.T) {
	const calm, attack = 5 * time.Second, 30 * time.Second
	ctx := underTestFor(t, testLimit+attack)
	net := newNetwork(ctx, t)
	greedy, rest := net.Organisations[0], net.Organisations[1:]

	before := load(ctx, t, rest, calm, nil)
	rows := slowRows(ctx, t, greedy)
	sent := 0
	during := load(ctx, t, rest, attack, func(limited context.Context) {
		conn, err := greedy.Cluster.Connect(ctx, database, "bank")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for ; limited.Err() == nil; sent++ {
			var succeeded bool
			err := conn.QueryRow(ctx, fmt.Sprintf("SELECT outcome FROM chainify.execute('SELECT count(*) FROM (SELECT generate_series(1, %d)) x -- %d')", rows, sent)).Scan(&succeeded)
			if err != nil || !succeeded {
				t.Errorf("a statement that ends in time: %v, %v", succeeded, err)
				return
			}
		}
	})
	t.Logf("median %s, longest %s of %d before; median %s, longest %s of %d beside %d slow statements, one after the other",
		median(before), slices.Max(before), len(before), median(during), slices.Max(during), len(during), sent)
	if limit := 10*median(before) + noise; median(during) > limit {
		t.Errorf("the others' median latency is %s, want %s at most", median(during), limit)
	}
	if sent < 3 {
		t.Errorf("%d slow statements were executed, want a part of the time for them", sent)
	}
}
