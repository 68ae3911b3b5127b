package holder

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/comet/signer"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// inFile is a key as a token has it, without a token.
type inFile struct {
	kind    Kind
	private ed25519.PrivateKey
	fails   *error
}

func (k inFile) Kind() Kind                { return k.kind }
func (k inFile) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

func (k inFile) Sign(message []byte) ([]byte, error) {
	if k.fails != nil && *k.fails != nil {
		return nil, *k.fails
	}
	return ed25519.Sign(k.private, message), nil
}

func newKey(kind Kind, seed byte) inFile {
	return inFile{kind: kind, private: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))}
}

// serve serves keys on a socket until the test ends.
func serve(t *testing.T, chainID string, users []uint32, keys ...Key) (address string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.Do(t, err)
	s := &Server{
		ChainID: chainID, Users: users, Keys: func() ([]Key, error) { return keys, nil }, Log: slog.New(slog.DiscardHandler),
		Validator: func(k Key) (types.PrivValidator, error) {
			state := filepath.Join(dir, "state.json")
			pv := privval.NewFilePV(cmted25519.PrivKey(k.(inFile).private), filepath.Join(dir, "key.json"), state)
			pv.LastSignState.Save()
			return signer.Open(pv, state)
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-done)
	})
	return "unix://" + path
}

func me() []uint32 { return []uint32{uint32(os.Getuid())} }

// Gateway keys sign each message that a node or a command has them sign, and nothing else: no
// message of another chain, no transaction of a client, no vote.
func TestGatewayKeysSignMessagesOfGatewaysAlone(t *testing.T) {
	key := newKey(Gateway, 1)
	gateway := Signer(serve(t, "trade", me(), key), key.Public())
	for name, make := range map[string]func(chainID string) []byte{
		"bundle":     func(c string) []byte { return wire.BundleSignBytes(c, bytes.Repeat([]byte{1}, wire.BundleBytesMax)) },
		"governance": func(c string) []byte { return wire.GovernanceSignBytes(c, []byte("change")) },
		"agreement":  func(c string) []byte { return wire.AgreementSignBytes(c, "acme", wire.TxID{}, true) },
		"question":   func(c string) []byte { return wire.AskSignBytes(c, "a", "b", wire.TxID{}) },
		"state":      func(c string) []byte { return wire.StateSignBytes(c, "a", "b", 1, make32()) },
		"vouch":      func(c string) []byte { return wire.NodeSignBytes(c, "acme", "id") },
	} {
		signature, err := gateway.Sign(nil, make("trade"), crypto.Hash(0))
		if err != nil || !ed25519.Verify(key.Public(), make("trade"), signature) {
			t.Errorf("%s: %v", name, err)
		}
		for _, other := range []string{"trade2", "trad", ""} {
			if _, err := gateway.Sign(nil, make(other), crypto.Hash(0)); err == nil || !strings.Contains(err.Error(), "not one of chain") {
				t.Errorf("%s of chain %q: %v", name, other, err)
			}
		}
	}
	vote := types.VoteSignBytes("trade", &cmtproto.Vote{Type: cmtproto.PrecommitType, Height: 1})
	for name, message := range map[string][]byte{
		"nothing": {}, "a text": []byte("hello"), "a vote": vote, "a client's": wire.ProposalSignBytes("trade", []byte("x")),
		"a cut domain": []byte("chainify/bundle/"), "a domain alone": []byte("chainify/bundle/1"), "a file": bytes.Repeat([]byte("chainify"), 9),
	} {
		if signature, err := gateway.Sign(nil, message, crypto.Hash(0)); err == nil {
			t.Errorf("%s was signed: %x", name, signature)
		}
	}
	if _, err := gateway.Sign(nil, make32(), crypto.SHA512); err == nil {
		t.Error("a hash was signed")
	}
}

func make32() []byte { return make([]byte, 32) }

// Without a genesis, as before the chain is founded, keys of both kinds prove that they are there,
// and sign nothing else.
func TestWithoutAGenesisKeysSignPartsAlone(t *testing.T) {
	gateway, validator := newKey(Gateway, 1), newKey(Validator, 2)
	address := serve(t, "", me(), gateway, validator)
	listed, err := List(address)
	must.Do(t, err)
	if len(listed) != 2 || listed[0].Kind != Gateway || !listed[1].Public.Equal(validator.Public()) {
		t.Fatalf("listed %v", listed)
	}
	for _, key := range listed {
		s := Signer(address, key.Public)
		_, err := s.Sign(nil, []byte(partDomain+"…"), crypto.Hash(0))
		must.Do(t, err)
		if _, err := s.Sign(nil, wire.NodeSignBytes("trade", "acme", "id"), crypto.Hash(0)); err == nil {
			t.Errorf("a %v key signed for a node", key.Kind)
		}
	}
	if err := OpenValidator(address, validator.Public()).SignVote("trade", vote(1, 1)); err == nil {
		t.Error("a vote was signed without a genesis")
	}
}

