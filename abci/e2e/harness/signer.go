package harness

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

func (n *Node) signerHome() string { return filepath.Join(n.net.Dir, "nodes", n.Name+"-signer") }

func (n *Node) signerAddress() string {
	return "unix://" + filepath.Join(n.net.Dir, "run", n.Name+"-signer.sock")
}

// SeparateSigner takes the validator key, and what it signed last, out of the home of a node that
// does not run. A process of its own has them (StartSigner).
func (n *Node) SeparateSigner() error {
	genesis, err := os.ReadFile(filepath.Join(n.Home(), "config", "genesis.json"))
	if err != nil {
		return err
	}
	for _, sub := range []string{"", "config", "data"} {
		if err := n.net.mkdir(filepath.Join("nodes", n.Name+"-signer", sub)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(n.signerHome(), "config", "genesis.json"), genesis, 0o644); err != nil {
		return err
	}
	moved := 0
	for _, pattern := range []string{"config/priv_validator_key*", "data/priv_validator_state*"} {
		files, err := filepath.Glob(filepath.Join(n.Home(), pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Rename(file, filepath.Join(n.signerHome(), filepath.Dir(pattern), filepath.Base(file))); err != nil {
				return err
			}
			moved++
		}
	}
	if moved < 2 {
		return errors.New("the home has no validator key with its last signature")
	}
	return n.Configure(map[string]any{"signer_listen": n.signerAddress()})
}

// StartSigner runs the process that has the validator key.
func (n *Node) StartSigner() (err error) {
	n.signer, err = n.net.account.start(server{
		name: "signer-" + n.Name, dir: n.signerHome(), log: filepath.Join(n.net.Dir, n.Name, "signer.log"), pids: filepath.Join(n.net.Dir, "pids"),
		path: n.net.chainify, args: []string{"signer", "--home", n.signerHome(), "--node", n.signerAddress()}, host: n.net.lan.host(n.Name),
	})
	return err
}

// StopSigner ends it.
func (n *Node) StopSigner() error {
	if n.signer == nil {
		return nil
	}
	return n.signer.stop(syscall.SIGTERM, nodeStopLimit)
}
