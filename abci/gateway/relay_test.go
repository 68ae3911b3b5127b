package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// serveRelay serves a relay until the test ends.
func serveRelay(t *testing.T, r *Relay) {
	t.Helper()
	r.Log = slog.New(slog.DiscardHandler)
	if r.ConnectionsMax == 0 {
		r.ConnectionsMax = 4
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// besideNode is a relay beside a node's socket, which admits machines called db.
func besideNode(t *testing.T, a *authority, socket string) (address string) {
	t.Helper()
	a.identity("localhost", x509.ExtKeyUsageServerAuth)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	server, err := a.files("localhost").Config(slog.New(slog.DiscardHandler))
	must.Do(t, err)
	serveRelay(t, &Relay{
		Listener: l, Admit: AdmitTLS(server, &access.Access{TLSClients: map[string]string{"db": "database"}}),
		Dial: func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", socket) },
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	must.Do(t, err)
	return "localhost:" + port
}

// besideDatabase is a relay where a database's sessions connect.
func besideDatabase(t *testing.T, to string, files access.TLSFiles, uid uint32) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "relay.sock")
	l, err := ListenUnix(path, 0o600)
	must.Do(t, err)
	serveRelay(t, &Relay{Listener: l, Admit: AdmitUsers([]uint32{uid}), Dial: DialTLS((&net.Dialer{}).DialContext, to, files)})
	return path
}

func (a *authority) files(name string) access.TLSFiles {
	return access.TLSFiles{Chain: filepath.Join(a.dir, name+".pem"), Key: filepath.Join(a.dir, name+".key"), ClientAuthorities: filepath.Join(a.dir, "authority.pem")}
}

func askStatus() *wire.NodeRequest {
	return &wire.NodeRequest{Body: &wire.NodeRequest_Status{Status: &wire.StatusRequest{}}}
}

// A session on another machine speaks to the node through two relays, and nobody else does.
func TestRelaysCarryTheSocket(t *testing.T) {
	ctx, self := context.Background(), uint32(os.Getuid())
	socket, _ := serveSocket(t, newFixture(t, nil), nil)
	ours, others := newAuthority(t, 1), newAuthority(t, 2)
	for _, name := range []string{"db", "till"} {
		ours.identity(name, x509.ExtKeyUsageClientAuth)
	}
	others.identity("db", x509.ExtKeyUsageClientAuth)
	node := besideNode(t, ours, socket)

	answer, err := dial(t, besideDatabase(t, node, ours.files("db"), self)).Call(ctx, askStatus())
	must.Do(t, err)
	if answer.GetStatus().GetOrganisation() != "acme" {
		t.Errorf("another answer: %v", answer)
	}

	theirs := others.files("db")
	theirs.ClientAuthorities = ours.files("db").ClientAuthorities // it believes the node, which does not believe it
	wrong := ours.files("db")
	wrong.ClientAuthorities = others.files("db").ClientAuthorities
	for name, path := range map[string]string{
		"a name that may not connect":        besideDatabase(t, node, ours.files("till"), self),
		"a name that another authority gave": besideDatabase(t, node, theirs, self),
		"a node of another authority":        besideDatabase(t, node, wrong, self),
		"a node of another name":             besideDatabase(t, strings.Replace(node, "localhost", "127.0.0.2", 1), ours.files("db"), self),
		"another user":                       besideDatabase(t, node, ours.files("db"), self+1),
	} {
		if answer, err := dial(t, path).Call(ctx, askStatus()); err == nil {
			t.Errorf("%s: answered with %v", name, answer)
		}
	}
	plain, err := tls.Dial("tcp", node, &tls.Config{RootCAs: ours.pool})
	must.Do(t, err)
	must.Do(t, plain.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := plain.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("somebody without TLS credentials is admitted")
	}
	must.Do(t, plain.Close())
}

// The end of one side is the end of the other, and a session learns why nothing answers.
func TestARelayTellsWhenTheNodeIsAway(t *testing.T) {
	ctx := context.Background()
	socket, stop := serveSocket(t, newFixture(t, nil), nil)
	ours := newAuthority(t, 1)
	ours.identity("db", x509.ExtKeyUsageClientAuth)
	path := besideDatabase(t, besideNode(t, ours, socket), ours.files("db"), uint32(os.Getuid()))
	session := dial(t, path)
	_, err := session.Call(ctx, askStatus())
	must.Do(t, err)
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if answer, err := session.Call(ctx, askStatus()); err == nil {
		t.Errorf("a node that stopped answers %v", answer)
	}
	_, err = dial(t, path).Call(ctx, askStatus())
	wantState(t, err, StateCannotOrder)
}
