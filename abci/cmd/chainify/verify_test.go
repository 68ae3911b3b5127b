package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// receiptVectors are the vectors' receipts.
type receiptVectors struct {
	Receipts, Forged []struct {
		Name      string
		Receipt   json.RawMessage
		Authority struct{ Validators []receiptValidator }
	}
}

type receiptValidator struct {
	Organisation string
	PublicKey    hexKey `json:"public_key"`
}

func readReceipts(t *testing.T) (v receiptVectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "spec", "vectors", "receipts.json"))
	must.Do(t, err)
	must.Do(t, json.Unmarshal(text, &v))
	return v
}

func receiptValidators(t *testing.T) []receiptValidator {
	t.Helper()
	return readReceipts(t).Receipts[0].Authority.Validators
}

// receiptFiles writes the vectors' receipts and a genesis with their keys. It returns their
// directory.
func receiptFiles(t *testing.T) (dir string, names map[string]string) {
	t.Helper()
	v := readReceipts(t)
	dir, names = t.TempDir(), map[string]string{}
	for _, c := range append(v.Receipts, v.Forged...) {
		names[c.Name] = strings.ReplaceAll(c.Name, " ", "-") + ".json"
		write(t, filepath.Join(dir, names[c.Name]), string(c.Receipt))
	}
	f := config.Founding{ChainID: "trade-1"}
	for i, k := range v.Receipts[0].Authority.Validators {
		gateway := make([]byte, 32)
		gateway[0] = byte(i)
		f.Parts = append(f.Parts, config.Part{Organisation: k.Organisation, GatewayKey: gateway, ValidatorKey: k.PublicKey, Power: 1})
	}
	genesis, err := f.Genesis()
	must.Do(t, err)
	write(t, filepath.Join(dir, "genesis.json"), string(genesis))
	return dir, names
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// hexKey is a key in hexadecimal.
type hexKey []byte

func (k *hexKey) UnmarshalText(text []byte) (err error) {
	*k, err = hex.DecodeString(string(text))
	return err
}

func TestVerifyingWithoutNodeOrDatabase(t *testing.T) {
	dir, names := receiptFiles(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	row, digest, forged := in(names["a row's third change in its block"]), in(names["a digest: the block alone"]), in(names["two votes of three needed"])
	text, err := os.ReadFile(row)
	must.Do(t, err)
	write(t, in("malformed.json"), strings.Replace(string(text), `"outcome": true`, `"outcome": 1`, 1))
	write(t, in("changed.json"), strings.Replace(string(text), `"number": 7`, `"number": 8`, 1))
	write(t, in("other.json"), strings.Replace(string(textOf(os.ReadFile(in("genesis.json")))), `"trade-1"`, `"trade-2"`, 1))
	genesis := []string{"--genesis", in("genesis.json")}
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string // part of what is printed, to either
	}{
		{"a row", append([]string{"verify-receipt", row}, genesis...), exitOK, "updated a row of public.account"},
		{"of an EFFECTS transaction", append([]string{"verify-receipt", in(names["the change of an EFFECTS transaction"])}, genesis...), exitOK, "by clerk of bank-a: a write set after block 1, 0 rows inserted, 1 updated, 0 deleted, with tables [\"public.account\"]"},
		{"from standard input", append([]string{"verify-receipt", "-"}, genesis...), exitOK, "by clerk of bank-a"},
		{"for machines", append([]string{"verify-receipt", "--json", row}, genesis...), exitOK, `"valid": true`},
		{"forged", append([]string{"verify-receipt", forged}, genesis...), exitFailed, "certificate: 2 organisations agree, want 3"},
		{"forged, for machines", append([]string{"verify-receipt", "--json", forged}, genesis...), exitFailed, `"field": "certificate"`},
		{"forged, where two suffice", append([]string{"verify-receipt", "--consent", "2", forged}, genesis...), exitOK, "holds"},
		{"changed", append([]string{"verify-receipt", in("changed.json")}, genesis...), exitFailed, "hash: the block's fields give"},
		{"malformed", append([]string{"verify-receipt", in("malformed.json")}, genesis...), exitFailed, "transaction.outcome: no value of this field"},
		{"of another chain", []string{"verify-receipt", row, "--genesis", in("other.json")}, exitFailed, `chain_id: it is of chain "trade-1"`},
		{"a digest as receipt", append([]string{"verify-receipt", digest}, genesis...), exitFailed, "this is a digest"},
		{"no such file", append([]string{"verify-receipt", in("none")}, genesis...), exitUsage, "no such file"},
		{"no genesis", []string{"verify-receipt", row, "--genesis", in("none")}, exitUsage, "no such file"},
		{"genesis left out", []string{"verify-receipt", row}, exitUsage, "--genesis is needed"},
		{"too much consent", append([]string{"verify-receipt", "--consent", "5", row}, genesis...), exitUsage, "want 1 to 4"},
		{"digests", append([]string{"verify-digest", digest, row}, genesis...), exitOK, "agreed on by bank-a, bank-b, bank-c"},
		{"digests, one forged", append([]string{"verify-digest", "--json", digest, forged}, genesis...), exitFailed, `"valid": false`},
	} {
		code, out, errs := call(string(text), c.args...)
		if code != c.code || !strings.Contains(out+errs, c.out) {
			t.Errorf("%s: code %d, want %d with %q:\n%s%s", c.name, code, c.code, c.out, out, errs)
		}
	}
}

// A key that was replaced: receipts of later blocks need the record of that change. The approvals'
// files give it.
func TestVerifyingAcrossGovernanceChanges(t *testing.T) {
	dir, names := receiptFiles(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	row := in(names["a row's third change in its block"])
	var f config.Founding
	f.ChainID = "trade-1"
	gateway := func(organisation string) ed25519.PrivateKey {
		seed := sha256.Sum256([]byte(organisation))
		return ed25519.NewKeyFromSeed(seed[:])
	}
	// The founders' validators are others than those that signed the receipt.
	var actions []*wire.GovernanceAction
	for _, v := range receiptValidators(t) {
		old := sha256.Sum256([]byte("old key of " + v.Organisation))
		f.Parts = append(f.Parts, config.Part{Organisation: v.Organisation, GatewayKey: gateway(v.Organisation).Public().(ed25519.PublicKey), ValidatorKey: old[:], Power: 1})
		actions = append(actions, validatorAction(v.Organisation, old[:], 0), validatorAction(v.Organisation, v.PublicKey, 1))
	}
	write(t, in("genesis.json"), string(textOf(f.Genesis())))
	change := &wire.GovernanceChange{ChainId: "trade-1", Sequence: 1, Actions: actions}
	approve := func(change *wire.GovernanceChange) (approvals []string) {
		for _, p := range f.Parts[:3] {
			file := fileOf(change, wire.Encode(change))
			file.Organisation, file.Signature = p.Organisation, made(wire.Approve(gateway(p.Organisation), p.Organisation, "trade-1", file.Change)).Signature
			approvals = append(approvals, in(fmt.Sprintf("%s-%d.json", p.Organisation, change.Sequence)))
			write(t, approvals[len(approvals)-1], string(textOf(json.Marshal(file))))
		}
		return approvals
	}
	approvals := approve(change)
	record := func(block string, approvals ...string) (int, string) {
		code, out, errs := call("", append([]string{"governance", "record", "--genesis", in("genesis.json"), "--from-block", block}, approvals...)...)
		write(t, in("from-"+block), out)
		return code, errs
	}
	if code, errs := record("2", approvals[:2]...); code != exitFailed || !strings.Contains(errs, "changes[0].approvals: 2 of 4 organisations approve, want 3") {
		t.Errorf("too few approvals: code %d, %s", code, errs)
	}
	for _, block := range []string{"2", "99"} {
		if code, errs := record(block, approvals...); code != exitOK {
			t.Fatalf("code %d, %s", code, errs)
		}
	}
	if code, errs := record("0", approvals...); code != exitUsage || !strings.Contains(errs, "--from-block is needed") {
		t.Errorf("no block: code %d, %s", code, errs)
	}
	withdrawn := withdrawal(&wire.GovernanceChange{ChainId: "trade-1", Sequence: 2, Actions: actions[:1]})
	code, out, errs := call("", append([]string{"governance", "record", "--genesis", in("genesis.json"), "--since", in("from-2")}, approve(withdrawn)...)...)
	if code != exitOK {
		t.Fatalf("a withdrawal: code %d, %s", code, errs)
	}
	write(t, in("withdrawn"), out)
	for _, c := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"after a withdrawal", []string{"--governance", in("withdrawn")}, exitOK, "updated a row of public.account"},
		{"with the record", []string{"--governance", in("from-2")}, exitOK, "updated a row of public.account"},
		{"without it", nil, exitFailed, "keys that came later are in the governance record"},
		{"before the change", []string{"--governance", in("from-99")}, exitFailed, "none of those for this block"},
		{"consent beside it", []string{"--governance", in("from-2"), "--consent", "2"}, exitUsage, "the governance record says it"},
		{"no record", []string{"--governance", row}, exitUsage, "unknown field"},
	} {
		code, out, errs := call("", append([]string{"verify-receipt", row, "--genesis", in("genesis.json")}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.out) {
			t.Errorf("%s: code %d, want %d with %q:\n%s%s", c.name, code, c.code, c.out, out, errs)
		}
	}
}

func textOf(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// made is a message that its key signed; a key in memory never fails.
func made[T any](signed T, err error) T {
	if err != nil {
		panic(err)
	}
	return signed
}
