package signer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

const chain = "test"

// place is a key's files in a directory.
type place struct{ key, state string }

func newPlace(t testing.TB) place {
	t.Helper()
	dir := t.TempDir()
	p := place{filepath.Join(dir, "key.json"), filepath.Join(dir, "priv_validator_state.json")}
	privval.NewFilePV(ed25519.GenPrivKeyFromSecret([]byte("acme")), p.key, p.state).Save()
	return p
}

func (p place) comet() *privval.FilePV { return privval.LoadFilePV(p.key, p.state) }

func (p place) open(t testing.TB) *Signer {
	t.Helper()
	s, err := Open(p.comet(), p.state)
	must.Do(t, err)
	t.Cleanup(func() { _ = s.Close() }) // tests close some of them
	return s
}

// vote asks for a precommit for one of a few blocks; 0: for none.
func vote(height int64, round int32, kind cmtproto.SignedMsgType, block byte, at int64) *cmtproto.Vote {
	v := &cmtproto.Vote{Type: kind, Height: height, Round: round, Timestamp: time.Unix(at, 0).UTC()}
	if block > 0 {
		id := slices.Repeat([]byte{block}, 32)
		v.BlockID = cmtproto.BlockID{Hash: id, PartSetHeader: cmtproto.PartSetHeader{Total: 1, Hash: id}}
		if kind == cmtproto.PrecommitType {
			v.Extension = []byte{block}
		}
	}
	return v
}

func precommit(height int64) *cmtproto.Vote {
	return vote(height, 0, cmtproto.PrecommitType, 1, height)
}

func proposal(height int64, round int32, block byte, at int64) *cmtproto.Proposal {
	id := slices.Repeat([]byte{block}, 32)
	return &cmtproto.Proposal{
		Type: cmtproto.ProposalType, Height: height, Round: round, PolRound: -1, Timestamp: time.Unix(at, 0).UTC(),
		BlockID: cmtproto.BlockID{Hash: id, PartSetHeader: cmtproto.PartSetHeader{Total: 1, Hash: id}},
	}
}

// CometBFT's own signer and this one agree on each of many requests in random order, also over
// restarts and when the files change hands in the middle.
func TestSignerDecidesAsCometBFT(t *testing.T) {
	random := seeded.Random(t)
	ours, theirs := newPlace(t), newPlace(t)
	s, comet := ours.open(t), theirs.comet()
	var height int64 = 1
	for n := range 1500 {
		switch random.IntN(40) {
		case 0:
			must.Do(t, s.Close())
			if random.IntN(2) == 0 {
				must.Do(t, GiveBack(ours.comet(), ours.state))
			}
			s, comet = ours.open(t), theirs.comet()
		case 1, 2, 3, 4:
			height++
		}
		at, round, block := height-random.Int64N(2), int32(random.IntN(2)), byte(random.IntN(3))
		var got, want any
		var errGot, errWant error
		if kind := random.IntN(3); kind == 0 {
			a, b := proposal(at, round, block, int64(n)), proposal(at, round, block, int64(n))
			errGot, errWant = s.SignProposal(chain, a), comet.SignProposal(chain, b)
			got, want = a, b
		} else {
			a, b := vote(at, round, cmtproto.SignedMsgType(kind), block, int64(n)), vote(at, round, cmtproto.SignedMsgType(kind), block, int64(n))
			errGot, errWant = s.SignVote(chain, a), comet.SignVote(chain, b)
			got, want = a, b
		}
		if (errGot == nil) != (errWant == nil) {
			t.Fatalf("request %d: %v, CometBFT says %v", n, errGot, errWant)
		}
		if errGot == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("request %d: signed %v, CometBFT %v", n, got, want)
		}
	}
}

