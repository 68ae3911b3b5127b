package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// One of four organisations brings both keys into a token of SoftHSM, and replaces them there. Its
// node votes and submits, with no key in its home. While the token is away it does neither, and it
// goes on when the token is back. A wrong PIN is tried once.
func TestAnOrganisationHasBothKeysInAToken(t *testing.T) {
	program := os.Getenv("CHAINIFY_E2E_HSM")
	if program == "" {
		t.Skip("make test-hsm runs it")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testLimit)
	t.Cleanup(cancel)
	net := newNetwork(ctx, t)
	acme, bolt, others := net.Organisations[0], net.Organisations[1], net.Organisations[1:]
	must(t, acme.MakeToken(ctx, program))
	newKeys := func() {
		_, err := acme.RunKeyHolder(ctx, acme.TokenPIN(), "new-key", "--home", acme.TokenHome(), "--gateway", "--validator")
		must(t, err)
	}
	newKeys()
	keysOf := func() []string {
		out, err := acme.RunKeyHolder(ctx, acme.TokenPIN(), "keys")
		must(t, err)
		return strings.Fields(out)
	}
	first := keysOf()
	must(t, acme.StartKeyHolder())
	must(t, harness.Poll(ctx, readyLimit, "the key holder's socket", func(context.Context) (bool, string, error) {
		_, err := os.Stat(strings.TrimPrefix(acme.KeyHolder(), "unix://"))
		return err == nil, "not there", nil
	}))

	// From files into the token.
	approve(ctx, t, net.Organisations, acme, "org", "rotate-key", "--gateway", "--validator", "--key-holder", acme.KeyHolder())
	must(t, harness.Poll(ctx, progressLimit, "the change in force", func(ctx context.Context) (bool, string, error) {
		now := statusOf(ctx, t, bolt)
		return now == (governanceStatus{Changes: 1}), "not yet", nil
	}))
	must(t, acme.StopNode())
	must(t, acme.UseKeyHolder())
	must(t, acme.StartNode())
	must(t, acme.WaitServing(ctx, readyLimit))
	deposits(ctx, t, acme, 3)
	must(t, others[2].StopNode()) // three of four are needed: the token's votes count
	deposits(ctx, t, acme, 3)
	must(t, others[2].StartNode())
	must(t, others[2].WaitServing(ctx, readyLimit))

	// From one key in the token to the next.
	newKeys()
	govern(ctx, t, net, net.Organisations, acme, "org", "rotate-key", "--gateway", "--validator")
	deposits(ctx, t, acme, 3)
	for i := 1; i < len(first); i += 2 {
		_, err := acme.RunKeyHolder(ctx, acme.TokenPIN(), "remove-key", first[i])
		must(t, err)
	}
	must(t, acme.StopNode())
	must(t, acme.StartNode())
	must(t, acme.WaitServing(ctx, readyLimit))
	deposits(ctx, t, acme, 3)

	must(t, acme.TakeTokenAway())
	deposits(ctx, t, bolt, 3) // the others go on
	saysSo(ctx, t, filepath.Join(net.Dir, "acme", "keys.log"), "does not sign")
	must(t, acme.GiveTokenBack())
	deposits(ctx, t, acme, 3)

	if out, err := acme.RunKeyHolder(ctx, "1234", "keys"); err == nil || !strings.Contains(out, "CKR_PIN_INCORRECT") {
		t.Errorf("a wrong PIN: %s %v", out, err)
	}
	if out, err := acme.RunKeyHolder(ctx, acme.TokenPIN(), "keys"); err == nil || !strings.Contains(out, "not tried") {
		t.Errorf("after a wrong PIN: %s %v", out, err)
	}
	_, err := acme.RunKeyHolder(ctx, acme.TokenPIN(), "keys", "--try-pin-again")
	must(t, err)
	for _, pattern := range []string{"config/gateway_key*", "config/priv_validator*", "data/priv_validator*"} {
		if files, _ := filepath.Glob(filepath.Join(acme.Home(), pattern)); len(files) > 0 {
			t.Errorf("the home has %v", files)
		}
	}
	_, err = harness.WaitSame(ctx, net.Organisations, 1, catchUpLimit)
	must(t, err)
	checkVerified(ctx, t, acme)
	checkSameTransactions(ctx, t, net)
}

// saysSo waits until a log has a text.
func saysSo(ctx context.Context, t *testing.T, log, text string) {
	t.Helper()
	must(t, harness.Poll(ctx, progressLimit, log+" to say "+text, func(context.Context) (bool, string, error) {
		content, err := os.ReadFile(log)
		return strings.Contains(string(content), text), "", err
	}))
}
