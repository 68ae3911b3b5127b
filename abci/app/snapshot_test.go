package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

func withSnapshots(c *ordertest.Consortium) { c.Genesis.Parameters.SnapshotEvery = 10 }

// run makes order blocks up to a height, each with a transaction and the certificate of the one
// before.
func (c *chain) run(to int64) {
	c.t.Helper()
	for c.height < to {
		txs := c.prepare(c.bundle(uint64(c.height)))
		if !c.process(txs...) {
			c.t.Fatal("own proposal refused")
		}
		vote, err := wire.DecodeEffectVote(c.extend(txs...))
		if err != nil {
			c.t.Fatal(err)
		}
		hash, _ := c.effects.Hash(vote.Key())
		c.decide(c.votes(hash, vote.Key(), 0, 1, 2), txs...)
	}
}

func (c *chain) listed() []*abci.Snapshot {
	c.t.Helper()
	out, err := c.app.ListSnapshots(ctx, &abci.RequestListSnapshots{})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.Snapshots
}

func heightsOf(list []*abci.Snapshot) (out []uint64) {
	for _, s := range list {
		out = append(out, s.Height)
	}
	return out
}

// appHashOf is the one that the light client would tell.
func appHashOf(t *testing.T, s *abci.Snapshot) []byte {
	t.Helper()
	m, err := order.DecodeManifest(s.Metadata)
	must.Do(t, err)
	hash := m.AppHash(int64(s.Height))
	return hash[:]
}

// joiner is an application without a state on a store of its own, as a chain that goes on from c.
func (c *chain) joiner(certified uint64) *chain {
	c.t.Helper()
	j := &chain{t: c.t, consortium: c.consortium, db: dbm.NewMemDB(), blocks: map[int64][][]byte{}, effects: newFakeEffects("o0")}
	var err error
	j.app, err = New(Options{
		Store: NewStore(j.db), Effects: j.effects, Organisation: "o0", Logger: testLog(c.t), Retention: Retention{Snapshots: 2},
		Joining: &Joining{ChainID: ordertest.ChainID, Certified: func(context.Context) (uint64, error) { return certified, nil }},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	j.attach()
	return j
}

func (c *chain) offer(s *abci.Snapshot, appHash []byte) abci.ResponseOfferSnapshot_Result {
	c.t.Helper()
	out, err := c.app.OfferSnapshot(ctx, &abci.RequestOfferSnapshot{Snapshot: s, AppHash: appHash})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.Result
}

// take has the chunks of one go to another, each changed before.
func (c *chain) take(from *chain, s *abci.Snapshot, change func(i uint32, chunk []byte) []byte) *abci.ResponseApplySnapshotChunk {
	c.t.Helper()
	var out *abci.ResponseApplySnapshotChunk
	for i := range s.Chunks {
		chunk, err := from.app.LoadSnapshotChunk(ctx, &abci.RequestLoadSnapshotChunk{Height: s.Height, Format: s.Format, Chunk: i})
		if err != nil || chunk.Chunk == nil {
			c.t.Fatalf("chunk %d: %v, %v", i, chunk, err)
		}
		if out, err = c.app.ApplySnapshotChunk(ctx, &abci.RequestApplySnapshotChunk{Index: i, Chunk: change(i, chunk.Chunk), Sender: "peer"}); err != nil {
			c.t.Fatal(err)
		}
	}
	return out
}

func same(_ uint32, chunk []byte) []byte { return chunk }

func TestANodeGoesOnFromASnapshot(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(33)
	list := c.listed()
	if got := fmt.Sprint(heightsOf(list)); got != "[20 30]" {
		t.Fatalf("snapshots %s, want [20 30]: the newest two", got)
	}
	s := list[1]
	j := c.joiner(32)
	if r := j.offer(s, appHashOf(t, s)); r != abci.ResponseOfferSnapshot_ACCEPT {
		t.Fatalf("answer %s", r)
	}
	if out := j.take(c, s, same); out.Result != abci.ResponseApplySnapshotChunk_ACCEPT {
		t.Fatalf("answer %s", out.Result)
	}
	info, err := j.app.Info(ctx, &abci.RequestInfo{})
	if err != nil || info.LastBlockHeight != 30 || !bytes.Equal(info.LastBlockAppHash, appHashOf(t, s)) {
		t.Fatalf("%+v, %v", info, err)
	}
	// Both go on alike, over a restart of the one that joined. The pending block of the snapshot is
	// known to it by name alone.
	if _, err := j.app.Ordered(30); !errors.Is(err, wire.ErrPruned) {
		t.Errorf("ledger block 30: %v", err)
	}
	j.height = 30
	for h := int64(31); h <= 33; h++ {
		if out := j.decide(nil, c.blocks[h]...); h == 33 && !bytes.Equal(out.AppHash, c.appHash) {
			t.Errorf("AppHash %x, want %x", out.AppHash, c.appHash)
		}
		j.open()
		j.attach()
	}
	if j.app.LastCertified() != c.app.LastCertified() || j.app.LastOrdered() != c.app.LastOrdered() {
		t.Errorf("certified %d, ordered %d, want %d, %d", j.app.LastCertified(), j.app.LastOrdered(), c.app.LastCertified(), c.app.LastOrdered())
	}
	for n := uint64(31); n <= 33; n++ {
		if block, err := j.app.Ordered(n); err != nil || len(block.IDs) != 1 {
			t.Errorf("block %d: %+v, %v", n, block, err)
		}
	}
	if _, err := j.app.Certificate(12); !errors.Is(err, wire.ErrPruned) {
		t.Errorf("a certificate of before: %v", err)
	}
	// Transactions accepted before the snapshot are refused after it.
	old := c.blocks[25][1]
	check, err := j.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: old})
	if err != nil || check.Code != order.CodeNothingLive {
		t.Errorf("a replayed bundle: %+v, %v", check, err)
	}
}

