package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/chainify-db/chainify/abci/comet/signer"
)

// Signing is why a home's node does not just sign: what it keeps over a restart.
type Signing struct {
	// DoubtSince is since when the key may have signed what its last signature does not tell; nil:
	// it has not. The node waits for heights that the key cannot have been used for.
	DoubtSince *time.Time `json:"doubt_since,omitempty"`
	// Joins tells that the node joins by a snapshot, and has not come to the block after it.
	Joins bool `json:"joins,omitempty"`
	// Found tells that the node found signatures of the key which it did not make, and that nobody
	// has said that their process ended. It waits for some more heights.
	Found bool `json:"found,omitempty"`
	// Elsewhere tells that another process signs with the key. The node signs nothing until an
	// operator says so; nil: it knows of none.
	Elsewhere *Elsewhere `json:"elsewhere,omitempty"`
}

// Elsewhere is when and by which order block a node learned that its key is used elsewhere.
type Elsewhere struct {
	Height int64     `json:"height"`
	At     time.Time `json:"at"`
}

func (h Home) signingFile() string { return h.Path("data", "signing.json") }

// Signing reads it; the zero value: there is nothing to keep.
func (h Home) Signing() (s Signing, err error) {
	text, err := os.ReadFile(h.signingFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read whether the node may sign: %s: %w", h.signingFile(), err)
	}
	return s, nil
}

// KeepSigning keeps it, on disk when it returns.
func (h Home) KeepSigning(s Signing) error {
	if s == (Signing{}) {
		return signer.Remove(h.signingFile())
	}
	text, err := json.Marshal(s)
	if err == nil {
		err = signer.Replace(h.signingFile(), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep whether the node may sign: %w", err)
	}
	return nil
}

// ForgetLastSignatures makes the files of last signatures anew where they cannot be read. An after
// that is not 0 has it make all anew: the keys may have signed for heights up to it. The files of
// before stay beside, as .old. Slots is as OpenSigner takes it.
func (h Home) ForgetLastSignatures(after int64, slots bool) error {
	ids, err := h.ValidatorIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		s, err := h.OpenSigner(id, slots)
		if err == nil {
			last := s.Last.Height
			if err := s.Close(); err != nil {
				return err
			}
			if after == 0 {
				continue
			}
			if last > after {
				return fmt.Errorf("a validator key of the home signed for height %d here, which is beyond %d", last, after)
			}
		}
		if err := errors.Join(signer.Forget(h.validatorStateOf(id), after), signer.Remove(h.unusedOf(id))); err != nil {
			return err
		}
	}
	return nil
}

// CheckLastSignatures says which file of a last signature cannot be read, also while the node runs.
func (h Home) CheckLastSignatures() error {
	if address, err := h.KeyHolder(); err != nil || address != "" {
		return err
	}
	ids, err := h.ValidatorIDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := h.ReadValidator(id); err != nil {
			return err
		}
		if err := signer.Check(h.validatorStateOf(id)); err != nil {
			return err
		}
	}
	return nil
}
