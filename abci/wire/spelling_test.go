package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
)

// allMessages are the types of all messages that nodes and clients send.
func allMessages() (out []protoreflect.MessageDescriptor) {
	var add func(list protoreflect.MessageDescriptors)
	add = func(list protoreflect.MessageDescriptors) {
		for i := range list.Len() {
			out = append(out, list.Get(i))
			add(list.Get(i).Messages())
		}
	}
	for _, file := range []protoreflect.FileDescriptor{File_chainify_proto, File_node_proto, File_state_proto, File_agreement_proto} {
		add(file.Messages())
	}
	return out
}

// All messages are of the kind that spelling is written for. They have at most one oneof, no map
// and no number but varints, and those that repeat are packed.
func TestSpellingKnowsAllKindsOfFields(t *testing.T) {
	messages := allMessages()
	if len(messages) < 40 {
		t.Fatalf("%d messages", len(messages))
	}
	for _, m := range messages {
		real := 0
		for i := range m.Oneofs().Len() {
			if !m.Oneofs().Get(i).IsSynthetic() {
				real++
			}
		}
		if real > 1 || m.Oneofs().Len() != real {
			t.Errorf("%s has %d oneofs", m.Name(), m.Oneofs().Len())
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			switch f.Kind() {
			case protoreflect.BoolKind, protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.EnumKind:
				if f.IsList() != f.IsPacked() {
					t.Errorf("%s repeats and is not packed", f.FullName())
				}
			case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
			default:
				t.Errorf("%s is of kind %s", f.FullName(), f.Kind())
			}
			if f.IsMap() {
				t.Errorf("%s is a map", f.FullName())
			}
		}
	}
}

// value is a field as messages.json holds it.
type value struct {
	Field   int       `json:"field"`
	Number  string    `json:"number,omitempty"` // two's complement of 64 bits where it is negative
	Packed  []string  `json:"packed,omitempty"`
	Bytes   *hexBytes `json:"bytes,omitempty"`
	Message []value   `json:"message,omitempty"`
	Empty   bool      `json:"empty,omitempty"` // a message without fields
}

// encodeValues writes fields in the order in which they are given: an encoder of its own.
func encodeValues(list []value) (out []byte) {
	varint := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	for _, v := range list {
		n := protowire.Number(v.Field)
		switch {
		case v.Number != "":
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), varint(v.Number))
		case v.Packed != nil:
			var all []byte
			for _, one := range v.Packed {
				all = protowire.AppendVarint(all, varint(one))
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), all)
		case v.Bytes != nil:
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), *v.Bytes)
		default:
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), encodeValues(v.Message))
		}
	}
	return out
}

// filler makes fields of a message: all of them, or some at random.
type filler struct {
	random *rand.Rand // nil: all, the same each time
	next   uint64
}

func (f *filler) maybe() bool { return f.random == nil || f.random.IntN(3) > 0 }

func (f *filler) bytes(text bool) *hexBytes {
	f.next++
	out := hexBytes(fmt.Sprintf("value %d", f.next))
	if f.random != nil && !text {
		out = make(hexBytes, 1+f.random.IntN(200))
		for i := range out {
			out[i] = byte(f.random.Uint32())
		}
	}
	return &out
}

func (f *filler) number(kind protoreflect.Kind) string {
	f.next++
	n := f.next * 1_000_003 // several bytes
	if f.random != nil {
		n = f.random.Uint64() >> f.random.IntN(64)
	}
	switch kind {
	case protoreflect.BoolKind:
		n = 1
	case protoreflect.Uint32Kind:
		n = uint64(uint32(n))
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		n = uint64(int64(int32(n)))
	}
	return strconv.FormatUint(max(n, 1), 10)
}

