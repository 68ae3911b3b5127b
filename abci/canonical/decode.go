package canonical

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// DecodeRow reads the encoding of a row or a key back. It accepts what AppendRow writes and nothing
// else; other bytes are ErrValue. Cost: linear, with memory for what was read, not for what counts
// announce.
func DecodeRow(raw []byte) ([]Column, error) {
	r := reader{rest: raw}
	columns := r.fields(math.MaxUint16, 0)
	return columns, r.end()
}

// DecodeValue is DecodeRow for one value.
func DecodeValue(raw []byte) (Value, error) {
	r := reader{rest: raw}
	v := r.value(0)
	return v, r.end()
}

// reader takes fields off the front and keeps the first error; after it every field is zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = wrong(format, args...)
	}
	r.rest = nil
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes too many", len(r.rest))
	}
	return r.err
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.fail("%d bytes left, want %d", len(r.rest), n)
	}
	if r.err != nil {
		return nil
	}
	out := r.rest[:n:n]
	r.rest = r.rest[n:]
	return out
}

func (r *reader) u8() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// within reads lp(x) by f, which has to take all of it.
func (r *reader) within(f func(*reader)) {
	inner := reader{rest: r.take(uint64(r.u32())), err: r.err}
	if r.err == nil {
		f(&inner)
		if r.err = inner.end(); r.err != nil {
			r.rest = nil
		}
	}
}

// text takes all that is left.
func (r *reader) text() string {
	text := string(r.take(uint64(len(r.rest))))
	if !utf8.ValidString(text) {
		r.fail("text is not UTF-8")
	}
	return text
}

func (r *reader) fields(ordinalMax uint16, depth int) []Column {
	count := r.u16()
	var fields []Column
	last := uint16(0)
	for i := 0; i < int(count) && r.err == nil; i++ {
		ordinal := r.u16()
		if ordinal <= last || ordinal > ordinalMax {
			r.fail("ordinals do not ascend within their bounds")
		}
		fields, last = append(fields, Column{ordinal, r.value(depth)}), ordinal
	}
	return fields
}

func (r *reader) value(depth int) Value {
	if depth >= depthMax {
		r.fail("nested too deep")
	}
	v := Value{Tag: Tag(r.u8())}
	r.within(func(in *reader) { in.payload(&v, depth) })
	return v
}

func (r *reader) payload(v *Value, depth int) {
	switch v.Tag {
	case Boolean:
		if v.Number = int64(r.u8()); v.Number > 1 {
			r.fail("boolean is neither 0 nor 1")
		}
	case Integer, Date, Timestamp, TimestampTZ:
		v.Number = int64(r.u64())
	case Time:
		if v.Number = int64(r.u64()); v.Number < 0 || v.Number > dayMicros {
			r.fail("time lies outside the day")
		}
	case Numeric:
		v.Text = r.canonical(appendDecimal)
	case JSON:
		v.Text = r.canonical(appendJSON)
	case Float:
		bits := r.u64()
		v.Float = math.Float64frombits(bits)
		if !bytes.Equal(appendFloat(nil, v.Float), binary.BigEndian.AppendUint64(nil, bits)) {
			r.fail("float is not canonical")
		}
	case Text, Enum, Net:
		v.Text = r.text()
	case Bytea:
		v.Text = string(r.take(uint64(len(r.rest))))
	case UUID:
		v.Text = string(r.take(uuidBytes))
	case Array:
		r.array(v, depth)
	case Composite:
		v.Attributes = r.u16()
		v.Fields = r.fields(v.Attributes, depth+1)
	case Interval:
		v.Months, v.Days, v.Number = int32(r.u32()), int32(r.u32()), int64(r.u64())
	case Range:
		r.ranges(v, depth)
	case Other:
		r.within(func(in *reader) { v.TypeName = in.text() })
		r.within(func(in *reader) { v.Text = in.text() })
	default:
		r.fail("tag %02x is unknown", byte(v.Tag))
	}
}

// canonical is text that write gives again.
func (r *reader) canonical(write func([]byte, string) ([]byte, error)) string {
	text := r.text()
	if r.err == nil {
		if again, err := write(nil, text); err != nil || string(again) != text {
			r.fail("text is not canonical")
		}
	}
	return text
}

func isTag(t Tag) bool { return t >= Boolean && t <= Range || t == Other }

func (r *reader) array(v *Value, depth int) {
	if v.Element = Tag(r.u8()); !isTag(v.Element) {
		r.fail("tag %02x is unknown", byte(v.Element))
	}
	for n := r.u8(); n > 0 && r.err == nil; n-- {
		v.Dimensions = append(v.Dimensions, Dimension{r.u32(), int32(r.u32())})
	}
	count, ok := elementCount(v.Dimensions)
	if !ok {
		r.fail("array with impossible dimensions")
	}
	for ; count > 0 && r.err == nil; count-- {
		v.Elements = append(v.Elements, r.element(v.Element, depth))
	}
}

func (r *reader) element(of Tag, depth int) *Value {
	if len(r.rest) > 0 && r.rest[0] == 0 {
		if r.u8(); r.u32() != 0 {
			r.fail("NULL element with a payload")
		}
		return nil
	}
	v := r.value(depth + 1)
	if v.Tag != of {
		r.fail("array element of another type")
	}
	return &v
}

func (r *reader) ranges(v *Value, depth int) {
	switch flags := r.u8(); flags {
	case rangeEmpty:
	case rangeMulti:
		v.Multirange = true
		for n := r.u32(); n > 0 && r.err == nil; n-- {
			r.within(func(in *reader) { v.Ranges = append(v.Ranges, in.ends(in.u8(), depth)) })
		}
	default:
		v.Ranges = []Ends{r.ends(flags, depth)}
	}
}

func (r *reader) ends(flags byte, depth int) Ends {
	const lower, upper = rangeLowerIn | rangeLowerInfinite, rangeUpperIn | rangeUpperInfinite
	if flags&^(lower|upper) != 0 || flags&lower == lower || flags&upper == upper {
		r.fail("impossible range flags")
		return Ends{}
	}
	e := Ends{Lower: r.rangeEnd(flags&rangeLowerInfinite != 0, flags&rangeLowerIn != 0, depth)}
	e.Upper = r.rangeEnd(flags&rangeUpperInfinite != 0, flags&rangeUpperIn != 0, depth)
	if e.Lower != nil && e.Upper != nil && e.Lower.Value.Tag != e.Upper.Value.Tag {
		r.fail("range ends of different types")
	}
	return e
}

func (r *reader) rangeEnd(infinite, inclusive bool, depth int) *End {
	if infinite {
		return nil
	}
	return &End{r.value(depth + 1), inclusive}
}
