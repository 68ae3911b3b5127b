package node

import (
	"bytes"
	stded25519 "crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cometbft/cometbft/crypto/ed25519"
	"github.com/cometbft/cometbft/p2p"

	"github.com/chainify-db/chainify/abci/backend"
	"github.com/chainify-db/chainify/abci/backend/backendtest"
	"github.com/chainify-db/chainify/abci/comet/admission"
	"github.com/chainify-db/chainify/abci/comet/dial"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/gateway"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// turnedAway says that a node keeps the stranger out: it ends the connection, and has given it no
// block until then.
func (s *stranger) turnedAway(t *testing.T, r *runner, height int64) {
	t.Helper()
	// The connection may end before the stranger has added its peer.
	if err := s.dials(t, r); err != nil && !errors.As(err, &p2p.ErrPeerRemoval{}) {
		t.Fatalf("%s does not answer: %v", organisationOf(r), err)
	}
	eventually(t, 20*time.Second, "the connection ends", func() bool {
		s.asks(height)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.blocks) > 0 {
			t.Fatalf("%s gave it %d blocks", organisationOf(r), len(s.blocks))
		}
		return s.net.Peers().Size() == 0
	})
}

// A node with a key that nobody knows reads nothing, whatever it shows of itself; one that a member
// vouches for does.
func TestStrangersReadNothing(t *testing.T) {
	nodes := newNetwork(t, "acme", "bolt")
	clients := startAll(t, nodes)
	const secret = "INSERT INTO trades VALUES (1, 'a price that only members know')"
	execute(t, clients[0], secret)
	height := status(t, clients[0]).Height
	key, err := nodes[1].home.GatewayKey()
	must.Do(t, err)
	signed := func(by stded25519.PrivateKey, chainID string, id p2p.ID) string {
		return vouch(by, "bolt", chainID, id)
	}
	unknown := func() p2p.NodeKey { return p2p.NodeKey{PrivKey: ed25519.GenPrivKey()} }
	for name, shows := range map[string]func(p2p.ID) string{
		"no organisation":       func(p2p.ID) string { return "stranger" },
		"a member's name":       func(p2p.ID) string { return "bolt" },
		"another node's vouch":  func(p2p.ID) string { return signed(key, "test", nodeID(t, nodes[1])) },
		"another chain's vouch": func(id p2p.ID) string { return signed(key, "tests", id) },
		"its own key's vouch": func(id p2p.ID) string {
			return signed(stded25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, stded25519.SeedSize)), "test", id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStranger(t, unknown(), shows)
			for _, r := range nodes {
				s.turnedAway(t, r, height)
			}
		})
	}
	if s := status(t, clients[0]); s.Peers != 1 {
		t.Errorf("acme is connected with %d nodes, want bolt's alone", s.Peers)
	}
	if log := nodes[0].log.String(); !strings.Contains(log, "not let in: a node") {
		t.Error("acme does not tell its operator of strangers")
	}
	member := newStranger(t, unknown(), func(id p2p.ID) string { return signed(key, "test", id) })
	must.Do(t, member.dials(t, nodes[0]))
	eventually(t, patience, "a node that bolt vouches for reads the statement", func() bool {
		member.asks(height)
		return member.reads(secret)
	})
}

