package mariadb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/must"
)

func TestConnectionStrings(t *testing.T) {
	passwords := filepath.Join(t.TempDir(), "passwords")
	must.Do(t, os.WriteFile(passwords, []byte("db.example:3307:shop:node:from-file\nlocalhost:3306:shop:node:local\n"), 0o600))
	for dsn, want := range map[string]struct{ network, address, password string }{
		"mysql://node@db.example/shop":                                                {"tcp", "db.example:3306", ""},
		"mysql://node:p%40ss@[::1]:3307/shop?sslmode=disable":                         {"tcp", "[::1]:3307", "p@ss"},
		"mysql://node@/shop?socket=/run/mysqld.sock":                                  {"unix", "/run/mysqld.sock", ""},
		"mysql://node@db.example:3307/shop?passfile=" + passwords:                     {"tcp", "db.example:3307", "from-file"},
		"mysql://node@/shop?socket=/run/mysqld.sock&passfile=" + passwords:            {"unix", "/run/mysqld.sock", "local"},
		"mysql://node@db.example:3307/shop?sslmode=verify-full&passfile=" + passwords: {"tcp", "db.example:3307", "from-file"},
	} {
		c, name, err := parseDSN(dsn)
		if err != nil || name.database != "shop" || c.User != "node" || c.Net != want.network || c.Addr != want.address || c.Passwd != want.password {
			t.Errorf("%s: %v, %s %s %s, %v", dsn, c, c.Net, c.Addr, c.Passwd, err)
		}
	}
}

// A password of the environment is for connection strings that say nothing of one.
func TestPasswordOfTheEnvironment(t *testing.T) {
	t.Setenv(passwordVariable, "from-environment")
	passwords := filepath.Join(t.TempDir(), "passwords")
	must.Do(t, os.WriteFile(passwords, []byte("*:*:*:node:from-file\n"), 0o600))
	for dsn, want := range map[string]string{
		"mysql://node@db.example/shop":                       "from-environment",
		"mysql://node@/shop?socket=/run/x":                   "from-environment",
		"mysql://node:own@db.example/shop":                   "own",
		"mysql://node@db.example/shop?passfile=" + passwords: "from-file",
	} {
		if c, _, err := parseDSN(dsn); err != nil || c.Passwd != want {
			t.Errorf("%s: password %q, %v, want %q", dsn, c.Passwd, err, want)
		}
	}
}

func TestSSLModesMeanWhatPostgreSQLsMean(t *testing.T) {
	for mode, want := range map[string]struct{ tls, fallback, unverified, chain bool }{
		"disable":     {},
		"prefer":      {tls: true, fallback: true, unverified: true},
		"require":     {tls: true, unverified: true},
		"verify-ca":   {tls: true, unverified: true, chain: true},
		"verify-full": {tls: true},
	} {
		c, _, err := parseDSN("mysql://node@db.example/shop?sslmode=" + mode)
		if err != nil {
			t.Fatal(mode, err)
		}
		got := struct{ tls, fallback, unverified, chain bool }{tls: c.TLS != nil, fallback: c.AllowFallbackToPlaintext}
		if c.TLS != nil {
			got.unverified, got.chain = c.TLS.InsecureSkipVerify, c.TLS.VerifyConnection != nil
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", mode, got, want)
		}
	}
}

func TestBadConnectionStringsAreNamed(t *testing.T) {
	open := filepath.Join(t.TempDir(), "passwords")
	must.Do(t, os.WriteFile(open, []byte("*:*:*:node:secret\n"), 0o644))
	for dsn, want := range map[string]string{
		"mysql://db.example/shop":                               "no user",
		"mysql://node@/shop":                                    "neither a host nor a socket",
		"mysql://node@db.example/":                              "database",
		"mysql://node@db.example/Shop":                          "lower-case",
		"mysql://node@db.example/shop?tls=true":                 "option \"tls\"",
		"mysql://node@db.example/shop?sslmode=maybe":            "sslmode \"maybe\"",
		"mysql://node@db.example/shop?sslmode=prefer&sslmode=x": "there twice",
		"mysql://node@db.example/shop?sslrootcert=/nonexistent": "sslrootcert",
		"mysql://node@db.example/shop?socket=/run/x":            "both a host and a socket",
		"mysql://node@/shop?socket=x":                           "no absolute path",
		"mysql://node@/shop?socket=/run/x&sslmode=require":      "not for a socket",
		"mysql://node@db.example/shop?passfile=" + open:         "want 0600",
		"mysql://node:secret@db.example/shop?passfile=/x":       "both a password and a passfile",
		"mysql://node:secret@db.example:port/shop":              "port",
		"mysql://node:se%cret@db.example/shop":                  "escape",
	} {
		_, _, err := parseDSN(dsn)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", dsn, err, want)
		}
	}
}
