package mariadb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/portable"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of the changes of a block (spec/formats.md).
const (
	changesMax     = 1_048_576
	changeBytesMax = 268_435_456
)

// outcome is the reason of a transaction that fails: part of its result, and no error of the block.
type outcome struct{ sqlState, message string }

func (o *outcome) Error() string { return o.message }

// outcomes are the server's errors that are a statement's own, with PostgreSQL's SQLSTATE. All
// others end the block.
var outcomes = map[uint16]string{
	1062: "23505", 1586: "23505", 1216: "23503", 1217: "23503", 1451: "23503", 1452: "23503", 1048: "23502", 1364: "23502",
	1264: "22003", 1690: "22003", 1406: "22001", 1292: "22007", 1366: "22007", 4025: "23514",
	1044: "42501", 1142: "42501", 1143: "42501", 1959: "42704", 1146: "42P01", 1054: "42703",
}

// outcomeOf tells an error that is a transaction's own from the others; nil: it is another.
func outcomeOf(err error) *outcome {
	var o *outcome
	var r *portable.Refusal
	switch state := outcomes[errorNumber(err)]; {
	case errors.As(err, &o):
		return o
	case errors.As(err, &r):
		return &outcome{r.SQLState, r.Construct}
	case errors.Is(err, errRefused) || errors.Is(err, canonical.ErrValue):
		return &outcome{"0A000", err.Error()}
	case state != "":
		return &outcome{state, err.Error()}
	}
	return nil
}

// change is a captured change with its rows.
type change struct {
	canonical.Change
	table       *table
	row         []byte // after it; before it, of a delete
	before      []byte // row before it, of an update
	keyHash     wire.Hash
	bytes       int
	transaction uint32
}

// run is the execution of one block in an open transaction.
type run struct {
	ctx    context.Context
	conn   *sql.Conn
	words  querier // for words of procedures, outside of the block's transaction
	name   names
	xid    xid
	block  *wire.OrderedBlock
	known  map[string]*described
	tables map[string]*table
	// procedures as the block leaves them; called are those before it, which its transactions call.
	procedures, called procedures
	session            *session

	changes []change
	bytes   int
	seq     int64 // last captured change that was read
	results []wire.TxResult
	// refusals are why transactions are not run, by place; nil: it may run.
	refusals []*portable.Refusal
	deploys  map[uint32]wire.Hash // state root that each DEPLOY transaction left
	guarded  map[string]bool      // tables with triggers
	// unguarded are tables without, which the block attaches: it runs again once they have them.
	unguarded []string
	detached  bool // a table, perhaps
	mending   func(*run) error
	raw       [][]byte
	at        atomic.Uint32 // transaction at work, or the first of those that are
	several   bool          // a message had several transactions at work when the block failed

	careful      bool // one transaction at a time
	pending      []prepared
	pendingBytes int
	smaller      int     // how often the size of a message was halved
	flying       *flight // nil: none
	texts        portable.Texts
	release      string // statement that drops the savepoints of the last message

	hash    wire.Hash
	header  []byte
	effects canonical.Effects
}

// budget ends a context when transactions of a kind have used up their time.
type budget struct {
	left   time.Duration
	cancel context.CancelCauseFunc
}

var errBudget = errors.New("the budget of the block is used up")

// during runs f under the budget; 0: without one.
func (b *budget) during(f func() error) error {
	if b.cancel == nil {
		return f()
	}
	began := time.Now()
	timer := time.AfterFunc(b.left, func() { b.cancel(errBudget) })
	err := f()
	timer.Stop()
	b.left -= time.Since(began)
	return err
}

// begin starts the transaction and checks that the block is the next.
func (r *run) begin(previous wire.Hash) error {
	if _, err := r.conn.ExecContext(r.ctx, r.xid.start()); err != nil {
		return err
	}
	return r.prepare(previous)
}

// prepare is begin in a transaction that is there.
func (r *run) prepare(previous wire.Hash) error {
	if _, err := r.conn.ExecContext(r.ctx, r.name.in("DELETE FROM %L.captured")); err != nil {
		return err
	}
	p, err := readPosition(r.ctx, r.conn, r.name)
	if err != nil {
		return err
	}
	if r.block.Number != p.Number+1 || previous != p.Hash {
		return fmt.Errorf("%w: the database is at block %d", backend.ErrOutOfTurn, p.Number)
	}
	if r.tables, err = readTables(r.ctx, r.conn, r.name, p.Number, r.known); err == nil {
		r.procedures, err = readProcedures(r.ctx, r.conn, r.words, r.name, p.Number)
	}
	r.called = r.procedures
	return err
}