// A node whose organisation leaves is disconnected, gets no block that comes later, and gets in no
// more. The others have it among their peers as before, also after a restart, when they are behind
// and let their peers in. Named by an operator it gets in.
func TestANodeWhoseOrganisationLeavesReadsNothingMore(t *testing.T) {
	if testing.Short() {
		t.Skip("four nodes take some seconds")
	}
	nodes := newNetwork(t, "acme", "bolt", "cargo", "delta")
	clients := startAll(t, nodes)
	execute(t, clients[0], "SELECT 1")
	must.Do(t, govern(t, clients[0], 1, nodes[:3], &wire.GovernanceAction{Body: &wire.GovernanceAction_Remove{Remove: "delta"}}))
	for i, c := range clients {
		eventually(t, patience, "the change is in force at "+organisationOf(nodes[i]), func() bool { s := status(t, c); return s.Changes == 1 && !s.ChangeWaits })
	}
	peersAre := func(c *gateway.Client, want uint32) {
		t.Helper()
		eventually(t, patience, fmt.Sprintf("%d peers", want), func() bool { return status(t, c).Peers == want })
	}
	peersAre(clients[3], 0)
	before := status(t, clients[3]).Height
	later := execute(t, clients[0], "SELECT 2")
	refusals := func() int {
		return strings.Count(nodes[0].log.String(), `not let in: a node of \"delta\", which is not a member`)
	}
	eventually(t, patience, "acme does not let delta in", func() bool { return refusals() > 0 })

	nodes[0].stop()
	said := refusals()
	nodes[0].start()
	clients[0] = nodes[0].dial()
	eventually(t, patience, "acme does not let delta in after a restart", func() bool { return refusals() > said })
	peersAre(clients[0], 2)
	peersAre(clients[3], 0) // in the end: delta takes a node for a peer until that one has refused it
	if s := status(t, clients[3]); s.Height != before {
		t.Fatalf("delta stands at %d, want %d", s.Height, before)
	}

	named := fmt.Sprintf("# a former member\n\n%s  # delta\n", nodeID(t, nodes[3]))
	must.Do(t, os.WriteFile(nodes[0].home.Path("config", "admitted"), []byte(named), 0o600))
	eventually(t, patience, "delta follows when acme names it", func() bool { return status(t, clients[3]).LastOrdered == later.Block })
}

// Keys of an organisation are replaced while its node runs. The node shows the old ones since its
// start and tells its peers the new ones: it stays connected, and is let in again by a node that
// restarts.
func TestNodesStayConnectedWhenTheirKeysAreReplaced(t *testing.T) {
	t.Parallel()
	nodes := newNetwork(t, "acme", "bolt")
	clients := startAll(t, nodes)
	execute(t, clients[0], "SELECT 1")
	old, err := nodes[1].home.Validator()
	must.Do(t, err)
	gatewayKey, err := nodes[1].home.NewGatewayKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	validator, err := nodes[1].home.NewValidatorKey(nil)
	must.Do(t, err)
	power := func(key []byte, power uint64) *wire.GovernanceAction {
		return &wire.GovernanceAction{Body: &wire.GovernanceAction_Validator{Validator: &wire.MemberValidator{
			Organisation: "bolt", Validator: &wire.ValidatorPower{Key: key, Power: power},
		}}}
	}
	if err := govern(t, clients[0], 1, nodes, power(validator, 10), power(old.Key.PubKey.Bytes(), 0), &wire.GovernanceAction{
		Body: &wire.GovernanceAction_GatewayKey{GatewayKey: &wire.GatewayKey{Organisation: "bolt", Key: gatewayKey}},
	}); err != nil {
		t.Fatal(err)
	}
	goesOn := func() { // for longer than a connection with old keys is left
		t.Helper()
		eventually(t, patience, "the change is in force", func() bool { s := status(t, clients[0]); return s.Changes == 1 && !s.ChangeWaits })
		for end := time.Now().Add(admission.Farewell + 4*dial.Every); time.Now().Before(end); {
			execute(t, clients[0], "SELECT 2")
			execute(t, clients[1], "SELECT 3")
		}
		for i, r := range nodes {
			if s, log := status(t, clients[i]), r.log.String(); s.Peers != 1 || strings.Contains(log, "connection ended") || strings.Contains(log, "not let in") {
				t.Errorf("%s has %d peers, and a connection ended or was refused", organisationOf(r), s.Peers)
			}
		}
	}
	goesOn()
	nodes[0].stop()
	nodes[0].start()
	clients[0] = nodes[0].dial()
	eventually(t, patience, "acme is back", func() bool { s := status(t, clients[0]); return s.State == "serving" && s.Peers == 1 })
	goesOn()
}

