package mariadb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// Verification finds what was changed in each part of a ledger, and nothing in one that is right.
func TestVerificationFindsWhatWasChanged(t *testing.T) {
	for change, want := range map[string]string{
		"": "",
		"UPDATE %D.items SET name = 'x' WHERE id = 1":                                                                   "table public.items",
		"UPDATE %L.history SET row_bytes = x'0000' WHERE block = 2":                                                     "block",
		"DELETE FROM %L.history WHERE block = 2":                                                                        "block",
		"DELETE FROM %L.transaction WHERE block = 2":                                                                    "block",
		"UPDATE %L.block SET hash = REPEAT('x', 32) WHERE number = 2":                                                   "block",
		"DELETE FROM %L.block WHERE number = 2":                                                                         "block",
		"UPDATE %L.block b JOIN %L.block o ON o.number = 3 SET b.header = o.header, b.hash = o.hash WHERE b.number = 2": "block",
	} {
		o := fresh(t, items)
		c := o.chain(t)
		c.attach("public.items")
		c.commit(sqlOf("INSERT INTO items (id, name) VALUES (2, 'second')"))
		c.commit(sqlOf("INSERT INTO items (id, name) VALUES (3, 'third')"))
		if change != "" {
			o.unguarded(t, change)
		}
		var found []string
		err := Verify(t.Context(), o.dsn, nil, func(f backend.Finding) error { found = append(found, f.What); return nil })
		if err != nil || want == "" && found != nil || want != "" && (len(found) == 0 || !strings.Contains(strings.Join(found, " "), want)) {
			t.Errorf("%s: %v %v, want %q", change, found, err, want)
		}
	}
}

func TestALedgerBeforeItsNodeIsNamed(t *testing.T) {
	o := fresh(t)
	err := Verify(t.Context(), o.dsn, nil, func(backend.Finding) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "no node has worked") {
		t.Error(err)
	}
}

// A digest is that of the last certified block, in the form that the auditor reads.
func TestDigestsAreTheAuditorsForm(t *testing.T) {
	o := fresh(t, items)
	c := o.chain(t)
	if _, err := c.b.Digest(t.Context()); err == nil {
		t.Error("a digest without a certificate")
	}
	c.attach("public.items")
	votes := []wire.CertifiedVote{{Organisation: "a", Validator: []byte{1}, Extension: []byte{2}, Signature: []byte{3}}}
	must.Do(t, c.b.StoreCertificate(t.Context(), wire.Certificate{Number: c.at.Number, Hash: c.at.Hash, Votes: votes}))
	text, err := c.b.Digest(t.Context())
	must.Do(t, err)
	r, err := audit.Parse(text)
	if err != nil || wire.Hash(r.Hash) != c.at.Hash || r.Block.Number != 1 {
		t.Fatal(err, string(text))
	}
	if found, err := c.b.VerifyDigest(t.Context(), text); err != nil || found != nil {
		t.Error(found, err)
	}
	o.unguarded(t, "DELETE FROM %L.block WHERE number = 1")
	if found, err := c.b.VerifyDigest(t.Context(), text); err != nil || len(found) == 0 {
		t.Error(found, err)
	}
}

func TestExaminationNamesWhatTheServerLacks(t *testing.T) {
	o := fresh(t, items)
	checks := map[string]backend.Level{}
	for _, f := range Examine(t.Context(), o.dsn) {
		checks[f.Check] = f.Level
	}
	if checks["ledger"] != backend.Good || checks["flush"] != backend.Warn || checks["max_allowed_packet"] != backend.Good || checks["clocks"] != backend.Good || checks["MariaDB"] != backend.Good {
		t.Error(checks)
	}
	// A server on which texts turn into NULL is refused.
	var packet int64
	must.Do(t, o.root.QueryRow("SELECT @@max_allowed_packet").Scan(&packet))
	defer o.run(t, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", packet))
	o.run(t, "SET GLOBAL max_allowed_packet = 16777216")
	if _, err := o.open(t).Position(t.Context()); err == nil || !strings.Contains(err.Error(), "max_allowed_packet is 16777216: want 1G") {
		t.Errorf("a node on such a server: %v", err)
	}
	for _, f := range Examine(t.Context(), o.dsn) {
		if f.Check == "max_allowed_packet" && f.Level != backend.Bad {
			t.Errorf("%+v", f)
		}
	}
	for dsn, want := range map[string]string{"mysql://nobody@/shop?socket=/nonexistent": "Is MariaDB running", "mysql://nobody@/": "docs/operator/mariadb.md", strings.Replace(o.dsn, o.name+"@", "stranger@", 1): "CREATE USER"} {
		f := Examine(t.Context(), dsn)
		if len(f) != 1 || f[0].Level != backend.Bad || !strings.Contains(f[0].Mend, want) {
			t.Errorf("%s: %+v", dsn, f)
		}
	}
	if !(settings{version: "8.0.36"}).tooOld() || !(settings{version: "10.6.2-MariaDB"}).tooOld() || (settings{version: "11.4.2-MariaDB-log"}).tooOld() {
		t.Error("versions")
	}
}

// The node goes on without the procedure that ends holders of rows, so that examination alone tells
// that it is missing, or that its definer has lost account or rights.
func TestExaminationNamesAMissingEndOfHolders(t *testing.T) {
	o := fresh(t, items)
	administrator := o.name + "_dba"
	o.run(t, "CREATE USER "+administrator+"@localhost; GRANT ALL ON *.* TO "+administrator+"@localhost")
	t.Cleanup(func() { o.run(t, "DROP USER IF EXISTS "+administrator+"@localhost") })
	expect := func(level backend.Level, found, mend string) {
		t.Helper()
		all := Examine(t.Context(), o.dsn)
		at := slices.IndexFunc(all, func(f backend.Condition) bool { return f.Check == "holders of rows" })
		if at < 0 || all[at].Level != level || !strings.Contains(all[at].Found, found) || !strings.Contains(all[at].Mend, mend) {
			t.Errorf("%+v, want %q and %q", all, found, mend)
		}
	}
	expect(backend.Good, "as it should be", "")
	o.run(t, "DROP PROCEDURE "+o.name+"_ledger.end_holders")
	expect(backend.Warn, "end_holders does not exist", "repeat chainify install-mariadb")
	o.run(t, names{o.name}.in("CREATE DEFINER = "+administrator+"@localhost PROCEDURE %L."+endHolders))
	expect(backend.Good, "as it should be", "")
	o.run(t, "REVOKE PROCESS ON *.* FROM "+administrator+"@localhost")
	expect(backend.Warn, "PROCESS", "GRANT PROCESS, CONNECTION ADMIN")
	o.run(t, "DROP USER "+administrator+"@localhost")
	expect(backend.Warn, "definer", "whose account stays")
}
