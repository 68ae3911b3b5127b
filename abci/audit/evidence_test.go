package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var evidenceVectors = filepath.Join("..", "..", "spec", "vectors", "evidence.json")

type evidenceFile struct {
	ChainID       string           `json:"chain_id"`
	Organisations json.RawMessage  `json:"organisations"`
	Record        json.RawMessage  `json:"record"`
	Cases         []evidenceVector `json:"cases"`
}

type evidenceVector struct {
	Name     string          `json:"name"`
	Field    string          `json:"field"` // that is wrong; empty: it holds
	Evidence json.RawMessage `json:"evidence"`
}

// signedBy is a vote with the signature of a validator's key.
func signedBy(name string, height int64, extension []byte) SignedVote {
	address := sha256.Sum256(public(name))
	return SignedVote{
		Validator: address[:addressBytes], Height: height, Round: 1, Extension: extension,
		Signature: ed25519.Sign(key(name), wire.ExtensionSignBytes("trade-1", height, 1, extension)),
	}
}

// makeEvidence makes the vectors: acme has another validator from block 9 on.
func makeEvidence(t *testing.T) evidenceFile {
	t.Helper()
	founders := makeGovernance(t)
	f := evidenceFile{ChainID: founders.ChainID, Organisations: encoded(t, founders.Organisations)}
	f.Record = encoded(t, &Governance{Version: GovernanceVersion, ChainID: f.ChainID, Changes: []GovernanceChange{
		approvedBy(9, sequence(1, 50, validator("acme", "acme validator 2", 10), validator("acme", "acme validator", 0)), "acme gateway", "bolt gateway", "cargo gateway"),
	}})
	key := wire.Key{Number: 7, Round: 1, OrderHash: wire.Hash{7}}
	vote := func(organisation string, hash byte) []byte {
		return wire.NewEffectsVote(key, organisation, wire.Hash{hash}).Encode()
	}
	good := Evidence{EvidenceVersion, f.ChainID, "acme", 7, 1, signedBy("acme validator", 12, vote("acme", 1)), signedBy("acme validator", 13, vote("acme", 2))}
	add := func(name, field string, change func(e *Evidence)) {
		e := good
		change(&e)
		f.Cases = append(f.Cases, evidenceVector{name, field, encoded(t, e)})
	}
	parts := wire.NewEffectsVote(key, "acme", wire.Hash{1})
	parts.Parts = strings.Repeat("p", wire.PartBytes)
	later := wire.NewEffectsVote(wire.Key{Number: 9}, "acme", wire.Hash{1}).Encode()
	otherwise := wire.NewEffectsVote(wire.Key{Number: 9}, "acme", wire.Hash{2}).Encode()
	add("two hashes", "", func(*Evidence) {})
	add("at one height and round", "", func(e *Evidence) { e.Second = signedBy("acme validator", 12, vote("acme", 2)) })
	add("effects and stuck", "", func(e *Evidence) { e.Second = signedBy("acme validator", 13, wire.NewStuckVote(key, 3).Encode()) })
	add("one hash, other parts", "", func(e *Evidence) { e.Second = signedBy("acme validator", 13, parts.Encode()) })
	add("with the key that came later", "", func(e *Evidence) {
		e.Block, e.EffectRound = 9, 0
		e.First, e.Second = signedBy("acme validator 2", 60, later), signedBy("acme validator 2", 61, otherwise)
	})
	add("another chain", "chain_id", func(e *Evidence) { e.ChainID = "trade-2" })
	add("another organisation's key", "first.validator", func(e *Evidence) { e.First = signedBy("bolt validator", 12, vote("acme", 1)) })
	add("of one that only orders", "first.validator", func(e *Evidence) {
		e.Organisation = "echo"
		e.First, e.Second = signedBy("echo validator", 12, vote("echo", 1)), signedBy("echo validator", 12, vote("echo", 2))
	})
	add("a key that was replaced", "second.validator", func(e *Evidence) {
		e.Block, e.EffectRound = 9, 0
		e.First, e.Second = signedBy("acme validator 2", 60, later), signedBy("acme validator", 61, otherwise)
	})
	add("a key before its time", "first.height", func(e *Evidence) {
		e.Block, e.EffectRound = 9, 0
		e.First, e.Second = signedBy("acme validator 2", 49, later), signedBy("acme validator 2", 61, otherwise)
	})
	add("a vote sent again under another height", "second.signature", func(e *Evidence) { e.Second.Height++ })
	add("a vote sent again under another round", "second.signature", func(e *Evidence) { e.Second.Round++ })
	add("a vote that was changed", "first.signature", func(e *Evidence) {
		e.First.Extension = bytes.Clone(e.First.Extension)
		e.First.Extension[50] ^= 1
	})
	add("no vote", "second.extension", func(e *Evidence) { e.Second = signedBy("acme validator", 13, []byte("nothing")) })
	add("an empty extension, as precommits without a vote have", "first.extension", func(e *Evidence) { e.First = signedBy("acme validator", 12, []byte{}) })
	add("for another block", "second.extension", func(e *Evidence) {
		e.Second = signedBy("acme validator", 13, wire.NewEffectsVote(wire.Key{Number: 8, Round: 1, OrderHash: key.OrderHash}, "acme", wire.Hash{2}).Encode())
	})
	add("of another effect round", "first.extension", func(e *Evidence) { e.EffectRound = 2 })
	add("of another order block", "second.extension", func(e *Evidence) {
		e.Second = signedBy("acme validator", 13, wire.NewEffectsVote(wire.Key{Number: 7, Round: 1, OrderHash: wire.Hash{8}}, "acme", wire.Hash{2}).Encode())
	})
	add("the same twice", "second.extension", func(e *Evidence) { e.Second = signedBy("acme validator", 13, vote("acme", 1)) })
	add("an extension too long", "first.extension", func(e *Evidence) {
		e.First = signedBy("acme validator", 12, make([]byte, wire.VoteExtensionBytesMax+1))
	})
	add("another version", "chainify_evidence", func(e *Evidence) { e.Version = 2 })
	return f
}

