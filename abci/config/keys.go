package config

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chainify-db/chainify/abci/comet/holder"
	"github.com/chainify-db/chainify/abci/comet/signer"
)

// keyIDBytes of a public key name its files.
const keyIDBytes = 8

func keyID(public []byte) string { return "." + hex.EncodeToString(public[:keyIDBytes]) }

// GatewayKeys reads all gateway keys of the home, that which it was made with first. Which of them
// counts says the registry.
func (h Home) GatewayKeys() ([]crypto.Signer, error) {
	address, err := h.KeyHolder()
	if err != nil {
		return nil, err
	}
	if address != "" {
		public, err := held(address, holder.Gateway)
		out := make([]crypto.Signer, len(public))
		for i := range public {
			out[i] = holder.Signer(address, public[i])
		}
		return out, err
	}
	ids, err := keyIDs(h.gatewayKeyOf)
	if err != nil {
		return nil, fmt.Errorf("read gateway key: %w", err)
	}
	out := make([]crypto.Signer, len(ids))
	for i, id := range ids {
		if out[i], err = readGatewayKey(h.gatewayKeyOf(id)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NewGatewayKey makes a further gateway key, to replace the one that counts, and returns its public
// half. A key holder has made it before.
func (h Home) NewGatewayKey(counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
	if address, err := h.KeyHolder(); err != nil {
		return nil, err
	} else if address != "" {
		return nextHeld(address, holder.Gateway, counts)
	}
	return h.makeGatewayKey(func(public ed25519.PublicKey) string { return keyID(public) })
}

func (h Home) makeGatewayKey(id func(ed25519.PublicKey) string) (ed25519.PublicKey, error) {
	return makeKey(gatewayKeyType, func(public ed25519.PublicKey) string { return h.gatewayKeyOf(id(public)) })
}

// NewClientKey makes a client's key in a file that is not there yet, and returns its public half.
func NewClientKey(path string) (ed25519.PublicKey, error) {
	return makeKey(clientKeyType, func(ed25519.PublicKey) string { return path })
}

// ReadClientKey reads a client's key.
func ReadClientKey(path string) (ed25519.PrivateKey, error) { return readKey(clientKeyType, path) }

func makeKey(kind string, path func(ed25519.PublicKey) string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	text, err := json.MarshalIndent(keyFile{kind, public, private.Seed()}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return public, writeNew(path(public), append(text, '\n'), 0o600)
}

func readGatewayKey(path string) (ed25519.PrivateKey, error) { return readKey(gatewayKeyType, path) }

// readKey reads a key of a kind and checks that its two halves fit.
func readKey(kind, path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file keyFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.Type != kind || len(file.PrivateKey) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s: not a key of type %s", path, kind)
	}
	key := ed25519.NewKeyFromSeed(file.PrivateKey)
	if !ed25519.PublicKey(file.PublicKey).Equal(key.Public()) {
		return nil, fmt.Errorf("%s: public and private key do not fit", path)
	}
	return key, nil
}

// ValidatorIDs names all validator keys of the home, that which it was made with first.
func (h Home) ValidatorIDs() ([]string, error) {
	address, err := h.KeyHolder()
	if err != nil {
		return nil, err
	}
	if address != "" {
		public, err := held(address, holder.Validator)
		ids := make([]string, len(public))
		for i := range public {
			ids[i] = keyID(public[i])
		}
		return ids, err
	}
	ids, err := keyIDs(h.validatorKeyOf)
	if err != nil {
		return nil, fmt.Errorf("read validator key: %w", err)
	}
	return ids, nil
}

// validatorPlace names the files of a validator key of the home.
func (h Home) validatorPlace(id string) signer.Place {
	return signer.Place{Key: h.validatorKeyOf(id), State: h.validatorStateOf(id), Unused: h.unusedOf(id)}
}

// ReadValidator reads the validator key of an id of ValidatorIDs, with its last signature: once for
// each process. A key holder keeps the last signature and the private half.
func (h Home) ReadValidator(id string) (*signer.Stored, error) {
	if address, err := h.KeyHolder(); err != nil {
		return nil, err
	} else if address != "" {
		key, err := heldValidator(address, id)
		if err != nil {
			return nil, err
		}
		return &signer.Stored{Key: key.Key}, nil
	}
	return signer.Read(h.validatorPlace(id))
}

// OpenSigner reads the validator key of an id of ValidatorIDs to sign with: once for each process.
// With slots the last signature is in the file of package signer, otherwise in CometBFT's state.
// Either is taken over from the other.
func (h Home) OpenSigner(id string, slots bool) (*signer.Key, error) {
	if address, err := h.KeyHolder(); err != nil {
		return nil, err
	} else if address != "" {
		return heldValidator(address, id)
	}
	return signer.OpenKey(h.validatorPlace(id), slots)
}

// NewValidatorKey makes a further validator key, to replace the one that counts, and returns its
// public half. A key holder has made it before.
func (h Home) NewValidatorKey(counts func(ed25519.PublicKey) bool) (ed25519.PublicKey, error) {
	if address, err := h.KeyHolder(); err != nil {
		return nil, err
	} else if address != "" {
		return nextHeld(address, holder.Validator, counts)
	}
	return signer.Make(func(public []byte) signer.Place { return h.validatorPlace(keyID(public)) })
}

func (h Home) unusedOf(id string) string { return h.Path("data", "priv_validator_state"+id+".unused") }

// UnusedFile is that of the key that the home was made with (signer.Place).
func (h Home) UnusedFile() string { return h.unusedOf("") }

// keyIDs lists the ids for which there is a file, the first key's before the others.
func keyIDs(path func(id string) string) ([]string, error) {
	first := path("")
	before, after := strings.TrimSuffix(first, ".json"), ".json"
	files, err := filepath.Glob(path(".*"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	ids := []string{}
	if _, err := os.Stat(first); err == nil {
		ids = append(ids, "")
	}
	for _, file := range files {
		ids = append(ids, strings.TrimSuffix(strings.TrimPrefix(file, before), after))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s is missing", first)
	}
	return ids, nil
}
