package node

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	cmtcrypto "github.com/cometbft/cometbft/crypto"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// keys are those of the home. Which of them count says the registry, block by block: a home may
// hold the keys that take the place of others before they do. They are read again when the registry
// changes, so that no restart is needed.
type keys struct {
	home         config.Home
	organisation string
	nodeID       string
	registry     func() *order.Registry
	slots        bool        // as Home.OpenSigner takes it
	remote       *signer.Key // in place of the home's validator keys; nil: there is none
	// silent is why nothing may be signed; nil: it may. silence says so for one key and height.
	silent  func() error
	silence *silence
	next    func() int64     // the height that is decided next
	nobody  cmtcrypto.PubKey // of a key that is no validator's
	shown   string           // the vouch of a standby's home; empty: the keys of the home sign one
	log     *slog.Logger

	mu         sync.Mutex // guards all below
	of         wire.Hash  // hash of the registry they were looked up in
	gateway    ed25519.PrivateKey
	validator  *signer.Key
	validators map[string]*signer.Key // by id; each is read once, for it keeps what it signed last
	vouch      string                 // for this node, by the keys of the home
}

var _ types.PrivValidator = (*keys)(nil)

func newKeys(n *node, remote *signer.Key) (*keys, error) {
	home, c := n.opt.Home, n.opt.Config
	nodeKey, err := home.NodeKey()
	if err != nil {
		return nil, err
	}
	k := &keys{
		home: home, organisation: c.Organisation, nodeID: string(nodeKey.ID()), registry: n.registry, silent: n.newerProtocol, silence: n.silence, next: n.next, nobody: cmted25519.GenPrivKey().PubKey(), slots: c.Consensus.ExpressLane, remote: remote, log: n.log, validators: map[string]*signer.Key{},
	}
	if n.standby {
		if k.shown, err = home.Vouch(); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.read(n.registry())
}

func (k *keys) close() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.validators {
		err = errors.Join(err, v.Close())
	}
	return err
}

// check refuses a home whose keys are another organisation's.
func (k *keys) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if owner, known := k.registry().OrganisationOf(k.validator.Key.Address); known && owner != k.organisation {
		return fmt.Errorf("organisation %q of %s: the keys are those of %q", k.organisation, config.FileName, owner)
	}
	return nil
}

// read finds the keys that count in a registry. Called with mu held.
func (k *keys) read(registry *order.Registry) error {
	gateways, err := k.home.GatewayKeys()
	if err != nil {
		return err
	}
	ids, err := []string{""}, error(nil)
	if k.remote == nil {
		ids, err = k.home.ValidatorIDs()
	} else {
		k.validators[""] = k.remote
	}
	if err != nil {
		return err
	}
	var gateway ed25519.PrivateKey
	for _, key := range gateways {
		if public, known := registry.GatewayKey(k.organisation); known && public.Equal(key.Public()) {
			gateway = key
		}
	}
	var validator *signer.Key
	for _, id := range ids {
		v := k.validators[id]
		if v == nil {
			if v, err = k.home.OpenSigner(id, k.slots); err != nil {
				return err
			}
			k.validators[id] = v
		}
		k.silence.know(v)
		owner, _ := registry.OrganisationOf(v.Key.Address)
		if validator == nil || owner == k.organisation {
			validator = v
		}
	}
	if k.vouch, err = k.vouchBy(registry.ChainID(), gateway, validator, gateways); err != nil {
		return err
	}
	k.vouch = cmp.Or(k.shown, k.vouch)
	k.of, k.gateway, k.validator = registry.Hash(), gateway, validator
	return nil
}

