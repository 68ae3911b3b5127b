package app

import (
	"crypto/sha256"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/chainify-db/chainify/abci/app/order"
)

// openCache remembers bundles that were opened, so that a node decodes and verifies each once, be it first met in
// CheckTx or in a proposal. It is keyed by the bytes' SHA-256; opening is a function of them and the registry.
type openCache struct {
	mu    sync.Mutex
	byKey *lru.Cache[[sha256.Size]byte, openedTx]
	bytes int
}

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
	c.byKey, _ = lru.NewWithEvict(openCacheEntriesMax, func(_ [sha256.Size]byte, old openedTx) { c.bytes -= old.bytes })
	return c
}

// open is registry.Open. Refusals, policy changes and certificates are not kept: they are cheap, or met once.
func (c *openCache) open(registry *order.Registry, raw []byte) (order.Tx, error) {
	key := sha256.Sum256(raw)
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
