package node

import (
	"crypto/ed25519"
	"log/slog"
	"testing"

	"github.com/cometbft/cometbft/mempool"

	"github.com/chainify-db/chainify/abci/comet"
	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// Messages of peers pass the door: CometBFT's own reactor would take them without noting the peers
// that send what could never be right.
func TestTheMempoolHasADoor(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	c, err := config.Load(string(r.home))
	must.Do(t, err)
	log := slog.New(slog.DiscardHandler)
	n := &node{opt: Options{Home: r.home, Config: c, Log: log, Backend: r.backend()}, log: log, conduct: peers.NewConduct(log), environments: peers.NewEnvironments(), failed: make(chan string, 1)}
	must.Do(t, n.assemble())
	t.Cleanup(func() { _ = n.close() })
	order := n.order.(*comet.Inside)
	if _, door := order.Reactor(peers.MempoolName).(*peers.MempoolDoor); !door {
		t.Fatalf("it has %T", order.Reactor(peers.MempoolName))
	}
	for name, tx := range map[string]struct {
		raw   []byte
		never bool
	}{
		"garbage": {[]byte{1, 2, 3}, true},
		"an organisation that never was": {wire.SignBundle(ed25519.NewKeyFromSeed(make([]byte, 32)), &wire.Bundle{
			ChainId: n.founded.ChainID(), Organisation: "nobody", Transactions: []*wire.ChainedTx{{}},
		}), true},
	} {
		answer, err := order.Offer(tx.raw, mempool.TxInfo{})
		if err != nil || answer == nil || answer.Code == 0 || n.app.NeverRight(tx.raw, answer.Code) != tx.never {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
}
