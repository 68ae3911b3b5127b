// Package backend is the seam between effects and an organisation's database. Every engine
// implements Backend and passes the conformance suite of package backendtest.
package backend

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/chainify-db/chainify/abci/accuse"
	"github.com/chainify-db/chainify/abci/wire"
)

// Position is where a database stands: its last committed ledger block.
type Position struct {
	Number    uint64
	Hash      wire.Hash // zeros before the first block
	Certified uint64    // last block whose certificate is stored
	// Deviates: the database's own scrubber found rows that are not those of the certified state.
	// Repair at the position, with it as the deviating block, puts them right.
	Deviates bool
	// AnewUntil is the block up to which all blocks are executed again after Full; 0 when they are
	// not.
	AnewUntil uint64
	// FalseBlocks are the first of the blocks that its scrubber found to be kept otherwise than
	// agreed; RestoreBlock puts one right.
	FalseBlocks []uint64
}

// Execution is the result of executing a block, before COMMIT or ROLLBACK.
type Execution struct {
	Hash    wire.Hash // LedgerBlockHash
	Header  []byte
	Results []wire.TxResult
	// Effects is the effects hash of each transaction (spec/formats.md); only asked for, and given,
	// from effect round 1 on.
	Effects []wire.Hash
	// Slow is by how much the transactions of an organisation took longer than so many quick ones,
	// where that was seen to be much.
	Slow map[string]time.Duration
}

// RowDeviation is one row that differed from the certified state.
type RowDeviation struct {
	Table    string
	Key      []byte // JSON
	Expected []byte // JSON, nil: there should be none
	Found    []byte // JSON, nil: there was none
}

// Step is one way to bring the tables back to the certified state.
type Step uint8

// The steps, cheapest first.
const (
	Definitions Step = iota // put back what tables and deployed objects are
	Reindex                 // build indexes anew that do not find the rows of their tables
	Rows                    // put right the rows that differ from what checkpoint and history tell
	Replay                  // execute blocks again from the newest checkpoint that holds
	Rebase                  // take the tables as base of new checkpoints, when they are as certified
	State                   // take the rows that differ from another organisation: Restore, not Repair
	Adopt                   // take the next block's effects from another organisation: Adopt, not Repair
	Full                    // go back to before block 1, and execute all blocks again: Repair does the former
	stepsEnd
)

// Steps are all of them, in this order.
func Steps() []Step { return []Step{Definitions, Reindex, Rows, Replay, Rebase, State, Adopt, Full} }

func (s Step) String() string {
	return [...]string{"definitions", "reindex", "rows", "replay", "rebase", "state", "adopt", "full"}[s]
}

// InPart: the step puts one kind of thing right and says nothing of the others. When it finds
// nothing, the next step is to be taken.
func (s Step) InPart() bool { return s == Definitions || s == Reindex }

// StepOf is the step of this name.
func StepOf(name string) (Step, bool) {
	for s := range stepsEnd {
		if s.String() == name {
			return s, true
		}
	}
	return 0, false
}

// Ranges are ranges of keys: those whose hashes begin with these Bits bits (spec/formats.md),
// ascending.
type Ranges struct {
	Bits uint32
	List []uint32
}

// All is the one range with all keys.
func All() Ranges { return Ranges{List: []uint32{0}} }

// TableState is how a table is at the end of a block.
type TableState struct {
	Table string
	Rows  uint64
	State wire.Hash // table_state of spec/formats.md
}

// RangeDigest tells of the rows of one range.
type RangeDigest struct {
	Range  uint32
	Rows   uint64
	Digest wire.Hash
}

// Reading gives another organisation the tables as of the end of one block, all of one moment. Its
// methods are called one at a time. Nothing it tells is trusted.
type Reading interface {
	// Tables are all tables on the ledger.
	Tables() []TableState
	// Digests tells of the ranges of so many bits within the given ones that have rows, ascending.
	Digests(ctx context.Context, table string, within Ranges, bits uint32) ([]RangeDigest, error)
	// Rows gives the rows in these ranges one by one, as they travel; each returning an error ends
	// it.
	Rows(ctx context.Context, table string, in Ranges, each func(cells []byte) error) error
	// Close ends it.
	Close()
}

// Foundation is a Reading that also tells what the ledger is built on (spec/state-transfer.md).
type Foundation interface {
	Reading
	// Foundation gives headers, states and DEPLOY transactions part by part, as they travel; each
	// returning an error ends it.
	Foundation(ctx context.Context, each func(part []byte) error) error
}

