package admission

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	dbm "github.com/cometbft/cometbft-db"
	"github.com/cometbft/cometbft/p2p"
	"github.com/cometbft/cometbft/types"

	"github.com/chainify-db/chainify/abci/app/order"
	"github.com/chainify-db/chainify/abci/comet/remote"
	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
	"github.com/chainify-db/chainify/abci/wire"
)

// knocking is a peer that wants to be let in.
type knocking struct {
	p2p.Peer
	id     p2p.ID
	shows  string
	height int64
	member any // that memberOf keeps
}

func (k *knocking) ID() p2p.ID { return k.id }
func (k *knocking) NodeInfo() p2p.NodeInfo {
	return p2p.DefaultNodeInfo{DefaultNodeID: k.id, Moniker: k.shows}
}
func (k *knocking) GetHeight() int64 { return k.height }

func (k *knocking) SocketAddr() *p2p.NetAddress {
	return p2p.NewNetAddressIPPort(net.IPv4(127, 0, 0, 1), 1)
}

func (k *knocking) Get(key string) any {
	switch key {
	case types.PeerStateKey:
		return k
	case memberKey:
		return k.member
	}
	return nil
}

func (k *knocking) Set(_ string, member any) { k.member = member }

func keyOf(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(b)), ed25519.SeedSize)))
}

// consortium is a registry of organisations, each with its gateway key and a validator's.
func consortium(t *testing.T, keys map[string][2]byte) *order.Registry {
	t.Helper()
	record := order.RegistryRecord{ChainID: "test"}
	for name, k := range keys {
		record.Organisations = append(record.Organisations, order.Organisation{
			Name: name, GatewayKey: keyOf(k[0]).Public().(ed25519.PublicKey),
			Validators: []order.Validator{{Key: keyOf(k[1]).Public().(ed25519.PublicKey), Power: 1}},
		})
	}
	r, err := record.Open()
	must.Do(t, err)
	return r
}

func vouchBy(organisation string, id p2p.ID, keys ...byte) string {
	v := &wire.Vouch{Organisation: organisation}
	for _, k := range keys {
		v.Sign(keyOf(k).Public().(ed25519.PublicKey), ed25519.Sign(keyOf(k), wire.NodeSignBytes("test", organisation, string(id))))
	}
	return v.String()
}

func nodeNumber(n int) p2p.ID { return p2p.ID(strings.Repeat(string(rune('a'+n)), 2*p2p.IDByteLength)) }

