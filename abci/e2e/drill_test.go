package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/consensus"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/e2e/harness"
	"github.com/chainify-db/chainify/abci/seeded"
)

// drill is a way in which the machine of an organisation's node is lost, and a standby takes over.
type drill struct {
	name string
	lose func(*lostMachine) error
	// disk: the lost machine's home is at hand, and not only a copy of its keys; signed: take-over
	// is told that it holds the last signatures.
	disk, signed bool
	clock        time.Duration            // by which the standby's machine is ahead of all others
	comes        func(*lostMachine) error // how the lost machine comes back, much later; nil: it does not
	quiet        bool                     // nobody submits when it comes back
}

// behind is a clock so far behind that a node refuses blocks: it ends, or does not catch up.
const behind = -time.Hour

// theDrill needs no clock, and had both nodes with the key sign for one order block once.
const theDrill = "machine off, on again later on a quiet ledger"

// backAfter is how many order blocks are decided before a lost machine comes back.
const backAfter = 60

var drills = []drill{
	{name: "machine lost", lose: lost},
	{name: "machine lost, clock an hour ahead", lose: lost, clock: time.Hour},
	{name: "machine lost, clock an hour behind", lose: lost, clock: behind},
	{name: "disk rescued, signed", lose: ended, disk: true, signed: true},
	{name: "disk rescued, signed, clock an hour ahead", lose: ended, disk: true, signed: true, clock: time.Hour},
	{name: "disk rescued, not told so", lose: ended, disk: true},
	{name: "link cut", lose: cut},
	{name: "link cut, mended later", lose: cut, comes: mended},
	{name: "link cut, mended later on a quiet ledger", lose: cut, comes: mended, quiet: true},
	{name: "machine off, on again later", lose: ended, comes: started},
	{name: theDrill, lose: ended, comes: started, quiet: true},
}

// lostMachine is what an organisation's node ran on.
type lostMachine struct {
	net  *harness.Network
	node *harness.Node
}

// lost leaves nothing of the machine's disk.
func lost(m *lostMachine) error {
	m.node.KillNode()
	return os.RemoveAll(m.node.Home())
}

func ended(m *lostMachine) error {
	m.node.KillNode()
	return nil
}

func cut(m *lostMachine) error { return m.net.Divide([]string{filepath.Base(m.node.Home())}) }

func mended(m *lostMachine) error  { return m.net.Divide() }
func started(m *lostMachine) error { return m.node.StartNode() }

// Machines of nodes are lost in each way of drills, and standbys take over, one after the other in
// one network under load. Nobody signs twice, nothing answered is lost, and all databases agree.
// They run CHAINIFY_DRILLS times, in an order drawn by SEED; those alone whose name has the text
// CHAINIFY_DRILL. Without a number of times one runs, as in make e2e.
func TestLostMachines(t *testing.T) {
	t.Parallel()
	if !isolated(t) {
		return
	}
	rounds, wanted := 1, os.Getenv("CHAINIFY_DRILL")
	if text := os.Getenv("CHAINIFY_DRILLS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		must(t, err)
	} else {
		wanted = cmp.Or(wanted, theDrill)
	}
	ctx := underTestFor(t, time.Duration(1+rounds*len(drills))*testLimit)
	clocks := os.Getenv("CHAINIFY_E2E_CLOCK")
	net := networkOf(ctx, t, harness.Config{Organisations: []string{"acme", "bolt", "cargo", "delta"}, Apart: true, Clocks: clocks != "", Age: 48 * time.Hour})
	seed := seeded.Seed(t)
	times := map[string][]took{}
drilling:
	for round := range rounds {
		for _, i := range rand.New(rand.NewPCG(seed, uint64(round))).Perm(len(drills)) {
			d := drills[i]
			switch {
			case !strings.Contains(d.name, wanted):
			case d.clock != 0 && clocks == "":
				t.Logf("%s: not run, it needs a node with a clock that can be set (CHAINIFY_E2E_CLOCK; make soak builds it)", d.name)
			default:
				if !t.Run(d.name, func(t *testing.T) { times[d.name] = append(times[d.name], d.run(ctx, t, net)) }) {
					break drilling // the next one could not begin with this network
				}
			}
		}
	}
	for _, d := range drills {
		if all := times[d.name]; len(all) > 0 {
			t.Logf("%-50s median of %d: next block after %s, votes after %s", d.name, len(all), middle(all, took.block), middle(all, took.votes))
		}
	}
	must(t, net.Close())
	nobodySignedTwice(t, net)
}

// took is how long the organisation was away: from the beginning of the take-over to its next
// block, and until its key signs.
type took struct{ toBlock, toVotes time.Duration }

