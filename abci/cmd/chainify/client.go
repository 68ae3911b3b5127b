package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

func newClient() *cobra.Command {
	cmd := group("client", "Keys with which clients sign for themselves, and tokens",
		`client registers keys of this organisation's clients. A transaction signed with such a key ("chainify submit --key") shows its
author to every organisation, even if the gateway is gone. It runs as the role that the key is registered for, and no other. For a
client without a key, the organisation's gateway vouches for the role. Clients that come over HTTP show it a token
("chainify client token").`)
	cmd.AddCommand(newClientKey(), newClientAdd(), newClientRemove(), newClientList(), newClientSign(), newClientToken())
	return cmd
}

func newClientKey() *cobra.Command {
	return &cobra.Command{
		Use:     "key FILE",
		Short:   "Make a client's key and print its public half",
		Example: `  chainify client key clerk.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := config.NewClientKey(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%x\n", public)
			return err
		},
	}
}

func newClientAdd() *cobra.Command {
	var home, role string
	cmd := &cobra.Command{
		Use:   "add [--home DIR] --role ROLE PUBLICKEY",
		Short: "Register a client's key for a role",
		Long: `add registers a key for a role of the ledger. This organisation's gateway key signs the change; no other organisation has
to agree. A key that is registered already is for the new role from then on. The command returns when a block holds the change.`,
		Example: `  chainify client add --home /var/lib/chainify --role clerk 5f1c…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wire.CheckRole(role); err != nil {
				return usageError("--%w", err)
			}
			return changeClient(cmd.Context(), home, args[0], role)
		},
	}
	homeFlag(cmd, &home, "role")
	cmd.Flags().StringVar(&role, "role", "", "the role that the key may sign for (required)")
	return cmd
}

func newClientRemove() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:     "remove [--home DIR] PUBLICKEY",
		Short:   "Take a client's key away",
		Long:    `remove takes a client's key away. The order accepts no more transactions signed with it. Earlier ones stay on the ledger, with the key. The command returns when a block holds the change.`,
		Example: `  chainify client remove --home /var/lib/chainify 5f1c…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeClient(cmd.Context(), home, args[0], "")
		},
	}
	homeFlag(cmd, &home)
	return cmd
}

// clientChangeLimit bounds how long a change of clients may take to be in a block, and
// clientChangeLook is how often the node is asked.
const (
	clientChangeLimit = 30 * time.Second
	clientChangeLook  = 50 * time.Millisecond
)

// changeClient signs a change with the gateway key that counts, hands it to the order, and returns
// when a block holds it. Until then the node's mempool alone may have it, and a node that ends
// loses its mempool.
func changeClient(ctx context.Context, home, publicKey, role string) error {
	key, err := hex.DecodeString(publicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return usageError("%q is not a public key of %d hexadecimal digits", publicKey, 2*ed25519.PublicKeySize)
	}
	t := &target{home: home}
	gatewayKey, m, registry, err := t.ownGatewayKey(ctx)
	if err != nil {
		return err
	}
	change := &wire.ClientChange{ChainId: registry.ChainId, Organisation: m.Organisation, Key: key, Role: role}
	err = t.ask(ctx, func(ctx context.Context, c *gateway.Client) error {
		known, err := c.Clients(ctx)
		if err != nil {
			return err
		}
		change.Sequence = known.Changes + 1
		signed, err := wire.SignClientChange(gatewayKey, change)
		if err != nil {
			return err
		}
		return c.ChangeClient(ctx, signed)
	})
	if err != nil {
		return err
	}
	return t.waitForClientChange(ctx, change)
}

// waitForClientChange returns when a block holds the change.
func (t *target) waitForClientChange(ctx context.Context, change *wire.ClientChange) error {
	until := time.Now().Add(clientChangeLimit)
	for {
		var known *wire.ClientsResponse
		err := t.ask(ctx, func(ctx context.Context, c *gateway.Client) (err error) {
			known, err = c.Clients(ctx)
			return err
		})
		if err != nil {
			return err
		}
		if in, err := isIn(known, change); in || err != nil {
			return err
		}
		if time.Now().After(until) {
			return &exitError{exitUnreachable, fmt.Errorf("the node has the change, but no block holds it after %s; \"chainify client list\" shows when it counts", clientChangeLimit)}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(clientChangeLook):
		}
	}
}

// isIn tells whether a block holds the change, by the clients that are known. Of two changes with
// one number a block holds one, and the other is an error.
func isIn(known *wire.ClientsResponse, change *wire.ClientChange) (bool, error) {
	if known.Changes < change.Sequence {
		return false, nil
	}
	role := ""
	for _, client := range known.Clients {
		if bytes.Equal(client.Key, change.Key) {
			role = client.Role
		}
	}
	if role != change.Role {
		return false, fmt.Errorf("another change of clients took the place of this one, number %d: look at \"chainify client list\" and try again", change.Sequence)
	}
	return true, nil
}

// clientJSON is a client in "chainify client list --json".
type clientJSON struct {
	Key  string `json:"key"`
	Role string `json:"role"`
}

func newClientList() *cobra.Command {
	var t target
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:     "list [--home DIR | --socket PATH]",
		Short:   "Show the keys of this organisation's clients",
		Example: `  chainify client list --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := asked(cmd.Context(), &t, (*gateway.Client).Clients)
			if err != nil {
				return err
			}
			list := []clientJSON{}
			for _, client := range r.GetClients() {
				list = append(list, clientJSON{hex.EncodeToString(client.Key), client.Role})
			}
			return asJSON.print(cmd, list, func(out io.Writer) {
				for _, c := range list {
					fmt.Fprintf(out, "%s  %s\n", c.Key, c.Role)
				}
			})
		},
	}
	t.flags(cmd)
	asJSON.flag(cmd)
	return cmd
}
