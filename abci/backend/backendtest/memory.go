// Package backendtest is the conformance suite of backend.Backend: tests that run against every
// implementation. It has a Backend in memory for tests of the code that drives one.
package backendtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/wire"
)

// Database is a database in memory. Its LedgerBlockHash is a function of the blocks executed and of
// Tamper. Several Memory backends may be opened on it, one after the other.
type Database struct {
	mu         sync.Mutex
	hashes     []wire.Hash
	results    map[wire.TxID]wire.TxResult
	certified  uint64
	tampered   string
	hopeless   bool
	lost       bool         // hopeless also with help from others
	needs      backend.Step // cures what was tampered with
	scrubbed   string       // what the last scrubbing found
	down       bool
	unknown    bool // the next COMMIT happens, its answer gets lost
	stuckAt    uint32
	stuck      bool
	delay      time.Duration
	owner      *Memory
	deviations []string // how recorded ones were cured
	differs    map[string]bool
	falsified  []uint64 // blocks that are not kept as agreed
	anewUntil  uint64   // blocks are executed again from the first until this one
}

// NewDatabase returns an empty database.
func NewDatabase() *Database { return &Database{results: map[wire.TxID]wire.TxResult{}} }

func (d *Database) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// Tamper makes what is executed from now on come out differently; Repair undoes it.
func (d *Database) Tamper(what string) { d.TamperUntil(backend.Rows, what) }

// TamperUntil tampers so that only this step of Repair, or a later one, undoes it.
func (d *Database) TamperUntil(step backend.Step, what string) {
	d.set(func() { d.tampered, d.needs = what, step })
}

// TamperHistory tampers so that Repair cannot undo it, but Restore can.
func (d *Database) TamperHistory(what string) { d.set(func() { d.tampered, d.hopeless = what, true }) }

// TamperAll tampers so that nothing undoes it.
func (d *Database) TamperAll(what string) {
	d.set(func() { d.tampered, d.hopeless, d.lost = what, true, true })
}

// Scrub makes the database notice what Tamper did.
func (d *Database) Scrub() { d.set(func() { d.scrubbed = d.tampered }) }

// FalsifyPast makes the database notice that these blocks are not kept as agreed.
func (d *Database) FalsifyPast(blocks ...uint64) { d.set(func() { d.falsified = blocks }) }

// FalsePast tells which are not.
func (d *Database) FalsePast() []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.falsified)
}

// RestoreHistory makes Repair possible again.
func (d *Database) RestoreHistory() { d.set(func() { d.hopeless, d.lost = false, false }) }

// Down makes every call fail, or ends that; what was open is lost.
func (d *Database) Down(down bool) { d.set(func() { d.down = down; d.lose() }) }

// Differ makes a transaction that holds this text have other effects than elsewhere; no repair
// undoes it.
func (d *Database) Differ(text string) { d.set(func() { d.differs = map[string]bool{text: true} }) }

// LoseCommit makes the next COMMIT happen without an answer.
func (d *Database) LoseCommit() { d.set(func() { d.unknown = true }) }

// StickAt makes executions not end at transaction i, or ends that.
func (d *Database) StickAt(i uint32, stuck bool) { d.set(func() { d.stuckAt, d.stuck = i, stuck }) }

// Delay makes executions take that long.
func (d *Database) Delay(delay time.Duration) { d.set(func() { d.delay = delay }) }

// Deviations tells how the recorded deviations were cured.
func (d *Database) Deviations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.deviations...)
}

// Hashes returns the LedgerBlockHashes of the committed blocks.
func (d *Database) Hashes() []wire.Hash {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]wire.Hash(nil), d.hashes...)
}

func (d *Database) lose() {
	if d.owner != nil {
		d.owner.open = nil
	}
}

// Memory is a backend.Backend on a Database.
type Memory struct {
	db         *Database
	stuckAfter time.Duration
	open       *execution
}

type execution struct {
	block *wire.OrderedBlock
	backend.Execution
}

