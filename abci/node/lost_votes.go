package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	dbm "github.com/cometbft/cometbft-db"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/wire"
)

// lostVotes is a node's knowledge of the votes on effects that an earlier node of its organisation
// gave, and whose log it does not have (E5). Before its own first signature beyond the heights that
// the earlier node signed for it votes on nothing. Then it abstains from the executions that were
// pending by then, but for votes that the order shows. The earlier node voted in precommits. A key
// whose last signature is lost signs for none of their heights (A14). Of a key whose last signature
// is kept, here or by a signer of its own, the heights up to that one are such.
type lostVotes struct {
	memory memory
	log    *slog.Logger
	// ordered are the executions of what is ordered so far; onChain is this organisation's vote
	// there on what is pending.
	ordered func() effects.Unknown
	onChain func() []wire.EffectVote
	// tell tells the effect core.
	tell func(effects.Unknown, []wire.EffectVote)

	mu   sync.Mutex // guards kept
	kept keptLostVotes
}

// keptLostVotes is the part of lostVotes that survives a restart.
type keptLostVotes struct {
	All     bool             `json:"all,omitempty"`   // it is not known how far the lost node came
	After   int64            `json:"after,omitempty"` // All ends with a signature beyond this height
	Unknown *effects.Unknown `json:"unknown,omitempty"`
	Voted   [][]byte         `json:"voted,omitempty"` // votes of the lost node, from its disk
	// Known is the height up to which Voted has all votes, by the log on that disk.
	Known int64 `json:"known,omitempty"`
}

// start tells what was kept, and returns the votes that are known. It comes before effects runs.
func (l *lostVotes) start() ([]wire.EffectVote, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.kept, err = l.memory.LostVotes(); err != nil {
		return nil, err
	}
	switch {
	case l.kept.All:
		l.log.Info("what this organisation voted on effects before is not known: it votes on nothing yet")
		l.tell(effects.Everything(), nil)
	case l.kept.Unknown != nil:
		l.tell(*l.kept.Unknown, l.onChain())
	}
	votes := make([]wire.EffectVote, len(l.kept.Voted))
	for i, raw := range l.kept.Voted {
		if votes[i], err = wire.DecodeEffectVote(raw); err != nil {
			return nil, fmt.Errorf("read the lost node's votes: %w", err)
		}
	}
	return votes, nil
}

// compare finds whether the log of this node's own votes is lost: its keys signed for heights up to
// last. It comes after start, and before CometBFT begins a log anew.
func (l *lostVotes) compare(own ownVoted, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.lost(last) && last > l.kept.Known {
		l.log.Warn("the log of this organisation's votes on effects is lost: it votes on nothing before it signs again",
			"signed", last, "log_until", own.reach)
		l.doubt(last)
	}
}

// doubted follows the discovery that this organisation's key was used by an earlier process.
func (l *lostVotes) doubted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept.All {
		l.doubt(0)
	}
}

// doubt has the node vote on nothing before it signs for a height beyond after. Called with mu
// held.
func (l *lostVotes) doubt(after int64) {
	l.tell(effects.Everything(), nil)
	kept := l.kept
	kept.All, kept.After, kept.Unknown = true, max(kept.After, after), nil
	l.keep(kept)
}

// signed is told that this node signed something for a height. Again: another process keeps the
// last signature, and may have given one of the same height before.
func (l *lostVotes) signed(height int64, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.kept.All {
		return
	}
	if again && l.kept.After == 0 {
		l.kept.After = height
	}
	if height <= l.kept.After {
		return
	}
	unknown := l.ordered()
	l.tell(unknown, l.onChain())
	kept := l.kept
	kept.All, kept.After, kept.Unknown = false, 0, &unknown
	l.keep(kept)
	l.log.Info("this organisation votes on effects from now on", "not_on_block", unknown.Number, "round", unknown.Round)
}

// keep waits for the disk. Called with mu held.
func (l *lostVotes) keep(kept keptLostVotes) {
	l.kept = kept
	if err := l.memory.KeepLostVotes(kept); err != nil {
		l.log.Error("a restart may forget on what this organisation must not vote", "error", err)
	}
}

// votesOnDisk are the last votes on effects of a stopped node, by the disk that it left, and what
// that node did not know itself of an earlier one.
func votesOnDisk(home config.Home) (keptLostVotes, error) {
	logged, reach, err := lastVotes(filepath.Join(home.Data(), "cs.wal", "wal"))
	if err != nil {
		return keptLostVotes{}, err
	}
	db, err := openOwnStore(home.Data())
	if err != nil {
		return keptLostVotes{}, fmt.Errorf("open the lost node's store: %w", err)
	}
	defer db.Close()
	kept, err := (&ownVotes{db: db}).open()
	lost, errLost := memory{db}.LostVotes()
	if err := errors.Join(err, errLost); err != nil {
		return keptLostVotes{}, err
	}
	for _, vote := range append(kept, logged...) {
		lost.Voted = append(lost.Voted, vote.Encode())
	}
	lost.Known = max(lost.Known, reach)
	return lost, nil
}

var lostVotesKey = []byte("node/lost-votes")

// LostVotes reads what KeepLostVotes kept.
func (m memory) LostVotes() (kept keptLostVotes, err error) {
	raw, err := m.db.Get(lostVotesKey)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return kept, fmt.Errorf("read what is known of the lost node's votes: %w", err)
	}
	return kept, nil
}

// KeepLostVotes waits for the disk.
func (m memory) KeepLostVotes(kept keptLostVotes) error {
	raw, err := json.Marshal(kept)
	if err == nil {
		err = m.db.SetSync(lostVotesKey, raw)
	}
	if err != nil {
		return fmt.Errorf("keep what is known of the lost node's votes: %w", err)
	}
	return nil
}

// VoteAgain has the node of a home, which does not run, vote on the executions from which it
// abstains for the sake of a lost node. The operator vouches that the lost node did not vote
// otherwise.
func VoteAgain(home config.Home) (err error) {
	db, err := openOwnStore(home.Data())
	if err != nil {
		return fmt.Errorf("open the node's store (does the node run?): %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	kept, err := memory{db}.LostVotes()
	switch {
	case err != nil:
		return err
	case kept.All:
		return errors.New("the node has signed nothing since it took over: start it first, until it signs")
	case kept.Unknown == nil:
		return errors.New("the node abstains from nothing")
	}
	kept.Unknown = nil
	return memory{db}.KeepLostVotes(kept)
}

// takeVotes keeps what the lost node voted on effects, or that nobody knows.
func takeVotes(db dbm.DB, from config.Home, signed bool) error {
	kept := keptLostVotes{All: !signed}
	if signed {
		var err error
		if kept, err = votesOnDisk(from); err != nil {
			return fmt.Errorf("the lost node's votes on effects: %w", err)
		}
	}
	return memory{db}.KeepLostVotes(kept)
}
