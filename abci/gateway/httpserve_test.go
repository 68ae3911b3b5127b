package gateway

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/must"
)

// serveHTTP serves the API on loopback and returns its address.
func serveHTTP(t *testing.T, a *API) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// A client that sends nothing, or its header or body too slowly, is not waited for.
func TestHTTPTimesAreBounded(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "bank")
	a.Limits.HeaderTime, a.Limits.BodyTime, a.Limits.IdleTime = 100*time.Millisecond, 200*time.Millisecond, 100*time.Millisecond
	address := serveHTTP(t, a)
	for name, sent := range map[string]string{
		"nothing": "",
		"header":  "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\n",
		"body": "POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + testToken +
			"\r\nContent-Length: 100\r\n\r\n{\"sql\":",
		"another request": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		must.Do(t, err)
		defer conn.Close()
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if _, err := io.Copy(io.Discard, conn); err != nil { // until the node closes it
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The wait that outlives the time for a request ends with its client, not before.
func TestHTTPWaitsAreNotCutShort(t *testing.T) {
	f := newFixture(t, nil)
	a := newAPI(t, f, "bank")
	a.Limits.HeaderTime, a.Limits.BodyTime = 100*time.Millisecond, 100*time.Millisecond
	address := serveHTTP(t, a)
	begun := time.Now()
	got := get(t, http.DefaultClient, "http://"+address+"/v1/transactions/"+strings.Repeat("0", 64)+"?wait_ms=400")
	if took := time.Since(begun); took < 400*time.Millisecond || !strings.Contains(got, "02000") {
		t.Errorf("answered after %s: %s", took, got)
	}
}

func get(t *testing.T, client *http.Client, url string) string {
	r, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(r.StatusCode, " ", string(text))
}

// authority makes TLS identities for tests.
type authority struct {
	t    *testing.T
	dir  string
	key  ed25519.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T, seed byte) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)), pool: x509.NewCertPool()}
	raw := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a.key.Public())
	var err error
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.write("authority.pem", "CERTIFICATE", raw)
	return a
}

func (a *authority) sign(template *x509.Certificate, public any) []byte {
	a.t.Helper()
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

func (a *authority) write(name, kind string, raw []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// identity signs for a name and usage; it is returned, and written to NAME.pem and NAME.key.
func (a *authority) identity(name string, usage x509.ExtKeyUsage) tls.Certificate {
	a.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	raw := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, public)
	a.write(name+".pem", "CERTIFICATE", raw)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", encoded)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}
}

func (a *authority) client(identity ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, Certificates: identity}}
	a.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// newTLSAPI serves an API as beyond loopback: TLS, nothing open, a token and a TLS client.
func newTLSAPI(t *testing.T, log *slog.Logger) (address string, own *authority) {
	t.Helper()
	own = newAuthority(t, 1)
	own.identity("node", x509.ExtKeyUsageServerAuth)
	a := newAPI(t, newFixture(t, nil), "bank")
	a.OpenReads, a.Log, a.Access.TLSClients = false, log, map[string]string{"till": "clerk"}
	files := access.TLSFiles{
		Chain: filepath.Join(own.dir, "node.pem"), Key: filepath.Join(own.dir, "node.key"), ClientAuthorities: filepath.Join(own.dir, "authority.pem"),
	}
	var err error
	if a.TLS, err = files.Config(log); err != nil {
		t.Fatal(err)
	}
	return serveHTTP(t, a), own
}