// A node key is replaced without anybody's approval: the others, who have the old id among their
// peers, let the node in.
func TestANodeKeyIsReplaced(t *testing.T) {
	t.Parallel()
	nodes := newNetwork(t, "acme", "bolt")
	clients := startAll(t, nodes)
	execute(t, clients[0], "SELECT 1")
	nodes[1].stop()
	before := nodeID(t, nodes[1])
	id, err := nodes[1].home.NewNodeKey()
	if err != nil || id == string(before) || string(nodeID(t, nodes[1])) != id {
		t.Fatalf("the node id %s became %s, %v", before, id, err)
	}
	nodes[1].start()
	clients[1] = nodes[1].dial()
	eventually(t, patience, "bolt is back", func() bool { s := status(t, clients[1]); return s.State == "serving" && s.Peers == 1 })
	execute(t, clients[1], "SELECT 2")
}

// A node of an organisation that is to join is let in when the change that adds it is accepted,
// before it is in force: it follows, and takes no part yet.
func TestANodeIsLetInWhenTheChangeThatAddsItIsAccepted(t *testing.T) {
	t.Parallel()
	nodes := newNetwork(t, "acme", "bolt")
	clients := startAll(t, nodes)
	execute(t, clients[0], "SELECT 1")
	echo, part := joining(t, nodes[0], "echo")
	echo.start()
	eventually(t, patience, "echo is not let in before", func() bool {
		return strings.Contains(nodes[0].log.String()+nodes[1].log.String(), `not let in: a node of \"echo\"`)
	})
	client := echo.dial()
	if s := status(t, client); s.Height != 0 {
		t.Fatalf("echo has %d blocks", s.Height)
	}
	raw := wire.Encode(&wire.GovernanceChange{
		ChainId: "test", Sequence: 1, EffectiveHeight: uint64(status(t, clients[0]).Height) + 1000, Actions: []*wire.GovernanceAction{
			{Body: &wire.GovernanceAction_Add{Add: &wire.Member{
				Organisation: "echo", GatewayKey: part.GatewayKey, Validators: []*wire.ValidatorPower{{Key: part.ValidatorKey, Power: 10}},
			}}},
		},
	})
	must.Do(t, submitChange(t, clients[0], raw, nodes))
	last := execute(t, clients[0], "SELECT 2")
	eventually(t, patience, "echo follows", func() bool { s := status(t, client); return s.Outside && s.LastOrdered >= last.Block })
	if s := status(t, clients[0]); !s.ChangeWaits || s.Organisations != 2 {
		t.Errorf("the change is in force: %v", s)
	}
}

// joining is an organisation of its own, with the genesis and the peers of another node, and that
// one among them.
func joining(t *testing.T, like *runner, name string) (*runner, config.Part) {
	t.Helper()
	its, err := config.Load(string(like.home))
	must.Do(t, err)
	port := freePorts(t, config.PortsPerHome)
	c := config.Default(name)
	c.Network = its.Network
	c.Network.Peers = append(slices.Clone(its.Network.Peers), fmt.Sprintf("%s@%s", nodeID(t, like), its.Network.Listen))
	c.Network.Listen, c.HTTP.Listen, c.Metrics.Listen = fmt.Sprintf("127.0.0.1:%d", port), "", ""
	home := config.Home(filepath.Join(filepath.Dir(string(like.home)), name))
	must.Do(t, home.Create(c))
	genesis, err := os.ReadFile(like.home.Genesis())
	must.Do(t, err)
	must.Do(t, os.WriteFile(home.Genesis(), genesis, 0o600))
	part, err := home.Part(name, c.Network.Listen)
	must.Do(t, err)
	db := backendtest.NewDatabase()
	r := &runner{
		t: t, home: home, log: &lockedBuffer{}, db: db,
		backend: func() backend.Backend { return backendtest.Open(db, time.Minute) },
	}
	t.Cleanup(r.stop)
	return r, part
}
