package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	comet "github.com/cometbft/cometbft/config"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/must"
)

// besideHome is a home with a short path: that of a socket is bounded.
func besideHome(t *testing.T) config.Home {
	t.Helper()
	dir, err := os.MkdirTemp("", "chainify-config")
	must.Do(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.Do(t, config.Home(dir).Create(config.Default("acme")))
	return config.Home(dir)
}

func TestCometBFTBesideIsSetForChainify(t *testing.T) {
	home, c := besideHome(t), config.Default("acme")
	c.Network.RPCListen = "127.0.0.1:26657"
	out, err := Beside(c, home, "acme 00:xx")
	must.Do(t, err)
	data := "unix://" + home.Path("data") + "/cometbft-"
	for what, pair := range map[string][2]string{
		"moniker": {out.Moniker, "acme 00:xx"}, "application": {out.ProxyApp, data + "application.sock"},
		"signer": {out.PrivValidatorListenAddr, data + "signer.sock"}, "RPC": {out.RPC.ListenAddress, data + "rpc.sock,tcp://127.0.0.1:26657"},
		"persistent peers": {out.P2P.PersistentPeers, ""},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	if !out.FilterPeers || !out.RPC.Unsafe || !out.Mempool.Broadcast || out.P2P.PexReactor || out.Instrumentation.Prometheus {
		t.Errorf("CometBFT asks nobody about peers, or is open: %+v", out.BaseConfig)
	}
	if out.PrivValidatorKeyFile() == home.Path("config", "priv_validator_key.json") || out.PrivValidatorStateFile() == home.Path("data", "priv_validator_state.json") {
		t.Errorf("CometBFT would sign with the home's key: %s", out.PrivValidatorKeyFile())
	}
}

// The file is CometBFT's own, and is written only when it changes.
func TestTheFileOfCometBFTIsWrittenOnce(t *testing.T) {
	home, c := besideHome(t), config.Default("acme")
	for _, want := range []bool{true, false} {
		changed, err := WriteBeside(c, home, "acme")
		if err != nil || changed != want {
			t.Fatalf("changed %v, %v, want %v", changed, err, want)
		}
	}
	if changed, err := WriteBeside(c, home, "acme, with another key"); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	info, err := os.Stat(home.CometFile())
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	text, err := os.ReadFile(home.CometFile())
	must.Do(t, err)
	if lines := "filter_peers = true"; !strings.Contains(string(text), lines) || !strings.Contains(string(text), "version = \""+comet.DefaultConfig().Version) {
		t.Errorf("the file lacks %q or its version", lines)
	}
	if left, _ := filepath.Glob(home.CometFile() + ".*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
