package app

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	dbm "github.com/cometbft/cometbft-db"
	abci "github.com/cometbft/cometbft/abci/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/seeded"
	"github.com/chainify-db/chainify/abci/wire"
)

func TestOneBlockFromMempoolToCertificate(t *testing.T) {
	c := newChain(t, 4, 0)
	raw := c.bundle(1)
	txs := c.prepare(raw)
	if len(txs) != 1 || !c.process(txs...) {
		t.Fatalf("proposal of %d transactions refused", len(txs))
	}
	vote, err := wire.DecodeEffectVote(c.extend(txs...))
	if err != nil || vote.Number != 1 || vote.OrderHash != wire.Hash(c.blockHash(txs)) {
		t.Fatalf("vote %+v, %v", vote, err)
	}
	key := vote.Key()
	hash, _ := c.effects.Hash(key)
	votes := c.votes(hash, key, 0, 1, 2)
	before := c.appHash
	c.decide(votes, txs...)
	if string(before) == string(c.appHash) {
		t.Error("an ordered ledger block leaves the AppHash: nothing would carry its certificate")
	}

	txs = c.prepare(c.bundle(2))
	if len(txs) != 2 || !c.process(txs...) {
		t.Fatalf("proposal of certificate and bundle: %d transactions", len(txs))
	}
	c.decide(nil, txs...)
	if c.app.LastCertified() != 1 || c.app.LastOrdered() != 2 {
		t.Errorf("certified %d ordered %d, want 1 and 2", c.app.LastCertified(), c.app.LastOrdered())
	}
	d := c.effects.decided
	if len(d) != 2 || d[0].Ordered.Number != 1 || d[1].Certificate.Hash != hash || d[1].Ordered.Number != 2 {
		t.Errorf("decisions %+v", d)
	}
}

func TestCheckTxCodes(t *testing.T) {
	c := newChain(t, 2, 0, func(c *ordertest.Consortium) { c.Genesis.Parameters.BlockTransactionsMax = 2 })
	other := ordertest.New(3, 0)
	wrong := c.bundle(1)
	wrong[len(wrong)-1] ^= 1
	with := func(change func(*wire.ChainedTx)) *wire.Bundle {
		tx := &wire.ChainedTx{Proposal: &wire.SignedProposal{Proposal: wire.Encode(c.consortium.Proposal(0, 1, 100))}}
		change(tx)
		return &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o0", Transactions: []*wire.ChainedTx{tx}}
	}
	plain := with(func(*wire.ChainedTx) {})
	signed := with(func(tx *wire.ChainedTx) { tx.Proposal.Signature = make([]byte, 64) })
	agreed := with(func(tx *wire.ChainedTx) {
		tx.Agreements = []*wire.Agreement{{Organisation: "o1", ProposalHash: make([]byte, 32), Signature: make([]byte, 64)}}
	})
	p := func(nonce, until uint64) *wire.Proposal { return c.consortium.Proposal(0, nonce, until) }
	for name, test := range map[string]struct {
		raw  []byte
		code uint32
	}{
		"good":              {c.bundle(1), order.CodeOK},
		"garbage":           {[]byte{1, 2, 3}, order.CodeMalformed},
		"empty":             {nil, order.CodeMalformed},
		"unknown":           {other.Bundle(2, other.Proposal(2, 1, 100)), order.CodeUnknown},
		"signature":         {wrong, order.CodeSignature},
		"client signature":  {c.consortium.SignBundle(0, signed), order.CodeMalformed},
		"agreement":         {c.consortium.SignBundle(0, agreed), order.CodeOK}, // the databases check it
		"validator's key":   {wire.SignBundle(c.consortium.Key(0), plain), order.CodeSignature},
		"certificate":       {ordertest.Certificate(wire.Key{Number: 1}, &wire.Hash{}), order.CodeNotABundle},
		"expired":           {c.consortium.Bundle(0, p(1, 0)), order.CodeNothingLive},
		"too far ahead":     {c.consortium.Bundle(0, p(1, 2002)), order.CodeNothingLive},
		"one of two lives":  {c.consortium.Bundle(0, p(1, 0), p(2, 9)), order.CodeOK},
		"more than a block": {c.consortium.Bundle(0, p(1, 9), p(2, 9), p(3, 9)), order.CodeTooManyForBlock},
	} {
		out, err := c.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: test.raw})
		if err != nil || out.Code != test.code || (out.Log == "") != (test.code == 0) {
			t.Errorf("%s: code %d %q, %v; want %d", name, out.GetCode(), out.GetLog(), err, test.code)
		}
	}
	replay := c.consortium.Proposal(0, 7, 100)
	c.decide(nil, c.consortium.Bundle(0, replay))
	if out, _ := c.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: c.consortium.Bundle(0, replay)}); out.Code != order.CodeNothingLive {
		t.Errorf("replayed: code %d, want %d", out.Code, order.CodeNothingLive)
	}
}

