package config

import (
	"fmt"
	"path/filepath"
	"strings"
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
