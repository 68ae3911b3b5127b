package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chainify-db/chainify/abci/must"
)

func TestRenderedFileIsTheConfiguration(t *testing.T) {
	for _, change := range []func(*Config){
		func(*Config) {},
		func(c *Config) {
			c.Database.DSN = `host='/tmp/a "b"\c' password=ü`
			c.Network.Peers = []string{strings.Repeat("ab", 20) + "@127.0.0.1:1"}
			c.Gateway.BundleDelay = 0
			c.Gateway.ClientRate = 0.5
			c.HTTP.Listen, c.HTTP.TLSCertFile, c.HTTP.TLSKeyFile, c.HTTP.ClientCAFile = "0.0.0.0:1", "a.pem", "/b", "c"
			c.HTTP.TLSClients = map[string]string{`a.b "c"`: "d e", "=": "ü"}
			c.Network.StrictAddresses = false
		},
		func(c *Config) {
			c.Mode, c.Gateway.BundleDelay = Throughput, 1
			c.Network.GossipSleep, c.Network.FlushThrottle, c.Consensus.Gather = Duration(10*time.Millisecond), Duration(5*time.Millisecond), 0
		},
	} {
		want := Default("acme")
		change(&want)
		text, err := Render(want)
		must.Do(t, err)
		got, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read back %+v, want %+v", got, want)
		}
	}
}

// Every setting stands in the commented file: what an operator cannot see he cannot set.
func TestEverySettingIsInTheFile(t *testing.T) {
	text, err := Render(Default("acme"))
	must.Do(t, err)
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type)
				if !bytes.Contains(text, []byte("\n["+key+"]\n")) {
					t.Errorf("section %s is missing", key)
				}
			} else if !bytes.Contains(text, []byte("\n"+key+" = ")) && !bytes.Contains(text, []byte("\n# "+key+" = ")) {
				t.Errorf("setting %s is missing", key)
			}
		}
	}
	walk(reflect.TypeOf(Config{}))
}

