package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// changeFile is a proposal or, with a signature, an organisation's approval. Only change counts;
// the readable fields are for people.
type changeFile struct {
	ChainID         string   `json:"chain_id"`
	Sequence        uint64   `json:"sequence"`
	EffectiveHeight uint64   `json:"effective_height,omitempty"`
	Actions         []string `json:"actions"`
	Change          []byte   `json:"change"`
	Organisation    string   `json:"organisation,omitempty"`
	Signature       []byte   `json:"signature,omitempty"`
}

func newGovernance() *cobra.Command {
	cmd := group("governance", "Change organisations, keys, and the numbers that must agree",
		`governance changes the registry in a running network: organisations, their keys, how many of them must report the same
effects, how many must approve such changes. One operator proposes a change and sends the file to the others. Each looks at it,
signs, and sends the approval back. Anybody submits the approvals. More than two thirds of the organisations with a database must
approve, unless a change said otherwise. "chainify org" proposes organisations and keys.`)
	cmd.AddCommand(newPropose(), newWithdraw(), newSign(), newGovernanceSubmit(), newGovernanceStatus(), newGovernanceRecord())
	return cmd
}

// group is a command that only has others below it.
func group(use, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long + "\n\n" + exitHelp, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.Help(); err != nil {
				return err
			}
			return &exitError{code: exitUsage}
		},
	}
}

// proposal makes the file of a change of the registry as it stands.
type proposal struct {
	target
	height uint64
}

func (p *proposal) flags(cmd *cobra.Command) {
	p.target.flags(cmd)
	numberFlag(cmd, &p.height, "from-height", "order height before which the change is not in force; left out: as soon as it can be")
}

// print asks the node how things stand, checks that the change is possible, and prints its file.
func (p *proposal) print(cmd *cobra.Command, actions ...*wire.GovernanceAction) error {
	registry, err := p.registry(cmd.Context())
	if err != nil {
		return err
	}
	return p.printFor(cmd, registry, actions...)
}

func (p *proposal) printFor(cmd *cobra.Command, registry *wire.RegistryResponse, actions ...*wire.GovernanceAction) error {
	if registry.Waiting != nil {
		return fmt.Errorf("change %d waits to come into force; propose again when it is (chainify governance status), or withdraw it (chainify governance withdraw)", registry.Waiting.Sequence)
	}
	return printChange(cmd, registry, &wire.GovernanceChange{
		ChainId: registry.ChainId, Sequence: registry.Changes + 1, EffectiveHeight: p.height, Actions: actions,
	})
}

// printChange prints the file of a change, if the registry can be changed so.
func printChange(cmd *cobra.Command, registry *wire.RegistryResponse, change *wire.GovernanceChange) error {
	raw := wire.Encode(change)
	if _, err := wire.DecodeGovernanceChange(raw); err != nil {
		return usageError("%w", err)
	}
	current, err := openRegistry(registry)
	if err != nil {
		return err
	}
	if err := current.CheckChange(change); err != nil {
		return fmt.Errorf("the registry cannot be changed so: %w", err)
	}
	return printJSON(cmd.OutOrStdout(), fileOf(change, raw))
}

func (t *target) registry(ctx context.Context) (*wire.RegistryResponse, error) {
	return asked(ctx, t, (*gateway.Client).Registry)
}

// openRegistry makes a registry of a node's answer.
func openRegistry(r *wire.RegistryResponse) (*order.Registry, error) {
	record := order.RegistryRecord{ChainID: r.ChainId, Changes: r.Changes}
	if r.ProtocolVersion > 1 {
		record.Parameters.ProtocolVersion = wire.Protocol(r.ProtocolVersion)
	}
	if !r.DefaultConsent {
		record.Consent = int(r.Consent)
	}
	if !r.DefaultApprovals {
		record.Approvals = int(r.Approvals)
	}
	for _, m := range r.Organisations {
		o := order.Organisation{Name: m.Organisation, GatewayKey: m.GatewayKey, OrderingOnly: m.OrderingOnly}
		for _, v := range m.Validators {
			o.Validators = append(o.Validators, order.Validator{Key: v.Key, Power: int64(v.Power)})
		}
		record.Organisations = append(record.Organisations, o)
	}
	return record.Open()
}

func fileOf(change *wire.GovernanceChange, raw []byte) changeFile {
	return changeFile{
		ChainID: change.ChainId, Sequence: change.Sequence, EffectiveHeight: change.EffectiveHeight,
		Actions: describeActions(change.Actions), Change: raw,
	}
}

