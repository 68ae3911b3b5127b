// Package canonical computes the bytes and hashes of values, rows, lanes, effects and table states
// (spec/formats.md). It is the second implementation beside crates/codec, for databases without the
// extension, and both are tested against spec/vectors. It knows no database.
package canonical

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Tag is the first byte of an encoded value.
type Tag byte

// The tags of spec/formats.md, "Values".
const (
	Boolean     Tag = 0x01
	Integer     Tag = 0x02
	Numeric     Tag = 0x03
	Float       Tag = 0x04
	Text        Tag = 0x05
	Bytea       Tag = 0x06
	Date        Tag = 0x07
	Time        Tag = 0x08
	Timestamp   Tag = 0x09
	TimestampTZ Tag = 0x0A
	UUID        Tag = 0x0B
	JSON        Tag = 0x0C
	Array       Tag = 0x0D
	Composite   Tag = 0x0E
	Enum        Tag = 0x0F
	Interval    Tag = 0x10
	Net         Tag = 0x11
	Range       Tag = 0x12
	Other       Tag = 0x7F
)

// depthMax bounds how deep values nest, jsonDepthMax how deep JSON does.
const (
	depthMax      = 64
	jsonDepthMax  = 1_000
	dimensionsMax = 6
	dayMicros     = 86_400_000_000
	uuidBytes     = 16
)

// ErrValue is the error for a value that has no encoding, and for bytes that encode none.
var ErrValue = errors.New("no canonical value")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrValue}, args...)...)
}

// Value is a value with the fields that its tag uses. Numbers and JSON are texts; Append writes
// them canonically.
type Value struct {
	Tag      Tag
	Number   int64   // boolean (0, 1), integer, days, microseconds; an interval's microseconds
	Float    float64 // of Float
	Text     string  // text, label, JSON, number or bytes, as the tag says
	TypeName string  // of Other

	Months, Days int32 // of Interval

	Element    Tag // of Array
	Dimensions []Dimension
	Elements   []*Value // nil: NULL

	Attributes uint16 // of Composite
	Fields     []Column

	Ranges     []Ends // of Range: none (empty) or one; of a multirange any number
	Multirange bool
}

// Column is a numbered value of a row or a composite.
type Column struct {
	Ordinal uint16
	Value   Value
}

// Dimension is one of an array's.
type Dimension struct {
	Size  uint32
	Lower int32
}

// Ends are a range's; nil is infinite.
type Ends struct{ Lower, Upper *End }

// End is one end of a range.
type End struct {
	Value     Value
	Inclusive bool
}

// Append appends the value's encoding to out. It returns ErrValue for a value without one. Cost:
// linear; sorting for JSON's keys.
func (v *Value) Append(out []byte) ([]byte, error) {
	at := len(out)
	out = append(out, byte(v.Tag), 0, 0, 0, 0)
	out, err := v.payload(out)
	if err != nil {
		return nil, err
	}
	length := len(out) - at - 5
	if length > math.MaxUint32 {
		return nil, wrong("%d bytes", length)
	}
	binary.BigEndian.PutUint32(out[at+1:], uint32(length))
	return out, nil
}

func (v *Value) payload(out []byte) ([]byte, error) {
	switch v.Tag {
	case Boolean:
		return append(out, byte(v.Number)), v.must(v.Number == 0 || v.Number == 1)
	case Time:
		return appendInt(out, v.Number), v.must(v.Number >= 0 && v.Number <= dayMicros)
	case Integer, Date, Timestamp, TimestampTZ:
		return appendInt(out, v.Number), nil
	case Numeric:
		return appendDecimal(out, v.Text)
	case Float:
		return appendFloat(out, v.Float), nil
	case Text, Enum, Net:
		return append(out, v.Text...), v.must(utf8.ValidString(v.Text))
	case Bytea:
		return append(out, v.Text...), nil
	case UUID:
		return append(out, v.Text...), v.must(len(v.Text) == uuidBytes)
	case JSON:
		return appendJSON(out, v.Text)
	case Array:
		return v.array(out)
	case Composite:
		return appendFields(binary.BigEndian.AppendUint16(out, v.Attributes), v.Fields, v.Attributes)
	case Interval:
		out = binary.BigEndian.AppendUint32(out, uint32(v.Months))
		return appendInt(binary.BigEndian.AppendUint32(out, uint32(v.Days)), v.Number), nil
	case Range:
		return v.ranges(out)
	case Other:
		out = appendPrefixed(appendPrefixed(out, v.TypeName), v.Text)
		return out, v.must(utf8.ValidString(v.TypeName) && utf8.ValidString(v.Text))
	default:
		return nil, wrong("tag %02x is unknown", byte(v.Tag))
	}
}

