package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/accuse"
)

// OrderEvidence is CometBFT's evidence that a validator signed the order twice. It stands in an
// order block, and CometBFT of more than two thirds of the votes has checked it. It is local and
// enters no answer to CometBFT.
type OrderEvidence struct {
	Organisation string `json:"organisation"` // of the validator, when the block was decided; empty: of none
	Validator    []byte `json:"validator"`    // its address
	Height       int64  `json:"height"`       // of the order block that it signed twice for
	Decided      int64  `json:"decided"`      // of the order block in which it stands
	Attack       bool   `json:"attack"`       // it signed a block of another chain, for light clients
}

func (e OrderEvidence) equals(other OrderEvidence) bool {
	return bytes.Equal(e.Validator, other.Validator) && e.Height == other.Height && e.Decided == other.Decided && e.Attack == other.Attack
}

// watchOrder keeps the evidence in a decided order block.
func (a *App) watchOrder(height int64, found []abci.Misbehavior) {
	if len(found) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range found {
		organisation, _ := a.state.Registry().OrganisationOf(m.Validator.Address)
		e := OrderEvidence{
			Organisation: organisation, Validator: m.Validator.Address,
			Height: m.Height, Decided: height, Attack: m.Type == abci.MisbehaviorType_LIGHT_CLIENT_ATTACK,
		}
		if slices.ContainsFunc(a.ordered, e.equals) {
			continue // the block is decided again after a restart
		}
		a.orderedCount++
		kept := keepsOrdered(a.ordered, e)
		if kept {
			if err := a.opt.Store.keepOrderEvidence(len(a.ordered), e); err != nil {
				a.log.Error("evidence is not kept over a restart", "organisation", organisation, "error", err)
			}
			a.ordered = append(a.ordered, e)
		}
		accuse.OrderSignedTwice(organisation, e.Validator, e.Height).Log(a.log, "kept", kept)
	}
}

// keepsOrdered tells whether there is room for another piece against a validator.
func keepsOrdered(kept []OrderEvidence, of OrderEvidence) bool {
	pieces := 0
	for _, e := range kept {
		if bytes.Equal(e.Validator, of.Validator) {
			pieces++
		}
	}
	return pieces < evidencePerOrganisation && len(kept) < evidenceMax
}

// OrderEvidence returns the evidence of the order that this node keeps, the oldest first, and how
// many pieces were kept, or seen since the start.
func (a *App) OrderEvidence() ([]OrderEvidence, uint64) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.Clone(a.ordered), a.orderedCount
}

// keepOrderEvidence writes piece i, waiting for the disk.
func (s *Store) keepOrderEvidence(i int, e OrderEvidence) error {
	raw, err := json.Marshal(e)
	if err == nil {
		err = s.db.SetSync(numberKey('o', uint64(i)), raw)
	}
	if err != nil {
		return fmt.Errorf("keep evidence %d of the order: %w", i, err)
	}
	return nil
}

// orderEvidence reads what was kept, at most evidenceMax pieces.
func (s *Store) orderEvidence() (out []OrderEvidence, err error) {
	for i := range evidenceMax {
		var e OrderEvidence
		found, err := s.get(numberKey('o', uint64(i)), &e)
		if err != nil || !found {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}
