package node

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cometbft/cometbft/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// votedMax bounds the executions whose own votes are remembered over a restart; those of now are the last ones.
const votedMax = 32

// voted reads what this node voted on effects at heights from on, one vote for each execution, from the log that CometBFT keeps of its
// consensus beside head (E5). CometBFT writes a precommit there, and waits for the disk, before any other node can see it. The log is read before
// CometBFT starts. It begins anew every 10 MB, so that little more is read than was written from that height on.
func voted(head string, from int64) ([]wire.EffectVote, error) {
	files, err := filepath.Glob(head + ".[0-9]*")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int { // by their numbers, the newest first
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a))
	})
	var all []wire.EffectVote
	for _, file := range append([]string{head}, files...) {
		votes, before, err := votedIn(file, from)
		if err != nil {
			return nil, fmt.Errorf("read own votes: %w", err)
		}
		all = append(votes, all...)
		if before {
			break
		}
	}
	var first []wire.EffectVote
	for _, v := range all {
		if !slices.ContainsFunc(first, func(w wire.EffectVote) bool { return w.Key() == v.Key() }) {
			first = append(first, v)
		}
	}
	return first[max(0, len(first)-votedMax):], nil
}

// votedIn reads one file of the log; before tells that an earlier one holds nothing from that height on.
func votedIn(file string, from int64) (votes []wire.EffectVote, before bool, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for in := consensus.NewWALDecoder(bufio.NewReader(f)); ; {
		m, err := in.Decode()
		if errors.Is(err, io.EOF) || consensus.IsDataCorruptionError(err) {
			return votes, before, nil // the end of what was written whole; CometBFT cuts the log there
		}
		if err != nil {
			return nil, false, err
		}
		if end, ok := m.Msg.(consensus.EndHeightMessage); ok {
			before = before || end.Height < from
			continue
		}
		if v := ownPrecommit(m.Msg); v != nil && v.Height >= from {
			if vote, err := wire.DecodeEffectVote(v.Extension); err == nil && !slices.Contains(votes, vote) {
				votes = append(votes, vote)
			}
		}
	}
}

// ownPrecommit is the precommit that a message of the log holds, when this node made it; nil for all else. What peers sent stands there unchecked.
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
