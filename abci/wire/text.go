package wire

import (
	"encoding/hex"
	"fmt"
)

// MarshalText writes the hash as lower-case hex, in JSON too. There is no String on purpose: it
// would change what %x prints.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads 64 hex digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("hash of %d characters, want %d", len(text), 2*len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}
