package signer

import (
	"errors"
	"fmt"
	"io"
	"os"

	cmtjson "github.com/cometbft/cometbft/libs/json"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
)

// CometBFT's forms of a validator key: with its last signature, and alone.
type (
	Stored    = privval.FilePV
	StoredKey = privval.FilePVKey
)

// Place names the files of a validator key.
type Place struct {
	Key   string // the key
	State string // CometBFT's state, with the last signature
	// Unused is an empty file that is there from when the key was made until its node first signs
	// with it. A key without it, and without a last signature, may have signed.
	Unused string
}

// Make makes a validator key, in files that place names by its public half, and returns that half.
// A key that is there is never overwritten.
func Make(place func(public []byte) Place) ([]byte, error) {
	made := privval.GenFilePV("", "")
	public := made.Key.PubKey.Bytes()
	files := place(public)
	if _, err := os.Lstat(files.Key); !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s exists already: a key is never overwritten", files.Key)
	}
	privval.NewFilePV(made.Key.PrivKey, files.Key, files.State).Save()
	unused, err := os.OpenFile(files.Unused, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return public, unused.Close()
}

// Read reads a validator key and its last signature. CometBFT's reader ends the process on a
// missing or damaged file; the checks before it make that an error.
func Read(p Place) (*Stored, error) {
	for _, path := range []string{p.Key, p.State} {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("read validator key: %w", err)
		}
	}
	if _, err := ReadAlone(p.Key); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(p.State)
	if err == nil {
		err = cmtjson.Unmarshal(text, &privval.FilePVLastSignState{})
	}
	if err != nil {
		return nil, fmt.Errorf("read the last signature: %s is damaged: %w", p.State, err)
	}
	return privval.LoadFilePV(p.Key, p.State), nil
}

// ReadAlone reads a validator key without its last signature.
func ReadAlone(path string) (key StoredKey, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return key, fmt.Errorf("read validator key: %w", err)
	}
	if err := cmtjson.Unmarshal(text, &key); err != nil || key.PrivKey == nil {
		return key, fmt.Errorf("%s is no validator key: %v", path, err)
	}
	key.PubKey = key.PrivKey.PubKey()
	return key, nil
}

// Key is a validator key that signs, with its last signature.
type Key struct {
	types.PrivValidator
	Key StoredKey
	// Last is what it signed last when it was opened; nil: another process keeps that.
	Last   *Last
	unused string // Place.Unused; empty: that file is not there
}

// OpenKey reads a validator key to sign with: once for each process. With slots the last signature
// is in the file of this package, otherwise in CometBFT's state. Either is taken over from the
// other.
func OpenKey(p Place, slots bool) (*Key, error) {
	stored, err := Read(p)
	if err != nil {
		return nil, err
	}
	opened := &Key{Key: stored.Key}
	if _, err := os.Stat(p.Unused); err == nil {
		opened.unused = p.Unused
	}
	if slots {
		s, err := Open(stored, p.State)
		if err != nil {
			return nil, err
		}
		opened.PrivValidator, opened.Last = s, s.Last()
		return opened, nil
	}
	if err := GiveBack(stored, p.State); err != nil {
		return nil, err
	}
	opened.PrivValidator, opened.Last = stored, LastOf(stored)
	return opened, nil
}

// Unused reports whether the key was made in this home, and never used.
func (k *Key) Unused() bool { return k.unused != "" }

// SignVote implements types.PrivValidator.
func (k *Key) SignVote(chainID string, vote *cmtproto.Vote) error {
	if err := k.use(); err != nil {
		return err
	}
	return k.PrivValidator.SignVote(chainID, vote)
}

// SignProposal implements types.PrivValidator.
func (k *Key) SignProposal(chainID string, proposal *cmtproto.Proposal) error {
	if err := k.use(); err != nil {
		return err
	}
	return k.PrivValidator.SignProposal(chainID, proposal)
}

// use notes before the first signature that the key is used, on disk when it returns.
func (k *Key) use() error {
	if k.unused == "" {
		return nil
	}
	if err := Remove(k.unused); err != nil {
		return fmt.Errorf("note that a validator key is used: %w", err)
	}
	k.unused = ""
	return nil
}

// Close closes the file of the last signature, where there is one that stays open.
func (k *Key) Close() error {
	if c, ok := k.PrivValidator.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
