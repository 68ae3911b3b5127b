package network

import (
	"context"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// load is what clients saw.
type load struct {
	count     int
	took      time.Duration
	latencies []time.Duration    // of those that were waited for one by one, ascending
	more      map[string]float64 // further details of the sample
	led       lead
}

// lead is what clients did in the same sessions before it counted.
type lead struct {
	count int
	used  cpu
}

func (l load) rate() float64 { return float64(l.count) / l.took.Seconds() }

// quantile is the latency that a share q of the transactions does not exceed, in milliseconds; 0
// when none was timed.
func (l load) quantile(q float64) float64 {
	if len(l.latencies) == 0 {
		return 0
	}
	return float64(l.latencies[min(len(l.latencies)-1, int(q*float64(len(l.latencies))))].Microseconds()) / 1000
}

// each divides a time by the transactions, in microseconds.
func (l load) each(d time.Duration) float64 { return float64(d.Microseconds()) / float64(l.count) }

func (l load) detail() map[string]float64 {
	out := maps.Clone(l.more)
	if out == nil {
		out = map[string]float64{}
	}
	if len(l.latencies) > 0 {
		out["p50_ms"], out["p95_ms"], out["p99_ms"] = l.quantile(0.5), l.quantile(0.95), l.quantile(0.99)
	}
	return out
}

// milliseconds are the latencies.
func (l load) milliseconds() []float64 {
	out := make([]float64, len(l.latencies))
	for i, d := range l.latencies {
		out[i] = float64(d.Microseconds()) / 1000
	}
	return out
}

// clients submit one transaction after the other, each when the one before is answered.
type clients []func(ctx context.Context) error

func newClients(n int, client func(i int) (one func(ctx context.Context) error, err error)) (clients, error) {
	out := make(clients, n)
	for i := range out {
		one, err := client(i)
		if err != nil {
			return nil, err
		}
		out[i] = one
	}
	return out, nil
}

// waiting lets clients submit for the seconds.
func waiting(ctx context.Context, n, seconds int, client func(i int) (one func(ctx context.Context) error, err error)) (load, error) {
	each, err := newClients(n, client)
	if err != nil {
		return load{}, err
	}
	return each.wait(ctx, time.Duration(seconds)*time.Second)
}

func (c clients) wait(ctx context.Context, length time.Duration) (load, error) {
	times := make([][]time.Duration, len(c))
	started := time.Now()
	end := started.Add(length)
	group, ctx := errgroup.WithContext(ctx)
	for i, one := range c {
		group.Go(func() error {
			for begun := time.Now(); begun.Before(end); begun = time.Now() {
				if err := one(ctx); err != nil {
					return err
				}
				times[i] = append(times[i], time.Since(begun))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return load{}, err
	}
	l := load{took: time.Since(started), latencies: slices.Concat(times...)}
	l.count = len(l.latencies)
	slices.Sort(l.latencies)
	return l, nil
}

// submitter submits without waiting for each transaction.
type submitter interface {
	// submit submits some transactions and returns how many; it waits while too many have no
	// outcome.
	submit(ctx context.Context) (int, error)
	// finish waits until all that were submitted have their outcome.
	finish(ctx context.Context) error
}

// flood lets submitters submit for the seconds as fast as each is let, and then waits until all
// of it is done, in the end everywhere.
func flood(ctx context.Context, submitters []submitter, seconds int, everywhere func(ctx context.Context, count int) error) (load, error) {
	counts := make([]int, len(submitters))
	started := time.Now()
	end := started.Add(time.Duration(seconds) * time.Second)
	group, groupCtx := errgroup.WithContext(ctx)
	for i, s := range submitters {
		group.Go(func() error {
			for time.Now().Before(end) {
				n, err := s.submit(groupCtx)
				if err != nil {
					return err
				}
				counts[i] += n
			}
			return s.finish(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return load{}, err
	}
	l := load{}
	for _, n := range counts {
		l.count += n
	}
	err := everywhere(ctx, l.count)
	l.took = time.Since(started)
	return l, err
}
