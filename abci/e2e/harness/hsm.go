package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	softHSM  = "/usr/lib/softhsm/libsofthsm2.so"
	tokenPIN = "2718"
)

func (n *Node) tokenDir() string   { return filepath.Join(n.net.Dir, "nodes", n.Name+"-hsm") }
func (n *Node) keyHolder() string  { return filepath.Join(n.net.Dir, "bin", "chainify-hsm") }
func (n *Node) tokenPlace() string { return filepath.Join(n.tokenDir(), "tokens") }

// KeyHolder is the address of the organisation's key holder.
func (n *Node) KeyHolder() string {
	return "unix://" + filepath.Join(n.net.Dir, "run", n.Name+"-keys.sock")
}

func (n *Node) tokenEnvironment(pin string) []string {
	return []string{"SOFTHSM2_CONF=" + filepath.Join(n.tokenDir(), "softhsm2.conf"), "CHAINIFY_HSM_PIN=" + pin}
}

// MakeToken makes a SoftHSM token for the organisation. program is chainify-hsm.
func (n *Node) MakeToken(ctx context.Context, program string) error {
	for _, sub := range []string{"", "tokens", "config", "data"} {
		if err := n.net.mkdir(filepath.Join("nodes", n.Name+"-hsm", sub)); err != nil {
			return err
		}
	}
	genesis, err := os.ReadFile(filepath.Join(n.Home(), "config", "genesis.json"))
	if err != nil {
		return err
	}
	settings := fmt.Appendf(nil, "directories.tokendir = %s\nobjectstore.backend = file\nlog.level = ERROR\n", n.tokenPlace())
	if err := errors.Join(
		os.WriteFile(filepath.Join(n.tokenDir(), "config", "genesis.json"), genesis, 0o644),
		os.WriteFile(filepath.Join(n.tokenDir(), "softhsm2.conf"), settings, 0o644), copyProgram(program, n.keyHolder()),
	); err != nil {
		return err
	}
	cmd := n.net.account.Command(ctx, n.tokenDir(), "softhsm2-util", "--init-token", "--free", "--label", n.Name, "--pin", tokenPIN, "--so-pin", tokenPIN)
	cmd.Env = append(cmd.Env, n.tokenEnvironment(tokenPIN)...)
	_, err = run(cmd)
	return err
}

// RunKeyHolder runs a command of chainify-hsm on the organisation's token.
func (n *Node) RunKeyHolder(ctx context.Context, pin, command string, args ...string) (string, error) {
	cmd := n.net.account.Command(ctx, n.tokenDir(), n.keyHolder(), append([]string{command, "--module", softHSM, "--token", n.Name}, args...)...)
	cmd.Env = append(cmd.Env, n.tokenEnvironment(pin)...)
	return run(cmd)
}

// TokenHome is the directory of what the token's validator keys signed last.
func (n *Node) TokenHome() string { return n.tokenDir() }

// TokenPIN is the token's PIN.
func (n *Node) TokenPIN() string { return tokenPIN }

// StartKeyHolder has the keys of the token sign. StopSigner ends it.
func (n *Node) StartKeyHolder() (err error) {
	n.signer, err = n.net.account.start(server{
		name: "keys-" + n.Name, dir: n.tokenDir(), log: filepath.Join(n.net.Dir, n.Name, "keys.log"), pids: filepath.Join(n.net.Dir, "pids"),
		path: n.keyHolder(), args: []string{"serve", "--home", n.tokenDir(), "--listen", n.KeyHolder(), "--module", softHSM, "--token", n.Name},
		env: n.tokenEnvironment(tokenPIN), host: n.net.lan.host(n.Name),
	})
	return err
}

// TakeTokenAway has the token be away, as a module that is unplugged; GiveTokenBack ends that.
func (n *Node) TakeTokenAway() error { return os.Rename(n.tokenPlace(), n.tokenPlace()+".away") }

// GiveTokenBack brings the token back.
func (n *Node) GiveTokenBack() error { return os.Rename(n.tokenPlace()+".away", n.tokenPlace()) }

// UseKeyHolder has the node's keys be those of the key holder, and none be in its home.
func (n *Node) UseKeyHolder() error {
	for _, pattern := range []string{"config/gateway_key*", "config/priv_validator_key*", "data/priv_validator_state*"} {
		files, err := filepath.Glob(filepath.Join(n.Home(), pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return n.Configure(map[string]any{"holder": n.KeyHolder()})
}
