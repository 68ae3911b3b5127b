package config

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/files"
	"github.com/chainify-db/chainify/abci/wire"
)

// Part is an organisation's contribution to the genesis: public keys only.
type Part struct {
	Organisation string `json:"organisation"`
	GatewayKey   []byte `json:"gateway_key"`
	ValidatorKey []byte `json:"validator_key"`
	Power        int64  `json:"power"`
	// OrderingOnly: the organisation has no database and no say in the effects.
	OrderingOnly bool `json:"ordering_only,omitempty"`
	// Node is node-id@host:port, for the others' peers; it is not part of the genesis.
	Node string `json:"node"`
	// Signatures of all of it by both keys: whose keys they are made this part, and holds what they
	// are public keys of.
	GatewaySignature   []byte `json:"gateway_signature"`
	ValidatorSignature []byte `json:"validator_signature"`
}

// signBytes returns the bytes that both keys of a part sign (spec/formats.md, "Genesis part").
func (p Part) signBytes() []byte {
	orderingOnly := byte(0)
	if p.OrderingOnly {
		orderingOnly = 1
	}
	out := []byte("chainify/genesis-part/1")
	for _, field := range [][]byte{[]byte(p.Organisation), p.GatewayKey, p.ValidatorKey, []byte(p.Node)} {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(field))), field...)
	}
	return append(binary.BigEndian.AppendUint64(out, uint64(p.Power)), orderingOnly)
}

const (
	blockBytesMax = 4 << 20 // CometBFT's default is 21 MiB; smaller blocks travel and execute in time
	powerDefault  = 10
	powerMax      = 1_000_000
)

// SignPart signs a part, which is to be the home's own, with its keys.
func (h Home) SignPart(p Part) (Part, error) {
	gatewayKey, validator, err := h.partKeys()
	if err != nil {
		return Part{}, err
	}
	if p.GatewaySignature, err = wire.Sign(gatewayKey, p.signBytes()); err != nil {
		return Part{}, err
	}
	p.ValidatorSignature, err = wire.Sign(validator, p.signBytes())
	return p, err
}

// Part makes the home's part of a genesis, not signed yet. address is where other nodes reach it,
// host:port.
func (h Home) Part(organisation, address string) (Part, error) {
	gatewayKey, validator, err := h.partKeys()
	if err != nil {
		return Part{}, err
	}
	nodeKey, err := h.NodeKey()
	if err != nil {
		return Part{}, err
	}
	return Part{
		Organisation: organisation, GatewayKey: gatewayKey.Public().(ed25519.PublicKey), Power: powerDefault,
		ValidatorKey: validator.Public().(ed25519.PublicKey), Node: string(nodeKey.ID()) + "@" + address,
	}, nil
}

