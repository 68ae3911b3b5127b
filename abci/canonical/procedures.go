package canonical

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// Procedures is the name of the state of procedures in the state root. A table's name has a dot.
const Procedures = "procedures"

// Engines of procedures, as DEPLOY transactions and [ProceduresState] spell them.
const (
	MariaDB    = "mariadb"
	PostgreSQL = "postgresql"
)

// Procedure is a stored procedure that each engine has in words of its own.
type Procedure struct {
	Name    string   // public.name
	Types   []string // logical types of its parameters
	Digests []Digest // by engine, ascending
}

// Digest is the SHA-256 of the words that one engine has for a procedure.
type Digest struct {
	Engine string
	Hash   wire.Hash
}

// Signature is the list of a procedure's types, as it is hashed.
func (p *Procedure) Signature() string { return "(" + strings.Join(p.Types, ", ") + ")" }

// ParseSignature reads a signature back.
func ParseSignature(text string) (types []string, err error) {
	inside, opened := strings.CutPrefix(text, "(")
	inside, closed := strings.CutSuffix(inside, ")")
	if inside != "" {
		types = strings.Split(inside, ", ")
	}
	for _, logical := range types {
		if _, ok := plainTags[logical]; !ok && logical != "numeric" {
			return nil, wrong("type %q of a parameter", logical)
		}
	}
	if !opened || !closed {
		return nil, wrong("signature %q", text)
	}
	return types, nil
}

// Digest is that of one engine; nil: the procedure names none.
func (p *Procedure) Digest(engine string) *wire.Hash {
	for i := range p.Digests {
		if p.Digests[i].Engine == engine {
			return &p.Digests[i].Hash
		}
	}
	return nil
}

// With is the procedure with another digest of one engine, which it names.
func (p *Procedure) With(engine string, digest wire.Hash) *Procedure {
	other := *p
	other.Digests = slices.Clone(p.Digests)
	*other.Digest(engine) = digest
	return &other
}

// ProceduresState is the hash of the procedures on a ledger, in any order.
func ProceduresState(procedures []*Procedure) wire.Hash {
	procedures = slices.Clone(procedures)
	slices.SortFunc(procedures, func(a, b *Procedure) int { return cmp.Compare(a.Name, b.Name) })
	in := binary.BigEndian.AppendUint32([]byte("chainify/procedures/1"), uint32(len(procedures)))
	for _, p := range procedures {
		in = appendPrefixed(appendPrefixed(in, p.Name), p.Signature())
		in = binary.BigEndian.AppendUint32(in, uint32(len(p.Digests)))
		for _, d := range p.Digests {
			in = append(appendPrefixed(in, d.Engine), d.Hash[:]...)
		}
	}
	return hash(in)
}
