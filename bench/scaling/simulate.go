package scaling

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Place is where organisations are: the time a message takes from one to another, one way,
// without jitter.
type Place struct {
	Name   string
	Delay  func(from, to int) time.Duration
	Jitter float64 // the delay of a message is drawn up to so much longer
}

// Outcome is what simulated clients see.
type Outcome struct{ P50, P99 time.Duration }

// Simulate lets one client of organisation 0 submit transactions, each when the one before is
// answered. It follows the messages: bundle to the proposer, proposal, prevotes, precommits with
// effect votes. An order block takes the time work where messages take none, a third of it before
// each of the three steps. Proposers take turns, and a step needs more than two thirds of all. The
// seed makes it repeatable.
func Simulate(n int, p Place, work time.Duration, transactions int, seed uint64) Outcome {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	message := func(from, to int) time.Duration {
		if from == to {
			return 0
		}
		d := p.Delay(from, to)
		return d + time.Duration(random.Float64()*p.Jitter*float64(d))
	}
	times := make([]time.Duration, transactions)
	for i := range times {
		proposer := i % n
		proposed := message(0, proposer) + work/3
		got := make([]time.Duration, n)
		for v := range got {
			got[v] = proposed + message(proposer, v) + work/3
		}
		got = step(got, message)
		for v := range got {
			got[v] += work / 3
		}
		times[i] = step(got, message)[0]
	}
	slices.Sort(times)
	return Outcome{times[transactions/2], times[transactions*99/100]}
}

// step is when each has votes of more than two thirds, which all send when they are ready.
func step(ready []time.Duration, message func(from, to int) time.Duration) []time.Duration {
	n := len(ready)
	out, arrive := make([]time.Duration, n), make([]time.Duration, n)
	for to := range out {
		for from := range arrive {
			arrive[from] = ready[from] + message(from, to)
		}
		slices.Sort(arrive)
		out[to] = max(arrive[2*n/3], ready[to])
	}
	return out
}
