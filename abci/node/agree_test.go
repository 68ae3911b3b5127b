package node

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chainify-db/chainify/abci/backend"
)

// lagging is a database that agrees once it has block 6.
type lagging struct {
	backend.Rehearser
	block atomic.Uint64
	looks atomic.Int64
}

func (d *lagging) Rehearse(context.Context, [][]byte) ([]backend.Rehearsal, error) {
	d.looks.Add(1)
	if d.block.Load() < 6 {
		return []backend.Rehearsal{{Refusal: `it changes no row that "bolt" has to agree to`}}, nil
	}
	return []backend.Rehearsal{{}}, nil
}

// An organisation whose database is a block behind that of the asking one waits for the block, and
// then answers. Without the block it says that it is behind.
func TestAnOrganisationAnswersWithTheBlockThatTheAskerHas(t *testing.T) {
	for _, of := range []struct {
		name                 string
		told, decided        int64         // order blocks that the asker works on, and that are decided here
		ordered              uint64        // ledger block
		decides, commits     time.Duration // after which this node and its database have the asker's; 0: never
		wantWait, wantAtMost time.Duration
		want                 string
	}{
		{name: "the block is ordered here", told: 8, decided: 7, ordered: 6, commits: 2 * time.Second, wantWait: 2 * time.Second, wantAtMost: 2100 * time.Millisecond},
		{name: "the block is not decided here", told: 8, decided: 6, ordered: 5, decides: time.Second, commits: 2 * time.Second, wantWait: 2 * time.Second, wantAtMost: 2100 * time.Millisecond},
		{name: "the database never has it", told: 8, decided: 7, ordered: 6, wantWait: agreementWait, wantAtMost: agreementWait + time.Second, want: "its database is behind: it has block 5, and block 6 is ordered"},
		{name: "the node never has it", told: 8, decided: 6, ordered: 5, wantWait: agreementWait, wantAtMost: agreementWait + time.Second, want: "its node is behind: it has decided order block 6, and the asking one block 7"},
		{name: "nothing is lacking", told: 8, decided: 7, ordered: 5, wantAtMost: time.Second, want: `it changes no row that "bolt" has to agree to`},
		{name: "nobody said where the asker stands", decided: 7, ordered: 5, wantAtMost: time.Second, want: `it changes no row that "bolt" has to agree to`},
	} {
		t.Run(of.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &lagging{}
				d.block.Store(5)
				var decided, ordered atomic.Int64
				decided.Store(of.decided)
				ordered.Store(int64(of.ordered))
				if of.decides > 0 {
					time.AfterFunc(of.decides, func() { ordered.Store(6); decided.Store(7) })
				}
				if of.commits > 0 {
					time.AfterFunc(of.commits, func() { d.block.Store(6) })
				}
				began := time.Now()
				refusal, err := decide(t.Context(), d, asker{
					func() int64 { return of.told }, decided.Load, func() uint64 { return uint64(ordered.Load()) }, d.block.Load,
				}, nil)
				took := time.Since(began)
				if err != nil || !strings.HasPrefix(refusal, of.want) || of.want == "" && refusal != "" {
					t.Errorf("answers %q, %v, want %q", refusal, err, of.want)
				}
				if took < of.wantWait || took > of.wantAtMost || d.looks.Load() > agreementLooks {
					t.Errorf("answers after %s and %d looks, want %s to %s", took, d.looks.Load(), of.wantWait, of.wantAtMost)
				}
			})
		})
	}
}
