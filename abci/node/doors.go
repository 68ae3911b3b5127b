package node

import (
	"errors"
	"fmt"
	"net"

	"github.com/chainify-db/chainify/abci/access"
	"github.com/chainify-db/chainify/abci/gateway"
)

// doors are the listeners, bound before CometBFT starts so that a taken socket is known at once.
type doors struct {
	socket *gateway.Socket
	http   net.Listener // nil: off
	api    *gateway.API
	// metrics and explorer are nil when they are off.
	metrics  net.Listener
	explorer *explorerDoor
}

func (n *node) openDoors() (*doors, error) {
	c := n.opt.Config
	mode, err := c.SocketMode()
	if err != nil {
		return nil, err
	}
	uids, err := c.AllowedUIDs()
	if err != nil {
		return nil, err
	}
	d := &doors{}
	d.socket, err = gateway.ListenSocket(gateway.SocketOptions{
		Path: n.opt.Home.Path(c.Clients.Socket), Mode: mode, UIDs: uids, ConnectionsMax: c.Clients.ConnectionsMax,
		RequestsMax: c.Clients.RequestsMax, Log: n.log.With("part", "socket"),
	}, &gateway.Handler{Gateway: n.gateway, Status: n.status, Order: n.order.Broadcast, Registry: n.registryResponse, Clients: n.clients, Evidence: n.evidence, Rejoin: n.rejoin, GiveUp: n.giveUp})
	if err != nil {
		return nil, err
	}
	if c.HTTP.Listen != "" {
		if d.api, err = n.httpAPI(); err == nil {
			d.http, err = net.Listen("tcp", c.HTTP.Listen)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("http: %w", err), d.close())
		}
	}
	if c.Metrics.Listen != "" {
		if d.metrics, err = net.Listen("tcp", c.Metrics.Listen); err != nil {
			return nil, errors.Join(fmt.Errorf("metrics: %w", err), d.close())
		}
	}
	if d.explorer, err = n.openExplorer(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// close closes doors that were never served: serving closes them, too.
func (d *doors) close() error {
	err := d.socket.Close()
	if d.http != nil {
		err = errors.Join(err, d.http.Close())
	}
	if d.metrics != nil {
		err = errors.Join(err, d.metrics.Close())
	}
	return errors.Join(err, d.explorer.close())
}

// httpAPI is the HTTP interface, refused beyond loopback when there is nobody whom it would answer.
func (n *node) httpAPI() (*gateway.API, error) {
	c, log := n.opt.Config.HTTP, n.log.With("part", "http")
	api := &gateway.API{
		Gateway: n.gateway, Status: n.status, Source: n.app, OpenReads: c.Loopback(), Limits: c.Limits(), Log: log,
		Access: &access.Access{TLSClients: c.TLSClients},
	}
	var err error
	if c.TokensFile != "" {
		if api.Access.Tokens, err = access.OpenTokens(n.opt.Home.Path(c.TokensFile)); err != nil {
			return nil, err
		}
	}
	if c.TLSRevokedFile != "" {
		if api.Access.Revoked, err = access.OpenRevoked(n.opt.Home.Path(c.TLSRevokedFile)); err != nil {
			return nil, fmt.Errorf("http.tls_revoked_file: %w", err)
		}
	}
	if files, ok := c.TLS(n.opt.Home); ok {
		if api.TLS, err = files.Config(log); err != nil {
			return nil, err
		}
	}
	somebody, err := api.Access.Any()
	if err == nil && !somebody && !c.Loopback() {
		err = fmt.Errorf("%s is not on loopback, and there is neither a token nor a TLS client: make one with \"chainify client token add\"", c.Listen)
	}
	return api, err
}
