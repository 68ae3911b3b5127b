package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

const (
	pageBlocks       = 50
	pageTransactions = 100
	pageDeviations   = 20
	deviationRowsMax = 20
	changesMax       = 100 // of a transaction, and of a row
	tablesMax        = 200
	proceduresMax    = 200
	organisationsMax = 200
	votesMax         = 1_000 // of a certificate
	stripBlocks      = 40    // whose votes the network page shows
	statementShown   = 160   // bytes, in a list
)

// RowBytesMax is how large a row is shown; larger ones are nil.
const RowBytesMax = 64 << 10

// ErrorShown is how many characters of a transaction's error are shown.
const ErrorShown = 4_000

// ErrNone is the error for what a database does not have.
var ErrNone = errors.New("there is none")

// Ledger is an organisation's database as the pages read it, whichever engine it has. Nothing here
// changes it, and all is read with the rights of a reader alone. Safe for concurrent use.
type Ledger interface {
	// Offers tells what this database has beside what every one has.
	Offers() Offers
	// Read lets look ask about one moment of the database, for some seconds at most. A database's
	// refusal is a *Refusal.
	Read(ctx context.Context, look func(Moment) error) error
	// Close disconnects.
	Close()
}

// Offers are what only some engines have. Of everything else the pages say that it is not here.
type Offers struct {
	Receipts  bool // of transactions and rows
	Members   bool // who takes part, and since when; otherwise organisations that signed the newest certificates
	Analytics bool // a worker that answers queries at any block
}

// Moment answers the pages' questions. Lists have at most limit elements. Bytes of SQL, errors and
// rows come from the database: nobody has checked them.
type Moment interface {
	// Blocks are the newest blocks up to one, the newest first; upTo 0: up to the last.
	Blocks(ctx context.Context, upTo int64, limit int) ([]Block, error)
	// LastAfter is the last of at most limit blocks that follow one; 0: none does.
	LastAfter(ctx context.Context, number int64, limit int) (int64, error)
	// Header is that of a block, or ErrNone.
	Header(ctx context.Context, number int64) (Header, error)
	// BlockWithHash is the number of a block, or ErrNone.
	BlockWithHash(ctx context.Context, hash []byte) (int64, error)
	// Votes are those in the certificate of a block.
	Votes(ctx context.Context, number int64, limit int) ([]CertificateVote, error)
	// CastVotes are the votes in certificates from a block on.
	CastVotes(ctx context.Context, from int64, limit int) ([]CastVote, error)
	// Organisations are ordered by name, those that only order last.
	Organisations(ctx context.Context, limit int) ([]Organisation, error)
	// Tables are those on the ledger now, by name.
	Tables(ctx context.Context, limit int) ([]Table, error)
	// Procedures are those on the ledger now, by name.
	Procedures(ctx context.Context, limit int) ([]Procedure, error)
	// Transactions are some of a block's, from an index on, with so many bytes of their statements
	// and one more, and without parameters.
	Transactions(ctx context.Context, number, from int64, limit, statement int) ([]Transaction, error)
	// Transaction is the one with an id, or ErrNone.
	Transaction(ctx context.Context, id []byte) (Transaction, error)
	// LedgerTables are tables that are or were on the ledger, by name, the newest version first.
	LedgerTables(ctx context.Context, limit int) ([]LedgerTable, error)
	// Changes returns the changes of a transaction in tables, which LedgerTables gave.
	Changes(ctx context.Context, tables []LedgerTable, number int64, index, limit int) ([]Change, error)
	// History are the changes of the row with a key, the newest first.
	History(ctx context.Context, table LedgerTable, key []string, limit int) ([]RowChange, error)
	// OpenDeviations counts those that are not put right.
	OpenDeviations(ctx context.Context) (int, error)
	// Deviations are the newest with a smaller id; before 0: the newest.
	Deviations(ctx context.Context, before int64, limit int) ([]Deviation, error)
	// DeviatingRows are the first rows of each of these deviations.
	DeviatingRows(ctx context.Context, ids []int64, each int) ([]DeviatingRow, error)

	// ReceiptOfTransaction and ReceiptOfRow are JSON for auditors (spec/receipt.md), or ErrNone; of
	// Offers.Receipts alone.
	ReceiptOfTransaction(ctx context.Context, id []byte) (string, error)
	ReceiptOfRow(ctx context.Context, table string, key []string) (string, error)

	// Mirrors, Snapshots and Ask are about the analytics worker; of Offers.Analytics alone.
	Mirrors(ctx context.Context, limit int) ([]Mirror, error)
	Snapshots(ctx context.Context, limit int) ([]Snapshot, error)
	// Ask has the worker answer a query at a block; 0: the last. The text is never a statement of
	// the database. Rows are JSON objects.
	Ask(ctx context.Context, block int64, query string, limit int) (columns []string, rows []json.RawMessage, err error)
}

// Block is a block's entry in a list.
type Block struct {
	Number       int64
	Time         time.Time
	Since        *float64 // seconds since the block before
	Transactions int
	Failed       int
	Changes      int
	Votes        int
	Consent      *int // how many had to vote; nil: not kept
}

