package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/chainify-db/chainify/abci/wire"
)

// admittedBytesMax bounds the file of nodes that are let in.
const admittedBytesMax = 64 << 10

// Admitted reads the ids of the nodes that the operator lets in although no member vouches for
// them: one a line, and after it, as in empty lines, a comment that # begins. Without a file there
// is none.
func (h Home) Admitted(c Config) (map[string]bool, error) {
	if c.Network.AdmittedFile == "" {
		return nil, nil
	}
	path := h.Path(c.Network.AdmittedFile)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, admittedBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > admittedBytesMax {
		return nil, fmt.Errorf("%s: more than %d bytes", path, admittedBytesMax)
	}
	ids := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		id := strings.TrimSpace(line)
		if id == "" {
			continue
		}
		if err := wire.CheckNodeID(id); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		ids[id] = true
	}
	return ids, nil
}
