package app

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// evidenceRecord is an Evidence on the node's disk; the votes are encoded ExtendedVotes.
type evidenceRecord struct {
	Organisation string `json:"organisation"`
	First        []byte `json:"first"`
	Second       []byte `json:"second"`
}

// keepEvidence writes piece i, waiting for the disk: it is rare, and whoever it is against may have
// the node's power cut.
func (s *Store) keepEvidence(i int, e *Evidence) error {
	raw, err := json.Marshal(evidenceRecord{Organisation: e.Organisation, First: wire.Encode(e.First), Second: wire.Encode(e.Second)})
	if err != nil {
		return fmt.Errorf("encode evidence %d: %w", i, err)
	}
	if err := s.db.SetSync(numberKey('e', uint64(i)), raw); err != nil {
		return fmt.Errorf("keep evidence %d: %w", i, err)
	}
	return nil
}

// evidence reads what was kept, at most evidenceMax pieces.
func (s *Store) evidence() (out []Evidence, err error) {
	for i := range evidenceMax {
		var record evidenceRecord
		found, err := s.get(numberKey('e', uint64(i)), &record)
		if err != nil || !found {
			return out, err
		}
		e, err := record.open()
		if err != nil {
			return nil, fmt.Errorf("read evidence %d: %w", i, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func (r *evidenceRecord) open() (Evidence, error) {
	e := Evidence{Organisation: r.Organisation, First: &wire.ExtendedVote{}, Second: &wire.ExtendedVote{}}
	if err := proto.Unmarshal(r.First, e.First); err != nil {
		return e, fmt.Errorf("first vote: %w", err)
	}
	if err := proto.Unmarshal(r.Second, e.Second); err != nil {
		return e, fmt.Errorf("second vote: %w", err)
	}
	vote, err := wire.DecodeEffectVote(e.First.Extension)
	e.Key = vote.Key()
	return e, err
}
