package order

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/chainify-db/chainify/abci/wire"
)

// stateRecord is a State without its registries, its clients and its replay window. As JSON it is
// stored on the node's own disk alone; a snapshot has an encoding of its own.
type stateRecord struct {
	Height        int64     `json:"height"`
	Chain         wire.Hash `json:"chain"`
	Ordered       uint64    `json:"ordered"`
	Pending       *Pending  `json:"pending"`
	Age           uint64    `json:"age"`
	Certified     uint64    `json:"certified"`
	CertifiedHash wire.Hash `json:"certified_hash"`

	Governance  Governance  `json:"governance"`
	Suspensions suspensions `json:"suspensions,omitempty"`
	TimeMicro   int64       `json:"time"`
	Snapshot    wire.Hash   `json:"snapshot"`
}

func (s *State) record() stateRecord {
	return stateRecord{s.height, s.chain, s.ordered, s.pending, s.age, s.certified, s.certifiedHash, s.governance, s.suspensions, s.timeMicro, s.snapshot}
}

// Record returns the state's bytes for storing it. The replay window is stored separately, as the
// transactions that each block Added.
func (s *State) Record() ([]byte, error) {
	raw, err := json.Marshal(s.record())
	if err != nil {
		return nil, fmt.Errorf("encode state at height %d: %w", s.height, err)
	}
	return raw, nil
}

// Restore makes the state again from its record, the registries so far, the clients and the
// accepted transactions that are not expired.
func Restore(record []byte, registries []RegistryRecord, clients *Clients, accepted iter.Seq[Accepted]) (*State, error) {
	var m stateRecord
	if err := json.Unmarshal(record, &m); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	if p := m.Pending; p != nil && p.TimeMaxMS == 0 && len(registries) > 0 { // kept by 0.1
		times := registries[len(registries)-1].Parameters.withTimes()
		p.TimeMaxMS, p.DeployTimeMaxMS = times.BlockTimeMaxMS, times.DeployTimeMaxMS
	}
	return m.restore(registries, clients, accepted)
}

func (m *stateRecord) restore(registries []RegistryRecord, clients *Clients, accepted iter.Seq[Accepted]) (*State, error) {
	if len(registries) == 0 {
		return nil, errors.New("decode state: no registry")
	}
	r, err := registries[len(registries)-1].Open()
	if err != nil {
		return nil, fmt.Errorf("decode state: registry: %w", err)
	}
	if m.Pending != nil {
		for i := range m.Pending.Votes {
			v := &m.Pending.Votes[i]
			vote, err := wire.DecodeEffectVote(v.Extension)
			if err != nil {
				return nil, fmt.Errorf("decode state: pending vote %d: %w", i, err)
			}
			v.vote = vote
		}
	}
	window := newWindow(m.Height)
	for a := range accepted {
		window.add(a)
	}
	state := &State{
		registry: r, registries: registries, snapshot: m.Snapshot, clients: clients, window: window, height: m.Height, chain: m.Chain, ordered: m.Ordered, pending: m.Pending,
		age: m.Age, certified: m.Certified, certifiedHash: m.CertifiedHash, governance: m.Governance, suspensions: m.Suspensions, timeMicro: m.TimeMicro,
	}
	if err := state.restoreChange(); err != nil {
		return nil, fmt.Errorf("decode state: change that waits: %w", err)
	}
	return state, nil
}
