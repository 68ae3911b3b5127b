package config

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/wire"
)

func (h Home) standbyFile() string { return h.Path("config", "standby") }

// Standby tells that the home is that of a standby: its node keeps the order, and leaves all else
// to another node of the organisation until it takes over.
func (h Home) Standby() (bool, error) {
	_, err := os.Stat(h.standbyFile())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// BecomeStandby makes the home that of a standby.
func (h Home) BecomeStandby() error { return writeNew(h.standbyFile(), nil, 0o600) }

func (h Home) vouchFile() string { return h.Path("config", "vouch") }

// Vouch reads by what the organisation's node vouches for that of a standby's home; empty: nothing.
func (h Home) Vouch() (string, error) {
	f, err := os.Open(h.vouchFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*wire.VouchBytesMax))
	if err != nil {
		return "", err
	}
	vouch, err := wire.ParseVouch(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", h.vouchFile(), err)
	}
	return vouch.String(), nil
}

// VouchFor signs with the home's gateway keys that another node is one of the organisation's.
func (h Home) VouchFor(organisation, chainID, nodeID string) (string, error) {
	if err := wire.CheckNodeID(nodeID); err != nil {
		return "", err
	}
	keys, err := h.GatewayKeys()
	if err != nil {
		return "", err
	}
	vouch, message := &wire.Vouch{Organisation: organisation}, wire.NodeSignBytes(chainID, organisation, nodeID)
	for _, key := range keys[max(0, len(keys)-wire.NodeSignaturesMax):] {
		signature, err := wire.Sign(key, message)
		if err != nil {
			return "", err
		}
		vouch.Sign(key.Public().(ed25519.PublicKey), signature)
	}
	return vouch.String(), nil
}

// EndStandby ends that the home is that of a standby.
func (h Home) EndStandby() error { return signer.Remove(h.standbyFile()) }

// AsStandby is a configuration without what a standby leaves alone: the database and what is told
// of it, the signer, and the doors of clients on the network.
func (c Config) AsStandby() Config {
	c.Database.DSN, c.Retention.Archive, c.Consensus.SignerListen, c.Keys.Holder = "", "", "", ""
	c.HTTP.Listen, c.Explorer.Listen = "", ""
	return c
}

// TakeGatewayKeys copies those gateway keys of another home that count, and returns how many there
// are. Those that are here already stay.
func (h Home) TakeGatewayKeys(from Home, counts func(ed25519.PublicKey) bool) (taken int, err error) {
	ids, err := keyIDs(from.gatewayKeyOf)
	if err != nil {
		return 0, fmt.Errorf("read gateway key: %w", err)
	}
	for _, id := range ids {
		key, err := readGatewayKey(from.gatewayKeyOf(id))
		if err != nil {
			return taken, err
		}
		public := key.Public().(ed25519.PublicKey)
		if !counts(public) {
			continue
		}
		if err := copyNew(h.gatewayKeyOf(keyID(public)), from.gatewayKeyOf(id)); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// TakeValidatorKeys copies those validator keys of another home that count, and returns how many
// there are. With signed it copies the last signature of each, too; without, each key is here as
// one that signed nothing yet. Those that are here already stay.
func (h Home) TakeValidatorKeys(from Home, signed bool, counts func(ed25519.PublicKey) bool) (taken int, err error) {
	ids, err := from.ValidatorIDs()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		key, err := signer.ReadAlone(from.validatorKeyOf(id))
		if err != nil {
			return taken, err
		}
		public := key.PubKey.Bytes()
		if !counts(public) {
			continue
		}
		if err := h.takeSignature(key, from, id, signed); err != nil {
			return taken, err
		}
		// The key comes last: without its last signature it must not be here.
		if err := copyNew(h.validatorKeyOf(keyID(public)), from.validatorKeyOf(id)); err != nil {
			return taken, err
		}
		taken++
	}
	return taken, nil
}

// takeSignature makes the last signature of a key that is not here yet.
func (h Home) takeSignature(key signer.StoredKey, from Home, id string, signed bool) error {
	own := keyID(key.PubKey.Bytes())
	state := h.validatorStateOf(own)
	if _, err := os.Stat(h.validatorKeyOf(own)); err == nil { // taken before, with what it signed since
		return nil
	}
	if !signed {
		return signer.Forget(state, 0)
	}
	if err := copyOver(state, from.validatorStateOf(id)); err != nil {
		return fmt.Errorf("the last signature: %w", err)
	}
	err := copyOver(signer.Path(state), signer.Path(from.validatorStateOf(id)))
	if errors.Is(err, fs.ErrNotExist) { // it is in CometBFT's state
		return nil
	}
	return err
}

// copyNew copies a file of secrets to where none is, or the same. It is whole when it is there.
func copyNew(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(to); err == nil {
		if bytes.Equal(there, text) {
			return nil
		}
		return fmt.Errorf("%s exists already: a key is never overwritten", to)
	}
	return signer.Replace(to, text)
}

func copyOver(to, from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return signer.Replace(to, text)
}
