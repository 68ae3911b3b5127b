package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// evidenceVectors are the vectors' pieces of evidence and their organisations.
type evidenceVectors struct {
	Organisations []struct {
		Name         string
		GatewayKey   hexKey   `json:"gateway_key"`
		Validators   []hexKey `json:"validators"`
		OrderingOnly bool     `json:"ordering_only"`
	}
	Record json.RawMessage
	Cases  []struct {
		Name, Field string
		Evidence    json.RawMessage
	}
}

func readEvidence(t *testing.T) (v evidenceVectors) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "spec", "vectors", "evidence.json"))
	must.Do(t, err)
	must.Do(t, json.Unmarshal(text, &v))
	return v
}

// evidenceFiles writes genesis and governance record of the vectors.
func evidenceFiles(t *testing.T, v evidenceVectors) (dir string) {
	t.Helper()
	f := config.Founding{ChainID: "trade-1"}
	for _, o := range v.Organisations {
		f.Parts = append(f.Parts, config.Part{Organisation: o.Name, GatewayKey: o.GatewayKey, ValidatorKey: o.Validators[0], Power: 1, OrderingOnly: o.OrderingOnly})
	}
	genesis, err := f.Genesis()
	must.Do(t, err)
	dir = t.TempDir()
	write(t, filepath.Join(dir, "genesis.json"), string(genesis))
	write(t, filepath.Join(dir, "governance.json"), string(v.Record))
	return dir
}

// Anybody can check with the genesis and the record alone what a node gives.
func TestEvidenceFromTheNodeToTheAuditor(t *testing.T) {
	v := readEvidence(t)
	dir := evidenceFiles(t, v)
	var first struct {
		Organisation  string
		Block         uint64
		EffectRound   uint32 `json:"effect_round"`
		First, Second struct {
			Validator, Extension, Signature string
			Height                          int64
			Round                           int32
		}
	}
	must.Do(t, json.Unmarshal(v.Cases[0].Evidence, &first))
	raw := func(text string) []byte { return textOf(hex.DecodeString(text)) }
	piece := &wire.Evidence{Organisation: first.Organisation, Block: first.Block, EffectRound: first.EffectRound}
	a, b := first.First, first.Second
	piece.First = &wire.ExtendedVote{ValidatorAddress: raw(a.Validator), Height: a.Height, Round: a.Round, Extension: raw(a.Extension), Signature: raw(a.Signature)}
	piece.Second = &wire.ExtendedVote{ValidatorAddress: raw(b.Validator), Height: b.Height, Round: b.Round, Extension: raw(b.Extension), Signature: raw(b.Signature)}

	d := openDoor(t)
	d.found = &wire.EvidenceResponse{ChainId: "trade-1"}
	if code, out, errs := call("", "evidence", "--socket", d.path); code != exitOK || !strings.Contains(out, "no organisation") {
		t.Fatalf("without evidence: code %d, %s%s", code, out, errs)
	}
	if code, out, _ := call("", "evidence", "--socket", d.path, "--json"); code != exitOK || out != "[]\n" {
		t.Fatalf("without evidence: code %d, %q", code, out)
	}
	d.found = &wire.EvidenceResponse{ChainId: "trade-1", Evidence: []*wire.Evidence{piece}, Count: 3}
	code, out, _ := call("", "evidence", "--socket", d.path)
	for _, want := range []string{"acme", "height 12 round 1", "height 13 round 1", "and 2 more"} {
		if code != exitFailed || !strings.Contains(out, want) {
			t.Errorf("code %d, want %d with %q:\n%s", code, exitFailed, want, out)
		}
	}
	d.found.OrderCount = 2
	d.found.Order = []*wire.OrderEvidence{{Organisation: "bolt", Validator: []byte{0xab}, Height: 41, Decided: 43}}
	if code, out, _ := call("", "evidence", "--socket", d.path); code != exitFailed || !strings.Contains(out, "acme") || !strings.Contains(out, "bolt") || !strings.Contains(out, "and 1 more") {
		t.Errorf("evidence of the order: code %d\n%s", code, out)
	}
	code, list, _ := call("", "evidence", "--socket", d.path, "--json")
	if code != exitFailed {
		t.Errorf("code %d, want %d", code, exitFailed)
	}
	args := []string{"verify-evidence", "-", "--genesis", filepath.Join(dir, "genesis.json"), "--governance", filepath.Join(dir, "governance.json")}
	if code, out, errs := call(list, args...); code != exitOK || !strings.Contains(out, "acme signed two different votes for block 7") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
	if code, out, errs := call(strings.Replace(list, `"height": 12`, `"height": 14`, 1), append(args, "--json")...); code != exitFailed || !strings.Contains(out, `"field": "first.signature"`) {
		t.Errorf("changed: code %d, %s%s", code, out, errs)
	}
	for name, text := range map[string]string{"an empty list": "[]", "no list": "[", "nothing": "", "a receipt": `{"chainify_receipt": 1}`} {
		if code, out, _ := call(text, args...); code != exitFailed || !strings.Contains(out, "DOES NOT HOLD") {
			t.Errorf("%s: code %d, %s", name, code, out)
		}
	}
	if code, _, errs := call("", "verify-evidence", "none", "--genesis", filepath.Join(dir, "genesis.json")); code != exitUsage || !strings.Contains(errs, "no such file") {
		t.Errorf("no such file: code %d, %s", code, errs)
	}
}