// transactions runs all of them.
func (r *run) transactions(cancel context.CancelCauseFunc) error {
	budgets := map[bool]*budget{}
	for deploy, left := range map[bool]time.Duration{false: r.block.Budget.Statements, true: r.block.Budget.Deploys} {
		budgets[deploy] = &budget{left: left}
		if left > 0 {
			budgets[deploy].cancel = cancel
		}
	}
	r.results = make([]wire.TxResult, len(r.raw))
	proposals := make([]*wire.Proposal, len(r.raw))
	for i, raw := range r.raw {
		tx, err := wire.DecodeChainedTx(raw)
		if err != nil {
			return fmt.Errorf("decode transaction %d: %w", i, err)
		}
		proposals[i] = tx.Proposal
		r.results[i] = wire.TxResult{ID: tx.ID, Block: r.block.Number, Index: uint32(i)}
	}
	r.refusals = r.before().Judged(proposals, true, false, r.texts)
	for from := 0; from < len(proposals); {
		to := r.endOfRun(proposals, from)
		deploy := proposals[from].Kind == wire.Kind_KIND_DEPLOY
		if deploy {
			if err := budgets[false].during(r.flush); err != nil {
				return err
			}
		}
		if err := budgets[deploy].during(func() error { return r.inTurns(proposals, from, to) }); err != nil {
			return err
		}
		from = to
	}
	return budgets[false].during(r.flush)
}

// before lists the tables and procedures on the ledger before the block.
func (r *run) before() portable.Ledger {
	tables := map[string]*canonical.Table{}
	for name, t := range r.tables {
		tables[name] = &t.Table
	}
	return portable.Ledger{Tables: tables, Procedures: r.called.attached}
}

// quarantined tells whether a transaction of the block is not run.
func (r *run) quarantined(i int) bool {
	return r.block.QuarantineAll || slices.Contains(r.block.Quarantined, uint32(i))
}

