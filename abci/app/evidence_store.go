package app

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/wire"
)

// evidenceRecord is an Evidence on the node's disk; votes and signature as they were sent.
type evidenceRecord struct {
	Organisation string `json:"organisation"`
	First        []byte `json:"first"`
	Second       []byte `json:"second"`
	SecondSigned []byte `json:"second_signed,omitempty"`
}

// keepEvidence writes piece i, waiting for the disk: it is rare, and whoever it is against may have the node's power cut.
func (s *Store) keepEvidence(i int, e *Evidence) error {
	record := evidenceRecord{Organisation: e.Organisation, First: e.First.Encode(), Second: e.Second.Encode()}
	if e.SecondSigned != nil {
		record.SecondSigned = wire.Encode(e.SecondSigned)
	}
	raw, err := json.Marshal(record)
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

func (r *evidenceRecord) open() (e Evidence, err error) {
	e.Organisation = r.Organisation
	if e.First, err = wire.DecodeEffectVote(r.First); err != nil {
		return e, fmt.Errorf("first vote: %w", err)
	}
	if e.Second, err = wire.DecodeEffectVote(r.Second); err != nil {
		return e, fmt.Errorf("second vote: %w", err)
	}
	if len(r.SecondSigned) > 0 {
		e.SecondSigned = &wire.ExtendedVote{}
		if err := proto.Unmarshal(r.SecondSigned, e.SecondSigned); err != nil {
			return e, fmt.Errorf("signed vote: %w", err)
		}
	}
	return e, nil
}
