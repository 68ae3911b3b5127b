package main

import (
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// A token is printed when it is made and never again.
func TestTokenCommands(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := call("", "testnet", "--organisations", "acme", "--dir", dir); code != exitOK {
		t.Fatal(errs)
	}
	home := filepath.Join(dir, "acme")
	token := func(command string, args ...string) (int, string) {
		code, out, errs := call("", append([]string{"client", "token", command, "--home", home}, args...)...)
		return code, out + errs
	}
	code, secret := token("add", "--role", "clerk", "till-3")
	if secret = strings.TrimSpace(secret); code != exitOK || !strings.HasPrefix(secret, "chainify_") || len(secret) < 40 {
		t.Fatal(code, secret)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{exitOK, "till-3  clerk\n", []string{"list"}},
		{exitOK, `"role": "clerk"`, []string{"list", "--json"}},
		{exitFailed, "already", []string{"add", "--role", "dba", "till-3"}},
		{exitFailed, "letters", []string{"add", "--role", "dba", "till 3"}},
		{exitUsage, "--role", []string{"add", "till-4"}},
		{exitFailed, "no token", []string{"revoke", "till-4"}},
		{exitOK, "", []string{"revoke", "till-3"}},
		{exitOK, "chainify_", []string{"add", "--role", "clerk", "--expires", "2h", "till-5"}},
		{exitOK, "till-5  clerk  until 20", []string{"list"}},
		{exitOK, `"expires": "20`, []string{"list", "--json"}},
		{exitOK, "", []string{"revoke", "till-5"}},
		{exitOK, "", []string{"list"}},
	} {
		code, out := token(c.args[0], c.args[1:]...)
		if code != c.code || !strings.Contains(out, c.says) || (c.says == "" && out != "") || strings.Contains(out, secret) {
			t.Errorf("%v: code %d: %s, want %d with %q", c.args, code, out, c.code, c.says)
		}
	}
}

func TestExpiryOfTokens(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "1d": now.Add(24 * time.Hour), "90d": now.Add(90 * 24 * time.Hour), "12h": now.Add(12 * time.Hour),
		"2026-03-01T12:00:01Z": now.Add(time.Second), "2026-03-01T14:00:00+01:00": now.Add(time.Hour),
	} {
		if got, err := expiryOf(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"0d", "0h", "-1h", "-1d", "90", "90 d", "1e3d", "0x10d", "5,000d", "99999d", "2026-03-01T12:00:00Z", "2025-01-01T00:00:00Z", "tomorrow"} {
		if got, err := expiryOf(text, now); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// The command signs a proposal of the client for that place, and the node takes it.
func TestClientSignCommand(t *testing.T) {
	key := filepath.Join(t.TempDir(), "clerk.json")
	if code, _, errs := call("", "client", "key", key); code != exitOK {
		t.Fatal(errs)
	}
	sign := func(args ...string) (int, string, string) {
		return call("", append([]string{"client", "sign", "--chain-id", "trade", "--organisation", "acme", "--role", "clerk", "--key", key}, args...)...)
	}
	code, out, errs := sign("--height", "20", "--param", "integer:7", "UPDATE t SET x = $1")
	if code != exitOK {
		t.Fatal(code, errs)
	}
	tx := signedLine(t, out)
	if !wire.VerifyProposals("trade", []wire.BundledTx{tx}) {
		t.Fatalf("%+v", tx)
	}
	p := tx.Proposal
	if p.ChainId != "trade" || p.Client.Organisation != "acme" || p.Client.Role != "clerk" || p.ValidUntilHeight != 1020 || len(p.Parameters) != 1 {
		t.Errorf("proposal %v", p)
	}
	if n := len(tx.Chained.Proposal.Signature); n != 64 {
		t.Errorf("one alone has a signature of %d bytes", n)
	}
	if code, _, errs := sign("SELECT 1"); code != exitUsage || !strings.Contains(errs, "--height") {
		t.Error(code, errs)
	}
	if code, _, errs := sign("--height", "1", ""); code != exitFailed || !strings.Contains(errs, "sql") {
		t.Error(code, errs)
	}
}

// Statements of standard input are signed together, each printed by itself.
func TestClientSignsMany(t *testing.T) {
	key := filepath.Join(t.TempDir(), "clerk.json")
	if code, _, errs := call("", "client", "key", key); code != exitOK {
		t.Fatal(errs)
	}
	sign := func(in string, args ...string) (int, string, string) {
		return call(in, append([]string{"client", "sign", "--chain-id", "trade", "--organisation", "acme", "--role", "clerk", "--key", key, "--height", "20"}, args...)...)
	}
	const statements = `{"sql": "UPDATE t SET x = $1", "parameters": [{"type": "integer", "value": "7"}]}` + "\n" + `{"sql": "ATTACH TABLE t", "kind": "deploy"}` + "\n" + `{"sql": "SELECT 3"}`
	code, out, errs := sign(statements, "-")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 3 {
		t.Fatal(code, out, errs)
	}
	for i, want := range []string{"UPDATE t SET x = $1", "ATTACH TABLE t", "SELECT 3"} {
		tx := signedLine(t, lines[i])
		if !wire.VerifyProposals("trade", []wire.BundledTx{tx}) || tx.Proposal.Sql != want || len(tx.Chained.Proposal.Signature) <= 64 {
			t.Errorf("line %d: %+v", i, tx)
		}
	}
	for in, want := range map[string]string{
		"{\"sql\": \"SELECT 1\"}\nSELECT 2":                 "line 2: body",
		"{\"sql\": \"SELECT 1\", \"wait_ms\": 5}":           "line 1: wait_ms",
		"{\"sql\": \"SELECT 1\"}\n{\"sql\": \"\"}":          "transaction 2: proposal.sql",
		strings.Repeat("x", 2*wire.ProposalBytesMax) + "\n": "line 1: ",
	} {
		if code, out, errs := sign(in, "-"); code != exitFailed || !strings.Contains(errs, want) || out != "" {
			t.Errorf("code %d, %q, %s, want %q", code, out, errs, want)
		}
	}
	if code, _, errs := sign(statements, "--param", "integer:7", "-"); code != exitUsage || !strings.Contains(errs, "each line") {
		t.Error(code, errs)
	}
}

// signedLine reads what the command printed of one transaction.
func signedLine(t *testing.T, line string) wire.BundledTx {
	t.Helper()
	var body struct{ Proposal, Signature string }
	must.Do(t, json.Unmarshal([]byte(line), &body))
	proposal, err := hex.DecodeString(body.Proposal)
	must.Do(t, err)
	signature, err := hex.DecodeString(body.Signature)
	must.Do(t, err)
	tx, err := wire.DecodeSignedProposal(&wire.SignedProposal{Proposal: proposal, Signature: signature})
	must.Do(t, err)
	return tx
}
