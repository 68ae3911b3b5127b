package order

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/chainify-db/chainify/abci/wire"
)

// State is the order-level state after one order block. It does not change, except that Settle
// moves the replay window it shares with the state before.
//
// Invariant A1: it is a function of the ordered blocks alone.
// Invariant A3: at most one ledger block is pending; meanwhile no bundle is ordered.
type State struct {
	registry      *Registry // of the next order block
	window        *Window
	added         []Accepted // by the last order block, not yet in the window
	height        int64
	chain         wire.Hash
	ordered       uint64 // number of the last ledger block
	pending       *Pending
	age           uint64
	certified     uint64
	certifiedHash wire.Hash
	clients       *Clients
	suspensions   suspensions
	timeMicro     int64 // of the last order block
	governance    Governance
	next          *Registry // what the change that waits makes; nil: none waits
	effective     int64     // the height before which it is not in force
	// registries are those so far, in the order in which they were in force; the last is registry.
	registries []RegistryRecord
	snapshot   wire.Hash // root of the last snapshot; zeros before the first
}

// Pending is the ledger block that is ordered and not certified.
type Pending struct {
	Number    uint64    `json:"number"`
	OrderHash wire.Hash `json:"order_hash"`
	Height    int64     `json:"height"`
	TimeMicro int64     `json:"time"` // of its order block
	TxCount   uint32    `json:"tx_count"`
	Clients   clients   `json:"clients"` // of its transactions
	// TimeMaxMS and DeployTimeMaxMS are those of the registry it was ordered under (A5).
	TimeMaxMS       int `json:"time_max"`
	DeployTimeMaxMS int `json:"deploy_time_max"`
	// Organisations is n, how many vote on it, and Consent c, how many have to agree (A5).
	Organisations int `json:"organisations"`
	Consent       int `json:"consent"`
	// Protocol is the version that it is executed and voted on under (A5).
	Protocol wire.Protocol `json:"protocol,omitempty"`

	Round         uint32   `json:"round"`
	SinceMicro    int64    `json:"since"` // block time at which c organisations had voted in this round
	Quarantined   []uint32 `json:"quarantined"`
	QuarantineAll bool     `json:"quarantine_all"`
	// Undecided counts the rounds that ended otherwise than by stuck votes; Stuck are the clients
	// of whom stuck votes have quarantined something.
	Undecided int      `json:"undecided,omitempty"`
	Stuck     []string `json:"stuck,omitempty"`
	Suspects  []uint32 `json:"suspects,omitempty"` // what the parts of votes are about, from round 1 on; nil: all transactions

	// Votes holds at most one vote for each organisation, its first of this round on the chain
	// (invariant E3).
	Votes    []Vote      `json:"votes"`
	Revealed []wire.Hash `json:"revealed"` // in the order of their certificates, each fitting a vote
}

// Vote is a vote on the chain.
type Vote struct {
	wire.CertifiedVote
	vote wire.EffectVote // the extension, decoded
}

// Genesis returns the state before the first order block, which will have initialHeight.
func (r *Registry) Genesis(initialHeight int64) *State {
	height := max(initialHeight, 1) - 1
	return &State{registry: r, registries: []RegistryRecord{r.record}, window: newWindow(height), clients: &Clients{}, height: height}
}

// Registry returns who takes part in the next order block.
func (s *State) Registry() *Registry { return s.registry }

// Height returns the height of the last order block.
func (s *State) Height() int64 { return s.height }

// LastOrdered returns the number of the last ledger block, 0 before the first.
func (s *State) LastOrdered() uint64 { return s.ordered }

// LastCertified returns the number and LedgerBlockHash of the last certified ledger block.
func (s *State) LastCertified() (uint64, wire.Hash) { return s.certified, s.certifiedHash }

// Pending returns the pending ledger block or nil. It must not be changed.
func (s *State) Pending() *Pending { return s.pending }

// Governance returns how the changes of the registry stand.
func (s *State) Governance() Governance { return s.governance }

