package app

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// Store keeps the order-level state in a key-value database of its own. A Commit is one batch,
// written without waiting for the disk. The database keeps the order of batches. CometBFT's block
// store does wait, and holds every block that a crash may take from here. At start CometBFT gives
// those again.
//
//   - r ‖ u64 changes: registry after so many changes, the last one in force
//   - s: state after the last committed order block
//   - b ‖ u64 number: ledger block
//   - c ‖ u64 number: its certificate
//   - k: keys of clients
//   - e ‖ u64 index: evidence of two votes for one execution (E3)
//   - x ‖ u64 expiry ‖ u64 height: ids accepted at height that expire at expiry
//   - p ‖ u64 height: manifest of a snapshot
//   - q ‖ u64 height ‖ u32 index: chunk of that snapshot
//   - j: the snapshot that this node joined by
type Store struct{ db dbm.DB }

// NewStore keeps the state in db, which the caller closes.
func NewStore(db dbm.DB) *Store { return &Store{db: db} }

var (
	stateKey   = []byte("s")
	clientsKey = []byte("k")
)

func numberKey(prefix byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefix}, number)
}

func expiryKey(expiry, height uint64) []byte {
	return binary.BigEndian.AppendUint64(numberKey('x', expiry), height)
}

// ledgerRecord is the stored record of a ledger block; its transactions are in CometBFT's block
// store.
type ledgerRecord struct {
	Height        int64     `json:"height"`
	TimeMicro     int64     `json:"time"`
	OrderHash     wire.Hash `json:"order_hash"`
	TxCount       uint32    `json:"tx_count"`
	Skipped       []uint32  `json:"skipped,omitempty"`
	Organisations int       `json:"organisations"`
	Consent       int       `json:"consent"`
	Round         uint32    `json:"round,omitempty"`
	Quarantined   []uint32  `json:"quarantined,omitempty"`
	QuarantineAll bool      `json:"quarantine_all,omitempty"`
	Suspects      []uint32  `json:"suspects,omitempty"`

	Protocol wire.Protocol `json:"protocol,omitempty"`
}

// Load reads the committed state; nil before the first Commit. Cost: grows with the unexpired
// transactions.
func (s *Store) Load() (*order.State, error) {
	registries, err := s.registries()
	if err != nil || len(registries) == 0 {
		return nil, err
	}
	record, err := s.db.Get(stateKey)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	kept, err := s.db.Get(clientsKey)
	if err != nil {
		return nil, fmt.Errorf("read clients: %w", err)
	}
	clients, err := order.OpenClients(kept)
	if err != nil {
		return nil, err
	}
	var unread error
	state, err := order.Restore(record, registries, clients, s.accepted(&unread))
	if err := errors.Join(err, unread); err != nil {
		return nil, err
	}
	return state, nil
}

// Registry reads who takes part in the next order block; nil before the first Commit.
func (s *Store) Registry() (*order.Registry, error) {
	records, err := s.registries()
	if err != nil || len(records) == 0 {
		return nil, err
	}
	r, err := records[len(records)-1].Open()
	if err != nil {
		return nil, fmt.Errorf("open stored registry: %w", err)
	}
	return r, nil
}

// registries reads those of all ledger blocks, in their order; none before the first Commit.
func (s *Store) registries() (out []order.RegistryRecord, err error) {
	it, err := s.db.Iterator(numberKey('r', 0), numberKey('r', math.MaxUint64))
	if err != nil {
		return nil, fmt.Errorf("read registries: %w", err)
	}
	defer it.Close()
	for ; it.Valid(); it.Next() {
		var record order.RegistryRecord
		if err := json.Unmarshal(it.Value(), &record); err != nil {
			return nil, fmt.Errorf("decode registry %x: %w", it.Key(), err)
		}
		out = append(out, record)
	}
	return out, it.Error()
}

// accepted reads the replay window, until an error, which it leaves.
func (s *Store) accepted(failed *error) iter.Seq[order.Accepted] {
	return func(yield func(order.Accepted) bool) {
		it, err := s.db.Iterator(numberKey('x', 0), numberKey('x', math.MaxUint64))
		if err != nil {
			*failed = fmt.Errorf("read accepted transactions: %w", err)
			return
		}
		defer it.Close()
		for ; it.Valid(); it.Next() {
			expiry, ids := binary.BigEndian.Uint64(it.Key()[1:]), it.Value()
			if len(ids)%len(wire.TxID{}) != 0 {
				*failed = fmt.Errorf("read accepted transactions: %d bytes of ids at %x, want a multiple of %d", len(ids), it.Key(), len(wire.TxID{}))
				return
			}
			for ; len(ids) > 0; ids = ids[len(wire.TxID{}):] {
				if !yield(order.Accepted{ID: wire.TxID(ids), ValidUntil: expiry}) {
					return
				}
			}
		}
		*failed = it.Error()
	}
}

