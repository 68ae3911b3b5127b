package e2e

import (
	"testing"
)

// A process of its own holds the validator key of one organisation. Its node votes as before. While
// the signer is away the others go on, and the node catches up when it is back.
func TestASignerHoldsTheValidatorKey(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme, bolt := net.Organisations[0], net.Organisations[1]
	must(t, acme.StopNode())
	must(t, acme.SeparateSigner())
	must(t, acme.StartSigner())
	must(t, acme.StartNode())
	must(t, acme.WaitServing(ctx, readyLimit))
	deposits(ctx, t, acme, 3)

	must(t, net.Organisations[3].StopNode()) // three of four are needed: the signer's votes count
	deposits(ctx, t, acme, 3)
	must(t, net.Organisations[3].StartNode())
	must(t, net.Organisations[3].WaitServing(ctx, readyLimit))

	must(t, acme.StopSigner())
	deposits(ctx, t, bolt, 3)
	must(t, acme.StartSigner())
	deposits(ctx, t, acme, 3)
	waitSame(ctx, t, net.Organisations, 1)
	checkVerified(ctx, t, acme)
	checkSameTransactions(ctx, t, net)
}