// UPDATE_VECTORS=1 rewrites the file; audit/test.py checks the same with an implementation of its
// own.
func TestEvidenceVectors(t *testing.T) {
	made := makeEvidence(t)
	text, err := json.MarshalIndent(made, "", " ")
	must.Do(t, err)
	if text = append(text, '\n'); os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(evidenceVectors, text, 0o644))
	}
	kept, err := os.ReadFile(evidenceVectors)
	if err != nil || string(kept) != string(text) {
		t.Fatalf("%s is not what is made here (%v); UPDATE_VECTORS=1 rewrites it", evidenceVectors, err)
	}
	record, err := ParseGovernance(made.Record)
	must.Do(t, err)
	founding := makeGovernance(t).founding()
	all, err := founding.Authorities(record)
	must.Do(t, err)
	for _, c := range made.Cases {
		if field := evidenceWrong(c.Evidence, all); field != c.Field {
			t.Errorf("%s: wrong is %q, want %q", c.Name, field, c.Field)
		}
	}
}

// evidenceWrong is the field that does not hold; empty: all do.
func evidenceWrong(text []byte, all Authorities) string {
	e, err := ParseEvidence(text)
	if err != nil {
		field, _, _ := strings.Cut(err.Error(), ": ")
		return field
	}
	if found := e.Check(all); len(found) > 0 {
		return found[0].Field
	}
	return ""
}

// Every member that is left out, added, or changed by a digit is found.
func TestEvidenceHoldsAsAWhole(t *testing.T) {
	made := makeEvidence(t)
	record, err := ParseGovernance(made.Record)
	must.Do(t, err)
	all, err := makeGovernance(t).founding().Authorities(record)
	must.Do(t, err)
	good := made.Cases[0].Evidence
	for i := range good {
		changed := bytes.Clone(good)
		switch b := good[i]; {
		case b >= '0' && b < '9', b >= 'a' && b < 'f':
			changed[i]++
		default:
			continue
		}
		if evidenceWrong(changed, all) == "" {
			t.Errorf("holds with byte %d changed: %s", i, changed)
		}
	}
	for _, text := range []string{"", "[]", "{}", "null", string(good[:len(good)-1]), string(good) + "{}", `{"more":1,` + string(good[1:])} {
		if evidenceWrong([]byte(text), all) == "" {
			t.Errorf("%q holds", text)
		}
	}
}

func FuzzEvidence(f *testing.F) {
	for _, c := range makeEvidence(&testing.T{}).Cases {
		f.Add([]byte(c.Evidence))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEvidence(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		must.Do(t, err)
		if _, err := ParseEvidence(again); err != nil {
			t.Fatalf("what was read is refused when written: %v", err)
		}
		e.Check(Authorities{{ChainID: e.ChainID, Consent: 1}})
	})
}
