package peers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	comet "github.com/cometbft/cometbft/config"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/light/provider"
	"github.com/cometbft/cometbft/p2p"
	cmtversion "github.com/cometbft/cometbft/proto/tendermint/version"
	"github.com/cometbft/cometbft/types"
	"github.com/cometbft/cometbft/version"
	gogo "github.com/cosmos/gogoproto/types"
)

// headerAt is one that can be encoded; nobody signed it.
func headerAt(t testing.TB, height int64) *types.LightBlock {
	t.Helper()
	validators := types.NewValidatorSet([]*types.Validator{types.NewValidator(cmted25519.GenPrivKeyFromSecret([]byte("one")).PubKey(), 10)})
	hash := bytes.Repeat([]byte{1}, 32)
	header := &types.Header{
		Version: cmtversion.Consensus{Block: version.BlockProtocol, App: 1}, ChainID: "test", Height: height, Time: time.Unix(1_700_000_000, 0),
		LastBlockID:    types.BlockID{Hash: hash, PartSetHeader: types.PartSetHeader{Total: 1, Hash: hash}},
		LastCommitHash: hash, DataHash: hash, ValidatorsHash: validators.Hash(), NextValidatorsHash: validators.Hash(), ConsensusHash: hash,
		AppHash: hash, LastResultsHash: hash, EvidenceHash: hash, ProposerAddress: validators.Proposer.Address,
	}
	commit := &types.Commit{
		Height: height, BlockID: types.BlockID{Hash: header.Hash(), PartSetHeader: types.PartSetHeader{Total: 1, Hash: hash}},
		Signatures: []types.CommitSig{{
			BlockIDFlag: types.BlockIDFlagCommit, ValidatorAddress: validators.Proposer.Address, Timestamp: time.Unix(1_700_000_000, 0), Signature: make([]byte, 64),
		}},
	}
	return &types.LightBlock{SignedHeader: &types.SignedHeader{Header: header, Commit: commit}, ValidatorSet: validators}
}

func TestHeadersAreTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	all := make([]*Headers, 2)
	conduct := make([]*Conduct, 2)
	switches := p2p.MakeConnectedSwitches(comet.TestP2PConfig(), 2, func(i int, s *p2p.Switch) *p2p.Switch {
		conduct[i] = NewConduct(slog.New(slog.DiscardHandler))
		all[i] = NewHeaders(HeadersOptions{Conduct: conduct[i], Load: func(height int64) *types.LightBlock {
			if height > 7 {
				return nil
			}
			return headerAt(t, height)
		}})
		s.AddReactor(HeadersName, all[i])
		return s
	}, p2p.Connect2Switches)
	for _, s := range switches {
		defer func() { _ = s.Stop() }()
	}
	for len(all[0].Peers()) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	id := all[0].Peers()[0]
	for range 3 {
		told, err := all[0].Ask(ctx, id, 5)
		if err != nil || told.ValidateBasic("test") != nil || !bytes.Equal(told.Hash(), headerAt(t, 5).Hash()) {
			t.Fatalf("told %v, %v", told, err)
		}
	}
	if told, err := all[0].Ask(ctx, id, 8); !errors.Is(err, provider.ErrLightBlockNotFound) {
		t.Errorf("a header that the node does not have: %v, %v", told, err)
	}
	if told, err := all[0].Ask(ctx, "nobody", 5); !errors.Is(err, provider.ErrNoResponse) {
		t.Errorf("a node that is not connected: %v, %v", told, err)
	}
	// An answer that nobody waits for goes; a malformed message ends the connection.
	peer := switches[0].Peers().Get(id)
	peer.Send(headerEnvelope(tellsHeader, 5, encodeHeader(headerAt(t, 5))))
	if _, err := all[0].Ask(ctx, id, 6); err != nil || conduct[1].Offences() != 0 {
		t.Errorf("after an answer that nobody asked for: %v, %d offences", err, conduct[1].Offences())
	}
	// Nor is it decoded.
	peer.Send(headerEnvelope(tellsHeader, 5, bytes.Repeat([]byte{0xff}, 100)))
	if _, err := all[0].Ask(ctx, id, 6); err != nil || conduct[1].Offences() != 0 {
		t.Errorf("after a malformed answer that nobody asked for: %v, %d offences", err, conduct[1].Offences())
	}
	peer.Send(p2p.Envelope{ChannelID: HeadersChannel, Message: &gogo.BytesValue{Value: []byte{2}}})
	for conduct[1].Offences() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if conduct[1].Offences() != 1 {
		t.Errorf("%d offences after a malformed message", conduct[1].Offences())
	}
}

// A peer that asks without end is answered some times a second; another one meanwhile.
func TestHeadersAreToldInTurn(t *testing.T) {
	var loads atomic.Int64
	r := NewHeaders(HeadersOptions{Conduct: NewConduct(slog.New(slog.DiscardHandler)), Load: func(int64) *types.LightBlock { loads.Add(1); return nil }})
	began, asked := time.Now(), 2*headersAtOnce
	for range asked {
		r.Receive(p2p.Envelope{Src: deaf{named{id: "greedy"}}, ChannelID: HeadersChannel, Message: headerEnvelope(asksHeader, 1, nil).Message})
	}
	if took, least := time.Since(began), time.Second*headersAtOnce/headersPerSecond; took < least-100*time.Millisecond || loads.Load() != int64(asked) {
		t.Errorf("%d of %d answers in %s, want %s at least", loads.Load(), asked, took, least)
	}
	began = time.Now()
	for range headersAtOnce {
		r.Receive(p2p.Envelope{Src: deaf{named{id: "other"}}, ChannelID: HeadersChannel, Message: headerEnvelope(asksHeader, 1, nil).Message})
	}
	if took := time.Since(began); took > time.Second*headersAtOnce/headersPerSecond {
		t.Errorf("another peer waits %s", took)
	}
}

// deaf is a peer that takes nothing.
type deaf struct{ named }

func (deaf) TrySend(p2p.Envelope) bool { return false }

func FuzzDecodeHeader(f *testing.F) {
	head := func(kind byte, height uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, height) }
	f.Add(head(asksHeader, 5))
	f.Add(head(tellsHeader, 5))
	f.Add(append(head(tellsHeader, 5), encodeHeader(headerAt(f, 5))...))
	f.Add(head(asksHeader, 1<<63))
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, height, rest, err := splitHeader(raw)
		if err != nil {
			return
		}
		if kind > tellsHeader || height < 0 || len(rest) != len(raw)-9 || kind == asksHeader && len(rest) > 0 {
			t.Errorf("%x is %d, %d, %x", raw, kind, height, rest)
		}
		if block, err := decodeHeader(rest); err == nil && block != nil {
			_ = block.ValidateBasic("test") // as whoever asked does
		}
	})
}
