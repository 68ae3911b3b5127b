package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// canary is a private value that is found wherever it is.
const canary = "canary 5f1c9e02 of acme and bolt"

// Acme and bolt hold the values of a column. Cargo and delta agree on them and never see one
// (K1 to K5).
func TestPrivateValues(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	sealNotes(ctx, t, net)
	conn := plainSession(ctx, t, acme)
	run(ctx, t, conn, "INSERT INTO chainify_open.trades VALUES (1, 'nuts', '"+canary+"')")
	sameBlocks(ctx, t, net)
	// Bolt has the value with the row: nothing is waited for.
	for _, o := range []*harness.Organisation{acme, bolt} {
		readsNote(ctx, t, o, 1, canary)
	}
	hiddenFrom(ctx, t, net, "cargo", "delta")
	withoutBolt(ctx, t, net)
	fetchedAgain(ctx, t, bolt)
	run(ctx, t, conn, "UPDATE chainify_open.trades SET note = 'another ' || note WHERE id = 1")
	sameBlocks(ctx, t, net)
	readsNote(ctx, t, bolt, 1, "another "+canary)
	hiddenFrom(ctx, t, net, "cargo", "delta")
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}

// sealNotes makes a table with a column that is sealed for acme and bolt.
func sealNotes(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	must(t, net.Each(func(o *harness.Organisation) error {
		return o.Exec(ctx, "postgres", "GRANT CREATE ON SCHEMA public TO dba")
	}))
	for _, text := range []string{
		"CREATE TABLE trades (id bigint PRIMARY KEY, item text, note chainify.sealed); GRANT SELECT, INSERT, UPDATE, DELETE ON trades TO bank",
		"CREATE CIRCLE pricing OF acme, bolt",
		"ALTER TABLE public.trades SEAL COLUMN note AS text FOR pricing",
	} {
		must(t, net.Organisation("acme").Exec(ctx, "dba", "SELECT chainify.deploy('"+text+"')"))
	}
	sameBlocks(ctx, t, net)
	for _, name := range []string{"acme", "bolt"} {
		must(t, net.Organisation(name).Exec(ctx, "postgres", "GRANT SELECT ON chainify_private.trades_note TO bank"))
	}
}

func sameBlocks(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	tip, err := net.Organisation("acme").Tip(ctx)
	must(t, err)
	waitSame(ctx, t, net.Organisations, tip.Number)
}

func readsNote(ctx context.Context, t *testing.T, o *harness.Organisation, id int, want string) {
	t.Helper()
	var got string
	must(t, o.Scan(ctx, fmt.Sprintf("SELECT coalesce(note, 'NULL') FROM chainify_open.trades WHERE id = %d", id), &got))
	if got != want {
		t.Errorf("%s reads note %q of trade %d, want %q", o.Name, got, id, want)
	}
}

// hiddenFrom looks for values and salts in everything that organisations keep: databases with their
// log, nodes, and what they wrote of themselves. It finds them at acme.
func hiddenFrom(ctx context.Context, t *testing.T, net *harness.Network, names ...string) {
	t.Helper()
	secrets := map[string][]byte{"value": []byte(canary)}
	var salt []byte
	must(t, net.Organisation("acme").Scan(ctx, "SELECT salt FROM chainify_private.trades_note ORDER BY commitment LIMIT 1", &salt))
	secrets["salt"], secrets["salt in hexadecimal"] = salt, []byte(hex.EncodeToString(salt))
	for _, name := range append(names, "acme") {
		o := net.Organisation(name)
		must(t, o.Exec(ctx, "postgres", "CHECKPOINT"))
		dump := filepath.Join(net.Dir, name, "dump.sql")
		text, err := program(ctx, o, "postgres", "pg_dump")
		must(t, err)
		must(t, os.WriteFile(dump, []byte(text), 0o600))
		found := leaks(t, net.Dir, name, secrets)
		switch {
		case name == "acme" && (found["value"] == "" || found["salt"] == ""):
			t.Errorf("nothing is found at acme, which has the values: %v", found)
		case name != "acme" && len(found) > 0:
			t.Errorf("%s has what it must not have: %v", name, found)
		}
		if name != "acme" {
			readsNote(ctx, t, o, 1, "NULL")
		}
	}
}

// leaks are the secrets that files of an organisation hold, each with one file.
func leaks(t *testing.T, dir, organisation string, secrets map[string][]byte) map[string]string {
	t.Helper()
	found, files := map[string]string{}, 0
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		inside, _ := filepath.Rel(dir, path)
		if err != nil || !d.Type().IsRegular() || !strings.Contains(inside, organisation) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // of a server that runs
			}
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files++
		for name, secret := range secrets {
			if bytes.Contains(raw, secret) {
				found[name] = inside
			}
		}
		return err
	}))
	if files < 100 {
		t.Fatalf("%d files of %s in %s, which has a database", files, organisation, dir)
	}
	return found
}

// withoutBolt: while no other member of the circle can hold a value, nothing is ordered of it (K3).
func withoutBolt(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	acme, bolt := net.Organisation("acme"), net.Organisation("bolt")
	must(t, bolt.StopNode())
	conn := plainSession(ctx, t, acme)
	failed := fails(ctx, t, conn, "CH013", "INSERT INTO chainify_open.trades VALUES (2, 'bolts', 'nobody else has it')")
	if !strings.Contains(failed.Message, "bolt did not answer") {
		t.Errorf("the error names nobody: %s", describe(failed))
	}
	run(ctx, t, conn, "INSERT INTO chainify_open.trades VALUES (3, 'screws', NULL)") // nothing private
	must(t, bolt.StartNode())
	must(t, bolt.WaitServing(ctx, readyLimit))
	must(t, harness.Poll(ctx, catchUpLimit, "a private value delivered to bolt again", func(ctx context.Context) (bool, string, error) {
		_, err := conn.Exec(ctx, "INSERT INTO chainify_open.trades VALUES (4, 'washers', 'both have it')")
		return err == nil, describe(err), nil
	}))
	sameBlocks(ctx, t, net)
	readsNote(ctx, t, bolt, 4, "both have it")
	for _, o := range net.Organisations {
		var trades string
		must(t, o.Scan(ctx, "SELECT string_agg(id::text, ',' ORDER BY id) FROM trades", &trades))
		if trades != "1,3,4" {
			t.Errorf("%s has trades %s", o.Name, trades)
		}
	}
}

// fetchedAgain: a value that a member lost comes from another member.
func fetchedAgain(ctx context.Context, t *testing.T, bolt *harness.Organisation) {
	t.Helper()
	must(t, bolt.Exec(ctx, "postgres", "DELETE FROM chainify_private.trades_note"))
	must(t, harness.Poll(ctx, catchUpLimit, "the deleted values at bolt", func(ctx context.Context) (ok bool, why string, err error) {
		var held int
		err = bolt.Scan(ctx, "SELECT count(*) FROM chainify_open.trades WHERE note IS NOT NULL", &held)
		return held == 2, fmt.Sprintf("%d values", held), err
	}))
	readsNote(ctx, t, bolt, 1, canary)
}
