package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// rowsKnownMax bounds the rows that are remembered as changed, at about 150 bytes each.
	rowsKnownMax = 100_000
	// rowsTouchedMax bounds the changes that are read of one decided block.
	rowsTouchedMax = 20_000
	// tablesKnownMax bounds the tables that rows were inserted into.
	tablesKnownMax = 10_000
	// decidedMax bounds the blocks that are decided and not committed here.
	decidedMax = 8
	// keyTextMax bounds a key in a message, in bytes.
	keyTextMax = 200
)

// staleRows knows rows that committed EFFECTS transactions changed. The gateway refuses a
// transaction that saw such a row before the change (spec/transactions.md, "Early abort"). The idea
// is that of Fabric++, section 4.2.2. It is not safe for concurrent use.
//
// Invariant G4: each fact about a row holds behind all decided blocks. A decided block that leaves
// a doubt about a row makes it forget the row. Forgetting is always safe.
type staleRows struct {
	younger, older map[rowKey]change // all of the older is forgotten when the younger is full
	inserts        map[string]uint64 // by table: the last block that may have inserted rows
	decided        []decidedBlock    // not committed here yet, ascending
	committed      uint64            // the last block whose outcomes are known
	newest         uint64            // the newest block that a change is known of; 0: none
}

// rowKey stands for a table and a primary key.
type rowKey [sha256.Size]byte

// change is the last one known of a row: it is gone, or has another hash than before.
type change struct {
	block  uint64
	before wire.Hash
	gone   bool
}

// decidedBlock names the rows that a block may change.
type decidedBlock struct {
	number    uint64
	anything  bool // it holds transactions of other kinds, or too many changes
	changes   []changes
	following map[rowKey]bool // all rows of changes
}

// changes are those of one EFFECTS transaction behind the block's last one of another kind.
type changes struct {
	id   wire.TxID
	rows map[rowKey]rowChange
}

type rowChange struct {
	count int
	last  byte
	first wire.Hash
}

// conflict is a row that is not as a transaction saw it.
type conflict struct {
	table string
	key   []byte
	block uint64 // that changed it
}

func newStaleRows() *staleRows {
	return &staleRows{younger: map[rowKey]change{}, inserts: map[string]uint64{}}
}

func rowKeyOf(table string, key []byte) rowKey {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(table))))
	h.Write([]byte(table))
	h.Write(key)
	return rowKey(h.Sum(nil))
}

// forget begins anew.
func (s *staleRows) forget() {
	s.younger, s.older, s.inserts, s.newest = map[rowKey]change{}, nil, map[string]uint64{}, 0
}

// decide takes a decided block, before the database can show any of it.
func (s *staleRows) decide(b *decidedBlock, inserted []string) {
	if n := len(s.decided); n > 0 && s.decided[n-1].number >= b.number || b.number <= s.committed {
		return // a further effect round
	}
	if len(s.decided) == decidedMax {
		s.decided = nil
		s.forget()
	}
	s.decided = append(s.decided, *b)
	if b.anything || len(s.inserts)+len(inserted) > tablesKnownMax {
		s.forget()
	}
	for key := range b.following {
		delete(s.younger, key)
		delete(s.older, key)
	}
	for _, table := range inserted {
		s.inserts[table] = b.number
	}
}

// commit takes the outcomes of a block.
func (s *staleRows) commit(number uint64, succeeded func(wire.TxID) bool) {
	if len(s.decided) == 0 || s.decided[0].number != number || s.committed != 0 && number != s.committed+1 {
		s.decided, s.committed = nil, number
		s.forget()
		return
	}
	b := s.decided[0]
	s.decided[0] = decidedBlock{}
	s.decided, s.committed = s.decided[1:], number
	doubtful := map[rowKey]int{}
	for _, tx := range b.changes {
		for key := range tx.rows {
			if succeeded(tx.id) {
				doubtful[key]++
			}
		}
	}
	for _, tx := range b.changes {
		if !succeeded(tx.id) {
			continue
		}
		for key, row := range tx.rows {
			if doubtful[key] == 1 && !s.changes(key) {
				s.learn(number, key, row)
			}
		}
	}
}

// changes tells whether a decided block without outcomes may change a row.
func (s *staleRows) changes(key rowKey) bool {
	for i := range s.decided {
		if s.decided[i].anything || s.decided[i].following[key] {
			return true
		}
	}
	return false
}

