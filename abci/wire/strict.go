package wire

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Encode gives the one spelling of a message: known fields ascending, no defaults, minimal
// integers. It panics only where a string is not UTF-8, which no decoder of this package lets
// through. That the library encodes so is what TestTheLibraryEncodesTheOneSpelling holds; one that
// did not would make what all nodes refuse.
func Encode(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", m, err))
	}
	return raw
}

// decodeStrict reads raw into m and refuses any spelling but Encode's: unknown fields, repeated
// scalars, spelled out defaults, non-minimal integers, fields out of order. Repeated fields are
// counted before, unless in is nil. Cost: one decoding, and one step for each field.
func decodeStrict(name string, raw []byte, bytesMax int, in shape, m proto.Message) error {
	if len(raw) > bytesMax {
		return fieldErrorf(name, "%d bytes, want at most %d", len(raw), bytesMax)
	}
	if in != nil {
		if err := in.check(name, raw); err != nil {
			return err
		}
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, m); err != nil {
		return fieldErrorf(name, "not a protobuf message: %s", plainSpaces(err))
	}
	if wrong, ok := spellingOf(m.ProtoReflect().Descriptor()).check(raw); !ok {
		return &FieldError{Field: name, Reason: fmt.Sprintf(notItsSpelling, wrong.field, wrong.at), Unknown: wrong.unknown}
	}
	return nil
}

// plainSpaces undoes the no-break spaces that the protobuf library puts into some builds' messages,
// so that an error reads the same everywhere.
func plainSpaces(err error) string { return strings.ReplaceAll(err.Error(), "\u00a0", " ") }
