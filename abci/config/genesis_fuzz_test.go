package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

// Parts come from other organisations: whatever is in one, it is refused, or gives the same part
// written again.
func FuzzParsePart(f *testing.F) {
	homes, err := testnet(f.TempDir()).Create()
	if err != nil {
		f.Fatal(err)
	}
	part, err := homes[0].Part("acme", "acme.example:26656")
	if err != nil {
		f.Fatal(err)
	}
	if part, err = homes[0].SignPart(part); err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(part)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(append(text, "{}"...))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePart(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Errorf("%q is accepted and is no JSON text", text)
		}
		again, err := json.Marshal(p)
		must.Do(t, err)
		if _, err := ParsePart(again); err != nil {
			t.Errorf("%s is accepted, and refused as %s: %v", text, again, err)
		}
		_, _ = Founding{ChainID: "test", Time: time.Unix(1, 0), Parts: []Part{p}}.Genesis() // must not panic
	})
}
