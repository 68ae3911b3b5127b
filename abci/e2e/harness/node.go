package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	nodeStopLimit = 20 * time.Second
	// portsPerNode is how many consecutive ports `chainify testnet` takes for each home.
	portsPerNode = 10
	// NodeRole is the login role of every node in its own database, a member of chainify_node.
	NodeRole = "chainify_login"
)

// Home is the node's directory.
func (o *Organisation) Home() string { return filepath.Join(o.net.Dir, "nodes", o.Name) }

// Socket is where the node listens for its PostgreSQL.
func (o *Organisation) Socket() string { return filepath.Join(o.net.Dir, "run", o.Name+".sock") }

func (o *Organisation) nodeLog() string { return filepath.Join(o.Cluster.dir, "node.log") }

// InitNodes makes keys, genesis and configuration of all nodes with `chainify testnet`.
func (n *Network) InitNodes(ctx context.Context) error {
	names := make([]string, len(n.Organisations))
	for i, o := range n.Organisations {
		names[i] = o.Name
	}
	base, err := freePorts(portsPerNode * (len(names) + len(n.Orderers)))
	if err != nil {
		return err
	}
	args := []string{
		"testnet", "--organisations", strings.Join(names, ","), "--dir", filepath.Join(n.Dir, "nodes"),
		"--base-port", fmt.Sprint(base), "--consent", fmt.Sprint(n.consent),
	}
	for _, o := range n.Orderers {
		args = append(args, "--ordering-only", o.Name)
	}
	if _, err := n.account.Run(ctx, n.Dir, n.chainify, args...); err != nil {
		return err
	}
	for _, o := range n.Organisations {
		if err := o.configureNode(); err != nil {
			return err
		}
	}
	return nil
}

// configureNode points the node's configuration at its database and socket.
func (o *Organisation) configureNode() error {
	path := filepath.Join(o.Home(), "chainify.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"dsn":    o.Cluster.DSN(o.net.Database, NodeRole),
		"socket": o.Socket(),
	} {
		line := regexp.MustCompile(`(?m)^` + key + `\s*=.*$`)
		if !line.Match(text) {
			return fmt.Errorf("%s has no setting %s", path, key)
		}
		text = line.ReplaceAllLiteral(text, []byte(fmt.Sprintf("%s = %q", key, value)))
	}
	return os.WriteFile(path, text, 0o600)
}

// StartNode runs the node; it does not wait until it serves.
func (o *Organisation) StartNode() error {
	p, err := o.net.account.start("node-"+o.Name, o.Home(), o.nodeLog(), filepath.Join(o.net.Dir, "pids"), o.net.chainify, "start", "--home", o.Home())
	if err != nil {
		return err
	}
	o.node = p
	return nil
}

// StopNode ends the node as an operator would.
func (o *Organisation) StopNode() error {
	if o.node == nil {
		return nil
	}
	return o.node.stop(syscall.SIGTERM, nodeStopLimit)
}

// KillNode ends the node at once.
func (o *Organisation) KillNode() {
	if o.node != nil {
		o.node.kill()
	}
}

// NodeRunning says whether the node's process runs.
func (o *Organisation) NodeRunning() bool { return o.node.Running() }

func (o *Orderer) home() string { return filepath.Join(o.net.Dir, "nodes", o.Name) }

func (o *Orderer) nodeLog() string { return filepath.Join(o.net.Dir, "nodes", o.Name+".log") }

// StartNode runs the node; it does not wait until it orders.
func (o *Orderer) StartNode() (err error) {
	o.node, err = o.net.account.start("node-"+o.Name, o.home(), o.nodeLog(), filepath.Join(o.net.Dir, "pids"), o.net.chainify, "start", "--home", o.home())
	return err
}

// StopNode ends the node as an operator would.
func (o *Orderer) StopNode() error {
	if o.node == nil {
		return nil
	}
	return o.node.stop(syscall.SIGTERM, nodeStopLimit)
}

// Run runs a command of chainify on the node's home and returns what it printed.
func (o *Orderer) Run(ctx context.Context, command string, args ...string) (string, error) {
	return o.net.account.Run(ctx, o.net.Dir, o.net.chainify, append([]string{command, "--home", o.home()}, args...)...)
}

// WaitServing waits until the node says that nothing is wrong with it: it votes and orders.
func (o *Orderer) WaitServing(ctx context.Context, limit time.Duration) error {
	return Poll(ctx, limit, "node of "+o.Name, func(ctx context.Context) (bool, string, error) {
		if !o.node.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", o.node.tail(15))
		}
		if _, err := o.Run(ctx, "status"); err != nil {
			return false, err.Error(), nil
		}
		return true, "", nil
	})
}

// WaitServing waits until the node of this organisation says that it serves.
func (o *Organisation) WaitServing(ctx context.Context, limit time.Duration) error {
	return Poll(ctx, limit, "node of "+o.Name, func(ctx context.Context) (bool, string, error) {
		if !o.node.Running() {
			return false, "", fmt.Errorf("it ended:\n%s", o.node.tail(15))
		}
		state, err := o.State(ctx)
		if err != nil {
			return false, err.Error(), nil
		}
		return state == "serving" || state == "executing", "state is " + state, nil
	})
}

// State asks the node through its database, as any client can.
func (o *Organisation) State(ctx context.Context) (string, error) {
	var state *string
	if err := o.Scan(ctx, "SELECT state FROM chainify.status", &state); err != nil {
		return "", err
	}
	if state == nil {
		return "", errors.New("the node does not answer")
	}
	return *state, nil
}
