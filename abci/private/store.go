package private

import (
	"errors"
	"fmt"
	"sync"

	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// storeBytesMax bounds what is on its way at this node. One organisation alone may have half of it.
const storeBytesMax = 256 << 20

// ErrFull is the error of values beyond the bound.
var ErrFull = errors.New("too many private values are on their way")

// ErrDisk is the error of values that the disk does not take.
var ErrDisk = errors.New("private values cannot be kept on the disk")

// Disk keeps values over a restart.
type Disk interface {
	Each(each func(key, value []byte) error) error
	Get(key []byte) ([]byte, error)
	// Put waits for the disk.
	Put(key, value []byte) error
	Delete(key []byte) error
}

// store has the values of transactions that are not executed yet. It is safe for concurrent use.
type store struct {
	disk Disk

	mu     sync.Mutex // guards all below
	shares *fair.Shares[string]
	kept   map[wire.TxID]map[string]*kept // by transaction and the organisation that sent them
	of     map[wire.Hash]wire.TxID        // of a commitment
}

// kept is what is known of values without the disk.
type kept struct {
	validUntil  uint64
	bytes       int
	commitments []wire.Hash
}

func openStore(disk Disk) (*store, error) {
	s := &store{disk: disk, shares: fair.New[string](storeBytesMax), kept: map[wire.TxID]map[string]*kept{}, of: map[wire.Hash]wire.TxID{}}
	err := disk.Each(func(_, raw []byte) error {
		m, err := wire.DecodePrivateKept(raw)
		if err != nil {
			return fmt.Errorf("private values on their way: %w", err)
		}
		s.shares.Take(m.Organisation, len(raw))
		s.add(m, len(raw))
		return nil
	})
	return s, err
}

// add is called with mu held, or before others know the store.
func (s *store) add(m *wire.PrivateValues, bytes int) {
	k := &kept{validUntil: m.ValidUntilHeight, bytes: bytes}
	for _, v := range m.Values {
		k.commitments = append(k.commitments, wire.Hash(v.Commitment))
		s.of[wire.Hash(v.Commitment)] = wire.TxID(m.Transaction)
	}
	of := s.kept[wire.TxID(m.Transaction)]
	if of == nil {
		of = map[string]*kept{}
		s.kept[wire.TxID(m.Transaction)] = of
	}
	of[m.Organisation] = k
}

func storeKey(id wire.TxID, organisation string) []byte { return append(id[:], organisation...) }

// keep has values on the disk when it returns without an error. Those of a transaction that an
// organisation sends again are kept once. Cost: one write that waits for the disk.
func (s *store) keep(m *wire.PrivateValues) error {
	id := wire.TxID(m.Transaction)
	raw := wire.Encode(&wire.PrivateValues{Organisation: m.Organisation, Transaction: m.Transaction, ValidUntilHeight: m.ValidUntilHeight, Values: m.Values})
	s.mu.Lock()
	if s.kept[id][m.Organisation] != nil {
		s.mu.Unlock()
		return nil
	}
	full := !s.shares.Take(m.Organisation, len(raw))
	s.mu.Unlock()
	if full {
		return ErrFull
	}
	err := s.disk.Put(storeKey(id, m.Organisation), raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.kept[id][m.Organisation] != nil { // sent twice at once
		s.shares.Give(m.Organisation, len(raw))
		return err
	}
	s.add(m, len(raw))
	return nil
}

// values are those of a transaction, whoever sent them.
func (s *store) values(id wire.TxID) (values []*wire.SealedValue, err error) {
	s.mu.Lock()
	organisations := make([]string, 0, len(s.kept[id]))
	for organisation := range s.kept[id] {
		organisations = append(organisations, organisation)
	}
	s.mu.Unlock()
	for _, organisation := range organisations {
		raw, err := s.disk.Get(storeKey(id, organisation))
		if err != nil {
			return nil, fmt.Errorf("read private values on their way: %w", err)
		}
		if raw == nil { // forgotten meanwhile
			continue
		}
		m, err := wire.DecodePrivateKept(raw)
		if err != nil {
			return nil, fmt.Errorf("read private values on their way: %w", err)
		}
		values = append(values, m.Values...)
	}
	return values, nil
}

// find gives those of the named values that are here.
func (s *store) find(names []*wire.SealedName) (found []*wire.SealedValue, err error) {
	wanted := map[wire.TxID]map[string]bool{}
	s.mu.Lock()
	for _, name := range names {
		if id, known := s.of[wire.Hash(name.Commitment)]; known {
			if wanted[id] == nil {
				wanted[id] = map[string]bool{}
			}
			wanted[id][cellName(name.Table, name.Column, name.Commitment)] = true
		}
	}
	s.mu.Unlock()
	for id, of := range wanted {
		values, err := s.values(id)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			if name := cellName(v.Table, v.Column, v.Commitment); of[name] {
				found = append(found, v)
				delete(of, name) // two may have sent it
			}
		}
	}
	return found, nil
}

func cellName(table, column string, commitment []byte) string {
	return table + "\x00" + column + "\x00" + string(commitment)
}

// forget drops the values of a transaction.
func (s *store) forget(id wire.TxID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for organisation, k := range s.kept[id] {
		if err := s.disk.Delete(storeKey(id, organisation)); err != nil {
			return fmt.Errorf("forget private values: %w", err)
		}
		s.shares.Give(organisation, k.bytes)
		for _, commitment := range k.commitments {
			if s.of[commitment] == id { // another transaction may have it, too
				delete(s.of, commitment)
			}
		}
	}
	delete(s.kept, id)
	return nil
}

// expired are the transactions that may be forgotten.
func (s *store) expired(height uint64, databaseIsCurrent bool) (ids []wire.TxID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, of := range s.kept {
		last := uint64(0)
		for _, k := range of {
			last = max(last, k.validUntil)
		}
		if ForgetAt(last, height, databaseIsCurrent) {
			ids = append(ids, id)
		}
	}
	return ids
}

// has reports whether there are values of a transaction.
func (s *store) has(id wire.TxID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept[id]) > 0
}

// size is how many transactions have values here, and their bytes.
func (s *store) size() (transactions, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept), s.shares.Used()
}