var (
	_        backend.Backend = (*Memory)(nil)
	errDown                  = errors.New("the database is down")
	errOwned                 = errors.New("another node works on this database")
)

// Open returns a backend; stuckAfter bounds an execution.
func Open(db *Database, stuckAfter time.Duration) *Memory {
	return &Memory{db: db, stuckAfter: stuckAfter}
}

// enter begins a call; the caller unlocks.
func (m *Memory) enter(ctx context.Context) (*Database, error) {
	m.db.mu.Lock()
	switch {
	case ctx.Err() != nil:
		return m.db, ctx.Err()
	case m.db.down:
		return m.db, errDown
	case m.db.owner != nil && m.db.owner != m:
		return m.db, errOwned
	}
	return m.db, nil
}

// Position reads the last committed block and makes this backend the owner of the database.
func (m *Memory) Position(ctx context.Context) (backend.Position, error) {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	if err != nil {
		return backend.Position{}, err
	}
	d.owner = m
	p := backend.Position{Number: uint64(len(d.hashes)), Certified: d.certified, Deviates: d.scrubbed != "", AnewUntil: d.anewUntil}
	p.FalseBlocks = slices.Clone(d.falsified)
	if p.Number > 0 {
		p.Hash = d.hashes[p.Number-1]
	}
	return p, nil
}

// Execute computes what the block would do.
func (m *Memory) Execute(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	d, err := m.enter(ctx)
	m.open = nil
	delay := d.delay
	stuckAt, stuck := d.stuckAt, d.stuck
	d.mu.Unlock()
	if err != nil {
		return backend.Execution{}, err
	}
	if stuck {
		delay = m.stuckAfter
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return backend.Execution{}, ctx.Err()
		case <-timer.C:
		}
	}
	if stuck {
		return backend.Execution{}, &backend.StuckError{Index: stuckAt}
	}
	return m.finish(ctx, b, previous)
}

// Retry is Execute: what Tamper did is left to Repair.
func (m *Memory) Retry(ctx context.Context, b *wire.OrderedBlock, previous, _ wire.Hash) (backend.Execution, error) {
	return m.Execute(ctx, b, previous)
}

func (m *Memory) finish(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	if err != nil {
		return backend.Execution{}, err
	}
	var last wire.Hash
	if n := len(d.hashes); n > 0 {
		last = d.hashes[n-1]
	}
	if b.Number != uint64(len(d.hashes))+1 || previous != last {
		return backend.Execution{}, fmt.Errorf("execute block %d after %d: %w", b.Number, len(d.hashes), backend.ErrOutOfTurn)
	}
	x := execution{block: b}
	raw := transactions(b)
	all := fmt.Appendf(nil, "%d %x %x %v %v %s", b.Number, b.OrderHash, last, b.Quarantined, b.QuarantineAll, d.tampered)
	for i, id := range b.IDs {
		effects := fmt.Appendf(nil, "%x %s %v %v", id, d.tampered, quarantined(b, uint32(i)), d.differsAbout(b, uint32(i), raw))
		all = append(all, effects...)
		if b.Round > 0 {
			x.Effects = append(x.Effects, sha256.Sum256(effects))
		}
		r := wire.TxResult{ID: id, Block: b.Number, Index: uint32(i), Succeeded: true, Rows: 1}
		if quarantined(b, uint32(i)) {
			r.Succeeded, r.Rows, r.SQLState, r.Message = false, 0, "CH001", "quarantined"
		}
		x.Results = append(x.Results, r)
	}
	x.Hash = sha256.Sum256(all)
	m.open = &x
	return x.Execution, nil
}

// transactions splits the block's buffer; nil for blocks of tests that have none.
func transactions(b *wire.OrderedBlock) [][]byte {
	raw, err := wire.SplitTransactions(b.Transactions)
	if err != nil || len(raw) != len(b.IDs) {
		return nil
	}
	return raw
}

