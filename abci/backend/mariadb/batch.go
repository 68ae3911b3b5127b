package mariadb

import (
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// Bounds of what goes to the server in one message.
const (
	batchMost     = 64
	batchBytesMax = 1 << 18
	batchHalvings = 6 // of batchMost, to one transaction
)

// readCaptured gives the changes that the triggers recorded since one.
const readCaptured = "SELECT seq, name, op, before_row, after_row FROM %L.captured WHERE seq > "

// ended marks the end of a transaction among the captured changes. It keeps how many rows the last
// statement met. No table has its name.
const ended = "INSERT INTO %L.captured (name, op, before_row) VALUES ('', 'E', ROW_COUNT())"

// prepared is a transaction whose statements are known before any of the batch runs.
type prepared struct {
	index      uint32
	proposal   *wire.Proposal
	statements []string
	bytes      int
}

// capturedRow is a row of the list that the triggers write.
type capturedRow struct {
	seq           int64
	name, op      string
	before, after []byte
}

// enqueue has a transaction run after those before it, together with them where that is possible.
func (r *run) enqueue(i uint32, p *wire.Proposal) error {
	statements, bytes := r.ahead(p)
	if statements == nil {
		if err := r.flush(); err != nil {
			return err
		}
		r.at.Store(i)
		return r.transaction(i, p, &r.results[i])
	}
	r.pending, r.pendingBytes = append(r.pending, prepared{i, p, statements, bytes}), r.pendingBytes+bytes
	if len(r.pending) < batchMost && r.pendingBytes < batchBytesMax {
		return nil
	}
	return r.advance()
}

// ahead gives the statements of a transaction for which nothing is read before it runs, and their
// length; nil: it runs by itself. So does one that fails here, which tells its error.
func (r *run) ahead(p *wire.Proposal) (statements []string, bytes int) {
	if r.careful || !r.isClient(p.Client.Role) {
		return nil, 0
	}
	var err error
	switch p.Kind {
	case wire.Kind_KIND_SQL:
		var text string
		text, err = r.spelled(p)
		statements = []string{text}
	case wire.Kind_KIND_EFFECTS:
		statements, err = r.spelledEffects(p.Effects)
	default:
		return nil, 0
	}
	if err != nil {
		return nil, 0
	}
	for _, s := range statements {
		bytes += len(s)
	}
	return statements, bytes
}

// spelledEffects are the statements of a write set; none of one that compares more than the rows
// that it changes.
func (r *run) spelledEffects(effects []byte) ([]string, error) {
	s, err := wire.DecodeWriteSet(effects)
	if err == nil {
		err = canonical.CheckWriteSet(s)
	}
	if err != nil || s.Isolation == wire.Serializable || len(s.Seen) > 0 || r.hasForeignKeys() {
		return nil, err
	}
	statements := make([]string, len(s.Changes))
	for i := range s.Changes {
		c := &s.Changes[i]
		t := r.tables[s.Tables[c.Table]]
		if t == nil {
			return nil, &outcome{"42P01", "table " + s.Tables[c.Table] + " is not on the ledger"}
		}
		if statements[i], _, err = r.wordingOf(t, c); err != nil {
			return nil, err
		}
	}
	return statements, nil
}

// spelled is the statement of an SQL transaction.
func (r *run) spelled(p *wire.Proposal) (string, error) {
	s, err := r.texts.Parse(p.Sql)
	if err != nil {
		return "", err
	}
	t := r.tables[s.Table]
	if s.Op == 'C' || t == nil { // a call runs by itself
		return "", &outcome{"42P01", "table " + s.Table + " is not on the ledger"}
	}
	return spell(s, t, r.name, p.Parameters)
}

// flight is a message on its way, whose transactions have no result yet.
type flight struct {
	batch     []prepared
	savepoint string // of the first; a number follows
	landed    chan struct{}

	// Read after landed is closed.
	found []capturedRow
	err   error // of the block; not that of a transaction
}

func (f *flight) savepointOf(k int) string { return quoted(f.savepoint + strconv.Itoa(k)) }

// flush runs all transactions that wait, to their results.
func (r *run) flush() error {
	for r.flying != nil || len(r.pending) > 0 {
		if err := r.advance(); err != nil {
			return err
		}
	}
	return nil
}

// advance settles the message that is on its way, and sends the next. Meanwhile the node prepares
// others.
func (r *run) advance() error {
	if err := r.land(); err != nil {
		return err
	}
	n, bytes := 0, 0
	for n < min(len(r.pending), batchMost>>r.smaller) && (n == 0 || bytes+r.pending[n].bytes <= batchBytesMax) {
		bytes += r.pending[n].bytes
		n++
	}
	if n == 0 {
		return nil
	}
	f := &flight{batch: r.pending[:n:n], landed: make(chan struct{})}
	r.pending, r.pendingBytes = r.pending[n:], r.pendingBytes-bytes
	return r.send(f)
}

// send has transactions run by one compound statement, each under a savepoint that no statement can
// name.
func (r *run) send(f *flight) error {
	r.at.Store(f.batch[0].index)
	r.several = len(f.batch) > 1
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	f.savepoint = "c" + hex.EncodeToString(random[:]) + "_"
	var text strings.Builder
	text.WriteString("BEGIN NOT ATOMIC " + r.release)
	role := ""
	for k, p := range f.batch {
		text.WriteString("SAVEPOINT " + f.savepointOf(k) + ";")
		if p.proposal.Client.Role != role {
			role = p.proposal.Client.Role
			text.WriteString("SET ROLE " + quoted(role) + ";")
		}
		for _, s := range p.statements {
			text.WriteString(s + ";")
		}
		text.WriteString(r.name.in(ended) + ";")
	}
	read := r.reading()
	text.WriteString("SET ROLE " + r.name.role() + "; " + read + "; END")
	r.flying = f
	go func() {
		defer close(f.landed)
		rows, failure := r.conn.QueryContext(r.ctx, text.String())
		if failure != nil {
			if outcomeOf(failure) == nil || r.ctx.Err() != nil {
				f.err = failure
				return
			}
			if _, f.err = r.conn.ExecContext(r.ctx, "SET ROLE "+r.name.role()); f.err != nil {
				return
			}
			if rows, f.err = r.conn.QueryContext(r.ctx, read); f.err != nil {
				return
			}
		}
		f.found, f.err = listed(rows)
	}()
	return nil
}

// land waits for the message that is on its way, and gives its transactions their results. Those
// after the first that fails wait again.
func (r *run) land() error {
	f := r.flying
	if f == nil {
		return nil
	}
	<-f.landed
	r.flying = nil
	if f.err != nil {
		return f.err
	}
	r.release = "RELEASE SAVEPOINT " + f.savepointOf(0) + ";" // and with it the later ones
	found, settled := f.found, 0
	r.read(found)
	var why error
	for _, p := range f.batch {
		var complete bool
		if found, complete, why = r.take(p, found); why != nil || !complete {
			break
		}
		settled++
	}
	if settled == len(f.batch) {
		r.several = false
		r.smaller = max(r.smaller, 1) - 1
		return nil
	}
	if why != nil && outcomeOf(why) == nil {
		return why
	}
	// This one failed: it runs by itself, and tells why. Those after it are undone, and run again.
	// The server reads all of a message before it runs any, so that many failures want small ones.
	r.smaller = min(r.smaller+1, batchHalvings)
	if _, err := r.conn.ExecContext(r.ctx, "ROLLBACK TO SAVEPOINT "+f.savepointOf(settled)); err != nil {
		return err
	}
	failed := f.batch[settled]
	r.several = false
	r.at.Store(failed.index)
	if err := r.transaction(failed.index, failed.proposal, &r.results[failed.index]); err != nil {
		return err
	}
	again := slices.Clone(f.batch[settled+1:])
	for _, p := range again {
		r.pendingBytes += p.bytes
	}
	r.pending = append(again, r.pending...)
	return nil
}

func (r *run) reading() string {
	return r.name.in(readCaptured) + strconv.FormatInt(r.seq, 10) + " ORDER BY seq"
}

// read notes up to where the list was read.
func (r *run) read(found []capturedRow) {
	if len(found) > 0 {
		r.seq = found[len(found)-1].seq
	}
}

// listed reads captured changes.
func listed(rows *sql.Rows) (found []capturedRow, err error) {
	err = each(rows, func() error {
		var c capturedRow
		if err := rows.Scan(&c.seq, &c.name, &c.op, &c.before, &c.after); err != nil {
			return err
		}
		found = append(found, c)
		return nil
	})
	return found, err
}

// take adds the changes of a transaction that has ended, and gives those after it. An error is why
// it fails.
func (r *run) take(p prepared, found []capturedRow) (rest []capturedRow, complete bool, err error) {
	end := 0
	for end < len(found) && found[end].name != "" {
		end++
	}
	if end == len(found) {
		return nil, false, nil
	}
	before := len(r.changes)
	err = r.addCaptured(p.index, found[:end])
	if err == nil && p.proposal.Kind == wire.Kind_KIND_EFFECTS {
		err = r.compare(p.proposal.Effects, r.changes[before:])
	}
	if err != nil {
		r.forget(before)
		return nil, false, err
	}
	result := &r.results[p.index]
	result.Rows = int64(end)
	if p.proposal.Kind == wire.Kind_KIND_SQL {
		if result.Rows, err = strconv.ParseInt(string(found[end].before), 10, 64); err != nil {
			return nil, false, fmt.Errorf("number of rows: %w", err)
		}
	}
	result.Succeeded = true
	r.keep(before)
	return found[end+1:], true, nil
}

func (r *run) addCaptured(tx uint32, found []capturedRow) error {
	for _, c := range found {
		t := r.tables[c.name]
		if t == nil {
			return &outcome{"42P01", "table " + c.name + " is not on the ledger"}
		}
		if err := r.captured(tx, t, c.op[0], c.before, c.after); err != nil {
			return err
		}
	}
	return nil
}

// forget drops the changes of a transaction that fails.
func (r *run) forget(from int) {
	for _, c := range r.changes[from:] {
		r.bytes -= c.bytes
	}
	r.changes = r.changes[:from]
}
