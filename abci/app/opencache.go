package app

import (
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/fair"
	"github.com/chainify-db/chainify/abci/wire"
)

// openCache remembers bundles that were opened until a block with them is decided, so that a node
// decodes and verifies each once, be it first met in CheckTx or in a proposal. It is keyed by all
// that opening is a function of.
//
// It verifies clients' signatures of many bundles together, which is several times cheaper. Those
// of bundles admitted to the mempool wait for verifyTogether transactions, or for a proposal that
// asks for one of them. Until then their gateway answers for them: it has verified them, and what
// it signed in vain goes at the next recheck, which knows it by its hash. Bundles of a gateway that
// owes something (vain) share no batch with others'.
type openCache struct {
	mu      sync.Mutex
	byKey   *lru.Cache[openKey, *openedTx]
	bytes   int
	waiting []*openedTx // admitted, clients' signatures not verified; of fewer than verifyTogether transactions
	waits   int         // transactions of these
	// wrong are admitted bundles with forged signatures, found since the last Commit; formerly
	// those of before it. The mempool may hold them until its recheck.
	wrong, formerly wrongs
	seed            maphash.Seed
	// spent are decided bundles of which no block accepts anything any more, by their SHA-256.
	// CheckTx refuses them unopened.
	spent *lru.Cache[[sha256.Size]byte, struct{}]
	vain  *fair.Budget[string]
	work  order.Work // of all signatures of clients since the start
}

// wrongs are bundles that no block can hold: their SHA-256 by a hash that is quicker to compute.
// So all other bundles of the mempool cost little.
type wrongs map[uint64][sha256.Size]byte

// errWrong is why a bundle leaves the mempool that was admitted to it.
var errWrong = &order.Refusal{Code: order.CodeSignature, Err: errors.New("a client's signature is found wrong")}

// openKey is the bytes' SHA-256 with that of the registry.
type openKey struct{ bytes, registry [sha256.Size]byte }

func keyOf(registry *order.Registry, raw []byte) openKey {
	return openKey{sha256.Sum256(raw), registry.Hash()}
}

// openedTx is an opened bundle, with the results of its checks. The cache's lock guards all but its
// size and hash.
type openedTx struct {
	order.Candidate
	err      error // that of clients' signatures
	verified bool
	waits    bool
	admitted bool // to the mempool
	bytes    int
	sum      [sha256.Size]byte // of its bytes
	quick    uint64            // the key in wrongs
}

const (
	openCacheEntriesMax = 16_384
	openCacheBytesMax   = 64 << 20 // of the bundles' own bytes
	wrongsMax           = 16_384   // more than a mempool holds (settings.MempoolTxsMax)
	spentMax            = 16_384
	verifyTogether      = 256
)

func newOpenCache() *openCache {
	c := &openCache{wrong: wrongs{}, seed: maphash.MakeSeed(), vain: newVain(time.Now)}
	c.spent, _ = lru.New[[sha256.Size]byte, struct{}](spentMax)
	// The callback runs under c.mu, within Add, Remove and RemoveOldest. A constant positive size
	// is the only error.
	c.byKey, _ = lru.NewWithEvict(openCacheEntriesMax, func(_ openKey, old *openedTx) { c.bytes -= old.bytes })
	return c
}

// admit is registry.Open for CheckTx: clients' signatures may still be to be verified. It verifies
// none of a bundle that is not live. Cost of a decided one: its SHA-256.
func (c *openCache) admit(registry *order.Registry, raw []byte, live func(order.Tx) bool) (order.Tx, error) {
	key := keyOf(registry, raw)
	if c.spent.Contains(key.bytes) {
		return order.Tx{}, errNothingLive
	}
	if !c.byKey.Contains(key) && c.overdrawn(wire.PeekOwner(raw)) {
		return order.Tx{}, errOverdrawn
	}
	o, err := c.candidate(registry, key, raw)
	if err != nil {
		return order.Tx{}, err
	}
	if o.Tx.Bundle() != nil && !live(o.Tx) {
		c.drop(key) // and not one that waits for a block
		return order.Tx{}, errNothingLive
	}
	if !c.isVerified(o) {
		c.verify(registry, c.due(o), true)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.admitted = o.admitted || o.err == nil
	return o.Tx, o.err
}

func (c *openCache) isVerified(o *openedTx) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return o.verified
}

