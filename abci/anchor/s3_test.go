package anchor

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

// s3 verifies signatures by itself, as AWS describes them, and keeps what is put in a bucket, as
// one with object lock does. It stands in for a real store where there is none: make check-store
// has one.
type s3 struct {
	region, id, secret, session string

	mu   sync.Mutex
	kept map[string][]byte
}

// signature is what a request's has to be, and from when it is.
func (s *s3) signature(r *http.Request, signed []string, body []byte) (string, time.Time) {
	var headers strings.Builder
	for _, name := range signed {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		} else if name == "content-length" {
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	sum := sha256.Sum256(body)
	request := strings.Join([]string{r.Method, canonical(r.URL.Path), query, headers.String(), strings.Join(signed, ";"), hex.EncodeToString(sum[:])}, "\n")
	at := r.Header.Get("X-Amz-Date")
	when, _ := time.Parse("20060102T150405Z", at)
	key := []byte("AWS4" + s.secret)
	for _, part := range []string{when.Format("20060102"), s.region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	sum = sha256.Sum256([]byte(request))
	scope := when.Format("20060102") + "/" + s.region + "/s3/aws4_request"
	return hex.EncodeToString(mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hex.EncodeToString(sum[:])}, "\n"))), when
}

// canonical escapes all that AWS does, however it was escaped when it came.
func canonical(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// allows checks who asks, that all that matters is signed, and that it was signed now.
func (s *s3) allows(r *http.Request, body []byte) bool {
	scope, rest, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), ", SignedHeaders=")
	headers, given, _ := strings.Cut(rest, ", Signature=")
	signed := strings.Split(headers, ";")
	for _, name := range []string{"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "if-none-match"} {
		if r.Header.Get(name) != "" && !slices.Contains(signed, name) {
			return false
		}
	}
	want, when := s.signature(r, signed, body)
	return strings.HasPrefix(scope, s.id+"/") && r.Header.Get("X-Amz-Security-Token") == s.session && given == want && time.Since(when).Abs() < time.Minute
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	text, there := s.kept[r.URL.Path]
	sum := md5.Sum(body)
	switch {
	case !s.allows(r, body):
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>It is another.</Message><Resource>/</Resource></Error>")
	case r.Method == http.MethodPut && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]):
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodPut && there && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		s.kept[r.URL.Path] = body
	case !there:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(text)
	}
}

// The server of these tests agrees with the examples that AWS publishes ("Signature Calculations
// for the Authorization Header").
func TestTheTestServerVerifiesAsAWSDoes(t *testing.T) {
	s := &s3{region: "us-east-1", id: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	for _, c := range []struct {
		method, url, headers, body, want string
	}{
		{"GET", "/test.txt", "range: bytes=0-9", "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{
			"PUT", "/test%24file.text", "date: Fri, 24 May 2013 00:00:00 GMT|x-amz-storage-class: REDUCED_REDUNDANCY", "Welcome to Amazon S3.",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		{"GET", "/?lifecycle", "", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/?max-keys=2&prefix=J", "", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r := httptest.NewRequest(c.method, c.url, strings.NewReader(c.body))
		r.Host = "examplebucket.s3.amazonaws.com"
		sum := sha256.Sum256([]byte(c.body))
		r.Header.Set("X-Amz-Date", "20130524T000000Z")
		r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
		signed := []string{"host", "x-amz-content-sha256", "x-amz-date"}
		for _, header := range strings.Split(c.headers, "|") {
			if name, value, ok := strings.Cut(header, ": "); ok {
				r.Header.Set(name, value)
				signed = append(signed, name)
			}
		}
		slices.Sort(signed)
		if got, _ := s.signature(r, signed, []byte(c.body)); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.url, got, c.want)
		}
	}
}

func newS3(t *testing.T, s *s3) *url.URL {
	t.Helper()
	s.kept = map[string][]byte{}
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	base, err := url.Parse(listening.URL)
	must.Do(t, err)
	return base
}

func always(c Credentials, err error) func() (Credentials, error) {
	return func() (Credentials, error) { return c, err }
}

// Paths that have to be escaped, a query below which everything is, keys that end.
func TestRequestsToS3AreSigned(t *testing.T) {
	digest := digests(t)[0]
	for _, c := range []struct{ path, session string }{{"/bucket", ""}, {"/bucket/of acme$/2026+1/", "for an hour"}} {
		s := &s3{region: "eu-central-1", id: "AKID", secret: "secret", session: c.session}
		store, err := NewS3(newS3(t, s).JoinPath(c.path).String(), s.region, always(NewCredentials(s.id, s.secret, s.session)))
		must.Do(t, err)
		name := Name("trade-1", 1)
		if _, err := store.Get(t.Context(), name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: nothing is there: %v", c.path, err)
		}
		for range 2 {
			if err := store.Put(t.Context(), name, digest); err != nil {
				t.Fatalf("%s: %v", c.path, err)
			}
		}
		if kept, err := store.Get(t.Context(), name); err != nil || !bytes.Equal(kept, digest) {
			t.Errorf("%s: %.60q, %v", c.path, kept, err)
		}
		if err := store.Put(t.Context(), name, digest[1:]); !errors.Is(err, errAnother) {
			t.Errorf("%s: another one: %v", c.path, err)
		}
	}
}

func TestS3RefusesWhoeverHasOtherKeys(t *testing.T) {
	s := &s3{region: "eu-central-1", id: "AKID", secret: "secret"}
	base := newS3(t, s).JoinPath("bucket").String()
	for name, c := range map[string]struct {
		region      string
		credentials func() (Credentials, error)
		want        string
	}{
		"another secret":   {s.region, always(NewCredentials("AKID", "guess", "")), "403 Forbidden: SignatureDoesNotMatch: It is another."},
		"another key":      {s.region, always(NewCredentials("OTHER", "secret", "")), "403"},
		"a session's":      {s.region, always(NewCredentials("AKID", "secret", "session")), "403"},
		"another region":   {"us-east-1", always(NewCredentials("AKID", "secret", "")), "403"},
		"no keys any more": {s.region, always(Credentials{}, os.ErrNotExist), "GET x: file does not exist"},
	} {
		store, err := NewS3(base, c.region, c.credentials)
		must.Do(t, err)
		err = store.Put(t.Context(), "x", []byte("{}"))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := NewS3("s3://bucket", "us-east-1", nil); err == nil {
		t.Error("s3://bucket is taken for a URL")
	}
}

func TestCredentialsAreReadAndNeverShown(t *testing.T) {
	c, err := ParseCredentials("# keys\n[default]\naws_access_key_id = AKID\n aws_secret_access_key=se=cret \n\naws_session_token = session\nregion = x\n")
	if err != nil || c.keys.AccessKeyID != "AKID" || c.keys.SecretAccessKey != "se=cret" || c.keys.SessionToken != "session" {
		t.Errorf("%q %q %q, %v", c.keys.AccessKeyID, c.keys.SecretAccessKey, c.keys.SessionToken, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, c); text != "(credentials)" {
			t.Errorf("%s: %s", verb, text)
		}
	}
	for text, want := range map[string]string{
		"":                                  "are both needed",
		"aws_access_key_id = AKID":          "are both needed",
		"aws_access_key_id = AKID\nsecret":  "line 2: not name = value",
		"[a]\naws_access_key_id = A\n\n[b]": "line 4: a second section",
	} {
		if _, err := ParseCredentials(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "AKID") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
