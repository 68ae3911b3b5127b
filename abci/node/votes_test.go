package node

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	"github.com/cometbft/cometbft/consensus"
	"github.com/cometbft/cometbft/crypto"
	"github.com/cometbft/cometbft/p2p"
	cons "github.com/cometbft/cometbft/proto/tendermint/consensus"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/audit"
	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// watched tells what its database makes of each block: whoever tampered with it knows that, too.
type watched struct {
	backend.Backend
	tell func(key wire.Key, hash wire.Hash)
}

func (w watched) Execute(ctx context.Context, b *wire.OrderedBlock, previous wire.Hash) (backend.Execution, error) {
	x, err := w.Backend.Execute(ctx, b, previous)
	if err == nil {
		w.tell(b.Key(), x.Hash)
	}
	return x, err
}

// member is a validator of the network as its peers know it.
type member struct {
	name    string
	index   int32
	key     crypto.PrivKey
	address crypto.Address
}

// membersOf gives the validators of all homes, in their order.
func membersOf(t *testing.T, nodes []*runner, names ...string) []member {
	t.Helper()
	var out []member
	var all []*types.Validator
	for i, r := range nodes {
		pv, err := r.home.Validator()
		must.Do(t, err)
		all = append(all, types.NewValidator(pv.Key.PubKey, 10))
		out = append(out, member{name: names[i], key: pv.Key.PrivKey, address: pv.Key.Address})
	}
	set := types.NewValidatorSet(all)
	for i := range out {
		out[i].index, _ = set.GetByAddress(out[i].address)
	}
	return out
}

// forge makes a precommit under the address of one member with the extension signed by another's
// key, at whose index it says to stand. Its block and the signature for that are nonsense.
func forge(t *testing.T, as member, by member, height int64, round int32, extension []byte) *cmtproto.Vote {
	t.Helper()
	nonsense := make([]byte, 64)
	nonsense[0] = 1
	v := &types.Vote{
		Type: cmtproto.PrecommitType, Height: height, Round: round, Timestamp: time.Now(),
		BlockID:          types.BlockID{Hash: nonsense[:32], PartSetHeader: types.PartSetHeader{Total: 1, Hash: nonsense[:32]}},
		ValidatorAddress: as.address, ValidatorIndex: by.index, Signature: nonsense, Extension: extension,
	}
	var err error
	if v.ExtensionSignature, err = by.key.Sign(types.VoteExtensionSignBytes("test", v.ToProto())); err != nil {
		t.Error(err)
	}
	return v.ToProto()
}

// A member signs the votes that a tampered database would need, with its own validator's key and in
// the name of everybody. Then acme commits nothing that the others have otherwise (E1), and its
// database comes right.
func TestAMemberForgesNobodysLiveVotes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	members := membersOf(t, nodes, "acme", "bolt", "cargo", "delta")
	hostile := members[3] // runs no node, but this
	var s *stranger
	var mu sync.Mutex
	attacks, forged := false, 0
	attack := func(key wire.Key, hash wire.Hash) {
		mu.Lock()
		defer mu.Unlock()
		if !attacks {
			return
		}
		height, round := s.stands()
		for _, as := range members[1:] {
			for late := range int32(2) { // acme may have gone on by a round
				forged += s.send(forge(t, as, hostile, height, round+late, wire.NewEffectsVote(key, as.name, hash).Encode()))
			}
		}
	}
	nodes[0].backend = func() backend.Backend { return watched{backendtest.Open(nodes[0].db, time.Minute), attack} }
	clients := startAll(t, nodes[:3])
	s = meet(t, nodes[3], nodes[0])
	execute(t, clients[0], "UPDATE t SET x = 1")
	eventually(t, patience, "all have the first block", func() bool {
		return len(nodes[0].db.Hashes()) == 1 && len(nodes[1].db.Hashes()) == 1 && len(nodes[2].db.Hashes()) == 1
	})

	mu.Lock()
	attacks = true
	mu.Unlock()
	nodes[0].db.Tamper("row 7")
	for _, r := range nodes[1:3] {
		r.db.Delay(500 * time.Millisecond) // theirs are slower, so that the forged votes come first
	}
	if o := execute(t, clients[0], "UPDATE t SET x = 2"); !o.Succeeded {
		t.Errorf("outcome %v", o)
	}
	eventually(t, patience, "acme's database comes right", func() bool { return len(nodes[0].db.Deviations()) == 1 })
	eventually(t, patience, "bolt has the block, too", func() bool { return len(nodes[1].db.Hashes()) == 2 })
	if got, want := nodes[0].db.Hashes(), nodes[1].db.Hashes(); len(got) != 2 || got[1] != want[1] {
		t.Errorf("acme committed %x, bolt %x", got, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if forged == 0 {
		t.Error("no vote was forged")
	}
	if log := nodes[0].log.String(); strings.Contains(log, "excluded from effect consensus") {
		t.Error("acme was excluded")
	}
}

// silent proposes no certificate.
type silent struct{ abci.Application }

func (s silent) PrepareProposal(ctx context.Context, req *abci.RequestPrepareProposal) (*abci.ResponsePrepareProposal, error) {
	req.LocalLastCommit = abci.ExtendedCommitInfo{}
	out, err := s.Application.PrepareProposal(ctx, req)
	if err == nil && len(req.Txs) == 0 {
		out.Txs = nil // the hash alone is a certificate, too
	}
	return out, err
}

// While nobody's certificate gets on the chain, live votes alone let all databases commit: they
// come from CometBFT, each organisation's.
func TestLiveVotesAloneDecide(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	for _, r := range nodes {
		r.lies = func(a abci.Application) abci.Application { return silent{a} }
	}
	clients := startAll(t, nodes)
	if o := execute(t, clients[0], "UPDATE t SET x = 1"); !o.Succeeded {
		t.Errorf("outcome %v", o)
	}
	for i, c := range clients {
		eventually(t, patience, "commits", func() bool { return len(nodes[i].db.Hashes()) == 1 })
		if s, err := c.Status(context.Background()); err != nil || s.LastCertified != 0 || s.LastCommitted != 1 {
			t.Errorf("status %v, %v; want block 1 committed and not certified", s, err)
		}
	}
}

// A peer sends the votes that it hears again under other addresses, which takes no validator's key:
// nobody rolls back, nobody is accused of voting twice.
func TestNobodyIsAccusedByVotesSentAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	members := membersOf(t, nodes, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes[:3])
	for _, r := range nodes[:3] {
		r.db.Delay(50 * time.Millisecond)
	}
	s := meet(t, nodes[3], nodes[:3]...)
	var mu sync.Mutex
	sent, known := 0, map[string]bool{}
	s.hear(func(v *cmtproto.Vote) {
		mu.Lock()
		defer mu.Unlock()
		if v.Type != cmtproto.PrecommitType || len(v.Extension) == 0 || known[string(v.ExtensionSignature)] {
			return
		}
		known[string(v.ExtensionSignature)] = true
		for _, as := range members {
			again := *v
			if again.ValidatorAddress = as.address; string(as.address) != string(v.ValidatorAddress) {
				sent += s.send(&again)
			}
		}
	})
	for range 10 {
		if o := execute(t, clients[0], "UPDATE t SET x = 1"); !o.Succeeded {
			t.Errorf("outcome %v", o)
		}
	}
	s.hear(nil)
	mu.Lock()
	defer mu.Unlock()
	if sent == 0 {
		t.Error("nothing was sent again")
	}
	for _, r := range nodes[:3] {
		log := r.log.String()
		for _, wrong := range []string{"voted twice", "effects deviate", "excluded"} {
			if n := strings.Count(log, wrong); n > 0 {
				t.Errorf("%s: %d times %q", r.home, n, wrong)
			}
		}
		if d := r.db.Deviations(); len(d) > 0 {
			t.Errorf("%s: deviations %v", r.home, d)
		}
	}
}