// describeActions says in words what a change does.
func describeActions(actions []*wire.GovernanceAction) []string {
	out := make([]string, len(actions))
	for i, action := range actions {
		switch a := action.Body.(type) {
		case *wire.GovernanceAction_Consent:
			out[i] = "consent " + count(a.Consent)
		case *wire.GovernanceAction_Approvals:
			out[i] = "approvals " + count(a.Approvals)
		case *wire.GovernanceAction_Add:
			out[i] = fmt.Sprintf("add organisation %s with gateway key %x and %s", a.Add.Organisation, a.Add.GatewayKey, plural(len(a.Add.Validators), "validator"))
			if a.Add.OrderingOnly {
				out[i] += ", which only orders"
			}
		case *wire.GovernanceAction_Remove:
			out[i] = "remove organisation " + a.Remove
		case *wire.GovernanceAction_GatewayKey:
			out[i] = fmt.Sprintf("gateway key of %s: %x", a.GatewayKey.Organisation, a.GatewayKey.Key)
		case *wire.GovernanceAction_Validator:
			v := a.Validator.Validator
			if out[i] = fmt.Sprintf("validator %x of %s: voting power %d", v.Key, a.Validator.Organisation, v.Power); v.Power == 0 {
				out[i] = fmt.Sprintf("remove validator %x of %s", v.Key, a.Validator.Organisation)
			}
		case *wire.GovernanceAction_OrderingOnly:
			if out[i] = a.OrderingOnly.Organisation + " votes on effects"; a.OrderingOnly.Only {
				out[i] = a.OrderingOnly.Organisation + " only orders"
			}
		case *wire.GovernanceAction_BlockTimes:
			out[i] = "a block may run for " + blockTimes(a.BlockTimes)
		case *wire.GovernanceAction_BlockShares:
			out[i] = "a block accepts " + blockShares(a.BlockShares)
		case *wire.GovernanceAction_SnapshotEvery:
			out[i] = "snapshots of the order: " + snapshotsEvery(a.SnapshotEvery)
		case *wire.GovernanceAction_ProtocolVersion:
			out[i] = fmt.Sprintf("version %d of the protocol", a.ProtocolVersion)
		case *wire.GovernanceAction_Withdraw:
			out[i] = fmt.Sprintf("withdraw the change that waits, with SHA-256 %x", a.Withdraw)
		}
	}
	return out
}

func count(n uint32) string {
	if n == 0 {
		return "by the number of organisations: more than two thirds"
	}
	return fmt.Sprint(n)
}

// blockTimes says how long a block may run.
func blockTimes(t *wire.BlockTimes) string {
	ms := func(n uint32, otherwise int) string {
		if n == 0 {
			return (time.Duration(otherwise) * time.Millisecond).String() + " (the default)"
		}
		return (time.Duration(n) * time.Millisecond).String()
	}
	return ms(t.GetStatements(), order.BlockTimeMaxMS) + ", its DEPLOY transactions for " + ms(t.GetDeploys(), order.DeployTimeMaxMS)
}

// timesAction keeps what is not given as it is.
func timesAction(cmd *cobra.Command, now *wire.BlockTimes, times config.Times) *wire.GovernanceAction {
	t := &wire.BlockTimes{Statements: now.GetStatements(), Deploys: now.GetDeploys()}
	if cmd.Flags().Changed("block-time-max") {
		t.Statements = uint32(min(times.Block.Milliseconds(), math.MaxUint32))
	}
	if cmd.Flags().Changed("deploy-time-max") {
		t.Deploys = uint32(min(times.Deploy.Milliseconds(), math.MaxUint32))
	}
	return &wire.GovernanceAction{Body: &wire.GovernanceAction_BlockTimes{BlockTimes: t}}
}

