package portable

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/canonical"
	"github.com/chainify-db/chainify/abci/wire"
)

// numericArgument holds what a parameter of type numeric takes; its parameter in MariaDB is
// DECIMAL(65,38).
const (
	numericArgument = "numeric(65,38)"
	numericScale    = 38
)

var procedureText = regexp.MustCompile(`^(?:DETACH PROCEDURE (\S+)|ATTACH PROCEDURE (\S+) \(([^)]*)\) ` + Encoding2 +
	`(?: MARIADB ([0-9a-f]{64}))?(?: POSTGRESQL ([0-9a-f]{64}))?)$`)

// parseProcedure reads the text of a DEPLOY transaction about a procedure; nil: it is about
// something else.
func parseProcedure(text string) (*Deploy, error) {
	if !strings.HasPrefix(text, "ATTACH PROCEDURE ") && !strings.HasPrefix(text, "DETACH PROCEDURE ") {
		return nil, nil
	}
	m := procedureText.FindStringSubmatch(text)
	if m == nil {
		return nil, refuse("text other than ATTACH PROCEDURE public.name (type, …) ENCODING 2 MARIADB digest POSTGRESQL digest, and DETACH PROCEDURE public.name")
	}
	d := &Deploy{Attach: m[1] == "", Procedure: &canonical.Procedure{Name: m[1] + m[2]}}
	p := d.Procedure
	if !deployName.MatchString(p.Name) || strings.HasPrefix(p.Name, "public.pg_") {
		return nil, refuse("procedure name %.80q", p.Name)
	}
	if !d.Attach {
		return d, nil
	}
	var err error
	if p.Types, err = canonical.ParseSignature("(" + m[3] + ")"); err != nil {
		return nil, refuse("%.160s", err)
	}
	for i, engine := range []string{canonical.MariaDB, canonical.PostgreSQL} {
		if m[4+i] == "" {
			continue
		}
		raw, err := hex.DecodeString(m[4+i])
		if err != nil {
			return nil, refuse("digest %.80q", m[4+i])
		}
		p.Digests = append(p.Digests, canonical.Digest{Engine: engine, Hash: wire.Hash(raw)})
	}
	if len(p.Digests) == 0 || len(p.Types) > argumentsMax {
		return nil, refuse("%d parameters, and digests of %d engines", len(p.Types), len(p.Digests))
	}
	return d, nil
}

// Arguments are the operands of a CALL, each of its parameter's type. The error is a *Refusal.
func (l Ledger) Arguments(s *Statement, parameters []*wire.Parameter) ([]Bound, error) {
	p := l.Procedures[s.Table]
	if p == nil {
		return nil, &Refusal{"42883", fmt.Sprintf("procedure %s was not on the ledger before the block", s.Table)}
	}
	operands := s.Rows[0]
	if len(operands) != len(p.Types) {
		return nil, &Refusal{"42883", fmt.Sprintf("%d arguments for procedure %s%s", len(operands), p.Name, p.Signature())}
	}
	b := &Binder{&canonical.Table{}, parameters}
	arguments := make([]Bound, len(operands))
	for i, o := range operands {
		var err error
		if arguments[i], err = b.argument(o, p.Types[i]); err != nil {
			return nil, err
		}
	}
	return arguments, nil
}

// argument takes what PostgreSQL converts to the parameter's type by itself. An assignment to a
// column takes more.
func (b *Binder) argument(o Operand, logical string) (Bound, error) {
	if logical == "numeric" {
		logical = numericArgument
	}
	tag, err := canonical.TypeTag(logical)
	if err != nil {
		return Bound{}, err
	}
	digits, negative := strings.CutPrefix(o.Text, "-")
	switch {
	case o.Kind == Column:
		return Bound{}, refuse("column %s as an argument", o.Text)
	case o.Kind == Number && logical == "smallint":
		return Bound{}, refuse("number %.20s beside smallint", o.Text) // it is an integer there
	case o.Kind == Number && negative && tag == canonical.Integer:
		// PostgreSQL reads the digits first, and they may be of a wider type.
		if _, err := canonical.ParseText(logical, digits); err != nil {
			return Bound{}, refuse("number %.20s beside %s", o.Text, logical)
		}
	case o.Kind == Parameter && tag == canonical.Integer && b.wider(o, logical):
		return Bound{}, refuse("wider parameter beside %s", logical)
	}
	bound, err := b.operand(o, logical)
	if err == nil {
		err = fits(bound)
	}
	if err == nil && logical == numericArgument && bound.Value != nil {
		// All digits of the text count, and those that an exponent adds.
		_, written, _ := strings.Cut(bound.Value.Text, ".")
		if _, fraction := canonical.DigitsOf(bound.Value); len(written) > numericScale || fraction > numericScale {
			err = &Refusal{"22003", "constant beyond " + numericArgument}
		}
	}
	return bound, err
}

// wider tells whether a parameter is declared as an integer that the type may not hold.
func (b *Binder) wider(o Operand, logical string) bool {
	widths := []string{"smallint", "integer", "bigint"}
	p := b.parameterOf(o)
	return p != nil && slices.Index(widths, p.Type) > slices.Index(widths, logical)
}