// A damaged record of the last signature is told and refused, be it the newest or the one before,
// wherever the damage is. Nothing is signed from the record before.
func TestADamagedRecordIsRefused(t *testing.T) {
	for _, last := range []int64{1, 6, 7} { // the newest record is in one place or the other
		p := newPlace(t)
		s := p.open(t)
		for h := int64(1); h <= last; h++ {
			must.Do(t, s.SignVote(chain, precommit(h)))
		}
		must.Do(t, s.Close())
		good, err := os.ReadFile(Path(p.state))
		must.Do(t, err)
		for _, at := range []int{0, pageBytes} {
			for cut := 0; cut < recordBytes; cut += 29 {
				zeroed := slices.Concat(good[:at+cut], make([]byte, recordBytes-cut), good[at+recordBytes:])
				flipped := slices.Clone(good)
				flipped[at+cut] ^= 0x10
				for name, file := range map[string][]byte{"zeros from": zeroed, "a bit at": flipped} {
					if slices.Equal(file, good) {
						continue // the end of a record is zeros
					}
					must.Do(t, os.WriteFile(Path(p.state), file, 0o600))
					if again, err := Open(p.comet(), p.state); err == nil || !strings.Contains(err.Error(), "damaged") {
						t.Fatalf("%d signed, %s %d of the record at %d: %v, %v", last, name, cut, at, again, err)
					}
				}
			}
		}
		must.Do(t, os.WriteFile(Path(p.state), good, 0o600))
		must.Do(t, p.open(t).Close())
	}
}

// A signature that could not be kept is not given out, and the step can still be signed.
func TestSignatureThatIsNotKeptStays(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	must.Do(t, s.SignVote(chain, precommit(1)))
	file := s.file
	s.file = full{}
	v := precommit(2)
	if err := s.SignVote(chain, v); err == nil || len(v.Signature) > 0 {
		t.Fatalf("signed on a full disk: %v, %x", err, v.Signature)
	}
	s.file = file
	must.Do(t, s.SignVote(chain, vote(2, 0, cmtproto.PrecommitType, 2, 3)))
}

type full struct{}

func (full) save(Last) error { return errors.New("no space left on device") }
func (full) close() error    { return nil }

// While the file has the last signature, CometBFT's own signer refuses everything; given back, it
// goes on from there. A crash in the middle of either leaves both, and the newer one counts.
func TestFilesChangeHands(t *testing.T) {
	p := newPlace(t)
	comet := p.comet()
	must.Do(t, comet.SignVote(chain, precommit(3)))
	stale, err := os.ReadFile(p.state)
	must.Do(t, err)
	s := p.open(t)
	if err := s.SignVote(chain, vote(3, 0, cmtproto.PrecommitType, 2, 3)); err == nil {
		t.Error("the last signature of CometBFT's file was not taken over")
	}
	must.Do(t, s.SignVote(chain, precommit(4)))
	must.Do(t, s.Close())
	if err := p.comet().SignVote(chain, precommit(9)); err == nil {
		t.Error("CometBFT's signer signs beside the other file")
	}
	slotsThen, err := os.ReadFile(Path(p.state))
	must.Do(t, err)

	must.Do(t, os.WriteFile(p.state, stale, 0o600)) // as if CometBFT's state was never marked
	s = p.open(t)
	if s.last.Height != 4 {
		t.Errorf("height %d, want the newer 4", s.last.Height)
	}
	must.Do(t, s.Close())

	must.Do(t, GiveBack(p.comet(), p.state))
	comet = p.comet()
	if err := comet.SignVote(chain, vote(4, 0, cmtproto.PrecommitType, 2, 4)); err == nil {
		t.Error("given back, another vote of height 4 is signed")
	}
	must.Do(t, comet.SignVote(chain, precommit(5)))
	must.Do(t, os.WriteFile(Path(p.state), slotsThen, 0o600)) // as if it was never removed
	must.Do(t, GiveBack(p.comet(), p.state))
	if h := p.comet().LastSignState.Height; h != 5 {
		t.Errorf("height %d, want the newer 5", h)
	}
	s = p.open(t)
	must.Do(t, s.Close())
	must.Do(t, os.Remove(Path(p.state)))
	if _, err := Open(p.comet(), p.state); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("without any last signature: %v", err)
	}
	if err := GiveBack(p.comet(), p.state); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("nothing to give back: %v", err)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	p := newPlace(t)
	s := p.open(t)
	must.Do(t, s.SignVote(chain, precommit(1)))
	must.Do(t, s.SignVote(chain, precommit(2)))
	must.Do(t, s.Close())
	good, err := os.ReadFile(Path(p.state))
	must.Do(t, err)
	older, err := (&Last{Height: 1, SignBytes: []byte{1}, Signature: []byte{1}}).encode(5)
	must.Do(t, err)
	for name, content := range map[string][]byte{
		"both records": make([]byte, fileBytes), "its end": good[:fileBytes-1], "more than its end": append(slices.Clone(good), 0),
		"nothing":                 {},
		"records that contradict": slices.Concat(good[:pageBytes], older, good[pageBytes+recordBytes:]),
		"records in wrong places": slices.Concat(good[pageBytes:], good[:pageBytes]),
	} {
		must.Do(t, os.WriteFile(Path(p.state), content, 0o600))
		if s, err := Open(p.comet(), p.state); err == nil {
			t.Errorf("%s: opened, last signature of height %d", name, s.last.Height)
		}
	}
}