func newPropose() *cobra.Command {
	var p proposal
	var times config.Times
	var shares config.Shares
	var consent, approvals, snapshotEvery, protocol uint32
	var power []string
	var orderingOnly, votes []string
	cmd := &cobra.Command{
		Use:   "propose [--home DIR | --socket PATH] CHANGES...",
		Short: "Propose a change, for the others to sign",
		Long: `propose prints a change of the registry, checked against the registry as it stands. All changes given are made together.
It takes effect once enough organisations have signed the file and somebody has submitted the approvals.`,
		Example: `  chainify governance propose --home /var/lib/chainify --consent 4 > change.json
  chainify governance propose --home /var/lib/chainify --power acme:20 --power bolt:20 > change.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var actions []*wire.GovernanceAction
			actions = append(actions, given(cmd, "consent", &wire.GovernanceAction{Body: &wire.GovernanceAction_Consent{Consent: consent}})...)
			actions = append(actions, given(cmd, "approvals", &wire.GovernanceAction{Body: &wire.GovernanceAction_Approvals{Approvals: approvals}})...)
			for i, names := range [][]string{votes, orderingOnly} {
				for _, name := range names {
					actions = append(actions, &wire.GovernanceAction{Body: &wire.GovernanceAction_OrderingOnly{
						OrderingOnly: &wire.OrderingOnly{Organisation: name, Only: i == 1},
					}})
				}
			}
			registry, err := p.registry(cmd.Context())
			if err != nil {
				return err
			}
			for _, text := range power {
				more, err := powerAction(registry, text)
				if err != nil {
					return err
				}
				actions = append(actions, more)
			}
			if cmd.Flags().Changed("block-time-max") || cmd.Flags().Changed("deploy-time-max") {
				if times.Block < 0 || times.Deploy < 0 {
					return usageError("--block-time-max and --deploy-time-max must not be negative")
				}
				actions = append(actions, timesAction(cmd, registry.BlockTimes, times))
			}
			if more := sharesAction(cmd, registry.BlockShares, shares); more != nil {
				actions = append(actions, more)
			}
			actions = append(actions, given(cmd, snapshotEveryFlag, &wire.GovernanceAction{Body: &wire.GovernanceAction_SnapshotEvery{SnapshotEvery: snapshotEvery}})...)
			actions = append(actions, given(cmd, protocolFlag, &wire.GovernanceAction{Body: &wire.GovernanceAction_ProtocolVersion{ProtocolVersion: protocol}})...)
			if len(actions) == 0 {
				return usageError("nothing to change: one of --consent, --approvals, --power, --ordering-only, --votes, --block-time-max, --deploy-time-max, --block-client-max, --block-organisation-max, --block-keys-max, --snapshot-every and --protocol-version is needed")
			}
			return p.printFor(cmd, registry, actions...)
		},
	}
	p.flags(cmd)
	numberFlag(cmd, &consent, "consent", "how many organisations must report the same effects; 0: more than two thirds")
	numberFlag(cmd, &approvals, "approvals", "how many organisations must approve a change, more than half of them; 0: more than two thirds")
	cmd.Flags().StringArrayVar(&power, "power", nil, "ORGANISATION:POWER, voting power in the order of an organisation with one validator")
	cmd.Flags().StringArrayVar(&orderingOnly, "ordering-only", nil, "an organisation that only orders from then on")
	cmd.Flags().StringArrayVar(&votes, "votes", nil, "an organisation that only orders and votes on effects from then on")
	timesFlags(cmd, &times)
	sharesFlags(cmd, &shares)
	numberFlag(cmd, &snapshotEvery, snapshotEveryFlag, "order blocks from one snapshot of the order to the next, by which nodes join; 0: none")
	numberFlag(cmd, &protocol, protocolFlag, "version of the protocol from --from-height on, one more than that in force; alone in its change")
	return cmd
}

// given is an action if its flag is there.
func given(cmd *cobra.Command, flag string, action *wire.GovernanceAction) []*wire.GovernanceAction {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return []*wire.GovernanceAction{action}
}

// protocolFlag is that of the version of the protocol.
const protocolFlag = "protocol-version"

// snapshotsEvery says how often the state of the order is kept.
func snapshotsEvery(blocks uint32) string {
	if blocks == 0 {
		return "none"
	}
	return fmt.Sprintf("every %d order blocks", blocks)
}

func newWithdraw() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "withdraw [--home DIR | --socket PATH]",
		Short: "Propose to withdraw the change that waits, for the others to sign",
		Long: `withdraw prints a change that withdraws the one that was accepted and waits to come into force. It needs the approvals that any
change needs, and is signed and submitted like any. Of a version of the protocol fewer are enough: so many that those left are too
few to accept one. It comes too late when the change's validators are announced, two blocks before it is in force: then propose
the opposite. The approvals of a withdrawn change do not count any more.`,
		Example: `  chainify governance withdraw --home /var/lib/chainify > withdrawal.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			registry, err := t.registry(cmd.Context())
			if err != nil {
				return err
			}
			if registry.Waiting == nil {
				return errors.New("no change waits (chainify governance status)")
			}
			return printChange(cmd, registry, withdrawal(registry.Waiting))
		},
	}
	t.flags(cmd)
	return cmd
}

// withdrawal is the change that withdraws another one.
func withdrawal(waiting *wire.GovernanceChange) *wire.GovernanceChange {
	hash := sha256.Sum256(wire.Encode(waiting))
	return &wire.GovernanceChange{ChainId: waiting.ChainId, Sequence: waiting.Sequence + 1, Actions: []*wire.GovernanceAction{
		{Body: &wire.GovernanceAction_Withdraw{Withdraw: hash[:]}},
	}}
}