// Commit writes what one order block changed, atomically; the first one also the registry of the
// genesis. A snapshot, where there is one, is kept with so many others at most, and those that are
// held.
func (s *Store) Commit(before, after *order.State, result *order.Result, first bool, snapshot *order.Snapshot, keep int, held func(now time.Time) map[int64]bool) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	w := &writer{batch: batch}
	if first {
		w.registry(before.Registry())
	}
	if after.Registry() != before.Registry() {
		w.registry(after.Registry())
	}
	record, err := after.Record()
	if err != nil {
		return err
	}
	w.set(stateKey, record)
	if after.Clients() != before.Clients() {
		clients, err := after.Clients().Record()
		if err != nil {
			return fmt.Errorf("encode clients: %w", err)
		}
		w.set(clientsKey, clients)
	}
	if c := result.Certified; c != nil {
		w.packed(numberKey('c', c.Number), c)
	}
	if err := s.commitPending(w, after, result); err != nil {
		return err
	}
	w.accepted(after.Added(), after.Height())
	if snapshot != nil && keep > 0 {
		certified, _ := after.LastCertified()
		if err := s.dropSnapshots(w, after.Height(), keep-1, certified, held(time.Now())); err != nil {
			return err
		}
		if err := s.snapshot(w, after.Height(), snapshot); err != nil {
			return err
		}
	}
	if err := s.dropExpired(w, before.Height(), after.Height()); err != nil {
		return err
	}
	if w.err != nil {
		return w.err
	}
	return batch.Write()
}

// commitPending writes the record of a ledger block that is new or in a new round.
func (s *Store) commitPending(w *writer, after *order.State, result *order.Result) error {
	p := after.Pending()
	if p == nil || result.Ordered == nil && !result.Advanced {
		return nil
	}
	var skipped []uint32
	if result.Ordered != nil {
		skipped = result.Ordered.Skipped
	} else {
		old, err := s.ledgerBlock(p.Number)
		if err != nil {
			return err
		}
		skipped = old.Skipped
	}
	w.json(numberKey('b', p.Number), recordOf(p, skipped))
	return nil
}

func recordOf(p *order.Pending, skipped []uint32) *ledgerRecord {
	return &ledgerRecord{
		Height: p.Height, TimeMicro: p.TimeMicro, OrderHash: p.OrderHash, TxCount: p.TxCount, Skipped: skipped,
		Organisations: p.Organisations, Consent: p.Consent, Round: p.Round, Quarantined: p.Quarantined, QuarantineAll: p.QuarantineAll, Suspects: p.Suspects, Protocol: p.Protocol,
	}
}

func (s *Store) dropExpired(w *writer, from, to int64) error {
	it, err := s.db.Iterator(numberKey('x', uint64(from)+1), numberKey('x', uint64(to)+1))
	if err != nil {
		return fmt.Errorf("find expired transactions: %w", err)
	}
	defer it.Close()
	for ; it.Valid(); it.Next() {
		w.delete(bytes.Clone(it.Key()))
	}
	return it.Error()
}

func (s *Store) ledgerBlock(number uint64) (*ledgerRecord, error) {
	record := &ledgerRecord{}
	found, err := s.get(numberKey('b', number), record)
	if err == nil && !found {
		err = s.missing("ledger block", number)
	}
	return record, err
}

// Certificate reads the certificate of a certified ledger block.
func (s *Store) Certificate(number uint64) (*wire.Certificate, error) {
	c := &wire.Certificate{}
	found, err := s.get(numberKey('c', number), c)
	if err == nil && !found {
		err = s.missing("certificate of ledger block", number)
	}
	return c, err
}

func (s *Store) get(key []byte, into any) (found bool, err error) {
	raw, err := s.db.Get(key)
	if err != nil {
		return false, fmt.Errorf("read %q: %w", key, err)
	}
	if raw == nil {
		return false, nil
	}
	if raw, err = unpack(raw); err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return false, fmt.Errorf("decode %q: %w", key, err)
	}
	return true, nil
}

// writer fills a batch and keeps the first error.
type writer struct {
	batch dbm.Batch
	err   error
}

func (w *writer) set(key, value []byte) {
	if w.err == nil {
		w.err = w.batch.Set(key, value)
	}
}

func (w *writer) delete(key []byte) {
	if w.err == nil {
		w.err = w.batch.Delete(key)
	}
}

func (w *writer) json(key []byte, value any) {
	raw, err := json.Marshal(value)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("encode %q: %w", key, err)
	}
	w.set(key, raw)
}

func (w *writer) registry(r *order.Registry) {
	record := r.Record()
	w.json(numberKey('r', record.Changes), record)
}

// accepted writes the ids of the last order block, one entry for each expiry.
func (w *writer) accepted(list []order.Accepted, height int64) {
	byExpiry := map[uint64][]byte{}
	for _, a := range list {
		byExpiry[a.ValidUntil] = append(byExpiry[a.ValidUntil], a.ID[:]...)
	}
	for expiry, ids := range byExpiry {
		w.set(expiryKey(expiry, uint64(height)), ids)
	}
}
