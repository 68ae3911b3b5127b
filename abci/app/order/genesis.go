// Package order holds the order-level state of the ledger (registry, pending block, votes) and
// computes the change that an order block makes to it. It is pure, without I/O, clock or goroutine.
// Its results are a function of the ordered blocks alone (A1).
//
// Rules: spec/effect-consensus.md (after Schuhknecht, Sharma, Dittrich, Agrawal: ChainifyDB, CIDR
// 2021).
package order

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/chainify-db/chainify/abci/wire"
)

// Genesis is the app_state of CometBFT's genesis file: who takes part, and under which rules.
type Genesis struct {
	Organisations []GenesisOrganisation `json:"organisations"`
	// Consent is c, how many of the n organisations that vote on effects must report the same ones;
	// 0 means ⌊2n/3⌋+1, at least 2, at most n. Governance changes may replace it.
	Consent    int        `json:"consent"`
	Parameters Parameters `json:"parameters"`
}

// GenesisOrganisation is one organisation with its Ed25519 public keys (base64 in JSON).
type GenesisOrganisation struct {
	Name       string   `json:"name"`
	GatewayKey []byte   `json:"gateway_key"`
	Validators [][]byte `json:"validators"` // consensus keys of its validators; their powers are CometBFT's
	// OrderingOnly: it has no database. Its validators order; it casts no effect vote, counts not
	// in n and submits nothing.
	OrderingOnly bool `json:"ordering_only,omitempty"`
}

// Parameters are the bounds every organisation applies alike. 0 or absent means the default.
type Parameters struct {
	EffectRoundTimeoutMS int `json:"effect_round_timeout_ms"` // of round 0; round r takes r+1 times as long, at most a minute
	EffectRoundsMax      int `json:"effect_rounds_max"`       // the round after this one quarantines the whole block
	BlockTransactionsMax int `json:"block_transactions_max"`
	// BlockTimeMaxMS is how long the SQL transactions of a block may run together, a millisecond
	// more for each of them; DeployTimeMaxMS is the same for its DEPLOY transactions. In both,
	// rounds that ended otherwise than by stuck votes give as much again.
	BlockTimeMaxMS  int `json:"block_time_max_ms,omitempty"`
	DeployTimeMaxMS int `json:"deploy_time_max_ms,omitempty"`
	// BlockClientMax and BlockOrganisationMax are how many transactions of one client and of one
	// organisation a block accepts; 0: as many as the block holds.
	BlockClientMax       int `json:"block_client_max,omitempty"`
	BlockOrganisationMax int `json:"block_organisation_max,omitempty"`
	// BlockKeysMax is how many rows the EFFECTS transactions of a block name; 0: as many as it
	// holds.
	BlockKeysMax int `json:"block_keys_max,omitempty"`
	// SnapshotEvery is the number of order blocks from one snapshot of the state to the next; 0:
	// the AppHash commits to no snapshot, and no node joins by one.
	SnapshotEvery int `json:"snapshot_every,omitempty"`
	// ProtocolVersion is that of the protocol; 0: the first. A chain may begin with a later one.
	ProtocolVersion wire.Protocol `json:"protocol_version,omitempty"`
}

// Defaults and bounds of Parameters.
const (
	EffectRoundTimeoutMS    = 10_000
	EffectRoundTimeoutMSMax = 60_000
	EffectRoundsMax         = 3
	effectRoundsBound       = 100
	BlockTransactionsMax    = 10_000
	blockTransactionsBound  = wire.BlockTransactionsBound
	BlockTimeMaxMS          = 10_000
	blockTimeBoundMS        = wire.BlockTimeMSMax
	DeployTimeMaxMS         = 600_000
	deployTimeBoundMS       = wire.DeployTimeMSMax
	organisationsMax        = wire.OrganisationsMax
	SnapshotEvery           = 1_000 // what "chainify genesis" writes when nothing else is said
)

func (p Parameters) withDefaults() Parameters {
	if p.EffectRoundTimeoutMS == 0 {
		p.EffectRoundTimeoutMS = EffectRoundTimeoutMS
	}
	if p.EffectRoundsMax == 0 {
		p.EffectRoundsMax = EffectRoundsMax
	}
	if p.BlockTransactionsMax == 0 {
		p.BlockTransactionsMax = BlockTransactionsMax
	}
	if p.ofFirstRelease() {
		return p
	}
	return p.withTimes()
}

