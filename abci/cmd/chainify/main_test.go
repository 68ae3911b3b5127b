package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var update = flag.Bool("update", false, "rewrite testdata")

// call runs the program and returns what it printed.
func call(stdin string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.MkdirAll("testdata", 0o755))
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must.Do(t, err)
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it):\n%s\nwant:\n%s", path, got, want)
	}
}

func TestHelpTexts(t *testing.T) {
	var all strings.Builder
	for _, command := range []string{"", "init", "genesis", "testnet", "start", "submit", "governance", "governance propose", "governance withdraw", "governance sign", "governance submit", "governance status", "org", "org list", "org add", "org remove", "org rotate-key", "client", "client key", "client add", "client remove", "client list", "client sign", "client token", "client token add", "client token revoke", "client token list", "status", "doctor", "join", "archive", "archive run", "archive list", "archive verify", "archive receipt", "archive fetch", "relay", "evidence", "verify-receipt", "verify-digest", "verify-evidence", "version"} {
		args := append(strings.Fields(command), "--help")
		code, out, errs := call("", args...)
		if code != exitOK || errs != "" {
			t.Errorf("%v: code %d, %s", args, code, errs)
		}
		all.WriteString("$ chainify " + strings.Join(args, " ") + "\n" + out + "\n")
	}
	golden(t, "help.txt", all.String())
}

func TestWrongUsage(t *testing.T) {
	noHomes(t)
	for want, args := range map[string][]string{
		"unknown command":               {"strat"},
		"unknown flag: --hom":           {"start", "--hom", "x"},
		"--home is needed":              {"start"},
		"--organisation is needed":      {"init", "--home", "x"},
		"accepts 1 arg(s), received 0":  {"submit", "--socket", "x"},
		"accepts 1 arg(s), received 2":  {"submit", "--socket", "x", "SELECT", "1"},
		"there is no home below":        {"submit", "SELECT 1"},
		"one of --home and --socket is": {"status", "--home", "a", "--socket", "b"},
		"\"ddl\" is not sql, deploy":    {"submit", "--socket", "x", "--kind", "ddl", "SELECT 1"},
		"are for --kind plan":           {"submit", "--socket", "x", "--approvals", "acme", "SELECT 1"},
		"not_before: \"soon\" is not":   {"submit", "--socket", "x", "--kind", "plan", "--not-before", "soon", "SELECT 1"},
		"--trust is needed":             {"join", "--home", "x"},
		"is not HEIGHT:HASH":            {"join", "--home", "x", "--trust", "abc"},
		"want 64 hexadecimal digits":    {"join", "--home", "x", "--trust", "7:abc"},
		"--trust-period: 0s":            {"join", "--home", "x", "--trust", "7:5A7BDA2AEF7B0F3C3F2F0C6D7E3FBA9E1D6B0F4E9C6A4C8B5D1E2F3A4B5C6D7E", "--trust-period", "0s"},
		"is not hexadecimal digits":     {"submit", "--socket", "x", "--kind", "approve", "SELECT 1"},
		"not a duration between":        {"submit", "--socket", "x", "--wait=11m", "SELECT 1"},
		"--ordering-only means no":      {"init", "--home", "x", "--organisation", "x", "--ordering-only", "--dsn", "dbname=x"},
		"is not a time":                 {"genesis", "--chain-id", "x", "--time", "now", "p.json"},
		"requires at least 1 arg":       {"genesis", "--chain-id", "x", "--time", "2026-01-01T00:00:00Z"},
		"unknown command \"x\"":         {"version", "x"},
	} {
		if code, _, errs := call("", args...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, %q, want %d with %q", args, code, errs, exitUsage, want)
		}
	}
	if code, out, _ := call(""); code != exitUsage || !strings.Contains(out, "Usage") {
		t.Errorf("no command: code %d, %s", code, out)
	}
	if code, _, errs := call("", "start", "--home", t.TempDir()); code != exitFailed || !strings.Contains(errs, "chainify init") {
		t.Errorf("start without a home: code %d, %s", code, errs)
	}
}

