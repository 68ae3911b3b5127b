package archive

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// vectors is a small archive with its genesis, which audit/test.py checks as well.
const vectors = "../../spec/vectors/archive"

func writeVectors(t *testing.T) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.RemoveAll(vectors))
	must(os.MkdirAll(vectors, 0o755))
	archiveAll(t, New(options(t, newDatabase(t, 12), Directory(vectors))))
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
	if v := verified(t, Directory(vectors)); len(v.Findings) > 0 || v.Ranges != 2 || v.Last != 12 {
		t.Errorf("%+v", v)
	}
	m, err := next(t.Context(), Directory(vectors), chainID, nil)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join(vectors, "signed.hex"))
	if got := hex.EncodeToString(m.Signed()) + "\n"; err != nil || got != string(recorded) {
		t.Errorf("%s, want %s (%v)", got, recorded, err)
	}
}
