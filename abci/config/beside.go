package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	comet "github.com/cometbft/cometbft/config"

	"github.com/chainify-db/chainify/abci/wire"
)

// CometBFT says where it and "chainify app" meet, when it is a process of its own.
type CometBFT struct {
	Application string `toml:"application"` // empty: a socket in data/, as the others
	RPC         string `toml:"rpc"`
	Signer      string `toml:"signer"`
}

// Sockets are the addresses at which "chainify app" and CometBFT meet: unix:///PATH or
// tcp://HOST:PORT. The application listens at the first, CometBFT at the others.
type Sockets struct{ Application, RPC, Signer string }

// socketPathMax is what sockaddr_un holds on Linux, less the terminating zero.
const socketPathMax = 107

// rpcBytesMax bounds a request to CometBFT's RPC: a bundle in base64, with what is around it.
const rpcBytesMax = 2 * (wire.BundleBytesMax + 4096)

// Sockets gives the configured addresses, or those in the home. Paths that the system cannot use
// are errors.
func (c *Config) Sockets(home Home) (Sockets, error) {
	data, err := filepath.Abs(home.Data())
	if err != nil {
		return Sockets{}, err
	}
	s := Sockets{c.CometBFT.Application, c.CometBFT.RPC, c.CometBFT.Signer}
	for _, of := range []struct {
		key     string
		address *string
	}{{"application", &s.Application}, {"rpc", &s.RPC}, {"signer", &s.Signer}} {
		if *of.address == "" {
			*of.address = "unix://" + filepath.Join(data, "cometbft-"+of.key+".sock")
		}
		if err := CheckSignerAddress(*of.address); err != nil {
			return s, fmt.Errorf("cometbft.%s: %w", of.key, err)
		}
		if path, unix := strings.CutPrefix(*of.address, "unix://"); unix && len(path) > socketPathMax {
			return s, fmt.Errorf("cometbft.%s: %s has %d bytes, a Unix socket's path has at most %d", of.key, path, len(path), socketPathMax)
		}
	}
	return s, nil
}

// checkCometBFT refuses addresses that others reach: nothing shows which process connects.
func (c *Config) checkCometBFT() error {
	for key, address := range map[string]string{"application": c.CometBFT.Application, "rpc": c.CometBFT.RPC, "signer": c.CometBFT.Signer} {
		if address == "" {
			continue
		}
		if err := CheckSignerAddress(address); err != nil {
			return fmt.Errorf("cometbft.%s: %w", key, err)
		}
		if where, tcp := strings.CutPrefix(address, "tcp://"); tcp && !onLoopback(where) {
			return fmt.Errorf("cometbft.%s: %q is not on loopback, and nothing shows which process connects; both processes run on one machine", key, address)
		}
	}
	return nil
}

// CometFile is the configuration of a CometBFT that is a process of its own.
func (h Home) CometFile() string { return h.Path("config", "config.toml") }

// CometBeside is the configuration of a CometBFT that is a process of its own. Peers see moniker.
// Nothing is written.
func (c *Config) CometBeside(home Home, moniker string) (*comet.Config, error) {
	out, err := c.Comet(string(home))
	if err != nil {
		return nil, err
	}
	sockets, err := c.Sockets(home)
	if err != nil {
		return nil, err
	}
	out.Moniker, out.FilterPeers = moniker, true
	out.ProxyApp, out.ABCI = sockets.Application, "socket"
	out.LogLevel, out.LogFormat = c.Log.CometLevel, comet.LogFormatPlain
	if c.Log.Format == "json" {
		out.LogFormat = comet.LogFormatJSON
	}
	// The application signs with the home's keys. CometBFT makes a key that it does not use.
	out.PrivValidatorListenAddr = sockets.Signer
	out.PrivValidatorKey = filepath.Join("data", "cometbft-unused-key.json")
	out.PrivValidatorState = filepath.Join("data", "cometbft-unused-state.json")

	out.RPC.ListenAddress = sockets.RPC
	if c.Network.RPCListen != "" {
		out.RPC.ListenAddress += ",tcp://" + c.Network.RPCListen
	}
	out.RPC.Unsafe = true // the application has it dial
	out.RPC.MaxBodyBytes = rpcBytesMax
	out.Mempool.Broadcast = true // nothing else carries bundles to the others
	out.Instrumentation.Prometheus = false
	if err := out.ValidateBasic(); err != nil {
		return nil, fmt.Errorf("configuration of CometBFT: %w", err)
	}
	return out, nil
}

// WriteComet writes the file of a CometBFT that is a process of its own, and tells whether it was
// another before.
func (c *Config) WriteComet(home Home, moniker string) (changed bool, err error) {
	made, err := c.CometBeside(home, moniker)
	if err != nil {
		return false, err
	}
	path := home.CometFile()
	beside := path + ".new"
	if err := os.WriteFile(beside, nil, 0o600); err != nil { // CometBFT's writer would end the process
		return false, err
	}
	comet.WriteConfigFile(beside, made)
	text, err := os.ReadFile(beside)
	if err != nil {
		return false, err
	}
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if bytes.Equal(before, text) {
		return false, os.Remove(beside)
	}
	return true, os.Rename(beside, path)
}
