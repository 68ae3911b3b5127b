package greedy

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/cometbft/cometbft/blocksync"
	"github.com/cometbft/cometbft/consensus"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	blocks "github.com/cometbft/cometbft/proto/tendermint/blocksync"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"
	"github.com/cometbft/cometbft/version"
	"github.com/cosmos/gogoproto/proto"
	gogo "github.com/cosmos/gogoproto/types"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

const (
	forgedBundles      = 16
	forgedTransactions = 1_000 // of a bundle
	expiredBundles     = 8
	expiredBytes       = 330_000 // of a statement, three of which fill a bundle
	questionsMade      = 500
	questionClients    = 20
	votedHeights       = 1_900
	decidedHeights     = 200 // whose bundles are sent again
	votesOfHeight      = 3   // votes of one height
)

// member is an organisation with its keys.
type member struct {
	home         config.Home
	organisation string
	chainID      string
	gateway      ed25519.PrivateKey
	validator    cmted25519.PrivKey
	index        int32 // of the validator
}

func memberOf(home config.Home) (*member, error) {
	c, err := config.Load(string(home))
	if err != nil {
		return nil, err
	}
	genesis, _, err := home.LoadGenesis()
	if err != nil {
		return nil, err
	}
	m := &member{home: home, organisation: c.Organisation, chainID: genesis.ChainID}
	if m.gateway, err = home.GatewayKey(); err != nil {
		return nil, err
	}
	validator, err := home.ReadValidator("")
	if err != nil {
		return nil, err
	}
	m.validator = validator.Key.PrivKey.(cmted25519.PrivKey)
	var all []*types.Validator
	for _, v := range genesis.Validators {
		all = append(all, types.NewValidator(v.PubKey, v.Power))
	}
	m.index, _ = types.NewValidatorSet(all).GetByAddress(validator.Key.Address)
	return m, nil
}

// node is a new node key, and what a node with it shows of itself.
func (m *member) node(channels []*p2p.ChannelDescriptor) (*p2p.NodeKey, p2p.DefaultNodeInfo, error) {
	key := &p2p.NodeKey{PrivKey: cmted25519.GenPrivKey()}
	vouch, err := m.home.VouchFor(m.organisation, m.chainID, string(key.ID()))
	info := p2p.DefaultNodeInfo{
		ProtocolVersion: p2p.NewProtocolVersion(version.P2PProtocol, version.BlockProtocol, 1), DefaultNodeID: key.ID(),
		Network: m.chainID, Version: "0", ListenAddr: "127.0.0.1:1", Moniker: vouch, Other: p2p.DefaultNodeInfoOther{TxIndex: "off"},
	}
	for _, c := range channels {
		info.Channels = append(info.Channels, c.ID)
	}
	return key, info, err
}

// GetChannels implements p2p.Reactor.
func (p *peer) GetChannels() []*p2p.ChannelDescriptor {
	channel := func(id byte, message proto.Message) *p2p.ChannelDescriptor {
		return &p2p.ChannelDescriptor{ID: id, Priority: 5, SendQueueCapacity: 100, RecvMessageCapacity: 10 << 20, MessageType: message}
	}
	out := []*p2p.ChannelDescriptor{
		channel(mempool.MempoolChannel, &protomem.Message{}), channel(blocksync.BlocksyncChannel, &blocks.Message{}),
		channel(peers.AgreementChannel, &gogo.BytesValue{}),
	}
	for _, id := range []byte{consensus.StateChannel, consensus.DataChannel, consensus.VoteChannel, consensus.VoteSetBitsChannel} {
		out = append(out, channel(id, &cons.Message{}))
	}
	return out
}

// Receive implements p2p.Reactor.
func (p *peer) Receive(e p2p.Envelope) {
	switch m := e.Message.(type) {
	case *cons.NewRoundStep:
		p.height.Store(max(p.height.Load(), m.Height))
	case *blocks.StatusRequest:
		e.Src.TrySend(p2p.Envelope{ChannelID: blocksync.BlocksyncChannel, Message: &blocks.StatusResponse{}})
	case *blocks.BlockResponse:
		if p.kind == Decided {
			p.blocks <- m.Block.Data.Txs
		}
	case *blocks.NoBlockResponse:
		if p.kind == Decided {
			p.blocks <- nil
		}
	case *gogo.BytesValue:
		if e.ChannelID != peers.AgreementChannel {
			return
		}
		answer, err := wire.DecodeAgreementMessage(m.Value)
		if err == nil && strings.Contains(answer.GetAnswer().GetReason(), "used up") {
			p.refused.Add(1)
		}
	}
}

// sends is the n-th message, at a height, and its size; nil: there is none now.
type sends func(n int, height int64) (*p2p.Envelope, int)

