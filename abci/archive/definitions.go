package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// statesMax bounds the tables of a ledger, as where rows are told to others.
const statesMax = 16_384

// Definitions are those of all tables at the end of a certified block, which is none before the
// last of the range. The block's state root covers them, so they prove the names of columns.
type Definitions struct {
	Digest json.RawMessage `json:"digest"` // of that block (spec/receipt.md)
	States []State         `json:"states"` // ascending by name
}

// State is a table's entry in the state root. It has the other definitions, and the procedures, by
// a hash alone.
type State struct {
	Name     string        `json:"name"`
	Encoding uint32        `json:"encoding"` // of the schema text; 0: State is a hash
	Text     string        `json:"text"`     // schema text
	Rows     uint64        `json:"rows"`
	State    wire.HexBytes `json:"state"` // lanes, or the hash
}

// NewDefinitions are those at the end of a block.
func NewDefinitions(b *Block, states []State) (*Definitions, error) {
	digest, err := json.Marshal(b.digest())
	return &Definitions{digest, states}, err
}

// fit: a manifest has room for them beside its files.
func (d *Definitions) fit() bool {
	if d == nil || len(d.States) > statesMax {
		return false
	}
	text, err := json.MarshalIndent(d, "", " ")
	return err == nil && len(text) <= manifestMax/2
}