// The store of a node that joined gives the snapshots of the node that ran on, byte for byte.
func TestSnapshotsOfAllNodesAreAlike(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(22)
	s := c.listed()[1]
	j := c.joiner(30)
	if r := j.offer(s, appHashOf(t, s)); r != abci.ResponseOfferSnapshot_ACCEPT {
		t.Fatalf("answer %s", r)
	}
	j.take(c, s, same)
	c.run(42)
	j.height = 20
	for h := int64(21); h <= 42; h++ {
		j.decide(nil, c.blocks[h]...)
		if h%3 == 0 { // also over restarts
			j.open()
			j.attach()
		}
	}
	want, got := c.listed(), j.listed()
	if len(want) != 4 || len(got) != 2 {
		t.Fatalf("snapshots %v and %v, want two, and two that the first holds since it listed them", heightsOf(want), heightsOf(got))
	}
	want = want[2:]
	for i := range want {
		if want[i].String() != got[i].String() {
			t.Errorf("snapshot %s, want %s", got[i], want[i])
		}
		for chunk := range want[i].Chunks {
			a, errA := NewStore(c.db).snapshotChunk(int64(want[i].Height), chunk)
			b, errB := NewStore(j.db).snapshotChunk(int64(want[i].Height), chunk)
			if errA != nil || errB != nil || len(a) == 0 || !bytes.Equal(a, b) {
				t.Errorf("chunk %d of %d differs: %v, %v", chunk, want[i].Height, errA, errB)
			}
		}
	}
}

