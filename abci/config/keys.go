package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cmtjson "github.com/cometbft/cometbft/libs/json"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/comet/signer"
)

// keyIDBytes of a public key name its files.
const keyIDBytes = 8

func keyID(public []byte) string { return "." + hex.EncodeToString(public[:keyIDBytes]) }

// GatewayKeys reads all gateway keys of the home, that which it was made with first. Which of them
// counts says the registry.
func (h Home) GatewayKeys() ([]ed25519.PrivateKey, error) {
	ids, err := keyIDs(h.gatewayKeyOf)
	if err != nil {
		return nil, fmt.Errorf("read gateway key: %w", err)
	}
	out := make([]ed25519.PrivateKey, len(ids))
	for i, id := range ids {
		if out[i], err = readGatewayKey(h.gatewayKeyOf(id)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NewGatewayKey makes a further gateway key, to replace the one that counts, and returns its public
// half.
func (h Home) NewGatewayKey() (ed25519.PublicKey, error) {
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
	ids, err := keyIDs(h.validatorKeyOf)
	if err != nil {
		return nil, fmt.Errorf("read validator key: %w", err)
	}
	return ids, nil
}

// ReadValidator reads the validator key of an id of ValidatorIDs, with its last signature: once for
// each process.
func (h Home) ReadValidator(id string) (*privval.FilePV, error) { return h.readValidator(id) }

// Signer is a validator key that signs, with its last signature.
type Signer struct {
	types.PrivValidator
	Key privval.FilePVKey
	// Last is what it signed last when it was opened; nil: another process keeps that.
	Last   *signer.Last
	unused string // file that says that the key was never used; empty: it is not there
}

// Unused reports whether the key was made in this home, and never used.
func (s *Signer) Unused() bool { return s.unused != "" }

// SignVote implements types.PrivValidator.
func (s *Signer) SignVote(chainID string, vote *cmtproto.Vote) error {
	if err := s.use(); err != nil {
		return err
	}
	return s.PrivValidator.SignVote(chainID, vote)
}

// SignProposal implements types.PrivValidator.
func (s *Signer) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if err := s.use(); err != nil {
		return err
	}
	return s.PrivValidator.SignProposal(chainID, proposal)
}

// use notes before the first signature that the key is used, on disk when it returns.
func (s *Signer) use() error {
	if s.unused == "" {
		return nil
	}
	if err := signer.Remove(s.unused); err != nil {
		return fmt.Errorf("note that a validator key is used: %w", err)
	}
	s.unused = ""
	return nil
}

// Close closes the file of the last signature, where there is one that stays open.
func (s *Signer) Close() error {
	if c, ok := s.PrivValidator.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// OpenSigner reads the validator key of an id of ValidatorIDs to sign with: once for each process.
// With slots the last signature is in the file of package signer, otherwise in CometBFT's state.
// Either is taken over from the other.
func (h Home) OpenSigner(id string, slots bool) (*Signer, error) {
	key, err := h.readValidator(id)
	if err != nil {
		return nil, err
	}
	opened := &Signer{Key: key.Key}
	if _, err := os.Stat(h.unusedOf(id)); err == nil {
		opened.unused = h.unusedOf(id)
	}
	if slots {
		s, err := signer.Open(key, h.validatorStateOf(id))
		if err != nil {
			return nil, err
		}
		opened.PrivValidator, opened.Last = s, s.Last()
		return opened, nil
	}
	if err := signer.GiveBack(key, h.validatorStateOf(id)); err != nil {
		return nil, err
	}
	opened.PrivValidator, opened.Last = key, signer.LastOf(key)
	return opened, nil
}

// NewValidatorKey makes a further validator key, to replace the one that counts, and returns its
// public half.
func (h Home) NewValidatorKey() (ed25519.PublicKey, error) {
	made := privval.GenFilePV("", "")
	public := made.Key.PubKey.Bytes()
	id := keyID(public)
	if _, err := os.Lstat(h.validatorKeyOf(id)); err == nil {
		return nil, fmt.Errorf("%s exists already: a key is never overwritten", h.validatorKeyOf(id))
	}
	privval.NewFilePV(made.Key.PrivKey, h.validatorKeyOf(id), h.validatorStateOf(id)).Save()
	return public, h.markUnused(id)
}

// unusedOf is the path of an empty file that is there from when a validator key was made until the
// home's node first signs with it. A key without it, and without a last signature, may have signed.
func (h Home) unusedOf(id string) string { return h.Path("data", "priv_validator_state"+id+".unused") }

// UnusedFile is that of the key that the home was made with.
func (h Home) UnusedFile() string { return h.unusedOf("") }

func (h Home) markUnused(id string) error { return writeNew(h.unusedOf(id), nil, 0o600) }

// readValidator reads a validator's key and last signature. CometBFT's reader ends the process on a
// missing or damaged file; the checks before it make that an error.
func (h Home) readValidator(id string) (*privval.FilePV, error) {
	for _, path := range []string{h.validatorKeyOf(id), h.validatorStateOf(id)} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("read validator key: %w", err)
		}
	}
	if _, err := h.validatorAlone(id); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(h.validatorStateOf(id))
	if err == nil {
		err = cmtjson.Unmarshal(text, &privval.FilePVLastSignState{})
	}
	if err != nil {
		return nil, fmt.Errorf("read the last signature: %s is damaged: %w", h.validatorStateOf(id), err)
	}
	return privval.LoadFilePV(h.validatorKeyOf(id), h.validatorStateOf(id)), nil
}

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
