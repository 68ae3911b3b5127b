package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

// How often a running block is looked at: a part of its budget, within bounds.
const (
	looks       = 20
	lookAtLeast = 10 * time.Millisecond
	lookAtMost  = 100 * time.Millisecond
)

// Quick transactions take at most so long each, and those of one organisation in a block so much
// more.
const (
	quick    = 5 * time.Millisecond
	quickSum = 200 * time.Millisecond
)

// watcher looks, on another connection, whether the transactions of a block run for longer than its
// budget.
type watcher struct {
	done  chan struct{}
	index uint32
	stuck bool
	spent *spent
}

// watch begins to look; without a budget nothing is looked at.
func (b *Backend) watch(ctx context.Context, block *wire.OrderedBlock, cancel context.CancelFunc) *watcher {
	w := &watcher{done: make(chan struct{}), spent: newSpent(block)}
	if block.Budget == (wire.Budget{}) {
		close(w.done)
		return w
	}
	pid := b.conn.PgConn().PID()
	every := min(max(block.Budget.Statements/looks, lookAtLeast), lookAtMost)
	go func() {
		defer close(w.done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			running, err := b.running(ctx, pid, block.Number)
			now := time.Now()
			if err == nil {
				// While the server does not answer, no transaction is to blame.
				w.spent.add(running, min(now.Sub(last), 2*every))
			}
			last = now
			if w.spent.isOver() && ctx.Err() == nil {
				w.index, w.stuck = w.spent.culprit(), true
				cancel()
				return
			}
		}
	}()
	return w
}

// stop waits for the watcher; its context has ended.
func (w *watcher) stop() (index uint32, stuck bool) {
	<-w.done
	return w.index, w.stuck
}

// running reads which transaction of the block runs, the earliest where parts run; none when that
// cannot be told. A function that the transaction calls may give the session another
// application_name, but not another query.
func (b *Backend) running(ctx context.Context, pid uint32, number uint64) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	var name string
	err := b.pool.QueryRow(ctx,
		`SELECT CASE WHEN query LIKE 'chainify block %' THEN query ELSE application_name END FROM pg_catalog.pg_stat_activity WHERE pid = $1`,
		int32(pid)).Scan(&name)
	if err != nil {
		return nil, err
	}
	var block uint64
	var index uint32
	if n, _ := fmt.Sscanf(name, "chainify block %d tx %d", &block, &index); n != 2 || block != number {
		return nil, nil
	}
	return []uint32{index}, nil
}

// spent is the time that transactions of a block have taken, as far as the watch saw it.
type spent struct {
	block    *wire.OrderedBlock
	raw      [][]byte
	by       map[uint32]time.Duration
	client   map[uint32]wire.Submitter // of those in by
	isDeploy map[uint32]bool
	last     []uint32 // seen running last
	// statements and deploys are what the block took for either kind; parts that run at the same
	// time count once.
	statements, deploys time.Duration
}

func newSpent(block *wire.OrderedBlock) *spent {
	return &spent{block: block, by: map[uint32]time.Duration{}, client: map[uint32]wire.Submitter{}, isDeploy: map[uint32]bool{}}
}

// add counts a while in which these transactions ran. When none did, as while the block is sealed,
// it counts for those seen last: a function may show another name, or none, while it runs.
func (s *spent) add(running []uint32, took time.Duration) {
	running = slices.DeleteFunc(running, func(index uint32) bool {
		_, out := slices.BinarySearch(s.block.Quarantined, index)
		return out || int(index) >= len(s.block.IDs)
	})
	if len(running) == 0 {
		running = s.last
	}
	s.last = running
	deploys := false
	for _, index := range running {
		if _, known := s.by[index]; !known {
			s.client[index], s.isDeploy[index] = s.submitter(index), s.isOfDeploy(index)
		}
		s.by[index] += took
		deploys = deploys || s.isDeploy[index] // a block with one runs in one part
	}
	if deploys {
		s.deploys += took
	} else {
		s.statements += took
	}
}

// submitter is whose a transaction is.
func (s *spent) submitter(index uint32) wire.Submitter {
	for _, run := range s.block.Submitters {
		if index < run.Transactions {
			return run
		}
		index -= run.Transactions
	}
	return wire.Submitter{}
}

// isOfDeploy reads whether a transaction is a DEPLOY.
func (s *spent) isOfDeploy(index uint32) bool {
	if s.raw == nil {
		s.raw, _ = wire.SplitTransactions(s.block.Transactions) // what the order made
	}
	if int(index) >= len(s.raw) {
		return false
	}
	tx, err := wire.DecodeChainedTx(s.raw[index])
	return err == nil && tx.Proposal.Kind == wire.Kind_KIND_DEPLOY
}

// slow is by how much the organisations' SQL and EFFECTS transactions took longer than as many
// quick ones; nil: none did by much.
func (s *spent) slow() map[string]time.Duration {
	var over map[string]time.Duration
	took := map[string]time.Duration{}
	for index, d := range s.by {
		if !s.isDeploy[index] {
			took[s.client[index].Organisation] += d
		}
	}
	if len(took) == 0 {
		return nil
	}
	for _, run := range s.block.Submitters {
		if _, seen := took[run.Organisation]; seen {
			took[run.Organisation] -= time.Duration(run.Transactions) * quick
		}
	}
	for organisation, d := range took {
		if d > quickSum && organisation != "" {
			if over == nil {
				over = map[string]time.Duration{}
			}
			over[organisation] = d
		}
	}
	return over
}

func (s *spent) isOver() bool {
	return s.statements > s.block.Budget.Statements || s.deploys > s.block.Budget.Deploys
}

// culprit is the transaction to name. Its client is the first in the block that took at least half
// of what the slowest client took. It is the first of that client's transactions of which the same
// holds. So machines that are not alike name the same one where many take about as long.
func (s *spent) culprit() uint32 {
	deploys := s.deploys > s.block.Budget.Deploys
	var seen []uint32
	byClient := map[string]time.Duration{}
	for index, took := range s.by {
		if s.isDeploy[index] == deploys {
			seen = append(seen, index)
			byClient[s.client[index].Client] += took
		}
	}
	if len(seen) == 0 {
		return s.firstToRun()
	}
	slices.Sort(seen)
	client := s.client[firstHeavy(seen, func(index uint32) time.Duration { return byClient[s.client[index].Client] })].Client
	seen = slices.DeleteFunc(seen, func(index uint32) bool { return s.client[index].Client != client })
	return firstHeavy(seen, func(index uint32) time.Duration { return s.by[index] })
}

// firstHeavy is the first that took at least half of what the one took which took most.
func firstHeavy(list []uint32, took func(uint32) time.Duration) uint32 {
	most := took(list[0])
	for _, index := range list {
		most = max(most, took(index))
	}
	return list[slices.IndexFunc(list, func(index uint32) bool { return 2*took(index) >= most })]
}

// firstToRun is named when no transaction was seen to run although the block did not end.
func (s *spent) firstToRun() uint32 {
	first := uint32(0)
	for _, quarantined := range s.block.Quarantined { // ascending
		if quarantined != first {
			break
		}
		first++
	}
	return min(first, uint32(len(s.block.IDs)-1))
}
