package node

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
)

// A node that took over signs nothing until a block is later than that by more than clocks differ,
// also after a restart. One that took nothing over signs at once.
func TestANodeThatTookOverIsSilentUntilOthersWentOn(t *testing.T) {
	m := memory{dbm.NewMemDB()}
	open := func() *silence {
		t.Helper()
		s, err := newSilence(m, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := open().check(); err != nil {
		t.Errorf("a node that took nothing over: %v", err)
	}
	since := time.Now().Round(0)
	if err := m.TakeOver(since); err != nil {
		t.Fatal(err)
	}
	for _, late := range []time.Duration{-time.Hour, 0, clockMargin} {
		s := open()
		s.decided(since.Add(late).UnixMicro())
		if err := s.check(); !errors.Is(err, errSilent) {
			t.Errorf("after a block %s later: %v, want that it is silent", late, err)
		}
		k := &keys{silent: s.check}
		if err := k.SignVote("test", &cmtproto.Vote{Height: 9}); !errors.Is(err, errSilent) {
			t.Errorf("a vote after a block %s later: %v", late, err)
		}
	}
	s := open()
	s.decided(since.Add(clockMargin + time.Millisecond).UnixMicro())
	if err := s.check(); err != nil {
		t.Errorf("after a later block: %v", err)
	}
	if err := open().check(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}
