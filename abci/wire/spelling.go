package wire

import (
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// spelling is how the fields of a message are spelled, by their number.
type spelling []fieldSpelling

type fieldSpelling struct {
	kind protoreflect.Kind // 0: there is no such field
	// repeats, packed and presence as the descriptor says them; presence: a default is spelled out.
	repeats, packed, presence bool
	oneof                     bool     // one of the message's only oneof
	in                        spelling // of a message
}

// misspelled is where a message leaves its one spelling: a field of the message itself, and the
// byte.
type misspelled struct {
	field   protowire.Number
	at      int
	unknown bool // there is no such field
}

var (
	spellingsMu sync.Mutex
	spellings   = map[protoreflect.FullName]spelling{}
)

// spellingOf is that of a type of messages. None contains itself.
func spellingOf(m protoreflect.MessageDescriptor) spelling {
	spellingsMu.Lock()
	defer spellingsMu.Unlock()
	return spellingLocked(m)
}

func spellingLocked(m protoreflect.MessageDescriptor) spelling {
	if s, known := spellings[m.FullName()]; known {
		return s
	}
	var s spelling
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		for len(s) <= int(field.Number()) {
			s = append(s, fieldSpelling{})
		}
		f := fieldSpelling{
			kind: field.Kind(), repeats: field.IsList(), packed: field.IsPacked(), presence: field.HasPresence(), oneof: field.ContainingOneof() != nil,
		}
		if f.kind == protoreflect.MessageKind {
			f.in = spellingLocked(field.Message())
		}
		s[field.Number()] = f
	}
	spellings[m.FullName()] = s
	return s
}

// check says where a message leaves its one spelling. In this, fields are known and ascending, and
// each stands once, but those that repeat, which are packed where they can be. There are no
// defaults, but in a oneof, and at most one field of a oneof. Tags, lengths and integers are in
// their shortest form. Consensus takes this spelling for valid, so that it depends on no library's
// order of encoding, which may be another one in another version. Texts are left to the decoder.
// Cost: one step for each field, and no memory.
func (s spelling) check(raw []byte) (wrong misspelled, ok bool) {
	last, chosen := protowire.Number(0), false
	for at := 0; at < len(raw); {
		number, kind, n := protowire.ConsumeTag(raw[at:])
		here := misspelled{field: max(number, last), at: at}
		if n < 0 || n != protowire.SizeTag(number) || number < last {
			return here, false
		}
		here.field = number
		if int(number) >= len(s) || s[number].kind == 0 {
			here.unknown = true
			return here, false
		}
		field := &s[number]
		if number == last && (!field.repeats || field.packed) || field.oneof && chosen {
			return here, false
		}
		chosen = chosen || field.oneof
		value, length, ok := valueOf(raw[at+n:], kind)
		if !ok {
			return here, false
		}
		if kind == protowire.BytesType && field.kind == protoreflect.MessageKind {
			if in, ok := field.in.check(value); !ok {
				return misspelled{number, at + n + length - len(value) + in.at, in.unknown}, false
			}
		} else if !field.spells(kind, value) {
			return here, false
		}
		last, at = number, at+n+length
	}
	return misspelled{}, true
}

// valueOf cuts a value off: of one with a length what follows that, else its bytes. Both have to be
// in their shortest form.
func valueOf(raw []byte, kind protowire.Type) (value []byte, length int, ok bool) {
	switch kind {
	case protowire.VarintType:
		v, n := protowire.ConsumeVarint(raw)
		if n < 0 || n != protowire.SizeVarint(v) {
			return nil, 0, false
		}
		return raw[:n], n, true
	case protowire.BytesType:
		v, n := protowire.ConsumeBytes(raw)
		if n < 0 || n != protowire.SizeBytes(len(v)) {
			return nil, 0, false
		}
		return v, n, true
	default: // no message has a field of another
		return nil, 0, false
	}
}

// spells checks a value that is no message.
func (f *fieldSpelling) spells(kind protowire.Type, value []byte) bool {
	switch {
	case f.kind == protoreflect.StringKind || f.kind == protoreflect.BytesKind:
		return kind == protowire.BytesType && (len(value) > 0 || f.repeats || f.presence)
	case !f.packed:
		return kind == protowire.VarintType && f.inRange(value) && (f.presence || value[0] != 0)
	case kind != protowire.BytesType || len(value) == 0:
		return false
	}
	for len(value) > 0 {
		one, n, ok := valueOf(value, protowire.VarintType)
		if !ok || !f.inRange(one) {
			return false
		}
		value = value[n:]
	}
	return true
}

// inRange checks that a varint is in the range of its field.
func (f *fieldSpelling) inRange(value []byte) bool {
	v, _ := protowire.ConsumeVarint(value)
	switch f.kind {
	case protoreflect.BoolKind:
		return v <= 1
	case protoreflect.Uint32Kind:
		return v <= math.MaxUint32
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return uint64(int64(int32(v))) == v
	case protoreflect.Uint64Kind, protoreflect.Int64Kind:
		return true
	default: // no message has one
		return false
	}
}
