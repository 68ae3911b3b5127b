package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

func TestPlacesForDigests(t *testing.T) {
	home := config.Home(t.TempDir())
	write := func(name, text string, mode os.FileMode) {
		must.Do(t, os.WriteFile(home.Path(name), []byte(text), mode))
	}
	const keys = "[default]\naws_access_key_id = AKID\naws_secret_access_key = secret\n"
	write("token", "secret\n", 0o600)
	write("open", "secret\n", 0o644)
	write("keys", keys, 0o600)
	write("open keys", keys, 0o644)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	must.Do(t, os.Mkdir(filepath.Join(string(home), "anchors"), 0o700))
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
		{"S3", config.Anchor{URL: url, S3Region: "eu-central-1", S3CredentialsFile: "keys"}, 1, ""},
		{"S3 without keys", config.Anchor{URL: url, S3Region: "eu-central-1"}, 0, "are not both in the environment"},
		{"S3 with a file of no keys", config.Anchor{URL: url, S3Region: "eu-central-1", S3CredentialsFile: "token"}, 0, "anchor.s3_credentials_file: "},
		{"keys for all to read", config.Anchor{URL: url, S3Region: "eu-central-1", S3CredentialsFile: "open keys"}, 0, "want 0600"},
		{"S3 beside a directory", config.Anchor{Directory: "anchors", URL: url, S3Region: "eu-central-1", S3CredentialsFile: "keys"}, 2, ""},
	} {
		stores, err := anchorStores(home, c.anchor)
		if (c.wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.wrong) || len(stores) != c.stores {
			t.Errorf("%s: %v, %v", c.name, stores, err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if stores, err := anchorStores(home, config.Anchor{URL: url, S3Region: "eu-central-1"}); err != nil || len(stores) != 1 {
		t.Errorf("keys of the environment: %v, %v", stores, err)
	}
}