// hash is that of a state in the state root.
func (s *State) hash() (wire.Hash, error) {
	if s.Encoding == 0 {
		if len(s.State) != len(wire.Hash{}) {
			return wire.Hash{}, fmt.Errorf("%s: a hash of %d bytes", s.Name, len(s.State))
		}
		return wire.Hash(s.State), nil
	}
	lanes, err := canonical.DecodeLanes(s.State)
	if err != nil {
		return wire.Hash{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	schema := canonical.SchemaHash(s.Text)
	switch s.Encoding {
	case 1:
	case 2:
		schema = canonical.SchemaHash2(s.Text)
	default:
		return wire.Hash{}, fmt.Errorf("%s: encoding %d, want 1 or 2", s.Name, s.Encoding)
	}
	return canonical.TableState(s.Name, schema, &canonical.State{Rows: s.Rows, Lanes: lanes}), nil
}

// Root is the state root that states lead to.
func Root(states []State) (wire.Hash, error) {
	named := make([]canonical.Named, len(states))
	for i := range states {
		hash, err := states[i].hash()
		if err != nil {
			return wire.Hash{}, err
		}
		if i > 0 && states[i-1].Name >= states[i].Name {
			return wire.Hash{}, fmt.Errorf("%s: not after the one before by name", states[i].Name)
		}
		named[i] = canonical.Named{Name: states[i].Name, State: hash}
	}
	return canonical.StateRoot(named), nil
}

// agreed are the columns by the definitions that were proven.
type agreed struct {
	block uint64
	// columns has the names of each table's columns by ordinal; nil: its text has more than one
	// meaning.
	columns map[string]map[uint16]string
}

// check compares definitions with what was agreed. An error says why they do not hold.
func (d *Definitions) check(m *Manifest, authorities audit.Authorities) (*agreed, error) {
	r, err := audit.Parse(d.Digest)
	switch {
	case err != nil:
		return nil, fmt.Errorf("digest: %w", err)
	case r.ChainID != m.ChainID || r.Transaction != nil || r.Change != nil || r.Block.Number < m.Last:
		return nil, fmt.Errorf("digest: block %d of chain %q, want a digest of block %d of chain %q, or of a later one", r.Block.Number, r.ChainID, m.Last, m.ChainID)
	}
	if wrong := r.Check(authorities.For(r.Block.Number)); len(wrong) > 0 {
		return nil, fmt.Errorf("digest: block %d: %s", r.Block.Number, wrong[0])
	}
	root, err := Root(d.States)
	if err != nil {
		return nil, err
	}
	if root != wire.Hash(r.Block.StateRoot) {
		return nil, fmt.Errorf("they give state root %x, block %d has %x", root, r.Block.Number, wire.Hash(r.Block.StateRoot))
	}
	a := &agreed{r.Block.Number, map[string]map[uint16]string{}}
	for i := range d.States {
		if s := &d.States[i]; s.Encoding != 0 {
			a.columns[s.Name] = columnsOf(s.Text)
		}
	}
	return a, nil
}

// columnLine is how schema texts of either encoding begin the line of a column.
var columnLine = regexp.MustCompile(`(?m)^column ([0-9]{1,5}) ("(?:[^"]|"")*"|[^" \n]+) `)

// columnsOf reads the names of a schema text's columns by ordinal. A default or another part of the
// text may hold a line that looks so, and every column has a line: where an ordinal has two, the
// text is taken for none.
func columnsOf(text string) map[uint16]string {
	out := map[uint16]string{}
	for _, found := range columnLine.FindAllStringSubmatch(text, -1) {
		ordinal, err := strconv.ParseUint(found[1], 10, 16)
		name := found[2]
		if strings.HasPrefix(name, `"`) {
			name = strings.ReplaceAll(name[1:len(name)-1], `""`, `"`)
		}
		if _, twice := out[uint16(ordinal)]; twice || err != nil {
			return nil
		}
		out[uint16(ordinal)] = name
	}
	return out
}

// prove marks the newest version of each table as proven, where definitions say all its names. An
// error is a name that they say otherwise.
func (n *names) prove(a *agreed) error {
	for _, table := range slices.Sorted(maps.Keys(n.tables)) { // the same finding each time
		versions, says := n.tables[table], a.columns[table]
		newest := versions[0]
		for _, v := range versions {
			if newest.before(v.block, v.tx) {
				newest = v
			}
		}
		if says == nil || newest.block > a.block {
			continue
		}
		for _, ordinal := range slices.Sorted(maps.Keys(newest.columns)) {
			called := newest.columns[ordinal]
			name, has := says[ordinal]
			if !has {
				return fmt.Errorf("column %d of %s is %s, the definitions of block %d have no such column", ordinal, table, called[:len(called)-1], a.block)
			}
			if string(called) != string(quoted(name))+":" {
				return fmt.Errorf("column %d of %s is %s, the definitions of block %d call it %s", ordinal, table, called[:len(called)-1], a.block, quoted(name))
			}
		}
		newest.proven = true
	}
	return nil
}

// before: a version begins before a transaction of a block.
func (v *version) before(block uint64, tx uint32) bool {
	return v.block < block || v.block == block && v.tx < tx
}

// attachments are the transactions that put tables on the ledger last, or took them off, in the
// blocks read so far. A version of a table never begins before.
type attachments map[string]attachment

type attachment struct {
	block uint64
	tx    uint32
}

// take notes a transaction that succeeded.
func (a attachments) take(block uint64, tx uint32, p *wire.Proposal) {
	if p.Kind != wire.Kind_KIND_DEPLOY {
		return
	}
	for _, table := range attaches(p.Sql) {
		a[table] = attachment{block, tx}
	}
}

// holdBack takes back the proof of versions that claim to be older than their table's place on the
// ledger: what they say of earlier rows is of another table.
func (n *names) holdBack(a attachments) {
	for table, at := range a {
		for _, v := range n.tables[table] {
			if v.before(at.block, at.tx) {
				v.proven = false
			}
		}
	}
}

// holdBackRenamed takes back the proof of versions in which a column had another name at the range
// before. It may be another table's column.
func (n *names) holdBackRenamed(before, now *agreed) {
	if before == nil {
		return
	}
	for table, columns := range now.columns {
		for ordinal, name := range columns {
			if was, had := before.columns[table][ordinal]; !had || was == name {
				continue
			}
			for _, v := range n.tables[table] {
				v.proven = v.proven && v.block > before.block
			}
		}
	}
}

var errNoList = errors.New("no list of tables")

// attaches are the tables of a DEPLOY transaction that attaches or detaches tables, as schema.name
// without quotes; nil for any other text (spec/transactions.md).
func attaches(sql string) []string {
	text := strings.TrimSpace(strings.TrimRight(strings.TrimSpace(sql), ";"))
	first, rest, err := word(text)
	if err != nil || first != "attach" && first != "detach" {
		return nil
	}
	if first, rest, err = word(rest); err != nil || first != "table" {
		return nil
	}
	var out []string
	for {
		var schema, table string
		schema, rest, err = word(rest)
		if err == nil && strings.HasPrefix(rest, ".") {
			table, rest, err = word(strings.TrimSpace(rest[1:]))
		}
		if err != nil || table == "" {
			return out // no such text succeeds
		}
		out = append(out, schema+"."+table)
		if !strings.HasPrefix(rest, ",") {
			return out // or ENCODING 2
		}
		rest = strings.TrimSpace(rest[1:])
	}
}

var bareWord = regexp.MustCompile(`^(?:"((?:[^"]|"")*)"|([\pL\pN_$]+))\s*`)

// word is the name or keyword that a text begins with, as PostgreSQL keeps it, and what follows.
func word(text string) (name, rest string, err error) {
	found := bareWord.FindStringSubmatch(text)
	if found == nil {
		return "", "", errNoList
	}
	if name = strings.ReplaceAll(found[1], `""`, `"`); found[2] != "" {
		name = lowerASCII(found[2])
	}
	return name, text[len(found[0]):], nil
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}
