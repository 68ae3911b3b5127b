package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

// never is when a token expires that does not.
var never time.Time

func withToken(t *testing.T, header string) *http.Request {
	t.Helper()
	r, err := http.NewRequest("GET", "http://localhost/", nil)
	must.Do(t, err)
	if header != "" {
		r.Header.Set("Authorization", header)
	}
	return r
}

// A token counts from when it is made to when it is revoked, in a node that runs; the file never
// holds it.
func TestTokensAreAddedAndRevoked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens, err := OpenTokens(path)
	must.Do(t, err)
	a := &Access{Tokens: tokens}
	if somebody, err := a.Any(); somebody || err != nil {
		t.Errorf("without a file: %t, %v", somebody, err)
	}
	secrets := map[string]string{}
	for _, name := range []string{"till-3", "till-1", "office"} {
		secrets[name], err = AddToken(path, name, "clerk of "+name, never)
		must.Do(t, err)
	}
	for name, secret := range secrets {
		for _, header := range []string{"Bearer " + secret, "bearer  " + secret} {
			c, err := a.Of(withToken(t, header))
			if err != nil || c != (Client{"token " + name, "clerk of " + name}) || !c.Known() {
				t.Errorf("%s: %+v, %v", name, c, err)
			}
		}
	}
	must.Do(t, RevokeToken(path, "till-1"))
	for _, header := range []string{"Bearer " + secrets["till-1"], "Bearer ", "Basic " + secrets["office"], secrets["office"], "Bearer x"} {
		if c, err := a.Of(withToken(t, header)); err != ErrToken || c.Known() {
			t.Errorf("%.7s…: %+v, %v, want refused", header, c, err)
		}
	}
	if c, err := a.Of(withToken(t, "")); c.Known() || err != nil {
		t.Errorf("without a token: %+v, %v", c, err)
	}
	list, err := ListTokens(path)
	if err != nil || len(list) != 2 || list[0].Name != "office" || list[1].Name != "till-3" {
		t.Errorf("list %v, %v", list, err)
	}
	text, err := os.ReadFile(path)
	must.Do(t, err)
	info, err := os.Stat(path)
	must.Do(t, err)
	if strings.Contains(string(text), secrets["office"]) || info.Mode().Perm() != 0o600 {
		t.Errorf("file of mode %o: %s", info.Mode().Perm(), text)
	}
}

func TestTokensAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	_, err := AddToken(path, "till", "clerk", never)
	must.Do(t, err)
	for name, err := range map[string]error{
		"already":   second(AddToken(path, "till", "other", never)),
		"no token":  RevokeToken(path, "office"),
		"letters":   second(AddToken(path, "a b", "clerk", never)),
		"role":      second(AddToken(path, "b", "", never)),
		"directory": second(AddToken(filepath.Join(path, "x", "y"), "b", "clerk", never)),
	} {
		if err == nil || name != "directory" && !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
	full := file{}
	for i := range TokensMax {
		full.Tokens = append(full.Tokens, Token{Name: fmt.Sprintf("t%04d", i), Role: "clerk", SHA256: strings.Repeat("0", 64)})
	}
	text, err := json.Marshal(full)
	must.Do(t, err)
	must.Do(t, os.WriteFile(path, text, 0o600))
	if _, err := AddToken(path, "one-more", "clerk", never); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("beyond the bound: %v", err)
	}
}

// As Kubernetes hands out Secrets: a group may read.
func TestATokensFileForAGroupToRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	token, err := AddToken(path, "till", "clerk", never)
	must.Do(t, err)
	must.Do(t, os.Chmod(path, 0o440))
	tokens, err := OpenTokens(path)
	must.Do(t, err)
	a := &Access{Tokens: tokens}
	if c, err := a.Of(withToken(t, "Bearer "+token)); err != nil || !c.Known() {
		t.Errorf("%+v, %v", c, err)
	}
}

func second(_ string, err error) error { return err }