func (d *Database) differsAbout(b *wire.OrderedBlock, i uint32, raw [][]byte) bool {
	if raw == nil || quarantined(b, i) {
		return false
	}
	for text := range d.differs {
		if bytes.Contains(raw[i], []byte(text)) {
			return true
		}
	}
	return false
}

func quarantined(b *wire.OrderedBlock, i uint32) bool {
	for _, q := range b.Quarantined {
		if q == i {
			return true
		}
	}
	return b.QuarantineAll
}

// Commit makes the open block permanent.
func (m *Memory) Commit(ctx context.Context) error {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	x := m.open
	m.open = nil
	if err != nil {
		return err
	}
	if x == nil {
		return backend.ErrNothingOpen
	}
	d.hashes = append(d.hashes, x.Hash)
	for _, r := range x.Results {
		d.results[r.ID] = r
	}
	if d.unknown {
		d.unknown = false
		return errDown
	}
	return nil
}

// Rollback undoes the open block, if any.
func (m *Memory) Rollback(ctx context.Context) error {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	m.open = nil
	return err
}

// StoreCertificate keeps how far certificates go.
func (m *Memory) StoreCertificate(ctx context.Context, c wire.Certificate) error {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case c.Number > uint64(len(d.hashes)):
		return fmt.Errorf("certificate %d: %w", c.Number, backend.ErrOutOfTurn)
	case d.hashes[c.Number-1] != c.Hash:
		return fmt.Errorf("certificate %d: %w", c.Number, backend.ErrBeyondRepair)
	}
	d.certified = max(d.certified, c.Number)
	return nil
}

// Repair undoes Tamper.
func (m *Memory) Repair(ctx context.Context, step backend.Step, number uint64, certified wire.Hash, deviating uint64, _ wire.Hash) ([]backend.RowDeviation, error) {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	m.open = nil
	switch {
	case err != nil:
		return nil, err
	case step.InPart() && (d.hopeless || step != d.needs):
		return nil, nil
	case d.hopeless || step < d.needs || number == 0 || number > uint64(len(d.hashes)) || d.hashes[number-1] != certified:
		return nil, fmt.Errorf("repair at block %d: %w", number, backend.ErrBeyondRepair)
	case step == backend.Full:
		d.hashes, d.certified, d.anewUntil = nil, 0, deviating
		d.tampered, d.scrubbed, d.needs = "", "", backend.Rows
		return nil, nil
	case d.tampered == "":
		d.scrubbed = ""
		return nil, nil
	}
	row := backend.RowDeviation{Table: "public.items", Key: []byte(`{"id": 1}`), Found: []byte(fmt.Sprintf("%q", d.tampered))}
	d.tampered, d.scrubbed, d.needs = "", "", backend.Rows
	return []backend.RowDeviation{row}, nil
}

// memoryReading is a database's word that it holds a block.
type memoryReading struct{ tables []backend.TableState }

// Read tells of one table that has no rows.
func (m *Memory) Read(ctx context.Context, number uint64, hash wire.Hash) (backend.Reading, error) {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case number == 0 || number > uint64(len(d.hashes)) || d.hashes[number-1] != hash:
		return nil, fmt.Errorf("read block %d: %w", number, backend.ErrOutOfTurn)
	}
	return memoryReading{[]backend.TableState{{Table: "public.items", State: hash}}}, nil
}

func (r memoryReading) Tables() []backend.TableState { return r.tables }

func (memoryReading) Digests(context.Context, string, backend.Ranges, uint32) ([]backend.RangeDigest, error) {
	return nil, nil
}

func (memoryReading) Rows(context.Context, string, backend.Ranges, func([]byte) error) error {
	return nil
}

func (memoryReading) Close() {}

