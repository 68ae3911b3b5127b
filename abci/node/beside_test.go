package node

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	cmtlog "github.com/cometbft/cometbft/libs/log"
	cometnode "github.com/cometbft/cometbft/node"
	"github.com/cometbft/cometbft/privval"
	cmtproto "github.com/cometbft/cometbft/proto/tendermint/types"

	"github.com/chainify-db/chainify/abci/comet/peers"
	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/comet/settings"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// cometVariable names the home for which a process of this test program is CometBFT.
const cometVariable = "CHAINIFY_TEST_COMETBFT"

// TestCometBFTProcess is no test: it is what "cometbft start" does, in a process of its own. It
// lasts until the process is ended.
func TestCometBFTProcess(t *testing.T) {
	home := config.Home(os.Getenv(cometVariable))
	if home == "" {
		t.Skip("run by the tests of CometBFT in a process of its own")
	}
	c, err := config.Load(string(home))
	must.Do(t, err)
	set, err := settings.Beside(c, home, "test")
	if err != nil {
		t.Fatal(err)
	}
	n, err := cometnode.DefaultNewNode(set, cmtlog.NewNopLogger())
	must.Do(t, err)
	must.Do(t, n.Start())
	<-n.Quit()
}

// process is a CometBFT that a test starts.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

// startComet runs CometBFT for a node.
func (r *runner) startComet() *process {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCometBFTProcess$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), cometVariable+"="+string(r.home))
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	p := &process{cmd, make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	r.t.Cleanup(p.kill)
	return p
}

// kill ends it at once; an ended one stays ended.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	p.ends()
}

// ends waits until it has ended, by itself or not.
func (p *process) ends() bool {
	select {
	case err := <-p.done:
		p.done <- err
		return true
	case <-time.After(patience):
		return false
	}
}

// serves waits until a node takes transactions, and is connected with others.
func serves(t *testing.T, c *gateway.Client, peers int) {
	t.Helper()
	eventually(t, patience, "serving", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && s.State == "serving" && int(s.Peers) == peers
	})
}

// The application lasts while CometBFT is killed and comes back, and CometBFT ends when the
// application goes.
func TestCometBFTComesAndGoes(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	r.beside = true
	r.start()
	comet := r.startComet()
	c := r.dial()
	serves(t, c, 0)
	first := execute(t, c, "INSERT INTO t VALUES (1)")
	if !first.Succeeded || first.Block != 1 {
		t.Fatalf("outcome %v", first)
	}

	comet.kill()
	eventually(t, patience, "noticed", func() bool { return strings.Contains(r.log.String(), "CometBFT went away") })
	comet = r.startComet()
	serves(t, c, 0)
	if second := execute(t, c, "INSERT INTO t VALUES (2)"); second.Block != 2 {
		t.Fatalf("outcome %v", second)
	}

	r.stop()
	if !comet.ends() {
		t.Fatal("CometBFT runs without its application")
	}
	r.start()
	r.startComet()
	c = r.dial()
	serves(t, c, 0)
	out, err := c.Wait(context.Background(), 5_000, first.Id)
	if err != nil || len(out) != 1 || out[0].Block != 1 {
		t.Fatalf("the outcome after a restart: %v, %v", out, err)
	}
	if third := execute(t, c, "INSERT INTO t VALUES (3)"); third.Block != 3 {
		t.Fatalf("outcome %v", third)
	}
}

// A home works either way, one after the other.
func TestCometBFTMovesOutAndIn(t *testing.T) {
	r := newNetwork(t, "acme")[0]
	for block, beside := range []bool{false, true, false, true} {
		r.beside = beside
		r.start()
		var comet *process
		if beside {
			comet = r.startComet()
		}
		c := r.dial()
		serves(t, c, 0)
		if out := execute(t, c, "INSERT INTO t VALUES (1)"); !out.Succeeded || out.Block != uint64(block)+1 {
			t.Fatalf("outcome %v", out)
		}
		r.stop()
		if comet != nil && !comet.ends() {
			t.Fatal("CometBFT runs without its application")
		}
	}
}

// tellHeights waits until the CometBFT of a home tells how far so many other nodes are (A14).
func tellHeights(t *testing.T, home config.Home, others int) {
	t.Helper()
	c, err := config.Load(string(home))
	must.Do(t, err)
	sockets, err := c.Sockets(home)
	if err != nil {
		t.Fatal(err)
	}
	rpc, err := remote.NewClient(sockets.RPC)
	must.Do(t, err)
	defer rpc.Close()
	eventually(t, patience, "heights of the other nodes", func() bool {
		heights, err := rpc.Heights(context.Background())
		told := 0
		for id, height := range heights {
			if wire.CheckNodeID(id) == nil && height > 1 {
				told++
			}
		}
		return err == nil && told == others
	})
}