// precommit is a whole precommit of a member for what another one is for, with an extension of its
// own.
func precommit(t *testing.T, by member, as *cmtproto.Vote, extension []byte) *cmtproto.Vote {
	t.Helper()
	v := *as
	v.ValidatorAddress, v.ValidatorIndex, v.Extension = by.address, by.index, extension
	var err, err2 error
	v.Signature, err = by.key.Sign(types.VoteSignBytes("test", &v))
	v.ExtensionSignature, err2 = by.key.Sign(types.VoteExtensionSignBytes("test", &v))
	if err != nil || err2 != nil {
		t.Error(err, err2)
	}
	return &v
}

// A member tells each of the others another vote, in whole precommits with its own key. Each block
// commits all the same. Those who heard a vote that is not the one on the chain have evidence that
// holds with the genesis alone. Nobody else is accused.
func TestAMemberThatVotesTwiceLeavesEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	delta := membersOf(t, nodes, "acme", "bolt", "cargo", "delta")[3]
	clients := startAll(t, nodes[:3])
	for i, r := range nodes[1:3] {
		r.db.Delay(time.Duration(i+1) * 100 * time.Millisecond) // so that delta's votes come between theirs
	}
	s := meet(t, nodes[3], nodes[:3]...)
	var mu sync.Mutex
	done := map[[2]int64]bool{}
	s.hear(func(v *cmtproto.Vote) {
		vote, err := wire.DecodeEffectVote(v.Extension)
		at := [2]int64{v.Height, int64(v.Round)}
		mu.Lock()
		defer mu.Unlock()
		if v.Type != cmtproto.PrecommitType || err != nil || done[at] {
			return
		}
		done[at] = true
		for i, p := range s.net.Peers().Copy() {
			lie := wire.NewEffectsVote(vote.Key(), delta.name, wire.Hash{byte(i + 1)}).Encode()
			p.Send(p2p.Envelope{ChannelID: consensus.VoteChannel, Message: &cons.Vote{Vote: precommit(t, delta, v, lie)}})
		}
	})
	founding := audit.Founding{ChainID: "test"}
	_, genesis, err := nodes[0].home.LoadGenesis()
	must.Do(t, err)
	for _, o := range genesis.Organisations {
		founding.Organisations = append(founding.Organisations, audit.Organisation(o))
	}
	all, err := founding.Authorities(nil)
	must.Do(t, err)
	found := 0
	for made := 0; found == 0; made++ {
		if made == 50 {
			t.Fatalf("no evidence after %d transactions", made)
		}
		if o := execute(t, clients[0], "UPDATE t SET x = 1"); !o.Succeeded {
			t.Fatalf("outcome %v", o)
		}
		for _, c := range clients {
			kept, err := c.Evidence(t.Context())
			must.Do(t, err)
			for _, e := range kept.Evidence {
				piece := audit.EvidenceOf(kept.ChainId, e)
				if wrong := piece.Check(all); len(wrong) > 0 || piece.Organisation != "delta" {
					t.Fatalf("evidence against %s: %v", piece.Organisation, wrong)
				}
				found++
			}
		}
	}
}