// Invariant A8, decision by decision.
func TestWhoIsLetIn(t *testing.T) {
	const echo = 6
	now := consortium(t, map[string][2]byte{"acme": {1, 2}, "bolt": {3, 4}})
	var next *order.Registry
	var behind bool
	home := config.Home(t.TempDir())
	settings := config.Default("acme")
	settings.Network.AdmittedFile = "admitted"
	var log bytes.Buffer
	peerOfUs, other := nodeNumber(1), nodeNumber(2)
	a := New(Options{
		ChainID: "test", Peers: []string{string(peerOfUs) + "@127.0.0.1:1"}, Registry: func() *order.Registry { return now },
		Waiting: func() *order.Registry { return next }, Behind: func() bool { return behind }, Height: func() int64 { return 7 },
		Named: func() (map[string]bool, error) { return home.Admitted(settings) }, Store: dbm.NewMemDB(),
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	step := func(what string, id p2p.ID, shows, want string) {
		t.Helper()
		err := a.check(&knocking{id: id, shows: shows})
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	step("a member's node, by its gateway key", other, vouchBy("bolt", other, 3), "")
	step("a member's node, by its validator's key", other, vouchBy("bolt", other, 4), "")
	step("by an older key, and one that counts", other, vouchBy("bolt", other, 9, 4), "")
	step("by another member's key", other, vouchBy("bolt", other, 1), `no signature by a key of "bolt"`)
	step("another node's", other, vouchBy("bolt", peerOfUs, 3), `no signature by a key of "bolt"`)
	step("not a member", other, vouchBy("echo", other, echo), "not a member")
	step("no vouch", other, "", "no member vouches")

	next = consortium(t, map[string][2]byte{"acme": {1, 2}, "bolt": {3, 4}, "echo": {echo, 7}})
	step("an organisation that an accepted change adds", other, vouchBy("echo", other, echo), "")
	next = nil
	step("the change is withdrawn", other, vouchBy("echo", other, echo), "not a member")

	behind = true
	step("behind: an unknown node", other, "", "no member vouches")
	step("behind: a peer of the configuration, whose keys may be newer", peerOfUs, vouchBy("bolt", peerOfUs, 9), "")
	step("behind: it shows keys that are known", peerOfUs, vouchBy("bolt", peerOfUs, 3), "")
	behind = false
	step("a peer of the configuration, by no key that counts, but the one from before", peerOfUs, vouchBy("bolt", peerOfUs, 9), "")
	now = consortium(t, map[string][2]byte{"acme": {1, 2}, "bolt": {9, 10}})
	a.Hear(other, vouchBy("bolt", other, 9))
	step("keys replaced: it shows old ones, and told the new ones", other, vouchBy("bolt", other, 3), "")
	step("keys replaced: it shows old ones", peerOfUs, vouchBy("bolt", peerOfUs, 3), `no signature by a key of "bolt" that counts`)
	step("keys replaced: it shows new ones", peerOfUs, vouchBy("bolt", peerOfUs, 9), "")
	now = consortium(t, map[string][2]byte{"acme": {1, 2}})
	step("its organisation left", peerOfUs, vouchBy("bolt", peerOfUs, 9), "not a member")
	behind = true
	step("its organisation left, and this node is behind", peerOfUs, vouchBy("bolt", peerOfUs, 9), "not a member")
	step("the same, as whoever it says it is", peerOfUs, vouchBy("echo", peerOfUs, echo), "not a member")
	step("the same, as nobody", peerOfUs, "", "not a member")

	for what, c := range map[string]struct{ text, want string }{
		"named":                     {"# joins\n\n  " + string(other) + "\t# echo's\n", ""},
		"another is named":          {string(peerOfUs) + "\n", "not a member"},
		"a line that is no node id": {string(other) + "\nacme.example\n", "not a member"},
		"too large a file":          {string(other) + "\n" + strings.Repeat("#\n", 64<<10), "not a member"},
	} {
		must.Do(t, os.WriteFile(home.Path("admitted"), []byte(c.text), 0o600))
		step(what, other, vouchBy("echo", other, echo), c.want)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "admitted") {
		t.Errorf("%d lines about a file that is asked for again and again: %s", n, log.String())
	}
}

// An organisation has one voice, however many nodes it vouches for.
func TestANodeSpeaksForTheOrganisationThatVouchesForIt(t *testing.T) {
	now := consortium(t, map[string][2]byte{"acme": {1, 2}, "bolt": {3, 4}})
	next := consortium(t, map[string][2]byte{"acme": {1, 2}, "bolt": {3, 4}, "echo": {6, 7}})
	a := New(Options{ChainID: "test", Registry: func() *order.Registry { return now }, Waiting: func() *order.Registry { return next }})
	for n, voice := range []string{"bolt", "bolt", "echo", ""} {
		id := nodeNumber(n)
		shows := map[string]string{"bolt": vouchBy("bolt", id, 3), "echo": vouchBy("echo", id, 6)}[voice]
		peer := &knocking{id: id, shows: shows}
		if got := a.VoiceOf(peer); got != voice && (voice != "" || got != string(id)) {
			t.Errorf("node %d: %q, want %q", n, got, voice)
		}
		if first := a.MemberOf(peer); first != a.VoiceOf(peer) || peer.member != first {
			t.Errorf("node %d is charged to %q, and kept as %v", n, first, peer.member)
		}
		peer.member = "kept"
		if got := a.MemberOf(peer); got != "kept" {
			t.Errorf("node %d: whose it is was found out again: %q", n, got)
		}
	}
}

// A node that stops lets in nobody, not even a member's node.
func TestANodeThatStopsLetsNobodyIn(t *testing.T) {
	member, stops := nodeNumber(2), false
	a := New(Options{
		ChainID: "test", Stops: func() bool { return stops }, Waiting: func() *order.Registry { return nil },
		Registry: func() *order.Registry { return consortium(t, map[string][2]byte{"bolt": {3, 4}}) },
		Named:    func() (map[string]bool, error) { return nil, nil },
	})
	knocks := func() error { return a.Filter(nil, &knocking{id: member, shows: vouchBy("bolt", member, 3)}) }
	must.Do(t, knocks())
	stops = true
	if err := knocks(); !errors.Is(err, errStops) {
		t.Errorf("a node that stops: %v, want %v", err, errStops)
	}
}

// A node whose organisation left is told the block that says so; a node with old keys has until the
// farewell is over to tell new ones.
func TestAConnectionEndsWhenItMay(t *testing.T) {
	a := New(Options{Height: func() int64 { return 7 }})
	peer := &knocking{id: nodeNumber(0), height: 7}
	if a.ends(peer, errLeft) {
		t.Error("it has not got block 7 yet")
	}
	peer.height = 8
	if a.ends(peer, errors.New("old keys")) {
		t.Error("it may still tell the new keys")
	}
	if !a.ends(peer, errLeft) {
		t.Error("it knows that it left, and stays")
	}
	a.ending[peer.id] = ending{a.ending[peer.id].since.Add(-Farewell), 9}
	if !a.ends(peer, errLeft) || !a.ends(peer, errors.New("old keys")) {
		t.Error("the farewell is over, and it stays")
	}
}

// Where CometBFT is a process of its own, no vouch lets a node in.
func TestANodeIsLetInByItsNameAlone(t *testing.T) {
	home, settings, peer, stranger := config.Home(t.TempDir()), config.Default("acme"), nodeNumber(1), nodeNumber(2)
	settings.Network.AdmittedFile = "admitted"
	d := New(Options{
		ChainID: "test", Peers: []string{string(peer) + "@127.0.0.1:1"}, Registry: func() *order.Registry { return consortium(t, map[string][2]byte{"bolt": {3, 4}}) },
		Waiting: func() *order.Registry { return nil }, Stops: func() bool { return false }, Store: dbm.NewMemDB(),
		Named: func() (map[string]bool, error) { return home.Admitted(settings) }, Log: slog.New(slog.DiscardHandler),
	})
	if err := d.AdmitsID(peer); err != nil {
		t.Errorf("a peer of the configuration: %v", err)
	}
	if err := d.AdmitsID(stranger); err == nil {
		t.Error("a stranger is let in")
	}
	must.Do(t, os.WriteFile(home.Path("admitted"), []byte(string(stranger)+" # by word of mouth\n"), 0o600))
	if err := d.AdmitsID(stranger); err != nil {
		t.Errorf("a node that the operator names: %v", err)
	}
	// An organisation that was seen, and is in the registry no more.
	gone := vouchBy("gone", peer, 9)
	must.Do(t, d.keep(peer, "", gone))
	if err := d.AdmitsID(peer); err == nil || !strings.Contains(err.Error(), "not a member") {
		t.Errorf("a peer whose organisation left: %v", err)
	}
	// A peer's vouch is kept only when a member's key signed it.
	d.Learn([]remote.Peer{{ID: string(peer), Moniker: "bolt"}, {ID: string(peer), Moniker: vouchBy("bolt", peer, 9)}})
	if kept, err := d.kept(peer); err != nil || kept != gone {
		t.Errorf("kept %q, %v", kept, err)
	}
	d.Learn([]remote.Peer{{ID: string(peer), Moniker: vouchBy("bolt", peer, 4)}})
	if kept, err := d.kept(peer); err != nil || kept != vouchBy("bolt", peer, 4) {
		t.Errorf("kept %q, %v", kept, err)
	}
}
