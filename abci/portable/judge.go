package portable

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// tablesMax bounds the tables of one DEPLOY transaction.
const tablesMax = 1_000

// Encoding2 stands in each text that makes a ledger one of several engines.
const Encoding2 = "ENCODING 2"

var (
	deployText = regexp.MustCompile(`^(ATTACH|DETACH) TABLE (.*?)( ` + Encoding2 + `)?$`)
	deployName = regexp.MustCompile(`^public\.[a-z_][a-z0-9_]{0,62}$`)
)

// Deploy is a DEPLOY transaction that all engines execute: what it puts on the ledger, or takes
// off.
type Deploy struct {
	Attach    bool
	Tables    []string             // public.name
	Procedure *canonical.Procedure // nil: tables; its name alone where it goes
}

// ParseDeploy reads the text of a DEPLOY transaction. The error is a *Refusal.
func ParseDeploy(text string) (*Deploy, error) {
	if d, err := parseProcedure(text); d != nil || err != nil {
		return d, err
	}
	m := deployText.FindStringSubmatch(text)
	if m == nil || (m[1] == "ATTACH") != (m[3] != "") {
		return nil, refuse("DEPLOY transaction other than ATTACH … ENCODING 2 and DETACH of tables and procedures")
	}
	d := &Deploy{Attach: m[1] == "ATTACH", Tables: strings.Split(m[2], ", ")}
	for _, name := range d.Tables {
		if !deployName.MatchString(name) || strings.HasPrefix(name, "public.pg_") {
			return nil, refuse("table name %.80q", name)
		}
	}
	if len(d.Tables) > tablesMax {
		return nil, refuse("more than %d tables", tablesMax)
	}
	return d, nil
}

// Ledger lists the objects on the ledger at the end of a block, by name.
type Ledger struct {
	Tables     map[string]*canonical.Table
	Procedures map[string]*canonical.Procedure
}

// JudgeText is the part of Judge that a transaction's text alone decides. A ledger of several
// engines never runs what it refuses. The error is a *Refusal. Cost: linear in the text.
func JudgeText(kind wire.Kind, text string) error {
	var err error
	switch kind {
	case wire.Kind_KIND_SQL:
		_, err = Parse(text)
	case wire.Kind_KIND_DEPLOY:
		_, err = ParseDeploy(text)
	}
	if err != nil {
		return &Refusal{RefusedState, err.Error()}
	}
	return nil
}

// Judge tells whether all engines execute a transaction alike: one verdict for every organisation.
// The ledger is that before the transaction's block. The error is a *Refusal, which is the outcome
// of the transaction. Cost: linear in the transaction.
func (l Ledger) Judge(p *wire.Proposal) error { return l.judge(p, Texts{}) }

func (l Ledger) judge(p *wire.Proposal, texts Texts) error {
	switch p.Kind {
	case wire.Kind_KIND_SQL:
		s, err := texts.Parse(p.Sql)
		if err != nil {
			return err
		}
		if s.Op == 'C' {
			_, err := l.Arguments(s, p.Parameters)
			return err
		}
		t := l.Tables[s.Table]
		if t == nil {
			return notOnLedger(s.Table)
		}
		return check(s, t, p.Parameters)
	case wire.Kind_KIND_EFFECTS:
		return judgeEffects(p.Effects, l.Tables)
	case wire.Kind_KIND_DEPLOY:
		_, err := ParseDeploy(p.Sql)
		return err
	}
	return refuse("transaction of kind %v", p.Kind)
}

func notOnLedger(table string) error {
	return &Refusal{"42P01", fmt.Sprintf("table %s was not on the ledger before the block", table)}
}

