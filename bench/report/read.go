package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Read reads dir/<name>.json.
func Read(dir, name string) (*Report, error) {
	path := filepath.Join(dir, name+".json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("%s is no report: %w", path, err)
	}
	if r.Name != name || len(r.Figures) == 0 {
		return nil, fmt.Errorf("%s is no report of %q with figures", path, name)
	}
	return r, nil
}