func (k took) block() time.Duration { return k.toBlock }
func (k took) votes() time.Duration { return k.toVotes }

func middle(all []took, of func(took) time.Duration) time.Duration {
	var each []time.Duration
	for _, k := range all {
		each = append(each, of(k))
	}
	slices.Sort(each)
	return each[len(each)/2].Round(100 * time.Millisecond)
}

// run loses the machine of the first organisation's node, and has a new standby take over.
func (d drill) run(ctx context.Context, t *testing.T, net *harness.Network) took {
	acme, bolt := net.Organisations[0], net.Organisations[1]
	load := startClients(ctx, net, 1)
	defer load.stop()
	spare, err := acme.AddSpare(ctx)
	must(t, err)
	must(t, spare.SetClock(max(d.clock, 0)))
	hasOrder(ctx, t, spare, &acme.Node, 1, 5)
	copied := filepath.Join(net.Dir, spare.Name, "backup")
	must(t, os.CopyFS(filepath.Join(copied, "config"), os.DirFS(filepath.Join(acme.Home(), "config"))))

	m := &lostMachine{net, acme.Leave()}
	must(t, d.lose(m))
	from, flags := copied, []string(nil)
	if d.disk {
		from = m.node.Home()
	}
	if d.signed {
		flags = []string{"--signed"}
	}
	must(t, spare.SetClock(d.clock))
	before, err := bolt.Tip(ctx)
	must(t, err)
	height := heightOf(ctx, &bolt.Node)
	began := time.Now()
	must(t, acme.TakeOver(ctx, spare, from, flags...))
	if d.clock == behind {
		d.setsClock(ctx, t, acme)
	}
	var k took
	reaches(ctx, t, acme, before.Number+1, takeOverLimit)
	k.toBlock = time.Since(began)
	must(t, acme.WaitServing(ctx, takeOverLimit))
	signs(ctx, t, acme)
	k.toVotes = time.Since(began)
	itsVotesCount(ctx, t, net)
	d.ends(ctx, t, m, acme, load, height)

	answered := load.stop()
	waitSame(ctx, t, net.Organisations, 1)
	allThere(ctx, t, net, answered)
	nothingIsFound(ctx, t, net)
	t.Logf("order blocks %d to %d, %d answers; acme's next block after %s, its votes after %s", height, heightOf(ctx, &bolt.Node), len(answered), k.toBlock, k.toVotes)
	return k
}

// setsClock has an operator set the clock of a node whose log names it, and start the node again.
func (d drill) setsClock(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, takeOverLimit, "the node names its clock", func(context.Context) (bool, string, error) {
		log := o.NodeTail(20)
		return strings.Contains(log, "is too far in the future (wall clock"), log, nil
	}))
	must(t, o.StopNode())
	must(t, o.SetClock(0))
	must(t, o.StartNode())
}

// signs waits until an organisation's node signs.
func signs(ctx context.Context, t *testing.T, o *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, takeOverLimit, o.Name+" signs", func(ctx context.Context) (bool, string, error) {
		text, err := o.Run(ctx, "status") // fails while the node is behind for a moment
		return err == nil && !strings.Contains(text, "signs nothing yet"), fmt.Sprintf("%v\n%s", err, text), nil
	}))
}

// itsVotesCount has blocks pass without the votes of the last organisation: three of four are
// needed, the first among them. That one abstains from what was pending when it signed first. So
// the load makes some blocks before.
func itsVotesCount(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	tip, err := net.Organisations[0].Tip(ctx)
	must(t, err)
	reaches(ctx, t, net.Organisations[0], tip.Number+3, progressLimit)
	away := net.Organisations[3]
	must(t, away.StopNode())
	deposits(ctx, t, net.Organisations[1], 2)
	deposits(ctx, t, net.Organisations[0], 2)
	must(t, away.StartNode())
	must(t, away.WaitServing(ctx, readyLimit))
}

// ends has the lost machine come back, where it does, and ends it for good.
func (d drill) ends(ctx context.Context, t *testing.T, m *lostMachine, acme *harness.Organisation, load *clients, since int64) {
	t.Helper()
	if d.comes != nil {
		bolt := m.net.Organisations[1]
		must(t, harness.Poll(ctx, catchUpLimit, "many order blocks", func(ctx context.Context) (bool, string, error) {
			now := heightOf(ctx, &bolt.Node)
			return now >= since+backAfter, fmt.Sprintf("at %d, %d is awaited", now, since+backAfter), nil
		}))
		if d.quiet {
			load.stop()
			waitSame(ctx, t, m.net.Organisations, 1)
		}
		must(t, d.comes(m))
		stopsSigning(ctx, t, m, bolt)
		if kept, err := config.Home(acme.Home()).Signing(); err != nil || kept.Elsewhere != nil {
			t.Errorf("the node that took over has stopped, too: %+v, %v", kept, err)
		}
	}
	m.node.KillNode()
	must(t, m.net.Divide())
	must(t, os.RemoveAll(m.node.Home()))
}