// message fills a message; of a oneof it sets the field with this index among those of the oneof.
func (f *filler) message(m protoreflect.MessageDescriptor, one int) (out []value) {
	if m.Oneofs().Len() > 0 && f.random != nil {
		one = f.random.IntN(m.Oneofs().Get(0).Fields().Len())
	}
	fields := m.Fields()
	numbers := make([]int, fields.Len())
	for i := range numbers {
		numbers[i] = int(fields.Get(i).Number())
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		field := fields.ByNumber(protowire.Number(number))
		if o := field.ContainingOneof(); o != nil {
			if o.Fields().Get(one).Number() != field.Number() {
				continue
			}
		} else if !f.maybe() {
			continue
		}
		times := 1
		if field.IsList() {
			times = 2
		}
		v := value{Field: number}
		for i := range times {
			switch field.Kind() {
			case protoreflect.StringKind, protoreflect.BytesKind:
				v.Bytes = f.bytes(field.Kind() == protoreflect.StringKind)
			case protoreflect.MessageKind:
				v.Message = f.message(field.Message(), 0)
				v.Empty = len(v.Message) == 0
			default:
				if field.IsPacked() {
					v.Packed = append(v.Packed, f.number(field.Kind()))
					if i < times-1 {
						continue
					}
				} else {
					v.Number = f.number(field.Kind())
				}
			}
			out = append(out, v)
		}
	}
	return out
}

// The library encodes every message, filled at random, as an encoder does that writes fields by
// their numbers. A version of it that takes another order makes this test fail, and not a network.
func TestTheLibraryEncodesTheOneSpelling(t *testing.T) {
	f := &filler{random: seeded.Random(t)}
	for _, m := range allMessages() {
		for range 50 {
			want := encodeValues(f.message(m, 0))
			for name, message := range map[string]proto.Message{"generated": generated(t, m), "dynamic": dynamicpb.NewMessage(m)} {
				if err := proto.Unmarshal(want, message); err != nil {
					t.Fatalf("%s: %v", m.Name(), err)
				}
				if got := Encode(message); !bytes.Equal(got, want) {
					t.Fatalf("%s, %s: encoded as\n%x, want\n%x", m.Name(), name, got, want)
				}
			}
			if wrong, ok := spellingOf(m).check(want); !ok {
				t.Fatalf("%s: %x is taken for misspelled: %+v", m.Name(), want, wrong)
			}
		}
	}
}

// generated is an empty message of the generated Go type.
func generated(t testing.TB, m protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
	must.Do(t, err)
	return found.New().Interface()
}

// Spelling takes exactly what encodes as it was. Consensus took that for valid when it compared
// with what the library made of it.
func FuzzSpelling(f *testing.F) {
	messages := allMessages()
	all := &filler{}
	for i, m := range messages {
		f.Add(uint8(i), encodeValues(all.message(m, 0)))
	}
	f.Add(uint8(0), []byte{0x0a, 0x84, 0x00})
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		m := messages[int(which)%len(messages)]
		message := generated(t, m)
		wrong, spelled := spellingOf(m).check(raw)
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, message) != nil {
			return // texts are not spelling's
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil || bytes.Equal(again, raw) != spelled || !spelled && wrong.at > len(raw) {
			t.Errorf("%s: %x is spelled as it should: %t (%+v), and encodes as %x, %v", m.Name(), raw, spelled, wrong, again, err)
		}
	})
}

// messageVector is a message with all its fields, or one of a oneof, and its bytes.
type messageVector struct {
	Message string   `json:"message"`
	Fields  []value  `json:"fields"`
	Encoded hexBytes `json:"encoded"`
}

// The bytes of the messages of the order, of which hashes and signatures are made. UPDATE_VECTORS=1
// rewrites them: read the difference.
func TestVectorsOfMessages(t *testing.T) {
	path := filepath.Join("..", "..", "spec", "vectors", "messages.json")
	var now struct {
		Cases []messageVector `json:"cases"`
	}
	for i := range File_chainify_proto.Messages().Len() {
		m := File_chainify_proto.Messages().Get(i)
		alternatives := 1
		if m.Oneofs().Len() > 0 {
			alternatives = m.Oneofs().Get(0).Fields().Len()
		}
		for one := range alternatives {
			c := messageVector{Message: string(m.Name()), Fields: (&filler{}).message(m, one)}
			message := generated(t, m)
			must.Do(t, proto.Unmarshal(encodeValues(c.Fields), message))
			c.Encoded = Encode(message)
			now.Cases = append(now.Cases, c)
		}
	}
	after, err := json.MarshalIndent(now, "", " ")
	must.Do(t, err)
	after = append(after, '\n')
	if os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(path, after, 0o644))
	}
	before, err := os.ReadFile(path)
	must.Do(t, err)
	if !bytes.Equal(after, before) {
		t.Error("messages.json is not what the implementation gives: UPDATE_VECTORS=1 rewrites it, git diff shows what differs")
	}
}