func powerAction(registry *wire.RegistryResponse, text string) (*wire.GovernanceAction, error) {
	name, value, _ := strings.Cut(text, ":")
	power, err := parseNumber(value, wire.ValidatorPowerMax)
	if err != nil || power == 0 {
		return nil, usageError("--power: %q is not ORGANISATION:POWER, the power 1 to %d in decimal digits", text, uint64(wire.ValidatorPowerMax))
	}
	m, err := memberOf(registry, name)
	if err != nil {
		return nil, err
	}
	if len(m.Validators) != 1 {
		return nil, fmt.Errorf("organisation %q has %d validators, --power is for those with one", name, len(m.Validators))
	}
	return validatorAction(name, m.Validators[0].Key, power), nil
}

func validatorAction(organisation string, key []byte, power uint64) *wire.GovernanceAction {
	return &wire.GovernanceAction{Body: &wire.GovernanceAction_Validator{Validator: &wire.MemberValidator{
		Organisation: organisation, Validator: &wire.ValidatorPower{Key: key, Power: power},
	}}}
}

func memberOf(registry *wire.RegistryResponse, name string) (*wire.Member, error) {
	for _, m := range registry.Organisations {
		if m.Organisation == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("organisation %q is not in the registry", name)
}

func newSign() *cobra.Command {
	var home string
	cmd := &cobra.Command{
		Use:   "sign [--home DIR] CHANGE.json",
		Short: "Approve a change with this organisation's gateway key",
		Long: `sign describes the change on standard error, and prints this organisation's approval of it. The node must run: it knows the
gateway key that counts.`,
		Example: `  chainify governance sign --home /var/lib/chainify change.json > acme.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, change, err := readChange(args[0])
			if err != nil {
				return err
			}
			key, m, registry, err := (&target{home: home}).ownGatewayKey(cmd.Context())
			if err != nil {
				return err
			}
			if change.ChainId != registry.ChainId {
				return fmt.Errorf("%s is for chain %q, this node's is %q", args[0], change.ChainId, registry.ChainId)
			}
			if v := change.ProtocolVersion(); v > registry.ProtocolKnown {
				return fmt.Errorf("%s brings version %d of the protocol, and the program of this node knows versions up to %d: install a release that knows it on all nodes of the organisation, then sign", args[0], v, registry.ProtocolKnown)
			}
			out := fileOf(change, wire.Encode(change))
			said := out.Actions
			if change.Withdraws() != nil {
				if registry.Waiting == nil || !proto.Equal(change, withdrawal(registry.Waiting)) {
					return fmt.Errorf("%s withdraws another change than waits (chainify governance status)", args[0])
				}
				said = append(said, describeActions(registry.Waiting.Actions)...)
			}
			for _, line := range said {
				fmt.Fprintln(cmd.ErrOrStderr(), line)
			}
			approval, err := wire.Approve(key, m.Organisation, change.ChainId, out.Change)
			if err != nil {
				return err
			}
			out.Organisation, out.Signature = m.Organisation, approval.Signature
			return printJSON(cmd.OutOrStdout(), out)
		},
	}
	homeFlag(cmd, &home)
	return cmd
}

// ownGatewayKey finds the gateway key of the home that counts for its organisation.
func (t *target) ownGatewayKey(ctx context.Context) (crypto.Signer, *wire.Member, *wire.RegistryResponse, error) {
	c, err := config.Load(t.home)
	if err != nil {
		return nil, nil, nil, err
	}
	registry, err := t.registry(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := memberOf(registry, c.Organisation)
	if err != nil {
		return nil, nil, nil, err
	}
	keys, err := config.Home(t.home).GatewayKeys()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, key := range keys {
		if string(m.GatewayKey) == string(key.Public().(ed25519.PublicKey)) {
			return key, m, registry, nil
		}
	}
	return nil, nil, nil, fmt.Errorf("no gateway key of %s is that of %q in the registry", t.home, c.Organisation)
}

func newGovernanceSubmit() *cobra.Command {
	var t target
	cmd := &cobra.Command{
		Use:   "submit [--home DIR | --socket PATH] APPROVAL.json...",
		Short: "Hand an approved change to the order",
		Long: `submit puts the approvals of one change together and hands them to the order. "chainify governance status" shows when it is
in force. Anybody may submit; only the signatures count.`,
		Example: `  chainify governance submit --home /var/lib/chainify acme.json bolt.json cargo.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			change, err := readApprovals(files)
			if err != nil {
				return err
			}
			return t.ask(cmd.Context(), func(ctx context.Context, c *gateway.Client) error { return c.Govern(ctx, change) })
		},
	}
	t.flags(cmd)
	return cmd
}

