package access

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
)

// TLSFiles are PEM files: the server's chain and key and, empty for none, the authorities whose
// clients are known by their names.
type TLSFiles struct{ Chain, Key, ClientAuthorities string }

// Config makes the server's side of TLS. Files that are replaced count for the next connection;
// what cannot be read is logged, and those from before go on.
func (f TLSFiles) Config(log *slog.Logger) (*tls.Config, error) {
	files := &kept[*tls.Config]{paths: []string{f.Chain, f.Key, f.ClientAuthorities}, read: f.load}
	if _, err := files.current(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := files.current()
			if err != nil {
				log.Error("the TLS files cannot be read: those from before are used", "err", err)
			}
			return c, nil
		},
	}, nil
}

// Client makes the client's side of TLS to a server of that name, whom one of the authorities has
// to vouch for. The chain and key are the client's own.
func (f TLSFiles) Client(server string) (*tls.Config, error) {
	c, err := f.load()
	if err != nil {
		return nil, err
	}
	c.RootCAs, c.ServerName = c.ClientCAs, server
	return c, nil
}

func (f TLSFiles) load() (*tls.Config, error) {
	if info, err := os.Stat(f.Key); err != nil {
		return nil, err
	} else if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s has mode %o: everybody could read the key, want 0600 or 0640", f.Key, info.Mode().Perm())
	}
	own, err := tls.LoadX509KeyPair(f.Chain, f.Key)
	if err != nil {
		return nil, fmt.Errorf("TLS identity %s, %s: %w", f.Chain, f.Key, err)
	}
	// Without tickets every connection shows its credentials anew: authorities taken away count at
	// once.
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, SessionTicketsDisabled: true}
	if f.ClientAuthorities == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ClientAuthorities)
	if err != nil {
		return nil, err
	}
	if c.ClientCAs = x509.NewCertPool(); !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no authority in PEM form", f.ClientAuthorities)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}
