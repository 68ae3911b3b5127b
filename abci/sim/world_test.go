package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/takeover"
	"github.com/chainify-db/chainify/abci/wire"
)

// world is a consortium of four in this process.
type world struct {
	number  uint32 // of its loopback addresses
	dir     string
	members []*member
	record  *record

	mu       sync.Mutex // guards all below
	machines []*machine
	links    map[[2]int]*link // from one machine to another one, by their numbers
	apart    map[[2]int]bool  // members without a link, the smaller index first

	odd     *member // whose database may differ from the others'; nil: none
	load    sync.WaitGroup
	endLoad context.CancelFunc
}

// member is an organisation with its database.
type member struct {
	world  *world
	index  int
	name   string
	db     *backendtest.Database
	node   *machine // that runs, or ran last
	doubts bool     // node began without its last signature, and had signed for height before until then
	before int64
	within uint64 // the ledger block from which it abstains is not beyond this one; 0: not known yet
	had    bool   // it once had a twin
}

// address is a loopback address of one machine alone.
func (w *world) address(machine int) string {
	return fmt.Sprintf("127.%d.%d.%d", 32+os.Getpid()%200, 1+w.number%250, 1+machine)
}

// memory is where homes are: in memory, where the machine has such a file system.
func memory() string {
	if s, err := os.Stat("/dev/shm"); err == nil && s.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// found makes a consortium and starts it.
func found(number uint32) (w *world, err error) {
	w = &world{number: number, record: newRecord(), links: map[[2]int]*link{}, apart: map[[2]int]bool{}}
	if w.dir, err = os.MkdirTemp(*dir, "world"); err != nil {
		return nil, err
	}
	homes, err := config.Testnet{
		Dir: filepath.Join(w.dir, "net"), ChainID: "test", Organisations: []string{"acme", "bolt", "cargo", "delta"}, BasePort: 20_000, Now: time.Now().UTC(),
	}.Create()
	if err != nil {
		return w, err
	}
	for i, home := range homes {
		m := &member{world: w, index: i, name: filepath.Base(string(home)), db: backendtest.NewDatabase()}
		w.members = append(w.members, m)
		if m.node, err = w.machine(m, home); err != nil {
			return w, err
		}
	}
	err = each(w.members, func(m *member) error { return m.node.start() })
	ctx, cancel := context.WithCancel(context.Background())
	w.endLoad = cancel
	for _, m := range w.members {
		w.load.Go(func() { m.submit(ctx) })
	}
	return w, err
}

// machine makes a machine for a home.
func (w *world) machine(of *member, home config.Home) (*machine, error) {
	key, err := home.NodeKey()
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &machine{of: of, number: len(w.machines), home: home, id: string(key.ID())}
	m.wakes = sync.NewCond(&m.mu)
	w.machines = append(w.machines, m)
	return m, nil
}

// each calls a function for all members at once.
func each(members []*member, do func(*member) error) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = do(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// peersOf are the peers of a machine, each behind a link of its own.
func (w *world) peersOf(m *machine) (peers []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.members {
		if other == m.of || other.node == nil {
			continue
		}
		to, from := other.node, fmt.Sprintf("%s:%d", w.address(m.number), 27_000+other.node.number)
		if at := [2]int{m.number, to.number}; w.links[at] == nil {
			if w.links[at], err = newLink(from, to.address()); err != nil {
				return nil, err
			}
			w.links[at].set(w.way(m, to))
		}
		peers = append(peers, to.id+"@"+from)
	}
	return peers, nil
}

// way is what a link between two machines does. Called with mu held.
func (w *world) way(a, b *machine) way {
	return max(a.way(), b.way(), map[bool]way{true: cut}[w.apart[pair(a.of, b.of)]])
}

func pair(a, b *member) [2]int { return [2]int{min(a.index, b.index), max(a.index, b.index)} }

// setLinks has links do what the machines at their ends say.
func (w *world) setLinks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, l := range w.links {
		l.set(w.way(w.machines[at[0]], w.machines[at[1]]))
	}
}

// part cuts the link between two members, or mends it.
func (w *world) part(a, b *member, apart bool) {
	w.mu.Lock()
	w.apart[pair(a, b)] = apart
	w.mu.Unlock()
	w.setLinks()
}

// loadEvery is the pause between two transactions of a member's client.
const loadEvery = 200 * time.Millisecond

// submit is a client that submits until ctx ends, whatever happens to the node.
func (m *member) submit(ctx context.Context) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		if c, err := m.world.current(m).client(ctx); err == nil {
			for err == nil && ctx.Err() == nil {
				_, err = c.Submit(ctx, "bank", &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "UPDATE t SET x = x + 1"})
				<-tick.C
			}
			c.Close()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *world) current(m *member) *machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return m.node
}

