package access

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
)

const (
	revokedFileBytesMax = 1 << 20
	serialBytesMax      = 20 // of RFC 5280
)

// revoked are TLS credentials that are refused, whatever authority signed them.
type revoked struct {
	keys    map[[sha256.Size]byte]bool // SHA-256 of the public key with its algorithm, as DER
	serials map[string]bool            // hexadecimal, as big.Int writes it
}

// RevokedFile names TLS credentials that are taken no more; it is read again when it has changed.
type RevokedFile struct{ kept[revoked] }

// OpenRevoked reads a file of revoked credentials, which has to be there.
func OpenRevoked(path string) (*RevokedFile, error) {
	f := &RevokedFile{kept[revoked]{paths: []string{path}, read: func() (revoked, error) { return readRevoked(path) }}}
	_, err := f.current()
	return f, err
}

// Holds tells that one of the credentials of a verified chain is revoked, by its key or by its
// serial number. The trusted authority at the end counts by its key alone, because its number may
// be that of a credential that it signed. When the file cannot be read, nobody knows: that is an
// error.
func (f *RevokedFile) Holds(chain []*x509.Certificate) (bool, error) {
	list, err := f.current()
	if err != nil {
		return false, err
	}
	for i, c := range chain {
		signed := c.SerialNumber != nil && (i == 0 || i < len(chain)-1)
		if list.keys[sha256.Sum256(c.RawSubjectPublicKeyInfo)] || signed && list.serials[c.SerialNumber.Text(16)] {
			return true, nil
		}
	}
	return false, nil
}

func readRevoked(path string) (revoked, error) {
	f, err := os.Open(path)
	if err != nil {
		return revoked{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, revokedFileBytesMax+1))
	if err != nil {
		return revoked{}, err
	}
	list, err := parseRevoked(text)
	if err != nil {
		return revoked{}, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// parseRevoked reads one credential a line, "key SHA256" or "serial NUMBER", both hexadecimal, and
// after # a comment. A line that is neither spoils the file: what it was to revoke would count on.
func parseRevoked(text []byte) (revoked, error) {
	if len(text) > revokedFileBytesMax {
		return revoked{}, fmt.Errorf("more than %d bytes", revokedFileBytesMax)
	}
	list := revoked{keys: map[[sha256.Size]byte]bool{}, serials: map[string]bool{}}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 || !list.add(fields[0], fields[1]) {
			return revoked{}, fmt.Errorf("line %d: neither \"key\" and a SHA-256, nor \"serial\" and a number, in hexadecimal digits", i+1)
		}
	}
	return list, nil
}

func (l revoked) add(kind, digits string) bool {
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	raw, err := hex.DecodeString(digits)
	switch {
	case err != nil:
		return false
	case kind == "key" && len(raw) == sha256.Size:
		l.keys[[sha256.Size]byte(raw)] = true
		return true
	case kind == "serial" && len(raw) <= serialBytesMax:
		l.serials[new(big.Int).SetBytes(raw).Text(16)] = true
		return true
	default:
		return false
	}
}
