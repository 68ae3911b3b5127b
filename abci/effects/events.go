package effects

import (
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Event is something the core is told. Events that end an operation answer the one Action that
// asked for it.
type Event interface{ event() }

// The events that the order and the network tell.
type (
	// Started gives the tips of the order after a start; 0 before the first block. Excluded is why
	// the organisation was excluded when the node ended, if it was. Voted is what it voted before
	// on executions that may still be voted on, one vote for each (E5).
	Started struct {
		Ordered, Certified uint64
		Excluded           string
		Voted              []wire.EffectVote
	}
	// VotesUnknown says on which executions a lost node may have voted for this organisation, after
	// Started and again when it is known when that node voted last. Voted are those of its votes
	// that the order shows.
	VotesUnknown struct {
		Unknown Unknown
		Voted   []wire.EffectVote
	}
	// Proposed is a block proposed but not decided, and the certificate its proposal carries for
	// the block before.
	Proposed struct {
		Block       *wire.OrderedBlock
		Certificate *wire.Certificate
	}
	// VoteSeen is an effect vote in another validator's precommit.
	VoteSeen struct {
		Organisation string
		Vote         wire.EffectVote
	}
	// Decided is what an order block changed, once it is durable in the node's block store (E2).
	Decided struct {
		Height      int64
		Ordered     *wire.OrderedBlock
		Certificate *wire.Certificate
	}
	// Tick says only that time passed.
	Tick struct{}
	// Rejoin is the operator's wish to try again after an exclusion.
	Rejoin struct{}
	// GiveUp is the operator's wish to vote that a transaction of an execution does not end.
	GiveUp struct {
		Key   wire.Key
		Index uint32
	}
)

// How the operations on database and store ended.
type (
	// Executed ends Execute. On Stuck, StuckAt is the transaction and Why the error; on anything
	// else but Fine nothing is open. Of a block executed again, Why names its DEPLOY transactions
	// that failed.
	Executed struct {
		Key     wire.Key
		Hash    wire.Hash
		Parts   string // for the vote, from effect round 1 on
		Failure Failure
		StuckAt uint32
		Why     string
	}
	// Committed ends Commit. After a failure it is not known whether the block is in the database.
	Committed struct{ Failure Failure }
	// RolledBack ends Rollback.
	RolledBack struct{ Failure Failure }
	// Repaired ends Repair with the number of rows put right; Why is what the database says of
	// BeyondRepair.
	Repaired struct {
		Rows    int
		Failure Failure
		Why     string
	}
	// CertificateStored ends StoreCertificate.
	CertificateStored struct{ Failure Failure }
	// DeviationRecorded ends RecordDeviation.
	DeviationRecorded struct{ Failure Failure }
	// Adopted ends Adopt. After anything but Fine nothing is open; Why is what the database says of
	// BeyondRepair.
	Adopted struct {
		Key     wire.Key
		Hash    wire.Hash
		Failure Failure
		Why     string
	}
	// BlockRestored ends RestoreBlock.
	BlockRestored struct{ Failure Failure }
	// DatabaseAt ends ReadPosition.
	DatabaseAt struct {
		Position backend.Position
		Failure  Failure
	}
	// Joined ends Join; Why is the reason of a failure.
	Joined struct {
		Failure Failure
		Why     string
	}
	// Fetched ends FetchOrdered. Certificate is nil when the block is not certified.
	Fetched struct {
		Number      uint64
		Block       *wire.OrderedBlock
		Certificate *wire.Certificate
		Failure     Failure
	}
)

func (Started) event()           {}
func (VotesUnknown) event()      {}
func (Proposed) event()          {}
func (VoteSeen) event()          {}
func (Decided) event()           {}
func (Tick) event()              {}
func (Rejoin) event()            {}
func (GiveUp) event()            {}
func (Executed) event()          {}
func (Committed) event()         {}
func (RolledBack) event()        {}
func (Repaired) event()          {}
func (CertificateStored) event() {}
func (DeviationRecorded) event() {}
func (Adopted) event()           {}
func (BlockRestored) event()     {}
func (DatabaseAt) event()        {}
func (Joined) event()            {}
func (Fetched) event()           {}

// Failure says how an operation ended, as far as the core acts differently on it.
type Failure uint8

// The failures of backend.go, and Cancelled: the core itself asked for the end. NoHelp: no other
// organisation told anything of use, and it may be different later. Gone: the node's stores begin
// after block 1, and the other organisations can tell the ledger.
const (
	Fine Failure = iota
	Unavailable
	OutOfTurn
	BeyondRepair
	Stuck
	Cancelled
	NoHelp
	Gone
)

func (f Failure) String() string {
	return [...]string{"fine", "unavailable", "out of turn", "beyond repair", "stuck", "cancelled", "no help", "gone"}[f]
}

// Action is something the shell has to do. All but Cancel, Answer and Report are operations, ended
// by an event.
type Action interface{ action() }

// Operations, of which one runs at a time (E4).
type (
	// Execute runs a block in a transaction that stays open. Ends with Executed.
	Execute struct {
		Block    *wire.OrderedBlock
		Previous wire.Hash
		// Certified is the hash that the block has, when it came out otherwise here and is tried
		// again; else zeros.
		Certified wire.Hash
		// Agreed: consent was given to what the block does, so that it runs for as long as it takes
		// here.
		Agreed bool
	}
	// Commit makes the open block permanent. Ends with Committed.
	Commit struct{ Number uint64 }
	// Rollback undoes the open block. Ends with RolledBack.
	Rollback struct{ Number uint64 }
	// Repair takes one step to bring the tables back to the certified state at the end of block
	// Number. Ends with Repaired.
	Repair struct {
		Step      backend.Step
		Number    uint64
		Certified wire.Hash
		Deviating uint64
		Found     wire.Hash
	}
	// Adopt takes a certified block's effects from another organisation, in a transaction that
	// stays open: executed here, the block has others. Ends with Adopted.
	Adopt struct {
		Block               *wire.OrderedBlock
		Previous, Certified wire.Hash
	}
	// StoreCertificate keeps a certificate beside its block. Ends with CertificateStored.
	StoreCertificate struct{ Certificate wire.Certificate }
	// RecordDeviation keeps what cured a deviation. Ends with DeviationRecorded.
	RecordDeviation struct {
		Number          uint64
		Expected, Found wire.Hash
		CuredBy         string
		TookMS          int64
	}
	// RestoreBlock has another organisation tell a committed block that is kept otherwise than
	// agreed. Ends with BlockRestored.
	RestoreBlock struct{ Number uint64 }
	// Join has another organisation tell the ledger as it is at the end of a certified block, for a
	// database without blocks. Ends with Joined.
	Join struct{}
	// ReadPosition asks where the database stands, connecting when it has to. Ends with DatabaseAt.
	ReadPosition struct{}
	// FetchOrdered reads a block and its certificate from the node's own stores. Ends with Fetched.
	FetchOrdered struct{ Number uint64 }
)

// Requests that nothing ends.
type (
	// Cancel cuts the running Execute short, which still ends with Executed.
	Cancel struct{ Key wire.Key }
	// Answer tells the clients of a block, which is committed (E6).
	Answer struct{ Block *wire.OrderedBlock }
	// Report is a line for the operator.
	Report struct {
		What            Incident
		Number          uint64
		Round           uint32
		Expected, Found wire.Hash
		Rows            int    // put right
		Index           uint32 // of a transaction that is stuck
		TookMS          int64
		Reason          string
	}
)

func (Execute) action()          {}
func (Commit) action()           {}
func (Rollback) action()         {}
func (Repair) action()           {}
func (Adopt) action()            {}
func (StoreCertificate) action() {}
func (RecordDeviation) action()  {}
func (RestoreBlock) action()     {}
func (Join) action()             {}
func (ReadPosition) action()     {}
func (FetchOrdered) action()     {}
func (Cancel) action()           {}
func (Answer) action()           {}
func (Report) action()           {}

// Incident is the subject of a Report.
type Incident string

// The incidents.
const (
	BlockCommitted    Incident = "block committed"
	Deviation         Incident = "effects deviate"
	RowsRepaired      Incident = "tables repaired"
	NobodyHelps       Incident = "no other organisation tells the rows of that block; asking again"
	CannotCure        Incident = "what the scrubber found cannot be repaired; going on"
	AdoptsBlock       Incident = "the block has other effects here, though the tables are as certified; taking them from another organisation"
	NobodyTellsBlock  Incident = "no other organisation tells the effects of that block; asking again"
	BlockAdopted      Incident = "block adopted: this database executes it otherwise than the others"
	BlockTakenOver    Incident = "block taken over from another organisation"
	NobodyTells       Incident = "no other organisation tells a block that is not kept as agreed; asking again"
	Recovered         Incident = "deviation cured"
	RoundAdvanced     Incident = "effect round advanced"
	TransactionStuck  Incident = "transaction does not end"
	MachineFails      Incident = "this machine fails at a block that the others agree on; trying again"
	AnnouncesFull     Incident = "nothing else helps; all blocks are about to be executed again"
	FullForbidden     Incident = "nothing else helps; executing all blocks again is not allowed"
	StartsOver        Incident = "nothing else helped; executing all blocks again from the first"
	MakesAnew         Incident = "executing all blocks again"
	LedgerJoined      Incident = "took the ledger over from another organisation"
	NobodyTellsLedger Incident = "no other organisation tells the ledger; asking again"
	DatabaseLost      Incident = "database lost"
	DatabaseBack      Incident = "database back"
	NodeExcluded      Incident = "excluded from effect consensus"
	OperatorRejoins   Incident = "rejoining at the operator's wish"
	WaitedTooLong     Incident = "open block rolled back while waiting for consent"
	CommitWasUnknown  Incident = "outcome of COMMIT is unknown"
	ConflictingVotes  Incident = "an organisation voted twice for one execution"
	OrderIsBehind     Incident = "database is ahead of the order"
	RecoveryEscalates Incident = "effects deviate again"
)
