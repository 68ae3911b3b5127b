package analytics

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chainify-db/chainify/bench/machine"
	"github.com/chainify-db/chainify/bench/report"
	"github.com/chainify-db/chainify/bench/targets"
	"github.com/chainify-db/chainify/bench/workload"
)

const (
	between   = 500 * time.Millisecond // from one query to the next
	tpccBlock = 256                    // transactions

	// The pace of the blocks while `latest` is measured: 2,000 transactions a second.
	freshBlock = 100
	freshEvery = 50 * time.Millisecond
	longer     = 5 // times as long as other measurements: a query takes a while
)

// The systems of the series under load.
const (
	loadAlone      = "TPC-C, no mirrors"
	loadMirrored   = "TPC-C, mirrors without queries"
	loadQueries    = "TPC-C, a query of the mirrors every 500 ms"
	loadPostgreSQL = "TPC-C, the same queries in PostgreSQL"
)

// load measures TPC-C's transactions with and without AnKer's queries beside them.
func (b *bench) load(ctx context.Context) error {
	next := workload.NewTPCC(b.Seed, 0, b.size(), workload.ByTheBook)
	systems := []string{loadAlone, loadMirrored, loadQueries, loadPostgreSQL}
	for repetition := range b.Repeat {
		draw := rand.New(rand.NewPCG(b.Seed, uint64(repetition)))
		for _, i := range draw.Perm(len(systems)) {
			if err := b.loaded(ctx, systems[i], repetition, draw, next); err != nil {
				return fmt.Errorf("%s, repetition %d: %w", systems[i], repetition, err)
			}
		}
	}
	of := func(system string) []float64 { return b.report.Find(system, 0).Values() }
	latency := func(id, system, how string) error {
		return b.report.AddFigure(id, b.report.Find(system, 0).Details("query_ms"), "ms", report.Target{}, how)
	}
	return errors.Join(
		b.report.AddRatio("analytics.load_with_queries", of(loadQueries), of(loadMirrored), b.target(targets.Of("analytics.load_with_queries")),
			"TPC-C transactions a second with one of AnKer's queries of the mirrors every 500 ms, over those without queries"),
		b.report.AddRatio("analytics.load_with_worker", of(loadQueries), of(loadAlone), b.target(targets.Of("analytics.load_with_worker")), "load_with_queries, over those without a worker"),
		b.report.AddRatio("analytics.load_mirrored", of(loadMirrored), of(loadAlone), report.Target{}, "TPC-C transactions a second while the worker follows, without queries, over those without a worker"),
		b.report.AddRatio("analytics.load_with_postgresql", of(loadPostgreSQL), of(loadAlone), report.Target{}, "the same with the same queries in PostgreSQL and no worker"),
		latency("analytics.load_query_ms", loadQueries, "median time of a query of the mirrors under that load"),
		latency("analytics.load_postgresql_ms", loadPostgreSQL, "median time of the same queries in PostgreSQL under that load"))
}

// loaded runs one system for the time of a measurement.
func (b *bench) loaded(ctx context.Context, system string, repetition int, draw *rand.Rand, next *workload.TPCC) error {
	switch mirrored := system == loadMirrored || system == loadQueries; {
	case mirrored && b.worker.command == nil:
		if err := errors.Join(b.start(), b.serving(ctx)); err != nil {
			return err
		}
	case !mirrored:
		if err := b.worker.stop(); err != nil {
			return err
		}
	}
	if err := errors.Join(b.Renew(ctx), b.Vacuum(ctx)); err != nil {
		return err
	}
	conn, err := b.session(ctx, "tpcc", system == loadQueries)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	ask := func(ctx context.Context) (time.Duration, error) {
		_, took, err := asked(conn)(ctx, ankerQueries[draw.IntN(len(ankerQueries))].sql)
		return took, err
	}
	if system == loadAlone || system == loadMirrored {
		ask = nil
	}
	stop := every(ctx, between, ask)
	load := machine.Load()
	sample, err := b.Measure(ctx, longer*b.Seconds, tpccBlock, next.Block)
	times, errAsked := stop()
	if err := errors.Join(err, errAsked); err != nil {
		return err
	}
	sample.Repetition, sample.Load = repetition, load
	if len(times) > 0 {
		sample.Detail["queries"], sample.Detail["query_ms"] = float64(len(times)), report.Median(times)
	}
	b.report.Add(system, 0, "tx/s", sample)
	fmt.Fprintf(b.Progress, "%s: %.0f tx/s; %d queries, median %.1f ms; load %.1f\n", system, sample.Value, len(times), report.Median(times), load)
	return nil
}

