package votelog

import (
	"encoding/json"
	"fmt"
	"sync"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/wire"
)

// votesKey is where the node's own store holds the votes.
const votesKey = "node/votes"

// NewStore keeps votes in a database that its caller closes.
func NewStore(db dbm.DB) *Store { return &Store{db: db} }

// Store keeps this organisation's newest votes on effects, one for each execution (E5).
type Store struct {
	db dbm.DB

	mu   sync.Mutex // guards all below
	kept [][]byte   // encoded, the oldest first
	of   map[wire.Key]bool
}

// Open reads what is kept.
func (s *Store) Open() ([]wire.EffectVote, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := s.db.Get([]byte(votesKey))
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &s.kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read own votes: %w", err)
	}
	s.of = map[wire.Key]bool{}
	out := make([]wire.EffectVote, len(s.kept))
	for i, one := range s.kept {
		if out[i], err = wire.DecodeEffectVote(one); err != nil {
			return nil, fmt.Errorf("read own votes: %w", err)
		}
		s.of[out[i].Key()] = true
	}
	return out, nil
}

// Keep waits for the disk, once for each execution.
func (s *Store) Keep(raw []byte) error {
	vote, err := wire.DecodeEffectVote(raw)
	if err != nil {
		return fmt.Errorf("keep own vote: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[vote.Key()] {
		return nil
	}
	kept := append(s.kept[max(0, len(s.kept)-Max+1):len(s.kept):len(s.kept)], raw)
	text, err := json.Marshal(kept)
	if err == nil {
		err = s.db.SetSync([]byte(votesKey), text)
	}
	if err != nil {
		return fmt.Errorf("keep own vote: %w", err)
	}
	s.kept, s.of[vote.Key()] = kept, true
	if len(s.of) > 2*Max { // those whose votes are kept no more
		s.of = map[wire.Key]bool{}
		for _, one := range kept {
			if v, err := wire.DecodeEffectVote(one); err == nil {
				s.of[v.Key()] = true
			}
		}
	}
	return nil
}