// Past gives another organisation stored blocks. The receiver trusts nothing of it.
type Past interface {
	// Block gives a block that has this hash here part by part, as they travel: its header, then
	// its changes; each returning an error ends it.
	Block(ctx context.Context, number uint64, hash wire.Hash, each func(part []byte) error) error
	// Close ends it.
	Close()
}

// Errors a Backend tells apart. Any other error means: not available now, try again later.
var (
	// ErrOutOfTurn: the database is not at the block before the one asked for.
	ErrOutOfTurn = errors.New("block out of turn")
	// ErrBeyondRepair: checkpoint and history do not give the certified state (SQLSTATE CH002); a
	// further step may.
	ErrBeyondRepair = errors.New("checkpoint and history do not give the certified state")
	// ErrNoHelp: another organisation did not answer, or told what is of no use; a further one may
	// help.
	ErrNoHelp = errors.New("no help from another organisation")
	// ErrFalse: what another organisation told cannot be so, whatever is the matter here. Its bytes
	// alone show that, against a certified hash: it is to be named. A further one may help.
	ErrFalse = accuse.ErrFalse
	// ErrUnfit: what another organisation told does not fit here, by its fault or by that of this
	// database. A further one may help: if so, the word of the first was false.
	ErrUnfit = errors.New("what another organisation told does not fit here")
	// ErrNothingOpen: COMMIT without an executed block; the connection was lost since.
	ErrNothingOpen = errors.New("no executed block is open")
)

// Obstacle is an ErrBeyondRepair whose reason the database tells: what an operator has to look at.
type Obstacle struct {
	Why string
	Err error
}

func (o *Obstacle) Error() string { return o.Err.Error() + ": " + o.Why }

// Unwrap makes it ErrBeyondRepair.
func (o *Obstacle) Unwrap() []error { return []error{ErrBeyondRepair, o.Err} }

// StuckError says that execution was cut off because the block did not end within its budget, and
// which transaction is to blame.
type StuckError struct{ Index uint32 }

func (e *StuckError) Error() string { return "transaction does not end" }

// Backend is an organisation's database. At most one block is open at a time. Methods are called
// from one goroutine at a time, except Position, Outcomes, Read and ReadPast, which may be called
// at any time.
type Backend interface {
	// Position reads the last committed block; it also (re)connects.
	Position(ctx context.Context) (Position, error)
	// Execute runs the block in a transaction that stays open. A block already open is rolled back
	// first. Cancelling ctx cancels the statement and rolls back. A block that runs longer than its
	// budget gives *StuckError, with everything rolled back.
	Execute(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (Execution, error)
	// Retry is Execute of a block whose certified hash is known and that came out otherwise: the
	// rows that it changes are put right before, when that gives this hash.
	Retry(ctx context.Context, b *wire.OrderedBlock, previous, certified wire.Hash) (Execution, error)
	// Commit makes the open block permanent. After an error the caller asks Position which it was.
	Commit(ctx context.Context) error
	// Rollback undoes the open block, if any.
	Rollback(ctx context.Context) error
	// StoreCertificate keeps a certificate beside its committed block, beside an open one too;
	// idempotent. ErrBeyondRepair: the block is recorded with another hash.
	StoreCertificate(ctx context.Context, c wire.Certificate) error
	// Repair takes one step to bring the ledger tables back to the certified state at the end of
	// block number (the position), and reports what differed. The hash found was seen at block
	// deviating. It rolls an open block back first. After Full the position is before block 1, and
	// RecordDeviation of the block in Position.AnewUntil ends what it began.
	Repair(ctx context.Context, step Step, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]RowDeviation, error)
	// Read begins to tell of the tables at the end of a block that has this hash here; it may be
	// called at any time. ErrOutOfTurn: this database is not there yet, or too far ahead, or has
	// another block there.
	Read(ctx context.Context, number uint64, hash wire.Hash) (Reading, error)
	// Restore is Repair with rows of another organisation's reading at the same block, which
	// Restore does not close. Nothing is kept unless all tables come out as certified. ErrNoHelp:
	// the reading failed; ErrFalse: what it told cannot be so; ErrUnfit: it does not fit;
	// ErrBeyondRepair: it is of no use.
	Restore(ctx context.Context, from Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]RowDeviation, error)
	// ReadPast begins to tell of earlier blocks; it may be called at any time.
	ReadPast(ctx context.Context) (Past, error)
	// RestoreBlock puts a committed block right that is kept otherwise than agreed. It takes what
	// the block holds beside its transactions from another organisation's word, which it does not
	// close. It keeps that only when all of it is as certified. Errors as Restore.
	RestoreBlock(ctx context.Context, from Past, block *wire.OrderedBlock, certified wire.Hash) error
	// Adopt is Execute of a certified block, with another organisation's word in place of running
	// its transactions: the changes told are applied as rows, in a transaction that stays open. The
	// block has the certified hash, or nothing is kept of it. ErrNoHelp: the word was not
	// had; ErrFalse, ErrUnfit: it is not as certified; ErrBeyondRepair: it is, and cannot be
	// applied here. Any other error tells of this database.
	// Transactions that failed have the SQLSTATE CH012, quarantined ones that which they have
	// elsewhere.
	Adopt(ctx context.Context, from Past, b *wire.OrderedBlock, previous, certified wire.Hash) (Execution, error)
	// RecordDeviation completes the record of a deviation that was cured.
	RecordDeviation(ctx context.Context, number uint64, expected, found wire.Hash, curedBy string, took time.Duration) error
	// Outcomes looks transactions up among the committed blocks, in one query: those that are
	// there, each once, in any order.
	Outcomes(ctx context.Context, ids []wire.TxID) ([]wire.TxResult, error)
	// Close rolls back and disconnects.
	Close() error
}