func TestErrorsNameLineAndKey(t *testing.T) {
	for text, want := range map[string]string{
		"organisation = \"acme\"\n[gateway]\nbundel_delay = \"5ms\"":       `line 3: unknown setting "gateway.bundel_delay"`,
		"organisation = \"acme\"\n[x]\na = 1\n[log]\nb = 2":                "line 5: unknown setting",
		"organisation = \"acme\"\n[gateway]\nbundle_delay = \"5 parsecs\"": "line 3",
		"organisation = \"acme\"\n\n[gateway]\npending_max = \"many\"":     "line 4",
		"organisation = ":         "line 1",
		"":                        "organisation",
		"organisation = \"Acme\"": "[a-z]",
		"organisation = \"acme\"\n[gateway]\npending_max = 0":                                           "gateway.pending_max",
		"organisation = \"acme\"\n[gateway]\nvalidity_blocks = 2001":                                    "validity",
		"organisation = \"acme\"\n[gateway]\nbundle_transactions = 10001":                               "10000",
		"organisation = \"acme\"\n[clients]\nusers = []":                                                "clients.users",
		"organisation = \"acme\"\n[clients]\nusers = [\"no such user\"]":                                "clients.users[0]",
		"organisation = \"acme\"\n[clients]\nsocket_mode = \"0888\"":                                    "clients.socket_mode",
		"organisation = \"acme\"\n[log]\nlevel = \"loud\"":                                              "log.level",
		"organisation = \"acme\"\n[log]\nformat = \"xml\"":                                              "log.format",
		"organisation = \"acme\"\n[network]\nlisten = \"26656\"":                                        "network.listen",
		"organisation = \"acme\"\n[network]\npeers = [\"127.0.0.1:30000\"]":                             "network.peers[0]",
		"organisation = \"acme\"\n[consensus]\ntimeout_propose = \"-1s\"":                               "consensus.timeout_propose",
		"organisation = \"acme\"\nmode = \"fast\"":                                                      `there is no "fast", only balanced, latency, throughput`,
		"organisation = \"acme\"\n[consensus]\ngather = \"200ms\"":                                      "consensus.gather",
		"organisation = \"acme\"\n[recovery]\nsteps = [\"rows\", \"hope\"]":                             `recovery.steps[1]: there is no step "hope"`,
		"organisation = \"acme\"\n[recovery]\nsteps = [\"rows\", \"rows\"]":                             "recovery.steps[1]",
		"organisation = \"acme\"\n[recovery]\nsteps = []":                                               "recovery.steps",
		"organisation = \"acme\"\n[recovery]\nrepairs_max = 0":                                          "recovery.repairs_max",
		"organisation = \"acme\"\n[recovery]\ntell_rate = -1":                                           "recovery.tell_rate",
		"organisation = \"acme\"\n[anchor]\ns3_region = \"x\"":                                          "anchor.s3_region: url",
		"organisation = \"acme\"\n[anchor]\ns3_credentials_file = \"x\"":                                "anchor.s3_credentials_file: needs s3_region",
		"organisation = \"acme\"\n[anchor]\nurl = \"http://x\"\ntoken_file = \"x\"":                     "anchor.url: \"http://x\" is not https, and would carry the token of token_file in clear",
		"organisation = \"acme\"\n[anchor]\nurl = \"http://me:secret@x\"":                               "anchor.url: \"http://me:xxxxx@x\" is not https",
		"organisation = \"acme\"\n[anchor]\nurl = \"https://x\"\ns3_region = \"x\"\ntoken_file = \"x\"": "s3_region and token_file",
		"organisation = \"acme\"\n[explorer]\nlisten = \"127.0.0.1:26690\"":                             "explorer.listen: there is no database to show",
		"organisation = \"acme\"\n[consensus]\nsigner_listen = \"tcp://0.0.0.0:26659\"":                 "consensus.signer_listen: \"tcp://0.0.0.0:26659\" is not on loopback",
		"organisation = \"acme\"\n[consensus]\nsigner_listen = \"unix://here\"":                         "neither unix",
		"organisation = \"acme\"\n[cometbft]\nrpc = \"tcp://0.0.0.0:26657\"":                            "cometbft.rpc: \"tcp://0.0.0.0:26657\" is not on loopback",
		"organisation = \"acme\"\n[cometbft]\napplication = \"here\"":                                   "cometbft.application: \"here\" is neither unix",
		"organisation = \"acme\"\n[network]\nrpc_listen = \"0.0.0.0:26657\"":                            "not on loopback",
		"organisation = \"acme\"\n[database]\ndsn = \"x\"\n[explorer]\nlisten = \"0.0.0.0:26690\"":      "explorer.listen: \"0.0.0.0:26690\" is not on loopback",
		"organisation = \"acme\"\n[database]\ndsn = \"x\"\n[explorer]\nlisten = \"a.example:1\"\ntls_cert_file = \"a\"\ntls_key_file = \"b\"\n[http]\ntokens_file = \"\"": "not on loopback",
		"organisation = \"acme\"\n[database]\ndsn = \"x\"\n[explorer]\nlisten = \"127.0.0.1:1\"\ntls_cert_file = \"a\"":                                                   "go together",
		"organisation = \"acme\"\n[explorer]\nlisten = \"26690\"":                                                                                                         "explorer.listen",
		"organisation = \"acme\"\n[effects]\nvote_timeout = \"0s\"":                                                                                                       "effects.vote_timeout",
		"organisation = \"acme\"\n[http]\nlisten = \"0.0.0.0:26680\"":                                                                                                     "http.listen",
		"organisation = \"acme\"\n[http]\nlisten = \"acme.example:26680\"":                                                                                                "not on loopback",
		"organisation = \"acme\"\n[http]\ntls_cert_file = \"a.pem\"":                                                                                                      "go together",
		"organisation = \"acme\"\n[http]\nclient_ca_file = \"a.pem\"":                                                                                                     "http.client_ca_file",
		"organisation = \"acme\"\n[http]\ntls_clients = {a = \"b\"}":                                                                                                      "go together",
		"organisation = \"acme\"\n[http]\nstrangers_max = 0":                                                                                                              "http.strangers_max",
		"organisation = \"acme\"\n[gateway]\nclient_rate = -1":                                                                                                            "rate",
		"organisation = \"acme\"\n[gateway]\nclient_rate = nan":                                                                                                           "rate",
		"organisation = \"acme\"\n[gateway]\nclient_burst = 0":                                                                                                            "gateway.client_burst",
		"organisation = \"acme\"\n[database]\nstuck_after = \"0s\"\ndsn = \"\"":                                                                                           "database.stuck_after",
		"organisation = \"acme\"\n[database]\nsynchronous_commit = \"maybe\"":                                                                                             "database.synchronous_commit",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

// A mode decides what the file leaves out, and nothing of what it sets.
func TestModes(t *testing.T) {
	for mode, want := range tunings {
		c, err := Parse(fmt.Appendf(nil, "organisation = \"acme\"\nmode = %q\n[gateway]\nbundle_delay = \"7ms\"", mode))
		must.Do(t, err)
		if time.Duration(c.Network.GossipSleep) != want.gossipSleep || time.Duration(c.Network.FlushThrottle) != want.flushThrottle ||
			time.Duration(c.Consensus.Gather) != want.gather || time.Duration(c.Gateway.BundleDelay) != 7*time.Millisecond {
			t.Errorf("%s: %+v", mode, c)
		}
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Minute: "1m", 90 * time.Second: "1m30s", 5 * time.Millisecond: "5ms", 2 * time.Hour: "2h", 0: "0s"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

func testnet(dir string) Testnet {
	return Testnet{
		Dir: dir, Organisations: []string{"acme", "bolt", "cargo"}, ChainID: "test", BasePort: 30000,
		DSNTemplate: "host=/run/{organisation} port=54{index}", Powers: []int64{1, 2, 3}, Now: time.Unix(1_700_000_000, 0),
	}
}

func TestTestnetHomes(t *testing.T) {
	homes, err := testnet(t.TempDir()).Create()
	must.Do(t, err)
	var first []byte
	for i, h := range homes {
		c, err := Load(string(h))
		must.Do(t, err)
		if len(c.Network.Peers) != 2 || c.Database.DSN != fmt.Sprintf("host=/run/%s port=54%d", c.Organisation, i) {
			t.Errorf("configuration %+v", c)
		}
		text, err := os.ReadFile(h.Genesis())
		must.Do(t, err)
		if first == nil {
			first = text
		}
		if !bytes.Equal(text, first) {
			t.Error("the homes have different genesis files")
		}
		doc, state, err := h.LoadGenesis()
		must.Do(t, err)
		key, err := h.GatewayKey()
		must.Do(t, err)
		validator, err := h.Validator()
		must.Do(t, err)
		o := state.Organisations[i]
		if o.Name != c.Organisation || !bytes.Equal(o.GatewayKey, key[32:]) || !bytes.Equal(o.Validators[0], validator.Key.PubKey.Bytes()) {
			t.Errorf("organisation %+v", o)
		}
		if doc.Validators[i].Power != int64(i+1) || doc.ConsensusParams.Block.MaxBytes != 4<<20 {
			t.Errorf("genesis %+v", doc)
		}
		for name, mode := range map[string]os.FileMode{
			"config/gateway_key.json": 0o600, "config/priv_validator_key.json": 0o600, "config/node_key.json": 0o600, "chainify.toml": 0o600, "data": 0o700,
		} {
			if info, err := os.Stat(h.Path(name)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v %v, want mode %o", name, info.Mode(), err, mode)
			}
		}
	}
}

func TestTestnetWithAnOrderingOnlyOrganisation(t *testing.T) {
	n := testnet(t.TempDir())
	n.OrderingOnly, n.Powers, n.Consent = []string{"notary"}, nil, 3
	homes, err := n.Create()
	must.Do(t, err)
	c, err := Load(string(homes[3]))
	if err != nil || c.Organisation != "notary" || c.Database.DSN != "" || len(c.Network.Peers) != 3 {
		t.Fatalf("configuration %+v, %v", c, err)
	}
	doc, state, err := homes[3].LoadGenesis()
	if err != nil || len(doc.Validators) != 4 {
		t.Fatal(doc, err)
	}
	for i, o := range state.Organisations {
		if o.OrderingOnly != (i == 3) {
			t.Errorf("organisation %+v", o)
		}
	}
}

func TestKeysAreNeverOverwritten(t *testing.T) {
	n := testnet(t.TempDir())
	homes, err := n.Create()
	must.Do(t, err)
	before, err := os.ReadFile(homes[0].gatewayKey())
	must.Do(t, err)
	if _, err := n.Create(); err == nil {
		t.Fatal("a home was made twice")
	}
	must.Do(t, os.Remove(homes[0].Path(FileName)))
	if err := homes[0].Create(Default("acme")); err == nil || !strings.Contains(err.Error(), "never overwritten") {
		t.Fatalf("error %v", err)
	}
	if after, _ := os.ReadFile(homes[0].gatewayKey()); !bytes.Equal(before, after) {
		t.Fatal("the gateway key changed")
	}
}

func TestTestnetRefusals(t *testing.T) {
	for want, change := range map[string]func(*Testnet){
		"no organisation":   func(n *Testnet) { n.Organisations = nil },
		"twice":             func(n *Testnet) { n.Organisations = []string{"a", "b", "a"} },
		"ports":             func(n *Testnet) { n.BasePort = 65520 },
		"\"bolt\" is named": func(n *Testnet) { n.OrderingOnly, n.Powers = []string{"bolt"}, nil },
		"2 powers":          func(n *Testnet) { n.Powers = []int64{1, 2} },
		"power 1 is 0":      func(n *Testnet) { n.Powers = []int64{1, 0, 1} },
		"chain_id":          func(n *Testnet) { n.ChainID = "No" },
		"mode":              func(n *Testnet) { n.Mode = "fast" },
		"consent":           func(n *Testnet) { n.Consent = 4 },
	} {
		n := testnet(filepath.Join(t.TempDir(), "net"))
		change(&n)
		if _, err := n.Create(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestGenesisParts(t *testing.T) {
	h := Home(t.TempDir() + "/a")
	must.Do(t, h.Create(Default("acme")))
	p, err := h.Part("acme", "acme.example:26656")
	must.Do(t, err)
	again := p
	again.ValidatorKey = bytes.Repeat([]byte{5}, 32)
	f := Founding{ChainID: "test", Time: time.Unix(1_700_000_000, 0).UTC(), Parts: []Part{p, again}}
	one, err := f.Genesis()
	must.Do(t, err)
	if two, err := f.Genesis(); err != nil || !bytes.Equal(one, two) {
		t.Fatal("the same founding gives different files")
	}
	again.OrderingOnly = true
	f.Parts = []Part{p, again}
	if _, err := f.Genesis(); err == nil || !strings.Contains(err.Error(), "only orders in one of its parts") {
		t.Fatal(err)
	}
	again.OrderingOnly = false
	again.GatewayKey = bytes.Repeat([]byte{6}, 32)
	f.Parts = []Part{p, again}
	if _, err := f.Genesis(); err == nil || !strings.Contains(err.Error(), "two gateway keys") {
		t.Fatal(err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "chainify init") {
		t.Errorf("load of an empty directory: %v", err)
	}
}

// A part that was changed on its way, or is of keys that its maker does not have, is refused.
func TestGenesisPartsAreSigned(t *testing.T) {
	h := Home(t.TempDir() + "/a")
	must.Do(t, h.Create(Default("acme")))
	unsigned, err := h.Part("acme", "acme.example:26656")
	must.Do(t, err)
	signed, err := h.SignPart(unsigned)
	must.Do(t, err)
	read := func(p Part) error {
		text, err := json.Marshal(p)
		must.Do(t, err)
		_, err = ParsePart(text)
		return err
	}
	must.Do(t, read(signed))
	for name, change := range map[string]func(*Part){
		"unsigned":                 func(p *Part) { *p = unsigned },
		"organisation":             func(p *Part) { p.Organisation = "bolt" },
		"gateway key":              func(p *Part) { p.GatewayKey = bytes.Repeat([]byte{5}, 32) },
		"validator key":            func(p *Part) { p.ValidatorKey = bytes.Repeat([]byte{5}, 32) },
		"power":                    func(p *Part) { p.Power++ },
		"ordering only":            func(p *Part) { p.OrderingOnly = true },
		"node":                     func(p *Part) { p.Node += "0" },
		"gateway's signature":      func(p *Part) { p.GatewaySignature = p.ValidatorSignature },
		"validator's is another's": func(p *Part) { p.ValidatorSignature = p.GatewaySignature },
	} {
		changed := signed
		change(&changed)
		if err := read(changed); err == nil || !strings.Contains(err.Error(), "_signature is not that of") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTestnetOnHostsOfTheirOwn(t *testing.T) {
	n := testnet(t.TempDir())
	n.HostTemplate, n.Socket, n.Users = "node-{organisation}", "/run/chainify/node.sock", []string{"999", "10001"}
	homes, err := n.Create()
	must.Do(t, err)
	for i, h := range homes {
		c, err := Load(string(h))
		must.Do(t, err)
		if c.Network.Listen != "0.0.0.0:30000" || c.HTTP.Listen != "127.0.0.1:30001" || c.Metrics.Listen != "0.0.0.0:30003" {
			t.Errorf("addresses %+v, %+v, %+v", c.Network.Listen, c.HTTP, c.Metrics)
		}
		other := "@node-" + n.Organisations[(i+1)%len(n.Organisations)] + ":30000"
		if !slices.ContainsFunc(c.Network.Peers, func(p string) bool { return strings.HasSuffix(p, other) }) {
			t.Errorf("%s is not among %v", other, c.Network.Peers)
		}
		if uids, err := c.AllowedUIDs(); h.Path(c.Clients.Socket) != n.Socket || err != nil || len(uids) != 2 {
			t.Errorf("socket %+v, %v", c.Clients, err)
		}
	}
}
