package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// step is one thing that happens in a schedule.
type step struct {
	kind    kind
	a, b    int // members
	heights int64
	clock   time.Duration
}

type kind int

const (
	stops kind = iota
	crashes
	starts
	pauses
	clocks
	parts
	isolates
	mends
	losesData
	takesOver
	takesOverDisk
	losesOdd
	getsTwin
	database
	signs // waits until a member has signed; not drawn
	kinds
)

func (k kind) String() string {
	return [...]string{
		"stop", "crash", "start", "pause", "clock", "part", "isolate", "mend", "lose data", "take over", "take over with the disk", "lose after an odd vote", "twin", "database", "sign",
	}[k]
}

func (s step) String() string {
	return fmt.Sprintf("%s %d %d %d %s", s.kind, s.a, s.b, s.heights, s.clock)
}

// weights are how often each kind is drawn.
var weights = [kinds]int{stops: 3, crashes: 3, starts: 6, pauses: 3, clocks: 3, parts: 4, isolates: 2, mends: 2, losesData: 3, takesOver: 3, takesOverDisk: 2, losesOdd: 2, getsTwin: 1, database: 5}

// draw draws the schedule of a seed, from 5 to 15 steps. Three of four begin when all members sign.
func draw(seed uint64) []step {
	random := rand.New(rand.NewPCG(seed, 0))
	steps := make([]step, 5+random.IntN(11))
	for i := range steps {
		if i == 0 && random.IntN(4) > 0 {
			steps[i] = step{kind: mends}
			continue
		}
		k, at := kind(0), random.IntN(sum(weights[:]))
		for ; at >= weights[k]; k++ {
			at -= weights[k]
		}
		a := random.IntN(4)
		steps[i] = step{kind: k, a: a, b: (a + 1 + random.IntN(3)) % 4, heights: random.Int64N(6), clock: time.Duration(random.Int64N(int64(2*time.Hour))) - time.Hour}
	}
	return steps
}

func sum(of []int) (all int) {
	for _, n := range of {
		all += n
	}
	return all
}

// run runs a schedule in a world of its own. The error says all that went wrong.
func run(steps []step, number uint32) (err error) {
	w, err := found(number)
	if w != nil {
		defer func() { err = errors.Join(err, w.close()) }()
	}
	for i := 0; err == nil && i < len(steps); i++ {
		if err = w.take(steps[i]); err != nil {
			err = fmt.Errorf("step %d (%s): %w", i, steps[i], err)
		}
		w.goOn(steps[i].heights)
	}
	if err == nil {
		err = w.mend()
	}
	if err == nil {
		err = w.execute()
	}
	var problems []string
	if err == nil {
		problems, err = w.judge()
	}
	if err == nil && len(problems) == 0 {
		return nil
	}
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	report := fmt.Sprintf("%v\n%s\nschedule:\n%s", err, strings.Join(problems, "\n"), strings.Join(words, "\n"))
	for _, m := range w.machines {
		log := strings.Split(m.log.String(), "\n")
		report += fmt.Sprintf("\nthe end of the log of %s:\n%s", m, strings.Join(log[max(0, len(log)-25):], "\n"))
	}
	return errors.New(report)
}

// take has a step happen, where it can.
func (w *world) take(s step) error {
	m := w.members[s.a]
	// CometBFT's own panic (cometsPanic) would end this process too often otherwise.
	until(2*haste, func() bool { return !slices.ContainsFunc(w.members, (*member).catchesUp) })
	switch s.kind {
	case stops:
		return m.node.stop()
	case crashes:
		return m.node.kill()
	case starts:
		return m.restart()
	case pauses:
		m.node.pause(true)
		w.goOn(s.heights)
		m.node.pause(false)
	case clocks:
		for _, other := range w.members { // those of fewer than a third are off
			other.node.clock.Store(0)
		}
		m.node.clock.Store(int64(s.clock))
	case parts:
		w.part(m, w.members[s.b], s.heights > 1)
	case isolates:
		for _, other := range w.members {
			if other != m {
				w.part(m, other, true)
			}
		}
	case mends:
		return w.mend()
	case losesData:
		return w.loseData(m)
	case takesOver:
		return w.lose(m, func() error { return m.takeOver(false) })
	case takesOverDisk:
		return w.lose(m, func() error { return m.takeOver(true) })
	case losesOdd:
		return w.loseOdd(m, w.members[s.b], s.heights)
	case getsTwin:
		return w.twin(m, s.heights)
	case database:
		w.change(m, s)
	case signs:
		until(patience, func() bool { return w.record.signs(m.node) > 0 })
	}
	return nil
}

