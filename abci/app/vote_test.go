package app

import (
	"context"
	"math"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// oddEffects answers votes as a test wants.
type oddEffects struct {
	*fakeEffects
	vote func(context.Context, *wire.OrderedBlock) []byte
}

func (o oddEffects) Vote(ctx context.Context, b *wire.OrderedBlock) []byte { return o.vote(ctx, b) }

func TestOwnVoteIsCheckedBeforeItIsSigned(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	key := block.Key()
	for name, vote := range map[string][]byte{
		"garbage":       []byte("garbage"),
		"another block": wire.NewStuckVote(wire.Key{Number: 9}, 0).Encode(),
		"another round": wire.NewStuckVote(wire.Key{Number: 1, OrderHash: key.OrderHash, Round: 1}, 0).Encode(),
	} {
		c.app.opt.Effects = oddEffects{c.effects, func(context.Context, *wire.OrderedBlock) []byte { return vote }}
		if got := c.extend(); len(got) != 0 {
			t.Errorf("%s: extension %x, want none", name, got)
		}
	}
}

func TestVoteWaitsNoLongerThanItsTimeout(t *testing.T) {
	c := newChain(t, 4, 3)
	c.order(1)
	c.app.opt.VoteTimeout = 20 * time.Millisecond
	c.app.opt.Effects = oddEffects{c.effects, func(ctx context.Context, _ *wire.OrderedBlock) []byte {
		<-ctx.Done()
		return nil
	}}
	start := time.Now()
	if got := c.extend(); len(got) != 0 || time.Since(start) > 2*time.Minute {
		t.Errorf("extension %x after %s, want none after 20ms", got, time.Since(start))
	}
}

func TestPrecommitsAreHeldBackWhenABlockStaysPending(t *testing.T) {
	c := newChain(t, 4, 3)
	c.order(1)
	took := func() time.Duration {
		start := time.Now()
		c.extend()
		return time.Since(start)
	}
	for range holdBackAge + 1 {
		c.decide(nil)
	}
	if d := took(); d < c.app.opt.HoldBack {
		t.Errorf("precommit after %s, want %s", d, c.app.opt.HoldBack)
	}
}

// A speculative execution is started where ProcessProposal was not asked, and not twice.
func TestExtendVoteExecutesWhatWasNotProcessed(t *testing.T) {
	c := newChain(t, 4, 3)
	raw := c.bundle(1)
	vote, err := wire.DecodeEffectVote(c.extend(raw))
	if err != nil || vote.Number != 1 {
		t.Fatalf("vote %+v, %v", vote, err)
	}
}

// A round that a proposal begins is executed once it is decided, so that proposal's own precommit
// says nothing.
func TestNoVoteInTheProposalThatBeginsARound(t *testing.T) {
	c := newChain(t, 2, 2)
	block := c.order(1)
	key, own := block.Key(), c.hashOf(block)
	first, second := c.consortium.Effects(0, c.height, key, own), c.consortium.Effects(1, c.height, key, wire.Hash{6})
	votes := []*wire.ExtendedVote{first, second}
	sortVotes(votes)
	split := ordertest.Certificate(key, &own, votes...)
	if got := c.extend(split); len(got) != 0 {
		t.Errorf("extension %x, want none", got)
	}
	c.decide(nil, split)
	d := c.effects.decided[len(c.effects.decided)-1]
	if d.Ordered == nil || d.Ordered.Round != 1 || d.Ordered.Number != 1 || len(d.Ordered.Transactions) == 0 {
		t.Fatalf("decided %+v, want block 1 in round 1", d)
	}
	if vote, err := wire.DecodeEffectVote(c.extend()); err != nil || vote.Round != 1 {
		t.Errorf("vote %+v, %v; want one of round 1", vote, err)
	}
	if stored, err := c.app.Ordered(1); err != nil || stored.Round != 1 {
		t.Errorf("stored block %+v, %v; want round 1", stored, err)
	}
}

func TestVerifyVoteExtensionAcceptsWhateverIsWellFormed(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	other := wire.NewEffectsVote(block.Key(), "o1", wire.Hash{3}).Encode()
	for name, test := range map[string]struct {
		extension, address []byte
		accept             bool
	}{
		"empty":             {nil, c.consortium.Address(1), true},
		"different effects": {other, c.consortium.Address(1), true},
		"another block":     {wire.NewStuckVote(wire.Key{Number: 77}, 1).Encode(), c.consortium.Address(1), true},
		"garbage":           {[]byte("garbage"), c.consortium.Address(1), false},
		"too long":          {make([]byte, 150), c.consortium.Address(1), false},
		"unknown validator": {other, make([]byte, 20), false},
	} {
		out, err := c.app.VerifyVoteExtension(ctx, &abci.RequestVerifyVoteExtension{Height: c.height, ValidatorAddress: test.address, VoteExtension: test.extension})
		if err != nil || out.IsAccepted() != test.accept {
			t.Errorf("%s: %v, %v; want accepted %t", name, out, err, test.accept)
		}
	}
	if c.effects.seen != 0 {
		t.Errorf("effects saw %d votes that CometBFT has not checked", c.effects.seen)
	}
}

// precommit gives a vote as CometBFT gives it once it has added it: the precommit of organisation i
// at a height.
func (c *chain) precommit(i int, height int64, vote wire.EffectVote, change ...func(*wire.ExtendedVote)) {
	c.t.Helper()
	signed := c.consortium.Sign(i, height, vote)
	for _, f := range change {
		f(signed)
	}
	c.app.Precommitted(signed)
}

// E1: a live vote counts once CometBFT has checked it, by the registry's key, and for the execution
// of now alone.
func TestLiveVotesThatCount(t *testing.T) {
	c := newChain(t, 5, 3, func(c *ordertest.Consortium) { c.OrderOnly(1) })
	c.decide(nil)
	block := c.order(1)
	key := block.Key()
	vote := wire.NewEffectsVote(key, "o1", wire.Hash{3})
	next := vote
	next.Number, next.OrderHash = 2, wire.Hash{9}
	ahead, late := next, vote
	ahead.Number, late.Round = 3, 1
	stranger := ordertest.New(6, 0).Address(5)
	for name, test := range map[string]struct {
		i      int
		height int64
		vote   wire.EffectVote
		change func(*wire.ExtendedVote)
		counts bool
	}{
		"of the block's height":                {1, c.height, vote, nil, true},
		"of the next height":                   {1, c.height + 1, vote, nil, true},
		"about a proposal":                     {1, c.height + 1, next, nil, true},
		"about a proposal, too early":          {1, c.height, next, nil, false},
		"about a block that comes later":       {1, c.height + 1, ahead, nil, false},
		"from before the block":                {1, c.height - 1, vote, nil, false},
		"from a height to come":                {1, c.height + 2, vote, nil, false},
		"of a round that has not begun":        {1, c.height + 1, late, nil, false},
		"own":                                  {0, c.height, vote, nil, false},
		"of an organisation that only orders":  {4, c.height, vote, nil, false},
		"no vote on effects":                   {1, c.height, vote, func(v *wire.ExtendedVote) { v.Extension = nil }, false},
		"under another's address":              {1, c.height, vote, func(v *wire.ExtendedVote) { v.ValidatorAddress = c.consortium.Address(2) }, false},
		"under a stranger's address":           {1, c.height, vote, func(v *wire.ExtendedVote) { v.ValidatorAddress = stranger }, false},
		"signed for another height":            {1, c.height, vote, func(v *wire.ExtendedVote) { v.Height++ }, false},
		"signed for another round":             {1, c.height, vote, func(v *wire.ExtendedVote) { v.Round++ }, false},
		"malformed, as late precommits may be": {1, c.height, wire.EffectVote{}, nil, false},
	} {
		before := c.effects.seen
		var change []func(*wire.ExtendedVote)
		if test.change != nil {
			change = append(change, test.change)
		}
		c.precommit(test.i, test.height, test.vote, change...)
		if counted := c.effects.seen > before; counted != test.counts {
			t.Errorf("%s: counted %t, want %t", name, counted, test.counts)
		}
	}
}

func TestProposalKeepsToTheBlocksSize(t *testing.T) {
	c := newChain(t, 4, 3, func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockTransactionsMax = 3 })
	var mempool [][]byte
	for i := range uint64(5) {
		mempool = append(mempool, c.bundle(i))
	}
	if txs := c.prepare(mempool...); len(txs) != 3 {
		t.Errorf("%d bundles, want the block's bound of 3", len(txs))
	}
	out, err := c.app.PrepareProposal(ctx, &abci.RequestPrepareProposal{
		MaxTxBytes: 2 * sizeInBlock(mempool[1]), Txs: mempool, Height: 1, Time: c.now(),
	})
	if err != nil || len(out.Txs) != 2 {
		t.Errorf("%d bundles, %v; want the 2 that fit", len(out.GetTxs()), err)
	}
	// A bundle in which nothing lives is proposed: only a block takes it out of the mempool.
	expired := c.consortium.Bundle(0, c.consortium.Proposal(0, 1, 0))
	if txs := c.prepare(expired); len(txs) != 1 || !c.process(txs...) {
		t.Errorf("%d transactions proposed, want the expired bundle", len(txs))
	}
	if res := c.finalize(expired); res.TxResults[0].Code != 1 {
		t.Errorf("code %d, want 1", res.TxResults[0].Code)
	}
	// Half the votes still go where all do not fit.
	block := c.order(9)
	for i := range 4 {
		v := c.consortium.Effects(i, c.height, block.Key(), c.hashOf(block))
		c.commit.Votes = append(c.commit.Votes, abci.ExtendedVoteInfo{
			Validator: abci.Validator{Address: v.ValidatorAddress}, BlockIdFlag: 2, VoteExtension: v.Extension, ExtensionSignature: v.Signature,
		})
	}
	out, err = c.app.PrepareProposal(ctx, &abci.RequestPrepareProposal{MaxTxBytes: 500, LocalLastCommit: c.commit, Height: c.height + 1, Time: c.now()})
	if err != nil || len(out.Txs) != 1 || !c.process(out.Txs...) {
		t.Errorf("%d transactions, %v; want a smaller certificate", len(out.GetTxs()), err)
	}
}

func TestStatusQuery(t *testing.T) {
	c := newChain(t, 4, 0)
	c.order(1)
	out, err := c.app.Query(ctx, &abci.RequestQuery{Path: "/status"})
	if err != nil || out.Code != 0 || len(out.Value) == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	if out, _ = c.app.Query(ctx, &abci.RequestQuery{Path: "/other"}); out.Code == 0 {
		t.Error("another path answered")
	}
}

func TestPrecommitsAreHeldBackLongerTheLongerABlockIsPending(t *testing.T) {
	const step = 200 * time.Millisecond
	for _, c := range []struct {
		age  uint64
		want time.Duration
	}{
		{0, 0},
		{holdBackAge, 0},
		{holdBackAge + 1, step},
		{holdBackGrowth, 2 * step},
		{24 * holdBackGrowth, holdBackMax},
		{math.MaxUint64, holdBackMax},
	} {
		if got := heldBack(step, c.age); got != c.want {
			t.Errorf("pending for %d blocks: held back for %s, want %s", c.age, got, c.want)
		}
	}
	if got := heldBack(time.Minute, math.MaxUint64); got != time.Minute {
		t.Errorf("a step above the maximum: held back for %s, want it", got)
	}
}
