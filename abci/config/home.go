package config

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chainify-db/chainify/abci/comet/files"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// Home is a node's directory:
//
//   - chainify.toml: the configuration (0600: its DSN may hold a password)
//   - config/genesis.json: the founding state, the same at all organisations
//   - config/admitted: nodes let in that no member vouches for; missing: none
//   - config/join.json: how the node joins by a snapshot; missing: it does not
//   - config/*_key.json: validator, node and gateway key (0600); with a key holder, the node key
//   - config/*_key.ID.json: validator and gateway keys that take their place, named by public key
//   - data/trust: the order block of the newest snapshot, for others
//   - data/: blocks, order-level state, the validator's last signature
type Home string

// Path returns a path in the home; absolute paths stay.
func (h Home) Path(elements ...string) string {
	if len(elements) == 1 && filepath.IsAbs(elements[0]) {
		return elements[0]
	}
	return filepath.Join(append([]string{string(h)}, elements...)...)
}

// Genesis is the path of the genesis file.
func (h Home) Genesis() string { return h.Path("config", "genesis.json") }

// Data is the directory of blocks and states.
func (h Home) Data() string { return h.Path("data") }

func (h Home) gatewayKey() string   { return h.gatewayKeyOf("") }
func (h Home) nodeKey() string      { return h.Path("config", "node_key.json") }
func (h Home) validatorKey() string { return h.validatorKeyOf("") }

// The files of a key; id is "" for the first, and ".ID" for one that "chainify org rotate-key"
// made.
func (h Home) gatewayKeyOf(id string) string { return h.Path("config", "gateway_key"+id+".json") }

func (h Home) validatorKeyOf(id string) string {
	return h.Path("config", "priv_validator_key"+id+".json")
}

func (h Home) validatorStateOf(id string) string {
	return h.Path("data", "priv_validator_state"+id+".json")
}

// keyFile is the JSON of config/gateway_key.json and of clients' keys.
type keyFile struct {
	Type       string `json:"type"`
	PublicKey  []byte `json:"public_key"`
	PrivateKey []byte `json:"private_key"` // the seed
}

const (
	gatewayKeyType = "chainify/gateway/ed25519"
	clientKeyType  = "chainify/client/ed25519"
)

// Create makes a home: directories, keys, configuration. It refuses a directory that has a
// configuration already, so that no key is ever overwritten.
func (h Home) Create(c Config) error {
	if _, err := os.Lstat(h.Path(FileName)); err == nil {
		return fmt.Errorf("%s is a node's home already", h)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(string(h), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{"config", "data"} {
		if err := os.MkdirAll(h.Path(dir), 0o700); err != nil {
			return err
		}
	}
	if err := h.createKeys(c.Keys.Holder != ""); err != nil {
		return err
	}
	text, err := Render(c)
	if err != nil {
		return err
	}
	if _, err := Parse(text); err != nil {
		return fmt.Errorf("new configuration: %w", err)
	}
	return writeNew(h.Path(FileName), text, 0o600)
}

// createKeys makes the keys of a home; of one with a key holder, the node key alone.
func (h Home) createKeys(held bool) error {
	for _, path := range []string{h.gatewayKey(), h.nodeKey(), h.validatorKey()} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s exists already: a key is never overwritten", path)
		}
	}
	if _, err := files.MakeNodeKey(h.nodeKey()); err != nil || held {
		return err
	}
	if _, err := h.makeGatewayKey(func(ed25519.PublicKey) string { return "" }); err != nil {
		return err
	}
	_, err := signer.Make(func([]byte) signer.Place { return h.validatorPlace("") })
	return err
}

// rewrite replaces the configuration of a home made a moment ago.
func (h Home) rewrite(c Config) error {
	text, err := Render(c)
	if err != nil {
		return err
	}
	return os.WriteFile(h.Path(FileName), text, 0o600)
}

func writeNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path)) // a part of it would be in the way for good
	}
	return nil
}

// GatewayKey reads the gateway key that the home was made with.
func (h Home) GatewayKey() (ed25519.PrivateKey, error) { return readGatewayKey(h.gatewayKey()) }

// NodeKey reads the key that names the node among its peers.
func (h Home) NodeKey() (*files.NodeKey, error) { return files.ReadNodeKey(h.nodeKey()) }

// NewNodeKey makes another node key, which counts from the next start, and keeps the one before
// beside it. It returns the new node id.
func (h Home) NewNodeKey() (string, error) {
	before, err := h.NodeKey()
	if err != nil {
		return "", err
	}
	if err := os.Rename(h.nodeKey(), h.Path("config", "node_key."+string(before.ID())+".json")); err != nil {
		return "", err
	}
	key, err := files.MakeNodeKey(h.nodeKey())
	if err != nil {
		return "", err
	}
	return string(key.ID()), nil
}

// Validator reads the validator key that the home was made with, and its last signature.
func (h Home) Validator() (*signer.Stored, error) { return h.ReadValidator("") }