func TestFalseSnapshotsAreRefused(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(13)
	s := c.listed()[0]
	trusted := appHashOf(t, s)
	change := func(f func(*abci.Snapshot)) *abci.Snapshot {
		other := *s
		other.Metadata, other.Hash = bytes.Clone(s.Metadata), bytes.Clone(s.Hash)
		f(&other)
		return &other
	}
	for name, test := range map[string]struct {
		s    *abci.Snapshot
		want abci.ResponseOfferSnapshot_Result
	}{
		"true":              {s, abci.ResponseOfferSnapshot_ACCEPT},
		"another format":    {change(func(s *abci.Snapshot) { s.Format++ }), abci.ResponseOfferSnapshot_REJECT_FORMAT},
		"another height":    {change(func(s *abci.Snapshot) { s.Height += 10 }), abci.ResponseOfferSnapshot_REJECT_SENDER},
		"another hash":      {change(func(s *abci.Snapshot) { s.Hash[0] ^= 1 }), abci.ResponseOfferSnapshot_REJECT_SENDER},
		"more chunks":       {change(func(s *abci.Snapshot) { s.Chunks++ }), abci.ResponseOfferSnapshot_REJECT_SENDER},
		"a false chunk":     {change(func(s *abci.Snapshot) { s.Metadata[len(s.Metadata)-1] ^= 1 }), abci.ResponseOfferSnapshot_REJECT_SENDER},
		"an older database": {change(func(s *abci.Snapshot) { s.Metadata[39] ^= 1 }), abci.ResponseOfferSnapshot_REJECT_SENDER},
		"no manifest":       {change(func(s *abci.Snapshot) { s.Metadata = nil }), abci.ResponseOfferSnapshot_REJECT_SENDER},
	} {
		j := c.joiner(12)
		if got := j.offer(test.s, trusted); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	other := bytes.Clone(trusted)
	other[0] ^= 1
	if got := c.joiner(12).offer(s, other); got != abci.ResponseOfferSnapshot_REJECT_SENDER {
		t.Errorf("the snapshot of another chain: %s", got)
	}
	if got := c.joiner(9).offer(s, trusted); got != abci.ResponseOfferSnapshot_REJECT {
		t.Errorf("a database before the snapshot: %s", got)
	}
	if got := c.joiner(10).offer(s, trusted); got != abci.ResponseOfferSnapshot_ACCEPT {
		t.Errorf("a database right behind the snapshot: %s", got)
	}
	if got := c.offer(s, trusted); got != abci.ResponseOfferSnapshot_ABORT {
		t.Errorf("a node that does not join: %s", got)
	}
}

func TestAFalseChunkIsFetchedFromAnother(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(13)
	s := c.listed()[0]
	for name, change := range map[string]func(uint32, []byte) []byte{
		"changed":   func(_ uint32, chunk []byte) []byte { return append([]byte{chunk[0] ^ 1}, chunk[1:]...) },
		"truncated": func(_ uint32, chunk []byte) []byte { return chunk[:len(chunk)-1] },
		"longer":    func(_ uint32, chunk []byte) []byte { return append(bytes.Clone(chunk), 0) },
		"empty":     func(uint32, []byte) []byte { return nil },
	} {
		j := c.joiner(12)
		if r := j.offer(s, appHashOf(t, s)); r != abci.ResponseOfferSnapshot_ACCEPT {
			t.Fatalf("answer %s", r)
		}
		out := j.take(c, s, change)
		if out.Result != abci.ResponseApplySnapshotChunk_RETRY || strings.Join(out.RejectSenders, " ") != "peer" || fmt.Sprint(out.RefetchChunks) != "[0]" {
			t.Errorf("%s: %+v", name, out)
		}
		if state, err := NewStore(j.db).Load(); state != nil || err != nil {
			t.Errorf("%s: the store has a state, %v", name, err)
		}
		if out := j.take(c, s, same); out.Result != abci.ResponseApplySnapshotChunk_ACCEPT {
			t.Errorf("%s: the right chunk after it: %s", name, out.Result)
		}
	}
}

// A node may hold the snapshot that its peers offer, and not need it: what it holds of the order
// goes, and evidence against others stays.
func TestJoiningReplacesTheOrder(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(13)
	s := c.listed()[0]
	j := c.joiner(12)
	store := NewStore(j.db)
	w := &writer{batch: j.db.NewBatch()}
	w.json(numberKey('b', 77), &ledgerRecord{})
	w.json(numberKey('c', 77), &wire.Certificate{})
	w.set(numberKey('e', 0), []byte("{}"))
	w.set([]byte("node/excluded"), []byte("why"))
	must.Do(t, errors.Join(w.err, w.batch.Write()))
	j.offer(s, appHashOf(t, s))
	j.take(c, s, same)
	if _, err := store.ledgerBlock(77); err == nil || errors.Is(err, wire.ErrPruned) {
		t.Errorf("block 77: %v", err)
	}
	for _, key := range [][]byte{numberKey('e', 0), []byte("node/excluded")} {
		if raw, err := j.db.Get(key); err != nil || raw == nil {
			t.Errorf("%q went: %v", key, err)
		}
	}
	must.Do(t, store.Forget())
	if state, err := store.Load(); state != nil || err != nil {
		t.Errorf("a state is left, %v", err)
	}
}

// While a ledger block waits for long, the snapshot from before it stays: a database cannot have
// executed that block.
func TestASnapshotToJoinByStays(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(25)
	for c.height < 75 {
		c.decide(nil) // nobody votes
	}
	if got := fmt.Sprint(heightsOf(c.listed())); got != "[20 70]" {
		t.Errorf("snapshots %s, want [20 70]", got)
	}
	for certified, want := range map[uint64]int64{c.app.LastCertified(): 20, 25: 20, 26: 70, 20: 0} {
		if height, err := NewStore(c.db).newestJoinable(certified); err != nil || height != want {
			t.Errorf("with %d certified the newest to join by is %d, %v, want %d", certified, height, err, want)
		}
	}
	must.Do(t, NewStore(c.db).prune(61))
	if got := fmt.Sprint(heightsOf(c.listed())); got != "[70]" {
		t.Errorf("snapshots %s after their blocks went, want [70]", got)
	}
}

// Snapshots lie the closer the newer they are, over all the blocks that are kept: there is one for
// a database of any age, less than three times as old.
func TestSnapshotsAreSpread(t *testing.T) {
	store := NewStore(dbm.NewMemDB())
	const keep = 10
	for height := int64(10); height <= 2500; height += 10 {
		w := &writer{batch: store.db.NewBatch()}
		must.Do(t, store.dropSnapshots(w, height, keep-1, uint64(height), nil))
		m := order.Manifest{Ordered: uint64(height), Length: 1, Chunks: make([]wire.Hash, 1)}
		w.set(numberKey('p', uint64(height)), m.Encode())
		must.Do(t, errors.Join(w.err, w.batch.Write()))
		kept, err := store.snapshots()
		if err != nil || len(kept) > keep || kept[len(kept)-1].height != height || kept[0].height != 10 {
			t.Fatalf("at %d: %v, %v", height, kept, err)
		}
		for age := int64(10); age < height-10; age += 10 {
			oldest := height - 3*age - 10
			if !slices.ContainsFunc(kept, func(k keptSnapshot) bool { return k.height <= height-age && k.height >= oldest }) {
				t.Fatalf("at %d: none for a database of %d blocks ago: %v", height, age, kept)
			}
		}
	}
}

// chunkWatch is a store that can end before the batch of an order block is written. It counts the
// bytes of chunks in batches, which are copies in memory.
type chunkWatch struct {
	dbm.DB
	ends    bool
	batched int
}

type watchedBatch struct {
	dbm.Batch
	watch *chunkWatch
}

func (w *chunkWatch) NewBatch() dbm.Batch { return watchedBatch{w.DB.NewBatch(), w} }

func (b watchedBatch) Set(key, value []byte) error {
	if key[0] == 'q' {
		b.watch.batched += len(value)
	}
	return b.Batch.Set(key, value)
}

func (b watchedBatch) Write() error {
	if b.watch.ends {
		return errors.New("the node ends")
	}
	return b.Batch.Write()
}

// The chunks of a snapshot are not copied into the batch of their order block. A node that ends
// between the two has no snapshot, and makes the same one again.
func TestChunksAreWrittenBeforeTheirOrderBlock(t *testing.T) {
	c := newChain(t, 4, 0, withSnapshots)
	c.run(5)
	watch := &chunkWatch{DB: c.db}
	c.db = watch
	c.open()
	c.attach()
	c.run(9)
	watch.ends = true
	c.finalize()
	if _, err := c.app.Commit(ctx, &abci.RequestCommit{}); err == nil {
		t.Fatal("it is committed")
	}
	first, err := NewStore(c.db).snapshotChunk(10, 0)
	if kept, failed := NewStore(c.db).snapshots(); err != nil || failed != nil || len(first) == 0 || len(kept) > 0 {
		t.Fatalf("a chunk of %d bytes, snapshots %v, %v, %v", len(first), kept, err, failed)
	}
	watch.ends = false
	c.open()
	c.attach()
	c.decide(nil)
	again, err := NewStore(c.db).snapshotChunk(10, 0)
	if kept, failed := NewStore(c.db).snapshots(); err != nil || failed != nil || !bytes.Equal(again, first) || len(kept) != 1 || kept[0].manifest.Check(0, again) != nil {
		t.Errorf("a chunk of %d bytes, want %d, snapshots %v, %v, %v", len(again), len(first), kept, err, failed)
	}
	if watch.batched > 0 {
		t.Errorf("%d bytes of chunks in batches", watch.batched)
	}
}

// A chain that was founded without snapshots has none, and the AppHash that it always had.
func TestAChainWithoutSnapshots(t *testing.T) {
	c := newChain(t, 4, 0)
	c.run(25)
	if list := c.listed(); len(list) != 0 {
		t.Errorf("snapshots %v", heightsOf(list))
	}
}