// must is an error unless the payload of a tag is one.
func (v *Value) must(holds bool) error {
	if holds {
		return nil
	}
	return wrong("payload of tag %02x", byte(v.Tag))
}

func appendInt(out []byte, n int64) []byte { return binary.BigEndian.AppendUint64(out, uint64(n)) }

func appendFloat(out []byte, f float64) []byte {
	bits := math.Float64bits(f)
	switch {
	case f != f:
		bits = 0x7ff8000000000000
	case f == 0:
		bits = 0
	}
	return binary.BigEndian.AppendUint64(out, bits)
}

func appendPrefixed[T ~string | ~[]byte](out []byte, x T) []byte {
	return append(binary.BigEndian.AppendUint32(out, uint32(len(x))), x...)
}

func (v *Value) array(out []byte) ([]byte, error) {
	count, ok := elementCount(v.Dimensions)
	if !ok || count != uint64(len(v.Elements)) {
		return nil, wrong("an array whose dimensions do not give its %d elements", len(v.Elements))
	}
	out = append(out, byte(v.Element), byte(len(v.Dimensions)))
	for _, d := range v.Dimensions {
		out = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(out, d.Size), uint32(d.Lower))
	}
	for _, element := range v.Elements {
		if element == nil {
			out = append(out, 0, 0, 0, 0, 0)
			continue
		}
		if element.Tag != v.Element {
			return nil, wrong("an array with an element of another type")
		}
		var err error
		if out, err = element.Append(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// elementCount is false for dimensions that no array has.
func elementCount(dimensions []Dimension) (count uint64, ok bool) {
	if len(dimensions) == 0 {
		return 0, true
	}
	count = 1
	for _, d := range dimensions {
		if d.Size == 0 || count > math.MaxUint64/uint64(d.Size) {
			return 0, false
		}
		count *= uint64(d.Size)
	}
	return count, len(dimensions) <= dimensionsMax
}

// The flags of a range.
const (
	rangeEmpty         = 1
	rangeLowerIn       = 2
	rangeUpperIn       = 4
	rangeLowerInfinite = 8
	rangeUpperInfinite = 16
	rangeMulti         = 32
)

func (v *Value) ranges(out []byte) ([]byte, error) {
	if !v.Multirange {
		switch len(v.Ranges) {
		case 0:
			return append(out, rangeEmpty), nil
		case 1:
			return v.Ranges[0].append(out)
		}
		return nil, wrong("a range of %d parts", len(v.Ranges))
	}
	out = binary.BigEndian.AppendUint32(append(out, rangeMulti), uint32(len(v.Ranges)))
	for i := range v.Ranges {
		part, err := v.Ranges[i].append(nil)
		if err != nil {
			return nil, err
		}
		out = appendPrefixed(out, part)
	}
	return out, nil
}

func (e *Ends) append(out []byte) ([]byte, error) {
	if e.Lower != nil && e.Upper != nil && e.Lower.Value.Tag != e.Upper.Value.Tag {
		return nil, wrong("a range with ends of different types")
	}
	out = append(out, e.Lower.flag(rangeLowerIn, rangeLowerInfinite)|e.Upper.flag(rangeUpperIn, rangeUpperInfinite))
	for _, end := range []*End{e.Lower, e.Upper} {
		if end == nil {
			continue
		}
		var err error
		if out, err = end.Value.Append(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *End) flag(inclusive, infinite byte) byte {
	switch {
	case e == nil:
		return infinite
	case e.Inclusive:
		return inclusive
	}
	return 0
}

// AppendRow appends the encoding of a row, or of a primary key: columns that are not NULL,
// ascending by ordinal. It returns ErrValue for others. Cost: as Append of each.
func AppendRow(out []byte, columns []Column) ([]byte, error) {
	return appendFields(out, columns, math.MaxUint16)
}

func appendFields(out []byte, fields []Column, ordinalMax uint16) ([]byte, error) {
	if len(fields) > math.MaxUint16 {
		return nil, wrong("%d columns", len(fields))
	}
	out = binary.BigEndian.AppendUint16(out, uint16(len(fields)))
	last := uint16(0)
	for i := range fields {
		f := &fields[i]
		if f.Ordinal <= last || f.Ordinal > ordinalMax {
			return nil, wrong("ordinals do not ascend within their bounds")
		}
		last = f.Ordinal
		var err error
		if out, err = f.Value.Append(binary.BigEndian.AppendUint16(out, f.Ordinal)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