// takeOver has a new machine take the member's place by the documented way: from a backup of the
// keys, or with signed from the disk of the machine that is lost.
func (m *member) takeOver(signed bool) error {
	w, lost := m.world, m.node
	number := len(w.machines)
	spare := config.Home(filepath.Join(w.dir, fmt.Sprintf("spare-%d", number)))
	if err := spare.Create(config.Default(m.name)); err != nil {
		return err
	}
	genesis, err := os.ReadFile(lost.home.Genesis())
	if err == nil {
		err = errors.Join(os.WriteFile(spare.Genesis(), genesis, 0o644), spare.BecomeStandby(), w.dialsAll(spare))
	}
	if err != nil {
		return err
	}
	from := lost.home
	if !signed {
		from = config.Home(filepath.Join(w.dir, fmt.Sprintf("backup-%d", number)))
		if err := os.CopyFS(from.Path("config"), os.DirFS(lost.home.Path("config"))); err != nil {
			return err
		}
	}
	if err := takeover.TakeOver(spare, from, signed); err != nil {
		return err
	}
	next, err := w.machine(m, spare)
	if err != nil {
		return err
	}
	w.mu.Lock()
	m.node = next
	w.mu.Unlock()
	return next.start()
}

// dialsAll gives a home a node key whose node dials all others: of two nodes that with the smaller
// id dials, and the others do not know this one.
func (w *world) dialsAll(home config.Home) error {
	for {
		key := p2p.NodeKey{PrivKey: ed25519.GenPrivKey()}
		if !slices.ContainsFunc(w.machines, func(m *machine) bool { return m.id < string(key.ID()) }) {
			return key.SaveAs(home.Path("config", "node_key.json"))
		}
	}
}