// Upgrade is the version of the protocol that the change which waits brings, and the height before
// which it is not in force; zeros: none waits that brings one.
func (s *State) Upgrade() (version uint32, height int64) {
	if s.next == nil || s.next.Protocol() == s.registry.Protocol() {
		return 0, 0
	}
	return s.next.Protocol().Version(), s.effective
}

// Settles tells that the next order block holds no bundles, since a change comes into force.
func (s *State) Settles() bool { return s.settles(s.height + 1) }

// Age counts the order blocks for which the ledger block last pending has been so.
func (s *State) Age() uint64 { return s.age }

// Added returns the transactions the last order block accepted.
func (s *State) Added() []Accepted { return s.added }

// AppHash returns H("chainify/app/4" ‖ chain ‖ H(registry) ‖ u64 age ‖ H(last governance change) ‖
// u64 height of its announcement ‖ clients). It changes with every ordered ledger block and every
// change of clients. It also changes with a change of the registry until that is in force, and
// while a ledger block is pending. It stays when the ledger block is certified. So, with
// create_empty_blocks off, CometBFT makes a block for the certificate and none in a quiet network.
//
// On a chain with snapshots it is H("chainify/app/5" ‖ that hash ‖ root of the last snapshot). Seal
// has computed that root before.
func (s *State) AppHash() wire.Hash {
	if s.registry.record.Parameters.SnapshotEvery == 0 {
		return s.hash()
	}
	return Manifest{State: s.hash()}.appHash(s.snapshot)
}

func (s *State) hash() wire.Hash {
	out := append([]byte("chainify/app/4"), s.chain[:]...)
	out = append(out, s.registry.hash[:]...)
	out = binary.BigEndian.AppendUint64(out, s.age)
	out = append(out, s.governance.Hash[:]...)
	out = binary.BigEndian.AppendUint64(out, uint64(s.governance.Announced))
	return sha256.Sum256(append(out, s.clients.hash[:]...))
}

// Settle moves the replay window on to this state once its order block is committed. States derived
// from the state before must not be used any more; Apply refuses them.
func (s *State) Settle() {
	s.window.settle(s.height, s.added)
	s.added = nil
}

// Key names the execution that is voted on now.
func (p *Pending) Key() wire.Key {
	return wire.Key{Number: p.Number, OrderHash: p.OrderHash, Round: p.Round, Protocol: p.Protocol}
}

// Block returns the ledger block as it is to be executed, with the body it was ordered with.
func (p *Pending) Block(body *Body) *wire.OrderedBlock {
	return &wire.OrderedBlock{
		Number: p.Number, Height: p.Height, TimeMicro: p.TimeMicro, OrderHash: p.OrderHash, Organisations: p.Organisations, Consent: p.Consent, Round: p.Round, Protocol: p.Protocol,
		Quarantined: p.Quarantined, QuarantineAll: p.QuarantineAll, Suspects: p.Suspects, Budget: p.Budget(), Submitters: p.Clients.submitters(), IDs: body.IDs, Transactions: body.Transactions,
	}
}

func (p *Pending) inQuestion() wire.Suspects {
	return wire.Suspects{List: p.Suspects, Count: p.TxCount}
}

// VoteOf returns the vote of an organisation on the chain.
func (p *Pending) VoteOf(organisation string) (wire.EffectVote, bool) {
	for i := range p.Votes {
		if p.Votes[i].Organisation == organisation {
			return p.Votes[i].vote, true
		}
	}
	return wire.EffectVote{}, false
}

// fitsAVote reports whether some organisation voted for hash.
func (p *Pending) fitsAVote(hash wire.Hash) bool { return p.agreeing(hash) > 0 }

// agreeing counts the organisations that voted for hash.
func (p *Pending) agreeing(hash wire.Hash) (count int) {
	for i := range p.Votes {
		if p.Votes[i].vote.IsFor(p.Votes[i].Organisation, hash) {
			count++
		}
	}
	return count
}
