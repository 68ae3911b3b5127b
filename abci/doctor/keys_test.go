package doctor

import (
	"crypto/ed25519"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// member is what the registry says of the patient: the keys that its home was made with.
func (p *patient) member() *wire.Member {
	p.Helper()
	part, err := p.home.Part("acme", "127.0.0.1:1")
	p.must(err)
	return &wire.Member{Organisation: "acme", GatewayKey: part.GatewayKey, Validators: []*wire.ValidatorPower{{Key: part.ValidatorKey, Power: 10}}}
}

// Which keys count says the registry. Those of the home that do not are no fault, nor is it that
// the first ones were deleted.
func TestReplacedKeysAreKnown(t *testing.T) {
	p := newPatient(t)
	m := p.member()
	judged := func(level Level, says string) {
		t.Helper()
		f := judgeKeys(p.home, "acme", false, []*wire.Member{{Organisation: "bolt"}, m})
		if f.Level != level || !strings.Contains(f.Found, says) {
			t.Errorf("%+v, want %s with %q", f, level, says)
		}
	}
	judged(Fine, "those that count are there")
	gateway, err := p.home.NewGatewayKey(nil)
	p.must(err)
	validator, err := p.home.NewValidatorKey(nil)
	p.must(err)
	judged(Fine, "and 2 that do not")
	m.GatewayKey, m.Validators[0].Key = gateway, validator
	judged(Fine, "and 2 that do not")
	for _, first := range []string{"gateway_key.json", "priv_validator_key.json"} {
		p.must(os.Remove(p.home.Path("config", first)))
	}
	judged(Fine, "those that count are there")
	if f := checkPermissions(p.home, p.config); f.Level != Fine {
		t.Errorf("without the keys that were replaced: %+v", f)
	}
	further, err := filepath.Glob(p.home.Path("config", "gateway_key.*.json"))
	if err != nil || len(further) != 1 {
		t.Fatal(further, err)
	}
	p.must(os.Chmod(further[0], 0o644))
	if f := checkPermissions(p.home, p.config); f.Level != Bad || !strings.Contains(f.Found, further[0]) {
		t.Errorf("a new key for all to read: %+v", f)
	}
	m.Validators[0].Key = make([]byte, ed25519.PublicKeySize)
	if f := judgeKeys(p.home, "acme", false, []*wire.Member{m}); f.Level != Warn {
		t.Errorf("another validator counts: %+v", f)
	}
	m.GatewayKey = make([]byte, ed25519.PublicKeySize)
	if f := judgeKeys(p.home, "acme", false, []*wire.Member{m}); f.Level != Bad {
		t.Errorf("another gateway key counts: %+v", f)
	}
	p.must(os.Remove(further[0]))
	if f := checkPermissions(p.home, p.config); f.Level != Bad || !strings.Contains(f.Found, "gateway_key.json is missing") {
		t.Errorf("no gateway key: %+v", f)
	}
}

// A standby has none of the keys that count, until it takes over.
func TestAStandbyHasNoKeysThatCount(t *testing.T) {
	p := newPatient(t)
	m := p.member()
	m.GatewayKey = make([]byte, ed25519.PublicKeySize)
	if f := checkKeys(p.home, p.config, []*wire.Member{m}); f.Level != Bad {
		t.Errorf("a node without the gateway key: %+v", f)
	}
	p.must(p.home.BecomeStandby())
	if f := checkKeys(p.home, p.config, []*wire.Member{m}); f.Level != Fine || !strings.Contains(f.Found, "take-over") {
		t.Errorf("a standby: %+v", f)
	}
}

func TestAnOrganisationThatJoinedIsNotInTheGenesis(t *testing.T) {
	p := newPatient(t)
	p.config.Organisation = "echo"
	if f := checkGenesis(p.home, p.config, nil); f.Level != Bad {
		t.Errorf("a node that does not run: %+v", f)
	}
	if f := checkGenesis(p.home, p.config, []*wire.Member{{Organisation: "acme"}}); f.Level != Bad {
		t.Errorf("it takes no part: %+v", f)
	}
	if f := checkGenesis(p.home, p.config, []*wire.Member{{Organisation: "acme"}, {Organisation: "echo"}}); f.Level != Fine {
		t.Errorf("it joined: %+v", f)
	}
}

func TestPlacesOfDigestsAreExamined(t *testing.T) {
	p := newPatient(t)
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		p.must(os.WriteFile(p.home.Path(name), []byte(text), mode))
	}
	write("keys", "aws_access_key_id = AKID\naws_secret_access_key = secret\n", 0o600)
	write("half", "aws_access_key_id = AKID\n", 0o600)
	for what, c := range map[string]struct {
		anchor config.Anchor
		want   Level
	}{
		"none":                 {config.Anchor{}, Warn},
		"a directory":          {config.Anchor{Directory: "config"}, Fine},
		"no directory":         {config.Anchor{Directory: "none"}, Bad},
		"keys":                 {config.Anchor{URL: "https://x/b", S3Region: "x", S3CredentialsFile: "keys"}, Fine},
		"keys elsewhere":       {config.Anchor{URL: "https://x/b", S3Region: "x"}, Fine},
		"half of the keys":     {config.Anchor{URL: "https://x/b", S3Region: "x", S3CredentialsFile: "half"}, Bad},
		"no keys":              {config.Anchor{URL: "https://x/b", S3Region: "x", S3CredentialsFile: "none"}, Bad},
		"a token that is away": {config.Anchor{URL: "https://x/b", TokenFile: "none"}, Bad},
	} {
		p.config.Anchor = c.anchor
		if f := checkAnchor(p.home, p.config); f.Level != c.want || strings.Contains(f.Found+f.Mend, "secret\n") {
			t.Errorf("%s: %+v, want %s", what, f, c.want)
		}
	}
	p.config.Anchor = config.Anchor{URL: "https://x/b", S3Region: "x", S3CredentialsFile: "keys"}
	for mode, want := range map[os.FileMode]Level{0o600: Fine, 0o640: Bad, 0o604: Bad} {
		p.must(os.Chmod(p.home.Path("keys"), mode))
		if f := checkPermissions(p.home, p.config); f.Level != want {
			t.Errorf("keys of mode %o: %+v, want %s", mode, f, want)
		}
	}
}