// stopsSigning waits until a machine that came back says that its key signs elsewhere. Others
// submit meanwhile, one transaction after the other.
func stopsSigning(ctx context.Context, t *testing.T, m *lostMachine, other *harness.Organisation) {
	t.Helper()
	must(t, harness.Poll(ctx, catchUpLimit, "the lost node is back", func(ctx context.Context) (bool, string, error) {
		at, of := heightOf(ctx, m.node), heightOf(ctx, &other.Node)
		return at > 0 && at+1 >= of, fmt.Sprintf("at height %d of %d", at, of), nil
	}))
	must(t, harness.Poll(ctx, takeOverLimit, "it stops", func(ctx context.Context) (bool, string, error) {
		kept, err := config.Home(m.node.Home()).Signing()
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil || kept.Elsewhere != nil {
			return err == nil, "", err
		}
		deposits(ctx, t, other, 1)
		return false, fmt.Sprintf("%+v", kept), nil
	}))
	text, err := m.node.Run(ctx, "status")
	if err == nil || !strings.Contains(text, "another process signs") {
		t.Errorf("status of the node that came back: %v\n%s", err, text)
	}
	if log := m.node.NodeTail(100_000); !strings.Contains(log, "another process signs with this node's validator key") {
		t.Error("the node that came back does not say in its log why it signs nothing")
	}
}

// nothingIsFound compares and verifies all databases, and asks every node for evidence.
func nothingIsFound(ctx context.Context, t *testing.T, net *harness.Network) {
	t.Helper()
	checkSameTransactions(ctx, t, net)
	for _, o := range net.Organisations {
		storesCertificates(ctx, t, o)
		findings, err := o.Verify(ctx)
		must(t, err)
		for _, finding := range findings {
			t.Errorf("verify at %s: %s", o.Name, finding)
		}
		if out, err := o.Run(ctx, "evidence"); err != nil {
			t.Errorf("evidence at %s: %v\n%s", o.Name, err, out)
		}
	}
}

// nobodySignedTwice looks for two signatures of one step in what the nodes heard, and for anything
// in CometBFT's stores of evidence. The nodes have ended.
func nobodySignedTwice(t *testing.T, net *harness.Network) {
	t.Helper()
	heard := map[string]string{} // signatures, by validator and step
	for _, o := range net.Organisations {
		data := config.Home(o.Home()).Data()
		files, err := filepath.Glob(filepath.Join(data, "cs.wal", "wal*"))
		must(t, err)
		for _, file := range files {
			heardIn(t, file, func(step string, signature []byte) {
				if was, ok := heard[step]; ok && was != string(signature) {
					t.Errorf("%s heard two signatures of %s", o.Name, step)
				}
				heard[step] = string(signature)
			})
		}
		store, err := dbm.NewGoLevelDB("evidence", data)
		must(t, err)
		all, err := store.Iterator(nil, nil)
		must(t, err)
		for ; all.Valid(); all.Next() {
			t.Errorf("CometBFT's store of evidence at %s has %q", o.Name, all.Key())
		}
		must(t, errors.Join(all.Error(), all.Close(), store.Close()))
	}
	t.Logf("%d votes, of each step one", len(heard))
}

// heardIn tells of each vote in a file of CometBFT's log.
func heardIn(t *testing.T, file string, tell func(step string, signature []byte)) {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	for log := consensus.NewWALDecoder(bufio.NewReader(f)); ; {
		entry, err := log.Decode()
		if errors.Is(err, io.EOF) || consensus.IsDataCorruptionError(err) {
			return // the end of what was written whole
		}
		must(t, err)
		encoded, err := consensus.WALToProto(entry.Msg) // the log's own type is not exported
		must(t, err)
		message := encoded.GetMsgInfo().GetMsg() // empty, where it is none
		if v := message.GetVote().GetVote(); v != nil {
			tell(fmt.Sprintf("%x: %s of order block %d, round %d", v.ValidatorAddress, v.Type, v.Height, v.Round), v.Signature)
		}
		if p := message.GetProposal(); p != nil {
			tell(fmt.Sprintf("the proposal of order block %d, round %d", p.Proposal.Height, p.Proposal.Round), p.Proposal.Signature)
		}
	}
}
