package peers

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	abci "github.com/cometbft/cometbft/abci/types"
	comet "github.com/cometbft/cometbft/config"
	"github.com/cometbft/cometbft/mempool"
	"github.com/cometbft/cometbft/p2p"
	protomem "github.com/cometbft/cometbft/proto/tendermint/mempool"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/fair"
)

// A member pays for what its nodes pass on and the mempool refuses, all nodes together, until
// nothing of it is looked at. Transactions that are taken, or find no room, cost nothing. One that
// is known costs an eighth.
func TestWhatIsRefusedIsChargedToTheMember(t *testing.T) {
	conduct := NewConduct(slog.New(slog.DiscardHandler))
	conduct.Member = func(peer p2p.Peer) string {
		return map[p2p.ID]string{"a1": "acme", "a2": "acme", "b1": "bolt"}[peer.ID()]
	}
	looked := 0
	answer, failed := (*abci.ResponseCheckTx)(nil), error(nil)
	door := NewMempoolDoor(mempool.NewReactor(comet.TestMempoolConfig(), &mempool.CListMempool{}, false), MempoolOptions{
		Conduct:    conduct,
		Take:       func(types.Tx, mempool.TxInfo) (*abci.ResponseCheckTx, error) { looked++; return answer, failed },
		NeverRight: func([]byte, uint32) bool { return false },
	})
	now := time.Unix(1_700_000_000, 0)
	door.refused = fair.NewBudget[string](refusedMax, refusedEach, conductKept, func() time.Time { return now })
	send := func(from p2p.ID, size, times int) int {
		before := looked
		for range times {
			door.Receive(p2p.Envelope{Src: named{id: from}, ChannelID: mempool.MempoolChannel, Message: &protomem.Txs{Txs: [][]byte{make([]byte, size)}}})
		}
		return looked - before
	}
	failed = errors.New("no room")
	if n := send("a1", 1<<20, 100); n != 100 {
		t.Errorf("%d of 100 are looked at that cost nothing", n)
	}
	failed = mempool.ErrTxInCache
	if n, want := send("b1", 1<<20, 1000), knownPart*refusedMax/(1<<20+refusedLeast)+1; n != want {
		t.Errorf("%d of 1000 that are known are looked at, want %d", n, want)
	}
	now = now.Add(time.Hour)
	answer, failed = &abci.ResponseCheckTx{}, nil
	if n := send("a1", 1<<20, 100); n != 100 {
		t.Errorf("%d of 100 are looked at that are taken", n)
	}
	answer = &abci.ResponseCheckTx{Code: 1}
	if n, want := send("a1", 1<<20, 100), refusedMax/(1<<20+refusedLeast)+1; n != want {
		t.Errorf("%d of 100 are looked at, want %d", n, want)
	}
	if n := send("a2", 100, 10); n != 0 {
		t.Errorf("%d of another node of the same member are looked at", n)
	}
	if n := send("b1", 100, 10); n != 10 {
		t.Errorf("%d of 10 of another member are looked at", n)
	}
	total := 0
	for range 100 { // seconds
		now = now.Add(time.Second)
		total += send("a1", 100, 1000)
	}
	if most := 100*(2<<20)/refusedLeast + 1; total > most || total < most/2 {
		t.Errorf("%d small ones are looked at in 100 seconds, want at most %d", total, most)
	}
}
