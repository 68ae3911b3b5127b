package signer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/cometbft/cometbft/privval"
)

// movedHeight stands in CometBFT's state while the last signature is in the other file. CometBFT's
// signer, also that of an earlier release, then refuses every height.
const movedHeight = math.MaxInt64

// Path is the file beside CometBFT's state of a key.
func Path(stateFile string) string { return strings.TrimSuffix(stateFile, ".json") + ".slots" }

// takeOver opens the file, made from CometBFT's state when it is not there. After a crash in the
// middle of taking over or giving back both have the last signature, and the newer one counts.
func takeOver(key *privval.FilePV, stateFile string) (*slots, Last, error) {
	path, old := Path(stateFile), key.LastSignState
	moved := old.Height == movedHeight
	file, last, err := openSlots(path)
	if errors.Is(err, fs.ErrNotExist) {
		if moved {
			return nil, last, missing(path)
		}
		if err := createSlots(path, lastOf(old)); err != nil {
			return nil, last, err
		}
		file, last, err = openSlots(path)
	}
	if err != nil {
		return nil, last, err
	}
	if moved {
		return file, last, nil
	}
	if last, err = newer(last, lastOf(old)); err == nil {
		err = file.save(last)
	}
	if err == nil {
		err = keep(key, stateFile, Last{Height: movedHeight})
	}
	if err != nil {
		return nil, last, errors.Join(err, file.close())
	}
	return file, last, nil
}

// GiveBack gives CometBFT's own signer the last signature of a key, when it is in the other file.
// The key has it then, too.
func GiveBack(key *privval.FilePV, stateFile string) error {
	path := Path(stateFile)
	file, last, err := openSlots(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && key.LastSignState.Height == movedHeight:
		return missing(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	if key.LastSignState.Height != movedHeight {
		last, err = newer(last, lastOf(key.LastSignState))
	}
	if err := errors.Join(err, file.close()); err != nil {
		return err
	}
	if err := keep(key, stateFile, last); err != nil {
		return err
	}
	return Remove(path)
}

func missing(path string) error {
	return fmt.Errorf("%s is missing: without it the key could sign twice; take it from the machine that signed last", path)
}

// keep writes CometBFT's state, on disk with its name when it returns.
func keep(key *privval.FilePV, stateFile string, last Last) (err error) {
	defer func() {
		if failed := recover(); failed != nil { // CometBFT's way to say that it could not be written
			err = fmt.Errorf("write %s: %v", stateFile, failed)
		}
	}()
	s := &key.LastSignState
	s.Height, s.Round, s.Step, s.Signature, s.SignBytes = last.Height, last.Round, last.Step, last.Signature, last.SignBytes
	s.Save()
	return syncDirectory(stateFile)
}

// LastOf is the last signature that CometBFT's state of a key holds.
func LastOf(key *privval.FilePV) *Last {
	last := lastOf(key.LastSignState)
	return &last
}

// Check says why the file beside CometBFT's state of a key cannot be read; nil: it can, or is not
// there. A signer may write it meanwhile, so Check reads it up to three times.
func Check(stateFile string) (err error) {
	for range 3 {
		var file *slots
		if file, _, err = openSlots(Path(stateFile)); err == nil {
			return file.close()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Forget makes the files of a key's last signature anew: it signed for heights up to after, and for
// none beyond. With 0 it is a key that signed nothing. The files of before stay beside, as .old.
func Forget(stateFile string, after int64) error {
	for _, path := range []string{Path(stateFile), stateFile} {
		if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	last := Last{Height: after}
	if after > 0 {
		last.Round, last.Step = math.MaxInt32, stepPrecommit
	}
	return Replace(stateFile, fmt.Appendf(nil, "{\"height\":\"%d\",\"round\":%d,\"step\":%d}\n", last.Height, last.Round, last.Step))
}

// Remove removes a file, on disk when it returns. One that is not there is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDirectory(path)
}

func lastOf(s privval.FilePVLastSignState) Last {
	return Last{Height: s.Height, Round: s.Round, Step: s.Step, SignBytes: s.SignBytes, Signature: s.Signature}
}

// newer is the newer of two last signatures. Two of one step that differ are an error.
func newer(a, b Last) (Last, error) {
	switch order := a.compare(b.Height, b.Round, b.Step); {
	case order > 0:
		return a, nil
	case order < 0:
		return b, nil
	case !bytes.Equal(a.SignBytes, b.SignBytes):
		return a, errors.New("two files hold different last signatures of one step")
	}
	return a, nil
}