// inTurn sends messages again and again.
func inTurn(messages []p2p.Envelope) sends {
	sizes := make([]int, len(messages))
	for i, m := range messages {
		sizes[i] = proto.Size(m.Message)
	}
	return func(n int, _ int64) (*p2p.Envelope, int) {
		if len(messages) == 0 {
			return nil, 0
		}
		return &messages[n%len(messages)], sizes[n%len(messages)]
	}
}

func (p *peer) prepare(ctx context.Context) error {
	make := map[Kind]func() ([][]byte, error){
		Forged: p.forged, Expired: p.expired, Decided: func() ([][]byte, error) { return p.decided(ctx) },
	}[p.kind]
	if make != nil {
		bundles, err := make()
		if err != nil {
			return err
		}
		var messages []p2p.Envelope
		for _, b := range bundles {
			messages = append(messages, p2p.Envelope{ChannelID: mempool.MempoolChannel, Message: &protomem.Txs{Txs: [][]byte{b}}})
		}
		for i := range p.targets {
			p.targets[i].sends = inTurn(messages)
		}
		return nil
	}
	for i := range p.targets {
		t := &p.targets[i]
		var err error
		switch p.kind {
		case Questions:
			t.sends, err = p.questions(t)
		case Votes:
			t.sends, err = p.votes()
		case Parts:
			t.sends, err = parts()
		case Notes:
			t.sends = notes
		case Blocks:
			t.sends = requests
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sequence makes bundles and transactions differ from those of earlier preparations.
func sequence() uint64 { return uint64(time.Now().UnixNano()) }

func (p *peer) proposal(sql string, nonce, until uint64) *wire.Proposal {
	return &wire.Proposal{
		ChainId: p.member.chainID, Client: &wire.Client{Organisation: p.member.organisation, Role: p.opt.Role}, Nonce: nonce, ValidUntilHeight: until,
		Kind: wire.Kind_KIND_SQL, Sql: sql,
	}
}

func (p *peer) bundle(sequence uint64, signed ...*wire.SignedProposal) []byte {
	b := &wire.Bundle{ChainId: p.member.chainID, Organisation: p.member.organisation, Sequence: sequence}
	for _, s := range signed {
		b.Transactions = append(b.Transactions, &wire.ChainedTx{Proposal: s})
	}
	return wire.SignBundle(p.member.gateway, b)
}

// forged has the same transactions in each bundle: what is refused is verified again.
func (p *peer) forged() (out [][]byte, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	first := sequence()
	signed := make([]*wire.SignedProposal, forgedTransactions)
	for i := range signed {
		signed[i] = wire.SignProposal(key, p.proposal("SELECT 1", first+uint64(i), uint64(p.height.Load()+votedHeights)))
	}
	last := signed[len(signed)-1]
	last.Signature[0] ^= 1
	for i := range forgedBundles {
		out = append(out, p.bundle(first+uint64(i), signed...))
	}
	return out, nil
}

func (p *peer) expired() (out [][]byte, err error) {
	statement := "SELECT '" + strings.Repeat("x", expiredBytes) + "'"
	for i := range uint64(expiredBundles) {
		at := sequence()
		large := make([]*wire.SignedProposal, 3)
		for j := range large {
			large[j] = &wire.SignedProposal{Proposal: wire.Encode(p.proposal(statement, at+uint64(j), 1))}
		}
		out = append(out, p.bundle(at+i, large...), p.bundle(at+i+1, &wire.SignedProposal{Proposal: wire.Encode(p.proposal("SELECT 1", at, 1))}))
	}
	return out, nil
}

// decided asks for blocks that are there, and takes the bundles out of them.
func (p *peer) decided(ctx context.Context) (out [][]byte, err error) {
	to := p.net.Peers().Get(p.targets[0].address.ID)
	if to == nil {
		return nil, fmt.Errorf("%s ended the connection", p.targets[0].organisation)
	}
	top := p.height.Load()
	for h := max(1, top-decidedHeights); h < top; h++ {
		to.Send(p2p.Envelope{ChannelID: blocksync.BlocksyncChannel, Message: &blocks.BlockRequest{Height: h}})
		select {
		case txs := <-p.blocks:
			for _, raw := range txs {
				tx := &wire.OrderedTx{}
				if protobuf.Unmarshal(raw, tx) == nil && tx.GetBundle() != nil {
					out = append(out, raw)
				}
			}
		case <-time.After(heightLimit):
			return nil, fmt.Errorf("%s gives no block %d", p.targets[0].organisation, h)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, nil
}

// questions are for several clients, each of which has time of its own.
func (p *peer) questions(t *target) (sends, error) {
	keys := make([]ed25519.PrivateKey, questionClients)
	for i := range keys {
		var err error
		if _, keys[i], err = ed25519.GenerateKey(rand.Reader); err != nil {
			return nil, err
		}
	}
	var messages []p2p.Envelope
	first, until := sequence(), uint64(p.height.Load()+votedHeights)
	for i := range questionsMade {
		raw := wire.Encode(&wire.ChainedTx{Proposal: wire.SignProposal(keys[i%len(keys)], p.proposal(p.opt.SQL, first+uint64(i), until))})
		tx, err := wire.DecodeChainedTx(raw)
		if err != nil {
			return nil, err
		}
		ask := &wire.AgreementAsk{
			Request: uint64(i), Asked: []string{t.organisation}, Transaction: raw,
			Signature: ed25519.Sign(p.member.gateway, wire.AskSignBytes(p.member.chainID, string(p.id), string(t.address.ID), tx.ID)),
		}
		messages = append(messages, p2p.Envelope{
			ChannelID: peers.AgreementChannel,
			Message:   &gogo.BytesValue{Value: wire.Encode(&wire.AgreementMessage{Body: &wire.AgreementMessage_Ask{Ask: ask}})},
		})
	}
	return inTurn(messages), nil
}

// votes are for each of the next heights, signed by nobody, with extensions that are signed.
// CometBFT verifies both whenever one comes. Signed ones would be evidence, for which the member's
// own node would end to vote.
func (p *peer) votes() (sends, error) {
	var messages []p2p.Envelope
	first := p.height.Load()
	for h := first; h < first+votedHeights; h++ {
		for range votesOfHeight {
			v, err := p.vote(h)
			if err != nil {
				return nil, err
			}
			messages = append(messages, p2p.Envelope{ChannelID: consensus.VoteChannel, Message: &cons.Vote{Vote: v}})
		}
	}
	size := proto.Size(messages[0].Message)
	return func(n int, height int64) (*p2p.Envelope, int) {
		at := int(height-first)*votesOfHeight + n%votesOfHeight
		if at < 0 || at >= len(messages) {
			return nil, 0
		}
		return &messages[at], size
	}, nil
}

func (p *peer) vote(height int64) (*cmtproto.Vote, error) {
	hash := make([]byte, 32)
	_, _ = rand.Read(hash) // it never fails
	extension := wire.NewEffectsVote(wire.Key{Number: uint64(height), OrderHash: wire.Hash(hash)}, p.member.organisation, wire.Hash(hash))
	v := (&types.Vote{
		Type: cmtproto.PrecommitType, Height: height, Timestamp: time.Now(),
		BlockID:          types.BlockID{Hash: hash, PartSetHeader: types.PartSetHeader{Total: 1, Hash: hash}},
		ValidatorAddress: p.member.validator.PubKey().Address(), ValidatorIndex: p.member.index, Extension: extension.Encode(), Signature: append(hash, hash...),
	}).ToProto()
	var err error
	v.ExtensionSignature, err = p.member.validator.Sign(types.VoteExtensionSignBytes(p.member.chainID, v))
	return v, err
}

// parts are of a block that nobody proposes. One message of eight is a proposal of it.
func parts() (sends, error) {
	const proposalOf = 8
	data := make([]byte, proposalOf*int(types.BlockPartSizeBytes))
	_, _ = rand.Read(data) // it never fails
	set := types.NewPartSetFromData(data, types.BlockPartSizeBytes)
	made := make([]*cmtproto.Part, set.Total())
	for i := range made {
		var err error
		if made[i], err = set.GetPart(i).ToProto(); err != nil {
			return nil, err
		}
	}
	id := types.BlockID{Hash: data[:32], PartSetHeader: set.Header()}
	return func(n int, height int64) (*p2p.Envelope, int) {
		var message proto.Message = &cons.BlockPart{Height: height, Part: *made[n%len(made)]}
		if n%proposalOf == 0 {
			proposal := types.NewProposal(height, 0, -1, id)
			proposal.Signature = data[:64]
			message = &cons.Proposal{Proposal: *proposal.ToProto()}
		}
		return &p2p.Envelope{ChannelID: consensus.DataChannel, Message: message}, proto.Size(message)
	}, nil
}

func notes(_ int, height int64) (*p2p.Envelope, int) {
	message := &cons.HasVote{Height: height, Type: cmtproto.PrevoteType}
	return &p2p.Envelope{ChannelID: consensus.StateChannel, Message: message}, proto.Size(message)
}

func requests(n int, height int64) (*p2p.Envelope, int) {
	message := &blocks.BlockRequest{Height: 1 + int64(n)%height}
	return &p2p.Envelope{ChannelID: blocksync.BlocksyncChannel, Message: message}, proto.Size(message)
}
