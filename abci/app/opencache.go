package app

import (
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/chainify-db/chainify/abci/app/order"
)

// openCache remembers bundles that were opened until a block with them is decided, so that a node
// decodes and verifies each once, be it first met in CheckTx or in a proposal. It is keyed by all
// that opening is a function of.
//
// It verifies clients' signatures of many bundles together, which is several times cheaper. Those
// of bundles admitted to the mempool wait for verifyTogether transactions, or for a proposal that
// asks for one of them. Until then their gateway answers for them: it has verified them, and what
// it signed in vain goes at the next recheck, which knows it by its hash.
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

// openedTx is what is known of a transaction; but for what its bytes are, of the cache's lock.
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
	wrongsMax           = 16_384   // more than a mempool holds (config.MempoolTxsMax)
	verifyTogether      = 256
)

func newOpenCache() *openCache {
	c := &openCache{wrong: wrongs{}, seed: maphash.MakeSeed()}
	// The callback runs under c.mu, within Add, Remove and RemoveOldest. A constant positive size
	// is the only error.
	c.byKey, _ = lru.NewWithEvict(openCacheEntriesMax, func(_ openKey, old *openedTx) { c.bytes -= old.bytes })
	return c
}

// admit is registry.Open for CheckTx: clients' signatures may still be to be verified.
func (c *openCache) admit(registry *order.Registry, raw []byte) (order.Tx, error) {
	o, err := c.candidate(registry, raw)
	if err != nil {
		return order.Tx{}, err
	}
	if c.enough(o) {
		c.verify(registry)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.admitted = o.admitted || o.err == nil
	return o.Tx, o.err
}

// enough has a bundle wait, and reports whether enough do.
func (c *openCache) enough(o *openedTx) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !o.verified && !o.waits {
		o.waits = true
		c.waiting, c.waits = append(c.waiting, o), c.waits+o.Tx.Bundle().Len()
	}
	return c.waits >= verifyTogether
}

// all is registry.Open for each of a proposal's transactions.
func (c *openCache) all(registry *order.Registry, raw [][]byte) ([]order.Tx, []error) {
	list, txs, errs := make([]*openedTx, len(raw)), make([]order.Tx, len(raw)), make([]error, len(raw))
	var unverified []*openedTx
	for i := range raw {
		if list[i], errs[i] = c.candidate(registry, raw[i]); errs[i] == nil {
			unverified = append(unverified, list[i])
		}
	}
	c.verify(registry, unverified...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range list {
		if errs[i] == nil {
			txs[i], errs[i] = o.Tx, o.err
		}
	}
	return txs, errs
}

// own remembers a bundle whose clients' signatures the organisation's own gateway verified.
func (c *openCache) own(registry *order.Registry, raw []byte) {
	if o, err := c.candidate(registry, raw); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		o.verified = true
	}
}

// forget drops the bundles of a decided block, which nobody opens again: CometBFT's mempool knows
// them for long.
func (c *openCache) forget(registry *order.Registry, raw [][]byte) {
	for _, one := range raw {
		key := keyOf(registry, one)
		c.mu.Lock()
		c.byKey.Remove(key)
		c.mu.Unlock()
	}
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
func (c *openCache) candidate(registry *order.Registry, raw []byte) (*openedTx, error) {
	key := keyOf(registry, raw)
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

// verify verifies the clients' signatures of some, with all that wait.
func (c *openCache) verify(registry *order.Registry, some ...*openedTx) {
	list, candidates := c.unverified(some)
	if len(list) == 0 {
		return
	}
	errs := registry.VerifyClients(candidates...)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range list {
		o.verified, o.err, o.Candidate = true, errs[i], order.Candidate{Tx: o.Tx}
		if o.err != nil && o.admitted && len(c.wrong) < wrongsMax {
			c.wrong[o.quick] = o.sum
		}
	}
}

// unverified takes those that wait, and lists with them those of some that do not, each once.
func (c *openCache) unverified(some []*openedTx) (list []*openedTx, candidates []order.Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	met := map[*openedTx]bool{}
	for _, o := range append(c.waiting, some...) {
		if o.waits = false; !o.verified && !met[o] {
			met[o] = true
			list, candidates = append(list, o), append(candidates, o.Candidate)
		}
	}
	c.waiting, c.waits = nil, 0
	return list, candidates
}