// learn keeps a change that certainly left another row: none, or one with other values. A row that
// changed twice may have its old values.
func (s *staleRows) learn(block uint64, key rowKey, row rowChange) {
	if row.last != 'D' && row.count > 1 {
		return
	}
	if len(s.younger) >= rowsKnownMax/2 {
		s.younger, s.older = map[rowKey]change{}, s.younger
	}
	s.younger[key] = change{block: block, before: row.first, gone: row.last == 'D'}
	s.newest = block
}

// conflict finds a row that a write set saw and a block changed since. Cost: a hash for each row.
func (s *staleRows) conflict(w *wire.WriteSet) *conflict {
	if w.Snapshot >= s.newest {
		return nil
	}
	for i := range w.Seen {
		if row := &w.Seen[i]; row.Present {
			if c := s.replaced(w, row.Table, row.Key, row.Hash); c != nil {
				return c
			}
		}
	}
	touched := map[rowKey]bool{}
	for i := range w.Changes {
		row := &w.Changes[i]
		if row.Op == 'I' {
			return nil // a later change may be of this row, whose key is not known here
		}
		key := rowKeyOf(w.Tables[row.Table], row.Row)
		if touched[key] {
			continue
		}
		touched[key] = true
		if c := s.replaced(w, row.Table, row.Row, row.Before); c != nil {
			return c
		}
	}
	return nil
}

// replaced finds what the transaction, which began before the change, cannot have been right about.
func (s *staleRows) replaced(w *wire.WriteSet, table uint16, key []byte, hash wire.Hash) *conflict {
	name := w.Tables[table]
	of := rowKeyOf(name, key)
	c, known := s.younger[of]
	if !known {
		c, known = s.older[of]
	}
	if !known || w.Snapshot >= c.block {
		return nil
	}
	if c.gone && s.inserts[name] < c.block || !c.gone && c.before == hash {
		return &conflict{name, key, c.block}
	}
	return nil
}

// readDecided reads the rows that a block may change, and the tables that it may insert into. Cost:
// it decodes the EFFECTS transactions behind the last one of another kind.
func readDecided(b *wire.OrderedBlock) (*decidedBlock, []string) {
	d := &decidedBlock{number: b.Number, following: map[rowKey]bool{}}
	txs, err := wire.SplitTransactions(b.Transactions)
	if err != nil || len(txs) != len(b.IDs) {
		d.anything = true
		return d, nil
	}
	inserted, count := map[string]bool{}, 0
	for i := len(txs) - 1; i >= 0 && !d.anything; i-- {
		set := writeSetOf(txs[i])
		if set == nil || count+len(set.Changes) > rowsTouchedMax {
			d.anything = true
			break
		}
		count += len(set.Changes)
		of := changes{b.IDs[i], map[rowKey]rowChange{}}
		for j := range set.Changes {
			of.add(set, &set.Changes[j], inserted)
		}
		for key := range of.rows {
			d.following[key] = true
		}
		d.changes = append(d.changes, of)
	}
	tables := make([]string, 0, len(inserted))
	for table := range inserted {
		tables = append(tables, table)
	}
	return d, tables
}

func (c *changes) add(set *wire.WriteSet, row *wire.RowChange, inserted map[string]bool) {
	table := set.Tables[row.Table]
	if row.Op == 'I' {
		inserted[strings.Clone(table)] = true
		return
	}
	key := rowKeyOf(table, row.Row)
	had := c.rows[key]
	if had.count == 0 {
		had.first = row.Before
	}
	had.count++
	had.last = row.Op
	c.rows[key] = had
}

// writeSetOf gives the write set of a ChainedTx's bytes; nil: it is of another kind.
func writeSetOf(raw []byte) *wire.WriteSet {
	tx, err := wire.DecodeChainedTx(raw)
	if err != nil || tx.Proposal.Kind != wire.Kind_KIND_EFFECTS {
		return nil
	}
	set, err := wire.DecodeWriteSet(tx.Proposal.Effects)
	if err != nil {
		return nil
	}
	return set
}

