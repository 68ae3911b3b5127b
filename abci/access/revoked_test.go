package access

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// A credential on the list is taken no more from the next request on, also with a token, and so is
// what an authority on it signed.
func TestRevokedTLSClientsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "revoked")
	if _, err := OpenRevoked(path); err == nil {
		t.Fatal("a list that is not there is taken for an empty one")
	}
	write := func(text string) {
		t.Helper()
		// another size each time: two changes may be of one moment of the file system's clock
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	write("# none yet\n")
	list, err := OpenRevoked(path)
	must.Do(t, err)
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(tokens, "till", "clerk", never)
	must.Do(t, err)
	file, err := OpenTokens(tokens)
	must.Do(t, err)
	a := &Access{Tokens: file, TLSClients: map[string]string{"till": "clerk"}, Revoked: list}
	authority := &x509.Certificate{SerialNumber: big.NewInt(0x77), RawSubjectPublicKeyInfo: []byte("the authority's")}
	between := &x509.Certificate{SerialNumber: big.NewInt(0x88), RawSubjectPublicKeyInfo: []byte("one between")}
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "till"}, SerialNumber: big.NewInt(0xabc), RawSubjectPublicKeyInfo: []byte("till's")}
	ask := func(header string) error {
		t.Helper()
		r := withToken(t, header)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf, between, authority}}}
		_, err := a.Of(r)
		return err
	}
	key := func(of string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(of))) }
	for _, c := range []struct {
		text string
		want error
	}{
		{"# none\n", nil},
		{"serial ABC # till's\n", ErrRevoked},
		{"serial 0AbC\n\n", ErrRevoked},
		{"serial abcd\n", nil},
		{"key " + key("till's") + "\n", ErrRevoked},
		{"key " + strings.ToUpper(key("till's")) + " # till\n", ErrRevoked},
		{"key " + key("another's") + "\n", nil},
		{"key " + key("another's") + "\nserial 88\n", ErrRevoked},
		{"serial 77\n#\n", nil},
		{"key " + key("the authority's") + "\n#\n", ErrRevoked},
		{"serial till\n", ErrNoRevoked},
		{"serial abc", ErrRevoked},
		{"key abc\n", ErrNoRevoked},
		{"abc\n", ErrNoRevoked},
		{"serial abc def\n", ErrNoRevoked},
		{"serial " + strings.Repeat("1", 2*serialBytesMax+2), ErrNoRevoked},
		{strings.Repeat("#\n", revokedFileBytesMax), ErrNoRevoked},
	} {
		write(c.text)
		for _, header := range []string{"", "Bearer " + secret} {
			if err := ask(header); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%.40q, %.8q: %v, want %v", c.text, header, err, c.want)
			}
		}
	}
	must.Do(t, os.Remove(path))
	if err := ask(""); !errors.Is(err, ErrNoRevoked) {
		t.Errorf("without the list: %v, want nobody let in", err)
	}
}

func FuzzParseRevoked(f *testing.F) {
	f.Add([]byte("# till\nserial 0abc\nkey " + strings.Repeat("0f", sha256.Size)))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseRevoked(text)
		if err != nil {
			return
		}
		if n := len(list.keys) + len(list.serials); n > strings.Count(string(text), "\n")+1 {
			t.Errorf("%q revokes %d", text, n)
		}
		for serial := range list.serials {
			if again, err := parseRevoked([]byte("serial " + serial)); err != nil || !again.serials[serial] {
				t.Errorf("serial %s is not read again: %v", serial, err)
			}
		}
	})
}
