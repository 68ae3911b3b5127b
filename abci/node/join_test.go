package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

const joinKeeps = 20 // order blocks

const joinSnapshots = 10 // order blocks from one snapshot to the next

// forgetful is a network of four that drop old order blocks and make snapshots.
func forgetful(t *testing.T) []*runner {
	t.Helper()
	return forgetfulWith(t, joinSnapshots)
}

// forgetfulWith is forgetful with snapshots from the genesis on, every so many order blocks.
func forgetfulWith(t *testing.T, snapshotEvery int) []*runner {
	t.Helper()
	nodes := newTestnet(t, config.Testnet{Organisations: []string{"acme", "bolt", "cargo", "delta"}, SnapshotEvery: snapshotEvery})
	for _, r := range nodes {
		r.change = func(c *config.Config) { c.Retention.OrderBlocks = joinKeeps }
		forgetEvidenceSoon(t, r.home)
	}
	return nodes
}

func insert(t *testing.T, c *gateway.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if o := execute(t, c, fmt.Sprintf("INSERT INTO t VALUES (%d)", i)); !o.Succeeded {
			t.Fatalf("outcome %v", o)
		}
	}
}

// trustOf is the order block of another node's newest snapshot, as its operator tells it.
func trustOf(t *testing.T, home config.Home) config.Join {
	t.Helper()
	text, err := os.ReadFile(home.Trust())
	must.Do(t, err)
	join, err := config.ParseTrust(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return join
}

// insertUntilJoinable goes on until three order blocks stand behind the newest snapshot, and the
// first order blocks are gone.
func insertUntilJoinable(t *testing.T, c *gateway.Client, from int) {
	t.Helper()
	for i := from; ; i++ {
		insert(t, c, i, i+1)
		if s, err := c.Status(context.Background()); err == nil && s.Height > 100 && s.Height%joinSnapshots >= 3 && s.Height%joinSnapshots <= 8 {
			return
		}
	}
}

// joins has a node that stopped join by another's newest snapshot, without order blocks of its own.
func joins(t *testing.T, r, other *runner) {
	t.Helper()
	must.Do(t, errors.Join(r.home.DropOrder(), r.home.Join(trustOf(t, other.home))))
	r.start()
	catchesUp(t, r, other)
}

// joinPatience has the waits of CometBFT between snapshots, which are of five seconds and more.
const joinPatience = 3 * patience

// catchesUp waits until a node's database has what another's has, and executes with it.
func catchesUp(t *testing.T, r, other *runner) {
	t.Helper()
	c, o := r.dial(), other.dial()
	eventually(t, joinPatience, "the database follows", func() bool {
		s, err := c.Status(context.Background())
		want, errWant := o.Status(context.Background())
		return err == nil && errWant == nil && s.State == "serving" && s.LastCommitted == want.LastCommitted && s.Height == want.Height
	})
	if out := execute(t, c, "INSERT INTO t VALUES (-1)"); !out.Succeeded {
		t.Errorf("outcome %v of the node that joined", out)
	}
}

// falseSnapshots is an application that offers snapshots of states that never were, and false
// chunks of true ones.
type falseSnapshots struct{ abci.Application }

func (f falseSnapshots) ListSnapshots(ctx context.Context, req *abci.RequestListSnapshots) (*abci.ResponseListSnapshots, error) {
	out, err := f.Application.ListSnapshots(ctx, req)
	if err != nil || len(out.Snapshots) == 0 {
		return out, err
	}
	for _, s := range out.Snapshots { // newer than the true ones, so that they are tried first
		s.Height++
	}
	return out, nil
}

// inventedSnapshots is an application that offers snapshots at heights far beyond the order.
type inventedSnapshots struct{ abci.Application }

func (f inventedSnapshots) ListSnapshots(ctx context.Context, req *abci.RequestListSnapshots) (*abci.ResponseListSnapshots, error) {
	out, err := f.Application.ListSnapshots(ctx, req)
	if err != nil || len(out.Snapshots) == 0 {
		return out, err
	}
	newest := out.Snapshots[len(out.Snapshots)-1]
	out.Snapshots = nil
	for i := range uint64(10) {
		out.Snapshots = append(out.Snapshots, &abci.Snapshot{Height: 1<<40 + i, Format: newest.Format, Chunks: newest.Chunks, Hash: newest.Hash, Metadata: newest.Metadata})
	}
	return out, nil
}

type falseChunks struct{ abci.Application }

func (f falseChunks) LoadSnapshotChunk(ctx context.Context, req *abci.RequestLoadSnapshotChunk) (*abci.ResponseLoadSnapshotChunk, error) {
	out, err := f.Application.LoadSnapshotChunk(ctx, req)
	if err == nil && len(out.Chunk) > 0 {
		out.Chunk = bytes.Clone(out.Chunk)
		out.Chunk[len(out.Chunk)/2] ^= 1
	}
	return out, err
}

// The order blocks that a node missed are nowhere any more: it joins by a snapshot, from nodes of
// which one lies about snapshots, one about chunks, and one about headers.
func TestANodeJoinsByASnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take most of a minute")
	}
	t.Parallel()
	nodes := forgetful(t)
	acme, bolt, cargo, delta := nodes[0], nodes[1], nodes[2], nodes[3]
	bolt.lies = func(a abci.Application) abci.Application { return falseSnapshots{a} }
	cargo.lies = func(a abci.Application) abci.Application { return falseChunks{a} }
	bolt.header = func(b *types.LightBlock) *types.LightBlock {
		if b == nil {
			return nil
		}
		header := *b.Header
		header.AppHash = bytes.Repeat([]byte{7}, 32)
		commit := *b.Commit
		commit.BlockID.Hash = header.Hash()
		return &types.LightBlock{SignedHeader: &types.SignedHeader{Header: &header, Commit: &commit}, ValidatorSet: b.ValidatorSet}
	}
	clients := startAll(t, nodes)
	insert(t, clients[0], 0, 150)
	delta.stop()
	insertUntilJoinable(t, clients[0], 150)
	joins(t, delta, acme)
	insert(t, clients[0], 155, 160)
	log := delta.log.String()
	for _, part := range []string{"joined the order by a snapshot", "an order block that a node tells is not taken", "a false snapshot is offered; its senders are asked no more"} {
		if !strings.Contains(log, part) {
			t.Errorf("the log does not say %q", part)
		}
	}

	// Had it stopped before its first block, it would join once more.
	delta.stop()
	must.Do(t, os.RemoveAll(delta.home.Path("data", "blockstore.db")))
	delta.start()
	catchesUp(t, delta, acme)
	if n := strings.Count(delta.log.String(), "joined the order by a snapshot"); n != 2 {
		t.Errorf("it joined %d times, want 2", n)
	}

	// It goes on over a restart, with the blocks since the snapshot alone.
	delta.stop()
	oldest, newest := blocksOf(t, delta.home)
	if oldest <= 100 || newest <= oldest {
		t.Errorf("the store has blocks %d to %d, want those since a snapshot", oldest, newest)
	}
	delta.start()
	catchesUp(t, delta, acme)
	if join, err := delta.home.Joining(); join != nil || err != nil {
		t.Errorf("the home still joins: %v, %v", join, err)
	}
	for _, r := range nodes {
		r.stop()
	}
	first := acme.db.Hashes()
	for _, r := range nodes[1:] {
		if got := r.db.Hashes(); fmt.Sprint(got) != fmt.Sprint(first) {
			t.Errorf("%s has other ledger blocks than acme: %d and %d", r.home, len(got), len(first))
		}
	}
}