// Ordered tells the gateway which ledger block a decision orders. The call comes before that of
// Decided, and before the database can commit the block.
func (g *Gateway) Ordered(b *wire.OrderedBlock) {
	g.mu.Lock()
	known := g.stale.knows(b.Number)
	g.mu.Unlock()
	if known {
		return
	}
	decided, inserted := readDecided(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stale.decide(decided, inserted)
}

func (s *staleRows) knows(number uint64) bool {
	n := len(s.decided)
	return number <= s.committed || n > 0 && number <= s.decided[n-1].number
}

// learn takes the outcomes of a committed block. The caller holds g.mu.
func (g *Gateway) learn(b *wire.OrderedBlock, results []wire.TxResult) {
	succeeded := make(map[wire.TxID]bool, len(results))
	known := len(results) == len(b.IDs)
	for _, r := range results {
		succeeded[r.ID] = r.Succeeded
	}
	if !known {
		g.stale.decided = nil // commit then forgets
	}
	g.stale.commit(b.Number, func(id wire.TxID) bool { return succeeded[id] })
}

// conflict finds a row that a transaction saw and a block changed since; nil: none. The caller
// holds g.mu. Cost: a decoding, of an EFFECTS transaction older than the newest change.
func (g *Gateway) conflict(e *entry) *conflict {
	if !e.effects || e.snapshot >= g.stale.newest {
		return nil
	}
	p := &wire.Proposal{}
	if proto.Unmarshal(e.tx.Proposal.Proposal, p) != nil {
		return nil
	}
	set, err := wire.DecodeWriteSet(p.Effects)
	if err != nil {
		return nil
	}
	return g.stale.conflict(set)
}

// dropStale answers those of a new bundle that can only fail, and returns the others. The caller
// holds g.mu.
func (g *Gateway) dropStale(entries []*entry) []*entry {
	kept := entries[:0]
	for _, e := range entries {
		c := g.conflict(e)
		if c == nil {
			kept = append(kept, e)
			continue
		}
		g.stats.EarlyAborts++
		g.settle(wire.TxResult{ID: e.id, SQLState: StateStale, Message: fmt.Sprintf("%s: block %d changed it; the transaction was not ordered", c.message(), c.block)})
	}
	clear(entries[len(kept):])
	return kept
}

// staleError refuses a single transaction before it is queued.
func (g *Gateway) staleError(made []*entry) error {
	if len(made) != 1 {
		return nil // others of the submission may succeed
	}
	c := g.conflict(made[0])
	if c == nil {
		return nil
	}
	g.stats.EarlyAborts++
	return &Error{
		SQLState: StateStale, Message: c.message(),
		Detail: fmt.Sprintf("Block %d changed it. Transaction %x was not ordered.", c.block, made[0].id), Hint: "Run the transaction again.",
	}
}

// setEffects keeps of a checked write set its snapshot and, where a block has a limit, how many
// rows it names.
func (g *Gateway) setEffects(e *entry, kind wire.Kind, raw []byte) {
	if e.effects = kind == wire.Kind_KIND_EFFECTS; !e.effects {
		return
	}
	e.snapshot = binary.BigEndian.Uint64(raw[1:9])
	if g.opt.BlockKeys() == 0 {
		return
	}
	if set, err := wire.DecodeWriteSet(raw); err == nil {
		e.rows = len(set.Changes) + len(set.Seen)
	}
}

// message is worded as the conflict that the block would have had.
func (c *conflict) message() string {
	return fmt.Sprintf("row (%s) of table \"%s\" is not as the transaction saw it", keyText(c.key), c.table)
}

// keyText shows a primary key to people: numbers and texts as they are, other values in
// hexadecimal.
func keyText(key []byte) string {
	var values []string
	for key = key[2:]; len(key) >= 7; { // behind the number of columns: u16 ordinal ‖ u8 tag ‖ u32 length ‖ payload
		size := int(binary.BigEndian.Uint32(key[3:7]))
		tag, payload := key[2], key[7:7+size]
		key = key[7+size:]
		switch {
		case tag == 0x02 && size == 8:
			values = append(values, strconv.FormatInt(int64(binary.BigEndian.Uint64(payload)), 10))
		case tag == 0x03, tag == 0x05, tag == 0x0f, tag == 0x11:
			values = append(values, printable(string(payload)))
		default:
			values = append(values, fmt.Sprintf("\\x%x", payload))
		}
	}
	text := strings.Join(values, ", ")
	if len(text) > keyTextMax {
		text = strings.ToValidUTF8(text[:keyTextMax], "") + "…"
	}
	return text
}
