package explorer_test

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/explorer"
	"github.com/chainify-db/chainify/abci/must"
)

//go:embed testdata/probe.html
var probe string

const (
	browserLimit = 10 * time.Minute
	dark, light  = "0", "1" // Blink's preferredColorScheme
)

// chromium runs Chromium on an address and returns the document as its scripts left it.
func chromium(t *testing.T, scheme, address string, more ...string) string {
	t.Helper()
	program := os.Getenv("CHAINIFY_CHROMIUM")
	if program == "" {
		t.Skip("CHAINIFY_CHROMIUM is not set: it names Chromium; `make check-explorer` sets it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	arguments := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--user-data-dir=" + t.TempDir(),
		"--enable-logging=stderr", "--blink-settings=preferredColorScheme=" + scheme,
	}, more...)
	cmd := exec.CommandContext(ctx, program, append(arguments, address)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", address, err, said.String())
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("%s: the browser complains: %s", address, line)
		}
	}
	return out.String()
}

// grown is a world with enough blocks to fill the pages, in which delta deviates.
func grown(t *testing.T) *world {
	w := newWorld(t)
	for i := range 45 {
		var statements []string
		for j := range 2 + i*7%9 {
			statements = append(statements, fmt.Sprintf("UPDATE checking SET balance = balance - 1 WHERE custid = %d", 1+(i+j)%41))
		}
		if i%6 == 2 {
			statements = append(statements, "UPDATE checking SET balance = balance - 1000000 WHERE custid = 2")
		}
		w.execute(statements...)
	}
	for n := uint64(1); n <= w.blocks; n++ {
		verdict := "agrees"
		if n == w.blocks-6 {
			verdict = "differs"
		}
		w.votes = append(w.votes, explorer.Vote{Block: n, Organisation: "delta", Verdict: verdict})
	}
	return w
}

// In light and dark, on a phone and on a screen: nothing sticks out, all text and every focus can
// be seen, and the browser has nothing to complain of.
func TestPagesInChromium(t *testing.T) {
	if os.Getenv("CHAINIFY_CHROMIUM") == "" {
		t.Skip("CHAINIFY_CHROMIUM is not set: it names Chromium; `make check-explorer` sets it")
	}
	w := grown(t)
	pages := []string{}
	for _, path := range w.addresses() {
		if path != "/nothing" && !strings.HasPrefix(path, "/search") { // the console tells of 404s
			pages = append(pages, path)
		}
	}
	w.measured(pages)
	w.photograph(map[string]string{
		"network": "/", "block": "/blocks/5", "blocks": "/blocks", "transaction": "/transactions/" + w.id(3, 0), "row": "/rows?table=public.checking&key=1",
		"deviations": "/deviations", "evil": "/transactions/" + w.id(2, 2), "problem": "/nothing",
	})
}

// The procedures of a ledger of several engines are on the network page, with whole digests.
func TestProceduresInChromium(t *testing.T) {
	if os.Getenv("CHAINIFY_CHROMIUM") == "" {
		t.Skip("CHAINIFY_CHROMIUM is not set: it names Chromium; `make check-explorer` sets it")
	}
	w, digest := sharedWorld(t)
	text := chromium(t, light, w.server.URL+"/", "--dump-dom", "--virtual-time-budget=2000")
	for _, want := range []string{"Procedures on the ledger", "<code>" + digest + "</code>", "<code>" + otherDigest + "</code>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the network page lacks %s:\n%s", want, text)
		}
	}
	w.measured([]string{"/", "/blocks/2", "/transactions/" + w.id(2, 0)})
	w.photograph(map[string]string{"procedures": "/"})
}

// measured looks at pages in light and dark, on a phone and on a screen.
func (w *world) measured(pages []string) {
	t := w.t
	t.Helper()
	list, err := json.Marshal(pages)
	must.Do(t, err)
	w.wrap(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/probe" {
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, strings.Replace(probe, "{{.Pages}}", string(list), 1))
			return true
		}
		return false
	}, func(h http.Header) { // the probe frames them, which nobody else may
		h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "frame-ancestors 'none'", "frame-ancestors 'self'", 1))
	})
	for name, scheme := range map[string]string{"light": light, "dark": dark} {
		text := chromium(t, scheme, w.server.URL+"/probe", "--dump-dom", "--virtual-time-budget=60000")
		found := regexp.MustCompile(`(?s)<pre id="result">(.*?)</pre>`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s: the probe gave nothing:\n%s", name, text)
		}
		first, wrong, _ := strings.Cut(html.UnescapeString(found[1]), "\n")
		if want := fmt.Sprintf("measured %d", 2*len(pages)); first != want || wrong != "" {
			t.Errorf("%s: %s, want %s\n%s", name, first, want, wrong)
		}
	}
}

