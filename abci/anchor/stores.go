package anchor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/chainify-db/chainify/abci/audit"
)

// requestLimit bounds one exchange with a store.
const requestLimit = 30 * time.Second

// errAnother says that a name is taken by another text.
var errAnother = errors.New("another digest of that block is there already")

// Directory is an append-only directory: files are made whole, read-only, and never replaced. A
// medium that refuses to forget (a WORM share, a git work tree, a mounted bucket with object lock)
// makes more of it than the file system does.
type Directory string

func (d Directory) String() string { return string(d) }

// Put implements Store. The file is on disk under a name of its own before it gets its name.
func (d Directory) Put(ctx context.Context, name string, text []byte) error {
	f, err := os.CreateTemp(string(d), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o444), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	err = os.Link(f.Name(), d.path(name))
	if errors.Is(err, os.ErrExist) {
		kept, err := d.Get(ctx, name)
		if err == nil && !bytes.Equal(kept, text) {
			err = errAnother
		}
		return err
	}
	return err
}

// Get implements Store, for regular files. Others may write into the directory: it follows no link,
// and waits for nobody at the other end of a pipe.
func (d Directory) Get(_ context.Context, name string) ([]byte, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %s, want a regular file", name, info.Mode())
	}
	if err != nil {
		return nil, err
	}
	return bounded(f)
}

func (d Directory) path(name string) string { return filepath.Join(string(d), name) }

// HTTP is a server that keeps what is PUT below a URL and gives it back by GET: a WebDAV share, or
// an S3-compatible store (NewS3).
type HTTP struct {
	url       *url.URL
	authorize func(request *http.Request, body []byte) error // the last to change the request
	client    *http.Client
}

// NewHTTP takes the URL below which digests are kept, and a bearer token, empty for none.
func NewHTTP(base, token string) (*HTTP, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of http or https", base)
	}
	bearer := func(request *http.Request, _ []byte) error {
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return nil
	}
	return &HTTP{url: u, authorize: bearer, client: &http.Client{Timeout: requestLimit, CheckRedirect: staysEncrypted}}, nil
}

// redirectsMax is how often a store may send elsewhere.
const redirectsMax = 10

// staysEncrypted ends redirects from https to http, which would carry a token in clear.
func staysEncrypted(next *http.Request, before []*http.Request) error {
	switch {
	case len(before) >= redirectsMax:
		return fmt.Errorf("%d redirects", len(before))
	case before[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("a redirect to %s, which is not https", next.URL.Redacted())
	}
	return nil
}

func (h *HTTP) String() string { return h.url.Redacted() }

// Put implements Store. A server that heeds If-None-Match refuses to replace; one that does not is
// found out by reading back what was there.
func (h *HTTP) Put(ctx context.Context, name string, text []byte) error {
	kept, err := h.Get(ctx, name)
	switch {
	case err == nil && bytes.Equal(kept, text):
		return nil
	case err == nil:
		return errAnother
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	_, err = h.do(ctx, http.MethodPut, name, text)
	return err
}

// Get implements Store.
func (h *HTTP) Get(ctx context.Context, name string) ([]byte, error) {
	return h.do(ctx, http.MethodGet, name, nil)
}

func (h *HTTP) do(ctx context.Context, method, name string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, h.url.JoinPath(name).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("If-None-Match", "*")
	}
	if err := h.authorize(request, body); err != nil {
		return nil, fmt.Errorf("%s %s: %v", method, name, err) // not %w: a file of keys that is not there is no digest that is not there
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := bounded(response.Body)
	switch {
	case response.StatusCode == http.StatusPreconditionFailed:
		return nil, errAnother
	case response.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %w", method, name, refusal{response, reason(text)})
	}
	return text, err
}

// refusal is an answer that is no success, and why, which may be empty. That of what is not there
// is os.ErrNotExist.
type refusal struct {
	answer *http.Response
	why    string
}

func (r refusal) Error() string { return r.answer.Status + r.why }

func (r refusal) Is(target error) bool {
	return target == os.ErrNotExist && r.answer.StatusCode == http.StatusNotFound
}

func bounded(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, audit.BytesMax+1))
	if err == nil && len(text) > audit.BytesMax {
		err = fmt.Errorf("more than %d bytes", audit.BytesMax)
	}
	return text, err
}
