package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
)

func TestPlacesForDigests(t *testing.T) {
	home := config.Home(t.TempDir())
	write := func(name string, mode os.FileMode) {
		if err := os.WriteFile(home.Path(name), []byte("secret\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("token", 0o600)
	write("open", 0o644)
	if err := os.Mkdir(filepath.Join(string(home), "anchors"), 0o700); err != nil {
		t.Fatal(err)
	}
	const url = "https://kept.example/bucket"
	for _, c := range []struct {
		name   string
		anchor config.Anchor
		stores int
		wrong  string
	}{
		{"none", config.Anchor{}, 0, ""},
		{"both", config.Anchor{Directory: "anchors", URL: url, TokenFile: "token"}, 2, ""},
		{"no such directory", config.Anchor{Directory: "none"}, 0, "anchor.directory: "},
		{"a file for a directory", config.Anchor{Directory: "token"}, 0, "is not a directory"},
		{"no such token", config.Anchor{URL: url, TokenFile: "none"}, 0, "anchor.token_file: "},
		{"a token for all to read", config.Anchor{URL: url, TokenFile: "open"}, 0, "want 0600"},
	} {
		stores, err := anchorStores(home, c.anchor)
		if (c.wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wrong) || len(stores) != c.stores {
			t.Errorf("%s: %v, %v", c.name, stores, err)
		}
	}
}
