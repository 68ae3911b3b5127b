package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// snapshotFormat is that of all snapshots so far (spec/snapshot.md).
const snapshotFormat = 1

// joinAhead is how many order blocks after a snapshot a node that joins needs the headers of.
const joinAhead = 2

// Joining is how a node takes the state of the order from a snapshot, before its first order block.
type Joining struct {
	// Certified is the ledger block up to which the database holds certificates, and at most the
	// one before its last block. It waits until that is known. nil: there is no database, and any
	// snapshot will do.
	Certified func(ctx context.Context) (uint64, error)
	// ChainID is that of the genesis.
	ChainID string
}

// arriving is a snapshot that the node fetches.
type arriving struct {
	height   int64
	appHash  wire.Hash
	manifest order.Manifest
	next     int // chunk
	body     []byte
}

// ListSnapshots tells what a node can join by: snapshots behind which two order blocks stand.
func (a *App) ListSnapshots(context.Context, *abci.RequestListSnapshots) (*abci.ResponseListSnapshots, error) {
	out := &abci.ResponseListSnapshots{}
	state, err := a.current()
	if err != nil {
		return out, nil
	}
	if a.opt.Retention.Snapshots == 0 {
		return out, nil
	}
	kept, err := a.opt.Store.snapshots()
	if err != nil {
		return nil, err
	}
	for _, s := range kept {
		if s.height+joinAhead > state.Height() {
			continue
		}
		a.lent.list(s.height, time.Now())
		root := s.manifest.Root(s.height)
		out.Snapshots = append(out.Snapshots, &abci.Snapshot{
			Height: uint64(s.height), Format: snapshotFormat, Chunks: uint32(len(s.manifest.Chunks)), Hash: root[:], Metadata: s.manifest.Encode(),
		})
	}
	return out, nil
}

// LoadSnapshotChunk gives a chunk of a listed snapshot; none when it went meanwhile.
func (a *App) LoadSnapshotChunk(_ context.Context, req *abci.RequestLoadSnapshotChunk) (*abci.ResponseLoadSnapshotChunk, error) {
	if req.Format != snapshotFormat || req.Height > math.MaxInt64 || req.Chunk >= order.SnapshotChunksMax {
		return &abci.ResponseLoadSnapshotChunk{}, nil
	}
	chunk, err := a.opt.Store.snapshotChunk(int64(req.Height), req.Chunk)
	return &abci.ResponseLoadSnapshotChunk{Chunk: chunk}, err
}

// OfferSnapshot takes a snapshot when its manifest gives the AppHash that the light client trusts,
// and the database has executed all that is in it. The senders of a false one are asked no more.
func (a *App) OfferSnapshot(ctx context.Context, req *abci.RequestOfferSnapshot) (*abci.ResponseOfferSnapshot, error) {
	answer := func(r abci.ResponseOfferSnapshot_Result) (*abci.ResponseOfferSnapshot, error) {
		return &abci.ResponseOfferSnapshot{Result: r}, nil
	}
	s := req.Snapshot
	switch {
	case a.opt.Joining == nil || s == nil || len(req.AppHash) != len(wire.Hash{}):
		return answer(abci.ResponseOfferSnapshot_ABORT)
	case s.Format != snapshotFormat:
		return answer(abci.ResponseOfferSnapshot_REJECT_FORMAT)
	}
	manifest, err := checkOffer(s, wire.Hash(req.AppHash))
	if err != nil {
		accuse.FalseSnapshot(s.Height, err).Log(a.log)
		return answer(abci.ResponseOfferSnapshot_REJECT_SENDER)
	}
	if certified := a.opt.Joining.Certified; certified != nil {
		n, err := certified(ctx)
		if err != nil {
			return nil, fmt.Errorf("offer snapshot %d: %w", s.Height, err)
		}
		if n < manifest.Ordered {
			a.log.Warn("a snapshot is newer than the database: an older one is tried. Where there is none, restore the database from a newer backup",
				"height", s.Height, "snapshot_block", manifest.Ordered, "database_certified", n)
			return answer(abci.ResponseOfferSnapshot_REJECT)
		}
	}
	a.arriving = &arriving{height: int64(s.Height), appHash: wire.Hash(req.AppHash), manifest: manifest}
	return answer(abci.ResponseOfferSnapshot_ACCEPT)
}

func checkOffer(s *abci.Snapshot, trusted wire.Hash) (order.Manifest, error) {
	m, err := order.DecodeManifest(s.Metadata)
	if err != nil {
		return m, err
	}
	root := m.Root(int64(s.Height))
	switch {
	case s.Height == 0 || s.Height > math.MaxInt64:
		return m, fmt.Errorf("height %d", s.Height)
	case m.AppHash(int64(s.Height)) != trusted:
		return m, errors.New("its manifest does not give the AppHash of the order")
	case int(s.Chunks) != len(m.Chunks) || !bytes.Equal(s.Hash, root[:]):
		return m, fmt.Errorf("%d chunks with hash %x, its manifest says %d with %x", s.Chunks, s.Hash, len(m.Chunks), root)
	}
	return m, nil
}

