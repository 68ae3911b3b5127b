package app

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"
	cmted25519 "github.com/cometbft/cometbft/crypto/ed25519"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	cmttypes "github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

var ctx = context.Background()

// chain drives one application as CometBFT would, with the votes of all organisations.
type chain struct {
	t          *testing.T
	consortium *ordertest.Consortium
	db         dbm.DB
	app        *App
	effects    *fakeEffects
	blocks     map[int64][][]byte
	height     int64
	appHash    []byte
	commit     abci.ExtendedCommitInfo // of the last height
}

func (c *chain) Txs(height int64) ([][]byte, error) { return c.blocks[height], nil }

func newChain(t *testing.T, n, consent int, change ...func(*ordertest.Consortium)) *chain {
	c := &chain{t: t, consortium: ordertest.New(n, consent), db: dbm.NewMemDB(), blocks: map[int64][][]byte{}}
	for _, f := range change {
		f(c.consortium)
	}
	c.open()
	out, err := c.app.InitChain(ctx, c.genesis())
	must.Do(t, err)
	c.appHash = out.AppHash
	c.attach()
	return c
}

// open makes a new application on the same store.
func (c *chain) open() {
	c.t.Helper()
	c.effects = newFakeEffects("o0")
	var err error
	c.app, err = New(Options{
		Store: NewStore(c.db), Effects: c.effects, Organisation: "o0", HoldBack: 30 * time.Millisecond,
		VoteTimeout: time.Second, Logger: testLog(c.t), Retention: Retention{Snapshots: 2},
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) attach() {
	c.t.Helper()
	if err := c.app.SetBlocks(c); err != nil {
		c.t.Fatal(err)
	}
}

func (c *chain) genesis() *abci.RequestInitChain {
	appState, err := json.Marshal(c.consortium.Genesis)
	if err != nil {
		c.t.Fatal(err)
	}
	params := cmttypes.DefaultConsensusParams()
	params.ABCI.VoteExtensionsEnableHeight = 1
	proto := params.ToProto()
	req := &abci.RequestInitChain{ChainId: ordertest.ChainID, InitialHeight: 1, AppStateBytes: appState, ConsensusParams: &proto}
	for i, v := range c.consortium.Validators {
		key := cmted25519.PrivKey(c.consortium.Key(i)).PubKey()
		req.Validators = append(req.Validators, abci.Ed25519ValidatorUpdate(key.Bytes(), v.Power))
	}
	return req
}

// blockHash stands for CometBFT's: other transactions, another hash.
func (c *chain) blockHash(txs [][]byte) []byte {
	hash := cmttypes.Txs(cmttypes.ToTxs(txs)).Hash()
	hash[0] = byte(c.height + 1)
	return hash
}

func (c *chain) now() time.Time { return time.Unix(1_700_000_000+c.height, 0) }

func (c *chain) prepare(mempool ...[]byte) [][]byte {
	c.t.Helper()
	out, err := c.app.PrepareProposal(ctx, &abci.RequestPrepareProposal{
		MaxTxBytes: 1 << 20, Txs: mempool, LocalLastCommit: c.commit, Height: c.height + 1, Time: c.now(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.Txs
}

func (c *chain) process(txs ...[]byte) bool {
	c.t.Helper()
	out, err := c.app.ProcessProposal(ctx, &abci.RequestProcessProposal{Hash: c.blockHash(txs), Height: c.height + 1, Time: c.now(), Txs: txs})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.IsAccepted()
}

func (c *chain) extend(txs ...[]byte) []byte {
	c.t.Helper()
	out, err := c.app.ExtendVote(ctx, &abci.RequestExtendVote{Hash: c.blockHash(txs), Height: c.height + 1, Time: c.now(), Txs: txs})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.VoteExtension
}

func (c *chain) finalize(txs ...[]byte) *abci.ResponseFinalizeBlock {
	c.t.Helper()
	out, err := c.app.FinalizeBlock(ctx, &abci.RequestFinalizeBlock{Hash: c.blockHash(txs), Height: c.height + 1, Time: c.now(), Txs: txs})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// decide finalizes and commits; votes become the last commit.
func (c *chain) decide(votes []*wire.ExtendedVote, txs ...[]byte) *abci.ResponseFinalizeBlock {
	c.t.Helper()
	out := c.finalize(txs...)
	if _, err := c.app.Commit(ctx, &abci.RequestCommit{}); err != nil {
		c.t.Fatal(err)
	}
	c.height++
	c.blocks[c.height], c.appHash = txs, out.AppHash
	c.commit = abci.ExtendedCommitInfo{}
	for _, v := range votes {
		c.commit.Votes = append(c.commit.Votes, abci.ExtendedVoteInfo{
			Validator: abci.Validator{Address: v.ValidatorAddress, Power: 10}, VoteExtension: v.Extension,
			ExtensionSignature: v.Signature, BlockIdFlag: cmtproto.BlockIDFlagCommit,
		})
	}
	return out
}

// votes signs the vote of organisations for the block that is pending after txs, as the next
// height's precommits.
func (c *chain) votes(hash wire.Hash, key wire.Key, organisations ...int) (out []*wire.ExtendedVote) {
	for _, i := range organisations {
		out = append(out, c.consortium.Effects(i, c.height+1, key, hash))
	}
	return out
}

// order puts one bundle in a block of its own and returns what is pending; nobody has voted yet.
func (c *chain) order(nonce uint64) *wire.OrderedBlock {
	c.t.Helper()
	txs := c.prepare(c.bundle(nonce))
	if !c.process(txs...) {
		c.t.Fatal("own proposal refused")
	}
	c.decide(nil, txs...)
	block, err := c.app.Ordered(c.app.LastOrdered())
	if err != nil {
		c.t.Fatal(err)
	}
	return block
}

func (c *chain) bundle(nonce uint64) []byte {
	return c.consortium.Bundle(0, c.consortium.Proposal(0, nonce, uint64(c.height)+100))
}

func (c *chain) hashOf(block *wire.OrderedBlock) wire.Hash {
	hash, known := c.effects.Hash(block.Key())
	if !known {
		c.t.Fatalf("block %d is not executed", block.Number)
	}
	return hash
}
