package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/wire"
)

const (
	// TokensMax bounds the tokens of one file.
	TokensMax          = 1_000
	tokensFileBytesMax = 1 << 20
	tokenNameBytesMax  = 63
	tokenBytes         = 32
	// tokenPrefix lets scanners for leaked secrets recognise a token.
	tokenPrefix = "chainify_"
)

// Token is one bearer token as kept: who has it submits as the role.
type Token struct {
	Name   string `json:"name"`
	Role   string `json:"role"`
	SHA256 string `json:"sha256"` // of the token, hexadecimal
	// Expires is when it counts no more, in UTC and whole seconds; nil: it counts until it is
	// revoked.
	Expires *time.Time `json:"expires,omitempty"`
}

// Expired tells that a token counts no more.
func (t Token) Expired(now time.Time) bool { return t.Expires != nil && !now.Before(*t.Expires) }

type file struct {
	Tokens []Token `json:"tokens"`
}

type tokens struct {
	bySum map[[sha256.Size]byte]Token
}

func sumOf(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// TokensFile is a tokens file that is read again when it has changed.
type TokensFile struct{ kept[tokens] }

// OpenTokens reads a tokens file; one that is not there holds no tokens.
func OpenTokens(path string) (*TokensFile, error) {
	f := &TokensFile{kept[tokens]{paths: []string{path}, read: func() (tokens, error) { return readTokens(path) }}}
	_, err := f.current()
	return f, err
}

func readTokens(path string) (tokens, error) {
	list, err := ListTokens(path)
	if err != nil {
		return tokens{}, err
	}
	out := tokens{map[[sha256.Size]byte]Token{}}
	for _, t := range list {
		raw, _ := hex.DecodeString(t.SHA256) // checked by ListTokens
		out.bySum[[sha256.Size]byte(raw)] = t
	}
	return out, nil
}

// AnyToken tells whether a file has a token for a role that counts now.
func AnyToken(path, role string, now time.Time) (bool, error) {
	list, err := ListTokens(path)
	return slices.ContainsFunc(list, func(t Token) bool { return t.Role == role && !t.Expired(now) }), err
}

// ListTokens reads the tokens of a file, by name.
func ListTokens(path string) ([]Token, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if info.Mode().Perm()&0o037 != 0 {
		return nil, fmt.Errorf("%s has mode %o: others could read or change the tokens, want 0600 or 0640", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, tokensFileBytesMax+1))
	if err != nil {
		return nil, err
	}
	list, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// parseTokens never quotes the text: somebody may have put a token there instead of its hash.
func parseTokens(text []byte) ([]Token, error) {
	if len(text) > tokensFileBytesMax {
		return nil, fmt.Errorf("more than %d bytes", tokensFileBytesMax)
	}
	var content file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&content) != nil || d.More() {
		return nil, errors.New("not a tokens file: make it with \"chainify client token add\"")
	}
	if n := len(content.Tokens); n > TokensMax {
		return nil, fmt.Errorf("%d tokens, at most %d are possible", n, TokensMax)
	}
	for i, t := range content.Tokens {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("token %d: %w", i+1, err)
		}
		if i > 0 && content.Tokens[i-1].Name >= t.Name {
			return nil, fmt.Errorf("token %d: not after the one before by name", i+1)
		}
	}
	return content.Tokens, nil
}

func (t Token) check() error {
	if err := CheckTokenName(t.Name); err != nil {
		return err
	}
	if raw, err := hex.DecodeString(t.SHA256); err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("sha256: not %d hexadecimal digits", 2*sha256.Size)
	}
	return wire.CheckRole(t.Role)
}

// CheckTokenName refuses what cannot name a token: names stand in logs and on command lines.
func CheckTokenName(name string) error {
	strange := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}
	if name == "" || len(name) > tokenNameBytesMax || strings.ContainsFunc(name, strange) {
		return fmt.Errorf("name: %d bytes, want 1 to %d letters, digits, dots, underscores and hyphens", len(name), tokenNameBytesMax)
	}
	return nil
}

// AddToken makes a token for a role, which counts until it expires unless that is the zero time,
// and returns it: it is told this once, the file holds its hash.
func AddToken(path, name, role string, expires time.Time) (string, error) {
	if err := errors.Join(CheckTokenName(name), wire.CheckRole(role)); err != nil {
		return "", err
	}
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	sum := sumOf(token)
	return token, changeTokens(path, func(list []Token) ([]Token, error) {
		at, taken := find(list, name)
		switch {
		case taken:
			return nil, fmt.Errorf("there is a token %q already, for role %q", name, list[at].Role)
		case len(list) == TokensMax:
			return nil, fmt.Errorf("there are %d tokens already", TokensMax)
		}
		made := Token{Name: name, Role: role, SHA256: hex.EncodeToString(sum[:])}
		if !expires.IsZero() {
			until := expires.UTC().Truncate(time.Second)
			made.Expires = &until
		}
		return slices.Insert(list, at, made), nil
	})
}

// RevokeToken takes a token away.
func RevokeToken(path, name string) error {
	return changeTokens(path, func(list []Token) ([]Token, error) {
		at, known := find(list, name)
		if !known {
			return nil, fmt.Errorf("there is no token %q", name)
		}
		return slices.Delete(list, at, at+1), nil
	})
}

func find(list []Token, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(t Token, name string) int { return strings.Compare(t.Name, name) })
}

// changeTokens replaces the file as a whole, one change at a time. It belongs to whom its directory
// belongs to: the node's user, whoever calls.
func changeTokens(path string, change func([]Token) ([]Token, error)) error {
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := syscall.Flock(int(directory.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", directory.Name(), err)
	}
	list, err := ListTokens(path)
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	text, err := json.MarshalIndent(file{list}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode tokens: %w", err)
	}
	return replace(directory, path, append(text, '\n'))
}

func replace(directory *os.File, path string, text []byte) error {
	next, err := os.CreateTemp(directory.Name(), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	err = errors.Join(err, ownedAs(directory, next), next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return directory.Sync()
}

func ownedAs(directory, f *os.File) error {
	info, err := directory.Stat()
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
