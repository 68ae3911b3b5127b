// Package keyring holds the keys of a node's home: which of them count, what they vouch for, and
// whether they may sign. choose.go and signer.Guard decide; the rest asks, and keeps.
package keyring

import (
	"cmp"
	"crypto"
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

// Options is what a Keyring works with.
type Options struct {
	Home     config.Home
	Config   config.Config
	Standby  bool // the home is a standby's
	Registry func() *order.Registry
	Guards   *Guards
	// Newer says that the next order block is made by a version of the protocol that this program
	// does not know: then nothing is signed. nil error: it knows it.
	Newer func() error
	// Next is the height that is decided next.
	Next func() int64
	// Remote is a validator key that another process holds, in place of the home's; nil: none does.
	Remote *signer.Key
	Log    *slog.Logger
}

// Keyring is the keys of the home. Which of them count says the registry, block by block: a home
// may hold the keys that take the place of others before they do. They are read again when the
// registry changes, so that no restart is needed.
type Keyring struct {
	opt    Options
	nodeID string
	nobody cmtcrypto.PubKey // of a key that is no validator's
	shown  string           // the vouch of a standby's home; empty: the keys of the home sign one

	mu         sync.Mutex // guards all below
	of         wire.Hash  // hash of the registry they were looked up in
	gateway    crypto.Signer
	validator  *signer.Key
	validators map[string]*signer.Key // by id; each is read once, for it keeps what it signed last
	vouch      string                 // for this node, by the keys of the home
}

var _ types.PrivValidator = (*Keyring)(nil)

// Open reads the keys that count.
func Open(opt Options) (*Keyring, error) {
	nodeKey, err := opt.Home.NodeKey()
	if err != nil {
		return nil, err
	}
	k := &Keyring{opt: opt, nodeID: string(nodeKey.ID()), nobody: cmted25519.GenPrivKey().PubKey(), validators: map[string]*signer.Key{}}
	if opt.Standby {
		if k.shown, err = opt.Home.Vouch(); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.read(opt.Registry())
}

// Close closes the files of the keys.
func (k *Keyring) Close() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.validators {
		err = errors.Join(err, v.Close())
	}
	return err
}

// Check refuses a home whose keys are another organisation's.
func (k *Keyring) Check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if owner, known := k.opt.Registry().OrganisationOf(k.validator.Key.Address); known && owner != k.opt.Config.Organisation {
		return fmt.Errorf("organisation %q of %s: the keys are those of %q", k.opt.Config.Organisation, config.FileName, owner)
	}
	return nil
}

// read finds the keys that count in a registry. Called with mu held.
func (k *Keyring) read(registry *order.Registry) error {
	gateways, err := k.opt.Home.GatewayKeys()
	if err != nil {
		return err
	}
	ids, err := []string{""}, error(nil)
	if k.opt.Remote == nil {
		ids, err = k.opt.Home.ValidatorIDs()
	} else {
		k.validators[""] = k.opt.Remote
	}
	if err != nil {
		return err
	}
	gateway := gatewayOf(registry, k.opt.Config.Organisation, gateways)
	all := make([]*signer.Key, 0, len(ids))
	for _, id := range ids {
		v := k.validators[id]
		if v == nil {
			if v, err = k.opt.Home.OpenSigner(id, k.opt.Config.Consensus.ExpressLane); err != nil {
				return err
			}
			k.validators[id] = v
		}
		k.opt.Guards.Know(v)
		all = append(all, v)
	}
	validator := validatorOf(registry, k.opt.Config.Organisation, all)
	if k.vouch, err = k.vouchBy(registry.ChainID(), gateway, validator, gateways); err != nil {
		return err
	}
	k.vouch = cmp.Or(k.shown, k.vouch)
	k.of, k.gateway, k.validator = registry.Hash(), gateway, validator
	return nil
}

// vouchBy signs for this node with the keys of the home, those that count first. Called with mu
// held.
func (k *Keyring) vouchBy(chainID string, gateway crypto.Signer, validator *signer.Key, gateways []crypto.Signer) (string, error) {
	v := &wire.Vouch{Organisation: k.opt.Config.Organisation}
	message := wire.NodeSignBytes(chainID, k.opt.Config.Organisation, k.nodeID)
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
		gateways = append([]crypto.Signer{gateway}, gateways...)
	}
	validators := append([]*signer.Key{validator}, slices.Collect(maps.Values(k.validators))...)
	for i := range max(len(gateways), len(validators)) {
		if i < len(gateways) {
			key := gateways[i]
			if err := sign(key.Public().(ed25519.PublicKey), func(m []byte) ([]byte, error) { return wire.Sign(key, m) }); err != nil {
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

// NodeID is this node's, in CometBFT's network.
func (k *Keyring) NodeID() string { return k.nodeID }

// Vouch is the vouch for this node by the keys of the home, those that count among them.
func (k *Keyring) Vouch() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.vouch
}

// current brings the keys up to the registry. Keys that cannot be read leave those from before.
// Called with mu held.
func (k *Keyring) current() {
	r := k.opt.Registry()
	if r.Hash() == k.of {
		return
	}
	if err := k.read(r); err != nil {
		k.opt.Log.Error("the registry changed and keys cannot be read: those from before are used", "error", err)
		k.of = r.Hash()
	}
}

// Gateway is the gateway key that counts; nil: none of the home's does.
func (k *Keyring) Gateway() crypto.Signer {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.gateway
}

// Counting is the validator key that counts, or that the home was made with.
func (k *Keyring) Counting() *signer.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current()
	return k.validator
}

// LastSigned is the greatest height that a key of the home had signed for when it was opened; 0:
// none, or another process keeps it.
func (k *Keyring) LastSigned() (height int64) {
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
func (k *Keyring) GetPubKey() (cmtcrypto.PubKey, error) {
	v := k.Counting()
	if k.opt.Guards.Hides(v, k.opt.Next) {
		return k.nobody, nil
	}
	return v.GetPubKey()
}

// SignVote implements types.PrivValidator.
func (k *Keyring) SignVote(chainID string, vote *cmtproto.Vote) error {
	if err := k.opt.Newer(); err != nil {
		return fmt.Errorf("sign vote: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range k.validators {
		if string(v.Key.Address) != string(vote.ValidatorAddress) {
			continue
		}
		if err := k.opt.Guards.May(v, vote.Height); err != nil {
			k.opt.Guards.Refused(vote)
			return fmt.Errorf("sign vote: %w", err)
		}
		if err := v.SignVote(chainID, vote); err != nil {
			return err
		}
		return k.opt.Guards.Signed(v, signer.StepOf(vote.Height, vote.Round, vote.Type), vote.Signature)
	}
	return fmt.Errorf("sign vote: no key of validator %X", vote.ValidatorAddress)
}

// SignProposal implements types.PrivValidator.
func (k *Keyring) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if err := k.opt.Newer(); err != nil {
		return fmt.Errorf("sign proposal: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.opt.Guards.May(k.validator, proposal.Height); err != nil {
		return fmt.Errorf("sign proposal: %w", err)
	}
	if err := k.validator.SignProposal(chainID, proposal); err != nil {
		return err
	}
	return k.opt.Guards.Signed(k.validator, signer.ProposalStep(proposal.Height, proposal.Round), proposal.Signature)
}
