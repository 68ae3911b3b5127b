package archive

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

// A manifest that is read is one that is written the same, but for its spelling.
func FuzzParseManifest(f *testing.F) {
	for _, path := range found(f, "*.manifest.json") {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		must.Do(t, err)
		other, err := ParseManifest(again)
		if err != nil || !bytes.Equal(other.Signed(), m.Signed()) {
			t.Errorf("%s gives %s: %v", text, again, err)
		}
	})
}

// A file of changes that is none is an error, and no panic.
func FuzzReadRows(f *testing.F) {
	for _, data := range found(f, "*.changes.0001.parquet") {
		f.Add(data)
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = readRows(data, func(row *changeRow) error {
			c, err := changeOf(row)
			if err == nil {
				_ = newNames().cells(c)
			}
			return err
		})
	})
}

// found are the contents of files of the vectors.
func found(f testing.TB, pattern string) (out [][]byte) {
	paths, err := filepath.Glob(filepath.Join(vectors, pattern))
	if err != nil || len(paths) == 0 {
		f.Fatalf("%s: %v", pattern, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
