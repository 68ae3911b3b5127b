package peers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/types"
)

// A peer that sends what could never be right is disconnected, and may not connect again for a
// while; one that sends what is merely refused is not.
func TestAPeerThatSendsWhatCouldNeverBeRightIsDisconnected(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	var mu sync.Mutex
	var taken []string
	took := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(taken)
	}
	conduct := make([]*Conduct, 3)
	switches := p2p.MakeConnectedSwitches(comet.TestP2PConfig(), 3, func(i int, s *p2p.Switch) *p2p.Switch {
		settings := comet.TestMempoolConfig()
		settings.Broadcast = false
		conduct[i] = NewConduct(slog.New(slog.DiscardHandler))
		s.AddReactor(MempoolName, NewMempoolDoor(mempool.NewReactor(settings, &mempool.CListMempool{}, false), MempoolOptions{
			Conduct: conduct[i],
			Take: func(tx types.Tx, info mempool.TxInfo) (*abci.ResponseCheckTx, error) {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, string(tx))
				switch {
				case string(tx) == "share full":
					return nil, fmt.Errorf("of acme: %w", ErrShareFull)
				case string(tx) == "full" || info.SenderP2PID == "":
					return nil, mempool.ErrMempoolIsFull{}
				case string(tx) == "good":
					return &abci.ResponseCheckTx{}, nil
				}
				return &abci.ResponseCheckTx{Code: 4}, nil
			},
			NeverRight: func(tx []byte, code uint32) bool { return code == 4 && string(tx) == "forged" },
		}))
		return s
	}, p2p.Connect2Switches)
	for _, s := range switches {
		defer func() { _ = s.Stop() }()
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for !ok() {
			select {
			case <-ctx.Done():
				t.Fatalf("waited in vain until %s; taken: %q", what, took())
			case <-time.After(time.Millisecond):
			}
		}
	}
	to := func(i, j int) p2p.Peer { return switches[i].Peers().Get(switches[j].NodeInfo().ID()) }
	send := func(i int, txs ...string) {
		for _, tx := range txs {
			to(i, 2).Send(p2p.Envelope{ChannelID: mempool.MempoolChannel, Message: &protomem.Txs{Txs: [][]byte{[]byte(tx)}}})
		}
	}
	send(0, "full", "good", "old key")
	to(0, 2).Send(p2p.Envelope{ChannelID: mempool.MempoolChannel, Message: &protomem.Txs{Txs: [][]byte{[]byte("full"), []byte("share full"), []byte("behind it")}}})
	send(0, "good")
	until("what is merely refused was taken", func() bool {
		return slices.Equal(took(), []string{"full", "good", "old key", "full", "share full", "good"})
	})
	send(1, "forged")
	until("the other one is disconnected", func() bool { return !switches[2].Peers().Has(switches[1].NodeInfo().ID()) })
	if to(2, 0) == nil || !conduct[2].Barred(switches[1].NodeInfo().ID()) || conduct[2].Barred(switches[0].NodeInfo().ID()) {
		t.Error("not the one that sent it is barred")
	}
	// A node that connects in spite of it is disconnected.
	conduct[2].Offence(nil, to(2, 0), "test", errNeverRight)
	door, _ := switches[2].Reactor(MempoolName)
	door.AddPeer(to(2, 0))
	until("it is gone", func() bool { return switches[2].Peers().Size() == 0 })
}
