package app

import (
	"crypto/sha256"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/chainify-db/chainify/abci/app/order"
)

// openCache remembers bundles that were opened, so that a node decodes and verifies each once, be it first met in
// CheckTx or in a proposal. It is keyed by all that opening is a function of.
type openCache struct {
	mu    sync.Mutex
	byKey *lru.Cache[openKey, openedTx]
	bytes int
}

// openKey is the bytes' SHA-256 with that of the registry.
type openKey struct{ bytes, registry [sha256.Size]byte }

type openedTx struct {
	tx    order.Tx
	bytes int
}

const (
	openCacheEntriesMax = 16_384
	openCacheBytesMax   = 64 << 20 // of the bundles' own bytes
)

func newOpenCache() *openCache {
	c := &openCache{}
	// The callback runs under c.mu, within Add and RemoveOldest. A constant positive size is the only error.
	c.byKey, _ = lru.NewWithEvict(openCacheEntriesMax, func(_ openKey, old openedTx) { c.bytes -= old.bytes })
	return c
}

// open is registry.Open. Refusals, governance changes and certificates are not kept: they are cheap, or met once.
func (c *openCache) open(registry *order.Registry, raw []byte) (order.Tx, error) {
	key := openKey{sha256.Sum256(raw), registry.Hash()}
	c.mu.Lock()
	known, hit := c.byKey.Get(key)
	c.mu.Unlock()
	if hit {
		return known.tx, nil
	}
	tx, err := registry.Open(raw)
	if err != nil || tx.Bundle() == nil {
		return tx, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.byKey.Contains(key) {
		c.bytes += len(raw)
		c.byKey.Add(key, openedTx{tx, len(raw)})
	}
	for c.bytes > openCacheBytesMax {
		c.byKey.RemoveOldest()
	}
	return tx, nil
}
