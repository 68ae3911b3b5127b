package effects

import (
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// executing is a core of four with block 1 under way.
func executing(t *testing.T) (*Core, *wire.OrderedBlock) {
	t.Helper()
	core, err := NewCore(Config{Organisation: "a"})
	must.Do(t, err)
	block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 1, OrderHash: wire.Hash{1}, Height: 1}
	core.Step(1, Started{})
	core.Step(2, DatabaseAt{Position: backend.Position{}})
	core.Step(3, Decided{Height: 1, Ordered: block})
	if x, ok := core.op.(Execute); !ok || x.Agreed {
		t.Fatalf("under way is %+v, want an execution within the budget", core.op)
	}
	return core, block
}

// An organisation that is slower than the others says that a transaction does not end. They agree;
// it executes the block for as long as that takes, and deviates in nothing.
func TestASlowOrganisationExecutesWhatIsAgreedWithoutALimit(t *testing.T) {
	core, block := executing(t)
	core.Step(10, Executed{Key: block.Key(), Failure: Stuck, StuckAt: 5})
	if core.op != nil {
		t.Fatalf("%+v is under way before anything is agreed", core.op)
	}
	if vote, _ := core.Vote(block.Key()); vote == nil || vote.Kind != wire.VoteStuck {
		t.Fatalf("vote %+v, want stuck", vote)
	}
	core.Step(11, Decided{Height: 2, Certificate: &wire.Certificate{Number: 1, Hash: wire.Hash{7}}})
	if x, ok := core.op.(Execute); !ok || !x.Agreed || x.Certified != (wire.Hash{}) {
		t.Fatalf("under way is %+v, want a plain execution without a limit", core.op)
	}
	core.Step(90_000, Executed{Key: block.Key(), Hash: wire.Hash{7}})
	if _, ok := core.op.(Commit); !ok || core.deviations != 0 {
		t.Fatalf("under way is %+v after %d deviations, want COMMIT after none", core.op, core.deviations)
	}
}

// A block that an organisation has not executed to its end is no sign that its tables are wrong:
// the next round begins without a repair.
func TestAStuckRoundRepairsNothing(t *testing.T) {
	for _, said := range []Executed{{Failure: Stuck}, {Hash: wire.Hash{7}}} {
		core, first := executing(t)
		core.Step(4, Executed{Key: first.Key(), Hash: wire.Hash{1}})
		core.Step(5, Decided{Height: 2, Certificate: &wire.Certificate{Number: 1, Hash: wire.Hash{1}}})
		core.Step(6, Committed{})
		core.Step(7, CertificateStored{})
		block := &wire.OrderedBlock{Organisations: 4, Consent: 3, Number: 2, OrderHash: wire.Hash{2}, Height: 3}
		core.Step(8, Decided{Height: 3, Ordered: block})
		said.Key = block.Key()
		core.Step(9, said)
		next := *block
		next.Round, next.Quarantined = 1, []uint32{0}
		core.Step(10, Decided{Height: 4, Ordered: &next})
		if _, open := core.op.(Rollback); open {
			core.Step(11, RolledBack{})
		}
		if _, repairs := core.op.(Repair); repairs == (said.Failure == Stuck) {
			t.Errorf("after %+v under way is %+v", said, core.op)
		}
	}
}

// The operator's word cuts an execution short and is a vote; once there is a vote, or something is
// agreed, it comes too late.
func TestTheOperatorGivesUpATransaction(t *testing.T) {
	core, block := executing(t)
	if _, may := core.mayGiveUp(2); may {
		t.Fatal("a block that is not there may be given up")
	}
	actions := core.Step(10, GiveUp{Key: block.Key(), Index: 3})
	if len(actions) != 2 || actions[1] != (Cancel{Key: block.Key()}) {
		t.Fatalf("%+v, want a report and the end of the execution", actions)
	}
	core.Step(11, Executed{Key: block.Key(), Failure: Cancelled})
	vote, _ := core.Vote(block.Key())
	if vote == nil || *vote != wire.NewStuckVote(block.Key(), 3) {
		t.Fatalf("vote %+v, want stuck at 3", vote)
	}
	if core.op != nil {
		t.Fatalf("%+v is under way", core.op)
	}
	if _, may := core.mayGiveUp(1); may {
		t.Fatal("it may be given up twice")
	}

	core, block = executing(t)
	core.Step(10, Decided{Height: 2, Certificate: &wire.Certificate{Number: 1, Hash: wire.Hash{7}}})
	if actions := core.Step(11, GiveUp{Key: block.Key(), Index: 3}); len(actions) > 0 {
		t.Fatalf("%+v of a block that is agreed", actions)
	}
}

// A block that the others agree on and that this machine cannot execute (54001, XX000) is no
// deviation. It is reported, and executed again after growing pauses, until it comes to its end. No
// step of recovery is taken, and the core goes on looking after the database.
func TestABlockAtWhichOnlyThisMachineFailsIsTriedAgain(t *testing.T) {
	core, block := executing(t)
	core.Step(10, Executed{Key: block.Key(), Failure: Stuck, StuckAt: 5, Why: "54001"})
	core.Step(11, Decided{Height: 2, Certificate: &wire.Certificate{Number: 1, Hash: wire.Hash{7}}})
	now := int64(11)
	for attempt, pause := range []int64{50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000} {
		if x, ok := core.op.(Execute); !ok || !x.Agreed {
			t.Fatalf("attempt %d: under way is %+v", attempt, core.op)
		}
		now++
		out := core.Step(now, Executed{Key: block.Key(), Failure: Stuck, StuckAt: 5, Why: "54001"})
		if len(out) != 1 || out[0].(Report).What != MachineFails || !strings.Contains(out[0].(Report).Reason, "54001") {
			t.Fatalf("attempt %d: %+v", attempt, out)
		}
		if core.State() != "failing" || core.DeadlineMS() != now+pause {
			t.Fatalf("attempt %d: state %s until %d, want %d", attempt, core.State(), core.DeadlineMS(), now+pause)
		}
		if core.Step(now+pause-1, Tick{}); core.op != nil {
			t.Fatalf("attempt %d: %+v is under way in the pause", attempt, core.op)
		}
		now += pause
		core.Step(now, Tick{})
	}
	core.Step(now+1, Executed{Key: block.Key(), Hash: wire.Hash{7}})
	if _, ok := core.op.(Commit); !ok || core.deviations != 0 || core.State() == "failing" {
		t.Fatalf("under way is %+v after %d deviations, state %s; want COMMIT after none", core.op, core.deviations, core.State())
	}
}

// The second word of an operator on the same block is refused, even when it comes before the shell
// has looked at the first.
func TestTheSecondWordOnABlockIsRefused(t *testing.T) {
	b := newBench(t)
	b.db.Delay(time.Hour)
	block := b.next()
	b.decide(block)
	b.until("executing", func() bool { return b.shell.Status().State == "executing" })
	given := make(chan bool, 8)
	for range cap(given) {
		go func() {
			_, _, done := b.shell.GiveUp(block.Number, 0, nil)
			given <- done
		}()
	}
	votes := 0
	for range cap(given) {
		if <-given {
			votes++
		}
	}
	if votes != 1 {
		t.Errorf("%d of %d words became a vote, want one", votes, cap(given))
	}
}
