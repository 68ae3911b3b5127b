package app

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/chainify-db/chainify/abci/app/order/ordertest"
	"github.com/chainify-db/chainify/abci/wire"
)

// voteOf is a vote of organisation i that key gave a hash.
func voteOf(i int, key wire.Key, hash byte) wire.EffectVote {
	return wire.NewEffectsVote(key, fmt.Sprintf("o%d", i), wire.Hash{hash})
}

// E3: the first vote counts, and a different one is evidence. It may be heard live, at another
// height, or stand on the chain. The evidence has both signatures, also after a restart, and there
// is one for each execution.
func TestConflictingVotesAreEvidence(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	key := block.Key()
	c.precommit(1, c.height, voteOf(1, key, 1))
	c.precommit(1, c.height, voteOf(1, key, 1))
	c.precommit(2, c.height, voteOf(2, key, 1))
	c.precommit(3, c.height, voteOf(3, key, 2))
	if n := c.app.EvidenceCount(); n != 0 {
		t.Fatalf("%d pieces of evidence from equal votes", n)
	}
	c.precommit(1, c.height+1, voteOf(1, key, 2))
	c.precommit(1, c.height+1, voteOf(1, key, 3))
	// o3 told us another vote live than the one that stands on the chain.
	c.decide(nil, ordertest.Certificate(key, nil, c.consortium.Sign(3, c.height, voteOf(3, key, 1))))
	found := c.app.Evidence()
	if len(found) != 2 || found[0].Organisation != "o1" || found[1].Organisation != "o3" || found[0].Key != key || found[1].Key != key {
		t.Fatalf("evidence %+v", found)
	}
	for _, e := range found {
		for _, v := range []*wire.ExtendedVote{e.First, e.Second} {
			if name, err := c.consortium.Registry(t).CheckExtension(v); err != nil || name != e.Organisation {
				t.Errorf("evidence against %s: vote of %q, %v", e.Organisation, name, err)
			}
		}
		if bytes.Equal(e.First.Extension, e.Second.Extension) {
			t.Errorf("evidence against %s: the votes are equal", e.Organisation)
		}
	}
	if status, _ := c.app.Status(); status.Evidence != 2 || len(status.Pending.Voted) != 1 {
		t.Errorf("status %+v", status)
	}
	c.open() // after a restart it is there, the same once more is nothing new, and what stands on the chain is known
	c.attach()
	again := c.app.Evidence()
	for i := range found {
		if len(again) != len(found) || again[i].Key != found[i].Key || !proto.Equal(again[i].First, found[i].First) || !proto.Equal(again[i].Second, found[i].Second) {
			t.Fatalf("after a restart evidence %+v", again)
		}
	}
	c.precommit(1, c.height, voteOf(1, key, 1))
	c.precommit(1, c.height, voteOf(1, key, 2))
	c.precommit(3, c.height, voteOf(3, key, 2))
	if n := c.app.EvidenceCount(); n != 2 {
		t.Errorf("%d pieces of evidence after a restart, want 2", n)
	}
}

// The votes in the block that certifies are compared, too, though nothing is pending after it:
// those for the certified hash, and others.
func TestConflictingVotesInTheLastCertificateAreEvidence(t *testing.T) {
	c := newChain(t, 5, 3)
	block := c.order(1)
	key, hash := block.Key(), c.hashOf(block)
	c.precommit(1, c.height, voteOf(1, key, 9))
	c.precommit(3, c.height, voteOf(3, key, 9))
	votes := []*wire.ExtendedVote{c.consortium.Sign(3, c.height, voteOf(3, key, 8))}
	for i := range 3 {
		votes = append(votes, c.consortium.Effects(i, c.height, key, hash))
	}
	sortVotes(votes)
	c.decide(nil, ordertest.Certificate(key, &hash, votes...))
	if c.app.LastCertified() != 1 {
		t.Fatal("the block is not certified")
	}
	against := map[string]bool{}
	for _, e := range c.app.Evidence() {
		against[e.Organisation] = true
	}
	if len(against) != 2 || !against["o1"] || !against["o3"] {
		t.Errorf("evidence against %v", against)
	}
}

// One organisation that votes twice without end fills its own room, and nobody forgets what is
// pending for its votes on other proposals.
func TestEvidenceIsBounded(t *testing.T) {
	c := newChain(t, 4, 3)
	block := c.order(1)
	pending := block.Key()
	c.precommit(1, c.height, voteOf(1, pending, 1))
	const proposals = 3 * wire.HeardMax
	for i := range byte(proposals) {
		key := wire.Key{Number: 2, OrderHash: wire.Hash{i, 1}}
		c.precommit(1, c.height+1, voteOf(1, key, 1))
		c.precommit(1, c.height+1, voteOf(1, key, 2))
	}
	if found, count := c.app.Evidence(), c.app.EvidenceCount(); len(found) != evidencePerOrganisation || count != wire.HeardMax {
		t.Errorf("%d pieces of evidence kept, %d counted; want %d and %d", len(found), count, evidencePerOrganisation, wire.HeardMax)
	}
	if ordered, next := c.app.watch.heard.Kept("o1"); ordered != 1 || next != wire.HeardMax {
		t.Errorf("votes on %d and %d executions are remembered, want 1 and %d", ordered, next, wire.HeardMax)
	}
	c.precommit(1, c.height, voteOf(1, pending, 2))
	if count := c.app.EvidenceCount(); count != wire.HeardMax+1 {
		t.Error("the vote on the pending block was forgotten")
	}
	c.precommit(2, c.height, voteOf(2, pending, 1))
	c.precommit(2, c.height, voteOf(2, pending, 2))
	if found := c.app.Evidence(); len(found) != evidencePerOrganisation+1 || found[len(found)-1].Organisation != "o2" {
		t.Errorf("there is no room for evidence against another organisation: %d pieces", len(found))
	}
}
