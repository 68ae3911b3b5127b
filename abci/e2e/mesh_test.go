package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// The organisations stand in a row, each connected to its neighbours alone. A bundle of the first
// reaches the others all the same, though the next proposers do not hear of it from its gateway.
func TestOrganisationsInARow(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	all := net.Organisations
	must(t, net.Each(func(o *harness.Organisation) error { return o.StopNode() }))
	listen := regexp.MustCompile(`(?s)\n\[network\].*?\nlisten = "([^"]+)"`)
	addresses := make([]string, len(all))
	for i, o := range all {
		addresses[i] = listen.FindStringSubmatch(settings(t, o))[1]
	}
	for i, o := range all {
		var near []string
		for j, address := range addresses {
			if j == i-1 || j == i+1 {
				near = append(near, "@"+address)
			}
		}
		keepPeers(t, o, near)
	}
	must(t, net.StartNodes(ctx, readyLimit))
	const each = 10
	for _, o := range all {
		started := time.Now()
		deposits(ctx, t, o, each)
		t.Logf("%d deposits at %s after %s", each, o.Name, time.Since(started).Round(time.Millisecond))
	}
	waitSame(ctx, t, all, 1)
	checkSameTransactions(ctx, t, net)
}

func settings(t *testing.T, o *harness.Organisation) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(o.Home(), "chainify.toml"))
	must(t, err)
	return string(text)
}

// keepPeers leaves a node those peers that end in one of these.
func keepPeers(t *testing.T, o *harness.Organisation, near []string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^peers = \[(.*)\]$`)
	text := settings(t, o)
	found := line.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no peers in the settings of %s", o.Name)
	}
	var kept []string
	for peer := range strings.SplitSeq(found[1], ",") {
		for _, end := range near {
			if strings.HasSuffix(strings.Trim(peer, ` "`), end) {
				kept = append(kept, strings.TrimSpace(peer))
			}
		}
	}
	if len(kept) != len(near) {
		t.Fatalf("%s keeps %q, want %q", o.Name, kept, near)
	}
	text = strings.Replace(text, found[0], "peers = ["+strings.Join(kept, ", ")+"]", 1)
	must(t, os.WriteFile(filepath.Join(o.Home(), "chainify.toml"), []byte(text), 0o600))
}
