package keyring

import (
	"errors"
	"testing"

	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/wire"
)

// Neither votes nor proposals are signed under a version that is not known.
func TestNothingIsSignedUnderAVersionThatIsNotKnown(t *testing.T) {
	newer := &wire.NewerProtocolError{Version: 2, Height: 9, Known: 1}
	k := &Keyring{opt: Options{Newer: func() error { return newer }}}
	if err := k.SignVote("test", &cmtproto.Vote{Height: 9}); !errors.Is(err, newer) {
		t.Errorf("a vote: %v", err)
	}
	if err := k.SignProposal("test", &cmtproto.Proposal{Height: 9}); !errors.Is(err, newer) {
		t.Errorf("a proposal: %v", err)
	}
}
