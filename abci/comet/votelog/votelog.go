// Package votelog knows what this organisation's node voted on effects: from the log that CometBFT
// keeps of its consensus, and from a store of the node's own.
package votelog

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

// Max bounds the executions whose own votes are remembered over a restart; those of now are
// the last ones.
const Max = 32

// Own is a node's knowledge, at its start, of its own votes on effects.
type Own struct {
	Votes []wire.EffectVote // the first one for each execution, the oldest first
	// From is the first height whose precommits matter, Reach the last one of which all own
	// precommits are known.
	From, Reach int64
}

// Lost tells whether a node that signed for heights up to last may have voted what is not known
// here.
func (o Own) Lost(last int64) bool { return last >= o.From && last > o.Reach }

// Read reads what this node voted on effects at heights from on, one vote for each execution. It
// reads the log that CometBFT keeps of its consensus beside head (E5). CometBFT writes a precommit
// there, and waits for the disk, before any other node can see it. The node reads the log before
// CometBFT starts, the newest file first, back to that height. Organisations vote again on what is
// pending at each height. So a vote on it also ends the reading, once all of height next was read.
// CometBFT begins a file every 10 MB. The end of each height stands in the log before the first
// signature for the next one.
func Read(head string, from, next int64, pending wire.Key) (Own, error) {
	out := Own{From: from}
	files, err := logFiles(head)
	if err != nil {
		return out, err
	}
	var all []wire.EffectVote
	whole, reach := false, int64(0)
	for _, file := range files {
		one, err := votedIn(file, from)
		if err != nil {
			return out, fmt.Errorf("read own votes: %w", err)
		}
		all, reach = append(one.votes, all...), max(reach, one.reach)
		if one.since < from || one.since < next && slices.ContainsFunc(all, func(v wire.EffectVote) bool { return v.Key() == pending }) {
			whole = true
			break
		}
	}
	out.Votes = firstVotes(all)
	if whole { // otherwise its oldest files are gone
		out.Reach = reach
	}
	return out, nil
}

// Last reads what a stopped node voted last, one vote for each execution, and the height that
// its log reaches. Organisations vote again on what is pending at each height, of which the last
// 10 MB of the log have hundreds.
func Last(head string) (votes []wire.EffectVote, reach int64, err error) {
	files, err := logFiles(head)
	if err != nil {
		return nil, 0, err
	}
	for _, file := range files[:min(2, len(files))] {
		one, err := votedIn(file, 0)
		if err != nil {
			return nil, 0, fmt.Errorf("read own votes: %w", err)
		}
		votes, reach = append(one.votes, votes...), max(reach, one.reach)
	}
	return firstVotes(votes), reach, nil
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
	return first[max(0, len(first)-Max):]
}

// logFile is what one file of the log holds. The end of height since stands in it: no earlier file
// holds anything of a later height. It holds something of height reach, and nothing of a later one.
type logFile struct {
	votes        []wire.EffectVote
	since, reach int64
}

// votedIn reads one file of the log.
func votedIn(file string, from int64) (logFile, error) {
	out := logFile{since: math.MaxInt64}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer f.Close()
	for in := consensus.NewWALDecoder(bufio.NewReader(f)); ; {
		m, err := in.Decode()
		if errors.Is(err, io.EOF) || consensus.IsDataCorruptionError(err) {
			return out, nil // the end of what was written whole; CometBFT cuts the log there
		}
		if err != nil {
			return out, err
		}
		if end, ok := m.Msg.(consensus.EndHeightMessage); ok {
			out.since, out.reach = min(out.since, end.Height), max(out.reach, end.Height+1)
			continue
		}
		v := ownVote(m.Msg)
		if v == nil {
			continue
		}
		out.reach = max(out.reach, v.Height)
		if v.Type == cmtproto.PrecommitType && v.Height >= from {
			if vote, err := wire.DecodeEffectVote(v.Extension); err == nil && !slices.Contains(out.votes, vote) {
				out.votes = append(out.votes, vote)
			}
		}
	}
}

// ownVote is the vote that a message of the log holds, when this node made it; nil for all else.
// Peers' messages stand there unchecked.
func ownVote(m consensus.WALMessage) *cmtproto.Vote {
	encoded, err := consensus.WALToProto(m) // the log's own type is not exported
	if err != nil {
		return nil
	}
	info := encoded.GetMsgInfo()
	if info == nil || info.PeerID != "" {
		return nil
	}
	return info.Msg.GetVote().GetVote()
}