// ApplySnapshotChunk takes the chunks one after the other; the last one makes the state. The sender
// of a false one is asked no more, and another node for that chunk.
func (a *App) ApplySnapshotChunk(_ context.Context, req *abci.RequestApplySnapshotChunk) (*abci.ResponseApplySnapshotChunk, error) {
	s := a.arriving
	if s == nil || int(req.Index) != s.next {
		return &abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_ABORT}, nil
	}
	if err := s.manifest.Check(s.next, req.Chunk); err != nil {
		accuse.FalseChunk(req.Sender, err).Log(a.log)
		return &abci.ResponseApplySnapshotChunk{
			Result: abci.ResponseApplySnapshotChunk_RETRY, RefetchChunks: []uint32{req.Index}, RejectSenders: []string{req.Sender},
		}, nil
	}
	s.body = append(s.body, req.Chunk...)
	if s.next++; s.next < len(s.manifest.Chunks) {
		return &abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_ACCEPT}, nil
	}
	a.arriving = nil
	if err := a.arrive(s); err != nil { // its hashes are right: another node has the same one
		return nil, fmt.Errorf("take over snapshot %d: %w", s.height, err)
	}
	a.log.Info("joined the order by a snapshot", "height", s.height, "block", s.manifest.Ordered, "bytes", s.manifest.Length)
	return &abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_ACCEPT}, nil
}

// arrive has the state of a snapshot take the place of what the store holds of the order.
func (a *App) arrive(s *arriving) error {
	state, err := order.OpenSnapshot(s.body)
	if err != nil {
		return err
	}
	if state.Height() != s.height || state.AppHash() != s.appHash || state.Registry().ChainID() != a.opt.Joining.ChainID {
		return fmt.Errorf("it is of chain %q, height %d, AppHash %x; want %q, %d, %x",
			state.Registry().ChainID(), state.Height(), state.AppHash(), a.opt.Joining.ChainID, s.height, s.appHash)
	}
	if err := a.newer(state); err != nil {
		return err
	}
	if err := a.opt.Store.join(state, s); err != nil {
		return err
	}
	a.mu.Lock()
	a.state, a.founding, a.changed, a.staged, a.body, a.history, a.ever = state, false, true, nil, nil, nil, nil
	a.joined = joinedRecord{state.Height(), state.LastOrdered()}
	clear(a.previews)
	a.mu.Unlock()
	a.opt.Effects.Decided(Decision{Height: s.height})
	return nil
}

// snapshotKept tells of the snapshot of a committed order block, which is trusted by its hash.
func (a *App) snapshotKept(p *preview) {
	if p.snapshot == nil || a.opt.Retention.Snapshots == 0 {
		return
	}
	if n := len(p.snapshot.Manifest.Chunks); n > order.SnapshotChunksMax {
		a.log.Warn("a snapshot is too large to be offered: too many transactions are unexpired", "height", p.next.Height(), "chunks", n)
		return
	}
	a.log.Debug("snapshot", "height", p.next.Height(), "block_hash", fmt.Sprintf("%X", p.hash), "bytes", p.snapshot.Manifest.Length)
	if a.opt.Snapshot != nil {
		a.opt.Snapshot(p.next.Height(), p.hash)
	}
}

// keptSnapshot is one in the store.
type keptSnapshot struct {
	height   int64
	manifest order.Manifest
}

func chunkKey(height int64, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(numberKey('q', uint64(height)), chunk)
}

