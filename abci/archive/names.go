package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chainify-db/chainify/abci/canonical"
)

// names are the columns' names by table, version and ordinal.
type names struct{ tables map[string][]*version }

// version is a table's columns since a transaction: each name as JSON, with a colon.
type version struct {
	block   uint64
	tx      uint32
	columns map[uint16][]byte
	proven  bool // its names are those that the organisations agreed on
}

func newNames() *names { return &names{map[string][]*version{}} }

func (n *names) add(c *Column) {
	all := n.tables[c.Table]
	at := slices.IndexFunc(all, func(v *version) bool { return v.block == c.SinceBlock && v.tx == c.SinceTx })
	if at < 0 {
		all, at = append(all, &version{block: c.SinceBlock, tx: c.SinceTx, columns: map[uint16][]byte{}}), len(all)
		n.tables[c.Table] = all
	}
	called := c.Name
	if called == "" {
		called = strconv.Itoa(int(c.Ordinal))
	}
	all[at].columns[c.Ordinal] = append(quoted(called), ':')
}

// of returns the version of a change's table; nil: there is none.
func (n *names) of(c *Change) *version {
	var found *version
	for _, v := range n.tables[c.Table] {
		if v.before(c.Block, c.Tx) && (found == nil || found.before(v.block, v.tx)) {
			found = v
		}
	}
	return found
}

// proves: the names of a change's columns are proven.
func (n *names) proves(c *Change) bool {
	v := n.of(c)
	return v != nil && v.proven
}

// cells is the row of a change for people: a JSON object by columns' names, NULLs left out. It is
// empty for a row of another encoding. A column without a name has its ordinal for one.
func (n *names) cells(c *Change) string {
	var names map[uint16][]byte
	if v := n.of(c); v != nil {
		names = v.columns
	}
	out := make([]byte, 0, 4*len(c.Row))
	out, simple := appendSimple(append(out, '{'), c.Row, names)
	if simple {
		return string(append(out, '}'))
	}
	columns, err := canonical.DecodeRow(c.Row)
	if err != nil {
		return ""
	}
	out = append(out[:0], '{')
	for i, column := range columns {
		out = append(appendName(comma(out, i), names, column.Ordinal), shown(&column.Value)...)
	}
	return string(append(out, '}'))
}

func appendName(out []byte, names map[uint16][]byte, ordinal uint16) []byte {
	if called := names[ordinal]; called != nil {
		return append(out, called...)
	}
	return append(append(out, quoted(strconv.Itoa(int(ordinal)))...), ':')
}

// appendSimple appends the cells of a row whose values are all of the usual kinds, without decoding
// the whole row; false for another one.
func appendSimple(out, row []byte, names map[uint16][]byte) ([]byte, bool) {
	const head = 2 + 1 + 4 // ordinal, tag, length
	if len(row) < 2 {
		return out, false
	}
	count, rest := binary.BigEndian.Uint16(row), row[2:]
	for i := range int(count) {
		if len(rest) < head {
			return out, false
		}
		ordinal, size := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint32(rest[3:])
		v := canonical.Value{Tag: canonical.Tag(rest[2])}
		if rest = rest[head:]; uint64(size) > uint64(len(rest)) || !simple(&v, rest[:size]) {
			return out, false
		}
		rest = rest[size:]
		out = append(appendName(comma(out, i), names, ordinal), shown(&v)...)
	}
	return out, len(rest) == 0
}

// simple fills a value of the usual kinds; false for others.
func simple(v *canonical.Value, payload []byte) bool {
	switch v.Tag {
	case canonical.Integer, canonical.Date, canonical.Timestamp, canonical.TimestampTZ:
		if len(payload) != 8 {
			return false
		}
		v.Number = int64(binary.BigEndian.Uint64(payload))
	case canonical.Boolean:
		if len(payload) != 1 {
			return false
		}
		v.Number = int64(payload[0])
	case canonical.Text, canonical.Enum:
		v.Text = string(payload)
		return utf8.ValidString(v.Text)
	case canonical.Numeric:
		v.Text = string(payload)
		return json.Valid(payload) && payload[0] <= '9' && payload[0] != '"'
	default:
		return false
	}
	return true
}