func TestThePlaceOfTheArchiveIsExamined(t *testing.T) {
	p := newPatient(t)
	p.must(os.WriteFile(p.home.Path("half"), []byte("aws_access_key_id = AKID\n"), 0o600))
	for what, c := range map[string]struct {
		retention config.Retention
		want      Level
	}{
		"none":             {config.Retention{}, Fine},
		"a directory":      {config.Retention{Archive: "config"}, Fine},
		"no directory":     {config.Retention{Archive: "none"}, Bad},
		"keys elsewhere":   {config.Retention{Archive: "https://x/b", ArchiveS3Region: "x"}, Fine},
		"half of the keys": {config.Retention{Archive: "https://x/b", ArchiveS3Region: "x", ArchiveS3CredentialsFile: "half"}, Bad},
	} {
		p.config.Retention = c.retention
		if f := checkArchive(p.home, p.config); f.Level != c.want {
			t.Errorf("%s: %+v, want %s", what, f, c.want)
		}
	}
}

func TestListsOfWhoIsLetInAreExamined(t *testing.T) {
	p := newPatient(t)
	judged := func(what string, want Level) {
		t.Helper()
		if f := checkLists(p.home, p.config); f.Level != want {
			t.Errorf("%s: %+v, want %s", what, f, want)
		}
	}
	judged("no files", Fine)
	tokens := p.home.Path(p.config.HTTP.TokensFile)
	_, err := access.AddToken(tokens, "till", "clerk", time.Now().Add(time.Hour))
	p.must(err)
	judged("a token", Fine)
	_, err = access.AddToken(tokens, "old", "clerk", time.Now().Add(-time.Hour))
	p.must(err)
	judged("a token that expired", Warn)
	p.must(access.RevokeToken(tokens, "old"))
	p.config.HTTP.TLSRevokedFile = "revoked"
	judged("no list of what is revoked", Bad)
	p.must(os.WriteFile(p.home.Path("revoked"), []byte("serial 1\n"), 0o644))
	judged("what is revoked", Fine)
	p.must(os.WriteFile(p.home.Path("config", "admitted"), []byte("echo.example\n"), 0o644))
	judged("no id of a node", Bad)
}

