package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"sync"
	"testing"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/greedy"
	"github.com/chainify-db/chainify/abci/e2e/harness"
)

// Three of five organisations have the nodes of the two others work in vain, in every way at once.
// All transactions of clients of the two succeed meanwhile. Each greedy organisation is charged by
// each of the two, and nothing beyond its bounds is looked at. The chain and all rows are right.
func TestThreeGreedyOrganisationsStopNobody(t *testing.T) {
	if os.Getenv("CHAINIFY_GREEDY") == "" {
		t.Skip("minutes, and the whole machine: run by make soak-long (CHAINIFY_GREEDY=1)")
	}
	t.Parallel()
	ctx := underTest(t)
	net := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta", "echo"}})
	honest, others := net.Organisations[:2], net.Organisations[2:]
	deposits(ctx, t, others[0], 10) // bundles to be sent again
	attack, err := greedy.Connect(ctx, greedy.Options{
		Members: homesOf(others), Targets: homesOf(honest), Kinds: greedy.Kinds, Role: "bank",
		SQL: "UPDATE checking SET balance = balance + 1", BytesPerSecond: 4 << 20,
	})
	must(t, err)
	t.Cleanup(attack.Close)
	must(t, attack.Prepare(ctx))

	sending, stop := context.WithCancel(ctx)
	var senders, clients sync.WaitGroup
	senders.Go(func() { attack.Run(sending) })
	t.Cleanup(func() { stop(); senders.Wait() })
	for _, o := range honest {
		clients.Go(func() { deposits(ctx, t, o, 30) })
	}
	clients.Wait()
	for _, o := range honest {
		for _, greedy := range others {
			for _, line := range []string{
				"sent too much that is refused", "send too many votes beside their first ones", "send too many parts of blocks", "send too many notes",
			} {
				said := regexp.MustCompile(line + ".* organisation=" + greedy.Name)
				must(t, harness.Poll(ctx, progressLimit, fmt.Sprintf("%s charges %s: %s", o.Name, greedy.Name, line), func(context.Context) (bool, string, error) {
					return said.MatchString(o.NodeTail(100_000)), "", nil
				}))
			}
		}
	}
	must(t, harness.Poll(ctx, progressLimit, "questions are refused because time is used up", func(context.Context) (bool, string, error) {
		return attack.Counts()[greedy.Questions].Refused > 0, "", nil
	}))
	stop()
	senders.Wait()
	for kind, c := range attack.Counts() {
		if c.Messages == 0 {
			t.Errorf("nothing is sent of kind %s", kind)
		}
	}
	attack.Close()
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range honest {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
}

func homesOf(organisations []*harness.Organisation) (out []config.Home) {
	for _, o := range organisations {
		out = append(out, config.Home(o.Home()))
	}
	return out
}
