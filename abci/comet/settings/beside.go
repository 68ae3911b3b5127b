package settings

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	comet "github.com/cometbft/cometbft/config"

	"github.com/chainify-db/chainify/abci/config"
	"github.com/chainify-db/chainify/abci/wire"
)

// rpcBytesMax bounds a request to CometBFT's RPC: a bundle in base64, with what is around it.
const rpcBytesMax = 2 * (wire.BundleBytesMax + 4096)

// Beside is the configuration of a CometBFT that is a process of its own. Peers see moniker.
// Nothing is written.
func Beside(c config.Config, home config.Home, moniker string) (*comet.Config, error) {
	out, err := Inside(c, home)
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

// WriteBeside writes the file of a CometBFT that is a process of its own, and tells whether it was
// another before.
func WriteBeside(c config.Config, home config.Home, moniker string) (changed bool, err error) {
	made, err := Beside(c, home, moniker)
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
