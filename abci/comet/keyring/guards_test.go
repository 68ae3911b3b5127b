package keyring

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/takeover"
)

// told is an order whose nodes told how far they are.
type told struct {
	heights map[string]int64
	before  bool // the key was a validator's before
}

func (o *told) Reported() map[string]int64     { return o.heights }
func (o *told) Counted(h int64, _ []byte) bool { return o.before && h > 0 }

// signing is the node of a home, as far as it signs.
type signing struct {
	t      *testing.T
	home   config.Home
	order  *told
	guards *Guards
	keys   *Keyring
	next   int64
	log    bytes.Buffer
}

// signs makes the homes of four organisations, and the node of the first.
func signs(t *testing.T) *signing {
	t.Helper()
	return signsAmong(t, "acme", "bolt", "cargo", "delta")
}

func signsAmong(t *testing.T, organisations ...string) *signing {
	t.Helper()
	homes, err := config.Testnet{
		Dir: filepath.Join(t.TempDir(), "net"), ChainID: "test", Organisations: organisations, BasePort: 26656, Mode: config.Balanced, Now: time.Now(),
	}.Create()
	if err != nil {
		t.Fatal(err)
	}
	s := &signing{t: t, home: homes[0], next: 1}
	s.start(map[string]int64{}, false)
	return s
}

// start starts the node anew, where the others are at heights.
func (s *signing) start(heights map[string]int64, before bool) {
	s.t.Helper()
	if s.keys != nil {
		s.stop()
	}
	s.must(s.open(slog.New(slog.NewTextHandler(&s.log, nil))))
	s.order = &told{heights: heights, before: before}
	s.guards.Attach(s.order)
}

// open reads the keys and what is kept of them.
func (s *signing) open(log *slog.Logger) error {
	_, _, founded, err := s.home.Founded()
	if err != nil {
		return err
	}
	registry := func() *order.Registry { return founded }
	if s.guards, err = NewGuards(s.home, "test", registry, log); err != nil {
		return err
	}
	s.keys, err = Open(Options{
		Home: s.home, Config: config.Default("acme"), Registry: registry, Guards: s.guards, Log: log,
		Newer: func() error { return nil }, Next: func() int64 { return s.next },
	})
	return err
}

func (s *signing) stop() {
	if err := s.keys.Close(); err != nil {
		s.t.Error(err)
	}
	s.keys = nil
}

// sign asks for a precommit of a height, as CometBFT does.
func (s *signing) sign(height int64) (*cmtproto.Vote, error) {
	vote := &cmtproto.Vote{Type: cmtproto.PrecommitType, Height: height, ValidatorAddress: s.keys.Counting().Key.Address, Timestamp: time.Now()}
	return vote, s.keys.SignVote("test", vote)
}

// asked tells whether CometBFT would ask for votes of the key.
func (s *signing) asked() bool {
	s.t.Helper()
	public, err := s.keys.GetPubKey()
	if err != nil {
		s.t.Fatal(err)
	}
	return bytes.Equal(public.Address(), s.keys.Counting().Key.Address)
}