// snapshots lists those in the store, the oldest first.
func (s *Store) snapshots() (out []keptSnapshot, err error) {
	it, err := s.db.Iterator(numberKey('p', 0), numberKey('p', math.MaxUint64))
	if err != nil {
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	defer it.Close()
	for ; it.Valid(); it.Next() {
		m, err := order.DecodeManifest(it.Value())
		if err != nil {
			return nil, fmt.Errorf("read snapshot %x: %w", it.Key(), err)
		}
		out = append(out, keptSnapshot{int64(binary.BigEndian.Uint64(it.Key()[1:])), m})
	}
	return out, it.Error()
}

func (s *Store) snapshotChunk(height int64, chunk uint32) ([]byte, error) {
	raw, err := s.db.Get(chunkKey(height, chunk))
	if err != nil {
		return nil, fmt.Errorf("read chunk %d of snapshot %d: %w", chunk, height, err)
	}
	return raw, nil
}

// snapshot writes one. It does not write one that is too long to be offered. A batch is a copy in
// memory, hence the manifest alone is in that of its order block. The chunks are written before it,
// and count only with it: a node that ends between the two makes the same ones again.
func (s *Store) snapshot(w *writer, height int64, snapshot *order.Snapshot) error {
	m := snapshot.Manifest
	if len(m.Chunks) > order.SnapshotChunksMax {
		return nil
	}
	i := 0
	for chunk := range snapshot.Chunks() {
		if err := s.db.Set(chunkKey(height, uint32(i)), chunk); err != nil {
			return fmt.Errorf("write chunk %d of snapshot %d: %w", i, height, err)
		}
		i++
	}
	if i != len(m.Chunks) {
		return fmt.Errorf("snapshot %d has %d chunks, its manifest says %d", height, i, len(m.Chunks))
	}
	w.set(numberKey('p', uint64(height)), m.Encode())
	return nil
}

// drop drops a snapshot.
func (k keptSnapshot) drop(w *writer) {
	w.delete(numberKey('p', uint64(k.height)))
	for chunk := range k.manifest.Chunks {
		w.delete(chunkKey(k.height, uint32(chunk)))
	}
}

// joinable tells that a database with all blocks so far can join by a snapshot: it has one more.
func (k keptSnapshot) joinable(certified uint64) bool { return k.manifest.Ordered < certified }

// newestJoinable is the height of the newest snapshot that a database with all blocks so far can
// join by; 0: there is none.
func (s *Store) newestJoinable(certified uint64) (height int64, err error) {
	kept, err := s.snapshots()
	for _, k := range kept {
		if k.joinable(certified) {
			height = k.height
		}
	}
	return height, err
}

// dropSnapshots makes room for the snapshot of a height: but for it, so many stay, and as many
// again of those that are held for nodes that join. The newest one that a database with all blocks
// so far can join by stays in any case.
func (s *Store) dropSnapshots(w *writer, height int64, keep int, certified uint64, held map[int64]bool) error {
	kept, err := s.snapshots()
	if err != nil {
		return err
	}
	joinable, lent := int64(0), 0
	for _, k := range kept {
		if k.joinable(certified) {
			joinable = k.height
		}
		if held[k.height] {
			lent++
		}
	}
	for room := keep + min(lent, keep+1); len(kept) > room; {
		i := leastMissed(kept, height, func(h int64) bool { return h == joinable || held[h] })
		if i < 0 {
			i = leastMissed(kept, height, func(h int64) bool { return h == joinable })
		}
		if i < 0 {
			return nil
		}
		kept[i].drop(w)
		kept = slices.Delete(kept, i, i+1)
	}
	return nil
}

// leastMissed picks the snapshot to drop, -1: all that are there stay. The gaps between those that
// remain grow with their age, since a database may be as old as the oldest order block.
func leastMissed(kept []keptSnapshot, height int64, stays func(height int64) bool) int {
	least, least64 := -1, math.Inf(1)
	for i, k := range kept {
		if stays(k.height) {
			continue
		}
		gap := math.Inf(1) // the oldest goes last; prune drops it with its blocks
		if i > 0 {
			next := height
			if i+1 < len(kept) {
				next = kept[i+1].height
			}
			gap = float64(next-kept[i-1].height) / float64(height-k.height)
		}
		if least < 0 || gap < least64 {
			least, least64 = i, gap
		}
	}
	return least
}

// joinedRecord says where the order begins in this store, after a snapshot.
type joinedRecord struct {
	Height  int64  `json:"height"`
	Ordered uint64 `json:"ordered"`
}

var joinedKey = []byte("j")

// joined is where the order begins in this store; zeros: with the first block.
func (s *Store) joined() (j joinedRecord, err error) {
	_, err = s.get(joinedKey, &j)
	return j, err
}

// join puts the state of a snapshot in the place of all that the store holds of the order.
func (s *Store) join(state *order.State, from *arriving) error {
	record, err := state.Record()
	if err != nil {
		return err
	}
	clients, err := state.Clients().Record()
	if err != nil {
		return fmt.Errorf("encode clients: %w", err)
	}
	batch := s.db.NewBatch()
	defer batch.Close()
	w := &writer{batch: batch}
	if err := s.clear(w); err != nil {
		return err
	}
	for _, r := range state.Registries() {
		w.json(numberKey('r', r.Changes), r)
	}
	w.set(stateKey, record)
	w.set(clientsKey, clients)
	w.json(joinedKey, joinedRecord{state.Height(), state.LastOrdered()})
	w.accepted(slices.Collect(state.Accepted()), state.Height())
	if p := state.Pending(); p != nil {
		w.json(numberKey('b', p.Number), recordOf(p, nil))
	}
	w.set(numberKey('p', uint64(from.height)), from.manifest.Encode())
	for i := range from.manifest.Chunks {
		w.set(chunkKey(from.height, uint32(i)), order.Chunk(from.body, i))
	}
	if w.err != nil {
		return w.err
	}
	return batch.WriteSync()
}

// clear drops all of the order but evidence against others.
func (s *Store) clear(w *writer) error {
	for _, prefix := range []byte("rbcxpq") {
		it, err := s.db.Iterator([]byte{prefix}, []byte{prefix + 1})
		if err != nil {
			return fmt.Errorf("clear the store: %w", err)
		}
		for ; it.Valid(); it.Next() {
			w.delete(bytes.Clone(it.Key()))
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			return fmt.Errorf("clear the store: %w", err)
		}
	}
	w.delete(stateKey)
	w.delete(clientsKey)
	w.delete(joinedKey)
	return w.err
}

// Forget drops all of the order but evidence against others, before a node joins anew.
func (s *Store) Forget() error {
	batch := s.db.NewBatch()
	defer batch.Close()
	if err := s.clear(&writer{batch: batch}); err != nil {
		return err
	}
	return batch.WriteSync()
}
