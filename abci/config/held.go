package config

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// SignsElsewhere reports whether another process has the validator key, and what it signed last.
func (c Config) SignsElsewhere() bool { return c.Consensus.SignerListen != "" || c.Keys.Holder != "" }

// checkKeys refuses a key holder that nobody can reach, and two places for one key.
func (c *Config) checkKeys() error {
	if c.Keys.Holder == "" {
		return nil
	}
	if c.Consensus.SignerListen != "" {
		return errors.New("keys.holder and consensus.signer_listen: both name where the validator key is, set one of them")
	}
	if err := holder.CheckAddress(c.Keys.Holder); err != nil {
		return fmt.Errorf("keys.holder: %w", err)
	}
	return nil
}

// KeyHolder is where another process holds the organisation's keys; empty: the home has them. A
// standby's home has keys of its own until it takes over.
func (h Home) KeyHolder() (string, error) {
	if _, err := os.Stat(h.Path(FileName)); errors.Is(err, fs.ErrNotExist) {
		return "", nil // a signer's home
	}
	standby, err := h.Standby()
	if err != nil || standby {
		return "", err
	}
	c, err := Load(string(h))
	return c.Keys.Holder, err
}

// held lists the keys of a kind that the home's key holder has. At least one is there.
func held(address string, kind holder.Kind) (keys []ed25519.PublicKey, err error) {
	all, err := holder.List(address)
	if err != nil {
		return nil, err
	}
	for _, key := range all {
		if key.Kind == kind {
			keys = append(keys, key.Public)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("key holder at %s: it has no %v key (chainify-hsm new-key makes one)", address, kind)
	}
	return keys, nil
}

// heldValidator is the validator key of an id of ValidatorIDs, without its private half.
func heldValidator(address, id string) (*signer.Key, error) {
	keys, err := held(address, holder.Validator)
	if err != nil {
		return nil, err
	}
	for _, public := range keys {
		if keyID(public) == id {
			return holder.OpenValidator(address, public), nil
		}
	}
	return nil, fmt.Errorf("key holder at %s: its validator key %s is gone", address, id)
}

// NextGatewayHeld is the gateway key of a key holder that is to take the place of one that counts.
func NextGatewayHeld(address string, counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
	return nextHeld(address, holder.Gateway, counts)
}

// NextValidatorHeld is the same of validator keys.
func NextValidatorHeld(address string, counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
	return nextHeld(address, holder.Validator, counts)
}

// nextHeld is the key of a kind that is to take the place of those that count.
func nextHeld(address string, kind holder.Kind, counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
	keys, err := held(address, kind)
	if err != nil {
		return nil, err
	}
	var next []ed25519.PublicKey
	for _, public := range keys {
		if !counts(public) {
			next = append(next, public)
		}
	}
	if len(next) != 1 {
		return nil, fmt.Errorf("key holder at %s: %d %v keys beside the one that counts, want one (chainify-hsm keys, new-key, remove-key)", address, len(next), kind)
	}
	return next[0], nil
}

// partKeys are the keys that a part of a genesis is made of: those that the home was made with, or
// the only ones of its key holder.
func (h Home) partKeys() (gateway, validator crypto.Signer, err error) {
	address, err := h.KeyHolder()
	if err != nil {
		return nil, nil, err
	}
	if address == "" {
		own, err := h.GatewayKey()
		if err != nil {
			return nil, nil, err
		}
		key, err := h.Validator()
		if err != nil {
			return nil, nil, err
		}
		return own, ed25519.PrivateKey(key.Key.PrivKey.Bytes()), nil
	}
	nothing := func(ed25519.PublicKey) bool { return false }
	own, err := nextHeld(address, holder.Gateway, nothing)
	if err != nil {
		return nil, nil, err
	}
	key, err := nextHeld(address, holder.Validator, nothing)
	return holder.Signer(address, own), holder.Signer(address, key), err
}

// HeldPlace names the files of what a validator key signed last, in the home of its key holder.
func (h Home) HeldPlace(public ed25519.PublicKey) signer.Place {
	return h.validatorPlace(keyID(public))
}

// KeyFiles are files of validator and gateway keys in the home, where its key holder has the keys.
func (h Home) KeyFiles() (files []string) {
	for _, path := range []func(string) string{h.gatewayKeyOf, h.validatorKeyOf} {
		ids, _ := keyIDs(path) // none is there: no file to name
		for _, id := range ids {
			files = append(files, path(id))
		}
	}
	return files
}