// check binds all of a statement.
func check(s *Statement, t *canonical.Table, parameters []*wire.Parameter) error {
	b, err := NewBinder(s, t, parameters)
	if err != nil {
		return err
	}
	for _, row := range s.Rows {
		for i, o := range row {
			v, err := b.Assigned(s.Columns[i], o)
			if err == nil && v.Column != "" {
				err = refuse("column %s in VALUES", v.Column)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, set := range s.Set {
		if _, _, err := b.Value(set.Column, set.Value); err != nil {
			return err
		}
	}
	for _, test := range s.Where {
		if _, _, err := b.Test(test); err != nil {
			return err
		}
	}
	return nil
}

func judgeEffects(effects []byte, tables map[string]*canonical.Table) error {
	s, err := wire.DecodeWriteSet(effects)
	if err == nil {
		err = canonical.CheckWriteSet(s)
	}
	if err != nil {
		return malformed(err)
	}
	for _, name := range s.Tables {
		if tables[name] == nil {
			return notOnLedger(name)
		}
	}
	for i := range s.Changes {
		c := &s.Changes[i]
		t := tables[s.Tables[c.Table]]
		if err := judgeRow(t, c.Row); err != nil {
			return err
		}
		for _, cell := range c.Cells {
			if cell.Value[0] == 0 { // NULL
				continue
			}
			v, err := canonical.DecodeValue(cell.Value)
			if err != nil {
				return malformed(err)
			}
			if err := judgeCell(t, &canonical.Column{Ordinal: cell.Ordinal, Value: v}); err != nil {
				return err
			}
		}
	}
	for i := range s.Seen {
		if err := judgeRow(tables[s.Tables[s.Seen[i].Table]], s.Seen[i].Key); err != nil {
			return err
		}
	}
	return nil
}

func malformed(err error) error { return &Refusal{"22023", err.Error()} }

// judgeRow checks the values of an encoded row or key.
func judgeRow(t *canonical.Table, raw []byte) error {
	columns, err := canonical.DecodeRow(raw)
	if err != nil {
		return malformed(err)
	}
	for i := range columns {
		if err := judgeCell(t, &columns[i]); err != nil {
			return err
		}
	}
	return nil
}

func judgeCell(t *canonical.Table, v *canonical.Column) error {
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.Ordinal != v.Ordinal {
			continue
		}
		if tag, err := canonical.TypeTag(c.Type); err != nil || v.Value.Tag != tag {
			return &Refusal{"22023", fmt.Sprintf("column %s of %s is of another type", c.Name, t.Name)}
		}
		return storable(c.Type, &v.Value)
	}
	return &Refusal{"22023", fmt.Sprintf("table %s has no column %d", t.Name, v.Ordinal)}
}

// jsonDepthMax is how deep arrays and objects nest in a json: MariaDB's JSON_VALID takes no deeper.
const jsonDepthMax = 31

// storable refuses values that one engine has and another lacks.
func storable(logical string, v *canonical.Value) error {
	switch v.Tag {
	case canonical.Numeric:
		if strings.ContainsAny(v.Text, "NI") {
			return &Refusal{"22003", "neither NaN nor infinity is stored"}
		}
	case canonical.Float:
		if v.Float != v.Float || v.Float-v.Float != 0 {
			return &Refusal{"22003", "neither NaN nor infinity is stored"}
		}
	case canonical.Text:
		if strings.Contains(v.Text, "\x00") {
			return &Refusal{"22021", "zero byte in a text"}
		}
	case canonical.JSON:
		if strings.Contains(v.Text, `\u0000`) {
			return &Refusal{"22021", "zero byte in a json"}
		}
		if canonical.JSONDepth(v.Text) > jsonDepthMax {
			return &Refusal{"54000", fmt.Sprintf("a json deeper than %d", jsonDepthMax)}
		}
	case canonical.Date, canonical.Time, canonical.Timestamp, canonical.TimestampTZ:
		again, err := canonical.ParseText(logical, canonical.FormatText(logical, v))
		if err != nil || again.Number != v.Number {
			return &Refusal{"22008", "date or time out of range"}
		}
	}
	return nil
}

// RefusedState is the SQLSTATE of what is refused because engines differ: replay knows by it what
// was not run.
const RefusedState = "CH011"

// Judged judges the transactions of a block before it runs: a refusal for each, nil where it may
// run. No list: the block is none of a ledger of several engines.
//
// shared: a table came on the ledger with ENCODING 2 before the block. open: the ledger has no
// table, and becomes shared where the block attaches one so.
//
// texts keeps what was read.
func (l Ledger) Judged(proposals []*wire.Proposal, shared, open bool, texts Texts) []*Refusal {
	for _, p := range proposals {
		if p.Kind != wire.Kind_KIND_DEPLOY {
			continue
		}
		if d, err := ParseDeploy(p.Sql); err == nil && d.Attach && d.Procedure == nil {
			shared = shared || open
		}
	}
	if !shared {
		return nil
	}
	refusals := make([]*Refusal, len(proposals))
	for i, p := range proposals {
		if err := l.judge(p, texts); err != nil {
			refusals[i] = &Refusal{RefusedState, err.Error()}
		}
	}
	return refusals
}