func TestHTTPOverTLS(t *testing.T) {
	address, own := newTLSAPI(t, slog.New(slog.DiscardHandler))
	foreign := newAuthority(t, 2)
	status := "https://" + address + "/v1/status"
	for name, c := range map[string]struct {
		client *http.Client
		says   string
	}{
		"a client with a role":    {own.client(own.identity("till", x509.ExtKeyUsageClientAuth)), "200"},
		"a client without a role": {own.client(own.identity("other", x509.ExtKeyUsageClientAuth)), "401"},
		"nobody":                  {own.client(), "401"},
		"who trusts another":      {foreign.client(), "certificate"},
	} {
		if got := get(t, c.client, status); !strings.Contains(got, c.says) {
			t.Errorf("%s: %s, want %q", name, got, c.says)
		}
	}
	for name, c := range map[string]struct {
		identity tls.Certificate
		says     string
	}{
		"another authority's client": {foreign.identity("till", x509.ExtKeyUsageClientAuth), "remote error: tls: unknown certificate authority"},
		"a server's identity":        {own.identity("till", x509.ExtKeyUsageServerAuth), "remote error: tls: bad certificate"},
	} {
		if err := refusal(t, address, &tls.Config{RootCAs: own.pool, Certificates: []tls.Certificate{c.identity}}); err == nil || err.Error() != c.says {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if got := get(t, http.DefaultClient, "http://"+address+"/healthz"); !strings.Contains(got, "400") {
		t.Errorf("in clear: %s", got)
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{RootCAs: own.pool, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
	old := get(t, own.client(), status)
	renewed := newAuthority(t, 3)
	renewed.dir = own.dir
	renewed.identity("node", x509.ExtKeyUsageServerAuth)
	if got := get(t, renewed.client(), status); got != old {
		t.Errorf("after its identity was replaced: %s, want %s", got, old)
	}
}

// Credentials that are revoked are refused on the connection that they opened.
func TestRevokedCredentialsEndWithTheNextRequest(t *testing.T) {
	own := newAuthority(t, 1)
	own.identity("node", x509.ExtKeyUsageServerAuth)
	a := newAPI(t, newFixture(t, nil), "bank")
	a.OpenReads, a.Access.TLSClients = false, map[string]string{"till": "clerk", "office": "dba"}
	list := filepath.Join(t.TempDir(), "revoked")
	write := func(text string) {
		t.Helper()
		must.Do(t, os.WriteFile(list, []byte(text), 0o644))
	}
	write("")
	var err error
	if a.Access.Revoked, err = access.OpenRevoked(list); err != nil {
		t.Fatal(err)
	}
	files := access.TLSFiles{
		Chain: filepath.Join(own.dir, "node.pem"), Key: filepath.Join(own.dir, "node.key"), ClientAuthorities: filepath.Join(own.dir, "authority.pem"),
	}
	if a.TLS, err = files.Config(a.Log); err != nil {
		t.Fatal(err)
	}
	status := "https://" + serveHTTP(t, a) + "/v1/status"
	identity := own.identity("till", x509.ExtKeyUsageClientAuth)
	till, office := own.client(identity), own.client(own.identity("office", x509.ExtKeyUsageClientAuth))
	connections := 0
	dial := till.Transport.(*http.Transport)
	dial.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connections++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	leaf, err := x509.ParseCertificate(identity.Certificate[0])
	must.Do(t, err)
	for _, step := range []struct{ list, till, office string }{
		{"", "200", "200"},
		{fmt.Sprintf("key %x # till's\n", sha256.Sum256(leaf.RawSubjectPublicKeyInfo)), "401", "200"},
		{"till\n", "503", "503"},
		{"\n\n\n", "200", "200"},
	} {
		write(step.list)
		if got := get(t, till, status); !strings.HasPrefix(got, step.till) {
			t.Errorf("with %q, till: %s, want %s", step.list, got, step.till)
		}
		if got := get(t, office, status); !strings.HasPrefix(got, step.office) {
			t.Errorf("with %q, office: %s, want %s", step.list, got, step.office)
		}
	}
	if connections != 1 {
		t.Errorf("%d connections, want one that is used again", connections)
	}
}

// refusal is what a server answers to a TLS client that says nothing after its handshake. It is nil
// when the server accepted the client, whose silence ended the connection. In TLS 1.3 a client
// learns only after the handshake that its identity is refused. One that wrote a request meanwhile
// may find its connection closed instead.
func refusal(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	must.Do(t, conn.SetReadDeadline(time.Now().Add(5*time.Minute)))
	if _, err = conn.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// safeBuffer is written by the node's routines while the test reads.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// No log has a secret in it, whatever clients send, and whatever goes wrong.
func TestSecretsAreInNoLog(t *testing.T) {
	var out safeBuffer
	address, own := newTLSAPI(t, slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	const wrong = "not-the-token-0123456789"
	client := own.client()
	for _, header := range []string{"Bearer " + testToken, "Bearer " + wrong, wrong, "Basic " + wrong, "Bearer " + wrong + "\x7f"} {
		req, err := http.NewRequest("POST", "https://"+address+"/v1/transactions", strings.NewReader(`{"sql":"`+wrong+`"`))
		must.Do(t, err)
		req.Header["Authorization"] = []string{header}
		if r, err := client.Do(req); err == nil {
			text, _ := io.ReadAll(r.Body)
			r.Body.Close()
			out.Write(text)
		}
	}
	raw, err := tls.Dial("tcp", address, &tls.Config{RootCAs: own.pool})
	must.Do(t, err)
	fmt.Fprintf(raw, "GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer %s\r\n\r\n", testToken)
	_, _ = io.Copy(&out, raw)
	conn, err := net.Dial("tcp", address)
	must.Do(t, err)
	fmt.Fprintf(conn, "GET /v1/status HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n", testToken) // in clear, by mistake
	_, _ = io.Copy(&out, conn)
	key, err := os.ReadFile(filepath.Join(own.dir, "node.key"))
	must.Do(t, err)
	eventually(t, func() bool { return strings.Contains(out.String(), "TLS handshake error") })
	for _, secret := range []string{testToken, wrong, strings.Split(string(key), "\n")[1]} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is in what was logged or answered:\n%s", secret, out.String())
		}
	}
}
