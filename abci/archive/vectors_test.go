package archive

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// vectors is a small archive with its genesis, which audit/test.py checks as well. The one of
// version 1 stays as it is.
const (
	vectors  = "../../spec/vectors/archive2"
	vectors1 = "../../spec/vectors/archive"
	// misnamedVectors is one in which two columns have each other's names.
	misnamedVectors = "../../spec/vectors/archive2-misnamed"
)

func writeVectors(t *testing.T) {
	t.Helper()
	must := func(err error) {
		must.Do(t, err)
	}
	must(os.RemoveAll(vectors))
	must(os.MkdirAll(vectors, 0o755))
	archiveAll(t, New(options(t, newDatabase(t, 12), Directory(vectors))))
	must(os.RemoveAll(misnamedVectors))
	d := newDatabase(t, 9)
	swapNames(d)
	must(os.CopyFS(misnamedVectors, os.DirFS(string(liar(t, d, func(*Manifest) {})))))
	var organisations []map[string]any
	for _, m := range members {
		key := func(of string) string { return base64.StdEncoding.EncodeToString(public(m + " " + of)) }
		organisations = append(organisations, map[string]any{"name": m, "gateway_key": key("gateway"), "validators": []string{key("validator")}})
	}
	text, err := json.MarshalIndent(map[string]any{"chain_id": chainID, "app_state": map[string]any{"organisations": organisations}}, "", " ")
	must(err)
	must(os.WriteFile(filepath.Join(vectors, "genesis.json"), append(text, '\n'), 0o644))
	m, err := next(t.Context(), Directory(vectors), chainID, nil)
	must(err)
	must(os.WriteFile(filepath.Join(vectors, "signed.hex"), []byte(hex.EncodeToString(m.Signed())+"\n"), 0o644))
}

// The archive of the vectors holds, and what is signed of its first manifest is as recorded.
func TestVectors(t *testing.T) {
	if os.Getenv("UPDATE_VECTORS") != "" {
		writeVectors(t)
	}
	if v := verified(t, Directory(misnamedVectors)); len(v.Findings) != 1 || v.Findings[0].What != "names" {
		t.Errorf("%+v", v)
	}
	for place, unproven := range map[string]int{vectors: 0, vectors1: 2} {
		if v := verified(t, Directory(place)); len(v.Findings) > 0 || v.Ranges != 2 || v.Last != 12 || len(v.Unproven) != unproven {
			t.Errorf("%+v", v)
		}
		m, err := next(t.Context(), Directory(place), chainID, nil)
		must.Do(t, err)
		recorded, err := os.ReadFile(filepath.Join(place, "signed.hex"))
		if got := hex.EncodeToString(m.Signed()) + "\n"; err != nil || got != string(recorded) {
			t.Errorf("%s, want %s (%v)", got, recorded, err)
		}
	}
}