// Joiner is a Backend whose database may begin, empty, with a block that is not the first.
type Joiner interface {
	// Join makes the ledger of another organisation's reading in a database without blocks: what it
	// is built on, and the rows at the end of block number, which has this hash. The reading is not
	// closed. There is no ledger unless all of it is as certified; rows received are kept for the
	// next attempt. It tells news how many of a table's rows are here: before they come, and after
	// each piece. Errors as Restore.
	Join(ctx context.Context, from Foundation, number uint64, certified wire.Hash, news func(table string, here, rows uint64)) error
}

// Health is a database's report for its operator.
type Health struct {
	Deviations    int           // found and not put right
	ScrubAge      time.Duration // since the ledger table that waits longest was last found well, or attached; 0: there is none
	ScrubInterval time.Duration // in which each should be read; 0: the scrubber is off
}

// Mirrors is how far the analytics worker is with the tables that it mirrors. Without a worker all
// but Wanted and Pinned are 0.
type Mirrors struct {
	Wanted  int   // tables that are to be mirrored
	Serving int   // of them, those that queries get answers from
	Lag     int64 // blocks that the slowest of these is behind the database
	Bytes   int64 // memory of mirrors
	Pinned  int   // snapshots with a name
	Recent  int   // snapshots of the newest blocks, without one
	Readers int64 // queries that read a snapshot now
}

// Servers is how the organisation's database servers stand beside the one that the node works on,
// as of one moment.
type Servers struct {
	Standbys       int // follow it
	LeftBehind     int // standbys that follow no server of the newest epoch, or have not got to it
	OtherPrimaries int // take changes beside it: two primaries
	Silent         int // did not answer
	LastBlock      uint64
	StandbyBlocks  []uint64 // the last block of each that follows
}

// Lag is by how many blocks the slowest standby that follows is behind.
func (s Servers) Lag() uint64 {
	lag := uint64(0)
	for _, n := range s.StandbyBlocks {
		if n < s.LastBlock {
			lag = max(lag, s.LastBlock-n)
		}
	}
	return lag
}

// Inspector is a Backend that tells its health, at any time.
type Inspector interface {
	// Servers tells how the servers beside this one stood lately; zeros: there are none, or nothing
	// is known yet.
	Servers() Servers
	Inspect(ctx context.Context) (Health, error)
	// Mirrors asks the analytics worker, where tables are mirrored.
	Mirrors(ctx context.Context) (Mirrors, error)
}

// Finding is one thing of a ledger that does not hold.
type Finding struct {
	Block  uint64 `json:"block"`
	What   string `json:"what"`
	Detail string `json:"detail"`
}

// Level says how bad a condition is.
type Level string

// The levels, the worst first.
const (
	Bad  Level = "bad"  // it does not work, or what is agreed may be lost
	Warn Level = "warn" // it works, and will not some day
	Good Level = "ok"
)

