package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// An organisation votes that a transaction does not end, while two databases are down. Its node is
// lost, and a standby takes over with a backup of the keys, as the guide has it. The standby may
// execute the transaction to its end: it votes on it only what the order shows. So nobody has
// evidence against the organisation.
func TestATakeOverConvictsNobody(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisations[0], net.Organisations[1]
	spare, err := acme.AddSpare(ctx)
	must(t, err)
	deposits(ctx, t, bolt, 3)
	hasOrder(ctx, t, spare, &acme.Node, 1, 2)
	for _, away := range net.Organisations[2:] {
		must(t, away.Server().Stop())
	}
	var id string
	bank := patient(ctx, t, bolt)
	defer bank.Close(ctx)
	must(t, bank.QueryRow(ctx, "SELECT encode(chainify.submit('SELECT count(*) FROM generate_series(1, 20000000)'), 'hex')").Scan(&id))
	must(t, harness.Poll(ctx, catchUpLimit, "acme votes that the transaction does not end", func(ctx context.Context) (bool, string, error) {
		_, err := acme.Run(ctx, "cancel", id)
		return err == nil, fmt.Sprint(err), nil
	}))
	gaveUp := heightOf(ctx, &acme.Node)
	must(t, harness.Poll(ctx, catchUpLimit, "the vote is in a precommit", func(ctx context.Context) (bool, string, error) {
		now := heightOf(ctx, &bolt.Node)
		return now > gaveUp+1, fmt.Sprintf("height %d, %d was then", now, gaveUp), nil
	}))

	copied, err := acme.LoseNode()
	must(t, err)
	must(t, acme.TakeOver(ctx, spare, copied))
	must(t, harness.Poll(ctx, takeOverLimit, "acme signs again", func(ctx context.Context) (bool, string, error) {
		text, _ := acme.Run(ctx, "status")
		return strings.Contains(text, "chain ") && !strings.Contains(text, "signs nothing yet"), text, nil
	}))
	for _, back := range net.Organisations[2:] {
		must(t, back.Server().Start(ctx))
	}
	for _, o := range net.Organisations {
		must(t, o.WaitServing(ctx, takeOverLimit))
	}
	deposits(ctx, t, acme, 3) // bolt's client may be suspended: the others may have voted as acme did
	deposits(ctx, t, net.Organisations[3], 3)
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		if out, err := o.Run(ctx, "evidence"); err != nil {
			t.Errorf("evidence at %s: %v\n%s", o.Name, err, out)
		}
	}
}