// Each case builds a proposal that a correct validator must refuse; the good one shows that nothing
// else is wrong.
func TestProcessProposalRefuses(t *testing.T) {
	c := newChain(t, 4, 3)
	c.decide(nil) // so that there is a height before the block's
	block := c.order(1)
	key, hash := block.Key(), c.hashOf(block)
	sign := func(i int) *wire.ExtendedVote { return c.consortium.Effects(i, c.height, key, hash) }
	changed := func(change func(*wire.ExtendedVote)) []byte {
		v := sign(1)
		change(v)
		return ordertest.Certificate(key, nil, v)
	}
	stranger := ordertest.New(6, 0)
	otherKey := func(change func(*wire.Key)) []byte {
		k := key
		change(&k)
		return ordertest.Certificate(key, nil, c.consortium.Effects(1, c.height, k, hash))
	}
	good := ordertest.Certificate(key, nil, sign(1))
	if !c.process(good) || !c.process() {
		t.Fatal("good proposals refused")
	}
	votes := []*wire.ExtendedVote{sign(0), sign(1), sign(2)}
	sortVotes(votes)
	certifying := ordertest.Certificate(key, &hash, votes...)
	if !c.process(certifying, c.bundle(2)) {
		t.Fatal("good proposal with a bundle refused")
	}
	reversed := []*wire.ExtendedVote{votes[2], votes[1], votes[0]}
	badBundle := c.bundle(3)
	badBundle[len(badBundle)-1] ^= 1
	foreign := &wire.Bundle{ChainId: ordertest.ChainID, Organisation: "o1", Transactions: []*wire.ChainedTx{{
		Proposal: &wire.SignedProposal{Proposal: wire.Encode(c.consortium.Proposal(0, 1, 50))},
	}}}
	for name, txs := range map[string][][]byte{
		"undecodable":                   {[]byte("garbage")},
		"certificate not first":         {certifying, c.bundle(4), ordertest.Certificate(key, nil, sign(3))},
		"empty certificate":             {ordertest.Certificate(key, nil)},
		"unknown validator":             {ordertest.Certificate(key, nil, stranger.Effects(5, c.height, key, hash))},
		"wrong signature":               {changed(func(v *wire.ExtendedVote) { v.Signature[3] ^= 1 })},
		"signature for another height":  {changed(func(v *wire.ExtendedVote) { v.Height-- })},
		"signature for another round":   {changed(func(v *wire.ExtendedVote) { v.Round++ })},
		"another's vote":                {changed(func(v *wire.ExtendedVote) { v.ValidatorAddress = c.consortium.Address(2) })},
		"vote from before the block":    {ordertest.Certificate(key, nil, c.consortium.Effects(1, block.Height-1, key, hash))},
		"vote from the future":          {ordertest.Certificate(key, nil, c.consortium.Effects(1, c.height+1, key, hash))},
		"vote for another block":        {otherKey(func(k *wire.Key) { k.Number++ })},
		"vote for another round":        {otherKey(func(k *wire.Key) { k.Round++ })},
		"vote for another order hash":   {otherKey(func(k *wire.Key) { k.OrderHash[5] ^= 1 })},
		"certificate of another block":  {ordertest.Certificate(wire.Key{Number: 2}, nil, sign(1))},
		"certificate of another round":  {ordertest.Certificate(wire.Key{Number: 1, Round: 1}, nil, sign(1))},
		"stuck beyond the block":        {ordertest.Certificate(key, nil, c.consortium.Sign(1, c.height, wire.NewStuckVote(key, 1)))},
		"votes out of order":            {ordertest.Certificate(key, nil, reversed...)},
		"one vote twice":                {ordertest.Certificate(key, nil, sign(1), sign(1))},
		"hash that fits no vote":        {ordertest.Certificate(key, &wire.Hash{9}, sign(1))},
		"bundle while pending":          {c.bundle(5)},
		"bundle while it stays pending": {good, c.bundle(6)},
		"bundle with a wrong signature": {certifying, badBundle},
		"bundle of an unknown":          {certifying, stranger.Bundle(5, stranger.Proposal(5, 1, 50))},
		"transaction of another":        {certifying, wire.SignBundle(c.consortium.Key(1), foreign)},
	} {
		if c.process(txs...) {
			t.Errorf("%s: accepted", name)
		}
	}
	c.decide(nil, certifying)
	if c.process(ordertest.Certificate(key, nil, sign(3))) {
		t.Error("certificate with nothing pending: accepted")
	}
}