// Four organisations agree, and the one whose processes are killed comes back. Nobody else is let
// in.
func TestFourNodesAgreeBesideCometBFT(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("eight processes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	comets, clients := make([]*process, len(nodes)), make([]*gateway.Client, len(nodes))
	for i, r := range nodes {
		r.beside = true
		r.start()
		comets[i], clients[i] = r.startComet(), r.dial()
	}
	for _, c := range clients {
		serves(t, c, 3)
	}
	for i := range 8 {
		if out := execute(t, clients[i%4], "INSERT INTO t VALUES (1)"); !out.Succeeded {
			t.Fatalf("outcome %v", out)
		}
	}
	tellHeights(t, nodes[0].home, 3)
	comets[3].kill()
	nodes[3].stop()
	execute(t, clients[0], "INSERT INTO t VALUES (2)")
	nodes[3].start()
	nodes[3].startComet()
	clients[3] = nodes[3].dial()
	serves(t, clients[3], 3)
	last := execute(t, clients[3], "INSERT INTO t VALUES (3)")
	for i, c := range clients {
		eventually(t, patience, "the last block", func() bool {
			s, err := c.Status(context.Background())
			return err == nil && s.LastCommitted >= last.Block
		})
		for _, says := range []string{"MISMATCH", "conflicting"} {
			if strings.Contains(nodes[i].log.String(), says) {
				t.Errorf("node %d logs %q", i, says)
			}
		}
	}
}

// assembled is a node of a home that is not started.
func assembled(t *testing.T, r *runner, c config.Config) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &node{opt: Options{Home: r.home, Config: c, Log: log, Backend: r.backend(), Beside: true}, log: log, conduct: peers.NewConduct(log), failed: make(chan string, 1), newer: make(chan error, 1)}
	must.Do(t, n.assemble())
	t.Cleanup(func() { _ = n.close() })
	return n
}

// asksToSign is a CometBFT of the home that asks its signer and does nothing else, until end.
func asksToSign(t *testing.T, home config.Home) (client *privval.SignerClient, end func()) {
	t.Helper()
	c, err := config.Load(string(home))
	must.Do(t, err)
	sockets, err := c.Sockets(home)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", strings.TrimPrefix(sockets.Signer, "unix://"))
	must.Do(t, err)
	endpoint := privval.NewSignerListenerEndpoint(cmtlog.NewNopLogger(), privval.NewUnixListener(l))
	if client, err = privval.NewSignerClient(endpoint, "test"); err == nil {
		err = client.WaitForConnection(patience)
	}
	if err != nil {
		t.Fatal(err)
	}
	return client, func() {
		if err := endpoint.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// A CometBFT that ended in the middle of a height, and lost its own log, asks for signatures again.
// It gets those of before, with their time, or none. The same holds after a restart of the node.
func TestACometBFTThatAsksAgainGetsNoOtherSignature(t *testing.T) {
	r := newNetwork(t, "acme", "bolt")[0]
	r.beside = true
	r.start()
	key, err := r.home.Validator()
	must.Do(t, err)
	vote := func(kind cmtproto.SignedMsgType, block byte, second int64) *cmtproto.Vote {
		hash := bytes.Repeat([]byte{block}, 32)
		return &cmtproto.Vote{
			Type: kind, Height: 1, BlockID: cmtproto.BlockID{Hash: hash, PartSetHeader: cmtproto.PartSetHeader{Total: 1, Hash: hash}},
			Timestamp: time.Unix(second, 0).UTC(), ValidatorAddress: key.Key.Address,
		}
	}
	const prevote, precommit = cmtproto.PrevoteType, cmtproto.PrecommitType
	signed := map[cmtproto.SignedMsgType]*cmtproto.Vote{}
	for _, kind := range []cmtproto.SignedMsgType{prevote, precommit} {
		for ended := range 3 {
			client, end := asksToSign(t, r.home)
			again := vote(kind, 1, int64(1000+ended))
			if err := client.SignVote("test", again); err != nil {
				t.Fatalf("asked the %d. time: %v", ended+1, err)
			}
			first := signed[kind]
			if first == nil {
				first, signed[kind] = again, again
			}
			if !bytes.Equal(again.Signature, first.Signature) || !again.Timestamp.Equal(first.Timestamp) {
				t.Fatalf("asked again it gives %v, before %v", again, first)
			}
			if other := vote(kind, 2, 1000); client.SignVote("test", other) == nil {
				t.Fatalf("it signs another block: %v", other)
			}
			if kind == precommit && client.SignVote("test", vote(prevote, 2, 1000)) == nil {
				t.Fatal("it signs an earlier step for another block")
			}
			if proposal := (&cmtproto.Proposal{Type: cmtproto.ProposalType, Height: 1, PolRound: -1, BlockID: vote(kind, 2, 0).BlockID}); client.SignProposal("test", proposal) == nil {
				t.Fatal("it signs an earlier step")
			}
			if end(); ended == 1 {
				r.stop()
				r.start()
			}
		}
	}
}
