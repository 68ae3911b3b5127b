package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
)

// relayOptions are the flags of "chainify relay".
type relayOptions struct {
	listen, to     string
	files          access.TLSFiles
	clients, users []string
	connectionsMax int
}

func newRelay() *cobra.Command {
	o := relayOptions{connectionsMax: config.Default("").Clients.ConnectionsMax}
	cmd := &cobra.Command{
		Use:   "relay --listen ADDRESS --to ADDRESS",
		Short: "Carry a node's socket to PostgreSQL on another machine, over TLS",
		Long: `relay carries connections until SIGINT or SIGTERM. One relay runs beside PostgreSQL: it listens where chainify.node_socket points, and
connects to the relay beside the node. That one listens for it, and connects to the node's socket. Between the two is TLS 1.3. Each shows
credentials that an authority of yours signed. The relay beside the node has the name in --to, the other one a name in --tls-client.
Files that are replaced count for the next connection.

A machine that may connect can submit as any role, as users of the node's socket can.`,
		Example: `  chainify relay --listen tls://0.0.0.0:26670 --to unix:///var/lib/chainify/acme/node.sock \
      --tls-cert node.pem --tls-key node.key --tls-ca acme-ca.pem --tls-client db.acme.example
  chainify relay --listen unix:///run/chainify/node.sock --user postgres --to tls://node.acme.example:26670 \
      --tls-cert db.pem --tls-key db.key --tls-ca acme-ca.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			relay, err := o.open(slog.New(slog.NewTextHandler(os.Stderr, nil)))
			if err != nil {
				return err
			}
			relay.Log.Info("carries connections", "listen", o.listen, "to", o.to)
			if err := relay.Serve(cmd.Context()); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "", "unix:///PATH beside PostgreSQL, tls://HOST:PORT beside the node (required)")
	cmd.Flags().StringVar(&o.to, "to", "", "tls://HOST:PORT of the relay beside the node, or unix:///PATH of the node's socket (required)")
	cmd.Flags().StringVar(&o.files.Chain, "tls-cert", "", "this machine's TLS chain, PEM (required)")
	cmd.Flags().StringVar(&o.files.Key, "tls-key", "", "its key, of mode 0600 (required)")
	cmd.Flags().StringVar(&o.files.ClientAuthorities, "tls-ca", "", "the authority that signs for the other machine, PEM (required)")
	cmd.Flags().StringArrayVar(&o.clients, "tls-client", nil, "name of a machine that may connect, with tls:// in --listen; may be given again")
	cmd.Flags().StringArrayVar(&o.users, "user", nil, "operating-system user that may connect, with unix:// in --listen; may be given again")
	numberFlag(cmd, &o.connectionsMax, "connections-max", "connections at once")
	require(cmd, "listen", "to", "tls-cert", "tls-key", "tls-ca")
	return cmd
}

// open binds the address, and looks at all that a relay needs.
func (o relayOptions) open(log *slog.Logger) (*gateway.Relay, error) {
	path, unix := strings.CutPrefix(o.listen, "unix://")
	address, remote := strings.CutPrefix(o.listen, "tls://")
	target, far := strings.CutPrefix(o.to, "tls://")
	socket, near := strings.CutPrefix(o.to, "unix://")
	if !(unix && far) && !(remote && near) {
		return nil, usageError("--listen and --to: one of them is unix:///PATH, and the other one tls://HOST:PORT")
	}
	if _, err := o.files.Client(""); err != nil {
		return nil, usageError("--tls-cert, --tls-key, --tls-ca: %w", err)
	}
	if o.connectionsMax < 1 {
		return nil, usageError("--connections-max: %d, want at least 1", o.connectionsMax)
	}
	relay := &gateway.Relay{ConnectionsMax: o.connectionsMax, Log: log}
	if unix {
		uids, err := (&config.Config{Clients: config.Clients{Users: o.users}}).AllowedUIDs()
		if err != nil {
			return nil, usageError("--user: %w", err)
		}
		relay.Admit, relay.Dial = gateway.AdmitUsers(uids), gateway.DialTLS(backend.Dial, target, o.files)
		relay.Listener, err = gateway.ListenUnix(path, 0o666) // the kernel names the user, and the list decides
		return relay, err
	}
	clients := &access.Access{TLSClients: map[string]string{}}
	for _, name := range o.clients {
		clients.TLSClients[name] = "database"
	}
	if len(o.clients) == 0 {
		return nil, usageError("--tls-client: nobody could connect")
	}
	server, err := o.files.Config(log)
	if err != nil {
		return nil, err
	}
	relay.Admit = gateway.AdmitTLS(server, clients)
	relay.Dial = func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	listening := net.ListenConfig{KeepAliveConfig: backend.KeepAlive}
	relay.Listener, err = listening.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return relay, nil
}
