package private

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// The database is looked through for missing values after lookFirst, and after twice as long
	// each time that nothing came, up to lookMax.
	lookFirst, lookMax = time.Second, 30 * time.Second
	// An organisation that gave nothing is not asked for paceFirst, twice as long each further
	// time, up to paceMax.
	paceFirst, paceMax = time.Second, 5 * time.Minute
	// fetchMax bounds the values that one look asks for, and one question names.
	fetchMax = 1_000
	// untoldMax is how often the database may not tell before the log says so.
	untoldMax = 30
	askLimit  = 10 * time.Second
	// tidyEvery is how often expired values are looked for.
	tidyEvery = 5 * time.Second
)

// paces says which organisations are not asked for a while.
type paces map[string]pace

type pace struct {
	until time.Time
	pause time.Duration
}

// gave notes whether an organisation gave anything.
func (p paces) gave(organisation string, something bool, now time.Time) {
	if something {
		delete(p, organisation)
		return
	}
	pause := min(max(2*p[organisation].pause, paceFirst), paceMax)
	p[organisation] = pace{now.Add(pause), pause}
}

func (p paces) may(organisation string, now time.Time) bool {
	return !now.Before(p[organisation].until)
}

// Run reads who may hold what, forgets what the database has, and fetches what it lacks, until ctx
// ends.
func (k *Keeper) Run(ctx context.Context) {
	if k.database == nil || k.others == nil {
		return
	}
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	look, pause := time.NewTimer(0), lookFirst
	defer look.Stop()
	for {
		fetched := false
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-tidy.C:
			k.forget(k.store.expired(uint64(max(k.opt.Height(), 0)), k.opt.Current()))
		case <-look.C:
			fetched = true
		}
		if !k.refresh(ctx) {
			look.Reset(lookFirst)
			continue
		}
		if fetched || k.isUnheld() {
			some, err := k.fetch(ctx)
			if pause = min(2*pause, lookMax); some {
				pause = lookFirst
			}
			look.Reset(pause)
			if err != nil {
				k.opt.Log.Warn("missing private values cannot be looked for", "error", err)
				continue
			}
		}
		k.forget(k.takeDone())
	}
}

// refresh reads who may hold what, where that may have changed; false: the database does not tell.
func (k *Keeper) refresh(ctx context.Context) bool {
	k.mu.Lock()
	stale := k.stale
	k.stale = false
	k.mu.Unlock()
	if !stale {
		return true
	}
	limited, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	told, err := k.database.Circles(limited)
	if err != nil {
		k.mu.Lock()
		k.stale = true
		k.mu.Unlock()
		if k.untold++; k.untold == untoldMax {
			k.opt.Log.Warn("the database does not tell which organisations may hold private values", "error", err)
		}
		return false
	}
	k.untold = 0
	k.circles.Store(NewCircles(told))
	return true
}

// isUnheld reports, once, that a block left values out.
func (k *Keeper) isUnheld() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.unheld
	k.unheld = false
	return was
}

func (k *Keeper) takeDone() []wire.TxID {
	k.mu.Lock()
	defer k.mu.Unlock()
	done := k.done
	k.done = nil
	return done
}

func (k *Keeper) forget(ids []wire.TxID) {
	for _, id := range ids {
		if err := k.store.forget(id); err != nil {
			k.opt.Log.Warn("private values that the database has stay in the node's store", "error", err)
			return
		}
	}
}

// fetch gives the database what it lacks: from the node's own store, else from other members, one
// after the other. It reports whether any came.
func (k *Keeper) fetch(ctx context.Context) (some bool, err error) {
	circles := k.circles.Load()
	if !circles.Holds(k.opt.Organisation) {
		return false, nil
	}
	limited, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	missing, err := k.database.Missing(limited, fetchMax)
	if err != nil || len(missing) == 0 {
		return false, err
	}
	own, err := k.store.find(missing)
	if err == nil && len(own) > 0 {
		some, err = true, k.database.Hold(limited, own)
	}
	if err != nil {
		return some, err
	}
	missing = without(missing, own)
	from := circles.From(k.opt.Organisation, missing)
	organisations := slices.Sorted(maps.Keys(from))
	rand.Shuffle(len(organisations), func(i, j int) {
		organisations[i], organisations[j] = organisations[j], organisations[i]
	})
	for _, organisation := range organisations {
		names := within(from[organisation], missing)
		if len(names) == 0 || !k.paces.may(organisation, time.Now()) {
			continue
		}
		got, err := k.ask(ctx, organisation, names)
		if err != nil {
			return some, err
		}
		k.paces.gave(organisation, len(got) > 0, time.Now())
		some = some || len(got) > 0
		missing = without(missing, got)
	}
	return some, nil
}

// ask has the database hold what an organisation gives of the names, once it fits its commitment
// (K4). That nothing comes is no error.
func (k *Keeper) ask(ctx context.Context, organisation string, names []*wire.SealedName) ([]*wire.SealedValue, error) {
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	got, err := k.others.Ask(limited, organisation, names)
	if err != nil {
		k.opt.Log.Debug("could not ask for private values", "of", organisation, "error", err)
		return nil, nil
	}
	got = asked(k.opt.ChainID, names, got)
	if len(got) == 0 {
		return nil, nil
	}
	if err := k.database.Hold(limited, got); err != nil {
		return nil, fmt.Errorf("hold fetched private values: %w", err)
	}
	k.opt.Log.Info("fetched missing private values", "of", organisation, "values", len(got), "missing", len(names)-len(got))
	return got, nil
}

// asked are those of the values that were asked for and fit their commitments, each once.
func asked(chainID string, names []*wire.SealedName, got []*wire.SealedValue) (fit []*wire.SealedValue) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[cellName(name.Table, name.Column, name.Commitment)] = true
	}
	for _, v := range got {
		if name := cellName(v.Table, v.Column, v.Commitment); wanted[name] && committed(chainID, v) {
			delete(wanted, name)
			fit = append(fit, v)
		}
	}
	return fit
}

// within are the names that are still among others.
func within(names, still []*wire.SealedName) (out []*wire.SealedName) {
	has := make(map[string]bool, len(still))
	for _, name := range still {
		has[cellName(name.Table, name.Column, name.Commitment)] = true
	}
	for _, name := range names {
		if has[cellName(name.Table, name.Column, name.Commitment)] {
			out = append(out, name)
		}
	}
	return out
}