// A block that is made while somebody looks at the network page appears on it by itself.
func TestTheNetworkPageLivesInChromium(t *testing.T) {
	if os.Getenv("CHAINIFY_CHROMIUM") == "" {
		t.Skip("CHAINIFY_CHROMIUM is not set: it names Chromium; `make check-explorer` sets it")
	}
	w := newWorld(t)
	inner := w.explorer.Handler()
	made := sync.OnceFunc(func() { // while the browser waits for an answer its time stands still
		w.execute("UPDATE checking SET balance = 77 WHERE custid = 7")
		for deadline := time.Now().Add(browserLimit / 3); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			answer := httptest.NewRecorder()
			if inner.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/live", nil)); strings.Contains(answer.Body.String(), `href="/blocks/4"`) {
				return
			}
		}
	})
	w.wrap(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/live" {
			made()
		}
		return false
	}, nil)
	text := chromium(t, light, w.server.URL+"/", "--dump-dom", "--virtual-time-budget=9000")
	if !strings.Contains(text, `href="/blocks/4"`) {
		t.Errorf("block 4 does not appear:\n%s", text)
	}
	if !strings.Contains(text, `<button type="button" id="pause" aria-pressed="false">`) {
		t.Error("updates cannot be paused")
	}
}

// Nothing that the database holds runs.
func TestNothingOfTheDatabaseRunsInChromium(t *testing.T) {
	if os.Getenv("CHAINIFY_CHROMIUM") == "" {
		t.Skip("CHAINIFY_CHROMIUM is not set: it names Chromium; `make check-explorer` sets it")
	}
	w := newWorld(t)
	for _, path := range []string{"/transactions/" + w.id(2, 2), "/transactions/" + w.id(3, 0), "/rows?table=public.entry&key=2026-02-03&key=2", "/blocks/3"} {
		text := chromium(t, light, w.server.URL+path, "--dump-dom", "--virtual-time-budget=2000")
		if !strings.Contains(text, "broken into") || strings.Contains(text, "<title>broken into") {
			t.Errorf("%s: the script ran, or is not shown:\n%s", path, text)
		}
	}
}

// wrap puts a handler before the explorer's, which answers when it returns true, and changes the
// headers of what the explorer answers.
func (w *world) wrap(before func(http.ResponseWriter, *http.Request) bool, headers func(http.Header)) {
	inner := w.explorer.Handler()
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if before(rw, r) {
			return
		}
		if headers != nil {
			rw = &headerWriter{rw, headers}
		}
		inner.ServeHTTP(rw, r)
	})
}

type headerWriter struct {
	http.ResponseWriter
	change func(http.Header)
}

func (h *headerWriter) WriteHeader(code int) {
	h.change(h.Header())
	h.ResponseWriter.WriteHeader(code)
}

// photograph keeps pictures of pages in CHAINIFY_SCREENSHOTS, for people to look at; without it,
// nothing.
func (w *world) photograph(pages map[string]string) {
	w.t.Helper()
	dir := os.Getenv("CHAINIFY_SCREENSHOTS")
	if dir == "" {
		return
	}
	for name, path := range pages {
		for kind, how := range map[string][]string{"light": {light, "1200,1400"}, "dark": {dark, "1200,1400"}, "phone": {light, "500,1600"}} {
			file := filepath.Join(dir, name+"-"+kind+".png")
			cmd := exec.CommandContext(w.t.Context(), os.Getenv("CHAINIFY_CHROMIUM"), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
				"--user-data-dir="+w.t.TempDir(), "--blink-settings=preferredColorScheme="+how[0], "--window-size="+how[1], "--screenshot="+file,
				"--virtual-time-budget=1500", w.server.URL+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				w.t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
}
