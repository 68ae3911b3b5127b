package config

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// HTTP is the interface of openapi.yaml.
type HTTP struct {
	Listen         string            `toml:"listen"` // empty: off
	TLSCertFile    string            `toml:"tls_cert_file"`
	TLSKeyFile     string            `toml:"tls_key_file"`
	ClientCAFile   string            `toml:"client_ca_file"`
	TLSClients     map[string]string `toml:"tls_clients"`      // name: role
	TLSRevokedFile string            `toml:"tls_revoked_file"` // empty: none
	TokensFile     string            `toml:"tokens_file"`      // empty: none
	ConnectionsMax int               `toml:"connections_max"`
	RequestsMax    int               `toml:"requests_max"`
	StrangersMax   int               `toml:"strangers_max"`
}

// Loopback tells that only this machine can ask.
func (h HTTP) Loopback() bool { return onLoopback(h.Listen) }

// Loopback says whether only this machine reaches the explorer.
func (e Explorer) Loopback() bool { return onLoopback(e.Listen) }

// MetricsOnLoopback says whether only this machine reads the figures.
func (c *Config) MetricsOnLoopback() bool {
	return c.Metrics.Listen == "" || onLoopback(c.Metrics.Listen)
}

// TLS names the files of TLS in a home; false: plain HTTP.
func (e Explorer) TLS(home Home) (access.TLSFiles, bool) {
	return access.TLSFiles{Chain: home.Path(e.TLSCertFile), Key: home.Path(e.TLSKeyFile)}, e.TLSCertFile != ""
}

// checkExplorer refuses what would show the ledger to strangers.
func (c *Config) checkExplorer() error {
	e := c.Explorer
	switch {
	case e.Listen == "":
		return nil
	case e.DSN == "" && c.Database.DSN == "":
		return errors.New("explorer.listen: there is no database to show; database.dsn and explorer.dsn are empty")
	case (e.TLSCertFile == "") != (e.TLSKeyFile == ""):
		return errors.New("explorer: tls_cert_file and tls_key_file go together")
	case !e.Loopback() && (e.TLSCertFile == "" || c.HTTP.TokensFile == ""):
		return fmt.Errorf("explorer.listen: %q is not on loopback, and a visitor sees all ledger data: set explorer.tls_cert_file, explorer.tls_key_file and http.tokens_file, and give visitors tokens (\"chainify client token add --role %s\"); or listen on loopback, behind a proxy with a login", e.Listen, ReaderRole)
	}
	return nil
}

// CheckSignerAddress says what is wrong with the address where signer and node meet.
func CheckSignerAddress(address string) error {
	if path, unix := strings.CutPrefix(address, "unix://"); unix && strings.HasPrefix(path, "/") {
		return nil
	}
	if host, tcp := strings.CutPrefix(address, "tcp://"); tcp {
		if _, _, err := net.SplitHostPort(host); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is neither unix:///PATH nor tcp://HOST:PORT", address)
}

func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// TLS names the files of TLS in a home; false: plain HTTP.
func (h HTTP) TLS(home Home) (access.TLSFiles, bool) {
	files := access.TLSFiles{}
	for _, f := range []struct {
		to   *string
		path string
	}{{&files.Chain, h.TLSCertFile}, {&files.Key, h.TLSKeyFile}, {&files.ClientAuthorities, h.ClientCAFile}} {
		if f.path != "" {
			*f.to = home.Path(f.path)
		}
	}
	return files, h.TLSCertFile != ""
}

// Limits are the bounds of the interface.
func (h HTTP) Limits() gateway.HTTPLimits {
	l := gateway.DefaultHTTPLimits()
	l.Connections, l.Requests, l.Strangers = h.ConnectionsMax, h.RequestsMax, h.StrangersMax
	return l
}

// check refuses what would speak to other machines in clear, and what cannot work together.
func (h HTTP) check() error {
	switch {
	case h.Listen == "":
		return nil
	case (h.TLSCertFile == "") != (h.TLSKeyFile == ""):
		return errors.New("http: tls_cert_file and tls_key_file go together")
	case !h.Loopback() && h.TLSCertFile == "":
		return fmt.Errorf("http.listen: %q is not on loopback: set tls_cert_file and tls_key_file, so that nobody reads tokens on their way", h.Listen)
	case h.TLSCertFile == "" && h.ClientCAFile != "":
		return errors.New("http.client_ca_file: needs tls_cert_file and tls_key_file")
	case h.TLSRevokedFile != "" && h.ClientCAFile == "":
		return errors.New("http.tls_revoked_file: needs client_ca_file")
	case (h.ClientCAFile == "") != (len(h.TLSClients) == 0):
		return errors.New("http: client_ca_file and tls_clients go together")
	}
	for name, role := range h.TLSClients {
		if err := wire.CheckRole(role); name == "" || err != nil {
			return fmt.Errorf("http.tls_clients: %q = %q is not a name and a role", name, role)
		}
	}
	return nil
}