// Condition is the result of one check of a database by an operator.
type Condition struct {
	Level Level
	Check string
	Found string
	Mend  string // empty when Good
}

// Maintainer is a Backend whose scrubber runs in the node. Maintain works until ctx ends, beside
// blocks; its findings show in Position.
type Maintainer interface {
	Maintain(ctx context.Context, log *slog.Logger)
}

// Rehearsal is what running a transaction, undone again, showed of the agreement it takes
// (spec/agreement.md).
type Rehearsal struct {
	Wanted   []string // who else has to agree, or can; ascending
	Refusal  string   // why this organisation does not agree; empty: it does
	SQLState string   // of a transaction that fails here; then nothing else is known
	Message  string
}

// Rehearser is a database that knows of agreement policies. Its methods may be called at any time,
// by several at once.
type Rehearser interface {
	// HasPolicies reports whether any table has an agreement policy.
	HasPolicies(ctx context.Context) (bool, error)
	// Rehearse runs transactions, as ordered, each by itself, and undoes them: what each showed, in
	// their order. The error of one is an error of all. For whom, says For: nobody keeps the others
	// from their turn. For how long, says Allow: what the database works for it is taken from that,
	// and nothing runs any more when it is gone.
	Rehearse(ctx context.Context, txs [][]byte) ([]Rehearsal, error)
}

// SealedColumn is a column whose values are private (spec/private.md).
type SealedColumn struct {
	Table, Column string // the table as schema.name
	Circle        string
	Type          string // of the values
}

// CircleMember says that an organisation is in a circle.
type CircleMember struct{ Circle, Organisation string }

// Circles says who may hold which private values, after the database's last block.
type Circles struct {
	Members []CircleMember
	Columns []SealedColumn
}

// Private is a database that holds private values. Its methods may be called at any time, by
// several at once. No error of theirs holds a value.
type Private interface {
	Circles(ctx context.Context) (Circles, error)
	// Hold puts values into the database, those that it lacks.
	Hold(ctx context.Context, values []*wire.SealedValue) error
	// Missing are cells whose values the organisation may hold and lacks, at most so many: a random
	// part where there are more. Nobody may have the values of some of them.
	Missing(ctx context.Context, most int) ([]*wire.SealedName, error)
	// Held are those of the named values that the database has.
	Held(ctx context.Context, names []*wire.SealedName) ([]*wire.SealedValue, error)
}

// OnTheWay has the private values that the database gets in the transaction of their block.
type OnTheWay interface {
	// Values are those of a transaction; nil: the node has none.
	Values(id wire.TxID) []*wire.SealedValue
	// Unheld says that the database did not take those of a block, which goes on without them. It
	// does not wait.
	Unheld(err error)
}

// DuePlan is a planned transaction of the organisation that may run (spec/transactions.md).
type DuePlan struct {
	ID   wire.TxID
	Role string // that planned it
}

// Planner is a database that knows of planned transactions. Its method may be called at any time.
type Planner interface {
	// DuePlans tells which plans of the organisation may run in a block of this time, at most so
	// many, the earliest first.
	DuePlans(ctx context.Context, blockTime time.Time, most int) ([]DuePlan, error)
}

// Asked is a transaction that a client asks for by SQL in a database that does not reach the node.
type Asked struct {
	Number     uint64
	Role       string // the client has shown to have it
	Kind       string // sql, deploy
	SQL        string
	Parameters string // a JSON array; empty: none
}

// Answer is the answer to a client's request.
type Answer struct {
	Number uint64
	// Transaction is the one that was submitted; zeros: nothing was. The database has its outcome,
	// or SQLState and Message say why it never runs.
	Transaction       wire.TxID
	SQLState, Message string
}

// OfEngines is a database whose ledger may be one of several engines.
type OfEngines interface {
	// Shared tells whether it is, as known last. It does not wait.
	Shared() bool
}

// Desk is a database whose clients submit transactions by SQL, and that does not reach the node.
// The node looks for what they ask, and answers. A request is submitted at most once: it is
// answered before. Nothing in it is trusted but its role.
type Desk interface {
	// Asked are the oldest requests without an answer, at most so many.
	Asked(ctx context.Context, most int) ([]Asked, error)
	// Take answers requests for good, and gives the numbers of those that it answered. The clients
	// of the others have given up.
	Take(ctx context.Context, answers []Answer) ([]uint64, error)
	// Change corrects the answer to a request that was taken.
	Change(ctx context.Context, a Answer) error
}
