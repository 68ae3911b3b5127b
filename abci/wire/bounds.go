package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of spec/formats.md; a decoder refuses what exceeds them.
const (
	ProposalBytesMax        = 524_288
	ParametersMax           = 1_000
	WriteSetBytesMax        = ProposalBytesMax
	WriteSetTablesMax       = 1_000
	WriteSetReadsMax        = 1_024
	ReadBoundsMax           = 16 // of one read
	BundleTransactionsMax   = 10_000
	BundleBytesMax          = 1_048_576
	NameBytesMax            = 63 // organisation, role
	ChainIDBytesMax         = 50
	ValidityHeightsMax      = 2_000 // valid_until_height above the height of the order block
	CertificateVotesMax     = 1_000
	VoteExtensionBytesMax   = voteBytes + 2 + PartsMax*PartBytes
	FrameBytesMax           = 16 << 20
	AgreementsMax           = 1_000
	addressBytes            = 20 // CometBFT address: first 20 bytes of SHA-256 of the key
	signatureBytes          = 64 // Ed25519
	signedBundleBytesMax    = BundleBytesMax + 128
	chainedTransactionExtra = 1 << 20 // signature and agreements beside the proposal; the bundle bounds them further
)

// FieldError names the field of a message that breaks its format, as a path from the message's
// name.
type FieldError struct {
	Field  string
	Reason string
	// Unknown: the format has no field of this number, but a later version's may have.
	Unknown bool
}

// MayBeNewer reports whether what was not decoded may be right in a later version of the format: a
// field is unknown, and what comes before it is right.
func MayBeNewer(err error) bool {
	var e *FieldError
	return errors.As(err, &e) && e.Unknown
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func fieldErrorf(field, format string, args ...any) error {
	return newFieldError(field, format, args...)
}

func newFieldError(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// CheckOrganisation refuses a name that is not 1 to 63 bytes of [a-z][a-z0-9_-]*.
func CheckOrganisation(name string) error { return checkName("organisation", name, NameBytesMax) }

// CheckChainID refuses a chain id that is not 1 to 50 bytes of [a-z][a-z0-9_-]*.
func CheckChainID(id string) error { return checkName("chain_id", id, ChainIDBytesMax) }

// CheckRole refuses a role name that PostgreSQL could not hold: empty, over 63 bytes, or with a
// zero byte.
func CheckRole(name string) error {
	if len(name) == 0 || len(name) > NameBytesMax {
		return fieldErrorf("role", "%d bytes, want 1 to %d", len(name), NameBytesMax)
	}
	return checkText("role", name)
}

func checkName(field, name string, bytesMax int) error {
	if len(name) == 0 || len(name) > bytesMax {
		return fieldErrorf(field, "%d bytes, want 1 to %d", len(name), bytesMax)
	}
	for i := range len(name) {
		if !nameByte(name[i], i == 0) {
			return fieldErrorf(field, "%q does not match [a-z][a-z0-9_-]*", name)
		}
	}
	return nil
}

func nameByte(c byte, first bool) bool {
	if c >= 'a' && c <= 'z' {
		return true
	}
	return !first && (c >= '0' && c <= '9' || c == '_' || c == '-')
}

// checkText refuses what a PostgreSQL text cannot hold.
func checkText(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fieldErrorf(field, "has a zero byte")
	}
	if !utf8.ValidString(s) {
		return fieldErrorf(field, "is not UTF-8")
	}
	return nil
}
