package node

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

// The explorer answers however the database is: it then says what the node knows.
func TestTheExplorerShowsTheNodeWithoutItsDatabase(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	address := l.Addr().String()
	must.Do(t, l.Close())
	edit(t, r, `dsn = ""`, `dsn = "host=/nowhere dbname=nothing"`) // of a database that this node's tests replace
	edit(t, r, "\nlisten = \"\"\n", "\nlisten = \""+address+"\"\n")
	clients := startAll(t, []*runner{r})
	execute(t, clients[0], "UPDATE t SET x = 1")
	for path, want := range map[string]string{"/": "This page cannot read the database.", "/live": "serving", "/blocks": "cannot be reached"} {
		res, err := http.Get("http://" + address + path)
		must.Do(t, err)
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %s, %v: %s", path, res.Status, err, page)
		}
	}
}

// Beyond loopback the explorer speaks TLS alone, and shows the ledger to those that have a token
// for the reader's role.
func TestTheExplorerBeyondLoopbackAsksForALogin(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	tokens := r.home.Path("config", "tokens.json")
	if _, err := readers(tokens, "0.0.0.0:1"); err == nil || !strings.Contains(err.Error(), "no token opens it") {
		t.Errorf("without a token: %v", err)
	}
	secrets := map[string]string{}
	for _, role := range []string{config.ReaderRole, "clerk"} {
		var err error
		if secrets[role], err = access.AddToken(tokens, "of-"+role, role, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	must.Do(t, l.Close())
	trusted := writeIdentity(t, string(r.home))
	edit(t, r, `dsn = ""`, `dsn = "host=/nowhere dbname=nothing"`) // of a database that this node's tests replace
	edit(t, r, "\nlisten = \"\"\n", "\nlisten = \"0.0.0.0:"+port+"\"\n")
	edit(t, r, "on loopback alone.\ntls_cert_file = \"\"\ntls_key_file = \"\"\n", "on loopback alone.\ntls_cert_file = \"tls.pem\"\ntls_key_file = \"tls.key\"\n")
	startAll(t, []*runner{r})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	for _, c := range []struct {
		scheme, password string
		want             int
	}{{"https", secrets[config.ReaderRole], 200}, {"https", secrets["clerk"], 401}, {"https", "guessed", 401}, {"https", "", 401}, {"http", secrets[config.ReaderRole], 400}} {
		request, err := http.NewRequest(http.MethodGet, c.scheme+"://127.0.0.1:"+port+"/live", nil)
		must.Do(t, err)
		if c.password != "" {
			request.SetBasicAuth("anna", c.password)
		}
		answer, err := client.Do(request)
		must.Do(t, err)
		answer.Body.Close()
		if answer.StatusCode != c.want || (c.want == 401) != strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s with %.9q: %s, want %d", c.scheme, c.password, answer.Status, c.want)
		}
	}
}

// writeIdentity makes a TLS identity that signs for itself, in tls.pem and tls.key of a directory.
func writeIdentity(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must.Do(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.pem": {Type: "CERTIFICATE", Bytes: raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	leaf, err := x509.ParseCertificate(raw)
	must.Do(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return pool
}