func vote(height int64, block byte) *cmtproto.Vote {
	id := bytes.Repeat([]byte{block}, 32)
	return &cmtproto.Vote{
		Type: cmtproto.PrecommitType, Height: height, Timestamp: time.Unix(height, 0).UTC(), Extension: []byte{block},
		BlockID: cmtproto.BlockID{Hash: id, PartSetHeader: cmtproto.PartSetHeader{Total: 1, Hash: id}},
	}
}

// Two nodes ask for one key: of each step one content is signed, whichever node asks. Each has a
// true signature of it.
func TestTwoNodesGetOneVoteOfAStep(t *testing.T) {
	key := newKey(Validator, 2)
	address := serve(t, "trade", me(), key)
	first, second := OpenValidator(address, key.Public()), OpenValidator(address, key.Public())
	must.Do(t, first.SignVote("trade", vote(5, 1)))
	must.Do(t, second.SignVote("trade", vote(5, 1)))
	if err := second.SignVote("trade", vote(5, 2)); err == nil || !strings.Contains(err.Error(), "something else was signed") {
		t.Errorf("two votes of a step: %v", err)
	}
	if err := second.SignVote("trade", vote(4, 2)); err == nil {
		t.Error("a vote of a step before was signed")
	}
	if err := second.SignVote("other", vote(6, 1)); err == nil {
		t.Error("a vote of another chain was signed")
	}
	must.Do(t, second.SignVote("trade", vote(6, 2)))
	if _, err := Signer(address, key.Public()).Sign(nil, wire.NodeSignBytes("trade", "acme", "id"), crypto.Hash(0)); err == nil {
		t.Error("a validator key signed a gateway's message")
	}
	// The way of gateway messages signs no vote past the guard.
	if _, err := Signer(address, key.Public()).Sign(nil, types.VoteSignBytes("trade", vote(6, 1)), crypto.Hash(0)); err == nil {
		t.Error("a vote was signed past the guard")
	}
}

// Processes of other users are refused, whatever the socket's mode says.
func TestOtherUsersAreRefused(t *testing.T) {
	key := newKey(Gateway, 1)
	address := serve(t, "trade", []uint32{me()[0] + 1}, key)
	if _, err := List(address); err == nil || !strings.Contains(err.Error(), "who may ask") && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
		t.Errorf("a user who may not ask: %v", err)
	}
}

// While the token fails a key signs nothing. The error names the reason, and the next call succeeds
// once it is back.
func TestFailureOfTheTokenIsToldAndEnds(t *testing.T) {
	failure := errors.New("the token is away")
	key := newKey(Gateway, 1)
	key.fails = &failure
	gateway := Signer(serve(t, "trade", me(), key), key.Public())
	message := wire.NodeSignBytes("trade", "acme", "id")
	if _, err := gateway.Sign(nil, message, crypto.Hash(0)); err == nil || !strings.Contains(err.Error(), "the token is away") {
		t.Errorf("signed without a token: %v", err)
	}
	failure = nil
	_, err := gateway.Sign(nil, message, crypto.Hash(0))
	must.Do(t, err)
}

// Frames out of bounds, unknown operations and cut requests are refused or end the connection. They
// allocate no more than what came, and the holder answers on.
func TestMalformedRequestsHarmNothing(t *testing.T) {
	key := newKey(Validator, 1)
	address := serve(t, "trade", me(), key)
	head := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	for name, request := range map[string][]byte{
		"no byte": head(0), "too large": head(frameBytesMax+1, 2), "largest": head(1<<32-1, 2), "unknown": head(1, 9), "no key": head(3, opSign, 1, 2),
		"a vote of nothing": head(33, append([]byte{opVote}, key.Public()...)...), "no protobuf": head(35, append(append([]byte{opVote}, key.Public()...), 0xff, 0xff)...),
		"a vote without a vote": head(35, append(append([]byte{opVote}, key.Public()...), 0x1a, 0)...), "more than a question for keys": head(2, opKeys, 1),
		"another's key": head(33, append([]byte{opSign}, make32()...)...),
	} {
		c, err := net.Dial("unix", pathOf(address))
		must.Do(t, err)
		must.Do(t, c.SetDeadline(time.Now().Add(30*time.Second)))
		_, err = c.Write(request)
		must.Do(t, err)
		first, rest, err := readFrame(c, answerBytesMax)
		if err == nil && first != refused {
			t.Errorf("%s: answered %x", name, rest)
		}
		if err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
		must.Do(t, c.Close())
	}
	_, err := List(address)
	must.Do(t, err)
}

func FuzzDecodeKeys(f *testing.F) {
	f.Add(encodeKeys([]Key{newKey(Gateway, 1), newKey(Validator, 2)}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, list []byte) {
		keys, err := decodeKeys(list)
		if err != nil {
			return
		}
		var again []byte
		for _, key := range keys {
			again = append(append(again, byte(key.Kind)), key.Public...)
		}
		if !bytes.Equal(again, list) {
			t.Errorf("%x is read as %x", list, again)
		}
	})
}
