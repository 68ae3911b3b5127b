package e2e

import (
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Three organisations and one validator without a database: with c = 2 they survive the loss of one
// organisation, which comes back, and the loss of the validator.
func TestThreeOrganisationsAndAnOrdererSurviveOne(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := networkOf(ctx, t, harness.Config{
		Organisations: []string{"acme", "bolt", "cargo"}, OrderingOnly: []string{"notary"}, Consent: 2,
	})
	acme, cargo, notary := net.Organisations[0], net.Organisations[2], net.Orderers[0]
	deposit := func() {
		t.Helper()
		must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')"))
	}
	deposit()
	out, err := notary.Run(ctx, "status")
	must(t, err)
	if !strings.Contains(out, "ordering_only") {
		t.Errorf("status of the validator without a database:\n%s", out)
	}

	must(t, cargo.StopNode())
	must(t, cargo.Cluster.Stop())
	deposit()
	deposit()
	must(t, cargo.Cluster.Start(ctx))
	must(t, cargo.StartNode())
	caughtUp(ctx, t, net, cargo)

	must(t, notary.StopNode())
	deposit()
	must(t, notary.StartNode())
	deposit()
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range net.Organisations {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}
