package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// planBlock has one PLAN transaction for each change of a proposal, in effect round 1: the database
// gives the effects of each.
func planBlock(n, nonce uint64, changes ...func(*wire.Proposal)) *wire.OrderedBlock {
	b := &wire.OrderedBlock{Number: n, Height: int64(2 * n), TimeMicro: int64(n) * 1_000_000, Round: 1}
	var raw [][]byte
	for i, change := range changes {
		p := &wire.Proposal{
			ChainId: "test", Client: &wire.Client{Organisation: "a", Role: "effects_ops"}, Nonce: nonce + uint64(i),
			ValidUntilHeight: 1000, Kind: wire.Kind_KIND_PLAN,
		}
		change(p)
		proposal := marshal(p)
		b.IDs = append(b.IDs, wire.TxIDOf(proposal))
		raw = append(raw, marshal(&wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: proposal}}))
	}
	b.Transactions = wire.EncodeTransactions(raw)
	return b
}

func plansAt(sql string, seconds int64) func(*wire.Proposal) {
	return func(p *wire.Proposal) {
		p.Sql, p.Plan = sql, &wire.Plan{Action: wire.PlanAction_PLAN_ACTION_PLAN, NotBefore: seconds * 1_000_000}
	}
}

func executesPlan(id wire.TxID) func(*wire.Proposal) {
	return func(p *wire.Proposal) {
		p.Plan = &wire.Plan{Action: wire.PlanAction_PLAN_ACTION_EXECUTE, Planned: id[:]}
	}
}

// Plans that are due are told by their times. Executed again a block is the same (X2), and whoever
// has a plan executed does not choose its random numbers. A plan that fails is spent with a reason.
func TestPlansInTheDatabase(t *testing.T) {
	dsn := database(t, setup)
	b := open(t, dsn+" user=effects_node")
	hash := executed(t, b, extensionBlock(1), connected(t, b).Hash, time.Minute)
	run(t, dsn, `SELECT chainify_node.set_registry('{"organisations": [{"name": "a", "gateway_key": "`+
		string(bytes.Repeat([]byte("0"), 64))+`", "ordering_only": false, "from_block": 0, "until_block": null}]}')`)
	plans := planBlock(2, 1,
		plansAt("INSERT INTO items VALUES (100, random()::text || chainify.uuid())", 6),
		plansAt("INSERT INTO items VALUES (1, 'twice')", 4), plansAt("SELECT 1", 0))
	hash = executed(t, b, plans, hash, time.Minute)

	for _, c := range []struct {
		seconds float64
		most    int
		want    []int // places in the block
	}{{3, 9, []int{2}}, {4, 9, []int{2, 1}}, {6, 9, []int{2, 1, 0}}, {6, 2, []int{2, 1}}, {5.999999, 9, []int{2, 1}}, {86400 * 31, 9, nil}} {
		due, err := b.DuePlans(t.Context(), time.UnixMicro(int64(c.seconds*1e6)), c.most)
		if err != nil || len(due) != len(c.want) {
			t.Fatalf("at second %f: %v, %v, want %v", c.seconds, due, err, c.want)
		}
		for i, plan := range due {
			if plan.ID != plans.IDs[c.want[i]] || plan.Role != "effects_ops" {
				t.Errorf("at second %f: due %x by %s in place %d", c.seconds, plan.ID, plan.Role, i)
			}
		}
	}

	for n := uint64(3); n < 6; n++ {
		hash = executed(t, b, orderedBlock(n, wire.Kind_KIND_SQL, "SELECT 1"), hash, time.Minute)
	}
	runs := func(nonce uint64) (wire.Hash, []wire.Hash, []wire.TxResult) {
		x, err := b.Execute(t.Context(), planBlock(6, nonce, executesPlan(plans.IDs[0]), executesPlan(plans.IDs[1])), hash)
		must.Do(t, err)
		must.Do(t, b.Rollback(t.Context()))
		return x.Hash, x.Effects, x.Results
	}
	first, effects, results := runs(100)
	again, _, _ := runs(100)
	other, others, _ := runs(200)
	if first != again {
		t.Errorf("block 6 hashes to %x, then to %x", first, again)
	}
	if first == other || len(effects) != 2 || effects[0] != others[0] {
		t.Errorf("executed by another transaction, the plan has effects %x, then %x", effects, others)
	}
	if r := results[1]; !r.Succeeded || r.SQLState != "23505" {
		t.Errorf("a plan that fails gives %+v", r)
	}
	x, err := b.Execute(t.Context(), planBlock(6, 100, executesPlan(plans.IDs[0]), executesPlan(plans.IDs[1]), executesPlan(plans.IDs[1])), hash)
	if err == nil {
		err = b.Commit(t.Context())
	}
	if err != nil || x.Results[2].Succeeded || x.Results[2].SQLState != "55000" {
		t.Fatalf("a plan executed again gives %+v, %v", x.Results, err)
	}
	if due, err := b.DuePlans(t.Context(), time.Unix(6, 0), 9); err != nil || len(due) != 1 || due[0].ID != plans.IDs[2] {
		t.Errorf("due afterwards: %v, %v", due, err)
	}
	run(t, dsn, `DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM chainify.verify_ledger() v WHERE what NOT LIKE 'certificate%'); END $$`)
}