// until polls; false: it did not happen in time.
func until(limit time.Duration, happened func() bool) bool {
	for end := time.Now().Add(limit); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// patience is how long something may take that happens soon on a quiet machine, haste how long a
// schedule waits for what need not happen.
const patience, haste = 5 * time.Minute, time.Second

// goOn waits until the order went on by some heights, if it does.
func (w *world) goOn(heights int64) {
	from := w.record.reached()
	until(haste, func() bool { return w.record.reached() >= from+heights })
}

// mend ends all that is wrong, and waits until each member orders and signs.
func (w *world) mend() error {
	w.mu.Lock()
	clear(w.apart)
	w.mu.Unlock()
	w.odd = nil
	for _, m := range w.members {
		m.db.Down(false)
		m.db.StickAt(0, false)
		m.db.Delay(0)
		m.node.clock.Store(0)
		m.node.pause(false)
	}
	w.setLinks()
	if err := each(w.members, (*member).restart); err != nil {
		return err
	}
	from := w.record.reached()
	var astray []string
	all := func() bool {
		astray = nil
		for _, m := range w.members {
			why := m.astray(from)
			if why != "" {
				astray = append(astray, fmt.Sprintf("%s does not go on: %s", m.node, why))
			}
			if why == convicted {
				return true
			}
		}
		return len(astray) == 0
	}
	if !until(patience, all) || len(astray) > 0 {
		twice, _, _ := w.record.twices()
		return errors.New(strings.Join(append(astray, twice...), "\n"))
	}
	if !until(patience, func() bool { return !slices.ContainsFunc(w.members, func(m *member) bool { return !m.settled() }) }) {
		return errors.New("a block is not certified from which a member abstains")
	}
	return nil
}

// settled tells that the member signs, and abstains from no block that is still to be certified.
func (m *member) settled() bool {
	if !m.doubts {
		return true
	}
	if m.world.record.signs(m.node) == m.before {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := m.node.client(ctx)
	if err != nil {
		return false
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil {
		return false
	}
	if m.within == 0 {
		m.within = s.LastOrdered
	}
	m.doubts = s.LastCertified < m.within
	return !m.doubts
}

// lost notes that the member's node does not know what it signed and voted.
func (m *member) lost(before int64) { m.doubts, m.before, m.within = true, before, 0 }

// convicted is why a member that never had a twin signs nothing any more.
const convicted = "it takes its own organisation's signatures for those of another process"

// restart starts the member's node where it does not run.
func (m *member) restart() error {
	if runs, err := m.node.runs(); runs || err != nil {
		return err
	}
	return m.node.start()
}

// catchesUp tells that the member's node runs and fetches blocks that others decided.
func (m *member) catchesUp() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if m.node.cancel == nil {
		return false
	}
	c, err := m.node.client(ctx)
	if err != nil {
		return false
	}
	defer c.Close()
	s, err := c.Status(ctx)
	return err == nil && s.State == "catching_up"
}

// astray says why the member does not sign beyond a height, or is not served; empty: all is well.
func (m *member) astray(from int64) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.restart(); err != nil { // it may have ended just before its clock was put right
		return err.Error()
	}
	doubts, elsewhere, err := m.node.kept()
	if err != nil {
		return err.Error()
	}
	if elsewhere && !m.had {
		return convicted
	}
	if elsewhere {
		if err := m.signAgain(); err != nil {
			return err.Error()
		}
		return "it had to be told to sign again"
	}
	if signed := m.world.record.signs(m.node); doubts || signed <= from {
		return fmt.Sprintf("doubts %v, signed for %d, want more than %d", doubts, signed, from)
	}
	c, err := m.node.client(ctx)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil || s.State != "serving" && s.State != "executing" || s.Reason != "" {
		return fmt.Sprintf("status %v, %v", s, err)
	}
	return ""
}

// signAgain is what an operator does after the other process with the key was ended.
func (m *member) signAgain() error {
	if err := m.node.stop(); err != nil {
		return err
	}
	if err := takeover.SignAgain(m.node.home, 0); err != nil {
		return err
	}
	m.lost(m.world.record.signs(m.node))
	return m.node.start()
}

// execute has a transaction executed for each member, and compares their databases.
func (w *world) execute() error {
	w.endLoad()
	w.load.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := each(w.members, func(m *member) error {
		c, err := m.node.client(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		var ids [][]byte
		if !until(patience, func() bool { // it refuses until it has seen that the order goes on
			ids, err = c.Submit(ctx, "bank", &wire.Statement{Kind: wire.Kind_KIND_SQL, Sql: "UPDATE t SET x = 0"})
			return err == nil
		}) {
			return fmt.Errorf("submit at %s: %w", m.node, err)
		}
		out, err := c.Wait(ctx, uint32(patience.Milliseconds()), ids...)
		if err != nil || len(out) != 1 || !out[0].Succeeded {
			return fmt.Errorf("outcome at %s: %v, %v", m.node, out, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	same := func() bool {
		first := w.members[0].db.Hashes()
		return !slices.ContainsFunc(w.members, func(m *member) bool { return !slices.Equal(m.db.Hashes(), first) })
	}
	if !until(patience, same) {
		return errors.New("the databases differ")
	}
	return nil
}

// close ends everything.
func (w *world) close() error {
	if w.endLoad != nil {
		w.endLoad()
		w.load.Wait()
	}
	var errs []error
	for _, m := range w.machines {
		errs = append(errs, m.stop())
	}
	for _, l := range w.links {
		l.close()
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
