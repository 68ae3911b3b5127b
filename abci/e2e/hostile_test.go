package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// One of four validators forges what it proposes, then lies about what its database did. The others
// refuse the proposal and count the vote for nothing. They commit every transaction once, and blame
// nobody else.
func TestAHostileValidatorChangesNothing(t *testing.T) {
	t.Parallel()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(ctx, testLimit)
	t.Cleanup(cancel)
	network := newNetwork(ctx, t)
	hostile := network.Organisations[3]
	honest := others(network, hostile)
	program := filepath.Join(t.TempDir(), "hostile")
	command(t, "go", "build", "-o", program, "./cmd/hostile")
	must(t, hostile.Use(program))

	const most = 300 // transactions, for all attacks to be tried, and seen
	for _, attack := range []struct {
		how   string
		where *harness.Organisation // whose log tells
		tells []string
	}{
		{"proposals", honest[0], []string{ // a forged proposal that comes late is none that anybody refuses
			`proposal refused.*not by the gateway of`, `proposal refused.*vote 0: .*signature`, `proposal refused.*fits no vote`,
			`proposal refused.*a certificate that is not first`, `proposal refused.*not a protobuf message`,
		}},
		{"votes", hostile, []string{
			`hostile vote.*another hash`, `hostile vote.*the vote of another`, `hostile vote.*the vote before`, `hostile vote.*stuck`, `hostile vote.*nothing`,
		}},
	} {
		t.Run(attack.how, func(t *testing.T) {
			must(t, hostile.StopNode())
			must(t, hostile.StartNodeWith("CHAINIFY_HOSTILE="+attack.how))
			caughtUp(ctx, t, network, hostile)
			untold := attack.tells
			for made := 0; len(untold) > 0; made++ {
				if made == most {
					t.Fatalf("not seen after %d transactions: %q", made, untold)
				}
				// One transaction takes two order blocks, and every fourth is the hostile
				// validator's: it would propose blocks of one kind alone. Two at once take another
				// number.
				var two errgroup.Group
				for i := range 1 + made%2 {
					at := honest[(made+i)%len(honest)]
					two.Go(func() error {
						return at.Exec(ctx, "bank", fmt.Sprintf("SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = %d')", i+1))
					})
				}
				must(t, two.Wait())
				log := attack.where.NodeTail(100_000)
				untold = slices.DeleteFunc(slices.Clone(untold), func(line string) bool { return regexp.MustCompile(line).MatchString(log) })
			}
		})
	}
	for _, o := range honest {
		// A vote that comes when the others' make the certificate already counts for nothing: then
		// a later one is seen.
		differs := func() string {
			return metric(t, o, `chainify_votes_total{organisation="`+hostile.Name+`",verdict="differs"}`)
		}
		for made := 0; differs() == "" || differs() == "0"; made++ {
			if made == most {
				t.Fatalf("%s saw no vote of %s that differs", o.Name, hostile.Name)
			}
			deposits(ctx, t, o, 1)
		}
		var deviations, failed int
		must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.deviations", &deviations))
		must(t, o.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE NOT outcome", &failed))
		if deviations > 0 || failed > 0 {
			t.Errorf("%s: %d deviations, %d failed transactions, want none", o.Name, deviations, failed)
		}
		checkVerified(ctx, t, o)
	}
	waitSame(ctx, t, network.Organisations, 1)
	checkSameTransactions(ctx, t, network)
}

// metric is the value of one of the node's figures, empty when there is none.
func metric(t *testing.T, o *harness.Organisation, name string) string {
	t.Helper()
	c, err := config.Load(o.Home())
	must(t, err)
	res, err := http.Get(fmt.Sprintf("http://%s/metrics", c.Metrics.Listen))
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
