package order

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// registryVector is a registry as it is stored, with the bytes that the AppHash has the hash of.
type registryVector struct {
	Name     string         `json:"name"`
	Record   RegistryRecord `json:"record"`
	Registry string         `json:"registry"`
	Hash     string         `json:"hash"`
}

// A registry without limits of shares has the bytes that it had before there were any.
// UPDATE_VECTORS=1 rewrites what follows from the records: read the difference.
func TestVectorsOfRegistries(t *testing.T) {
	path := filepath.Join("..", "..", "..", "spec", "vectors", "registries.json")
	before, err := os.ReadFile(path)
	must.Do(t, err)
	var v struct {
		Cases []*registryVector `json:"cases"`
	}
	if err := json.Unmarshal(before, &v); err != nil || len(v.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(v.Cases), err)
	}
	for _, c := range v.Cases {
		r, err := c.Record.Open()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		hash := r.Hash()
		c.Registry, c.Hash = hex.EncodeToString(r.encode()), hex.EncodeToString(hash[:])
	}
	after, err := json.MarshalIndent(v, "", " ")
	must.Do(t, err)
	after = append(after, '\n')
	if os.Getenv("UPDATE_VECTORS") != "" {
		must.Do(t, os.WriteFile(path, after, 0o644))
	} else if !bytes.Equal(after, before) {
		t.Error("registries.json is not what the implementation gives: UPDATE_VECTORS=1 rewrites it, git diff shows what differs")
	}
}