// lose loses a member's machine, of which the keys or the disk are left, and has it come back. The
// order does without the last steps of one member at most, and a ledger block without the vote of
// one. So where another one came back and has signed nothing yet, or abstains from a block, all is
// mended before.
func (w *world) lose(m *member, back func() error) error {
	if err := w.settle(m); err != nil {
		return err
	}
	if err := m.node.kill(); err != nil {
		return err
	}
	err := back()
	m.lost(w.record.signs(m.node))
	return err
}

// firstHeights are those for which a key without its last signature signs when nobody is beyond: a
// volume that is lost while its chain begins looks as one that never was.
const firstHeights = 2

// loseData loses all but the keys and the configuration of a member's machine.
func (w *world) loseData(m *member) error {
	if w.record.reached() <= firstHeights {
		if err := w.mend(); err != nil {
			return err
		}
		if !until(patience, func() bool { return w.record.reached() > firstHeights }) {
			return errors.New("the order does not begin")
		}
	}
	return w.lose(m, func() error { return errors.Join(m.node.loseData(), m.node.start()) })
}

// settle has all other members know what they signed last, and vote.
func (w *world) settle(but *member) error {
	for _, m := range w.members {
		_, elsewhere, err := m.node.kept()
		if err != nil {
			return err
		}
		if m != but && (elsewhere || !until(haste, m.settled)) {
			return w.mend()
		}
	}
	return nil
}

// loseOdd loses a member's machine after its database had it vote that a transaction does not end,
// while two other databases are down: nothing is certified. The new one may execute the block.
func (w *world) loseOdd(m, other *member, heights int64) error {
	if err := w.haveOddVote(m, other); err != nil {
		return err
	}
	w.goOn(heights)
	var back int64 // height of the order when it came back
	err := w.lose(m, func() error {
		m.db.StickAt(0, false)
		back = w.record.reached() + 2
		if heights%2 == 0 {
			return errors.Join(m.node.loseData(), m.node.start())
		}
		return m.takeOver(heights%3 == 0)
	})
	// The vote travels in a precommit for a block, and the first height need not have one.
	if err == nil && !until(patience, func() bool { return w.record.signs(m.node) > m.before+3 && w.record.signs(m.node) > back+3 }) {
		err = fmt.Errorf("%s does not sign again", m.node)
	}
	return err
}

// haveOddVote has a member vote that a transaction does not end, while nobody can certify a block
// but the other one. A member that is behind fails at a block that is certified already, and votes
// on none: all is put right then, and tried again.
func (w *world) haveOddVote(m, other *member) error {
	const tries = 5
	for range tries {
		if err := w.mend(); err != nil {
			return err
		}
		w.odd = m
		m.db.StickAt(0, true)
		for _, down := range w.members {
			if down != m && down != other {
				down.db.Down(true)
			}
		}
		before := w.record.stuck(m.name)
		if until(patience/tries, func() bool { return w.record.stuck(m.name) > before }) {
			return nil
		}
	}
	return fmt.Errorf("%s does not vote that a transaction does not end", m.node)
}

// twin pauses a member's machine, has another one take its place, and lets the first go on until
// one of them has noticed the other. Then the first is ended.
func (w *world) twin(m *member, heights int64) error {
	if m.had {
		return nil
	}
	if err := w.mend(); err != nil {
		return err
	}
	m.had = true
	first := m.node
	first.pause(true)
	w.goOn(heights)
	if err := m.takeOver(false); err != nil {
		return err
	}
	m.lost(0)
	until(5*haste, func() bool { return w.record.signs(m.node) > 0 })
	first.pause(false)
	if !until(patience, func() bool {
		_, oldStopped, err := first.kept()
		_, newStopped, errNew := m.node.kept()
		return oldStopped || newStopped || err != nil || errNew != nil
	}) {
		return fmt.Errorf("neither %s nor %s stops", first, m.node)
	}
	return first.kill()
}

// change changes how a member's database does. That of one member at most has it vote otherwise
// than the others.
func (w *world) change(m *member, s step) {
	mayBeOdd := w.odd == nil || w.odd == m
	switch s.heights {
	case 0, 1:
		if mayBeOdd {
			w.odd = m
			m.db.StickAt(0, s.heights == 0)
		}
	case 2:
		if mayBeOdd && len(m.db.Hashes()) > 0 { // nothing repairs a database before block 1
			w.odd = m
			m.db.Tamper("a row")
		}
	case 3:
		m.db.Down(true)
	case 4:
		m.db.Down(false)
		m.db.Delay(0)
	case 5:
		m.db.Delay(stuckAfter / 2)
	}
}
