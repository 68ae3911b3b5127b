package postgres

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// slowBlock has transactions that take some milliseconds each.
func slowBlock(count int) *wire.OrderedBlock {
	b := orderedBlock(1, wire.Kind_KIND_SQL, slices.Repeat([]string{"SELECT slow()"}, count)...)
	b.Budget = wire.Budget{Statements: time.Second / 4}
	return b
}

// The budget is that of the block: many transactions, none of which is slow by itself, do not get
// it once each. The block is far longer than its budget, on a machine however quick, and when looks
// come late.
func TestABlocksTimeIsBounded(t *testing.T) {
	dsn := database(t, setup+`;
		CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1 .. 500000 LOOP END LOOP; RETURN 1; END $$`)
	b := open(t, dsn)
	at := connected(t, b)
	_, err := b.Execute(t.Context(), slowBlock(4000), at.Hash)
	var stuck *backend.StuckError
	if !errors.As(err, &stuck) {
		t.Fatalf("%v, want stuck after about a quarter of a second", err)
	}
	// A block that is agreed runs for as long as it takes.
	agreed := slowBlock(200)
	agreed.Budget = wire.Budget{}
	if _, err := b.Execute(t.Context(), agreed, at.Hash); err != nil {
		t.Fatal(err)
	}
}

// submitted is a block of transactions of these roles, "deploy" standing for one of that kind.
func submitted(roles ...string) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: 1, Budget: wire.Budget{Statements: time.Second, Deploys: 10 * time.Second}}
	var raw [][]byte
	for i, role := range roles {
		kind := wire.Kind_KIND_SQL
		if role == "deploy" {
			kind = wire.Kind_KIND_DEPLOY
		}
		p := &wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: role}, Nonce: uint64(i), ValidUntilHeight: 100, Kind: kind, Sql: "SELECT 1",
		}
		raw = append(raw, wire.Encode(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: wire.Encode(p)}}))
		b.IDs = append(b.IDs, wire.TxID{byte(i)})
		b.Submitters = append(b.Submitters, wire.Submitter{Organisation: "of " + role, Client: role, Transactions: 1})
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

func TestWhoIsNamed(t *testing.T) {
	type look struct {
		running []uint32
		ms      int
	}
	for name, c := range map[string]struct {
		roles []string
		looks []look
		want  uint32
	}{
		"the one that does not end":            {[]string{"x", "y"}, []look{{[]uint32{0}, 100}, {[]uint32{1}, 950}}, 1},
		"a client with many, not one with one": {[]string{"y", "x", "x", "x"}, []look{{[]uint32{0}, 300}, {[]uint32{1}, 250}, {[]uint32{2}, 300}, {[]uint32{3}, 200}}, 1},
		"the first of clients alike":           {[]string{"y", "x", "x"}, []look{{[]uint32{0}, 300}, {[]uint32{1}, 350}, {[]uint32{2}, 400}}, 1},
		"the first of two alike, as measured":  {[]string{"x", "y"}, []look{{[]uint32{0}, 400}, {[]uint32{1}, 650}}, 0},
		"parts at the same time count once":    {[]string{"x", "y"}, []look{{[]uint32{0, 1}, 900}, {[]uint32{1}, 150}}, 0},
		"none was seen":                        {[]string{"x", "y"}, []look{{nil, 1100}}, 0},
		"a DEPLOY has its own time":            {[]string{"deploy", "x"}, []look{{[]uint32{0}, 9000}, {[]uint32{1}, 1100}}, 1},
		"a DEPLOY that does not end":           {[]string{"deploy", "x"}, []look{{[]uint32{1}, 900}, {[]uint32{0}, 9000}, {[]uint32{0}, 1100}}, 0},
		"one that hides":                       {[]string{"x", "y"}, []look{{[]uint32{0}, 50}, {[]uint32{1}, 50}, {nil, 1000}}, 1},
		"one that names what is not there":     {[]string{"x", "y"}, []look{{[]uint32{0}, 50}, {[]uint32{1}, 50}, {[]uint32{7}, 1000}}, 1},
		"what seals a DEPLOY's effects":        {[]string{"x", "deploy"}, []look{{[]uint32{0}, 900}, {[]uint32{1}, 9000}, {nil, 1100}}, 1},
	} {
		s := newSpent(submitted(c.roles...))
		for i, l := range c.looks {
			if s.isOver() {
				t.Errorf("%s: over before look %d", name, i)
			}
			s.add(l.running, time.Duration(l.ms)*time.Millisecond)
		}
		if !s.isOver() || s.culprit() != c.want {
			t.Errorf("%s: over is %v, transaction %d named, want %d", name, s.isOver(), s.culprit(), c.want)
		}
	}
}