func TestProcessProposalRefusesASecondVoteOfAnOrganisation(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	key, hash := block.Key(), c.hashOf(block)
	c.decide(nil, ordertest.Certificate(key, &hash, c.consortium.Effects(1, c.height, key, hash)))
	for name, certificate := range map[string][]byte{
		"the same":      ordertest.Certificate(key, nil, c.consortium.Effects(1, c.height, key, hash)),
		"a different":   ordertest.Certificate(key, nil, c.consortium.Effects(1, c.height, key, wire.Hash{7})),
		"revealed hash": ordertest.Certificate(key, &hash, c.consortium.Effects(2, c.height, key, hash)),
	} {
		if c.process(certificate) {
			t.Errorf("%s again: accepted (E3)", name)
		}
	}
}

// A proposer gets late precommits unchecked: whatever is in its last commit, its proposal must be
// accepted.
func TestWhatIsPreparedIsAccepted(t *testing.T) {
	random := seeded.Random(t)
	c := newChain(t, 5, 3)
	nonce := uint64(0)
	for range 150 {
		var mempool [][]byte
		for range random.IntN(3) {
			nonce++
			mempool = append(mempool, c.consortium.Bundle(random.IntN(5), c.consortium.Proposal(1, nonce, 9)))
			mempool = append(mempool, c.bundle(nonce-uint64(random.IntN(2))))
		}
		txs := c.prepare(mempool...)
		if !c.process(txs...) {
			t.Fatalf("height %d: own proposal refused", c.height+1)
		}
		raw := c.extend(txs...)
		var votes []*wire.ExtendedVote
		if vote, err := wire.DecodeEffectVote(raw); err == nil {
			hash, _ := c.effects.Hash(vote.Key())
			for i := range 5 {
				votes = append(votes, c.randomVote(random, i, vote.Key(), hash)...)
			}
		}
		c.decide(votes, txs...)
	}
	if c.app.LastCertified() < 10 {
		t.Errorf("only %d blocks certified: the schedule tests nothing", c.app.LastCertified())
	}
}

// randomVote gives a validator's vote as a commit might hold it: mostly right, or spoiled in some
// way.
func (c *chain) randomVote(random *rand.Rand, i int, key wire.Key, hash wire.Hash) []*wire.ExtendedVote {
	vote := c.consortium.Effects(i, c.height+1, key, hash)
	switch random.IntN(12) {
	case 0:
		return nil
	case 1:
		vote.Signature[0] ^= 1
	case 2:
		vote.Extension = []byte("garbage")
	case 3:
		vote = c.consortium.Effects(i, c.height+1, key, wire.Hash{1})
	case 4:
		key.Round++
		vote = c.consortium.Effects(i, c.height+1, key, hash)
	case 5:
		vote.ValidatorAddress = []byte{1}
	case 6:
		vote = c.consortium.Sign(i, c.height+1, wire.NewStuckVote(key, 5))
	case 7:
		return []*wire.ExtendedVote{vote, vote}
	case 8:
		vote.Signature = nil
	}
	return []*wire.ExtendedVote{vote}
}