const killedState = "CHAINIFY_TEST_SIGNER"

// TestSignerThatIsKilled signs height after height until it is killed, and tells each height.
func TestSignerThatIsKilled(t *testing.T) {
	dir := os.Getenv(killedState)
	if dir == "" {
		t.Skip("run by TestKilledSignerKnowsWhatItGaveOut")
	}
	p := place{filepath.Join(dir, "key.json"), filepath.Join(dir, "priv_validator_state.json")}
	s := p.open(t)
	for h := s.last.Height + 1; ; h++ {
		must.Do(t, s.SignVote(chain, precommit(h)))
		fmt.Printf("signed %d\n", h)
	}
}

func TestKilledSignerKnowsWhatItGaveOut(t *testing.T) {
	random := seeded.Random(t)
	p := newPlace(t)
	for range 5 {
		child := exec.Command(os.Args[0], "-test.run=^TestSignerThatIsKilled$", "-test.timeout=1m")
		child.Env = append(os.Environ(), killedState+"="+filepath.Dir(p.state))
		out, err := child.StdoutPipe()
		must.Do(t, err)
		must.Do(t, child.Start())
		var told int64
		lines := bufio.NewScanner(out)
		for left := 1 + random.IntN(50); lines.Scan(); left-- {
			if text, ok := strings.CutPrefix(lines.Text(), "signed "); ok {
				told, err = strconv.ParseInt(text, 10, 64)
				must.Do(t, err)
			}
			if left == 0 {
				must.Do(t, child.Process.Kill())
			}
		}
		_ = child.Wait() // killed
		s := p.open(t)
		if s.last.Height < told || told == 0 {
			t.Fatalf("the last signature is of height %d, and one of %d was given out", s.last.Height, told)
		}
		must.Do(t, s.Close())
	}
}

func FuzzRecord(f *testing.F) {
	one, err := (&Last{Height: 7, Round: 1, Step: stepPrevote, SignBytes: []byte("signed"), Signature: make([]byte, 64)}).encode(9)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(one)
	f.Add(make([]byte, recordBytes))
	f.Fuzz(func(t *testing.T, record []byte) {
		for _, input := range [][]byte{record, sealed(record)} {
			l, number, err := decode(input)
			if err != nil {
				continue
			}
			again, err := l.encode(number)
			must.Do(t, err)
			if !slices.Equal(again, input) {
				t.Fatalf("%x is another spelling of %x", input, again)
			}
		}
	})
}

// sealed gives a record a magic and a checksum that fit, so that the rest of it is reached.
func sealed(record []byte) []byte {
	out := make([]byte, recordBytes)
	copy(out, record)
	copy(out, magic)
	copy(out[sumAt:], checksum(out))
	return out
}

// A vote's extension is signed by the bytes that auditors check without CometBFT.
func TestAnExtensionIsSignedByTheBytesThatAuditorsCheck(t *testing.T) {
	random := seeded.Random(t)
	for range 1_000 {
		v := &cmtproto.Vote{Height: random.Int64N(1 << 40), Round: int32(random.IntN(3)), Extension: make([]byte, random.IntN(200))}
		id := strings.Repeat("c", random.IntN(3))
		if got, want := wire.ExtensionSignBytes(id, v.Height, v.Round, v.Extension), types.VoteExtensionSignBytes(id, v); !bytes.Equal(got, want) {
			t.Fatalf("chain %q, %+v: %x, want %x", id, v, got, want)
		}
	}
}