// quoted is a JSON string.
func quoted(text string) []byte {
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) < 0 {
		return append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string there is no error
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// shown is a value as JSON: numbers as numbers, JSON as it is, all else as PostgreSQL writes it.
func shown(v *canonical.Value) []byte {
	switch v.Tag {
	case canonical.Boolean:
		return strconv.AppendBool(nil, v.Number == 1)
	case canonical.Integer:
		return strconv.AppendInt(nil, v.Number, 10)
	case canonical.Numeric:
		if v.Text == "NaN" || v.Text == "Infinity" || v.Text == "-Infinity" {
			return quoted(v.Text)
		}
		return []byte(v.Text)
	case canonical.Float:
		if math.IsNaN(v.Float) || math.IsInf(v.Float, 0) {
			return quoted(strconv.FormatFloat(v.Float, 'g', -1, 64))
		}
		return strconv.AppendFloat(nil, v.Float, 'g', -1, 64)
	case canonical.JSON:
		return []byte(v.Text)
	case canonical.Array:
		return list(v.Elements, v.Dimensions)
	case canonical.Composite:
		return fields(v)
	case canonical.Range:
		return ranges(v)
	default:
		return quoted(text(v))
	}
}

const (
	dateText  = "2006-01-02"
	clockText = "15:04:05.999999"
)

func text(v *canonical.Value) string {
	switch v.Tag {
	case canonical.Bytea:
		return `\x` + hex.EncodeToString([]byte(v.Text))
	case canonical.UUID:
		h := hex.EncodeToString([]byte(v.Text))
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	case canonical.Date:
		if days := v.Number; days > -1e6 && days < 3e6 {
			return time.Unix(days*86_400, 0).UTC().Format(dateText)
		}
		return extreme(v.Number)
	case canonical.Time:
		return time.UnixMicro(v.Number).UTC().Format(clockText)
	case canonical.Timestamp, canonical.TimestampTZ:
		if v.Number == math.MinInt64 || v.Number == math.MaxInt64 {
			return extreme(v.Number)
		}
		zone := map[bool]string{true: "+00"}[v.Tag == canonical.TimestampTZ]
		return time.UnixMicro(v.Number).UTC().Format(dateText+" "+clockText) + zone
	case canonical.Interval:
		return fmt.Sprintf("%d months %d days %d microseconds", v.Months, v.Days, v.Number)
	default: // text, labels, addresses, other types' texts
		return v.Text
	}
}

// extreme is an infinite time, or the number of one that has no text here.
func extreme(n int64) string {
	switch n {
	case math.MinInt64:
		return "-infinity"
	case math.MaxInt64:
		return "infinity"
	}
	return strconv.FormatInt(n, 10)
}

// list nests as the dimensions say, the last one innermost.
func list(elements []*canonical.Value, dimensions []canonical.Dimension) []byte {
	out := []byte{'['}
	if len(dimensions) > 1 {
		size := len(elements) / max(int(dimensions[0].Size), 1)
		for i := range int(dimensions[0].Size) {
			out = append(comma(out, i), list(elements[i*size:(i+1)*size], dimensions[1:])...)
		}
		return append(out, ']')
	}
	for i, e := range elements {
		if out = comma(out, i); e == nil {
			out = append(out, "null"...)
			continue
		}
		out = append(out, shown(e)...)
	}
	return append(out, ']')
}

func comma(out []byte, i int) []byte {
	if i > 0 {
		return append(out, ',')
	}
	return out
}

func fields(v *canonical.Value) []byte {
	out := []byte{'{'}
	for i, f := range v.Fields {
		out = append(comma(out, i), quoted(strconv.Itoa(int(f.Ordinal)))...)
		out = append(append(out, ':'), shown(&f.Value)...)
	}
	return append(out, '}')
}

// ranges is a list of [lower, upper, "[)"] with null for infinite ends.
func ranges(v *canonical.Value) []byte {
	out := []byte{'['}
	for i, r := range v.Ranges {
		brackets := []byte("()")
		one := []byte{'['}
		for j, end := range []*canonical.End{r.Lower, r.Upper} {
			if end == nil {
				one = append(one, "null,"...)
				continue
			}
			if end.Inclusive {
				brackets[j] = "[]"[j]
			}
			one = append(append(one, shown(&end.Value)...), ',')
		}
		one = append(append(one, quoted(string(brackets))...), ']')
		out = append(comma(out, i), one...)
	}
	return append(out, ']')
}