// due has a bundle wait, and takes those whose clients' signatures are to be verified now: all that
// wait where they are enough, the bundle alone where its gateway owes something.
func (c *openCache) due(o *openedTx) []*openedTx {
	if c.owes(o.Tx.Organisation()) {
		return []*openedTx{o}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !o.waits {
		o.waits = true
		c.waiting, c.waits = append(c.waiting, o), c.waits+o.Tx.Bundle().Len()
	}
	if c.waits < verifyTogether {
		return nil
	}
	return c.taken()
}

// taken takes all that wait. Called with mu held.
func (c *openCache) taken() []*openedTx {
	list := c.waiting
	for _, o := range list {
		o.waits = false
	}
	c.waiting, c.waits = nil, 0
	return list
}

// all is registry.Open for each of a proposal's transactions. Without search, one wrong bundle of a
// gateway that owes something is an error of all its bundles: the proposal fails in any case. So a
// wrong proposal costs what a right one costs.
func (c *openCache) all(registry *order.Registry, raw [][]byte, search bool) ([]order.Tx, []error) {
	list, txs, errs := make([]*openedTx, len(raw)), make([]order.Tx, len(raw)), make([]error, len(raw))
	var unverified []*openedTx
	for i := range raw {
		if list[i], errs[i] = c.candidate(registry, keyOf(registry, raw[i]), raw[i]); errs[i] == nil && !c.isVerified(list[i]) {
			unverified = append(unverified, list[i])
		}
	}
	if len(unverified) > 0 {
		c.mu.Lock()
		unverified = append(c.taken(), unverified...)
		c.mu.Unlock()
		c.verify(registry, unverified, search)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range list {
		switch {
		case errs[i] != nil:
		case o.verified:
			txs[i], errs[i] = o.Tx, o.err
		default: // verify left it
			errs[i] = errWrong
		}
	}
	return txs, errs
}

// own remembers a bundle whose clients' signatures the organisation's own gateway verified.
func (c *openCache) own(registry *order.Registry, raw []byte) {
	if o, err := c.candidate(registry, keyOf(registry, raw), raw); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		o.verified = true
	}
}

// decided drops the bundles of a decided block, which nobody opens again, and remembers those that
// are spent.
func (c *openCache) decided(registry *order.Registry, raw [][]byte, spent []bool) {
	for i, one := range raw {
		key := keyOf(registry, one)
		if spent[i] {
			c.spent.Add(key.bytes, struct{}{})
		}
		c.drop(key)
	}
}

func (c *openCache) drop(key openKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byKey.Remove(key)
}

// refuses tells why an admitted bundle must leave the mempool; nil: it may stay. It opens nothing.
// Cost: none while there is no wrong bundle; else a look at its bytes.
func (c *openCache) refuses(raw []byte) error {
	c.mu.Lock()
	none := len(c.wrong)+len(c.formerly) == 0
	c.mu.Unlock()
	if none {
		return nil
	}
	quick := maphash.Bytes(c.seed, raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range []wrongs{c.wrong, c.formerly} {
		if sum, met := list[quick]; met && sum == sha256.Sum256(raw) {
			return errWrong
		}
	}
	return nil
}

// committed forgets the wrong bundles of before the last Commit: the mempool had its recheck since.
func (c *openCache) committed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.formerly, c.wrong = c.wrong, wrongs{}
}

// candidate opens but for clients' signatures. Refusals, governance changes and certificates are
// not kept: they are cheap, or met once.
func (c *openCache) candidate(registry *order.Registry, key openKey, raw []byte) (*openedTx, error) {
	c.mu.Lock()
	known, hit := c.byKey.Get(key)
	c.mu.Unlock()
	if hit {
		return known, nil
	}
	candidate, err := registry.Candidate(raw)
	if err != nil {
		return nil, err
	}
	o := &openedTx{Candidate: candidate, verified: !candidate.Signs(), bytes: len(raw), sum: key.bytes, quick: maphash.Bytes(c.seed, raw)}
	if candidate.Tx.Bundle() == nil {
		return o, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, hit := c.byKey.Get(key); hit {
		return known, nil // opened meanwhile
	}
	c.bytes += o.bytes
	c.byKey.Add(key, o)
	for c.bytes > openCacheBytesMax {
		c.byKey.RemoveOldest()
	}
	return o, nil
}

// verify verifies the clients' signatures of some, those of each gateway that owes something by
// themselves. It charges gateways for wrong ones. Without search, it leaves those of a gateway that
// owes something unverified where one is wrong.
func (c *openCache) verify(registry *order.Registry, some []*openedTx, search bool) {
	for _, g := range c.groups(some) {
		errs, right := make([]error, len(g.list)), true
		var work order.Work
		if g.owes != "" && !search {
			right, work = registry.ClientsRight(g.candidates...)
		} else {
			errs, work = registry.VerifyClients(g.candidates...)
		}
		if right {
			c.verified(g.list, errs, work)
			c.charge(g.list, errs, work)
		} else {
			c.verified(nil, nil, work)
			c.vain.Spend(g.owes, int64(work))
		}
	}
}

// group is a set of signatures that is verified as one batch.
type group struct {
	owes       string // the organisation of all of them; empty: those that owe nothing
	list       []*openedTx
	candidates []order.Candidate
}

// groups divides those that are not verified, each once.
func (c *openCache) groups(some []*openedTx) (groups []group) {
	at := map[string]int{}
	met := map[*openedTx]bool{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range some {
		if o.verified || met[o] {
			continue
		}
		met[o] = true
		whose := ""
		if organisation := o.Tx.Organisation(); c.owes(organisation) {
			whose = organisation
		}
		i, known := at[whose]
		if !known {
			i = len(groups)
			at[whose], groups = i, append(groups, group{owes: whose})
		}
		groups[i].list, groups[i].candidates = append(groups[i].list, o), append(groups[i].candidates, o.Candidate)
	}
	return groups
}

// verified notes what was found wrong with each, and the work of finding out.
func (c *openCache) verified(list []*openedTx, errs []error, work order.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work += work
	for i, o := range list {
		o.verified, o.err, o.Candidate = true, errs[i], order.Candidate{Tx: o.Tx}
		if o.err != nil && o.admitted && len(c.wrong) < wrongsMax {
			c.wrong[o.quick] = o.sum
		}
	}
}