// Restore undoes Tamper when the other database holds the block, also what TamperHistory did.
func (m *Memory) Restore(ctx context.Context, from backend.Reading, number uint64, certified wire.Hash, deviating uint64, found wire.Hash) ([]backend.RowDeviation, error) {
	for _, t := range from.Tables() {
		if t.State != certified {
			return nil, fmt.Errorf("restore at block %d: %w", number, backend.ErrBeyondRepair)
		}
		if _, err := from.Digests(ctx, t.Table, backend.All(), 0); err != nil {
			return nil, fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
		}
	}
	m.db.set(func() { m.db.hopeless = m.db.hopeless && m.db.lost })
	return m.Repair(ctx, backend.State, number, certified, deviating, found)
}

// memoryPast is a database's word about its blocks.
type memoryPast struct{ m *Memory }

// ReadPast tells of blocks that have no changes.
func (m *Memory) ReadPast(context.Context) (backend.Past, error) { return memoryPast{m}, nil }

// Block gives the hash in place of the header.
func (p memoryPast) Block(ctx context.Context, number uint64, hash wire.Hash, each func([]byte) error) error {
	d, err := p.m.enter(ctx)
	known := err == nil && number > 0 && number <= uint64(len(d.hashes)) && d.hashes[number-1] == hash
	d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !known:
		return fmt.Errorf("tell block %d: %w", number, backend.ErrOutOfTurn)
	}
	return each(hash[:])
}

func (memoryPast) Close() {}

// RestoreBlock puts right what FalsifyPast says.
func (m *Memory) RestoreBlock(ctx context.Context, from backend.Past, block *wire.OrderedBlock, certified wire.Hash) error {
	var header []byte
	if err := from.Block(ctx, block.Number, certified, func(part []byte) error { header = part; return nil }); err != nil {
		return fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	m.open = nil
	if err == nil && !bytes.Equal(header, certified[:]) {
		err = fmt.Errorf("restore block %d: %w", block.Number, backend.ErrBeyondRepair)
	}
	if err == nil {
		d.falsified = slices.DeleteFunc(d.falsified, func(n uint64) bool { return n == block.Number })
	}
	return err
}

// Adopt takes the hash from a database that holds the block; one that was tampered with cannot.
func (m *Memory) Adopt(ctx context.Context, from backend.Past, b *wire.OrderedBlock, previous, certified wire.Hash) (backend.Execution, error) {
	var told []byte
	if err := from.Block(ctx, b.Number, certified, func(part []byte) error { told = part; return nil }); err != nil {
		return backend.Execution{}, fmt.Errorf("%w: %w", backend.ErrNoHelp, err)
	}
	if !bytes.Equal(told, certified[:]) {
		return backend.Execution{}, fmt.Errorf("adopt block %d: %w: %w", b.Number, backend.ErrFalse, backend.ErrUnfit) // header and changes are one
	}
	x, err := m.finish(ctx, b, previous)
	if err != nil {
		return backend.Execution{}, err
	}
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	m.open = nil
	switch {
	case err != nil:
		return backend.Execution{}, err
	case d.tampered != "":
		return backend.Execution{}, &backend.Obstacle{Why: "tampered with", Err: errors.New("adopt")}
	}
	x.Hash = certified
	m.open = &execution{block: b, Execution: x}
	return x, nil
}

// RecordDeviation keeps what cured a deviation.
func (m *Memory) RecordDeviation(ctx context.Context, _ uint64, _, _ wire.Hash, curedBy string, _ time.Duration) error {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	if err == nil {
		d.deviations = append(d.deviations, curedBy)
	}
	if err == nil && curedBy == backend.Full.String() {
		d.anewUntil = 0
	}
	return err
}

// Outcomes looks transactions up.
func (m *Memory) Outcomes(ctx context.Context, ids []wire.TxID) ([]wire.TxResult, error) {
	d, err := m.enter(ctx)
	defer d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	found := map[wire.TxID]wire.TxResult{}
	for _, id := range ids {
		if r, ok := d.results[id]; ok {
			found[id] = r
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

// Close gives the database up.
func (m *Memory) Close() error {
	m.db.mu.Lock()
	defer m.db.mu.Unlock()
	m.open = nil
	if m.db.owner == m {
		m.db.owner = nil
	}
	return nil
}
