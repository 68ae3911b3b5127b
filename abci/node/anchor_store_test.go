package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/chainify-db/chainify/abci/anchor"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

const (
	bucket = "acme-digests"
	region = "eu-central-1"
)

// keysOf an account, made for one run.
type keysOf struct{ id, secret string }

func freshKeys() keysOf { return keysOf{rand.Text(), rand.Text()} }

func (k keysOf) file() string {
	return fmt.Sprintf("aws_access_key_id = %s\naws_secret_access_key = %s\n", k.id, k.secret)
}

// s3 is an S3-compatible server that is none of ours and checks signatures by itself
// (abci/anchor/versitygw), with a bucket under object lock.
type s3 struct {
	url  string
	root keysOf // may do everything
	node keysOf // may do what the operator's guide says
}

// startS3 runs the server that CHAINIFY_S3_SERVER names until the test ends.
func startS3(t *testing.T) *s3 {
	t.Helper()
	program := os.Getenv("CHAINIFY_S3_SERVER")
	if program == "" {
		t.Skip("CHAINIFY_S3_SERVER names no server: make check-store builds one")
	}
	dir, address := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1))
	for _, name := range []string{"accounts", "kept", "versions"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	s := &s3{url: "http://" + address, root: freshKeys(), node: freshKeys()}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // less than go test gives a package
	server := exec.CommandContext(ctx, program, "--port", address, "--region", region, "--iam-dir", filepath.Join(dir, "accounts"), "--health", "/health",
		"posix", "--versioning-dir", filepath.Join(dir, "versions"), filepath.Join(dir, "kept"))
	server.Env = []string{"ROOT_ACCESS_KEY_ID=" + s.root.id, "ROOT_SECRET_ACCESS_KEY=" + s.root.secret}
	said := &lockedBuffer{}
	server.Stdout, server.Stderr = said, said
	must.Do(t, server.Start())
	t.Cleanup(func() {
		cancel()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("what the server said:\n%s", said.tail(40))
		}
	})
	eventually(t, patience, "the server is there", func() bool {
		response, err := http.Get(s.url + "/health")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	s.must(t, "PATCH", "/create-user", fmt.Sprintf("<Account><Access>%s</Access><Secret>%s</Secret><Role>user</Role></Account>", s.node.id, s.node.secret))
	s.must(t, "PUT", "/"+bucket, "", "X-Amz-Bucket-Object-Lock-Enabled", "true")
	s.must(t, "PUT", "/"+bucket+"?object-lock=", `<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>
		<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>`)
	s.must(t, "PUT", "/"+bucket+"?policy=", strings.NewReplacer("NODE", s.node.id, "BUCKET", "arn:aws:s3:::"+bucket).Replace(`{"Statement": [
		{"Effect": "Allow", "Principal": {"AWS": ["NODE"]}, "Action": ["s3:PutObject", "s3:GetObject"], "Resource": "BUCKET/*"},
		{"Effect": "Allow", "Principal": {"AWS": ["NODE"]}, "Action": "s3:ListBucket", "Resource": "BUCKET"}]}`))
	return s
}

// ask is another client than the one that is tested; target is a path, and a query, as they go over
// the wire.
func (s *s3) ask(t *testing.T, who keysOf, method, target, body string, headers ...string) (response *http.Response, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+target, strings.NewReader(body))
	must.Do(t, err)
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	request.Header.Set("X-Amz-Content-Sha256", hash)
	if body != "" {
		request.Header.Set("X-Amz-Checksum-Sha256", base64.StdEncoding.EncodeToString(sum[:]))
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	must.Do(t, signer.SignHTTP(t.Context(), aws.Credentials{AccessKeyID: who.id, SecretAccessKey: who.secret}, request, hash, "s3", region, time.Now()))
	response, err = http.DefaultClient.Do(request)
	must.Do(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.Do(t, err)
	return response, string(text)
}

// must is what root may ask.
func (s *s3) must(t *testing.T, method, target, body string, headers ...string) string {
	t.Helper()
	response, answer := s.ask(t, s.root, method, target, body, headers...)
	if response.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s %s", method, target, response.Status, answer)
	}
	return answer
}

// mustNot is what an account may not ask.
func (s *s3) mustNot(t *testing.T, who keysOf, method, target string) {
	t.Helper()
	if response, answer := s.ask(t, who, method, target, ""); response.StatusCode != http.StatusForbidden {
		t.Errorf("%s %s: %s %s", method, target, response.Status, answer)
	}
}

// certified is a database of which nothing is asked but digests; a real one is checked against what
// is kept outside in abci/backend/postgres.
type certified struct {
	backend.Backend
	digest   []byte
	verified [][]byte
}

func (c *certified) Digest(context.Context) ([]byte, error) { return c.digest, nil }

func (c *certified) VerifyDigest(_ context.Context, digest []byte) ([]string, error) {
	c.verified = append(c.verified, digest)
	return nil, nil
}

// anchorTo makes what a node makes of its configuration file.
func anchorTo(t *testing.T, database backend.Backend, url, region, keys string) *anchor.Anchor {
	t.Helper()
	home := config.Home(t.TempDir())
	c := config.Default("acme")
	c.Anchor.URL, c.Anchor.S3Region, c.Anchor.S3CredentialsFile = url, region, "s3.keys"
	err := errors.Join(home.Create(c), os.WriteFile(home.Path("s3.keys"), []byte(keys), 0o600))
	must.Do(t, err)
	if c, err = config.Load(string(home)); err != nil {
		t.Fatal(err)
	}
	n := &node{opt: Options{Home: home, Config: c}, log: slog.New(slog.DiscardHandler), backend: database}
	a, err := n.anchor()
	must.Do(t, err)
	return a
}

// digests are those of blocks 1, 3 and 7 of spec/vectors, by the name that each is kept as.
func digests(t *testing.T) (names []string, texts [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "vectors", "receipts.json"))
	var v struct {
		Receipts []struct{ Receipt json.RawMessage }
	}
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return []string{anchor.Name("trade-1", 1), anchor.Name("trade-1", 3), anchor.Name("trade-1", 7)},
		[][]byte{v.Receipts[1].Receipt, v.Receipts[0].Receipt, v.Receipts[2].Receipt}
}

