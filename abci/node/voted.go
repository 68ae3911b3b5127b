package node

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cometbft/cometbft/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// votedMax bounds the executions whose own votes are remembered over a restart; those of now are
// the last ones.
const votedMax = 32

// voted reads what this node voted on effects at heights from on, one vote for each execution. It
// reads the log that CometBFT keeps of its consensus beside head (E5). CometBFT writes a precommit
// there, and waits for the disk, before any other node can see it. The node reads the log before
// CometBFT starts, the newest file first, back to that height. Organisations vote again on what is
// pending at each height. So a vote on it also ends the reading, once all of height next was read.
// CometBFT begins a file every 10 MB.
func voted(head string, from, next int64, pending wire.Key) ([]wire.EffectVote, error) {
	files, err := logFiles(head)
	if err != nil {
		return nil, err
	}
	var all []wire.EffectVote
	for _, file := range files {
		votes, since, err := votedIn(file, from)
		if err != nil {
			return nil, fmt.Errorf("read own votes: %w", err)
		}
		all = append(votes, all...)
		if since < from || since < next && slices.ContainsFunc(all, func(v wire.EffectVote) bool { return v.Key() == pending }) {
			break
		}
	}
	return firstVotes(all), nil
}

// lastVotes reads what a stopped node voted last, one vote for each execution. Organisations vote
// again on what is pending at each height, of which the last 10 MB of the log have hundreds.
func lastVotes(head string) ([]wire.EffectVote, error) {
	files, err := logFiles(head)
	if err != nil {
		return nil, err
	}
	var all []wire.EffectVote
	for _, file := range files[:min(2, len(files))] {
		votes, _, err := votedIn(file, 0)
		if err != nil {
			return nil, fmt.Errorf("read own votes: %w", err)
		}
		all = append(votes, all...)
	}
	return firstVotes(all), nil
}

// logFiles are the files of CometBFT's log, the newest first.
func logFiles(head string) ([]string, error) {
	files, err := filepath.Glob(head + ".[0-9]*")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int { // by their numbers
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a))
	})
	return append([]string{head}, files...), nil
}

// firstVotes is the first vote for each of the last executions.
func firstVotes(all []wire.EffectVote) []wire.EffectVote {
	var first wire.FirstVotes[wire.EffectVote]
	for _, v := range all {
		first.Take(v, math.MaxInt, nil)
	}
	return first[max(0, len(first)-votedMax):]
}

// votedIn reads one file of the log, in which the end of height since stands: no earlier file holds
// anything of a later height.
func votedIn(file string, from int64) (votes []wire.EffectVote, since int64, err error) {
	since = math.MaxInt64
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, since, nil
	}
	if err != nil {
		return nil, since, err
	}
	defer f.Close()
	for in := consensus.NewWALDecoder(bufio.NewReader(f)); ; {
		m, err := in.Decode()
		if errors.Is(err, io.EOF) || consensus.IsDataCorruptionError(err) {
			return votes, since, nil // the end of what was written whole; CometBFT cuts the log there
		}
		if err != nil {
			return nil, since, err
		}
		if end, ok := m.Msg.(consensus.EndHeightMessage); ok {
			since = min(since, end.Height)
			continue
		}
		if v := ownPrecommit(m.Msg); v != nil && v.Height >= from {
			if vote, err := wire.DecodeEffectVote(v.Extension); err == nil && !slices.Contains(votes, vote) {
				votes = append(votes, vote)
			}
		}
	}
}

// ownPrecommit is the precommit that a message of the log holds, when this node made it; nil for
// all else. Peers' messages stand there unchecked.
func ownPrecommit(m consensus.WALMessage) *cmtproto.Vote {
	encoded, err := consensus.WALToProto(m) // the log's own type is not exported
	if err != nil {
		return nil
	}
	info := encoded.GetMsgInfo()
	if info == nil || info.PeerID != "" {
		return nil
	}
	if v := info.Msg.GetVote(); v != nil && v.Vote != nil && v.Vote.Type == cmtproto.PrecommitType {
		return v.Vote
	}
	return nil
}
