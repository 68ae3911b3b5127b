package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/bench/chart"
	"github.com/chainify-db/chainify/bench/report"
)

// The course of the dissertation's section 4.8.3 (figure 4.12). Two of three organisations have to
// agree. A fourth member without a database orders with them, so that an order goes on when one of
// the three fails whole.
var (
	trio   = []string{"acme", "bolt", "cargo"}
	notary = []string{"notary"}
)

// Moments of a course, after its beginning.
const (
	tamperedAt = 3 * time.Second // a row of the first organisation is changed behind its ledger
	failedAt   = 10 * time.Second
	againAt    = 16 * time.Second // node and database of the third are started again
	watchedFor = 22 * time.Second

	settled  = time.Second            // after a moment, before what follows it is compared
	lookedAt = 250 * time.Millisecond // from one look at the organisations to the next
	patience = 4                      // clients of the second organisation, which nothing happens to
)

// course is a network that fails in this order.
type course struct {
	name    string
	mariaDB []string
	id      string // of figures and plots
}

var courses = []course{
	{"PostgreSQL, MariaDB, PostgreSQL", trio[1:2], "mixed"},
	{"three PostgreSQL", nil, "postgres"},
}

// Series of a course, before its name.
const (
	deviatedBack = "figure 4.12, tampered row: from its touch until the organisation is back; "
	failedRate   = "figure 4.12, answers a second while one organisation is gone / before; "
	failedPause  = "figure 4.12, longest pause of answers after one organisation went; "
	failedBack   = "figure 4.12, from the start of the failed one until it has what the others have; "
)

// progress is what was seen of a course: moments are times since its beginning.
type progress struct {
	lock     sync.Mutex
	started  time.Time
	answered []time.Duration
	blocks   map[string][]chart.Point // of an organisation, by seconds; without those that it did not tell
}

// answer notes an answer of now.
func (p *progress) answer() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.answered = append(p.answered, time.Since(p.started))
}

// rate is the number of answers a second in a span.
func rate(answered []time.Duration, from, until time.Duration) float64 {
	n := 0
	for _, at := range answered {
		if from <= at && at < until {
			n++
		}
	}
	return float64(n) / (until - from).Seconds()
}

// pauseOf is the longest time without an answer in a span.
func pauseOf(answered []time.Duration, from, until time.Duration) time.Duration {
	longest, last := time.Duration(0), from
	for _, at := range slices.Sorted(slices.Values(answered)) {
		if from <= at && at < until {
			longest, last = max(longest, at-last), at
		}
	}
	return max(longest, until-last)
}

