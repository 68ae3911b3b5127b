package comet

import (
	"sync/atomic"

	dbm "github.com/cometbft/cometbft-db"
	comet "github.com/cometbft/cometbft/config"
)

// store is a store of CometBFT in which a read after Close finds nothing. CometBFT does not wait
// for its routines of single peers when it stops. One that reads the block store once more would
// panic on the error of a closed store, and take the process down in the middle of its orderly end.
// To find nothing is an answer these routines know.
type store struct {
	dbm.DB
	closed atomic.Bool
}

// openStore is a config.DBProvider.
func openStore(c *comet.DBContext) (dbm.DB, error) {
	db, err := comet.DefaultDBProvider(c)
	if err != nil {
		return nil, err
	}
	return &store{DB: db}, nil
}

// Get implements dbm.DB.
func (s *store) Get(key []byte) ([]byte, error) {
	value, err := s.DB.Get(key)
	if err != nil && s.closed.Load() {
		return nil, nil
	}
	return value, err
}

// Close implements dbm.DB.
func (s *store) Close() error {
	s.closed.Store(true)
	return s.DB.Close()
}