// vouchBy signs for this node with the keys of the home, those that count first. Called with mu
// held.
func (k *keys) vouchBy(chainID string, gateway ed25519.PrivateKey, validator *signer.Key, gateways []ed25519.PrivateKey) (string, error) {
	v := &wire.Vouch{Organisation: k.organisation}
	message := wire.NodeSignBytes(chainID, k.organisation, k.nodeID)
	signed := map[string]bool{}
	sign := func(public []byte, by func([]byte) ([]byte, error)) error {
		if signed[string(public)] || len(v.Signatures) == wire.NodeSignaturesMax {
			return nil
		}
		signature, err := by(message)
		if err != nil {
			return fmt.Errorf("sign for the node: %w", err)
		}
		signed[string(public)] = true
		v.Sign(public, signature)
		return nil
	}
	if gateway != nil {
		gateways = append([]ed25519.PrivateKey{gateway}, gateways...)
	}
	validators := append([]*signer.Key{validator}, slices.Collect(maps.Values(k.validators))...)
	for i := range max(len(gateways), len(validators)) {
		if i < len(gateways) {
			key := gateways[i]
			if err := sign(key.Public().(ed25519.PublicKey), func(m []byte) ([]byte, error) { return ed25519.Sign(key, m), nil }); err != nil {
				return "", err
			}
		}
		if i < len(validators) {
			key := validators[i].Key.PrivKey
			if key == nil { // another process has it, and signs votes and proposals alone
				continue
			}
			if err := sign(key.PubKey().Bytes(), key.Sign); err != nil {
				return "", err
			}
		}
	}
	return v.String(), nil
}

// Vouch is the vouch for this node by the keys of the home, those that count among them.
func (k *keys) Vouch() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.vouch
}

// current brings the keys up to the registry. Keys that cannot be read leave those from before.
// Called with mu held.
func (k *keys) current() {
	r := k.registry()
	if r.Hash() == k.of {
		return
	}
	if err := k.read(r); err != nil {
		k.log.Error("the registry changed and keys cannot be read: those from before are used", "error", err)
		k.of = r.Hash()
	}
}

// Gateway is the gateway key that counts; nil: none of the home's does.
func (k *keys) Gateway() ed25519.PrivateKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.gateway
}

// counts is the validator key that counts, or that the home was made with.
func (k *keys) counts() *signer.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.validator
}

// lastSigned is the greatest height that a key of the home had signed for when it was opened; 0:
// none, or another process keeps it.
func (k *keys) lastSigned() (height int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.validators {
		if v.Last != nil {
			height = max(height, v.Last.Height)
		}
	}
	return height
}

// GetPubKey implements types.PrivValidator: CometBFT asks after each block. While the key may not
// sign for the next height, it is told another one, so that it asks for no vote.
func (k *keys) GetPubKey() (cmtcrypto.PubKey, error) {
	v := k.counts()
	if k.silence.quiet(v, k.next) {
		return k.nobody, nil
	}
	return v.GetPubKey()
}

// SignVote implements types.PrivValidator.
func (k *keys) SignVote(chainID string, vote *cmtproto.Vote) error {
	if err := k.silent(); err != nil {
		return fmt.Errorf("sign vote: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.validators {
		if string(v.Key.Address) != string(vote.ValidatorAddress) {
			continue
		}
		if err := k.silence.may(v, vote.Height); err != nil {
			k.silence.vain(vote)
			return fmt.Errorf("sign vote: %w", err)
		}
		if err := v.SignVote(chainID, vote); err != nil {
			return err
		}
		return k.silence.made(v, signer.StepOf(vote.Height, vote.Round, vote.Type), vote.Signature)
	}
	return fmt.Errorf("sign vote: no key of validator %X", vote.ValidatorAddress)
}

// SignProposal implements types.PrivValidator.
func (k *keys) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if err := k.silent(); err != nil {
		return fmt.Errorf("sign proposal: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.silence.may(k.validator, proposal.Height); err != nil {
		return fmt.Errorf("sign proposal: %w", err)
	}
	if err := k.validator.SignProposal(chainID, proposal); err != nil {
		return err
	}
	return k.silence.made(k.validator, signer.ProposalStep(proposal.Height, proposal.Round), proposal.Signature)
}