// every asks once in each interval, until the function that it returns is called. That one gives
// the times, in milliseconds and ascending, and the error that ended it. No `ask`: no questions.
func every(ctx context.Context, interval time.Duration, ask func(context.Context) (time.Duration, error)) func() ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	var times []float64
	var failed error
	var running sync.WaitGroup
	if ask != nil {
		running.Go(func() {
			clock := time.NewTicker(interval)
			defer clock.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-clock.C:
				}
				took, err := ask(context.WithoutCancel(ctx)) // a question that was begun is answered
				if err != nil {
					failed = err
					return
				}
				times = append(times, ms(took))
			}
		})
	}
	return func() ([]float64, error) {
		cancel()
		running.Wait()
		slices.Sort(times)
		return times, failed
	}
}

// latest asks for the newest block; the query itself takes next to nothing.
const latest = "SELECT * FROM chainify.query_at(NULL, 'SELECT count(*) FROM tpcc.warehouse') AS t (n bigint)"

// fresh measures how long `latest` waits under 2,000 transactions a second.
func (b *bench) fresh(ctx context.Context) error {
	conn, err := b.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	still, err := b.still(ctx, conn)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Renew(ctx), b.Vacuum(ctx)); err != nil {
		return err
	}
	bank := workload.NewSmallbank(b.Seed, 0, int64(b.customers()))
	var all, medians, slowest, rates []float64
	for repetition := range b.Repeat {
		load := machine.Load()
		stop := every(ctx, 7*time.Millisecond, func(ctx context.Context) (time.Duration, error) {
			_, took, err := asked(conn)(ctx, latest)
			return took, err
		})
		rate, err := b.paced(ctx, bank)
		times, errAsked := stop()
		if err := errors.Join(err, errAsked); err != nil {
			return err
		}
		all, rates = append(all, times...), append(rates, rate)
		medians, slowest = append(medians, report.Median(times)), append(slowest, report.Quantile(times, 0.99))
		b.report.Add("latest", 0, "ms", report.Sample{Repetition: repetition, Value: report.Median(times), Load: load, Latencies: times, Detail: map[string]float64{"tx_per_s": rate}})
		fmt.Fprintf(b.Progress, "latest: median %.1f ms, 99th percentile %.1f of %d at %.0f tx/s; %.1f ms without blocks\n", report.Median(times), slowest[repetition], len(times), rate, still)
	}
	slices.Sort(all)
	return errors.Join(
		b.report.AddFigure("analytics.latest_rate", rates, "tx/s", report.Target{}, "Smallbank transactions a second, in 20 blocks, while latest is asked for"),
		b.report.AddFigure("analytics.latest_still_ms", []float64{still}, "ms", report.Target{}, "median time of the same query while there are no new blocks"),
		b.report.AddPooled("analytics.latest_ms", report.Median(all), len(all), medians, "ms", b.target(targets.Of("analytics.latest_ms")), "time of a query at the newest block under that load, waiting for the block included, median"),
		b.report.AddPooled("analytics.latest_p99_ms", report.Quantile(all, 0.99), len(all), slowest, "ms", b.target(targets.Of("analytics.latest_p99_ms")), "latest_ms at the 99th percentile"))
}

// stillAsked is how often latest is asked for without blocks.
const stillAsked = 200

// still is the median time of latest while there are no new blocks.
func (b *bench) still(ctx context.Context, conn *pgx.Conn) (float64, error) {
	times := make([]float64, stillAsked)
	for i := range times {
		_, took, err := asked(conn)(ctx, latest)
		if err != nil {
			return 0, err
		}
		times[i] = ms(took)
	}
	return report.Median(times), nil
}

// paced executes a block in each interval and says how many transactions a second that were.
func (b *bench) paced(ctx context.Context, bank *workload.Smallbank) (float64, error) {
	started, blocks := time.Now(), 0
	clock := time.NewTicker(freshEvery)
	defer clock.Stop()
	for end := started.Add(time.Duration(longer*b.Seconds) * time.Second); time.Now().Before(end); blocks++ {
		calls := bank.Block(freshBlock)
		statements := make([]workload.Statement, len(calls))
		for i, call := range calls {
			statements[i] = call.Statement(workload.Function)
		}
		if _, err := b.Block(ctx, statements); err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-clock.C:
		}
	}
	return float64(blocks*freshBlock) / time.Since(started).Seconds(), nil
}