// An organisation's snapshots that have no order block are tried some times, and then the others'.
func TestInventedSnapshotsHoldUpNoJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take most of a minute")
	}
	t.Parallel()
	nodes := forgetful(t)
	nodes[1].lies = func(a abci.Application) abci.Application { return inventedSnapshots{a} }
	clients := startAll(t, nodes)
	insert(t, clients[0], 0, 100)
	nodes[3].stop()
	insertUntilJoinable(t, clients[0], 100)
	joins(t, nodes[3], nodes[0])
	if log := nodes[3].log.String(); !strings.Contains(log, "they are passed over for a while") || strings.Count(log, "the order block behind a snapshot is not verified") > 4 {
		t.Error("the snapshots of one organisation are tried again and again")
	}
}

// The genesis of a chain says nothing of snapshots: governance has them made, and a node joins by
// one.
func TestAChainGetsSnapshotsByGovernance(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take most of a minute")
	}
	t.Parallel()
	nodes := forgetfulWith(t, 0)
	acme, delta := nodes[0], nodes[3]
	clients := startAll(t, nodes)
	insert(t, clients[0], 0, 5)
	if _, err := os.Stat(acme.home.Trust()); err == nil {
		t.Error("there is a snapshot of a chain without them")
	}
	must.Do(t, govern(t, clients[0], 1, nodes, &wire.GovernanceAction{Body: &wire.GovernanceAction_SnapshotEvery{SnapshotEvery: joinSnapshots}}))
	insert(t, clients[0], 5, 60)
	delta.stop()
	insertUntilJoinable(t, clients[0], 60)
	joins(t, delta, acme)
	if !strings.Contains(delta.log.String(), "joined the order by a snapshot") {
		t.Error("the node did not join by a snapshot")
	}
}

// A database that is older than every snapshot, as an empty one, cannot go on from one: the node
// says so, and waits.
func TestAnOldDatabaseDoesNotJoin(t *testing.T) {
	t.Parallel()
	nodes := forgetful(t)
	delta := nodes[3]
	clients := startAll(t, nodes)
	insert(t, clients[0], 0, 30)
	delta.stop()
	delta.backend = func() backend.Backend { return backendtest.Open(backendtest.NewDatabase(), patience) }
	must.Do(t, errors.Join(delta.home.DropOrder(), delta.home.Join(trustOf(t, nodes[0].home))))
	delta.start()
	eventually(t, patience, "the reason is named", func() bool {
		return strings.Contains(delta.log.String(), "a snapshot is newer than the database")
	})
}

// A trusted block that nobody has leads nowhere, whatever the others tell.
func TestAFalseTrustedBlockJoinsNothing(t *testing.T) {
	t.Parallel()
	nodes := forgetful(t)
	delta := nodes[3]
	clients := startAll(t, nodes)
	insert(t, clients[0], 0, 30)
	delta.stop()
	join := trustOf(t, nodes[0].home)
	join.Hash = strings.Repeat("AB", 32)
	must.Do(t, errors.Join(delta.home.DropOrder(), delta.home.Join(join)))
	delta.start()
	eventually(t, patience, "the nodes are not believed", func() bool {
		return strings.Contains(delta.log.String(), "an order block that a node tells is not taken")
	})
	c := delta.dial()
	if s, err := c.Status(context.Background()); err != nil || s.State != "catching_up" {
		t.Errorf("status %v, %v", s, err)
	}
}
