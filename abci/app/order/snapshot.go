package order

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/chainify-db/chainify/abci/wire"
)

// snapshotDomain begins each snapshot; that of a chain with a version of the protocol beyond the
// first begins with snapshotDomainVersions.
const (
	snapshotDomain         = "chainify/order-state/1"
	snapshotDomainVersions = "chainify/order-state/2"
)

// Snapshot is the complete state of the order after one order block. A node can go on from it.
//
// Invariant A12: it is a function of the ordered blocks alone, byte for byte. The AppHash of its
// height, and of those after it, commits to it.
type Snapshot struct {
	Manifest Manifest
	state    *State
}

// Chunks returns the snapshot, which may have a gigabyte, in chunks. A chunk is valid until the
// next one is asked for. The iterator must not be used after the state is settled.
func (s *Snapshot) Chunks() iter.Seq[[]byte] { return s.state.chunks() }

// Seal makes the snapshot of this state; nil: its height is not one for snapshots. It is called
// once, before AppHash. Cost: hashes the ids of the replay window; memory for one chunk.
func (s *State) Seal() *Snapshot {
	every := s.registry.record.Parameters.SnapshotEvery
	if every == 0 || s.height%int64(every) != 0 {
		return nil
	}
	m := manifestOf(s.hash(), s.ordered, s.chunks())
	s.snapshot = m.Root(s.height)
	return &Snapshot{m, s}
}

// snapshotRecord is the part of a snapshot before the replay window.
type snapshotRecord struct {
	chainID    string
	state      stateRecord
	registries []RegistryRecord
	clients    clientsRecord
}

// chunks writes the snapshot of this state, a chunk at a time.
func (s *State) chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		m := snapshotRecord{chainID: s.registry.ChainID(), state: s.record(), registries: s.registries, clients: clientsRecord{s.clients.hash, s.clients.of}}
		c := &coder{}
		m.code(c)
		count, accepted := s.unexpired()
		n := uint32(count)
		c.u32(&n)
		c.bytes = slices.Grow(c.bytes, min(count*acceptedBytes, SnapshotChunkBytes)+acceptedBytes)
		for a := range accepted {
			if a.code(c); len(c.bytes) >= SnapshotChunkBytes && !c.cut(yield) {
				return
			}
		}
		if c.cut(yield) && len(c.bytes) > 0 {
			yield(c.bytes)
		}
	}
}

// cut yields all full chunks of the bytes written so far; false: the caller wants no more.
func (c *coder) cut(yield func([]byte) bool) bool {
	rest := c.bytes
	for ; len(rest) >= SnapshotChunkBytes; rest = rest[SnapshotChunkBytes:] {
		if !yield(rest[:SnapshotChunkBytes]) {
			return false
		}
	}
	c.bytes = append(c.bytes[:0], rest...)
	return true
}

// unexpired returns the transactions that no later order block may accept again, by expiry and id,
// and their number.
func (s *State) unexpired() (count int, all iter.Seq[Accepted]) {
	added := slices.DeleteFunc(slices.Clone(s.added), func(a Accepted) bool { return a.ValidUntil <= uint64(s.height) })
	slices.SortFunc(added, Accepted.compare)
	known, window := s.window.after(s.height)
	return known + len(added), func(yield func(Accepted) bool) {
		rest := added
		for a := range window {
			for ; len(rest) > 0 && rest[0].compare(a) < 0; rest = rest[1:] {
				if !yield(rest[0]) {
					return
				}
			}
			if !yield(a) {
				return
			}
		}
		for _, a := range rest {
			if !yield(a) {
				return
			}
		}
	}
}

// OpenSnapshot makes the state and the registries so far of a snapshot, and accepts one spelling
// only. The caller has checked its hashes.
func OpenSnapshot(body []byte) (*State, error) {
	var m snapshotRecord
	c := &coder{reads: true, bytes: body}
	m.code(c)
	accepted := acceptedIn(c)
	if c.err != nil {
		return nil, fmt.Errorf("decode snapshot: %w", c.err)
	}
	for _, r := range m.registries {
		if r.ChainID != m.chainID {
			return nil, errors.New("decode snapshot: registry of another chain")
		}
	}
	clients := &Clients{of: m.clients.Of, hash: m.clients.Hash}
	state, err := m.state.restore(m.registries, clients, accepted)
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	rest := body
	for chunk := range state.chunks() {
		if !bytes.HasPrefix(rest, chunk) {
			return nil, errors.New("decode snapshot: it is spelled otherwise than a node spells it")
		}
		rest = rest[len(chunk):]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("decode snapshot: %d bytes more than a node writes", len(rest))
	}
	state.snapshot = manifestOf(state.hash(), state.ordered, state.chunks()).Root(state.height)
	return state, nil
}

// acceptedBytes is the size of one transaction of the replay window.
const acceptedBytes = 8 + len(wire.TxID{})