// failures measures the courses.
func failures(ctx context.Context, cfg Config, r *report.Report) error {
	if cfg.Customers <= rowsKept {
		return fmt.Errorf("%d customers, want more than %d", cfg.Customers, rowsKept)
	}
	for _, c := range courses {
		if err := c.measure(ctx, cfg, r); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (c course) measure(ctx context.Context, cfg Config, r *report.Report) (err error) {
	fmt.Fprintf(cfg.Progress, "%d rows in each database of %s\n", cfg.Customers, c.name)
	net, err := found(ctx, harness.Config{
		Dir: filepath.Join(cfg.Dir, "failing"), PG: cfg.PG, Chainify: cfg.Chainify, Database: database,
		Organisations: trio, OrderingOnly: notary, MariaDB: c.mariaDB, Consent: 2,
	}, accountSchema(cfg.Customers), "ATTACH TABLE public.account ENCODING 2")
	if net != nil {
		defer func() { err = errors.Join(err, end(net, err)) }()
	}
	if err != nil {
		return err
	}
	for repetition := 1; repetition <= cfg.Repeat; repetition++ {
		if err := c.once(ctx, cfg, net, repetition, r); err != nil {
			return fmt.Errorf("repetition %d: %w", repetition, err)
		}
	}
	return nil
}

// once has the course run once, under load, and adds what it showed.
func (c course) once(ctx context.Context, cfg Config, net *harness.Network, repetition int, r *report.Report) error {
	p := &progress{started: time.Now(), blocks: map[string][]chart.Point{}}
	var back, caught time.Duration
	err := underLoad(ctx, cfg, net, repetition, p, func(ctx context.Context) (err error) {
		back, caught, err = fail(ctx, cfg, net, repetition, p.started)
		return err
	})
	if err != nil {
		return err
	}
	before := rate(p.answered, settled, tamperedAt)
	if before == 0 {
		return errors.New("nothing was answered before the first failure")
	}
	rest, pause := rate(p.answered, failedAt+settled, againAt)/before, pauseOf(p.answered, failedAt, againAt)
	for _, s := range []struct {
		name, unit string
		value      float64
	}{
		{deviatedBack, "s", back.Seconds()}, {failedRate, "ratio", rest}, {failedPause, "s", pause.Seconds()}, {failedBack, "s", caught.Seconds()},
	} {
		r.Add(s.name+c.name, 0, s.unit, report.Sample{Repetition: repetition, Value: s.value})
	}
	fmt.Fprintf(cfg.Progress, "repetition %d/%d: %s: back after %.3f s; while one is gone %.2f of the rate, pause %.3f s; caught up after %.3f s\n",
		repetition, cfg.Repeat, c.name, back.Seconds(), rest, pause.Seconds(), caught.Seconds())
	_, err = harness.WaitSame(ctx, net.Organisations, 1, doneLimit)
	return errors.Join(err, c.draw(cfg, p))
}

// underLoad has clients and a watcher run as long as events do.
func underLoad(ctx context.Context, cfg Config, net *harness.Network, repetition int, p *progress, events func(context.Context) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	loadCtx, stop := context.WithCancel(groupCtx)
	defer stop()
	for n := range patience {
		random := rand.New(rand.NewPCG(cfg.Seed, uint64(repetition)<<32|uint64(n)))
		group.Go(func() error {
			return clientOf(loadCtx, net.Organisations[1], cfg.Customers-rowsKept, random, p.answer)
		})
	}
	for _, o := range net.Organisations {
		group.Go(func() error { p.watch(loadCtx, o); return nil })
	}
	group.Go(func() error {
		defer stop()
		return events(groupCtx)
	})
	return group.Wait()
}

// watch notes an organisation's last block again and again, for as long as it tells it.
func (p *progress) watch(ctx context.Context, o *harness.Organisation) {
	ticker := time.NewTicker(lookedAt)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		tip, err := o.Tip(ctx)
		if err != nil {
			continue // its database is down
		}
		number := float64(tip.Number)
		at := math.Round(float64(time.Since(p.started))/float64(lookedAt)) * lookedAt.Seconds()
		p.lock.Lock()
		p.blocks[o.Name] = append(p.blocks[o.Name], chart.Point{X: at, Spread: report.Spread{Median: number, Min: number, Max: number, Count: 1}})
		p.lock.Unlock()
	}
}

// fail has the failures of a course happen. It gives how long the first organisation was away, and
// how long the third took to have all again.
func fail(ctx context.Context, cfg Config, net *harness.Network, repetition int, started time.Time) (back, caught time.Duration, err error) {
	odd, well, gone := net.Organisations[0], net.Organisations[1], net.Organisations[2]
	row := cfg.Customers - repetition
	for _, event := range []struct {
		at time.Duration
		do func() error
	}{
		{tamperedAt, func() error {
			return odd.Exec(ctx, "postgres", fmt.Sprintf("SET chainify.guard = off; SET session_replication_role = replica; UPDATE account SET balance = balance + 1000000 WHERE id = %d", row))
		}},
		{tamperedAt, func() error {
			touched := time.Now()
			err := touch(ctx, well, odd, row)
			back = time.Since(touched)
			return err
		}},
		{failedAt, func() error { gone.KillNode(); gone.Cluster.Kill(); return nil }},
		{againAt, func() error {
			again := time.Now()
			err := errors.Join(gone.Cluster.Start(ctx), gone.StartNode())
			if err == nil {
				err = reach(ctx, well, gone)
			}
			caught = time.Since(again)
			return err
		}},
		{watchedFor, func() error { return nil }},
	} {
		if err := until(ctx, started.Add(event.at)); err != nil {
			return 0, 0, err
		}
		if err := event.do(); err != nil {
			return 0, 0, err
		}
	}
	return back, caught, nil
}

func until(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// touch changes a row by the ledger, and waits until an organisation in which it was tampered with
// has the block, recorded the cure, and serves.
func touch(ctx context.Context, well, odd *harness.Organisation, row int) error {
	block, err := submit(ctx, well, role, deposit(row))
	if err != nil {
		return err
	}
	return harness.Poll(ctx, cureLimit, "recovery of "+odd.Name, func(ctx context.Context) (bool, string, error) {
		var position uint64
		var open, cured int
		var state string
		err := odd.Scan(ctx, fmt.Sprintf(`SELECT s.last_block, coalesce(s.state, ''), count(*) FILTER (WHERE d.block IS NOT NULL AND cured_by IS NULL),
			count(*) FILTER (WHERE (key ->> 'id')::bigint = %d AND cured_by IS NOT NULL)
			FROM chainify.status s LEFT JOIN chainify.deviations d ON true GROUP BY 1, 2`, row), &position, &state, &open, &cured)
		if err != nil {
			return false, err.Error(), nil
		}
		back := position >= block && open == 0 && cured > 0 && (state == "serving" || state == "executing")
		return back, fmt.Sprintf("at block %d of %d, %d open, %d cured, %s", position, block, open, cured, state), nil
	})
}

// reach waits until an organisation has what another has now.
func reach(ctx context.Context, well, gone *harness.Organisation) error {
	want, err := well.Tip(ctx)
	if err != nil {
		return err
	}
	return harness.Poll(ctx, cureLimit, gone.Name+" catches up", func(ctx context.Context) (bool, string, error) {
		tip, err := gone.Tip(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return tip.Number >= want.Number, fmt.Sprintf("block %d of %d", tip.Number, want.Number), nil
	})
}

// failureFigures state the courses beside the published ones.
func failureFigures(r *report.Report) error {
	published := map[string]string{"mixed": "17 s, in which the others stop", "postgres": "4 s, in which the others go on"}
	var errs []error
	for _, c := range courses {
		for _, f := range []struct{ id, series, unit, how string }{
			{"deviated_back_s", deviatedBack, "s", "ChainifyDB, figure 4.12, any 2 of " + c.name + ": from the touch of a tampered row until its organisation has the block and the cure and serves; published: " + published[c.id]},
			{"failed_rate", failedRate, "ratio", "the same course: answers a second while another organisation is gone, node and database / before; drawn: the pace of the slower one"},
			{"failed_pause_s", failedPause, "s", "the same: the longest time without an answer after that failure; drawn: until the slower one has caught up"},
			{"failed_back_s", failedBack, "s", "the same: from the start of the failed organisation until it has what the others have; not published"},
		} {
			errs = append(errs, r.AddFigure(fmt.Sprintf("engines.%s_%s", f.id, c.id), r.Find(f.series+c.name, 0).Values(), f.unit, report.Target{}, f.how))
		}
	}
	return errors.Join(errs...)
}

// draw draws the last blocks over the time of a course, as figure 4.12 does.
func (c course) draw(cfg Config, p *progress) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	drawn := chart.Chart{Title: "Any 2 of " + c.name + ": one tampered with at 3 s, one gone from 10 to 16 s", X: "seconds", Y: "last block"}
	for i, name := range trio {
		drawn.Lines = append(drawn.Lines, chart.Line{Name: name + [...]string{" (tampered with)", "", " (gone)"}[i], Points: p.blocks[name]})
	}
	return drawn.Write(cfg.Out, "engines-failing-"+c.id)
}