func TestInitAndGenesis(t *testing.T) {
	dir := t.TempDir()
	var parts []string
	for _, name := range []string{"acme", "bolt"} {
		code, out, errs := call("", "init", "--home", filepath.Join(dir, name), "--organisation", name, "--address", name+".example:26656")
		if code != exitOK || !strings.Contains(errs, "genesis.json") {
			t.Fatal(code, errs)
		}
		parts = append(parts, filepath.Join(dir, name+".json"))
		must.Do(t, os.WriteFile(parts[len(parts)-1], []byte(out), 0o600))
	}
	args := append([]string{"genesis", "--chain-id", "trade", "--time", "2026-01-01T00:00:00Z"}, parts...)
	code, genesis, errs := call("", args...)
	if code != exitOK || !strings.Contains(errs, "@bolt.example:26656") {
		t.Fatal(code, errs)
	}
	if _, again, _ := call("", args...); again != genesis {
		t.Error("the same parts give another genesis")
	}
	if _, limited, _ := call("", append(args, "--block-client-max", "7", "--block-organisation-max", "9")...); !strings.Contains(limited, `"block_client_max": 7`) || !strings.Contains(limited, `"block_organisation_max": 9`) {
		t.Errorf("a genesis without the shares of a block: %s", limited)
	}
	home := config.Home(filepath.Join(dir, "acme"))
	must.Do(t, os.WriteFile(home.Genesis(), []byte(genesis), 0o600))
	if doc, state, err := home.LoadGenesis(); err != nil || doc.ChainID != "trade" || len(state.Organisations) != 2 {
		t.Fatal(doc, state, err)
	}
	if code, _, errs := call("", "init", "--home", filepath.Join(dir, "acme"), "--organisation", "acme"); code != exitFailed || !strings.Contains(errs, "already") {
		t.Error(code, errs)
	}
	if code, _, errs := call("", append(args, parts[0])...); code != exitFailed || !strings.Contains(errs, "same as") {
		t.Error(code, errs)
	}
}

func TestTestnetCommand(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := call("", "testnet", "--organisations", "acme,bolt", "--dir", dir, "--base-port", "30000", "--dsn-template", "dbname={organisation}")
	if code != exitOK || out != dir+"/acme\n"+dir+"/bolt\n" {
		t.Fatal(code, out, errs)
	}
	c, err := config.Load(filepath.Join(dir, "bolt"))
	if err != nil || c.Database.DSN != "dbname=bolt" || c.Network.Listen != "127.0.0.1:30010" || len(c.Network.Peers) != 1 {
		t.Fatal(c, err)
	}
}

// door is a node's socket with a gateway behind it whose order the test plays.
type door struct {
	path    string
	gateway *gateway.Gateway
	status  *wire.StatusResponse
	found   *wire.EvidenceResponse
	members *wire.RegistryResponse
	mu      sync.Mutex
	outcome func(id wire.TxID) *wire.TxResult
}

func (d *door) play(outcome func(id wire.TxID) *wire.TxResult) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outcome = outcome
}

// Broadcast orders and commits at once.
func (d *door) Broadcast(_ context.Context, raw []byte) error {
	o, err := wire.DecodeOrderedTx(raw)
	if err != nil {
		return err
	}
	_, txs, err := wire.DecodeBundle(o.GetBundle().GetBundle())
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, tx := range txs {
		if r := d.outcome(tx.ID); r != nil {
			d.gateway.Decided(11, []wire.TxID{tx.ID})
			d.gateway.Committed(&wire.OrderedBlock{Number: r.Block}, []wire.TxResult{*r})
		}
	}
	return nil
}

