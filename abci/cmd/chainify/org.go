package main

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

func newOrg() *cobra.Command {
	cmd := group("org", "Organisations and their keys",
		`org lists the organisations, and proposes to add or remove one and to replace its keys. A proposal is a file that the organisations
sign with "chainify governance sign".`)
	cmd.AddCommand(newOrgList(), newOrgAdd(), newOrgRemove(), newRotateKey())
	return cmd
}

// organisationJSON is an organisation in "chainify org list --json".
type organisationJSON struct {
	Name         string          `json:"name"`
	GatewayKey   []byte          `json:"gateway_key"`
	OrderingOnly bool            `json:"ordering_only"`
	Validators   []validatorJSON `json:"validators"`
}

type validatorJSON struct {
	Key     []byte `json:"key"`
	Address string `json:"address"`
	Power   uint64 `json:"power"`
}

func newOrgList() *cobra.Command {
	var t target
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:     "list [--home DIR | --socket PATH]",
		Short:   "Show the organisations that take part, and their keys",
		Example: `  chainify org list --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := t.registry(cmd.Context())
			if err != nil {
				return err
			}
			list := []organisationJSON{}
			for _, m := range r.Organisations {
				o := organisationJSON{m.Organisation, m.GatewayKey, m.OrderingOnly, nil}
				for _, v := range m.Validators {
					o.Validators = append(o.Validators, validatorJSON{v.Key, fmt.Sprintf("%X", order.AddressOf(v.Key)), v.Power})
				}
				list = append(list, o)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			for _, o := range list {
				fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n  gateway key %x\n", o.Name, map[bool]string{true: " (only orders)"}[o.OrderingOnly], o.GatewayKey)
				for _, v := range o.Validators {
					fmt.Fprintf(cmd.OutOrStdout(), "  validator   %s, voting power %d\n", v.Address, v.Power)
				}
			}
			return nil
		},
	}
	t.flags(cmd)
	asJSON.flag(cmd)
	return cmd
}

func newOrgAdd() *cobra.Command {
	var p proposal
	cmd := &cobra.Command{
		Use:   "add [--home DIR | --socket PATH] PART.json",
		Short: "Propose to add an organisation",
		Long: `add proposes to add an organisation from the part that "chainify init" printed for it. Its node is let in when the change is
accepted. With the consortium's genesis.json and the others as peers, it follows the chain and executes it in its database.
It should have caught up before the change is in force (--from-height): from then on it counts.`,
		Example: `  chainify org add --home /var/lib/chainify echo.json > change.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			part, err := config.ParsePart(text)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return p.print(cmd, &wire.GovernanceAction{Body: &wire.GovernanceAction_Add{Add: &wire.Member{
				Organisation: part.Organisation, GatewayKey: part.GatewayKey, OrderingOnly: part.OrderingOnly,
				Validators: []*wire.ValidatorPower{{Key: part.ValidatorKey, Power: uint64(part.Power)}},
			}}})
		},
	}
	p.flags(cmd)
	return cmd
}