// ofFirstRelease tells the parameters of a chain that began with 0.1, or of one that could have: it
// sets nothing that came later. Such a registry is hashed without these.
func (p Parameters) ofFirstRelease() bool {
	first := Parameters{EffectRoundTimeoutMS: p.EffectRoundTimeoutMS, EffectRoundsMax: p.EffectRoundsMax, BlockTransactionsMax: p.BlockTransactionsMax}
	return p == first
}

// withTimes has the defaults for the time of a block.
func (p Parameters) withTimes() Parameters {
	if p.BlockTimeMaxMS == 0 {
		p.BlockTimeMaxMS = BlockTimeMaxMS
	}
	if p.DeployTimeMaxMS == 0 {
		p.DeployTimeMaxMS = DeployTimeMaxMS
	}
	return p
}

// ConsentOf returns c for n organisations where the genesis leaves it open.
func ConsentOf(n int) int { return min(max(2*n/3+1, 2), n) }

// ConsentIn returns c: as asked, or, for 0, as the genesis says.
func (g *Genesis) ConsentIn(asked int) int {
	if asked == 0 {
		asked = g.Consent
	}
	if asked == 0 {
		asked = ConsentOf(g.members().voters())
	}
	return asked
}

// ParseGenesis reads and checks an app_state. Unknown fields are errors: a misspelt bound must not
// become a default.
func ParseGenesis(appState []byte) (*Genesis, error) {
	decoder := json.NewDecoder(bytes.NewReader(appState))
	decoder.DisallowUnknownFields()
	g := &Genesis{}
	if err := decoder.Decode(g); err != nil {
		return nil, fmt.Errorf("read app_state: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read app_state: more text after its end")
	}
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("app_state.%w", err)
	}
	return g, nil
}

// Validate checks everything that can be checked without CometBFT's validators; the error starts
// with the field.
func (g *Genesis) Validate() error {
	if err := g.Parameters.validate(); err != nil {
		return fmt.Errorf("parameters.%w", err)
	}
	return g.members().validate()
}

// members is the record of the organisations and their consent; CometBFT's genesis knows the
// powers.
func (g *Genesis) members() RegistryRecord {
	record := RegistryRecord{Consent: g.Consent}
	for _, o := range g.Organisations {
		member := Organisation{Name: o.Name, GatewayKey: o.GatewayKey, OrderingOnly: o.OrderingOnly}
		for _, key := range o.Validators {
			member.Validators = append(member.Validators, Validator{Key: key})
		}
		record.Organisations = append(record.Organisations, member)
	}
	return record
}

// checkKey also refuses a key used twice: a gateway key that is a validator's would sign in two
// domains.
func checkKey(owners map[string]string, key []byte, field string) error {
	if len(key) != ed25519.PublicKeySize {
		return fmt.Errorf("%s: %d bytes, want an Ed25519 key of %d", field, len(key), ed25519.PublicKeySize)
	}
	return own(owners, "key "+string(key), field)
}

func own(owners map[string]string, what, field string) error {
	if other, taken := owners[what]; taken {
		return fmt.Errorf("%s: the same as %s", field, other)
	}
	owners[what] = field
	return nil
}

func (p Parameters) validate() error {
	for _, bound := range []struct {
		field      string
		value, max int
	}{
		{"effect_round_timeout_ms", p.EffectRoundTimeoutMS, EffectRoundTimeoutMSMax},
		{"effect_rounds_max", p.EffectRoundsMax, effectRoundsBound},
		{"block_transactions_max", p.BlockTransactionsMax, blockTransactionsBound},
		{"block_time_max_ms", p.BlockTimeMaxMS, blockTimeBoundMS},
		{"deploy_time_max_ms", p.DeployTimeMaxMS, deployTimeBoundMS},
		{"block_client_max", p.BlockClientMax, blockTransactionsBound},
		{"block_organisation_max", p.BlockOrganisationMax, blockTransactionsBound},
		{"block_keys_max", p.BlockKeysMax, blockTransactionsBound},
	} {
		if bound.value < 0 || bound.value > bound.max {
			return fmt.Errorf("%s: %d, want 1 to %d, or 0 for the default", bound.field, bound.value, bound.max)
		}
	}
	if n := p.SnapshotEvery; n != 0 && (n < wire.SnapshotEveryMin || n > wire.SnapshotEveryMax) {
		return fmt.Errorf("snapshot_every: %d, want %d to %d, or 0 for no snapshots", n, wire.SnapshotEveryMin, wire.SnapshotEveryMax)
	}
	if v := p.ProtocolVersion; v == 1 || v > wire.ProtocolVersionMax {
		return fmt.Errorf("protocol_version: %d, want 2 to %d, or 0 for the first", v, wire.ProtocolVersionMax)
	}
	return nil
}
