package signer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cometbft/cometbft/crypto"
	cmtjson "github.com/cometbft/cometbft/libs/json"
	"github.com/cometbft/cometbft/privval"
)

// OpenHeld opens the last signature of a key that stays where it is, as in an HSM: once for each
// process. A key whose last signature is lost does not sign: nobody tells a key holder how far the
// order is.
func OpenHeld(p Place, key crypto.PrivKey) (*Key, error) {
	lost := fmt.Errorf("what validator key %x signed last is not known here: take %s and what stands beside it from where it signed last, or say up to which height it may have signed (chainify-hsm signed-until)", key.PubKey().Bytes(), p.State)
	text, err := os.ReadFile(p.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, lost
	}
	stored := privval.NewFilePV(key, "", p.State)
	var last privval.FilePVLastSignState
	if err == nil {
		err = cmtjson.Unmarshal(text, &last)
	}
	if err != nil {
		return nil, fmt.Errorf("read the last signature: %s: %w", p.State, err)
	}
	s := &stored.LastSignState
	s.Height, s.Round, s.Step, s.Signature, s.SignBytes = last.Height, last.Round, last.Step, last.Signature, last.SignBytes
	opened, err := Open(stored, p.State)
	if err != nil {
		return nil, err
	}
	out := &Key{PrivValidator: opened, Key: stored.Key, Last: opened.Last()}
	if _, err := os.Stat(p.Unused); err == nil {
		out.unused = p.Unused
	}
	if out.Last.Height == 0 && !out.Unused() {
		return nil, errors.Join(lost, out.Close())
	}
	return out, nil
}

// BeginHeld makes the last signature of such a key, which never signed.
func BeginHeld(p Place) error {
	if _, err := os.Lstat(p.State); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", p.State)
	}
	if err := Forget(p.State, 0); err != nil {
		return err
	}
	return Replace(p.Unused, nil)
}

// HeldSignedUntil makes the last signature of such a key anew: the key may have signed for heights
// up to this one, and signs for none of them.
func HeldSignedUntil(p Place, height int64) error {
	if height < 1 {
		return errors.New("a height is at least 1")
	}
	return errors.Join(Forget(p.State, height), Remove(p.Unused))
}