func readChange(file string) (*changeFile, *wire.GovernanceChange, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	var f changeFile
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	change, err := wire.DecodeGovernanceChange(f.Change)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return &f, change, nil
}

// readApprovals puts approvals of the same change together, by organisation.
func readApprovals(files []string) (*wire.SignedGovernanceChange, error) {
	signed := &wire.SignedGovernanceChange{}
	for _, file := range files {
		f, _, err := readChange(file)
		switch {
		case err != nil:
			return nil, err
		case len(f.Signature) == 0:
			return nil, fmt.Errorf("%s has no signature: every organisation signs it with \"chainify governance sign\"", file)
		case signed.Change != nil && string(signed.Change) != string(f.Change):
			return nil, fmt.Errorf("%s approves another change than %s", file, files[0])
		case slices.ContainsFunc(signed.Approvals, func(a *wire.Approval) bool { return a.Organisation == f.Organisation }):
			return nil, fmt.Errorf("%s is a second approval of organisation %q", file, f.Organisation)
		}
		signed.Change = f.Change
		signed.Approvals = append(signed.Approvals, &wire.Approval{Organisation: f.Organisation, Signature: f.Signature})
	}
	slices.SortFunc(signed.Approvals, func(a, b *wire.Approval) int { return strings.Compare(a.Organisation, b.Organisation) })
	return signed, nil
}

// governanceStatus is what "chainify governance status --json" prints.
type governanceStatus struct {
	ChainID       string `json:"chain_id"`
	Changes       uint64 `json:"changes"` // in force
	Organisations int    `json:"organisations"`
	Consent       uint32 `json:"consent"`
	Approvals     uint32 `json:"approvals"`
	BlockTimeMS   uint32 `json:"block_time_max_ms"`
	DeployTimeMS  uint32 `json:"deploy_time_max_ms"`
	ClientMax     uint32 `json:"block_client_max"` // 0: as many as a block holds
	ShareMax      uint32 `json:"block_organisation_max"`
	KeysMax       uint32 `json:"block_keys_max"`
	SnapshotEvery uint32 `json:"snapshot_every"` // order blocks; 0: no snapshots
	Protocol      uint32 `json:"protocol_version"`
	ProtocolKnown uint32 `json:"protocol_known"` // the newest that the node's program knows
	Waiting       any    `json:"waiting"`        // a changeFile, or null
}

func newGovernanceStatus() *cobra.Command {
	var t target
	var asJSON forMachines
	cmd := &cobra.Command{
		Use:     "status [--home DIR | --socket PATH]",
		Short:   "Show the numbers that must agree and approve, and the change that waits",
		Example: `  chainify governance status --home /var/lib/chainify`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := t.registry(cmd.Context())
			if err != nil {
				return err
			}
			current, err := openRegistry(r)
			if err != nil {
				return errors.Join(errors.New("the node's answer is no registry"), err)
			}
			s := governanceStatus{r.ChainId, r.Changes, len(current.Organisations()), r.Consent, r.Approvals, r.BlockTimes.GetStatements(), r.BlockTimes.GetDeploys(), r.BlockShares.GetClient(), r.BlockShares.GetOrganisation(), r.BlockShares.GetKeys(), r.SnapshotEvery, r.ProtocolVersion, r.ProtocolKnown, nil}
			if r.Waiting != nil {
				s.Waiting = fileOf(r.Waiting, wire.Encode(r.Waiting))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "changes in force  %d\nconsent           %d of %s\napprovals         %d\na block's time    %s\na block accepts   %s\nsnapshots         %s\nprotocol          %s\n",
				s.Changes, s.Consent, plural(s.Organisations, "organisation"), s.Approvals, blockTimes(r.BlockTimes), blockShares(r.BlockShares), snapshotsEvery(r.SnapshotEvery), protocolOf(r.ProtocolVersion, r.ProtocolKnown))
			if r.Waiting != nil {
				fmt.Fprintf(out, "waiting           change %d", r.Waiting.Sequence)
				if r.Waiting.EffectiveHeight > 0 {
					fmt.Fprintf(out, ", from height %d", r.Waiting.EffectiveHeight)
				}
				fmt.Fprintln(out)
				for _, line := range describeActions(r.Waiting.Actions) {
					fmt.Fprintf(out, "                  %s\n", line)
				}
			}
			return nil
		},
	}
	t.flags(cmd)
	asJSON.flag(cmd)
	return cmd
}