func newOrgRemove() *cobra.Command {
	var p proposal
	cmd := &cobra.Command{
		Use:   "remove [--home DIR | --socket PATH] ORGANISATION",
		Short: "Propose to remove an organisation",
		Long: `remove proposes to remove an organisation. Its transactions stay on the ledger and can be verified: the ledger keeps its keys with
the blocks they hold for. Its nodes are disconnected when the change is in force; take them from your peers then.`,
		Example: `  chainify org remove --home /var/lib/chainify echo > change.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.print(cmd, &wire.GovernanceAction{Body: &wire.GovernanceAction_Remove{Remove: args[0]}})
		},
	}
	p.flags(cmd)
	return cmd
}

func newRotateKey() *cobra.Command {
	var p proposal
	var home, keyHolder string
	var gatewayKey, validator, node bool
	cmd := &cobra.Command{
		Use:   "rotate-key [--home DIR] (--gateway | --validator | --node)...",
		Short: "Make new keys for this organisation and propose them",
		Long: `With --node, rotate-key makes another key for the node itself and prints its new id, for the others' peers. Nobody has to approve
that: it counts from the node's next start. Otherwise it makes a new gateway key, validator key, or both, in the home, beside
those that count. It prints the proposal to use them. The node changes over by itself at the block from which the change is in
force; then the files of the old keys can be deleted.

With a key holder (keys.holder of chainify.toml), make the new keys there first ("chainify-hsm new-key"). With --key-holder the
keys of a home give way to those of a key holder: set keys.holder and restart the node when the change is in force.`,
		Example: `  chainify org rotate-key --home /var/lib/chainify --gateway > change.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !gatewayKey && !validator && !node {
				return usageError("one of --gateway, --validator and --node is needed")
			}
			if node {
				id, err := config.Home(home).NewNodeKey()
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "node id %s from the next start; tell it to the others for their peers\n", id)
			}
			if !gatewayKey && !validator {
				return nil
			}
			c, err := config.Load(home)
			if err != nil {
				return err
			}
			p.home = home
			registry, err := p.registry(cmd.Context())
			if err != nil {
				return err
			}
			m, err := memberOf(registry, c.Organisation)
			if err != nil {
				return err
			}
			actions, err := newKeys(config.Home(home), keyHolder, m, gatewayKey, validator)
			if err != nil {
				return err
			}
			return p.printFor(cmd, registry, actions...)
		},
	}
	homeFlag(cmd, &home)
	numberFlag(cmd, &p.height, "from-height", "order height before which the change is not in force; left out: as soon as it can be")
	cmd.Flags().StringVar(&keyHolder, "key-holder", "", "unix:///PATH of a key holder whose keys take the place of those in the home")
	cmd.Flags().BoolVar(&gatewayKey, "gateway", false, "the key that vouches for this organisation's clients and approves changes")
	cmd.Flags().BoolVar(&validator, "validator", false, "the consensus key of the node, with which it orders and votes on effects")
	cmd.Flags().BoolVar(&node, "node", false, "the key that names the node among its peers")
	return cmd
}

// newKeys makes keys in the home and the actions that put them in the place of those that count.
func newKeys(home config.Home, keyHolder string, m *wire.Member, gatewayKey, validator bool) (actions []*wire.GovernanceAction, err error) {
	if gatewayKey {
		counts := func(key ed25519.PublicKey) bool { return bytes.Equal(key, m.GatewayKey) }
		next := home.NewGatewayKey
		if keyHolder != "" {
			next = func(counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
				return config.NextGatewayHeld(keyHolder, counts)
			}
		}
		key, err := next(counts)
		if err != nil {
			return nil, err
		}
		actions = append(actions, &wire.GovernanceAction{Body: &wire.GovernanceAction_GatewayKey{
			GatewayKey: &wire.GatewayKey{Organisation: m.Organisation, Key: key},
		}})
	}
	if !validator {
		return actions, nil
	}
	old, err := ownValidator(home, m)
	if err != nil {
		return nil, err
	}
	counts := func(key ed25519.PublicKey) bool {
		return slices.ContainsFunc(m.Validators, func(v *wire.ValidatorPower) bool { return bytes.Equal(v.Key, key) })
	}
	next := home.NewValidatorKey
	if keyHolder != "" {
		next = func(counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
			return config.NextValidatorHeld(keyHolder, counts)
		}
	}
	key, err := next(counts)
	if err != nil {
		return nil, err
	}
	return append(actions, validatorAction(m.Organisation, key, old.Power), validatorAction(m.Organisation, old.Key, 0)), nil
}

// ownValidator is the organisation's validator whose key is in this home.
func ownValidator(home config.Home, m *wire.Member) (*wire.ValidatorPower, error) {
	ids, err := home.ValidatorIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		own, err := home.ReadValidator(id)
		if err != nil {
			return nil, err
		}
		for _, v := range m.Validators {
			if string(v.Key) == string(own.Key.PubKey.Bytes()) {
				return v, nil
			}
		}
	}
	return nil, fmt.Errorf("no validator key of %s is one of %q in the registry", home, m.Organisation)
}