func TestOfAQuarantinedOneNothingIsNamed(t *testing.T) {
	b := submitted("x", "x", "y")
	b.Quarantined = []uint32{0, 1}
	s := newSpent(b)
	s.add([]uint32{1}, time.Minute) // nobody runs it: somebody gives himself its name
	if got := s.culprit(); got != 2 {
		t.Fatalf("transaction %d named, want 2", got)
	}
}

// Transactions that run in another process of the block are seen as well.
func TestAPartThatDoesNotEndIsNamed(t *testing.T) {
	r := newPartsRun(t, crashServer(t, nil), "stuck")
	statements := make([]string, 0, waitingRow+1)
	for i := range waitingRow {
		statements = append(statements, fmt.Sprintf("UPDATE parts SET n = n + 10 WHERE id = %d", i))
	}
	block := orderedBlock(2, wire.Kind_KIND_SQL, append(statements, endless)...)
	block.Budget = wire.Budget{Statements: 2 * time.Second, Deploys: time.Minute}
	for range 10 { // on a busy machine the leader may run the block alone
		done := make(chan error, 1)
		go func() {
			_, err := r.b.Execute(t.Context(), block, r.first.Hash)
			done <- err
		}()
		inWorker, ended := false, false
		for !ended {
			select {
			case err := <-done:
				ended = true
				var stuck *backend.StuckError
				if !errors.As(err, &stuck) || stuck.Index != waitingRow {
					t.Fatalf("%v, want stuck at %d", err, waitingRow)
				}
			case <-time.After(10 * time.Millisecond):
				var is bool
				query(t, r.dsn, fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE %s AND application_name = 'chainify block 2 tx %d')", anyWorker, waitingRow), &is)
				inWorker = inWorker || is
			}
		}
		if inWorker {
			return
		}
		connected(t, r.b)
	}
	t.Fatal("ten executions: the leader ran the block alone")
}

// Whose transactions were slow is told, not whose were many, nor who deployed.
func TestWhoseTransactionsWereSlow(t *testing.T) {
	s := newSpent(submitted("x", "x", "y", "deploy", "z"))
	s.block.Submitters[4].Transactions = 1000
	for _, index := range []uint32{0, 1} {
		s.add([]uint32{index}, 300*time.Millisecond)
	}
	s.add([]uint32{2}, 150*time.Millisecond)
	s.add([]uint32{3}, time.Minute)
	for range 10 {
		s.add([]uint32{4}, 400*time.Millisecond)
	}
	if got := s.slow(); len(got) != 1 || got["of x"] != 590*time.Millisecond {
		t.Fatalf("slow are %v, want x by 590 ms", got)
	}
	if got := newSpent(s.block).slow(); got != nil {
		t.Fatalf("nothing was seen, and slow are %v", got)
	}
}

// A function that gives its session another name while it runs, or none, blames nobody else.
func TestNobodyElseIsNamedByAFunctionsSettings(t *testing.T) {
	dsn, first := crashDatabase(t, crashServer(t, nil), "named", 1)
	b := steady(t, dsn)
	connected(t, b)
	for name, shown := range map[string]string{"another": "chainify block 2 tx 2", "nobody": ""} {
		run(t, dsn, fmt.Sprintf(`CREATE FUNCTION public.%s() RETURNS bigint LANGUAGE plpgsql SET application_name = '%s' AS 'BEGIN RETURN (%s); END'`, name, shown, endless))
		block := orderedBlock(2, wire.Kind_KIND_SQL, "UPDATE parts SET n = 1 WHERE id = 1", "SELECT "+name+"()", "UPDATE parts SET n = 1 WHERE id = 2")
		block.Budget = wire.Budget{Statements: 2 * time.Second, Deploys: time.Minute}
		x, err := b.Execute(t.Context(), block, first.Hash)
		var stuck *backend.StuckError
		if !errors.As(err, &stuck) {
			t.Errorf("%s: %v, %+v, want stuck at 1", name, err, x.Results)
		} else if stuck.Index != 1 {
			t.Errorf("%s: stuck at %d, want 1", name, stuck.Index)
		}
	}
}