// acceptedIn reads the rest of a snapshot, the replay window.
func acceptedIn(c *coder) iter.Seq[Accepted] {
	n := uint32(0)
	c.u32(&n)
	switch want := uint64(n) * uint64(acceptedBytes); {
	case want > uint64(len(c.bytes)):
		c.fail("%d transactions do not fit into %d bytes", n, len(c.bytes))
	case want < uint64(len(c.bytes)):
		c.fail("%d bytes too many", uint64(len(c.bytes))-want)
	}
	return func(yield func(Accepted) bool) {
		for range n {
			var a Accepted
			if a.code(c); !yield(a) {
				return
			}
		}
	}
}

// Registries are those so far, in the order in which they were in force. They must not be changed.
func (s *State) Registries() []RegistryRecord { return s.registries }

// Accepted lists the transactions that no later order block may accept again, by expiry and id.
func (s *State) Accepted() iter.Seq[Accepted] {
	_, all := s.unexpired()
	return all
}

func (m *snapshotRecord) code(c *coder) {
	domain := snapshotDomain
	if slices.ContainsFunc(m.registries, func(r RegistryRecord) bool { return r.Parameters.ProtocolVersion > 0 }) {
		domain = snapshotDomainVersions
	}
	if c.text(&domain); domain != snapshotDomain && domain != snapshotDomainVersions {
		c.fail("it begins with %.40q, want %q or %q", domain, snapshotDomain, snapshotDomainVersions)
	}
	c.versions = domain == snapshotDomainVersions
	c.text(&m.chainID)
	m.state.code(c)
	list(c, &m.registries, func(r *RegistryRecord) {
		if c.reads {
			r.ChainID = m.chainID
		}
		r.code(c)
	})
	c.hash(&m.clients.Hash)
	table(c, &m.clients.Of, func(o *organisationClients) {
		c.u64(&o.Changes)
		table(c, &o.Roles, c.text)
	})
}

func (a *Accepted) code(c *coder) {
	c.u64(&a.ValidUntil)
	c.hash(&a.ID)
}

func (m *stateRecord) code(c *coder) {
	c.i64(&m.Height)
	c.i64(&m.TimeMicro)
	c.hash(&m.Chain)
	c.u64(&m.Ordered)
	c.u64(&m.Age)
	c.u64(&m.Certified)
	c.hash(&m.CertifiedHash)
	c.u64(&m.Governance.Changes)
	c.hash(&m.Governance.Hash)
	c.data(&m.Governance.Waiting)
	c.i64(&m.Governance.Announced)
	table(c, (*map[string]Suspension)(&m.Suspensions), func(s *Suspension) {
		c.number(&s.Times)
		c.i64(&s.UntilMicro)
	})
	pending := m.Pending != nil
	if c.flag(&pending); !pending {
		return
	}
	if c.reads {
		m.Pending = &Pending{}
	}
	m.Pending.code(c)
}

func (p *Pending) code(c *coder) {
	c.u64(&p.Number)
	c.hash(&p.OrderHash)
	c.i64(&p.Height)
	c.i64(&p.TimeMicro)
	c.u32(&p.TxCount)
	list(c, &p.Clients.Names, c.text)
	c.data(&p.Clients.Runs)
	for _, n := range []*int{&p.TimeMaxMS, &p.DeployTimeMaxMS, &p.Organisations, &p.Consent} {
		c.number(n)
	}
	c.protocol(&p.Protocol)
	c.u32(&p.Round)
	c.i64(&p.SinceMicro)
	list(c, &p.Quarantined, c.u32)
	c.flag(&p.QuarantineAll)
	c.number(&p.Undecided)
	list(c, &p.Stuck, c.text)
	list(c, &p.Suspects, c.u32)
	list(c, &p.Votes, func(v *Vote) {
		c.text(&v.Organisation)
		c.data(&v.Validator)
		c.i64(&v.Height)
		round := uint32(v.Round)
		if c.u32(&round); c.reads {
			v.Round = int32(round)
		}
		c.data(&v.Extension)
		c.data(&v.Signature)
	})
	list(c, &p.Revealed, c.hash)
}

func (record *RegistryRecord) code(c *coder) {
	c.u64(&record.Changes)
	c.u64(&record.FromBlock)
	p := &record.Parameters
	for _, n := range []*int{
		&record.Consent, &record.Approvals, &p.EffectRoundTimeoutMS, &p.EffectRoundsMax, &p.BlockTransactionsMax, &p.BlockTimeMaxMS,
		&p.DeployTimeMaxMS, &p.BlockClientMax, &p.BlockOrganisationMax, &p.BlockKeysMax, &p.SnapshotEvery,
	} {
		c.number(n)
	}
	c.protocol(&p.ProtocolVersion)
	list(c, &record.Organisations, func(o *Organisation) {
		c.text(&o.Name)
		c.data(&o.GatewayKey)
		c.flag(&o.OrderingOnly)
		list(c, &o.Validators, func(v *Validator) {
			c.data(&v.Key)
			c.i64(&v.Power)
		})
	})
}

// table is a map as a list, by key.
func table[T any](c *coder, v *map[string]T, each func(*T)) {
	keys := slices.Sorted(maps.Keys(*v))
	if c.reads {
		*v = nil
	}
	list(c, &keys, func(key *string) {
		c.text(key)
		one := (*v)[*key]
		if each(&one); c.reads && c.err == nil {
			if *v == nil {
				*v = map[string]T{}
			}
			(*v)[*key] = one
		}
	})
}