// ParsePart reads a part as "chainify init" printed it, and nothing after it. Its signatures are
// those of the keys in it.
func ParsePart(text []byte) (Part, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var p Part
	if err := d.Decode(&p); err != nil {
		return Part{}, fmt.Errorf("genesis part: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Part{}, errors.New("genesis part: more text after its end")
	}
	if len(p.ValidatorKey) != ed25519.PublicKeySize {
		return Part{}, fmt.Errorf("genesis part: validator_key is %d bytes, want %d", len(p.ValidatorKey), ed25519.PublicKeySize)
	}
	if p.Power < 1 || p.Power > powerMax {
		return Part{}, fmt.Errorf("genesis part: power is %d, want 1 to %d", p.Power, powerMax)
	}
	for _, signed := range []struct {
		name           string
		key, signature []byte
	}{{"gateway", p.GatewayKey, p.GatewaySignature}, {"validator", p.ValidatorKey, p.ValidatorSignature}} {
		if !wire.VerifyVote(signed.key, p.signBytes(), signed.signature) {
			return Part{}, fmt.Errorf("genesis part: %s_signature is not that of %s_key: the part was changed, or is not of chainify init", signed.name, signed.name)
		}
	}
	return p, nil
}

// Founding holds the facts that the organisations agree on when they make a genesis.
type Founding struct {
	ChainID    string
	Time       time.Time
	Consent    int // 0: the default of the order
	Parameters order.Parameters
	Parts      []Part
}

// Times are how long a block may run: its SQL transactions, and those of kind DEPLOY. 0: the
// default.
type Times struct{ Block, Deploy time.Duration }

// Parameters are those of a genesis, all others at their defaults. Both times are in it: a genesis
// without them has the registry of 0.1.
func (t Times) Parameters() order.Parameters {
	return order.Parameters{
		BlockTimeMaxMS:  cmp.Or(int(t.Block.Milliseconds()), order.BlockTimeMaxMS),
		DeployTimeMaxMS: cmp.Or(int(t.Deploy.Milliseconds()), order.DeployTimeMaxMS),
	}
}

// Shares are how many transactions a block accepts of one client and of one organisation, and how
// many rows its EFFECTS transactions name. 0: as many as it holds.
type Shares struct{ Client, Organisation, Keys int }

// In sets them in the parameters of a genesis.
func (s Shares) In(p order.Parameters) order.Parameters {
	p.BlockClientMax, p.BlockOrganisationMax, p.BlockKeysMax = s.Client, s.Organisation, s.Keys
	return p
}

// Genesis makes CometBFT's genesis file. The same founding gives the same bytes. An organisation
// may have several parts, one for each of its validators; their gateway keys must be the same.
func (f Founding) Genesis() ([]byte, error) {
	if err := wire.CheckChainID(f.ChainID); err != nil {
		return nil, err
	}
	if len(f.Parts) == 0 {
		return nil, errors.New("genesis: no organisation")
	}
	state := order.Genesis{Consent: f.Consent, Parameters: f.Parameters}
	index := map[string]int{}
	founding := files.Founding{ChainID: f.ChainID, Time: f.Time, BlockBytesMax: blockBytesMax}
	for _, p := range f.Parts {
		i, known := index[p.Organisation]
		if !known {
			i = len(state.Organisations)
			index[p.Organisation] = i
			state.Organisations = append(state.Organisations, order.GenesisOrganisation{
				Name: p.Organisation, GatewayKey: p.GatewayKey, OrderingOnly: p.OrderingOnly,
			})
		}
		o := &state.Organisations[i]
		if !bytes.Equal(o.GatewayKey, p.GatewayKey) {
			return nil, fmt.Errorf("genesis: organisation %q has two gateway keys", p.Organisation)
		}
		if o.OrderingOnly != p.OrderingOnly {
			return nil, fmt.Errorf("genesis: organisation %q only orders in one of its parts and not in another", p.Organisation)
		}
		o.Validators = append(o.Validators, p.ValidatorKey)
		founding.Validators = append(founding.Validators, files.Validator{Name: p.Organisation, Key: p.ValidatorKey, Power: p.Power})
	}
	if err := state.Validate(); err != nil {
		return nil, fmt.Errorf("genesis: %w", err)
	}
	var err error
	if founding.AppState, err = json.Marshal(state); err != nil {
		return nil, fmt.Errorf("encode genesis: %w", err)
	}
	return founding.Encode()
}

// LoadGenesis reads and checks a home's genesis file.
func (h Home) LoadGenesis() (*files.Genesis, *order.Genesis, error) {
	doc, state, err := ReadGenesis(h.Genesis())
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w (put the consortium's genesis.json there)", err)
	}
	return doc, state, err
}

// Founded reads a home's genesis, and the registry that it founds.
func (h Home) Founded() (*files.Genesis, *order.Genesis, *order.Registry, error) {
	doc, state, err := h.LoadGenesis()
	if err != nil {
		return nil, nil, nil, err
	}
	validators := make([]order.Validator, len(doc.Validators))
	for i, v := range doc.Validators {
		validators[i] = order.Validator{Key: v.PubKey.Bytes(), Power: v.Power}
	}
	registry, err := order.NewRegistry(doc.ChainID, state, validators)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", h.Genesis(), err)
	}
	return doc, state, registry, nil
}

// ReadGenesis reads and checks a genesis file.
func ReadGenesis(path string) (*files.Genesis, *order.Genesis, error) {
	doc, err := files.ReadGenesis(path)
	if err != nil {
		return nil, nil, err
	}
	state, err := order.ParseGenesis(doc.AppState)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, state, nil
}