func TestDigestsAreKeptInARealStore(t *testing.T) {
	s := startS3(t)
	names, texts := digests(t)
	for _, place := range []struct{ url, wire string }{
		{"", ""},
		{"/of acme$/2026+1, (ü) 100%25/", "/of%20acme%24/2026%2B1%2C%20%28%C3%BC%29%20100%25"},
	} {
		t.Run("at "+place.url, func(t *testing.T) {
			database := &certified{}
			a := anchorTo(t, database, s.url+"/"+bucket+place.url, region, s.node.file())
			began := time.Now()
			step := func(days int) error { return a.Step(t.Context(), began.Add(time.Duration(days)*24*time.Hour)) }
			for _, text := range texts {
				database.digest = text
				for range 2 { // the same again is fine
					must.Do(t, step(0))
				}
			}
			listed := s.must(t, "GET", "/"+bucket+"?list-type=2", "")
			for i, name := range names {
				at := "/" + bucket + place.wire + "/" + name
				response, kept := s.ask(t, s.root, "GET", at, "")
				if kept != string(texts[i]) {
					t.Errorf("%s is %.60q", name, kept)
				}
				if !strings.Contains(listed, name) {
					t.Errorf("%s is not in %s", name, listed)
				}
				s.mustNot(t, s.node, "DELETE", at)
				s.mustNot(t, s.root, "DELETE", at+"?versionId="+response.Header.Get("X-Amz-Version-Id"))
			}
			if err := step(2); err != nil || len(database.verified) != 1 || !bytes.Equal(database.verified[0], texts[2]) {
				t.Fatalf("%v, verified against %.60q", err, database.verified)
			}

			at := "/" + bucket + place.wire + "/" + names[2]
			s.must(t, "PUT", at, string(texts[1]), "Content-Type", "application/json")
			refuses(t, step(4), names[2]+" of "+s.url, "is not what was exported", "another digest of that block is there already")
			s.must(t, "DELETE", at, "")
			refuses(t, step(6), "read "+names[2], "404 Not Found: NoSuchKey: ")
		})
	}
}

// Different digests of one block that come at the same time: each found nothing there, one is kept.
func TestARealStoreKeepsOneDigestOfABlock(t *testing.T) {
	s := startS3(t)
	_, texts := digests(t)
	others, errs := make([]*anchor.Anchor, 8), make([]error, 8)
	for i := range others {
		text := append(bytes.Clone(texts[0]), strings.Repeat("\n", i)...)
		others[i] = anchorTo(t, &certified{digest: text}, s.url+"/"+bucket, region, s.node.file())
	}
	var exporting sync.WaitGroup
	for i, a := range others {
		exporting.Go(func() { errs[i] = a.Step(t.Context(), time.Now()) })
	}
	exporting.Wait()
	kept := 0
	for _, err := range errs {
		if err == nil {
			kept++
			continue
		}
		refuses(t, err, "another digest of that block is there already")
	}
	if kept != 1 {
		t.Errorf("%d were kept: %v", kept, errs)
	}
}

func TestWhatARealStoreRefusesIsSaid(t *testing.T) {
	s := startS3(t)
	s.must(t, "PUT", "/other", "")
	_, texts := digests(t)
	other := freshKeys()
	for name, c := range map[string]struct {
		bucket, region string
		keys           keysOf
		want           string
	}{
		"another secret":    {bucket, region, keysOf{s.node.id, other.secret}, "403 Forbidden: SignatureDoesNotMatch: "},
		"keys of nobody":    {bucket, region, other, "403 Forbidden: InvalidAccessKeyId: "},
		"another region":    {bucket, "us-east-1", s.node, "400 Bad Request: AuthorizationHeaderMalformed: "},
		"no such bucket":    {"acme-digest", region, s.root, "404 Not Found: NoSuchBucket: "},
		"somebody's bucket": {"other", region, s.node, "403 Forbidden: AccessDenied: "},
	} {
		t.Run(name, func(t *testing.T) {
			a := anchorTo(t, &certified{digest: texts[0]}, s.url+"/"+c.bucket, c.region, c.keys.file())
			err := a.Step(t.Context(), time.Now())
			refuses(t, err, "export trade-1-", c.want)
			if strings.Contains(err.Error(), c.keys.secret) {
				t.Errorf("tells the secret: %v", err)
			}
		})
	}
}

// refuses wants an error that says all that.
func refuses(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}