// loseData leaves the node's keys, and a last signature as the chart's init container writes it.
func (s *signing) loseData() {
	s.t.Helper()
	s.stop()
	err := os.RemoveAll(s.home.Data())
	if err == nil {
		err = os.Mkdir(s.home.Data(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(s.home.Path("data", "priv_validator_state.json"), []byte(`{"height":"0","round":0,"step":0}`+"\n"), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *signing) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// A node whose directory data was lost signs only for heights that it cannot have signed for. The
// others' nodes tell them, also after further restarts. A new home signs at once.
func TestALostDirectorySignsNothingTwice(t *testing.T) {
	s := signs(t)
	s.start(nil, true) // unused over a restart
	for h := int64(1); h <= 7; h++ {
		_, err := s.sign(h)
		s.must(err)
	}
	s.loseData()
	s.start(map[string]int64{"bolt": 7, "cargo": 8}, true)
	s.next = 8
	if _, err := s.sign(8); !errors.Is(err, signer.ErrSilent) || !strings.Contains(err.Error(), "delta") || s.asked() {
		t.Fatalf("before delta has told: %v", err)
	}
	s.order.heights["delta"] = 6
	if _, err := s.sign(9); !errors.Is(err, signer.ErrSilent) {
		t.Fatalf("where the lost one can have signed: %v", err)
	}
	s.start(map[string]int64{"bolt": 9, "cargo": 9, "delta": 9}, true)
	s.next = 10
	if _, err := s.sign(10); !errors.Is(err, signer.ErrSilent) {
		t.Fatalf("after a restart: %v", err)
	}
	s.next = 11
	if !s.asked() {
		t.Error("CometBFT would not ask for votes")
	}
	_, err := s.sign(11)
	s.must(err)
	s.start(nil, true)
	_, err = s.sign(12)
	s.must(err)
}

// A chain begins with keys whose homes have no mark that they are unused, as in Kubernetes. The
// node signs when enough others are there, also the vote that it was asked for too early.
func TestAKeyBeginsWithItsChain(t *testing.T) {
	s := signs(t)
	s.loseData()
	s.start(map[string]int64{"bolt": 1}, false)
	if !s.asked() {
		t.Fatal("CometBFT does not ask for the first vote")
	}
	early, err := s.sign(1)
	if !errors.Is(err, signer.ErrSilent) || s.guards.Late(s.keys.Counting(), 1) != nil {
		t.Fatalf("with one other: %v", err)
	}
	s.order.heights["cargo"] = 1
	late := s.guards.Late(s.keys.Counting(), 1)
	if late == nil || late.Height != early.Height {
		t.Fatalf("the vote that was asked for is %v", late)
	}
	s.must(s.keys.SignVote("test", late))
	if s.guards.Late(s.keys.Counting(), 1) != nil {
		t.Error("it is given out twice")
	}
}

// A node that hears a vote of its own key, made elsewhere, signs nothing any more. It says so, over
// restarts, until its operator says that the other process is off.
func TestANodeStopsForATwin(t *testing.T) {
	s := signs(t)
	_, err := s.sign(1)
	s.must(err)
	own, err := s.sign(2)
	s.must(err)
	s.next = 3
	s.guards.Overheard(own, s.next)
	forged := *own
	forged.Round = 3
	s.guards.Overheard(&forged, s.next)
	if stopped, why := s.guards.Why(s.keys.Counting(), s.next); stopped || why != nil {
		t.Fatalf("by its own vote, or a forged one: %v", why)
	}

	key, err := s.home.Validator()
	s.must(err)
	twin := &cmtproto.Vote{Type: cmtproto.PrevoteType, Height: 3, ValidatorAddress: key.Key.Address, Timestamp: time.Now()}
	signed, err := key.Key.PrivKey.Sign(types.VoteSignBytes("test", twin))
	s.must(err)
	twin.Signature = signed
	s.guards.Overheard(twin, s.next)
	for range 2 {
		stopped, why := s.guards.Why(s.keys.Counting(), s.next)
		if !stopped || !strings.Contains(why.Error(), "seen at order block 3") || s.asked() {
			t.Fatalf("stopped %v, %v", stopped, why)
		}
		if _, err := s.sign(99); !errors.Is(err, signer.ErrElsewhere) {
			t.Fatalf("it signs: %v", err)
		}
		s.start(map[string]int64{"bolt": 5, "cargo": 5, "delta": 5}, true)
	}
	if !strings.Contains(s.log.String(), "another process signs") {
		t.Errorf("the log says %s", &s.log)
	}

	s.stop()
	s.must(takeover.SignAgain(s.home, 0))
	s.start(map[string]int64{"bolt": 5, "cargo": 5, "delta": 5}, true)
	if _, err := s.sign(6); !errors.Is(err, signer.ErrSilent) {
		t.Errorf("where the twin can have signed: %v", err)
	}
	_, err = s.sign(7)
	s.must(err)
}

// A node that took over signs nothing where the lost one can have signed, whatever its clock says.
func TestATwinIsSeenInDecidedBlocksAndEvidence(t *testing.T) {
	for name, decide := range map[string]func(*Guards, []byte){
		"a precommit": func(s *Guards, address []byte) {
			s.Decided(9, abci.CommitInfo{Votes: []abci.VoteInfo{{Validator: abci.Validator{Address: address}, BlockIdFlag: cmtproto.BlockIDFlagCommit}}}, nil)
		},
		"evidence": func(s *Guards, address []byte) {
			s.Decided(9, abci.CommitInfo{}, []abci.Misbehavior{{Type: abci.MisbehaviorType_DUPLICATE_VOTE, Validator: abci.Validator{Address: address}, Height: 8}})
		},
	} {
		s := signs(t)
		_, err := s.sign(7)
		s.must(err)
		decide(s.guards, []byte("another validator's 20"))
		if _, err := s.sign(10); err != nil {
			t.Errorf("%s of another: %v", name, err)
		}
		s = signs(t)
		_, err = s.sign(7)
		s.must(err)
		decide(s.guards, s.keys.Counting().Key.Address)
		if _, err := s.sign(10); !errors.Is(err, signer.ErrElsewhere) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An old copy of a home joins by a snapshot: newer signatures of its key are in blocks that it
// never sees. It signs only where the key cannot have signed, also after restarts. Where each block
// needs the key, the blocks after the snapshot show whether there are newer ones.
func TestAnOldCopyThatJoinsSignsNothingTwice(t *testing.T) {
	s := signs(t)
	_, err := s.sign(7)
	s.must(err)
	at := map[string]int64{"bolt": 20, "cargo": 20, "delta": 20}
	s.start(at, true)
	s.must(s.guards.Joins())
	s.start(at, true)
	s.guards.Decided(16, abci.CommitInfo{}, nil)
	for range 2 {
		s.next = 21
		if _, err := s.sign(21); !errors.Is(err, signer.ErrSilent) || s.asked() {
			t.Fatalf("where the key may have signed: %v", err)
		}
		s.start(at, true)
		s.guards.Decided(17, abci.CommitInfo{}, nil)
	}
	s.next = 22
	_, err = s.sign(22)
	s.must(err)

	s = signsAmong(t, "acme", "bolt", "cargo")
	_, err = s.sign(7)
	s.must(err)
	s.start(at, true)
	s.must(s.guards.Joins())
	s.guards.Decided(16, abci.CommitInfo{}, nil)
	_, err = s.sign(17)
	s.must(err)
	address := s.keys.Counting().Key.Address
	s.guards.Decided(19, abci.CommitInfo{Votes: []abci.VoteInfo{{Validator: abci.Validator{Address: address}, BlockIdFlag: cmtproto.BlockIDFlagCommit}}}, nil)
	if _, err := s.sign(20); err == nil {
		t.Error("it signs after a block with a newer signature")
	}

	unused := signs(t)
	s.must(unused.guards.Joins())
	unused.guards.Decided(16, abci.CommitInfo{}, nil)
	_, err = unused.sign(17)
	s.must(err)
}

// An operator who knows up to where a lost key signed has it sign beyond, where no others can tell.
func TestAnOperatorSaysWhereAKeySignedLast(t *testing.T) {
	s := signs(t)
	_, err := s.sign(7)
	s.must(err)
	s.loseData()
	s.must(takeover.SignAgain(s.home, 7))
	s.start(nil, true)
	if _, err := s.sign(7); err == nil {
		t.Error("it signs where it had signed")
	}
	_, err = s.sign(8)
	s.must(err)
	s.stop()
	if err := takeover.SignAgain(s.home, 5); err == nil || !strings.Contains(err.Error(), "8") {
		t.Errorf("an operator who is mistaken: %v", err)
	}
}

// A damaged file of the last signature keeps a node from starting, until its operator says so.
func TestADamagedLastSignatureKeepsANodeFromStarting(t *testing.T) {
	s := signs(t)
	_, err := s.sign(7)
	s.must(err)
	s.stop()
	slots := s.home.Path("data", "priv_validator_state.slots")
	file, err := os.ReadFile(slots)
	s.must(err)
	file[40] ^= 1 // one record
	s.must(os.WriteFile(slots, file, 0o600))
	if err := s.open(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Fatalf("%v", err)
	}
	s.must(takeover.SignAgain(s.home, 0))
	s.start(map[string]int64{"bolt": 7, "cargo": 7, "delta": 8}, true)
	if _, err := s.sign(9); !errors.Is(err, signer.ErrSilent) {
		t.Errorf("where the damaged record can have been of: %v", err)
	}
	_, err = s.sign(10)
	s.must(err)
}

// A machine is lost while it works on the first order block, which nobody has decided. The standby
// that takes over signs nothing for that block, also after a restart: the lost one may have.
func TestATakeOverDoesNotBeginTheChainAgain(t *testing.T) {
	s := signs(t)
	now := time.Now()
	s.loseData()
	s.must(s.home.KeepSigning(config.Signing{DoubtSince: &now})) // as TakeOver does
	for range 2 {
		s.start(map[string]int64{"bolt": 1, "cargo": 1, "delta": 1}, false)
		if _, err := s.sign(1); !errors.Is(err, signer.ErrSilent) {
			t.Fatalf("%v, want that it waits", err)
		}
	}
	s.next = 3
	_, err := s.sign(3)
	s.must(err)
}
