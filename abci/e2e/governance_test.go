package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/e2e/smallbank"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/wire"
)

// blocksBehind is more blocks than a connected node is ever behind while clients deposit.
const blocksBehind = 20

// A fifth organisation joins a running network, after a change that waited was withdrawn, votes,
// gets other keys and leaves, while clients go on. No change loses or doubles a transaction, and
// everybody can verify the whole chain with the keys of each block.
func TestAFifthOrganisationJoinsRotatesItsKeysAndLeaves(t *testing.T) {
	t.Parallel()
	ctx := underTestFor(t, 2*testLimit)
	net := newNetwork(ctx, t)
	acme := net.Organisations[0]
	bank := smallbank.Bank{Scripts: filepath.Join("..", "..", "scripts", "smallbank"), Customers: customers}
	stop := keepDepositing(ctx, t, acme)

	echo, part, err := net.Outsider(ctx, "echo",
		func(o *harness.Organisation) error { return bank.Create(ctx, o) },
		func(o *harness.Organisation) error {
			if err := bank.CreateRoles(ctx, o); err != nil {
				return err
			}
			return o.Exec(ctx, "postgres", "REVOKE DELETE ON accounts FROM bank")
		})
	must(t, err)
	must(t, echo.StartNode())
	caughtUp(ctx, t, net, echo) // it follows before it takes part
	if err := echo.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"); err == nil {
		t.Error("an organisation that takes no part yet submits")
	}
	founders := net.Organisations[:4]
	approve(ctx, t, founders[:3], acme, "governance", "propose", "--consent", "2", "--from-height", "50000")
	inForce(ctx, t, net, governanceStatus{Changes: 0, Waiting: true})
	if out, err := acme.Run(ctx, "org", "add", file(t, part)); err == nil || !strings.Contains(out, "withdraw") {
		t.Errorf("a second change while one waits: %s", out)
	}
	approve(ctx, t, founders[1:], acme, "governance", "withdraw")
	inForce(ctx, t, net, governanceStatus{Changes: 2})
	consent(ctx, t, acme, 3, 4)
	govern(ctx, t, net, founders[:3], acme, "org", "add", file(t, part))
	must(t, echo.WaitServing(ctx, readyLimit))
	must(t, echo.Named(false)) // from here on its organisation vouches for it
	consent(ctx, t, acme, 4, 5)

	// With c = 4 of 5 the others need it when one of them is away.
	must(t, founders[3].StopNode())
	must(t, echo.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"))
	must(t, founders[3].StartNode())
	must(t, founders[3].WaitServing(ctx, readyLimit))

	for i, key := range []string{"--gateway", "--validator"} {
		govern(ctx, t, net, founders, echo, "org", "rotate-key", key)
		keys := func(o *harness.Organisation) (n int) {
			must(t, o.Scan(ctx, "SELECT count(*) + sum(cardinality(validator_keys)) FROM chainify.organisations WHERE name = 'echo'", &n))
			return n
		}
		must(t, echo.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"))
		if got, want := keys(echo), []int{4, 5}[i]; got != want {
			t.Errorf("after %s: %d rows and keys of echo are known, want %d", key, got, want)
		}
	}
	must(t, founders[2].StopNode()) // its vote counts with the new key
	must(t, echo.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"))
	must(t, founders[2].StartNode())
	must(t, founders[2].WaitServing(ctx, readyLimit))

	govern(ctx, t, net, founders, acme, "org", "remove", "echo")
	consent(ctx, t, acme, 3, 4)
	if err := echo.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"); err == nil {
		t.Error("an organisation that was removed submits")
	}
	must(t, founders[1].StopNode()) // three of four suffice again
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 2')"))
	must(t, founders[1].StartNode())
	must(t, harness.Poll(ctx, progressLimit, "echo, which left, reads no more blocks", func(ctx context.Context) (bool, string, error) {
		left, err := echo.Tip(ctx)
		if err != nil {
			return false, "", err
		}
		now, err := acme.Tip(ctx)
		return now.Number >= left.Number+blocksBehind, fmt.Sprintf("at block %d of %d", left.Number, now.Number), err
	}))
	answered := stop()
	stays := net.Organisations
	net.Organisations = founders
	waitSame(ctx, t, net.Organisations, 1)
	for _, o := range stays {
		checkVerified(ctx, t, o)
	}
	checkSameTransactions(ctx, t, net)
	net.Organisations = stays
	var deposited int
	must(t, acme.Scan(ctx, "SELECT count(*) FROM chainify.transactions WHERE outcome AND sql LIKE '%custid = 1'", &deposited))
	if deposited != answered {
		t.Errorf("%d deposits are on the ledger, the clients were told of %d", deposited, answered)
	}
	t.Logf("%d deposits meanwhile", answered)
}

// keepDepositing has a client deposit again and again until stop, which returns how many it was
// told are done. One that is refused fails the test, unless a node is away for a moment.
func keepDepositing(ctx context.Context, t *testing.T, o *harness.Organisation) (stop func() int) {
	conn := patient(ctx, t, o)
	ending, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	answered := 0
	all.Go(func() {
		defer conn.Close(context.WithoutCancel(ctx))
		for ending.Err() == nil {
			var outcome bool
			err := conn.QueryRow(ctx, "SELECT outcome FROM chainify.execute('UPDATE checking SET balance = balance + 1 WHERE custid = 1')").Scan(&outcome)
			switch {
			case err == nil && outcome:
				answered++
			default:
				t.Errorf("deposit after %d: outcome %t, %v", answered, outcome, err)
				return
			}
		}
	})
	return func() int {
		end()
		all.Wait()
		return answered
	}
}

// govern has a change approved, and waits until it is in force everywhere.
func govern(ctx context.Context, t *testing.T, net *harness.Network, signers []*harness.Organisation, at *harness.Organisation, group, command string, args ...string) {
	t.Helper()
	changes := statusOf(ctx, t, at).Changes
	approve(ctx, t, signers, at, group, command, args...)
	inForce(ctx, t, net, governanceStatus{Changes: changes + 1})
}

// approve proposes at an organisation, has the signers sign, and submits there.
func approve(ctx context.Context, t *testing.T, signers []*harness.Organisation, at *harness.Organisation, group, command string, args ...string) {
	t.Helper()
	out, err := at.Run(ctx, group, append([]string{command}, args...)...)
	must(t, err)
	change := file(t, out)
	var approvals []string
	for _, o := range signers {
		out, err := o.Run(ctx, "governance", "sign", change)
		must(t, err)
		approvals = append(approvals, file(t, out))
	}
	_, err = at.Run(ctx, "governance", append([]string{"submit"}, approvals...)...)
	must(t, err)
}

// governanceStatus is how many changes are in force, and whether another one waits.
type governanceStatus struct {
	Changes uint64
	Waiting bool
}

// inForce waits until all organisations say so.
func inForce(ctx context.Context, t *testing.T, net *harness.Network, want governanceStatus) {
	t.Helper()
	for _, o := range net.Organisations {
		must(t, harness.Poll(ctx, progressLimit, fmt.Sprintf("%+v at %s", want, o.Name), func(ctx context.Context) (bool, string, error) {
			now := statusOf(ctx, t, o)
			return now == want, fmt.Sprintf("%+v", now), nil
		}))
	}
}

func statusOf(ctx context.Context, t *testing.T, o *harness.Organisation) governanceStatus {
	t.Helper()
	out, err := o.Run(ctx, "governance", "status", "--json")
	must(t, err)
	var s struct {
		Changes uint64 `json:"changes"`
		Waiting any    `json:"waiting"`
	}
	must(t, json.Unmarshal([]byte(out), &s))
	return governanceStatus{s.Changes, s.Waiting != nil}
}

// file writes a command's JSON, which may follow what it said for people, where every node's user
// can read it.
func file(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp("", "chainify-e2e-*.json")
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	_, err = f.WriteString(text[strings.Index(text, "{"):])
	must(t, err)
	must(t, f.Chmod(0o644))
	must(t, f.Close())
	return f.Name()
}

// consent checks how many of how many have to agree now.
func consent(ctx context.Context, t *testing.T, o *harness.Organisation, c, n int) {
	t.Helper()
	var organisations, consent int
	must(t, o.Scan(ctx, "SELECT organisations, consent FROM chainify.status", &organisations, &consent))
	if organisations != n || consent != c {
		t.Errorf("%s: consent is %d of %d, want %d of %d", o.Name, consent, organisations, c, n)
	}
}

// removeClientWithoutBlocks takes the only key of acme's clients away while half of the nodes rest:
// the command does not claim success before a block holds the change.
func removeClientWithoutBlocks(ctx context.Context, t *testing.T, net *harness.Network, public string) {
	t.Helper()
	acme, resting := net.Organisations[0], net.Organisations[2:]
	for _, o := range resting {
		must(t, o.PauseNode())
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if out, err := acme.Run(short, "client", "remove", public); err == nil {
		t.Errorf("the key is said to be taken away, and no block can hold the change: %q", out)
	}
	for _, o := range resting {
		must(t, o.ResumeNode())
	}
	must(t, harness.Poll(ctx, progressLimit, "the key is taken away", func(ctx context.Context) (bool, string, error) {
		out, err := acme.Run(ctx, "client", "list")
		return err == nil && out == "", out, nil
	}))
}

// A client signs with a key of its own. The databases show whose key it was; the key signs for its
// role alone, and for none once it is taken away.
func TestAClientSignsWithItsOwnKey(t *testing.T) {
	t.Parallel()
	ctx := underTest(t)
	net := newNetwork(ctx, t)
	acme := net.Organisations[0]
	secret := filepath.Join(acme.Home(), "clerk.json")
	run := func(command string, args ...string) (string, error) { return acme.Run(ctx, command, args...) }
	out, err := acme.Tool(ctx, "client", "key", secret)
	must(t, err)
	public := strings.TrimSpace(out)
	const deposit = "UPDATE checking SET balance = balance + 1 WHERE custid = 1"
	submit := func(role, key string) (string, error) {
		return run("submit", "--role", role, "--key", key, "--wait", deposit)
	}
	if out, err := submit("bank", secret); err == nil || !strings.Contains(out, "not registered") {
		t.Errorf("a key that is not registered: %s", out)
	}
	_, err = run("client", "add", "--role", "bank", public)
	must(t, err)
	if out, err := run("client", "list"); err != nil || out != public+"  bank\n" {
		t.Errorf("after \"client add\" the clients are %q (%v), want the key for role bank", out, err)
	}
	_, err = submit("bank", secret)
	must(t, err)
	signTogether(ctx, t, acme, secret, deposit, 3)
	if out, err := submit("dba", secret); err == nil || !strings.Contains(out, "not registered") {
		t.Errorf("the key signs for another role: %s", out)
	}
	must(t, acme.Exec(ctx, "bank", "SELECT chainify.execute('"+deposit+"')")) // vouched for by the gateway
	for _, o := range net.Organisations {
		caughtUp(ctx, t, net, o)
		var who string
		must(t, o.Scan(ctx, `SELECT string_agg(concat_ws(' ', t.organisation, t.role, encode(t.client_key, 'hex')), ', ' ORDER BY h._block)
			FROM chainify_history.checking h JOIN chainify.transactions t ON (t.block, t.index) = (h._block, h._tx) WHERE h.custid = 1`, &who))
		if want := strings.Repeat("acme bank "+public+", ", 4) + "acme bank"; who != want {
			t.Errorf("%s: the changes are by %q, want %q", o.Name, who, want)
		}
		checkVerified(ctx, t, o)
	}
	removeClientWithoutBlocks(ctx, t, net, public)
	if out, err := submit("bank", secret); err == nil || !strings.Contains(out, "not registered") {
		t.Errorf("the key signs after it was taken away: %s", out)
	}
}

// signTogether submits n transactions under one signature, the last one first, and waits for them.
func signTogether(ctx context.Context, t *testing.T, o *harness.Organisation, secret, sql string, n int) {
	t.Helper()
	key, err := config.ReadClientKey(secret)
	must(t, err)
	client, err := gateway.Dial(ctx, o.Socket())
	must(t, err)
	defer client.Close()
	status, err := client.Status(ctx)
	must(t, err)
	proposals := make([]*wire.Proposal, n)
	for i := range proposals {
		proposals[i] = &wire.Proposal{
			ChainId: status.ChainId, Client: &wire.Client{Organisation: o.Name, Role: "bank"}, Nonce: uint64(i),
			ValidUntilHeight: uint64(status.Height) + 100, Kind: wire.Kind_KIND_SQL, Sql: sql,
		}
	}
	signed := wire.SignProposals(key, proposals)
	last, err := client.SubmitSigned(ctx, signed[n-1])
	must(t, err)
	ids, err := client.SubmitSigned(ctx, signed...)
	must(t, err)
	outcomes, err := client.Wait(ctx, uint32(progressLimit.Milliseconds()), ids...)
	must(t, err)
	if !bytes.Equal(ids[n-1], last[0]) || len(outcomes) != n || slices.ContainsFunc(outcomes, func(o *wire.Outcome) bool { return !o.Succeeded }) {
		t.Errorf("%d signed together: ids %x, the last alone %x, outcomes %v", n, ids, last, outcomes)
	}
}
