package node

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/comet/lane"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
)

// BenchmarkWaitingClients measures four nodes in this process whose clients wait for each answer,
// with the express lane and without: `go test ./node -run '^$' -bench Waiting -benchtime 500x`.
func BenchmarkWaitingClients(b *testing.B) {
	for _, clients := range []int{1, 32} {
		for _, lane := range []bool{false, true} {
			b.Run(fmt.Sprintf("clients=%d/lane=%t", clients, lane), func(b *testing.B) { waiting(b, clients, lane) })
		}
	}
}

func waiting(b *testing.B, count int, on bool) {
	nodes := newNetwork(b, "acme", "bolt", "cargo", "delta")
	var lanes []*lane.Lane
	for _, r := range nodes {
		setLane(b, r, on)
		r.lane.Made = func(l *lane.Lane) { lanes = append(lanes, l) }
	}
	doors := startAll(b, nodes)
	execute(b, doors[0], "SELECT 0") // the first block waits for everybody
	clients := make([]*gateway.Client, count)
	for i := range clients {
		clients[i] = nodes[i%len(nodes)].dial()
	}
	took := make([][]time.Duration, count)
	height, used := status(b, doors[0]).Height, processorTime(b)
	b.ResetTimer()
	var load sync.WaitGroup
	for i, c := range clients {
		load.Go(func() {
			for n := i; n < b.N; n += count {
				since := time.Now()
				execute(b, c, fmt.Sprintf("SELECT %d", n))
				took[i] = append(took[i], time.Since(since))
			}
		})
	}
	load.Wait()
	b.StopTimer()
	blocks := float64(status(b, doors[0]).Height - height)
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric((processorTime(b)-used).Seconds()*1000/blocks, "ms-CPU/block")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms-p99")
	for i, l := range lanes {
		b.Logf("%s: %.1f blocks, %+v", organisationOf(nodes[i]), blocks, l.Counts())
	}
	b.ReportMetric(blocks/b.Elapsed().Seconds(), "blocks/s")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
	for _, r := range nodes {
		r.stop()
	}
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
