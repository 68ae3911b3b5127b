package mariadb

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgpassfile"

	"github.com/chainify-db/chainify/abci/backend"
)

// Scheme begins the connection strings that name a MariaDB:
// mysql://user[:password]@host[:port]/database?option=value, or mysql://user@/database?socket=PATH.
const Scheme = "mysql://"

const portDefault = "3306"

// dsnOptions are the parameters of a connection string beside user, server and database, as in
// PostgreSQL's.
var dsnOptions = []string{"socket", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile"}

// dial makes connections; a test has it make them on another machine.
var dial = backend.Dial

// parseDSN reads a connection string: a URL with Scheme or, for tests, the driver's own form.
// Errors hold no password.
func parseDSN(dsn string) (*mysql.Config, names, error) {
	c, err := mysql.NewConfig(), error(nil)
	if strings.HasPrefix(dsn, Scheme) {
		err = readURL(c, dsn)
	} else if c, err = mysql.ParseDSN(dsn); err != nil {
		err = errors.New("no URL such as mysql://user@host:3306/database")
	}
	if err != nil {
		return nil, names{}, err
	}
	if !plainName.MatchString(c.DBName) {
		return nil, names{}, fmt.Errorf("database %q, want a name of lower-case letters, digits and _, at most 48", c.DBName)
	}
	c.Timeout = cleanupLimit
	c.DialFunc = dial // the server's end is in its configuration: docs/operator/mariadb.md
	c.InterpolateParams = true
	c.Logger = &mysql.NopLogger{} // errors are returned
	c.MaxAllowedPacket = 0        // as the server says
	return c, names{c.DBName}, nil
}

func readURL(c *mysql.Config, dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil {
		var e *url.Error // its text has the whole connection string
		if errors.As(err, &e) {
			err = e.Err
		}
		return fmt.Errorf("no URL: %w", err)
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("options: %w", err)
	}
	for name, values := range options {
		if !slices.Contains(dsnOptions, name) {
			return fmt.Errorf("option %q, known are %s", name, strings.Join(dsnOptions, ", "))
		}
		if len(values) > 1 {
			return fmt.Errorf("option %q is there twice", name)
		}
	}
	c.User, c.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	if c.User == "" {
		return errors.New("no user: mysql://user@…")
	}
	if err := readServer(c, u, options); err != nil {
		return err
	}
	return readPassword(c, u.Hostname(), options.Get("passfile"))
}

// readServer reads where the server is, and how it shows which one it is.
func readServer(c *mysql.Config, u *url.URL, options url.Values) error {
	socket := options.Get("socket")
	switch {
	case socket != "" && u.Host != "":
		return errors.New("both a host and a socket")
	case socket != "" && !filepath.IsAbs(socket):
		return fmt.Errorf("socket %q is no absolute path", socket)
	case socket != "" && (options.Has("sslmode") || options.Has("sslrootcert") || options.Has("sslcert")):
		return errors.New("TLS options are for a server on a host, not for a socket")
	case socket != "":
		c.Net, c.Addr = "unix", socket
		return nil
	case u.Hostname() == "":
		return errors.New("neither a host nor a socket: mysql://user@host:3306/database, or mysql://user@/database?socket=/run/mysqld/mysqld.sock")
	}
	c.Net, c.Addr = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), portDefault))
	return readTLS(c, u.Hostname(), options)
}

// readTLS takes the modes of PostgreSQL's sslmode, with their meaning.
func readTLS(c *mysql.Config, host string, options url.Values) error {
	mode := cmp.Or(options.Get("sslmode"), "prefer")
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := options.Get("sslrootcert"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("sslrootcert: %w", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("sslrootcert: %s has no TLS certificate in PEM", file)
		}
		if mode == "require" { // as in libpq
			mode = "verify-ca"
		}
	}
	if file, key := options.Get("sslcert"), options.Get("sslkey"); file != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return fmt.Errorf("sslcert and sslkey: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	switch mode {
	case "disable":
		return nil
	case "prefer", "require":
		t.InsecureSkipVerify, c.AllowFallbackToPlaintext = true, mode == "prefer"
	case "verify-ca":
		t.InsecureSkipVerify, t.VerifyConnection = true, verifyChain(t.RootCAs)
	case "verify-full":
		t.ServerName = host
	default:
		return fmt.Errorf("sslmode %q is none of disable, prefer, require, verify-ca, verify-full", mode)
	}
	c.TLS = t
	return nil
}

// verifyChain checks that an authority vouches for the server, whatever its name.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server shows no TLS certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// passwordVariable holds the password of a connection string without one, as for MariaDB's own
// clients.
const passwordVariable = "MYSQL_PWD"

// readPassword looks a missing password up in a file with lines host:port:database:user:password,
// as PostgreSQL's clients do, or in the environment.
func readPassword(c *mysql.Config, host, file string) error {
	if file == "" {
		c.Passwd = cmp.Or(c.Passwd, os.Getenv(passwordVariable))
		return nil
	}
	if c.Passwd != "" {
		return errors.New("both a password and a passfile")
	}
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("passfile: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("passfile: %s has mode %o: others could read the password, want 0600", file, info.Mode().Perm())
	}
	lines, err := pgpassfile.ReadPassfile(file)
	if err != nil {
		return fmt.Errorf("passfile: %w", err)
	}
	port := portDefault
	if c.Net == "unix" {
		host = "localhost"
	} else {
		_, port, _ = net.SplitHostPort(c.Addr)
	}
	if c.Passwd = lines.FindPassword(host, port, c.DBName, c.User); c.Passwd == "" {
		return fmt.Errorf("passfile: %s has no line for %s:%s:%s:%s", file, host, port, c.DBName, c.User)
	}
	return nil
}