// The explorer's port is one of the node's, and its connection string may hold a password as well.
func TestTheExplorerIsExamined(t *testing.T) {
	p := newPatient(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	defer taken.Close()
	p.config.Explorer.Listen = taken.Addr().String()
	found := p.examine()
	if f := found["ports"]; f.Level != Bad || !strings.Contains(f.Found, "explorer.listen") {
		t.Errorf("its port is taken: %+v", f)
	}
	if f := found["explorer"]; f.Level != Bad || !strings.Contains(f.Found, "database.dsn") {
		t.Errorf("no database: %+v", f)
	}
	p.must(os.Chmod(p.home.Path(config.FileName), 0o644))
	p.config.Explorer.DSN = "host=/nowhere password=x"
	if f := p.examine()["permissions"]; f.Level != Bad {
		t.Errorf("a configuration with the explorer's password: %+v", f)
	}
}

func TestTheExplorersRoleIsExamined(t *testing.T) {
	p := newPatient(t)
	p.withDatabase()
	p.exec("bank", `CREATE ROLE explorer LOGIN IN ROLE chainify_reader`)
	for _, c := range []struct {
		role, listen string
		want         Level
		says         string
	}{
		{"explorer", "127.0.0.1:0", Fine, "reads as explorer"},
		{"explorer", "0.0.0.0:0", Bad, "no token opens it"},
		{"stranger", "127.0.0.1:0", Bad, "no member of chainify_reader"},
		{"nobody", "127.0.0.1:0", Bad, "explorer.dsn"},
	} {
		p.config.Explorer.Listen, p.config.Explorer.DSN = c.listen, p.cluster.DSN("bank", c.role)
		if f := p.examine()["explorer"]; f.Level != c.want || !strings.Contains(f.Found, c.says) {
			t.Errorf("%s at %s: %+v, want %s", c.role, c.listen, f, c.want)
		}
	}
	p.config.Explorer.Listen, p.config.Explorer.DSN = "0.0.0.0:0", p.cluster.DSN("bank", "explorer")
	_, err := access.AddToken(p.home.Path(p.config.HTTP.TokensFile), "anna", config.ReaderRole, time.Time{})
	p.must(err)
	if f := p.examine()["explorer"]; f.Level != Fine || !strings.Contains(f.Found, "tokens of role") {
		t.Errorf("with a token: %+v", f)
	}
	p.config.Explorer.Listen, p.config.Explorer.DSN = "127.0.0.1:0", ""
	if f := p.examine()["explorer"]; f.Level != Fine {
		t.Errorf("as the node's role: %+v", f)
	}
}

// Doctor says when the node's key signs elsewhere, when its last signature is not known, and when
// the file of it is damaged.
func TestSignaturesAreExamined(t *testing.T) {
	p := newPatient(t)
	c := config.Default("acme")
	judged := func(level Level, says string) {
		t.Helper()
		if f := checkSigning(p.home, c); f.Level != level || !strings.Contains(f.Found, says) {
			t.Errorf("%+v, want %s with %q", f, level, says)
		}
	}
	judged(Fine, "no other process")
	now := time.Now()
	p.must(p.home.KeepSigning(config.Signing{DoubtSince: &now}))
	judged(Warn, "not known")
	p.must(p.home.KeepSigning(config.Signing{DoubtSince: &now, Elsewhere: &config.Elsewhere{Height: 7, At: now}}))
	judged(Bad, "order block 7")
	p.must(p.home.KeepSigning(config.Signing{}))
	s, err := p.home.OpenSigner("", true)
	p.must(err)
	p.must(s.Close())
	judged(Fine, "no other process")
	slots := p.home.Path("data", "priv_validator_state.slots")
	file, err := os.ReadFile(slots)
	p.must(err)
	file[100] ^= 1
	p.must(os.WriteFile(slots, file, 0o600))
	judged(Bad, "damaged")
}
