package wire

import (
	"bytes"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Encode gives the one spelling of a message: known fields ascending, no defaults, minimal integers. It panics
// only where a string is not UTF-8, which no decoder of this package lets through.
func Encode(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Errorf("encode %T: %w", m, err))
	}
	return raw
}

// decodeStrict reads raw into m and refuses any spelling but Encode's: unknown fields, repeated scalars, spelled
// out defaults, non-minimal integers, fields out of order. What repeats is counted before, unless in is nil. Cost: one decoding, one encoding.
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
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fieldErrorf(name, "cannot be encoded again: %s", plainSpaces(err))
	}
	if !bytes.Equal(raw, again) {
		return fieldErrorf(name, "%s", whereSpellingDiffers(raw, again))
	}
	return nil
}

// whereSpellingDiffers names the field of the message in which raw leaves its one spelling.
func whereSpellingDiffers(raw, canonical []byte) string {
	same := 0
	for same < len(raw) && same < len(canonical) && raw[same] == canonical[same] {
		same++
	}
	at, number := 0, protowire.Number(0)
	for at < len(raw) {
		field, kind, tagBytes := protowire.ConsumeTag(raw[at:])
		if tagBytes < 0 {
			break
		}
		number = field
		valueBytes := protowire.ConsumeFieldValue(field, kind, raw[at+tagBytes:])
		if valueBytes < 0 || at+tagBytes+valueBytes > same {
			break
		}
		at += tagBytes + valueBytes
	}
	return fmt.Sprintf("field %d at byte %d is unknown, repeated, out of order or not in its shortest form", number, same)
}

// plainSpaces undoes the no-break spaces that the protobuf library puts into some builds' messages, so that an
// error reads the same everywhere.
func plainSpaces(err error) string { return strings.ReplaceAll(err.Error(), "\u00a0", " ") }
