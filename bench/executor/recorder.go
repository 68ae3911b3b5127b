package executor

import (
	"sync"

	"github.com/chainify-db/chainify/abci/wire"
	"github.com/chainify-db/chainify/bench/relay"
)

// recorder keeps the write sets that sessions submit. Nothing but the sessions takes processor time
// of the server.
type recorder struct {
	relay *relay.Relay
	mu    sync.Mutex
	sets  [][]byte
}

// newRecorder listens on a Unix socket, which any user may connect to.
func newRecorder(path string) (*recorder, error) {
	r := &recorder{}
	var err error
	r.relay, err = relay.New(path, func(s *wire.Statement) {
		r.mu.Lock()
		r.sets = append(r.sets, s.Effects)
		r.mu.Unlock()
	})
	return r, err
}

// take gives what was recorded since the last time.
func (r *recorder) take() ([][]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sets := r.sets
	r.sets = nil
	return sets, r.relay.Err()
}

func (r *recorder) close() error { return r.relay.Close() }