func openDoor(t *testing.T) *door {
	t.Helper()
	d := &door{path: filepath.Join(t.TempDir(), "s")}
	var err error
	d.gateway, err = gateway.New(gateway.Options{ChainID: "trade", Organisation: "acme", Key: func() crypto.Signer { return make(ed25519.PrivateKey, 64) }, Broadcaster: d, Height: 10})
	must.Do(t, err)
	s, err := gateway.ListenSocket(gateway.SocketOptions{
		Path: d.path, Mode: 0o600, UIDs: []uint32{uint32(os.Getuid())}, ConnectionsMax: 4, RequestsMax: 4, Log: slog.New(slog.DiscardHandler),
	}, &gateway.Handler{
		Gateway: d.gateway, Status: func(context.Context) *wire.StatusResponse { return d.status },
		Evidence: func() *wire.EvidenceResponse { return d.found },
		Registry: func() (*wire.RegistryResponse, error) { return d.members, nil },
		GiveUp: func(block uint64, index uint32, id []byte) (uint64, uint32, bool) {
			if len(id) > 0 {
				return 7, uint32(id[0]), true
			}
			return block, index, block == 7
		},
	})
	must.Do(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { s.Serve(ctx); done <- struct{}{} }()
	go func() { d.gateway.Run(ctx); done <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	return d
}

var idPattern = regexp.MustCompile(`[0-9a-f]{64}`)

func TestSubmitCommand(t *testing.T) {
	d := openDoor(t)
	committed := func(id wire.TxID) *wire.TxResult {
		return &wire.TxResult{ID: id, Block: 7, Index: 1, Succeeded: true, Rows: 1}
	}
	failed := func(id wire.TxID) *wire.TxResult {
		return &wire.TxResult{ID: id, Block: 7, SQLState: "23514", Message: `new row for relation "accounts" violates check constraint "balance_not_negative"`}
	}
	refused := func(id wire.TxID) *wire.TxResult {
		return &wire.TxResult{ID: id, SQLState: "40001", Message: "it expired"}
	}
	never := func(wire.TxID) *wire.TxResult { return nil }
	var all strings.Builder
	for _, c := range []struct {
		outcome func(wire.TxID) *wire.TxResult
		code    int
		args    []string
	}{
		{committed, exitOK, []string{"UPDATE accounts SET balance = 1"}},
		{committed, exitOK, []string{"--wait", "UPDATE accounts SET balance = 1"}},
		{committed, exitOK, []string{"--wait", "--json", "--param", "integer:7", "--param", "date", "UPDATE accounts SET balance = $1, day = $2"}},
		{failed, exitFailed, []string{"--wait", "UPDATE accounts SET balance = -1"}},
		{failed, exitFailed, []string{"--wait", "--json", "UPDATE accounts SET balance = -1"}},
		{refused, exitFailed, []string{"--wait", "SELECT 1"}},
		{never, exitUnreachable, []string{"--wait=10ms", "SELECT 1"}},
		{committed, exitFailed, []string{"--wait", "--kind", "deploy", ""}},
		{committed, exitOK, []string{"--wait", "--kind", "plan", "--not-before", "2027-01-31T09:00:00Z", "--approvals", "2 OF (bolt, cargo)", "SELECT 1"}},
		{committed, exitOK, []string{"--wait", "--kind", "approve", strings.Repeat("0a", 32)}},
		{committed, exitFailed, []string{"--wait", "--kind", "cancel", "0a0b"}},
	} {
		d.play(c.outcome)
		code, out, errs := call("", append([]string{"submit", "--socket", d.path, "--role", "bank"}, c.args...)...)
		if code != c.code {
			t.Errorf("%v: code %d, want %d: %s", c.args, code, c.code, errs)
		}
		all.WriteString("$ chainify submit " + strings.Join(c.args, " ") + "\n" + idPattern.ReplaceAllString(out+errs, "<id>") + "\n")
	}
	golden(t, "submit.txt", all.String())
	d.play(committed)
	if code, out, errs := call("SELECT 1", "submit", "--socket", d.path, "--role", "bank", "--wait", "-"); code != exitOK || !strings.Contains(out, "block 7") {
		t.Error(code, out, errs)
	}
	d.gateway.Close()
	if code, _, errs := call("", "submit", "--socket", d.path, "--role", "bank", "SELECT 1"); code != exitUnreachable || !strings.Contains(errs, "HINT:  ") {
		t.Error(code, errs)
	}
	if code, _, errs := call("", "submit", "--socket", d.path+"x", "--role", "bank", "SELECT 1"); code != exitUnreachable || !strings.Contains(errs, "cannot be reached") {
		t.Error(code, errs)
	}
}

func TestParametersOfTheCommandLine(t *testing.T) {
	s := submission{kind: "sql", parameters: []string{"integer:7", "text:a:b", ":x", "date", "text:"}}
	got, err := s.statement("SELECT")
	must.Do(t, err)
	want := []*wire.Parameter{{Type: "integer", Text: "7"}, {Type: "text", Text: "a:b"}, {Text: "x"}, {Type: "date", Null: true}, {Type: "text"}}
	for i, p := range got.Parameters {
		if p.Type != want[i].Type || p.Text != want[i].Text || p.Null != want[i].Null {
			t.Errorf("parameter %d is %v, want %v", i, p, want[i])
		}
	}
}

func TestPlansOfTheCommandLine(t *testing.T) {
	s := submission{kind: "plan", parameters: []string{"integer:7"}, plan: gateway.PlanWords{NotBefore: "1970-01-01T00:00:02+00:00", Expires: "1970-01-01T01:00:03.5+01:00", Approvals: "acme"}}
	got, err := s.statement("SELECT $1")
	must.Do(t, err)
	if p := got.Plan; got.Kind != wire.Kind_KIND_PLAN || got.Sql != "SELECT $1" || len(got.Parameters) != 1 ||
		p.Action != wire.PlanAction_PLAN_ACTION_PLAN || p.NotBefore != 2_000_000 || p.Expires != 3_500_000 || p.Approvals != "acme" || len(p.Planned) != 0 {
		t.Errorf("%v", got)
	}
	for kind, action := range map[string]wire.PlanAction{
		"approve": wire.PlanAction_PLAN_ACTION_APPROVE, "cancel": wire.PlanAction_PLAN_ACTION_CANCEL, "execute": wire.PlanAction_PLAN_ACTION_EXECUTE,
	} {
		s := submission{kind: kind}
		got, err := s.statement("0aff")
		if err != nil || got.Sql != "" || got.Plan.Action != action || string(got.Plan.Planned) != "\x0a\xff" {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
}

func TestStatusCommand(t *testing.T) {
	d := openDoor(t)
	var all strings.Builder
	for _, c := range []struct {
		code   int
		status *wire.StatusResponse
	}{
		{exitOK, &wire.StatusResponse{State: "serving", LastOrdered: 9, LastCertified: 9, LastCommitted: 9, Peers: 3}},
		{exitFailed, &wire.StatusResponse{State: "database_down", LastOrdered: 9, LastCertified: 9, LastCommitted: 4, Peers: 3}},
		{exitFailed, &wire.StatusResponse{State: "executing", LastOrdered: 9, LastCertified: 8, LastCommitted: 4}},
		{exitFailed, &wire.StatusResponse{State: "excluded", LastOrdered: 9, LastCertified: 8, LastCommitted: 4, Peers: 2}},
		{exitOK, &wire.StatusResponse{State: "ordering_only", LastOrdered: 9, LastCertified: 8, Peers: 2}},
	} {
		d.status = c.status
		c.status.Organisation, c.status.ChainId, c.status.Version, c.status.Height = "acme", "trade", "0.2.0", 21
		c.status.Organisations, c.status.Consent = 4, 3
		for _, args := range [][]string{{"status", "--socket", d.path}, {"status", "--socket", d.path, "--json"}} {
			code, out, errs := call("", args...)
			if code != c.code || errs != "" {
				t.Errorf("%s: code %d, want %d: %s", c.status.State, code, c.code, errs)
			}
			if len(args) == 3 {
				all.WriteString(out + "\n")
			} else if !json.Valid([]byte(out)) {
				t.Errorf("not JSON: %s", out)
			}
		}
	}
	golden(t, "status.txt", all.String())
	if code, _, errs := call("", "status", "--home", t.TempDir()); code != exitFailed || !strings.Contains(errs, "not a node's home") {
		t.Error(code, errs)
	}
}

func TestVersionCommand(t *testing.T) {
	code, out, _ := call("", "version", "--json")
	var v versions
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK || v.Chainify != version || v.Go == "" {
		t.Fatal(code, out, err)
	}
	if code, out, _ := call("", "version"); code != exitOK || !strings.HasPrefix(out, "chainify "+version+"\n") {
		t.Fatal(code, out)
	}
}

// start ends in order when it is told to, as by SIGTERM.
func TestStartCommandStops(t *testing.T) {
	dir, err := os.MkdirTemp("", "chainify-start")
	must.Do(t, err)
	defer os.RemoveAll(dir)
	if code, _, errs := call("", "testnet", "--organisations", "acme", "--dir", dir, "--base-port", "28770"); code != exitOK {
		t.Fatal(errs)
	}
	home := filepath.Join(dir, "acme")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var out, errs bytes.Buffer
	go func() { done <- run(ctx, []string{"start", "--home", home}, strings.NewReader(""), &out, &errs) }()
	defer cancel()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if code, _, _ := call("", "status", "--home", home); code == exitOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the node does not serve in 20 s")
		}
	}
	cancel()
	select {
	case code := <-done:
		if code != exitOK {
			t.Errorf("code %d: %s", code, errs.String())
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the node did not stop in 20 s")
	}
}

// A supervisor can tell a program that is too old from one that failed.
func TestAProgramThatIsTooOldHasAnExitCodeOfItsOwn(t *testing.T) {
	err := errors.Join(fmt.Errorf("node: %w", &wire.NewerProtocolError{Version: 2, Height: 9, Known: 1}), nil)
	if got := exitCode(err); got != 4 {
		t.Errorf("exit code %d, want 4", got)
	}
}
