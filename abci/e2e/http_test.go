package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Beyond loopback the node speaks TLS, to who has a token or signs for himself; the databases show
// who it was. A rate bounds each client, a token that is revoked is worth nothing at once, and no
// log holds a secret.
func TestClientsOverHTTP(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	network := newNetwork(ctx, t)
	acme := network.Organisations[0]
	secrets := []string{}
	tool := func(command string, args ...string) string {
		t.Helper()
		out, err := acme.Tool(ctx, append([]string{"client", command}, args...)...)
		must(t, err)
		return strings.TrimSpace(out)
	}
	key := filepath.Join(acme.Home(), "clerk.json")
	public := tool("key", key)
	tool("add", "--home", acme.Home(), "--role", "bank", public)
	client := listenBeyondLoopback(ctx, t, acme, tool)
	secrets = append(secrets, client.token, strings.Split(readFile(t, key), `"private_key": "`)[1][:44])

	const deposit = "UPDATE checking SET balance = balance + 1 WHERE custid = 1"
	statement := fmt.Sprintf(`{"sql":%q,"wait_ms":30000}`, deposit)
	if code, answer := client.post(ctx, t, "", client.token, statement); code != 200 || !strings.Contains(answer, `"succeeded":true`) {
		t.Errorf("with a token: %d %s", code, answer)
	}
	signed := tool("sign", "--key", key, "--chain-id", client.chain(ctx, t), "--organisation", "acme", "--height", fmt.Sprint(client.height(ctx, t)), "--role", "bank", deposit)
	signed = strings.TrimSuffix(signed, "}") + `, "wait_ms": 30000}`
	for range 2 { // the second time it is the same transaction
		if code, answer := client.post(ctx, t, "/signed", "", signed); code != 200 || !strings.Contains(answer, `"succeeded":true`) {
			t.Errorf("signed: %d %s", code, answer)
		}
	}
	for name, token := range map[string]string{"nobody": "", "a wrong token": "wrong-0123456789-secret"} {
		if code, answer := client.post(ctx, t, "", token, statement); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
	secrets = append(secrets, "wrong-0123456789-secret")
	for i := range 3 { // its rate allows three at once, of which one is gone
		code, answer := client.post(ctx, t, "", client.token, fmt.Sprintf(`{"sql":%q}`, deposit))
		if want := []int{202, 202, 429}[i]; code != want {
			t.Errorf("submission %d: %d %s, want %d", i, code, answer, want)
		}
	}
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.submit_batch(ARRAY['SELECT 1', 'SELECT 2', 'SELECT 3'])")) // a role is another client
	if err := acme.Exec(ctx, "bank", "SELECT chainify.submit('SELECT 4')"); err == nil || !strings.Contains(err.Error(), "53400") {
		t.Errorf("a role beyond its rate: %v", err)
	}
	tool("token", "revoke", "--home", acme.Home(), "till")
	if code, answer := client.post(ctx, t, "", client.token, statement); code != http.StatusUnauthorized {
		t.Errorf("a token that was revoked: %d %s", code, answer)
	}
	want := "acme bank, acme bank " + public + ", acme bank, acme bank"
	for _, o := range network.Organisations {
		must(t, harness.Poll(ctx, catchUpLimit, o.Name+" shows who made the deposits", func(ctx context.Context) (bool, string, error) {
			var who string
			err := o.Scan(ctx, `SELECT coalesce(string_agg(concat_ws(' ', organisation, role, encode(client_key, 'hex')), ', ' ORDER BY block, index), '')
				FROM chainify.transactions WHERE sql LIKE 'UPDATE checking%'`, &who)
			return who == want, fmt.Sprintf("%q, want %q", who, want), err
		}))
		text := readFile(t, filepath.Join(network.Dir, o.Name, "node.log"))
		for _, secret := range append(secrets, secretsOf(t, o)...) {
			if strings.Contains(text, secret) {
				t.Errorf("%s: a secret is in the node's log", o.Name)
			}
		}
	}
}

// secretsOf are the private keys in an organisation's home.
func secretsOf(t *testing.T, o *harness.Organisation) []string {
	t.Helper()
	var secrets []string
	for _, name := range []string{"gateway_key.json", "node_key.json", "priv_validator_key.json"} {
		for _, found := range regexp.MustCompile(`"(?:private_key|value)": ?"([^"]{44,})"`).FindAllStringSubmatch(readFile(t, filepath.Join(o.Home(), "config", name)), -1) {
			secrets = append(secrets, found[1])
		}
	}
	if len(secrets) < 3 {
		t.Errorf("%s: %d private keys were found in its home", o.Name, len(secrets))
	}
	return secrets
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// httpClient speaks to a node over TLS.
type httpClient struct {
	url, token string
	http       *http.Client
}

// listenBeyondLoopback starts the node again with HTTP on all addresses, with TLS, and a rate of
// three transactions at once: it refuses to start without TLS, and without anybody who may ask.
func listenBeyondLoopback(ctx context.Context, t *testing.T, o *harness.Organisation, tool func(string, ...string) string) *httpClient {
	t.Helper()
	must(t, o.StopNode())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	path := filepath.Join(o.Home(), config.FileName)
	before := readFile(t, path)
	section := func(settings string) string {
		text := regexp.MustCompile(`(?s)\[http\].*?\n\[`).ReplaceAllLiteralString(before, "[http]\n"+settings+"\n[")
		text = regexp.MustCompile(`(?m)^client_rate =.*$`).ReplaceAllLiteralString(text, "client_rate = 0.001")
		return regexp.MustCompile(`(?m)^client_burst =.*$`).ReplaceAllLiteralString(text, "client_burst = 3")
	}
	listen := fmt.Sprintf("listen = \"0.0.0.0:%s\"\n", port)
	must(t, os.WriteFile(path, []byte(section(listen)), 0o600))
	if out, err := o.Tool(ctx, "start", "--home", o.Home()); err == nil || !strings.Contains(out, "tls_cert_file") {
		t.Fatalf("without TLS: %v\n%s", err, out)
	}
	pool := writeIdentity(t, o.Home())
	must(t, os.WriteFile(path, []byte(section(listen+"tls_cert_file = \"tls.pem\"\ntls_key_file = \"tls.key\"\n")), 0o600))
	if out, err := o.Tool(ctx, "start", "--home", o.Home()); err == nil || !strings.Contains(out, "client token add") {
		t.Fatalf("without anybody who may ask: %v\n%s", err, out)
	}
	token := tool("token", "add", "--home", o.Home(), "--role", "bank", "till")
	must(t, o.StartNode())
	must(t, o.WaitServing(ctx, readyLimit))
	return &httpClient{
		url: "https://127.0.0.1:" + port, token: token,
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
}

// writeIdentity makes a TLS identity that signs for itself, in tls.pem and tls.key of the home.
func writeIdentity(t *testing.T, home string) *x509.CertPool {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "acme"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	info, err := os.Stat(home)
	must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	for name, block := range map[string]*pem.Block{"tls.pem": {Type: "CERTIFICATE", Bytes: raw}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		path := filepath.Join(home, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
		must(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	}
	leaf, err := x509.ParseCertificate(raw)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return pool
}

func (c *httpClient) do(ctx context.Context, t *testing.T, method, path, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	must(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(text)
}

func (c *httpClient) post(ctx context.Context, t *testing.T, path, token, body string) (int, string) {
	t.Helper()
	return c.do(ctx, t, http.MethodPost, "/v1/transactions"+path, token, body)
}

// health is what everybody may know, as a client has to that signs.
func (c *httpClient) health(ctx context.Context, t *testing.T) (h struct {
	ChainID string `json:"chain_id"`
	Height  int64  `json:"height"`
},
) {
	t.Helper()
	_, text := c.do(ctx, t, http.MethodGet, "/healthz", "", "")
	must(t, json.Unmarshal([]byte(text), &h))
	return h
}

func (c *httpClient) chain(ctx context.Context, t *testing.T) string { return c.health(ctx, t).ChainID }

func (c *httpClient) height(ctx context.Context, t *testing.T) int64 { return c.health(ctx, t).Height }
