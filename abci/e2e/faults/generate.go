package faults

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chainify-db/chainify/abci/config"
)

// Random manifests: what is drawn, and how often.
const (
	firstFault = 3 * time.Second // after the load began
	gapMax     = 6 * time.Second // between the beginnings of two faults
	lengthMin  = 500 * time.Millisecond
	lengthMax  = 10 * time.Second
	attempts   = 20 // at a fault that fits beside those there are
)

// Random draws a manifest: the same for the same seed and duration, on every machine.
func Random(seed uint64, duration time.Duration) Manifest {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := Manifest{
		Name: fmt.Sprintf("random-%d", seed), Seed: seed, Organisations: 4, Workers: 1, Clients: 2 + rng.IntN(3),
		Customers: 100 + rng.IntN(300), Duration: config.Duration(duration),
	}
	switch rng.IntN(10) {
	case 0:
		m.Organisations = 5
	case 1, 2:
		m.Organisations, m.OrderingOnly, m.Consent = 3, 1, 2
	}
	switch rng.IntN(8) {
	case 0:
		m.Consent = m.Organisations
	case 1:
		m.Consent = m.Organisations/2 + 1
	}
	if rng.IntN(5) < 2 {
		m.Workers = 2
	}
	if m.Organisations == 4 && rng.IntN(4) == 0 {
		m.MariaDB, m.Workers = []string{"cargo", "delta"}, 1
	}
	victim := names[rng.IntN(m.Organisations)] // of all tampering: c organisations that lie alike would be right
	at := firstFault
	for at < duration && len(m.Faults) < faultsMax {
		if f, ok := m.draw(rng, at, victim); ok {
			m.Faults = append(m.Faults, f)
		}
		at += time.Second + milliseconds(rng, 0, gapMax-time.Second)
	}
	m.Effects = float64(rng.IntN(5)) / 4
	return m
}

// draw gives a fault that fits beside those of the manifest; none when chance finds none.
func (m Manifest) draw(rng *rand.Rand, at time.Duration, victim string) (Fault, bool) {
	for range attempts {
		f := m.drawAny(rng, at, victim)
		with := m
		with.Faults = append(slices.Clone(m.Faults), f)
		if with.Check() == nil {
			return f, true
		}
	}
	return Fault{}, false
}

func (m Manifest) drawAny(rng *rand.Rand, at time.Duration, victim string) Fault {
	all := kindNames()
	f := Fault{Kind: all[rng.IntN(len(all))], At: config.Duration(at), For: config.Duration(milliseconds(rng, lengthMin, lengthMax))}
	k := kinds[f.Kind]
	if len(k.points) > 0 {
		f.Point = k.points[rng.IntN(len(k.points))]
	}
	who := m.members()
	if k.database {
		who = m.organisations()
	}
	count := 1
	if rng.IntN(5) == 0 { // more than can be missed
		count += rng.IntN(len(who))
	}
	for _, i := range rng.Perm(len(who))[:count] {
		f.Members = append(f.Members, who[i])
	}
	if strings.HasPrefix(f.Kind, kindTamper) {
		f.Members = []string{victim}
	}
	slices.SortFunc(f.Members, cmp.Compare)
	return f
}

// milliseconds draws a duration between two bounds.
func milliseconds(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64((to-from)/time.Millisecond)))*time.Millisecond
}

// kindNames lists all kinds in a fixed order.
func kindNames() []string {
	var out []string
	for name := range kinds {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