// inTurns runs the transactions of one run, or one of another kind.
func (r *run) inTurns(proposals []*wire.Proposal, from, to int) error {
	if r.quarantined(from) {
		r.results[from].SQLState, r.results[from].Message = "CH001", "quarantined: organisations differ about its effects"
		return nil
	}
	if refusal := r.refusals[from]; refusal != nil {
		r.results[from].SQLState, r.results[from].Message = refusal.SQLState, refusal.Construct
		return nil
	}
	if to == from+1 {
		return r.enqueue(uint32(from), proposals[from])
	}
	if err := r.flush(); err != nil { // turns depend on rows
		return err
	}
	r.at.Store(uint32(from))
	turns, e, err := r.turnsOf(proposals[from:to])
	if err != nil {
		return err
	}
	for _, victim := range turns.Victims {
		why := e.lost(victim, from)
		result := &r.results[from+victim.Transaction]
		result.SQLState, result.Message = why.sqlState, why.message
	}
	for _, at := range turns.Order {
		if err := r.enqueue(uint32(from+at), proposals[from+at]); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs one under a savepoint that no statement can name.
func (r *run) transaction(i uint32, p *wire.Proposal, result *wire.TxResult) error {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	savepoint := quoted("c" + hex.EncodeToString(random[:]))
	if _, err := r.conn.ExecContext(r.ctx, "SAVEPOINT "+savepoint); err != nil {
		return err
	}
	before, tables := len(r.changes), r.tables
	if p.Kind == wire.Kind_KIND_DEPLOY { // it changes them, and may fail halfway
		r.tables = maps.Clone(tables)
	}
	rows, err := r.kind(i, p)
	if _, roleErr := r.conn.ExecContext(r.ctx, "SET ROLE "+r.name.role()); roleErr != nil {
		return roleErr
	}
	if err == nil {
		err = r.capture(i)
	}
	if err == nil && p.Kind == wire.Kind_KIND_EFFECTS {
		if err = r.compare(p.Effects, r.changes[before:]); err == nil {
			err = r.checkForeignKeys(r.changes[before:])
		}
	}
	if err == nil {
		result.Succeeded, result.Rows = true, rows
		r.keep(before)
		if p.Kind == wire.Kind_KIND_DEPLOY {
			r.deploys[i] = r.deployRoot()
		}
		_, err = r.conn.ExecContext(r.ctx, "RELEASE SAVEPOINT "+savepoint)
		return err
	}
	reason := outcomeOf(err)
	if reason == nil || r.ctx.Err() != nil {
		return err
	}
	r.forget(before)
	r.tables = tables
	result.SQLState, result.Message = reason.sqlState, reason.message
	if _, err := r.conn.ExecContext(r.ctx, "ROLLBACK TO SAVEPOINT "+savepoint); err != nil {
		return err
	}
	_, err = r.conn.ExecContext(r.ctx, "RELEASE SAVEPOINT "+savepoint)
	return err
}

func (r *run) kind(i uint32, p *wire.Proposal) (rows int64, err error) {
	switch p.Kind {
	case wire.Kind_KIND_SQL:
		return r.statement(p)
	case wire.Kind_KIND_EFFECTS:
		if !r.hasForeignKeys() {
			return r.apply(p)
		}
		err := checkRows.during(r.ctx, r.conn, func() (err error) {
			rows, err = r.apply(p)
			return err
		})
		return rows, err
	case wire.Kind_KIND_DEPLOY:
		return r.deploy(p)
	default:
		return 0, &outcome{"0A000", fmt.Sprintf("transaction %d of kind %v", i, p.Kind)}
	}
}

// become takes the rights of the client's role, and none beside them.
func (r *run) become(role string) error {
	if !r.isClient(role) {
		return &outcome{"42704", "role " + role + " does not exist"}
	}
	_, err := r.conn.ExecContext(r.ctx, "SET ROLE "+quoted(role))
	return err
}

// isClient tells a name that a client's role can have.
func (r *run) isClient(role string) bool {
	return plainName.MatchString(role) && quoted(role) != r.name.role()
}

// capture reads the changes that the triggers recorded since the last transaction.
func (r *run) capture(tx uint32) error {
	rows, err := r.conn.QueryContext(r.ctx, r.reading())
	if err != nil {
		return err
	}
	found, err := listed(rows)
	if err != nil {
		return err
	}
	r.read(found)
	return r.addCaptured(tx, found)
}

// captured records one; an update of the key is a delete and an insert.
func (r *run) captured(tx uint32, t *table, op byte, before, after []byte) error {
	var old, fresh, oldKey, freshKey []byte
	var err error
	if op != 'I' {
		old, oldKey, err = t.encode(before)
	}
	if err == nil && op != 'D' {
		fresh, freshKey, err = t.encode(after)
	}
	if err != nil {
		return err
	}
	switch {
	case op == 'U' && string(oldKey) != string(freshKey):
		if err := r.add(tx, t, 'D', oldKey, old, nil); err != nil {
			return err
		}
		return r.add(tx, t, 'I', freshKey, fresh, nil)
	case op == 'D':
		return r.add(tx, t, op, oldKey, old, nil)
	}
	return r.add(tx, t, op, freshKey, fresh, old)
}

func (r *run) add(tx uint32, t *table, op byte, key, row, before []byte) error {
	c := change{table: t, row: row, before: before, transaction: tx, bytes: len(key) + len(row) + len(before)}
	c.Change = canonical.Change{Table: t.Name, Key: key, Tx: tx, Op: op, Hash: wire.RowHash(t.Name, row)}
	if r.bytes += c.bytes; len(r.changes) == changesMax || r.bytes > changeBytesMax {
		r.bytes -= c.bytes
		return &outcome{"54000", "the block has too many changes"}
	}
	r.changes = append(r.changes, c)
	return nil
}

// encode gives the encodings of a serialized row and of its key. A row that the triggers could not
// spell is beyond the server's largest packet.
func (t *table) encode(serialized []byte) (row, key []byte, err error) {
	if serialized == nil {
		return nil, nil, &outcome{"54000", "row of table " + t.Name + " is too long"}
	}
	columns, err := t.readSerialized(serialized)
	if err == nil {
		row, err = canonical.AppendRow(nil, columns)
	}
	if err == nil {
		key, err = canonical.AppendRow(nil, t.keyOf(columns))
	}
	return row, key, err
}

// keep adds the changes of a transaction that succeeded to the running states.
func (r *run) keep(from int) {
	for i := range r.changes[from:] {
		c := &r.changes[from+i]
		if c.before != nil {
			c.table.hasher.Sub(&c.table.state, c.before)
		}
		if c.Op == 'D' {
			c.table.hasher.Sub(&c.table.state, c.row)
		} else {
			c.table.hasher.Add(&c.table.state, c.row)
		}
		c.table.changed = true
	}
}

func (r *run) stateRoot() wire.Hash {
	states := make([]canonical.Named, 0, len(r.tables))
	for _, t := range r.tables {
		states = append(states, canonical.Named{Name: t.Name, State: t.stateHash()})
	}
	return canonical.StateRoot(append(states, r.procedures.states()...))
}

// deployRoot is the root of the states kept: of a table that was there before, that at the end of
// the block before.
func (r *run) deployRoot() wire.Hash {
	states := make([]canonical.Named, 0, len(r.tables))
	for _, t := range r.tables {
		state := t.started
		if t.attachedAt == r.block.Number {
			state = t.stateHash()
		}
		states = append(states, canonical.Named{Name: t.Name, State: state})
	}
	return canonical.StateRoot(append(states, r.procedures.states()...))
}