// Organisation is one with its votes in the certificates that were counted.
type Organisation struct {
	Name         string
	OrderingOnly bool
	Since        int64
	Certified    int // certificates that were counted
	Voted        int // of these
	LastVote     *int64
}

// CastVote is a vote in a certificate.
type CastVote struct {
	Block        int64
	Organisation string
}

// Table is one on the ledger.
type Table struct {
	Name          string
	AttachedAt    int64
	Rows          *int64
	ScrubbedBlock *int64     // at whose end the scrubber found it well; nil: not kept
	ScrubbedAt    *time.Time // when it did; nil: not yet
}

// Procedure is one that the ledger's transactions call, each engine's in words of its own.
type Procedure struct {
	Name       string
	Signature  string // the types of its parameters, in parentheses
	AttachedAt int64
	Engines    []string // in which it has agreed words, by name
	Digests    []string // SHA-256 of the words of each, in hexadecimal
}

// Header has the shown fields that the block's hash covers.
type Header struct {
	Number       int64
	OrderHeight  int64
	Hash         []byte
	PreviousHash []byte
	StateRoot    []byte
	Certified    bool
}

// CertificateVote is a vote as its certificate has it.
type CertificateVote struct {
	Organisation *string
	Validator    *string
	OrderHeight  *string
	Signature    *string
}

// Transaction is one of a block.
type Transaction struct {
	Block        int64
	Index        int
	ID           []byte
	Organisation *string // nil: what is kept is no transaction
	Role         *string
	Kind         *string // sql, deploy, effects, plan
	SQL          *string
	Parameters   json.RawMessage // a list of objects with type and value
	Succeeded    bool
	Rows         int64
	SQLState     *string
	Error        *string
	Time         *time.Time
	ClientKey    []byte // of the client that signed it
}

// IsEffects reports whether the transaction carries a write set in place of statements.
func (t Transaction) IsEffects() bool { return t.Kind != nil && *t.Kind == "effects" }

// LedgerTable is a table that is or was on the ledger, as its history knows it.
type LedgerTable struct {
	Name    string
	Key     []string
	Current bool
	Handle  any // by which the Moment that gave the table knows it
}

// Change is a change of a row by a transaction.
type Change struct {
	Table     int // place in the list of tables
	Serial    int
	Operation string          // I, U, D
	Row       json.RawMessage // after it; before it, of a delete
}

// RowChange is one change of a row with a key.
type RowChange struct {
	Block        int64
	Index        int
	Operation    string
	Row          json.RawMessage
	Time         *time.Time
	Transaction  []byte
	Organisation *string
	Role         *string
}

// Deviation is a time when the database was not as agreed.
type Deviation struct {
	ID      int64
	Block   int64
	Since   *int64 // the last block at whose end all was well; nil: not kept
	FoundBy string
	Rows    int64
	CuredBy *string
	Started time.Time
	Took    *float64 // seconds
}

// DeviatingRow is a row that was otherwise than agreed.
type DeviatingRow struct {
	Deviation int64
	Table     string
	Key       json.RawMessage
	Expected  json.RawMessage
	Found     json.RawMessage
}

// Mirror is a table that the analytics worker has.
type Mirror struct {
	Table   string
	Rows    *int64
	Bytes   *int64
	Shared  *float64 // part of its chunks that snapshots share
	Block   *int64
	Lag     *int64
	Checked *int64
	State   string
	Error   *string
}

// Snapshot is one that the analytics worker keeps.
type Snapshot struct {
	Name    *string
	Block   int64
	Pinned  bool
	Readers *int64
}

// Refusal is a database's answer in place of what was asked for.
type Refusal struct {
	Reason Reason
	Said   string // the database's own words, as sentences
}

func (r *Refusal) Error() string { return r.Said }

// Reason is the text of a refusal on a page.
type Reason int

// The reasons.
const (
	Refused      Reason = iota // any other
	TooSlow                    // given up after some seconds
	Missing                    // what is asked for is not there
	NotCertified               // what is there is not as agreed
	NotYet                     // it may come
	NoKey                      // a value of another type than the key's column
	NoRight                    // the role may not read
)

// problem words a refusal for people.
func (r *Refusal) problem() *problem {
	switch r.Reason {
	case TooSlow:
		return &problem{http.StatusServiceUnavailable, "Took too long", "The database gave the question up, as a block or other readers were in its way, or there was too much to read. Try again."}
	case Missing:
		return &problem{http.StatusNotFound, "Not found", r.Said}
	case NotCertified:
		return &problem{http.StatusConflict, "Not as certified", r.Said}
	case NotYet:
		return &problem{http.StatusConflict, "Not yet", r.Said}
	case NoKey:
		return &problem{http.StatusBadRequest, "That is no such key", r.Said}
	case NoRight:
		return &problem{http.StatusInternalServerError, "No right to look", r.Said}
	}
	return &problem{http.StatusInternalServerError, "The database refused", r.Said}
}
