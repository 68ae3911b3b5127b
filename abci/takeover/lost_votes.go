package takeover

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/chainify-db/chainify/abci/comet/votelog"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/effects"
	"github.com/chainify-db/chainify/abci/nodestore"
	"github.com/chainify-db/chainify/abci/wire"
)

// LostVotes tells the effect core what is not known of an earlier node's votes. Loss decides.
type LostVotes struct {
	opt LostVotesOptions

	mu   sync.Mutex // guards loss
	loss Loss
}

// LostVotesOptions is what LostVotes works with.
type LostVotesOptions struct {
	Store nodestore.DB
	Log   *slog.Logger
	// Pending are the executions of what is ordered so far; OnChain is this organisation's vote
	// there on what is pending.
	Pending func() effects.Unknown
	OnChain func() []wire.EffectVote
	// Tell tells the effect core.
	Tell func(effects.Unknown, []wire.EffectVote)
}

// NewLostVotes makes it; Start has to be called once.
func NewLostVotes(opt LostVotesOptions) *LostVotes { return &LostVotes{opt: opt} }

// Start tells what was kept, and returns the votes that are known. It comes before effects runs.
func (l *LostVotes) Start() ([]wire.EffectVote, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.loss, err = readLoss(l.opt.Store); err != nil {
		return nil, err
	}
	switch {
	case l.loss.All:
		l.opt.Log.Info("what this organisation voted on effects before is not known: it votes on nothing yet")
		l.opt.Tell(effects.Everything(), nil)
	case l.loss.Unknown != nil:
		l.opt.Tell(*l.loss.Unknown, l.opt.OnChain())
	}
	votes := make([]wire.EffectVote, len(l.loss.Voted))
	for i, raw := range l.loss.Voted {
		if votes[i], err = wire.DecodeEffectVote(raw); err != nil {
			return nil, fmt.Errorf("read the lost node's votes: %w", err)
		}
	}
	return votes, nil
}

// Compare finds whether the log of this node's own votes is lost: its keys signed for heights up to
// last. It comes after Start, and before CometBFT begins a log anew.
func (l *LostVotes) Compare(own votelog.Own, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loss.misses(own, last) {
		l.opt.Log.Warn("the log of this organisation's votes on effects is lost: it votes on nothing before it signs again",
			"signed", last, "log_until", own.Reach)
		l.doubt(last)
	}
}

// Doubted implements keyring.Votes.
func (l *LostVotes) Doubted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loss.All {
		l.doubt(0)
	}
}

// doubt is called with mu held.
func (l *LostVotes) doubt(after int64) {
	l.opt.Tell(effects.Everything(), nil)
	l.keep(l.loss.doubt(after))
}

// Signed implements keyring.Votes.
func (l *LostVotes) Signed(height int64, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, votes := l.loss.signed(height, again, l.opt.Pending)
	if !votes {
		l.loss = next
		return
	}
	l.opt.Tell(*next.Unknown, l.opt.OnChain())
	l.keep(next)
	l.opt.Log.Info("this organisation votes on effects from now on", "not_on_block", next.Unknown.Number, "round", next.Unknown.Round)
}

// keep waits for the disk. Called with mu held.
func (l *LostVotes) keep(loss Loss) {
	l.loss = loss
	if err := keepLoss(l.opt.Store, loss); err != nil {
		l.opt.Log.Error("a restart may forget on what this organisation must not vote", "error", err)
	}
}

// votesOnDisk are the last votes on effects of a stopped node, by the disk that it left, and what
// that node did not know itself of an earlier one.
func votesOnDisk(home config.Home) (Loss, error) {
	logged, reach, err := votelog.Last(filepath.Join(home.Data(), "cs.wal", "wal"))
	if err != nil {
		return Loss{}, err
	}
	db, err := nodestore.Open(home.Data())
	if err != nil {
		return Loss{}, fmt.Errorf("open the lost node's store: %w", err)
	}
	defer db.Close()
	kept, err := votelog.NewStore(db).Open()
	lost, errLost := readLoss(db)
	if err := errors.Join(err, errLost); err != nil {
		return Loss{}, err
	}
	for _, vote := range append(kept, logged...) {
		lost.Voted = append(lost.Voted, vote.Encode())
	}
	lost.Known = max(lost.Known, reach)
	return lost, nil
}

var lossKey = []byte("node/lost-votes")

// readLoss reads what keepLoss kept.
func readLoss(db nodestore.DB) (kept Loss, err error) {
	raw, err := db.Get(lossKey)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &kept)
	}
	if err != nil {
		return kept, fmt.Errorf("read what is known of the lost node's votes: %w", err)
	}
	return kept, nil
}

// keepLoss waits for the disk.
func keepLoss(db nodestore.DB, kept Loss) error {
	raw, err := json.Marshal(kept)
	if err == nil {
		err = db.SetSync(lossKey, raw)
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
	db, err := nodestore.Open(home.Data())
	if err != nil {
		return fmt.Errorf("open the node's store (does the node run?): %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	kept, err := readLoss(db)
	switch {
	case err != nil:
		return err
	case kept.All:
		return errors.New("the node has signed nothing since it took over: start it first, until it signs")
	case kept.Unknown == nil:
		return errors.New("the node abstains from nothing")
	}
	kept.Unknown = nil
	return keepLoss(db, kept)
}

// takeVotes keeps what the lost node voted on effects, or that nobody knows.
func takeVotes(db nodestore.DB, from config.Home, signed bool) error {
	kept := Loss{All: !signed}
	if signed {
		var err error
		if kept, err = votesOnDisk(from); err != nil {
			return fmt.Errorf("the lost node's votes on effects: %w", err)
		}
	}
	return keepLoss(db, kept)
}