func TestRestartGoesOnAlike(t *testing.T) {
	c := newChain(t, 4, 3)
	for nonce := range uint64(3) {
		block := c.order(nonce)
		c.decide(c.votes(c.hashOf(block), block.Key(), 0, 1, 2))
		if nonce < 2 {
			c.decide(nil, c.prepare()...)
		}
	}
	before, status := c.app, func(a *App) Status { s, _ := a.Status(); return s }
	c.open()
	if got, want := status(c.app), status(before); !reflect.DeepEqual(got, want) {
		t.Errorf("status after restart %+v, want %+v", got, want)
	}
	info, err := c.app.Info(ctx, &abci.RequestInfo{})
	if err != nil || info.LastBlockHeight != c.height || string(info.LastBlockAppHash) != string(c.appHash) {
		t.Errorf("info %+v, %v; want height %d", info, err, c.height)
	}
	// CometBFT replays a block while its block store is not open to us yet: no ProcessProposal
	// comes before.
	c.decide(nil, nil...)
	if len(c.effects.decided) != 0 {
		t.Error("effects told of replayed blocks before the block store was open")
	}
	c.attach()
	if d := c.effects.decided; len(d) != 1 || d[0].Ordered == nil || d[0].Ordered.Number != 3 || len(d[0].Ordered.IDs) != 1 {
		t.Fatalf("told at attach: %+v", d)
	}
	for n := uint64(1); n <= 3; n++ {
		want, err := before.Ordered(n)
		must.Do(t, err)
		if got, err := c.app.Ordered(n); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("block %d after restart %+v, %v; want %+v", n, got, err, want)
		}
	}
	if _, err := c.app.Certificate(2); err != nil {
		t.Error(err)
	}
	if _, err := c.app.Certificate(3); err == nil {
		t.Error("certificate of a pending block")
	}
	if out, _ := c.app.CheckTx(ctx, &abci.RequestCheckTx{Tx: c.consortium.Bundle(0, c.consortium.Proposal(0, 0, 100))}); out.Code != order.CodeNothingLive {
		t.Error("a transaction of before the restart may be replayed")
	}
}

func TestStoreForgetsExpiredTransactions(t *testing.T) {
	c := newChain(t, 1, 1)
	c.decide(nil, c.consortium.Bundle(0, c.consortium.Proposal(0, 1, 3), c.consortium.Proposal(0, 2, 4)))
	count := func() int {
		var err error
		accepted := slices.Collect(NewStore(c.db).accepted(&err))
		if err != nil {
			t.Fatal(err)
		}
		return len(accepted)
	}
	for height, want := range []int{2, 2, 1, 0} {
		if c.height != int64(height)+1 || count() != want {
			t.Errorf("height %d: %d ids stored, want %d", c.height, count(), want)
		}
		c.decide(nil)
	}
}

func TestInitChainRefuses(t *testing.T) {
	for name, change := range map[string]func(*abci.RequestInitChain){
		"no vote extensions":    func(r *abci.RequestInitChain) { r.ConsensusParams.Abci.VoteExtensionsEnableHeight = 0 },
		"late vote extensions":  func(r *abci.RequestInitChain) { r.ConsensusParams.Abci.VoteExtensionsEnableHeight = 2 },
		"chain id":              func(r *abci.RequestInitChain) { r.ChainId = "Not A Chain" },
		"app state":             func(r *abci.RequestInitChain) { r.AppStateBytes = []byte("{}") },
		"foreign validator":     func(r *abci.RequestInitChain) { r.Validators[0].PubKey = r.Validators[1].PubKey },
		"validator of secp256k": func(r *abci.RequestInitChain) { r.Validators[0].PubKey.Sum = nil },
	} {
		c := &chain{t: t, consortium: ordertest.New(2, 0), db: dbm.NewMemDB()}
		c.open()
		req := c.genesis()
		change(req)
		if _, err := c.app.InitChain(ctx, req); err == nil || !strings.HasPrefix(err.Error(), "genesis: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A1: whatever effects do, what CometBFT gets is the same.
func TestEffectsDoNotEnterTheOrder(t *testing.T) {
	run := func(change func(*fakeEffects)) (out []string) {
		c := newChain(t, 4, 3)
		change(c.effects)
		block := c.order(1)
		for i := 1; i < 4; i++ {
			vote := c.consortium.Effects(i, c.height, block.Key(), wire.Hash{5})
			txs := [][]byte{ordertest.Certificate(block.Key(), nil, vote)}
			c.process(txs...)
			c.extend(txs...)
			res := c.decide(nil, txs...)
			out = append(out, fmt.Sprintf("%x %v", res.AppHash, res.TxResults))
		}
		return out
	}
	want := run(func(*fakeEffects) {})
	for name, change := range map[string]func(*fakeEffects){
		"deviating": func(f *fakeEffects) { f.deviates = true },
		"mute":      func(f *fakeEffects) { f.mute = true },
	} {
		if got := run(change); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func sortVotes(votes []*wire.ExtendedVote) {
	for i := range votes {
		for j := i; j > 0 && string(votes[j].ValidatorAddress) < string(votes[j-1].ValidatorAddress); j-- {
			votes[j], votes[j-1] = votes[j-1], votes[j]
		}
	}
}
