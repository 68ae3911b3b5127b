package explorer

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/wire"
)

type evidenceBody struct {
	Pieces    []piece
	More      int // seen, and not kept
	Order     []orderPiece
	OrderMore int
}

// orderPiece is CometBFT's evidence that a validator signed the order twice.
type orderPiece struct {
	Organisation, Validator string
	Height, Decided         int64
}

// piece is two votes of one organisation for one execution.
type piece struct {
	Organisation  string
	Block         int64
	EffectRound   uint32
	First, Second said
}

// said is a vote in words.
type said struct {
	What      string
	Validator string
	Height    int64
	Round     int32
}

func saidBy(v *wire.ExtendedVote) said {
	s := said{Validator: hex.EncodeToString(v.GetValidatorAddress()), Height: v.GetHeight(), Round: v.GetRound()}
	vote, err := wire.DecodeEffectVote(v.GetExtension())
	if err != nil {
		s.What = "no vote"
	} else if at, stuck := vote.StuckAt(); stuck {
		s.What = "transaction " + number(int64(at)) + " does not end"
	} else {
		s.What = "effects " + hex.EncodeToString(vote.Value[:8]) + "…"
		if vote.Parts != "" {
			s.What += ", in parts"
		}
	}
	return s
}

// kept is the evidence that the node keeps.
func (e *Explorer) kept() *wire.EvidenceResponse {
	if e.opt.Evidence == nil {
		return &wire.EvidenceResponse{}
	}
	return e.opt.Evidence()
}

func (e *Explorer) evidence(w http.ResponseWriter, r *http.Request) error {
	kept := e.kept()
	body := evidenceBody{More: int(kept.Count) - len(kept.Evidence), OrderMore: int(kept.OrderCount) - len(kept.Order)}
	for _, x := range kept.Order {
		body.Order = append(body.Order, orderPiece{x.Organisation, hex.EncodeToString(x.Validator), x.Height, x.Decided})
	}
	for _, x := range kept.Evidence {
		body.Pieces = append(body.Pieces, piece{x.Organisation, int64(x.Block), x.EffectRound, saidBy(x.First), saidBy(x.Second)})
	}
	return e.show(w, r, http.StatusOK, "evidence", "/evidence", "Evidence", body)
}

// evidenceFile gives what an auditor checks (spec/evidence.md).
func (e *Explorer) evidenceFile(w http.ResponseWriter, _ *http.Request) error {
	kept, all := e.kept(), []audit.Evidence{}
	for _, x := range kept.Evidence {
		all = append(all, audit.EvidenceOf(kept.ChainId, x))
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="evidence.json"`)
	w.Write(append(text, '\n')) // a client that went away is no error of ours
	return nil
}

// contradicting names the organisations that there is evidence against.
func contradicting(kept *wire.EvidenceResponse) (names []string) {
	for _, x := range kept.Evidence {
		names = append(names, x.Organisation)
	}
	for _, x := range kept.Order {
		names = append(names, cmp.Or(x.Organisation, "a validator of no member"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}