// A file that is no tokens file lets nobody in, and its text, perhaps a token, is in no error.
func TestMalformedTokensFilesLetNobodyIn(t *testing.T) {
	const secret = "clerk-secret-0123456789"
	path := filepath.Join(t.TempDir(), "tokens.json")
	good, err := AddToken(path, "till", "clerk", never)
	must.Do(t, err)
	tokens, err := OpenTokens(path)
	must.Do(t, err)
	a := &Access{Tokens: tokens}
	for name, text := range map[string]string{
		"lines of an older version": "clerk " + secret,
		"unknown member":            `{"tokens":[{"name":"a","role":"b","token":"` + secret + `"}]}`,
		"no hash":                   `{"tokens":[{"name":"a","role":"b","sha256":"` + secret + `"}]}`,
		"something after":           `{"tokens":[]} ` + secret,
		"not in order":              `{"tokens":[{"name":"b","role":"b","sha256":"` + strings.Repeat("0", 64) + `"},{"name":"a","role":"b","sha256":"` + strings.Repeat("1", 64) + `"}]}`,
		"no role":                   `{"tokens":[{"name":"a","role":"","sha256":"` + strings.Repeat("0", 64) + `"}]}`,
		"too long":                  strings.Repeat(" ", tokensFileBytesMax+1),
		"open to others":            "",
		"for a group to change":     "",
	} {
		if mode, open := map[string]os.FileMode{"open to others": 0o644, "for a group to change": 0o660}[name]; open {
			must.Do(t, os.Remove(path))
			_, err := AddToken(path, "till", "clerk", never)
			must.Do(t, err)
			must.Do(t, os.Chmod(path, mode))
		} else {
			must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			must.Do(t, os.Chmod(path, 0o600))
		}
		c, err := a.Of(withToken(t, "Bearer "+good))
		if err == nil || c.Known() || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if _, err := OpenTokens(path); err == nil {
			t.Errorf("%s: a node starts with it", name)
		}
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte(`{"tokens":[{"name":"a","role":"b","sha256":"` + strings.Repeat("0", 64) + `"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseTokens(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(file{list})
		must.Do(t, err)
		if same, err := parseTokens(again); err != nil || len(same) != len(list) {
			t.Errorf("%q is accepted, and written again as %q: %v", text, again, err)
		}
	})
}

// A token counts until it expires, to the second, in a node that runs; afterwards its name may be
// given again once it is revoked.
func TestTokensExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	until := time.Date(2026, 3, 1, 12, 0, 0, 7, time.FixedZone("", 3600))
	secret, err := AddToken(path, "till", "clerk", until)
	must.Do(t, err)
	lasting, err := AddToken(path, "office", "dba", never)
	must.Do(t, err)
	tokens, err := OpenTokens(path)
	must.Do(t, err)
	a := &Access{Tokens: tokens}
	for moment, want := range map[time.Time]error{
		until.Add(-24 * time.Hour):        nil,
		until.Add(-8):                     nil,
		until.Truncate(time.Second):       ErrExpired,
		until.Add(365 * 24 * time.Hour):   ErrExpired,
		until.In(time.UTC).Add(time.Hour): ErrExpired,
	} {
		a.Now = func() time.Time { return moment }
		if c, err := a.Of(withToken(t, "Bearer "+secret)); err != want || c.Known() != (want == nil) {
			t.Errorf("at %s: %+v, %v, want %v", moment, c, err, want)
		}
		if _, err := a.Of(withToken(t, "Bearer "+lasting)); err != nil {
			t.Errorf("the token that does not expire, at %s: %v", moment, err)
		}
	}
	list, err := ListTokens(path)
	must.Do(t, err)
	if list[0].Expires != nil || !list[1].Expires.Equal(until.Truncate(time.Second)) || list[1].Expires.Location() != time.UTC {
		t.Errorf("tokens %+v", list)
	}
}

// A browser shows a token as a password; any other password is refused.
func TestBrowsersShowTokensAsPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	secret, err := AddToken(path, "anna", "chainify_reader", never)
	must.Do(t, err)
	_, err = AddToken(path, "old", "auditor", time.Now().Add(-time.Hour))
	must.Do(t, err)
	for role, want := range map[string]bool{"chainify_reader": true, "auditor": false, "clerk": false} {
		if any, err := AnyToken(path, role, time.Now()); any != want || err != nil {
			t.Errorf("a token for %s: %t, %v", role, any, err)
		}
	}
	tokens, err := OpenTokens(path)
	must.Do(t, err)
	a := &Access{Tokens: tokens}
	for password, want := range map[string]error{secret: nil, "": ErrToken, "anna": ErrToken, secret + " ": ErrToken} {
		r := withToken(t, "")
		r.SetBasicAuth("whoever", password)
		if c, err := a.OfBrowser(r); err != want || c.Known() != (want == nil) {
			t.Errorf("%q: %+v, %v, want %v", password, c, err, want)
		}
	}
	if c, err := a.OfBrowser(withToken(t, "Bearer "+secret)); err != nil || c.Role != "chainify_reader" {
		t.Errorf("as a bearer token: %+v, %v", c, err)
	}
	if c, err := a.OfBrowser(withToken(t, "")); err != nil || c.Known() {
		t.Errorf("nobody: %+v, %v", c, err)
	}
}
