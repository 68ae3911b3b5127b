package app

import (
	"crypto/ed25519"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/wire"
)

// keysEver are the keys under which something that waits somewhere may be signed, with what they
// were collected from.
type keysEver struct {
	keys     order.Keys
	registry wire.Hash
	change   wire.Hash // the last one accepted
}

// KeysEver returns the gateway keys that organisations have, had, or will have. They must not be
// changed.
func (a *App) KeysEver() order.Keys {
	state, err := a.current()
	if err != nil {
		return nil
	}
	a.mu.RLock()
	known := a.ever
	a.mu.RUnlock()
	if known != nil && known.registry == state.Registry().Hash() && known.change == state.Governance().Hash {
		return known.keys
	}
	were, err := a.opt.Store.registries()
	if err != nil {
		a.log.Error("which keys organisations had cannot be read", "error", err)
		return nil
	}
	now := &keysEver{state.KeysOf(were), state.Registry().Hash(), state.Governance().Hash}
	a.mu.Lock()
	a.ever = now
	a.mu.Unlock()
	return now.keys
}

// NeverRight tells of a transaction that CheckTx refused with a code whether no node's mempool can
// have held it (order.Keys).
func (a *App) NeverRight(raw []byte, code uint32) bool {
	state, err := a.current()
	keys := a.KeysEver()
	return err == nil && keys != nil && keys.NeverRight(state.Registry().ChainID(), raw, code)
}

// Ever reports whether a key that an organisation has, had, or will have fits. It does when that
// cannot be told.
func (a *App) Ever(organisation string, fits func(ed25519.PublicKey) bool) bool {
	keys := a.KeysEver()
	return keys == nil || keys.Some(organisation, fits)
}
